"""The files in the folders of a GLUE search: JSON, logs, checkpoints, leftovers of a kill."""

import os
import re
from typing import Any

from checkpoints import file_names
from command_line import errors
from system import json_files


def read_json(path: str) -> dict[str, Any]:
    """Reads a JSON object; empty if the file is missing.

    Raises:
      errors.UserError: the file is damaged.
    """
    return json_files.read_object(path, _cure(path)) or {}


def damaged(path: str, reason: str) -> errors.UserError:
    """The error about a file of a run that cannot be read, with the cure."""
    return errors.UserError(f"{path}: damaged, {reason}; {_cure(path)}")


def _cure(path: str) -> str:
    return f"delete {os.path.dirname(path)} to run it again"


def last_log_line(log: str) -> str:
    """The last line in a log, without the time, or the program's name before an error."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        lines = file.read().decode("utf-8", "replace").split("\n")
    messages = [line.strip() for line in lines if line.strip() and not line.startswith("$ ")]
    if not messages:
        return "no message in the log"
    return re.sub(r"^(?:\d\d:\d\d:\d\d |\w+\.py: error: )", "", messages[-1])[:300]


def steps_saved(directory: str) -> int | None:
    """The step of the newest checkpoint in a directory; None if it has no list of checkpoints."""
    path = os.path.join(directory, "checkpoint")
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8", errors="replace") as file:
        match = re.search(r'^model_checkpoint_path: ".*?-(\d{1,18})"', file.read(), re.MULTILINE)
    return int(match[1]) if match else None


def remove_checkpoints(directory: str) -> int:
    """Deletes the checkpoints of a run, their list first; returns the number of bytes freed."""
    files = rf"checkpoint|model\.ckpt-\d+(?:{file_names.PART})(?:{file_names.TEMPORARY})?"
    freed = 0
    for name in sorted(os.listdir(directory)):  # "checkpoint", the list, sorts first
        if not re.fullmatch(files, name):
            continue
        path = os.path.join(directory, name)
        freed += os.path.getsize(path)
        os.remove(path)
    return freed


def remove_results(directory: str, start: str) -> None:
    """Deletes the files whose names start with ``start``."""
    for name in os.listdir(directory):
        if name.startswith(start):
            os.remove(os.path.join(directory, name))


def remove_leftovers(directory: str) -> None:
    """Deletes the files that a killed process was still writing, if the directory exists."""
    pattern = re.compile(rf".+{file_names.TEMPORARY}")
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        if pattern.fullmatch(name):
            os.remove(os.path.join(directory, name))
