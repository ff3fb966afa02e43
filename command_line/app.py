"""From a command line to a command's work: parsing, ``--help``, exit status, logging.

``run`` parses the flags, checks them, and calls the script's work with one instance of each of its
groups (``options``). Flags are parsed by absl, so every spelling that worked with the original
release works here (``--do_train``, ``--nodo_train``, ``--do_train=true``, ``--x 3``,
``--flagfile=…``).

TensorFlow is not imported here: ``--help`` and flag errors answer at once.
"""

import importlib
import logging
import os
import re
import signal
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from command_line import errors, parser
from system import signals, streams


def run(
    work: Callable[..., None] | str,
    groups: Sequence[type],
    doc: str | None,
    argv: Sequence[str] | None = None,
    *,
    prepare: Callable[..., Any] | str | None = None,
    needs_tensorflow: bool = True,
) -> int:
    """Runs a command: parses flags, does the work, turns user errors into one line.

    The order keeps mistakes cheap: ``--help`` and the flags need neither TensorFlow nor any file,
    ``prepare`` needs no TensorFlow, and only then is the module of the work imported.

    Args:
      work: what to do, called with one instance of each group; a function, or a text
        "package.module:function" for one whose module takes time to import.
      groups: the flag groups of the command.
      doc: the command's docstring, shown by ``--help``.
      argv: the command line with the program's name first; default ``sys.argv``.
      prepare: called with the instances first; checks flags of several groups against each other,
        and may read data; a function, or its name if its module takes time to import. What it
        returns, unless None, is the first argument of ``work``.
      needs_tensorflow: whether to import TensorFlow before the module that ``work`` names, which
        hides the banner of its libraries.

    Returns:
      The exit status: 0, 1 (data or files), 2 (flags), 128 + the signal that stopped the command.
    """
    argv = list(sys.argv if argv is None else argv)
    program = os.path.basename(argv[0])
    with streams.surviving_readers():
        if any(argument in parser.HELP_FLAGS for argument in argv[1:]):
            print(parser.usage(groups, doc or "", program))
            return 0
        return _run(work, groups, argv, program, prepare, needs_tensorflow)


def _run(
    work: Callable[..., None] | str,
    groups: Sequence[type],
    argv: Sequence[str],
    program: str,
    prepare: Callable[..., Any] | str | None,
    needs_tensorflow: bool,
) -> int:
    """Does the work of ``run``; the program's name stands before an error."""
    debug = "--debug" in argv
    interrupts = _count_interrupts()
    try:
        with interrupts:
            instances, debug = parser.parse(argv[1:], groups, program)
            set_up_logging()
            prepared = _resolve(prepare)(*instances) if prepare else None
            if isinstance(work, str) and needs_tensorflow:
                import_tensorflow()
            first = () if prepared is None else (prepared,)
            _resolve(work)(*first, *instances)
        return 0
    except errors.Stopped as stopped:
        return stopped.exit_status
    except (Exception, KeyboardInterrupt) as error:
        message, status = _describe(error, bool(interrupts.count))
        message = _name_remote_flags(message, argv)
        if debug or not message:
            raise
        print(f"{program}: error: {' '.join(message.split())}", file=sys.stderr, flush=True)
        return status


def _count_interrupts() -> signals.StopRequests:
    """Counts each Ctrl-C before it becomes a KeyboardInterrupt.

    One that lands while TensorFlow builds a graph comes out of its C code as some other error.
    """
    usual = signal.default_int_handler
    names = ["SIGINT"] if signal.getsignal(signal.SIGINT) is usual else []
    return signals.StopRequests(*names, then=usual)


def _describe(error: BaseException, interrupted: bool) -> tuple[str, int]:
    """The message of an error and the exit status; the message is empty if the error is a bug."""
    if isinstance(error, errors.UserError):
        return str(error), error.exit_status
    if isinstance(error, OSError):
        return f"{error.filename or 'input/output'}: {error.strerror or error}", 1
    if interrupted or isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    return _file_error(error) or "", 1


def _name_remote_flags(message: str, argv: Sequence[str]) -> str:
    """A message with the flags whose remote path it is about, and the cure; others as they are."""
    scheme = re.search(r"\b[a-z][a-z0-9]*://", message)
    remote = [item for item in argv if scheme and f"={scheme[0]}" in item]
    if not scheme or not remote or message.startswith("--"):
        return message
    return (
        f"{' '.join(remote)}: {scheme[0]} is not reached: {message}; check network and "
        "credentials, or give local paths"
    )


def _file_error(error: BaseException) -> str | None:
    """What TensorFlow says of files, disk or memory, in one line; None for any other error."""
    tf = sys.modules.get("tensorflow")
    if tf is None or not isinstance(error, tf.errors.OpError):
        return None
    message = errors.reason(error)
    path, is_full, _ = message.partition("No space left on device")
    if is_full:
        return f"the disk is full: {path}{is_full}; make room and run again"
    if isinstance(error, tf.errors.ResourceExhaustedError):
        return f"out of memory: {message}; a smaller model or batch needs less"
    about_files = (
        tf.errors.NotFoundError,
        tf.errors.PermissionDeniedError,
        tf.errors.UnimplementedError,
        tf.errors.FailedPreconditionError,
        tf.errors.DataLossError,
        tf.errors.AlreadyExistsError,
    )
    return message if isinstance(error, about_files) else None


class _Formatter(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        mark = {logging.WARNING: "warning: ", logging.ERROR: "error: "}.get(record.levelno, "")
        return f"{self.formatTime(record, '%H:%M:%S')} {mark}{record.getMessage()}"


def _resolve(function: Callable[..., Any] | str) -> Callable[..., Any]:
    """The function itself, or the one that "package.module:function" names."""
    if not isinstance(function, str):
        return function
    module, _, name = function.partition(":")
    return getattr(importlib.import_module(module), name)


def import_tensorflow() -> None:
    """Imports TensorFlow without the banner its libraries print; it is shown if that fails."""
    sys.stderr.flush()
    shown = os.dup(2)
    with tempfile.TemporaryFile() as banner:
        os.dup2(banner.fileno(), 2)
        try:
            import tensorflow as tf

            tf.config.list_physical_devices("GPU")  # the search for GPUs prints, too
        except BaseException:
            banner.seek(0)
            os.write(shown, banner.read())
            raise
        finally:
            os.dup2(shown, 2)
            os.close(shown)


def set_up_logging() -> None:
    """Sets logging up and TensorFlow's environment, which must stand before its import."""
    # oneDNN: 1.45 times the float32 matrix products a second on this kind of CPU.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    chatter = logging.getLogger("tensorflow")  # which all-reduces several devices run, and such
    if chatter.level == logging.NOTSET:
        chatter.setLevel(logging.WARNING)
    root = logging.getLogger()
    if not root.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(_Formatter())
        root.addHandler(handler)
        root.setLevel(logging.INFO)
