"""Locks that keep several processes out of one directory."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator

import tensorflow as tf

from command_line import errors

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]


@contextlib.contextmanager
def sole_writer(directory: str) -> Iterator[None]:
    """Makes a directory and keeps other runs out of it, as far as its file system knows locks.

    Raises:
      errors.UserError: another run is training there.
    """
    tf.io.gfile.makedirs(directory)
    if fcntl is None or "://" in directory:
        yield
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    except BlockingIOError:
        raise errors.UserError(
            f"--output_dir={directory}: another run is training there; wait for it, or take "
            "another directory"
        ) from None
    finally:
        os.close(descriptor)  # ends the lock, as the end of the process does
