"""What the files of a checkpoint are called, and where runs keep them. Needs no TensorFlow."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    pass


# What follows the prefix in a file's name, and what follows that while the file is being written.
PART = r"\.(?:index|meta|data-\d{5}-of-\d{5}|state\.json)"

TEMPORARY = r"\.tempstate\w*"


def run_directories(paths: Iterable[str]) -> list[str]:
    """The directories of runs that made some checkpoints, which may be directories themselves."""
    found = []
    for path in paths:
        if not path:
            continue
        directory = path if _is_directory(path) else os.path.dirname(path) or "."
        found.append(directory)
        whole = directory.rstrip("/") if "://" in directory else os.path.abspath(directory)
        if os.path.basename(whole) in ("best", "weights"):
            found.append(os.path.dirname(whole))
    return found


def _is_directory(path: str) -> bool:
    if "://" not in path:
        return os.path.isdir(path)  # TensorFlow takes seconds to come
    import tensorflow as tf

    return tf.io.gfile.isdir(path)
