"""The sets of a GLUE task as a folder has them, and what was predicted of them."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import hashlib
import os
from collections.abc import Mapping

import numpy as np

from command_line import errors
from tasks.classifier import examples as task_examples
from tasks.classifier import glue_tasks
from tasks.glue import submission

# The sets that are no task of their own, and the task whose model they belong to.
_PARTS = {"mnli": ("mnli-mm", "ax")}


@dataclasses.dataclass(frozen=True)
class Sets:
    """What is to be known of a task's data before its first run.

    Attributes:
      folder: where its files are.
      train_rows: examples of an epoch.
      shares: label → its share of the dev set; none for regression.
      tests: test set → its folder: of the task itself, and of mnli-mm and ax beside mnli. Those
        that are not there are left out, all where that of the task is.
    """

    folder: str
    train_rows: int
    shares: dict[str, float]
    tests: dict[str, str]


def read(task: str, data_dir: str, *, skip_bad_rows: bool = False) -> Sets:
    """Reads all rows of a task, so that a mistake in them shows before the first run.

    Args:
      task: a task with a training set.
      data_dir: folder of a GLUE download.
      skip_bad_rows: see ``glue.create_processor``.

    Raises:
      errors.UserError: a folder or file is missing, or a row is not as it should be.
    """
    processor = glue_tasks.create_processor(task, skip_bad_rows=skip_bad_rows)
    folder = glue_tasks.find_directory(data_dir, glue_tasks.TASKS[task])
    train_rows = len(processor.get_train_examples(folder))
    shares = dev_shares(task, data_dir)
    if task == "mnli":
        glue_tasks.create_processor("mnli-mm").get_dev_examples(folder)
    tests = test_folders(task, data_dir)
    for name, place in tests.items():
        _test_examples(name, place)
    return Sets(folder, train_rows, shares, tests)


def dev_shares(task: str, data_dir: str) -> dict[str, float]:
    """Label → its share of the dev set; none for regression.

    Raises:
      errors.UserError: the dev set is missing, or a row is not as it should be.
    """
    processor = glue_tasks.create_processor(task)
    rows = processor.get_dev_examples(glue_tasks.find_directory(data_dir, glue_tasks.TASKS[task]))
    if processor.kind == task_examples.REGRESSION:
        return {}
    counts = collections.Counter(str(example.label) for example in rows)
    return {label: count / len(rows) for label, count in counts.items()}


def test_folders(task: str, data_dir: str) -> dict[str, str]:
    """The test sets that are there, as ``Sets.tests``."""
    try:
        folder = glue_tasks.find_directory(data_dir, glue_tasks.TASKS[task])
    except errors.UserError:  # a task of an earlier command, whose data are gone
        return {}
    names = (task, *_PARTS.get(task, ()))
    places = {name: _test_folder(name, folder, data_dir) for name in names}
    if places[task] is None:
        return {}
    return {name: place for name, place in places.items() if place is not None}


def _test_folder(name: str, folder: str, data_dir: str) -> str | None:
    processor = glue_tasks.create_processor(name)
    assert isinstance(processor, glue_tasks.TableProcessor)
    places = [folder]
    with contextlib.suppress(errors.UserError):
        places.append(glue_tasks.find_directory(data_dir, glue_tasks.TASKS[name]))
    for place in places:
        with contextlib.suppress(errors.UserError):
            processor.files("test", place)
            return place
    return None


def _test_examples(name: str, folder: str) -> list[glue_tasks.InputExample]:
    return glue_tasks.create_processor(name).get_test_examples(folder)


def results_name(name: str, task: str) -> str:
    """The file in which run_classifier writes the predictions of a test set of a task."""
    return "test_results.tsv" if name == task else f"test_results-{name}.tsv"


def are_predicted(task: str, tests: Mapping[str, str], directory: str) -> bool:
    """Whether a directory has predictions of all test sets of a task, and there are some."""
    paths = [os.path.join(directory, results_name(name, task)) for name in tests]
    return bool(paths) and all(map(os.path.isfile, paths))


def digest(tests: Mapping[str, str]) -> str:
    """What tells the files of some test sets, as ``Sets.tests``, from others."""
    found = hashlib.sha256()
    for name, folder in tests.items():
        processor = glue_tasks.create_processor(name)
        assert isinstance(processor, glue_tasks.TableProcessor)
        for path in processor.files("test", folder):
            with open(path, "rb") as file:
                found.update(file.read())
    return found.hexdigest()


def tables(task: str, tests: Mapping[str, str], directory: str) -> dict[str, str]:
    """The files of a submission that a task gives.

    Args:
      task: its name.
      tests: of ``test_folders``.
      directory: where the predictions are.

    Returns:
      Name in the zip → text.

    Raises:
      errors.UserError: predictions that do not fit the test set.
    """
    found = {}
    for name, folder in tests.items():
        spec = glue_tasks.TASKS[name]
        path = os.path.join(directory, results_name(name, task))
        examples = _test_examples(name, folder)
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
        found[spec.submission] = submission.table(submission.indices(spec, examples), values)
    return found


def wnli_without_model() -> str:
    """The text of WNLI.tsv for the official test set, where no model was trained."""
    rows = [glue_tasks.InputExample("test", "")] * glue_tasks.TASKS["wnli"].test_rows
    return submission.wnli_without_model(rows)
