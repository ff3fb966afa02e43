"""Names of the files of a checkpoint, and directories of runs. Needs no TensorFlow."""

import os
from collections.abc import Iterable

from system import inputs

# Patterns: what follows the prefix in a file's name, and what follows that during the writing.
PART = r"\.(?:index|meta|data-\d{5}-of-\d{5}|state\.json)"

TEMPORARY = r"\.tempstate\w*"


def run_directories(paths: Iterable[str]) -> list[str]:
    """The output directories of the runs that made some checkpoints.

    Args:
      paths: prefixes, files or directories of checkpoints; "" is skipped.

    Returns:
      The directory of each, followed by its parent where it is a run's best/ or weights/.
    """
    directories = []
    for path in paths:
        if not path:
            continue
        directory = path if inputs.is_directory(path) else os.path.dirname(path) or "."
        directories.append(directory)
        absolute = directory.rstrip("/") if "://" in directory else os.path.abspath(directory)
        if os.path.basename(absolute) in ("best", "weights"):
            directories.append(os.path.dirname(absolute))
    return directories
