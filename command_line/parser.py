"""Command lines: from arguments to option groups, and the text of ``--help``."""

from __future__ import annotations

import dataclasses
import math
import re
import textwrap
import typing
from collections.abc import Sequence

from absl import flags

from command_line import errors

HELP_FLAGS = ("-h", "--help", "-help", "--helpshort", "--helpfull")


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
