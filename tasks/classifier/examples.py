"""Examples of sentence classification, and the interface of a task's processor."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from command_line import errors
from tasks.classifier import metrics, tables

CLASSIFICATION = "classification"
REGRESSION = "regression"
MULTI_LABEL = "multi_label"
KINDS = (CLASSIFICATION, REGRESSION, MULTI_LABEL)


@dataclasses.dataclass
class InputExample:
    """One text, or one pair of texts.

    Attributes:
      guid: a name that is unique in its set.
      text_a: the text, or the first of a pair; may be empty.
      text_b: the second text; None or empty if there is none.
      label: one of the task's labels; a number or its text for regression; a list of labels for
        multi-label; None if unknown, which is allowed only in test sets.
    """

    guid: str
    text_a: str
    text_b: str | None = None
    label: str | float | Sequence[Any] | None = None


class PaddingInputExample:
    """A row that only fills up a batch; its features are zeros."""


@dataclasses.dataclass
class InputFeatures:
    """The padded features of an example; ids, mask and segments are lists of int."""

    input_ids: list[int]
    input_mask: list[int]
    segment_ids: list[int]
    label_id: Any
    is_real_example: bool = True


class DataProcessor:
    """The interface of a task; subclass it to add a task of your own.

    Attributes:
      kind: "classification", "regression" or "multi_label".
      metrics: names in ``metrics.BY_KIND``; the first one decides which model is best. Empty: the
        default ones (``metrics_of``).
    """

    kind: str = CLASSIFICATION
    metrics: tuple[str, ...] = ()

    def get_train_examples(self, data_dir: str) -> list[InputExample]:
        """The labelled examples to train on."""
        raise self._not_implemented("get_train_examples")

    def get_dev_examples(self, data_dir: str) -> list[InputExample]:
        """The labelled examples to evaluate on."""
        raise self._not_implemented("get_dev_examples")

    def get_test_examples(self, data_dir: str) -> list[InputExample]:
        """The examples to predict; labels are not needed."""
        raise self._not_implemented("get_test_examples")

    def get_labels(self) -> list[str]:
        """The labels in the order of the model's outputs; none for regression.

        Numbers are converted to text, here and in examples.
        """
        raise self._not_implemented("get_labels")

    def _not_implemented(self, method: str) -> errors.UserError:
        return errors.UserError(f"{type(self).__name__} has no {method}(), which this run needs")

    @classmethod
    def _read_tsv(cls, input_file: str, quotechar: str | None = None) -> list[list[str]]:
        """The rows of a tab separated file, a header included; quotes are data by default."""
        table = tables.Table(input_file, header=False, format="tsv", quote=quotechar)
        return [list(row.fields) for row in table]


def metrics_of(processor: DataProcessor) -> tuple[str, ...]:
    """The names of a task's metrics, the deciding one first."""
    if processor.metrics:
        return processor.metrics
    if processor.kind != CLASSIFICATION:
        return metrics.BY_KIND[processor.kind]
    return ("accuracy", "f1", "matthews") if len(processor.get_labels()) == 2 else ("accuracy",)


def regression_value(label: object) -> float:
    """Converts a regression label to a number.

    Args:
      label: a number or its text.

    Raises:
      ValueError: it is not a finite number that fits float32.
    """
    try:
        # Python reads 1_0 as 10, but in a table it is a name or a typing error.
        value = math.nan if "_" in str(label) else float(label)  # type: ignore[arg-type]
    except (TypeError, ValueError, OverflowError):
        value = math.nan
    text = tables.excerpt(str(label))
    if not math.isfinite(value):
        raise ValueError(f"label {text} is not a finite number")
    with np.errstate(over="ignore"):
        fits = np.isfinite(np.float32(value))
    if not fits:
        raise ValueError(f"label {text} is beyond 3.4e+38, the largest number of float32")
    return value


@dataclasses.dataclass(frozen=True)
class Split:
    """One part of a task's data. Columns are numbers from 0 (-1: the last) or names.

    Attributes:
      files: names below the data directory; the first file that exists is read. {language} is
        replaced by the language of the processor.
      text_a, text_b: columns of the texts.
      label: column of the label; None if there is none; of several columns, each is a label of
        its own, which a row has or not.
      header: whether line 1 names the columns.
      guid: first part of the names of examples: "train" of ``train-17``.
      guid_column: second part of the names; None: the row's number in the file, from 0, including
        the header.
      language_column: if given, only rows with the processor's language in it are read.
      names: names of the columns of the texts in the official header.
      width: columns of a file without header; None: as many as its first row has.
    """

    files: tuple[str, ...]
    text_a: tables.Column
    text_b: tables.Column | None = None
    label: tables.Column | tuple[str, ...] | None = None
    header: bool = True
    guid: str = "train"
    guid_column: int | None = None
    language_column: int | None = None
    names: tuple[str, ...] = ()
    width: int | None = None


@dataclasses.dataclass(frozen=True)
class TaskSpec:
    """A task, described by its data.

    Attributes:
      name: the value of --task_name.
      directory: its folder in the usual download of GLUE.
      labels: in the order of the model's outputs.
      metrics: names in ``metrics.BY_KIND``; the first one decides which model is best.
      train, dev, test: the sets; None if the task has no such set.
      kind: "classification", "regression" or "multi_label".
      submission: name of its file in a GLUE submission; empty if it has none.
      test_rows: rows of the official test set; 0 if unknown.
      renamed: label in the files → label.
      skipped_label: rows of this label are left out, except in test sets.
      skip_bad_rows: training rows with too few columns are left out, because the official file has
        some.
      other_directories: other names of the folder in some downloads.
      hub_texts: keys of the texts in the task's JSON and Parquet files on the Hugging Face hub.
      hub_labels: label there, a number or a name → label; the order of numbers differs.
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
    hub_texts: tuple[str, ...] = ()
    hub_labels: Mapping[str, str] = dataclasses.field(default_factory=dict)
