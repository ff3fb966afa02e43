"""From a command line to a script's work: parsing, ``--help``, exit status, logging.

``run`` parses the flags, checks them, and calls the script's work with one instance of each of its
groups (``options``). Flags are parsed by absl, so every spelling that worked with the original
release works here (``--do_train``, ``--nodo_train``, ``--do_train=true``, ``--x 3``,
``--flagfile=…``).

TensorFlow is not imported here: ``--help`` and flag errors answer at once.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import math
import os
import re
import signal
import sys
import tempfile
import textwrap
import threading
import typing
from collections.abc import Callable, Iterator, Sequence

from absl import flags

import errors

_HELP = ("-h", "--help", "-help", "--helpshort", "--helpfull")


def parse(argv: Sequence[str], groups: Sequence[type], program: str = "") -> tuple[list, bool]:
    """Parses a command line.

    Args:
      argv: the arguments, without the program's name.
      groups: dataclasses of ``options``.
      program: name for messages.

    Returns:
      One instance of each group, and whether ``--debug`` was given.

    Raises:
      errors.FlagError: naming the flag, what was found and what was expected.
    """
    values = flags.FlagValues()
    flags.DEFINE_bool("debug", False, "Show the traceback of an error.", flag_values=values)
    for group in groups:
        for field in dataclasses.fields(group):
            _define(field, typing.get_type_hints(group)[field.name], values)
    try:
        rest = values([program, *argv])[1:]
    except flags.UnrecognizedFlagError as error:
        near = errors.suggest(error.flagname, list(values))
        raise errors.FlagError(
            f"unknown flag --{error.flagname}{near} (--help lists all)"
        ) from None
    except flags.IllegalFlagValueError as error:
        raise errors.FlagError(_illegal(str(error), values)) from None
    except flags.CantOpenFlagFileError as error:
        raise errors.FlagError(_unreadable(error)) from None
    except UnicodeDecodeError:  # an argument cannot raise it, its stray bytes are surrogates
        raise errors.FlagError("--flagfile: the file is not UTF-8 text") from None
    except flags.Error as error:
        raise errors.FlagError(" ".join(str(error).split())) from None
    if rest:
        raise errors.FlagError(
            f"unexpected argument {rest[0]!r}; flags are written --name=value (is there a stray "
            f"space?)"
        )
    return [_instance(group, values) for group in groups], values.debug


def _illegal(message: str, values: flags.FlagValues) -> str:
    """absl's message about a value, in terms of what the flag takes."""
    found = re.match(r"flag --(\w+)=(.*?):", message, re.DOTALL)
    if found is None:
        return message
    kinds = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    kind = kinds.get(values[found.group(1)].flag_type(), "another value")
    return f"--{found.group(1)}={found.group(2)}: expected {kind}"


def _unreadable(error: flags.CantOpenFlagFileError) -> str:
    """absl's message about a flag file, without its own mark of an error."""
    cause = error.__context__
    if not isinstance(cause, OSError):
        return str(error).removeprefix("ERROR:: ")
    return f"--flagfile={cause.filename}: {cause.strerror}; expected a file with a flag a line"


def _define(field: dataclasses.Field, kind: typing.Any, values: flags.FlagValues) -> None:
    about = field.metadata["help"]
    default: typing.Any = field.default
    if kind is bool or kind == (bool | None):
        flags.DEFINE_bool(field.name, default, about, flag_values=values)
    elif kind is int:
        flags.DEFINE_integer(field.name, default, about, flag_values=values)
    elif kind is float:
        flags.DEFINE_float(field.name, default, about, flag_values=values)
    else:
        flags.DEFINE_string(field.name, default, about, flag_values=values)


def _instance(group: type, values: flags.FlagValues) -> typing.Any:
    found = {}
    for field in dataclasses.fields(group):
        value = found[field.name] = values[field.name].value
        rule = field.metadata
        shown = f"--{field.name}={value}"
        if rule["required"] and not value:
            raise errors.FlagError(f"--{field.name} is missing: {rule['help']}")
        if rule["choices"] and value not in rule["choices"]:
            raise errors.FlagError(f"{shown}: expected one of {', '.join(rule['choices'])}")
        if isinstance(value, str) and not _is_utf8(value):
            raise errors.FlagError(f"--{field.name}={value!a}: the value is not UTF-8 text")
        if isinstance(value, int) and abs(value) > 2**31 - 1:
            raise errors.FlagError(f"{shown}: expected at most {2**31 - 1}")
        if isinstance(value, float) and not math.isfinite(value):
            raise errors.FlagError(f"{shown}: expected a finite number")
        if rule["minimum"] is not None and value < rule["minimum"]:
            raise errors.FlagError(f"{shown}: expected at least {rule['minimum']}")
        if rule["maximum"] is not None and value > rule["maximum"]:
            raise errors.FlagError(f"{shown}: expected at most {rule['maximum']}")
    return group(**found)


def _is_utf8(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # bytes of the command line that are not UTF-8 become surrogates
        return False
    return "\0" not in text


def usage(groups: Sequence[type], doc: str, program: str) -> str:
    """The text of ``--help``: what the script does, then every flag with its default."""
    lines = [doc.strip(), "", f"usage: python {program} --flag=value ..."]
    for group in groups:
        lines += ["", f"{group.__doc__}:"]
        for field in dataclasses.fields(group):
            default = "required" if field.metadata["required"] else _shown(field.default)
            choices = field.metadata["choices"]
            kind = f"={{{','.join(choices)}}}" if choices else ""
            lines.append(f"  --{field.name}{kind} ({default})")
            lines += textwrap.wrap(
                field.metadata["help"], 94, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
    lines += ["", "Any script:", "  --debug (false)", "      Show the traceback of an error."]
    return "\n".join(lines)


def _shown(default: typing.Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "unset" if default in ("", None) else str(default)


def run(
    work: Callable[..., None],
    groups: Sequence[type],
    doc: str,
    argv: Sequence[str] | None = None,
) -> int:
    """Runs a script: parses flags, calls ``work(*instances)``, turns user errors into one line.

    Args:
      work: the script's work; takes one instance of each group.
      groups: the flag groups of the script.
      doc: the script's docstring, shown by ``--help``.
      argv: the command line with the program's name first; default ``sys.argv``.

    Returns:
      The exit status: 0, 1 (data or files), 2 (flags), 130 (interrupted).
    """
    argv = list(sys.argv if argv is None else argv)
    program = os.path.basename(argv[0])
    if any(argument in _HELP for argument in argv[1:]):
        with contextlib.suppress(BrokenPipeError):  # --help | head
            print(usage(groups, doc, program))
            sys.stdout.flush()
        return 0
    debug = "--debug" in argv
    interrupts: list[int] = []
    try:
        with _counted(interrupts):
            instances, debug = parse(argv[1:], groups, program)
            _prepare()
            work(*instances)
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
