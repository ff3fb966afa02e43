"""The sets of a classifier run: which files they come from, their labels, features and batches."""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import errors
import inputs
import options
from tasks import examples as task_examples
from tasks import glue

if TYPE_CHECKING:
    import numpy as np

    import tokenization
    from batching import FeatureBatches as Batches

_log = logging.getLogger(__name__)

LABELS_FILE = "labels.txt"

_Sets = dict[str, list[task_examples.InputExample]]


class ClassifierData:
    """The task's examples, labels and features.

    Args:
      task: the flags.
      trained: directories of checkpoints. The first labels.txt in them serves a custom task that
        has neither --labels nor training rows.

    Attributes:
      name: of the task.
      labels: in the order of the model's outputs; none for regression.
      kind: "classification", "regression" or "multi_label".
      metrics: names, the deciding one first.
      examples: by set: "train", and those of ``devs`` and ``tests``.
      devs, tests: the sets to evaluate and to predict, each by the name of its results file.
      tokenizer, lengths: set before the first batches are asked for.
    """

    tokenizer: tokenization.FullTokenizer
    lengths: Sequence[int]

    def __init__(self, task: options.ClassifierOptions, trained: Sequence[str] = ()):
        self._task = task
        self.name = glue.canonical_name(task.task_name)
        if self.name != "custom" and not task.data_dir:
            raise errors.FlagError(f"--data_dir is missing; --task_name={task.task_name} needs it")
        self._processor = _processor(task, trained)
        self.labels = list(self._processor.get_labels())
        self.kind = self._processor.kind
        self.metrics = task_examples.metrics_of(self._processor)
        self.examples: _Sets = {}
        self.devs: list[str] = []
        self.tests: list[str] = []
        self._features: dict[str, dict[str, Any]] = {}

    @property
    def outputs(self) -> str:
        """What the outputs of a model mean: a checkpoint serves another run if that is the same."""
        if not self.labels:
            return "regression"
        several = "multi-label " if self.kind == task_examples.MULTI_LABEL else ""
        return f"{several}labels {', '.join(self.labels)}"

    def read(self, do_train: bool, eval_steps: bool) -> None:
        """Reads all sets that the run needs, so that every mistake in them shows first.

        Raises:
          errors.UserError: files, rows or examples that are no good.
          errors.FlagError: a set whose flag is missing.
        """
        task, folder = self._task, self._task.data_dir
        if do_train:
            self.examples["train"] = self._processor.get_train_examples(folder)
        others = _other_tasks(self._processor, task)
        if task.do_eval or eval_steps:
            devs = {"eval_results": self._processor.get_dev_examples(folder)}
            devs |= _other_sets("dev", others, self._processor, folder) if task.do_eval else {}
            self.devs = list(devs)
            self.examples |= devs
        if task.do_predict:
            tests = _test_sets(self._processor, folder)
            tests |= _other_sets("test", others, self._processor, folder)
            self.tests = list(tests)
            self.examples |= tests
        for part in self.examples:
            self._check(part)

    def _check(self, part: str) -> None:
        """Finds what a processor of one's own may do wrong; tables are checked row by row."""
        from tasks import classifier_features

        found = self.examples[part] = list(self.examples[part])
        if not found:
            raise errors.UserError(f"--task_name={self._task.task_name}: no examples for {part}")
        labelled = part not in self.tests
        classifier_features.check(found, self.labels, self.kind, labelled=labelled)

    def batches(self, part: str, batch_size: int, seed: int | None = None) -> Batches:
        """Batches of a set: endless and shuffled with a seed, else each example once."""
        import batching
        from tasks import classifier_features

        if part not in self._features:
            found = classifier_features.encode(
                self.examples[part],
                self.labels,
                self._task.max_seq_length,
                self.tokenizer,
                self.kind,
                labelled=part not in self.tests,
            )
            self._features[part] = found._asdict()
        return batching.FeatureBatches(
            self._features[part], batch_size=batch_size, seed=seed, lengths=self.lengths
        )

    def labels_of(self, part: str) -> np.ndarray:
        """label_ids of a set whose batches were asked for."""
        return self._features[part]["label_ids"]

    def write_labels(self, directory: str) -> None:
        """Writes labels.txt, one a line."""
        import checkpoint_files

        if self.labels:
            text = "".join(f"{label}\n" for label in self.labels)
            checkpoint_files.write_text(os.path.join(directory, LABELS_FILE), text)


