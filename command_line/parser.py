"""Command lines: from arguments to option groups, and the text of ``--help``."""

import dataclasses
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
      groups: dataclasses whose fields are made by ``options.flag``.
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
        suggestion = _other_name(error.flagname, values) or errors.suggest(
            error.flagname, list(values)
        )
        raise errors.FlagError(
            f"unknown flag --{error.flagname}{suggestion} (--help lists all)"
        ) from None
    except flags.IllegalFlagValueError as error:
        raise errors.FlagError(_illegal_value(str(error), values)) from None
    except flags.CantOpenFlagFileError as error:
        raise errors.FlagError(_unreadable_flag_file(error)) from None
    except UnicodeDecodeError:  # an argument cannot raise it, its stray bytes are surrogates
        raise errors.FlagError("--flagfile: the file is not UTF-8 text") from None
    except flags.Error as error:
        raise errors.FlagError(" ".join(str(error).split())) from None
    if rest:
        raise errors.FlagError(
            f"unexpected argument {rest[0]!r}; flags are written --name=value (is there a stray "
            f"space?)"
        )
    return [_make_group(group, values) for group in groups], values.debug


# Flags of other toolkits → what they mean here, as far as the command has it.
_OTHER_NAMES = {
    "model_dir": ("init_checkpoint", "bert_config_file", "vocab_file", "output_dir"),
    "model_name_or_path": ("init_checkpoint", "bert_config_file", "vocab_file"),
    "checkpoint_dir": ("init_checkpoint", "output_dir"),
    "per_device_train_batch_size": ("train_batch_size",),
    "epochs": ("num_train_epochs",),
}


def _other_name(name: str, values: flags.FlagValues) -> str:
    """``; use X and Y`` for a flag that other toolkits have; empty for any other."""
    ours = [f"--{other}" for other in _OTHER_NAMES.get(name, ()) if other in values]
    return (
        f"; use {', '.join(ours)} for its parts"
        if len(ours) > 1
        else "".join(f"; use {other}" for other in ours)
    )


def _illegal_value(message: str, values: flags.FlagValues) -> str:
    """A message about a value of the wrong type, made from absl's."""
    match = re.match(r"flag --(\w+)=(.*?):", message, re.DOTALL)
    if match is None:
        return message
    expected = {"bool": "true or false", "int": "a whole number", "float": "a number"}
    flag_type = values[match[1]].flag_type()
    return f"--{match[1]}={match[2]}: expected {expected.get(flag_type, 'another value')}"


def _unreadable_flag_file(error: flags.CantOpenFlagFileError) -> str:
    """A message about a flag file that cannot be read, made from absl's error."""
    cause = error.__context__
    if not isinstance(cause, OSError):
        return str(error).removeprefix("ERROR:: ")
    return f"--flagfile={cause.filename}: {cause.strerror}; expected a file with one flag per line"


def _define(field: dataclasses.Field, flag_type: typing.Any, values: flags.FlagValues) -> None:
    """Adds the absl flag of a field."""
    defines: dict[typing.Any, typing.Callable[..., object]] = {
        bool: flags.DEFINE_bool,
        bool | None: flags.DEFINE_bool,
        int: flags.DEFINE_integer,
        float: flags.DEFINE_float,
    }
    define = defines.get(flag_type, flags.DEFINE_string)
    define(field.name, field.default, field.metadata["help"], flag_values=values)


def _make_group(group: type, values: flags.FlagValues) -> typing.Any:
    """An instance of a group; only here must required flags be given."""
    for field in dataclasses.fields(group):
        if field.metadata["required"] and not values[field.name].value:
            raise errors.FlagError(f"--{field.name} is missing: {field.metadata['help']}")
    return group(**{field.name: values[field.name].value for field in dataclasses.fields(group)})


def usage(groups: Sequence[type], doc: str, program: str) -> str:
    """The text of ``--help``: what the command does, then every flag with its default."""
    lines = [doc.strip(), "", f"usage: python {program} --flag=value ..."]
    for group in groups:
        lines += ["", f"{group.__doc__}:"]
        for field in dataclasses.fields(group):
            default = "required" if field.metadata["required"] else _default_text(field.default)
            choices = field.metadata["choices"]
            values = f"={{{','.join(choices)}}}" if choices else ""
            lines.append(f"  --{field.name}{values} ({default})")
            lines += textwrap.wrap(
                field.metadata["help"], 94, initial_indent=" " * 6, subsequent_indent=" " * 6
            )
    lines += ["", "Every command:", "  --debug (false)", "      Show the traceback of an error."]
    return "\n".join(lines)


def _default_text(default: typing.Any) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "unset" if default in ("", None) else str(default)
