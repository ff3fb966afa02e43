"""The status and the results of every run of a GLUE search.

They are read from the run directories once, when a search begins, and kept in memory from then on.
What changes is written to a run's outcome.json: its exit status and the seconds it has taken. A run
is finished when run_classifier has written its results.
"""

import dataclasses
import json
import math
import os
from collections.abc import Sequence

from command_line import errors
from system import atomic_files
from tasks.classifier import glue_tasks
from tasks.glue import jobs, run_folder
from tasks.glue import runs as glue_runs

NEW, UNFINISHED, FINISHED, FAILED = "new", "unfinished", "finished", "failed"


@dataclasses.dataclass(frozen=True)
class RunState:
    """How far a run is.

    Attributes:
      status: NEW, UNFINISHED, FINISHED or FAILED.
      results: metrics on the dev set, such as {"f1": 0.88, "accuracy": 0.84}; mnli also has
        "mm_accuracy". Empty unless finished.
      seconds: wall time over all starts of the run.
      exit_status: of a failed run.
    """

    status: str
    results: dict[str, float]
    seconds: float = 0.0
    exit_status: int = 0


class RunTable:
    """All runs of a search, planned or existing, with their states.

    Args:
      output_dir: of the search.
      planned: runs to include even if they have no directory yet.

    Raises:
      errors.UserError: a file of a run is damaged.
    """

    def __init__(self, output_dir: str, planned: Sequence[glue_runs.Run]) -> None:
        existing = [run for task in glue_runs.TASKS for run in glue_runs.existing(output_dir, task)]
        runs = sorted({*planned, *existing}, key=lambda run: (-run.rate, run.seed))
        self._states = {run: read(run) for run in runs}

    def __getitem__(self, run: glue_runs.Run) -> RunState:
        return self._states[run]

    def of_task(self, task: str) -> dict[glue_runs.Run, RunState]:
        """The runs of a task: highest learning rate first, then by seed."""
        return {run: state for run, state in self._states.items() if run.task == task}

    def start(self, run: glue_runs.Run) -> None:
        """Makes the directory of a run that is about to start, without results of earlier starts.

        The results go first: after the note they would count as those of the new start.
        """
        os.makedirs(run.directory, exist_ok=True)
        run_folder.remove_results(run.directory, "eval_results")
        self._write(run, RunState(UNFINISHED, {}, self[run].seconds), exit_status=None)

    def end(self, run: glue_runs.Run, end: jobs.JobEnd) -> RunState:
        """Notes how a run has ended and reads its results.

        A run that was stopped has not failed, unless it refused its flags before.
        """
        seconds = round(self[run].seconds + end.seconds, 1)
        exit_status: int | None = end.exit_status
        state = _state(run, exit_status, seconds)
        refused = exit_status == errors.FlagError.exit_status
        if end.stopped and state.status == FAILED and not refused:
            exit_status = None
            state = _state(run, exit_status, seconds)
        self._write(run, state, exit_status)
        return state

    def _write(self, run: glue_runs.Run, state: RunState, exit_status: int | None) -> None:
        outcome = {"exit_status": exit_status, "seconds": state.seconds}
        atomic_files.write_text(_outcome_path(run), json.dumps(outcome) + "\n")
        self._states[run] = state


def read(run: glue_runs.Run) -> RunState:
    """Reads the state of a run from its directory.

    Raises:
      errors.UserError: a file of the run is damaged.
    """
    outcome = run_folder.read_json(_outcome_path(run))
    seconds, exit_status = outcome.get("seconds", 0.0), outcome.get("exit_status")
    if type(seconds) not in (int, float) or not 0 <= seconds < 1e12:
        reason = f"seconds is {seconds!r:.40}; expected a number"
        raise run_folder.damaged(_outcome_path(run), reason)
    if exit_status is not None and (type(exit_status) is not int or abs(exit_status) > 255):
        reason = f"exit_status is {exit_status!r:.40}; expected a number from -255 to 255"
        raise run_folder.damaged(_outcome_path(run), reason)
    return _state(run, exit_status, seconds)


def _state(run: glue_runs.Run, exit_status: int | None, seconds: float) -> RunState:
    if exit_status:
        return RunState(FAILED, {}, seconds, exit_status)
    results = _read_results(run)
    if results:
        return RunState(FINISHED, results, seconds)
    if exit_status == 0:  # it ended without an error, but also without results
        return RunState(FAILED, {}, seconds, exit_status)
    return RunState(UNFINISHED if os.path.isdir(run.directory) else NEW, {}, seconds)


def _outcome_path(run: glue_runs.Run) -> str:
    return os.path.join(run.directory, "outcome.json")


def results_paths(run: glue_runs.Run) -> dict[str, str]:
    """The results files of a run, by the prefix that their metrics get: "", or "mm_"."""
    names = {"": "eval_results.txt"}
    for dev_set in glue_runs.OTHER_DEVS.get(run.task, ()):
        names[f"{dev_set.split('-')[-1]}_"] = f"eval_results-{dev_set}.txt"
    return {prefix: os.path.join(run.directory, name) for prefix, name in names.items()}


def _read_results(run: glue_runs.Run) -> dict[str, float]:
    """The metrics on all dev sets of the task; empty if a results file is missing."""
    paths = results_paths(run)
    if not all(map(os.path.isfile, paths.values())):
        return {}
    results = {}
    for prefix, path in paths.items():
        values = _read_values(path)
        for metric in glue_tasks.TASKS[run.task].metrics:
            if f"eval_{metric}" not in values:
                raise errors.UserError(
                    f"{path}: no eval_{metric}; delete {run.directory} to run it again"
                )
            results[prefix + metric] = values[f"eval_{metric}"]
    return results


def _read_values(path: str) -> dict[str, float]:
    with open(path, encoding="utf-8", errors="replace") as file:
        pairs = [line.split(" = ") for line in file.read().splitlines()]
    try:
        values = {name: float(value) for name, value in pairs}
        if all(map(math.isfinite, values.values())):
            return values
    except ValueError:
        pass
    raise run_folder.damaged(path, "expected lines such as loss = 0.4")
