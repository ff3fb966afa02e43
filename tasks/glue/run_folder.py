"""What lies in the folders of a search over GLUE: JSON, logs, checkpoints, and what a kill left."""

from __future__ import annotations

import json
import os
import re
from typing import Any

from checkpoints import file_names
from command_line import errors


def read_json(path: str) -> dict[str, Any]:
    """An object; empty where the file is missing.

    Raises:
      errors.UserError: the file is damaged.
    """
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return {}
    except (ValueError, RecursionError) as error:
        raise damaged(path, f"expected JSON: {error}") from None
    if not isinstance(value, dict):
        raise damaged(path, "expected a JSON object")
    return value


def damaged(path: str, why: str) -> errors.UserError:
    """The error about a file of a run that cannot be used, with the cure."""
    return errors.UserError(
        f"{path}: damaged, {why}; delete {os.path.dirname(path)} to run it again"
    )


def last_log_line(log: str) -> str:
    """What a process said last, without the time, or the name of the program before an error."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith("$ ")]
    if not said:
        return "it said nothing"
    return re.sub(r"^(?:\d\d:\d\d:\d\d |\w+\.py: error: )", "", said[-1])[:300]


def steps_saved(directory: str) -> int | None:
    """The step of the newest checkpoint that a directory lists; None where it lists none."""
    path = os.path.join(directory, "checkpoint")
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        match = re.search(r'^model_checkpoint_path: ".*?-(\d+)"', file.read(), re.MULTILINE)
    return int(match[1]) if match else None


def remove_checkpoints(directory: str) -> int:
    """Deletes the checkpoints of a run, their list first; returns the bytes that got free."""
    ours = re.compile(rf"model\.ckpt-\d+(?:{file_names.PART})(?:{file_names.TEMPORARY})?")
    names = [name for name in os.listdir(directory) if ours.fullmatch(name)]
    freed = 0
    listing = [name for name in ("checkpoint",) if os.path.exists(os.path.join(directory, name))]
    for name in listing + names:
        path = os.path.join(directory, name)
        freed += os.path.getsize(path)
        os.remove(path)
    return freed


def remove_results(directory: str, start: str) -> None:
    """Deletes the results whose names begin so; what finds them anew is about to start."""
    for name in os.listdir(directory):
        if name.startswith(start):
            os.remove(os.path.join(directory, name))


def remove_leftovers(directory: str) -> None:
    """Deletes the files that a killed process was about to write, if the directory is there."""
    half = re.compile(rf".+{file_names.TEMPORARY}")
    for name in os.listdir(directory) if os.path.isdir(directory) else []:
        if half.fullmatch(name):
            os.remove(os.path.join(directory, name))
