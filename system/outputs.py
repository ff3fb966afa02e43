"""Which files an output flag may name; found out before the work, not after it.

TensorFlow is not needed here, so these mistakes show at once.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence

from command_line import errors

# What the scripts write into --output_dir, but for checkpoints, which nobody takes for data.
_WRITTEN = re.compile(
    r"(?:run|bert_config|input_windows|(?:nbest_)?predictions|null_(?:odds|threshold).*)\.json"
    r"|(?:eval|test)_results.*|labels\.txt|metrics\.jsonl|checkpoint"
)
_LONGEST_NAME = 200  # bytes; file systems take 255, and temporary names are longer


def check_file(flag: str, path: str) -> str:
    """Checks a file that is to be written, and finds what it really is.

    Args:
      flag: the flag's name without dashes, for messages.
      path: its value; paths with ``://`` are not looked into.

    Returns:
      The path with symbolic links followed, so that a link stays one.

    Raises:
      errors.FlagError: what stands there is no ordinary file, or nothing can be created there.
    """
    if path.endswith("/") or os.path.isdir(path):
        raise errors.FlagError(f"--{flag}={path} is a directory; give a file name")
    return _check(flag, path, os.path.isfile, "an ordinary file")


def check_files(flag: str, paths: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Checks several files; none may stand there twice or be one of ``sources``, which are read."""
    read = {os.path.realpath(path) for path in sources}
    found: list[str] = []
    for path in paths:
        real = check_file(flag, path)
        if real in found:
            raise errors.FlagError(f"--{flag} names {path} twice; give different names")
        if real in read:
            raise errors.FlagError(f"--{flag}: {path} is also read; give another name")
        found.append(real)
    return found


def check_directory(flag: str, path: str) -> str:
    """Checks a directory that is to be written to or made; as ``check_file``."""
    return _check(flag, path, os.path.isdir, "a directory")


def check_data(directory: str, flag: str, paths: Sequence[str]) -> None:
    """Demands that no file of data is one that a run may write or remove in its directory.

    Args:
      directory: --output_dir; it need not exist, and paths with ``://`` are not looked into.
      flag: the flag that names the files, without dashes, for messages.
      paths: files.

    Raises:
      errors.FlagError: one is, by whatever name.
    """
    if not os.path.isdir(directory):
        return
    names = filter(_WRITTEN.fullmatch, sorted(os.listdir(directory)))
    written = [path for name in names if os.path.isfile(path := os.path.join(directory, name))]
    for path in filter(os.path.isfile, paths):
        for other in written:
            if os.path.samefile(path, other):
                raise errors.FlagError(
                    f"--{flag}={path} is {other}, which a run with this --output_dir may replace "
                    "or remove; give another --output_dir, or move the data"
                )


def check_name(flag: str, path: str) -> None:
    """Refuses a file name that a file system, or the temporary name made of it, has no room for."""
    if len(os.fsencode(os.path.basename(path))) > _LONGEST_NAME:
        raise errors.FlagError(f"--{flag}: the name is longer than {_LONGEST_NAME} bytes: {path}")


def _check(flag: str, path: str, fits: Callable[[str], bool], kind: str) -> str:
    if "://" in path:
        return path
    check_name(flag, path)
    real = os.path.realpath(path)
    if os.path.lexists(real) and not fits(real):
        raise errors.FlagError(f"--{flag}={path} is not {kind}; give another name")
    parent = os.path.dirname(real)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise errors.FlagError(f"--{flag}={path}: {parent} is not a directory")
    if not os.access(parent if not os.path.lexists(real) else real, os.W_OK):
        raise errors.FlagError(f"--{flag}={path}: no right to write there")
    return real
