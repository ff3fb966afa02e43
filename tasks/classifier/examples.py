"""What is fed to a sentence classifier, and what a task must say about itself.

``tasks.glue`` shows these names to users; they stand here because readers and features need them.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from command_line import errors
from tasks.classifier import tables

CLASSIFICATION = "classification"
REGRESSION = "regression"
MULTI_LABEL = "multi_label"
KINDS = (CLASSIFICATION, REGRESSION, MULTI_LABEL)


@dataclasses.dataclass
class InputExample:
    """One text, or one pair of texts.

    Attributes:
      guid: a name that is unique in its set.
      text_a: the text, or the first of two; may be empty.
      text_b: the second text; None or empty: there is none.
      label: one of the task's labels; the number for regression, as text or not; a list of labels
        for multi-label; None where it is not known, which only test sets may have.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | float | Sequence[Any] | None = None


class PaddingInputExample:
    """Stands for a row that only fills up a batch; becomes features of zeros."""


@dataclasses.dataclass
class InputFeatures:
    """An example as the model sees it, padded; the ids, mask and segments are lists of int."""

    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]
    label_id: Any
    is_real_example: bool = True


class DataProcessor:
    """What a task must provide; subclass it to add one.

    Attributes:
      kind: "classification", "regression" or "multi_label".
      metrics: names in ``metrics.BY_KIND``; the first one tells which model is best. Empty: the
        usual ones of the kind (``metrics_of``).
    """

    kind: str = CLASSIFICATION
    metrics: tuple[str, ...] = ()

    def get_train_examples(self, data_dir: str) -> list[InputExample]:
        """The labelled examples to train on."""
        raise self._lacks("get_train_examples")

    def get_dev_examples(self, data_dir: str) -> list[InputExample]:
        """The labelled examples to evaluate on."""
        raise self._lacks("get_dev_examples")

    def get_test_examples(self, data_dir: str) -> list[InputExample]:
        """The examples to predict; labels are not needed."""
        raise self._lacks("get_test_examples")

    def get_labels(self) -> list[str]:
        """The labels in the order of the model's outputs; none for regression.

        Numbers are taken as their text, here and in examples.
        """
        raise self._lacks("get_labels")

    def _lacks(self, method: str) -> errors.UserError:
        return errors.UserError(f"{type(self).__name__} has no {method}(), which this run needs")

    @classmethod
    def _read_tsv(cls, input_file: str, quotechar: str | None = None) -> list[list[str]]:
        """The rows of a tab separated file, a header included; quotes are data by default."""
        table = tables.Table(input_file, header=False, kind="tsv", quote=quotechar)
        return [list(row.fields) for row in table]


def metrics_of(processor: DataProcessor) -> tuple[str, ...]:
    """The names of a task's metrics, the deciding one first."""
    if processor.metrics:
        return processor.metrics
    if processor.kind == REGRESSION:
        return ("pearson", "spearman")
    if processor.kind == MULTI_LABEL:
        return ("micro_f1", "macro_f1", "exact_match")
    return ("accuracy", "f1", "matthews") if len(processor.get_labels()) == 2 else ("accuracy",)


def regression_value(label: object) -> float:
    """The number that a label of regression stands for.

    Args:
      label: a number, or text of one.

    Raises:
      ValueError: it is none, or none that float32 holds; its text says so.
    """
    try:
        # Python alone reads 1_0 as 10; in a table it is a name, or a slip.
        found = math.nan if "_" in str(label) else float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        found = math.nan
    text = tables.shown(str(label))
    if not math.isfinite(found):
        raise ValueError(f"label {text} is not a finite number")
    with np.errstate(over="ignore"):
        fits = np.isfinite(np.float32(found))
    if not fits:
        raise ValueError(f"label {text} is beyond 3.4e+38, the largest number of float32")
    return found


@dataclasses.dataclass(frozen=True)
class Split:
    """One part of a task's data. Columns are numbers from 0 (-1: the last) or names.

    Attributes:
      files: names below the data directory, of which the first that is there is read; {language}
        is filled in.
      text_a, text_b: columns of the texts.
      label: column of the label; None: there is none.
      header: whether line 1 names the columns.
      guid: what examples are named after: ``train-17``.
      guid_column: what follows in the name; None: the row's number in the file, from 0, a header
        counted.
      language_column: only rows with the processor's language there are read.
      names: what a header is known to say in the columns of the texts.
      width: columns of a file without header; None: as many as its first row has.
    """

    files: tuple[str, ...]
    text_a: tables.Column
    text_b: tables.Column | None = None
    label: tables.Column | None = None
    header: bool = True
    guid: str = "train"
    guid_column: int | None = None
    language_column: int | None = None
    names: tuple[str, ...] = ()
    width: int | None = None


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A task, as far as its data tell it from others.

    Attributes:
      name: the value of --task_name.
      directory: its folder in the usual download of GLUE.
      labels: in the order of the model's outputs.
      metrics: of tasks.metrics; by the first one the best model is chosen.
      train, dev, test: where the rows are; None: there is no such set.
      kind: "classification", "regression" or "multi_label".
      submission: name of its file in a GLUE submission; empty: it has none.
      test_rows: rows of the official test set; 0: not known.
      renamed: label in the files → label.
      skipped_label: rows of this label are left out, except in test sets.
      skip_bad_rows: training rows with too few columns are known and left out.
      other_directories: names the folder has in some downloads.
    """

    name: str
    directory: str
    labels: tuple[str, ...]
    metrics: tuple[str, ...]
    train: Split | None = None
    dev: Split | None = None
    test: Split | None = None
    kind: str = CLASSIFICATION
    submission: str = ""
    test_rows: int = 0
    renamed: Mapping[str, str] = dataclasses.field(default_factory=dict)
    skipped_label: str = ""
    skip_bad_rows: bool = False
    other_directories: tuple[str, ...] = ()
