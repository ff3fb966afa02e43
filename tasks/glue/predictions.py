"""The test set predictions of a task's best run: whether they are current, and as submission files.

outcome.json beside the predictions says what they were made from. Without it, predictions of a run
that is no longer the best one, or of other test files, could get into a submission.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from command_line import errors
from system import atomic_files, inputs
from tasks.classifier import glue_tasks
from tasks.glue import data_sets, run_folder, status, submission
from tasks.glue import runs as glue_runs


def file_name(test_set: str, task: str) -> str:
    """The file in which run_classifier writes the predictions of a test set of a task."""
    return "test_results.tsv" if test_set == task else f"test_results-{test_set}.tsv"


def exist(directory: str, task: str, tests: Mapping[str, str]) -> bool:
    """Whether a directory has predictions of all of some test sets, at least one.

    Args:
      directory: of the predictions.
      task: whose model has made them.
      tests: test set -> its folder, as ``data_sets.test_folders`` returns them.
    """
    paths = [os.path.join(directory, file_name(name, task)) for name in tests]
    return bool(paths) and all(map(os.path.isfile, paths))


def are_current(directory: str, run: glue_runs.Run, tests: Mapping[str, str]) -> bool:
    """Whether a directory has the predictions of all of some test sets by a finished run."""
    if not exist(directory, run.task, tests):
        return False
    return run_folder.read_json(_note_path(directory)) == _origin(run, tests)


def start(directory: str, run: glue_runs.Run, tests: Mapping[str, str]) -> None:
    """Makes the directory of predictions that are about to be made, without earlier ones.

    The earlier ones go first: after the note they would count as those of ``run``.
    """
    os.makedirs(directory, exist_ok=True)
    run_folder.remove_results(directory, "test_results")
    text = json.dumps(_origin(run, tests)) + "\n"
    atomic_files.write_text(_note_path(directory), text)


def _note_path(directory: str) -> str:
    return os.path.join(directory, "outcome.json")


def _origin(run: glue_runs.Run, tests: Mapping[str, str]) -> dict[str, Any]:
    """What predictions are made from: the run, and a digest of its files and the test files.

    A run that is trained again differs from the earlier one even if the results are equal, as those
    of runs that learn nothing often are: metrics.jsonl has the throughput.
    """
    metrics = os.path.join(run.directory, "metrics.jsonl")
    paths = [*status.results_paths(run).values(), *data_sets.test_files(tests)]
    digest = hashlib.sha256()
    for path in [*paths, *filter(os.path.isfile, [metrics])]:
        digest.update(hashlib.sha256(inputs.read_bytes(path)).digest())
    return {"run": run.name, "digest": digest.hexdigest()}


def tables(directory: str, task: str, tests: Mapping[str, str]) -> dict[str, str]:
    """The files that a task adds to a submission.

    Args:
      directory: of the predictions.
      task: its name.
      tests: see ``exist``.

    Returns:
      Name in the zip -> text.

    Raises:
      errors.UserError: predictions do not fit their test set.
    """
    files = {}
    for name, folder in tests.items():
        spec = glue_tasks.TASKS[name]
        path = os.path.join(directory, file_name(name, task))
        examples = glue_tasks.create_processor(name).get_test_examples(folder)
        try:
            outputs = np.loadtxt(path, np.float32, delimiter="\t", ndmin=2)
        except ValueError as error:
            raise errors.UserError(f"{path}: damaged, expected numbers: {error}") from None
        if len(outputs) != len(examples):
            raise errors.UserError(
                f"{path} has {len(outputs)} predictions, but the test set in {folder} has "
                f"{len(examples)} rows; delete the file to predict it again"
            )
        values = submission.predictions(spec.labels, outputs, spec.kind)
        files[spec.submission] = submission.table(submission.indices(spec, examples), values)
    return files
