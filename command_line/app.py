"""From a command line to a script's work: parsing, ``--help``, exit status, logging.

``run`` parses the flags, checks them, and calls the script's work with one instance of each of its
groups (``options``). Flags are parsed by absl, so every spelling that worked with the original
release works here (``--do_train``, ``--nodo_train``, ``--do_train=true``, ``--x 3``,
``--flagfile=…``).

TensorFlow is not imported here: ``--help`` and flag errors answer at once.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import re
import signal
import sys
import tempfile
import threading
import typing
from collections.abc import Callable, Iterator, Sequence

from command_line import errors, parser


def run(
    work: str | Callable[..., None],
    groups: Sequence[type],
    doc: str,
    argv: Sequence[str] | None = None,
    *,
    check: Callable[..., None] | None = None,
) -> int:
    """Runs a script: parses flags, calls ``work(*instances)``, turns user errors into one line.

    Args:
      work: the script's work; takes one instance of each group. A string "module:function" names
        work that needs TensorFlow: the module is imported once the flags are parsed and checked.
      groups: the flag groups of the script.
      doc: the script's docstring, shown by ``--help``.
      argv: the command line with the program's name first; default ``sys.argv``.
      check: finds contradictions between flags of several groups; takes the same arguments as the
        work. Those within one group are found by its ``__post_init__``.

    Returns:
      The exit status: 0, 1 (data or files), 2 (flags), 130 (interrupted).
    """
    argv = list(sys.argv if argv is None else argv)
    program = os.path.basename(argv[0])
    if any(argument in parser.HELP_FLAGS for argument in argv[1:]):
        with contextlib.suppress(BrokenPipeError):  # --help | head
            print(parser.usage(groups, doc, program))
            sys.stdout.flush()
        return 0
    debug = "--debug" in argv
    interrupts: list[int] = []
    try:
        with _counted(interrupts):
            instances, debug = parser.parse(argv[1:], groups, program)
            if check is not None:
                check(*instances)
            _prepare()
            function = _import_work(work) if isinstance(work, str) else work
            function(*instances)
        return 0
    except errors.UserError as error:
        return _fail(program, str(error), error.exit_status, debug)
    except OSError as error:
        return _fail(
            program, f"{error.filename or 'input/output'}: {error.strerror or error}", 1, debug
        )
    except KeyboardInterrupt:
        return _fail(program, "interrupted", 130, debug)
    except Exception as error:  # TensorFlow's own errors about files; anything else is a bug
        if interrupts:
            return _fail(program, "interrupted", 130, debug)
        line = _file_system_trouble(error)
        if line is None:
            raise
        return _fail(program, line, 1, debug)


def _import_work(path: str) -> Callable[..., None]:
    """The function that "module:function" names; TensorFlow is imported first, without banner."""
    module, _, name = path.partition(":")
    import_tensorflow()
    return getattr(importlib.import_module(module), name)


@contextlib.contextmanager
def _counted(interrupts: list[int]) -> Iterator[None]:
    """Notes each Ctrl-C before it becomes a KeyboardInterrupt.

    One that lands while TensorFlow builds a graph comes out of its C code as some other error.
    """
    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()  # only this one gets signals
    if not is_main or before is not signal.default_int_handler:
        yield
        return

    def note(number: int, frame: typing.Any) -> None:
        interrupts.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, note)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _fail(program: str, message: str, status: int, debug: bool) -> int:
    if debug:
        raise  # noqa: PLE0704 - called from an except block
    print(f"{program}: error: {' '.join(message.split())}", file=sys.stderr, flush=True)
    return status


def _file_system_trouble(error: Exception) -> str | None:
    tf = sys.modules.get("tensorflow")
    if tf is None:
        return None
    message = (
        re.sub(r"\{\{.*?\}\}|\[Op:\w+\]|name:\s*$", "", error.message)
        if isinstance(error, tf.errors.OpError)
        else ""
    )
    if "No space left" in message:
        return f"the disk is full: {message.strip().splitlines()[0]}; make room and run again"
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


def _prepare() -> None:
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
