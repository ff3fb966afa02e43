"""How far each run of a search over GLUE is, and what came out: read from its folder, noted there.

A run has finished when run_classifier has written its results. outcome.json says the rest.
"""

from __future__ import annotations

import dataclasses
import json
import os
import uuid
from collections.abc import Mapping
from typing import Any

from command_line import errors
from system import atomic_files
from tasks.classifier import glue_tasks
from tasks.glue import run_folder
from tasks.glue import runs as glue_runs

NEW, UNFINISHED, FINISHED, FAILED = "new", "unfinished", "finished", "failed"
_OUTCOME = "outcome.json"


@dataclasses.dataclass(frozen=True)
class State:
    """How far a run is.

    Attributes:
      kind: NEW, UNFINISHED, FINISHED or FAILED.
      results: of the dev set, such as {"f1": 0.88, "accuracy": 0.84}; mnli has "mm_accuracy" too.
        Empty unless finished.
      seconds: it took, over all its starts.
      status: exit status of a failed one.
    """

    kind: str
    results: dict[str, float]
    seconds: float = 0.0
    status: int = 0


def state(run: glue_runs.Run) -> State:
    """Reads how far a run is.

    Raises:
      errors.UserError: one of its files is damaged.
    """
    outcome = _outcome(run.directory)
    seconds, status = outcome["seconds"], outcome.get("exit_status")
    if status:
        return State(FAILED, {}, seconds, status)
    found = results(run)
    if found:
        return State(FINISHED, found, seconds)
    if status is not None:  # it ended well, it says, and there is nothing
        return State(FAILED, {}, seconds, status)
    return State(UNFINISHED if os.path.isdir(run.directory) else NEW, {}, seconds)


def note_start(directory: str, **notes: Any) -> None:
    """Writes in outcome.json that something starts: under a new mark, and with further notes."""
    _note(directory, {"exit_status": None, "start": uuid.uuid4().hex, **notes})


def note_end(directory: str, status: int | None, seconds: float) -> None:
    """Writes in outcome.json how something ended.

    Args:
      directory: of a run or a prediction.
      status: exit status; None where it was told to stop.
      seconds: to add to those that it took before.
    """
    before = _outcome(directory)["seconds"]
    _note(directory, {"exit_status": status, "seconds": round(before + seconds, 1)})


def model(run: glue_runs.Run) -> dict[str, Any]:
    """What tells the weights of a run from all others, those of the same run made anew too."""
    start = _outcome(run.directory).get("start")
    return {"name": run.name, "start": start, "results": results(run)}


def predicted_with(directory: str) -> dict[str, Any]:
    """The ``model`` whose predictions a directory has, or was about to get, and of what.

    Returns:
      "model", and "tests", the digest of the test sets; empty where nothing was predicted.
    """
    outcome = _outcome(directory)
    return {name: outcome[name] for name in ("model", "tests") if name in outcome}


def _outcome(directory: str) -> dict[str, Any]:
    """The notes, "seconds" among them."""
    path = os.path.join(directory, _OUTCOME)
    notes = {"seconds": 0.0, **run_folder.read_json(path)}
    if not isinstance(notes["seconds"], int | float):
        raise run_folder.damaged(path, f"seconds is {notes['seconds']!r}; expected a number")
    return notes


def _note(directory: str, notes: Mapping[str, Any]) -> None:
    text = json.dumps({**_outcome(directory), **notes}) + "\n"
    atomic_files.write_text(os.path.join(directory, _OUTCOME), text)


def results(run: glue_runs.Run) -> dict[str, float]:
    """The scores of a run on all dev sets of its task; nothing where one is missing.

    Raises:
      errors.UserError: a file with results is damaged.
    """
    others = glue_runs.OTHER_DEVS.get(run.task, ())
    names = {"": "eval_results.txt"}
    names |= {f"{other.split('-')[-1]}_": f"eval_results-{other}.txt" for other in others}
    metrics = glue_tasks.TASKS[run.task].metrics
    scores = {}
    for prefix, name in names.items():
        path = os.path.join(run.directory, name)
        if not os.path.isfile(path):
            return {}
        values = _read_results(path)
        for metric in metrics:
            if f"eval_{metric}" not in values:
                raise errors.UserError(
                    f"{path}: no eval_{metric}; delete {run.directory} to run it again"
                )
            scores[prefix + metric] = values[f"eval_{metric}"]
    return scores


def _read_results(path: str) -> dict[str, float]:
    with open(path, encoding="utf-8", errors="replace") as file:
        pairs = [line.split(" = ") for line in file.read().splitlines()]
    try:
        return {name: float(value) for name, value in pairs}
    except ValueError:
        raise run_folder.damaged(path, "expected lines such as loss = 0.4") from None
