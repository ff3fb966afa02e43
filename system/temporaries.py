"""Names of temporary files that tell whether the process that made them still runs.

A process that is killed leaves them behind; a later one deletes those of dead processes of the same
machine. Files of other machines, which may share a directory, are left alone.
"""

import contextlib
import logging
import os
import re
import shutil
import socket
import zlib

from command_line import errors

_log = logging.getLogger(__name__)

_MACHINE = f"{zlib.crc32(socket.gethostname().encode()):08x}"


def suffix() -> str:
    """What ends the name of a temporary file of this process: ``.tempstate…``."""
    return f".tempstate{_MACHINE}p{os.getpid()}"


def remove_abandoned(directory: str, pattern: str) -> list[str]:
    """Deletes what dead processes of this machine left.

    Args:
      directory: a local path; one that does not exist, or is remote, has nothing.
      pattern: regular expression of the names without ``suffix``.

    Returns:
      The names that were deleted.
    """
    ending = re.compile(rf"(?:{pattern})\.tempstate{_MACHINE}p(\d+)")
    removed = []
    for name in sorted(os.listdir(directory)) if os.path.isdir(directory) else []:
        match = ending.fullmatch(name)
        if match and not _is_running(int(match[1])):
            path = os.path.join(directory, name)
            with contextlib.suppress(OSError):  # of another user, or another process was faster
                shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
                removed.append(name)
    if removed:
        _log.warning("%s: removed what a killed run left: %s", directory, errors.some(removed))
    return removed


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # of another user
        return True
    return True
