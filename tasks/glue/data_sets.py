"""The data of a GLUE task in a folder: training rows, dev labels and test sets."""

import collections
import contextlib
import dataclasses
from collections.abc import Mapping

from command_line import errors
from tasks.classifier import examples as task_examples
from tasks.classifier import glue_tasks, table_processor
from tasks.classifier import options as classifier_options

# Task -> further test sets that its model predicts.
_OTHER_TESTS = {"mnli": ("mnli-mm", "ax")}


@dataclasses.dataclass(frozen=True)
class TaskData:
    """What a search needs to know about a task's data.

    Attributes:
      folder: of the task's files.
      train_rows: examples of an epoch.
      label_shares: label -> its share of the dev set; empty for regression.
      tests: test set -> its folder, of the task itself, and of mnli-mm and ax for mnli. Without the
        sets that are missing; empty if that of the task itself is missing.
    """

    folder: str
    train_rows: int
    label_shares: dict[str, float]
    tests: dict[str, str]


def read(task: str, data_dir: str, *, skip_bad_rows: bool = False) -> TaskData:
    """Reads all rows of a task, so that mistakes in them are reported before the first run.

    Args:
      task: a task with a training set.
      data_dir: folder of a GLUE download.
      skip_bad_rows: leave out training rows with too few columns instead of raising an error.

    Raises:
      errors.UserError: a folder or file is missing, or a row is invalid.
    """
    processor = glue_tasks.create_processor(
        task, classifier_options.ClassifierOptions(skip_bad_rows=skip_bad_rows)
    )
    folder = glue_tasks.find_directory(data_dir, glue_tasks.TASKS[task])
    train_rows = len(processor.get_train_examples(folder))
    label_shares = dev_label_shares(task, data_dir)
    if task == "mnli":
        glue_tasks.create_processor("mnli-mm").get_dev_examples(folder)
    tests = test_folders(task, data_dir)
    for name, test_folder in tests.items():
        glue_tasks.create_processor(name).get_test_examples(test_folder)
    return TaskData(folder, train_rows, label_shares, tests)


def dev_label_shares(task: str, data_dir: str) -> dict[str, float]:
    """Label -> its share of the dev set; empty for regression.

    Raises:
      errors.UserError: the dev set is missing, or a row is invalid.
    """
    processor = glue_tasks.create_processor(task)
    rows = processor.get_dev_examples(glue_tasks.find_directory(data_dir, glue_tasks.TASKS[task]))
    if processor.kind == task_examples.REGRESSION:
        return {}
    counts = collections.Counter(str(example.label) for example in rows)
    return {label: count / len(rows) for label, count in counts.items()}


def test_folders(task: str, data_dir: str) -> dict[str, str]:
    """The test sets that exist, as ``TaskData.tests``."""
    try:
        folder = glue_tasks.find_directory(data_dir, glue_tasks.TASKS[task])
    except errors.UserError:  # a task of an earlier command, whose data were deleted since
        return {}
    folders = {}
    for name in (task, *_OTHER_TESTS.get(task, ())):
        test_folder = _test_folder(name, folder, data_dir)
        if test_folder is not None:
            folders[name] = test_folder
    return folders if task in folders else {}


def _test_folder(name: str, folder: str, data_dir: str) -> str | None:
    candidates = [folder]
    with contextlib.suppress(errors.UserError):
        candidates.append(glue_tasks.find_directory(data_dir, glue_tasks.TASKS[name]))
    for candidate in candidates:
        with contextlib.suppress(errors.UserError):
            _table_processor(name).files("test", candidate)
            return candidate
    return None


def test_files(tests: Mapping[str, str]) -> list[str]:
    """The files of some test sets.

    Args:
      tests: as ``TaskData.tests``.
    """
    return [
        path
        for name, folder in tests.items()
        for path in _table_processor(name).files("test", folder)
    ]


def _table_processor(name: str) -> table_processor.TableProcessor:
    processor = glue_tasks.create_processor(name)
    assert isinstance(processor, table_processor.TableProcessor)
    return processor
