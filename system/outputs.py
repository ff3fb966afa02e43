"""Which paths an output flag may name, checked before the work starts.

TensorFlow is not needed here, so these mistakes show at once.
"""

import fnmatch
import os
from collections.abc import Callable, Sequence

from command_line import errors

# Patterns of the files that every training command writes into --output_dir. Nobody takes those of
# a checkpoint for data.
_RUN_FILES = ("run.json", "bert_config.json", "eval_results*", "metrics.jsonl", "checkpoint")

_LONGEST_NAME = 200  # bytes; file systems take 255, and temporary names are longer


def check_file(flag: str, path: str) -> str:
    """Checks a file that is to be written.

    Args:
      flag: the flag's name without dashes, for messages.
      path: its value; a path with ``://`` is not checked.

    Returns:
      The path with symbolic links followed, so that writing does not replace a link.

    Raises:
      errors.FlagError: something else than an ordinary file exists there, or nothing can be
        created there.
    """
    if path.endswith("/") or os.path.isdir(path):
        raise errors.FlagError(f"--{flag}={path} is a directory; give a file name")
    return _check(flag, path, os.path.isfile, "an ordinary file")


def check_files(flag: str, paths: Sequence[str], sources: Sequence[str]) -> list[str]:
    """Checks several files, as ``check_file``; all must differ, also from ``sources`` (inputs)."""
    read = {os.path.realpath(path) for path in sources}
    targets: list[str] = []
    for path in paths:
        target = check_file(flag, path)
        if target in targets:
            raise errors.FlagError(f"--{flag} names {path} twice; give different names")
        if target in read:
            raise errors.FlagError(f"--{flag}: {path} is also read; give another name")
        targets.append(target)
    return targets


def check_directory(flag: str, path: str) -> str:
    """Checks a directory that is to be written to or made, as ``check_file``."""
    return _check(flag, path, os.path.isdir, "a directory")


def check_data(directory: str, flag: str, paths: Sequence[str], task_files: Sequence[str]) -> None:
    """Refuses data files that a run would overwrite or remove in its output directory.

    Args:
      directory: --output_dir; it need not exist, and a path with ``://`` is not checked.
      flag: the flag that names the data files, without dashes, for messages.
      paths: the data files.
      task_files: patterns (``test_results*``) of the files that the task writes there, besides
        those of every run.

    Raises:
      errors.FlagError: a data file is one of them, under this or another name (link).
    """
    if not os.path.isdir(directory):
        return
    patterns = (*_RUN_FILES, *task_files)
    for name in sorted(os.listdir(directory)):
        written = os.path.join(directory, name)
        if not (os.path.isfile(written) and any(fnmatch.fnmatchcase(name, p) for p in patterns)):
            continue
        for path in filter(os.path.isfile, paths):
            if os.path.samefile(path, written):
                raise errors.FlagError(
                    f"--{flag}={path} is {written}, which a run with this --output_dir may replace "
                    "or remove; give another --output_dir, or move the data"
                )


def check_name(flag: str, path: str) -> None:
    """Refuses a file name too long for the file system, or for the temporary name made from it."""
    if len(os.fsencode(os.path.basename(path))) > _LONGEST_NAME:
        raise errors.FlagError(f"--{flag}: the name is longer than {_LONGEST_NAME} bytes: {path}")


def _check(flag: str, path: str, is_right: Callable[[str], bool], expected: str) -> str:
    if "://" in path:
        return path
    check_name(flag, path)
    real = os.path.realpath(path)
    if os.path.lexists(real) and not is_right(real):
        raise errors.FlagError(f"--{flag}={path} is not {expected}; give another name")
    parent = os.path.dirname(real)
    while not os.path.lexists(parent):
        parent = os.path.dirname(parent)
    if not os.path.isdir(parent):
        raise errors.FlagError(f"--{flag}={path}: {parent} is not a directory")
    if not os.access(parent if not os.path.lexists(real) else real, os.W_OK):
        raise errors.FlagError(f"--{flag}={path}: no permission to write there")
    return real
