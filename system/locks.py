"""Locks that keep several processes out of one directory."""

import contextlib
import logging
import os
import time
from collections.abc import Callable, Iterator

from command_line import errors

try:
    import fcntl
except ImportError:  # not a POSIX system
    fcntl = None  # type: ignore[assignment]

_log = logging.getLogger(__name__)


@contextlib.contextmanager
def exclusive(
    directory: str,
    holder: str,
    timeout: float = 0.0,
    while_waiting: Callable[[], object] = lambda: None,
) -> Iterator[tuple[int, ...]]:
    """Keeps other processes out of an output directory, as far as its file system knows locks.

    Args:
      directory: the value of --output_dir; it exists.
      holder: who has the lock when this process cannot get it, for messages: "another run is
        training there; wait for it".
      timeout: seconds to wait for the lock.
      while_waiting: called now and then; it may raise.

    Yields:
      The open files that hold the lock, one or none. Child processes that inherit them keep the
      lock until the last of them has ended.

    Raises:
      errors.UserError: another process has the lock.
    """
    if fcntl is None or "://" in directory:
        yield ()
        return
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        end = time.monotonic() + timeout
        is_announced = not timeout
        while not _try_lock(descriptor):
            while_waiting()
            if time.monotonic() >= end:
                raise errors.UserError(
                    f"--output_dir={directory}: {holder}, or take another directory"
                )
            if not is_announced:
                _log.info("waiting up to %d s: %s (--output_dir=%s)", timeout, holder, directory)
                is_announced = True
            time.sleep(0.2)
        yield (descriptor,)
    finally:
        os.close(descriptor)  # ends the lock, as the end of the process does


def _try_lock(descriptor: int) -> bool:
    with contextlib.suppress(BlockingIOError):
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return True
    return False