def _processor(
    task: options.ClassifierOptions, trained: Sequence[str]
) -> task_examples.DataProcessor:
    header = {None: "auto", True: "true", False: "false"}[task.has_header]
    labels = _label_list(task.labels)
    is_custom = glue.canonical_name(task.task_name) == "custom"
    if is_custom and not (labels or task.train_file or task.regression):
        labels = _saved_labels(trained)
    return glue.create_processor(
        task.task_name,
        xnli_language=task.xnli_language,
        skip_bad_rows=task.skip_bad_rows,
        train_file=task.train_file,
        dev_file=task.dev_file,
        test_file=task.test_file,
        text_a_column=task.text_a_column,
        text_b_column=task.text_b_column,
        label_column=task.label_column,
        labels=labels,
        has_header=header,
        regression=task.regression,
        multi_label=task.multi_label,
    )


def _label_list(flag: str) -> list[str]:
    """--labels: the labels themselves, or a file with one a line."""
    if os.path.isfile(flag):
        return _read_labels(flag)
    return [label.strip() for label in flag.split(",") if label.strip()]


def _read_labels(path: str) -> list[str]:
    try:
        lines = [line.decode("utf-8-sig").strip() for line in inputs.read_lines(path)]
    except UnicodeDecodeError:
        raise errors.UserError(
            f"{path}: not UTF-8 text; expected a file of labels, one a line"
        ) from None
    return [line for line in lines if line]


def _saved_labels(trained: Sequence[str]) -> list[str]:
    """The labels that an earlier run left in one of the directories."""
    for directory in trained:
        path = os.path.join(directory, LABELS_FILE)
        if os.path.isfile(path):
            labels = _read_labels(path)
            _log.info("labels of %s: %s", path, ", ".join(labels)[:500])
            return labels
    return []


def _other_tasks(
    processor: task_examples.DataProcessor, task: options.ClassifierOptions
) -> dict[str, task_examples.DataProcessor]:
    """The tasks that --also_tasks names."""
    found = {}
    for name in filter(None, (name.strip() for name in task.also_tasks.split(","))):
        other = glue.create_processor(name, xnli_language=task.xnli_language)
        if other.get_labels() != processor.get_labels() or other.kind != processor.kind:
            theirs = ", ".join(other.get_labels()) or other.kind
            raise errors.FlagError(
                f"--also_tasks={name}: its labels ({theirs}) are not those of "
                f"--task_name={task.task_name} ({', '.join(processor.get_labels())})"
            )
        found[glue.canonical_name(name)] = other
    return found


def _test_sets(processor: task_examples.DataProcessor, folder: str) -> _Sets:
    """The examples to predict, by the name of the results file without its ending."""
    if not isinstance(processor, glue.TableProcessor):
        return {"test_results": processor.get_test_examples(folder)}
    paths = processor.files("test", folder)
    if len(paths) == 1:
        return {"test_results": processor.read("test", paths[0])}
    stems = [os.path.basename(path).split(".")[0] for path in paths]
    if len(set(stems)) < len(stems):
        raise errors.FlagError(
            f"--test_file names several files called {', '.join(sorted(stems))}; the results are "
            "named after them, so give them different names"
        )
    pairs = zip(stems, paths, strict=True)
    return {f"test_results-{stem}": processor.read("test", path) for stem, path in pairs}


def _other_sets(
    part: str,
    others: Mapping[str, task_examples.DataProcessor],
    processor: task_examples.DataProcessor,
    folder: str,
) -> _Sets:
    """The "dev" or "test" sets of other tasks, as far as they have one."""
    prefix = {"dev": "eval", "test": "test"}[part]
    found = {}
    for name, other in others.items():
        if isinstance(other, glue.TableProcessor) and getattr(other.spec, part) is None:
            continue
        read = other.get_dev_examples if part == "dev" else other.get_test_examples
        found[f"{prefix}_results-{name}"] = read(_folder_of(other, processor, folder))
    return found


def _folder_of(
    other: task_examples.DataProcessor, processor: task_examples.DataProcessor, folder: str
) -> str:
    """Where the files of another task lie: beside the task's folder under their own name, or in it.

    Files of all tasks have the same names, so the task's own folder comes first only where both
    tasks share it in the usual download, as those of MNLI do.
    """
    if not isinstance(other, glue.TableProcessor):
        return folder
    own = getattr(getattr(processor, "spec", None), "directory", None)
    if other.spec.directory != own:
        with contextlib.suppress(errors.UserError):
            return glue.find_directory(os.path.dirname(os.path.abspath(folder)), other.spec)
    return folder
