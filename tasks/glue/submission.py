"""Predictions in the format of the GLUE server: a zip with one tab separated file per task."""

import io
import logging
import zipfile
from collections.abc import Mapping, Sequence

import numpy as np

from command_line import errors
from system import atomic_files
from tasks.classifier import examples as task_examples
from tasks.classifier import glue_tasks, metrics

_log = logging.getLogger(__name__)

# File in the zip -> its task, in the order of the server.
FILES: dict[str, task_examples.TaskSpec] = {
    glue_tasks.TASKS[name].submission: glue_tasks.TASKS[name]
    for name in (
        "cola", "sst-2", "mrpc", "sts-b", "mnli", "mnli-mm", "qnli", "qqp", "rte", "wnli", "ax",
    )
}  # fmt: skip

# Every row of WNLI gets this label if no model was trained. It is the majority of the test set
# (65.1 %), more than models reach that learn from the training set.
WNLI_MAJORITY = "0"


def predictions(labels: Sequence[str], outputs: np.ndarray, kind: str) -> list[str]:
    """The decisions of a model, as the server expects them.

    Args:
      labels: in the order of the outputs; unused for regression.
      outputs: probabilities [N, C], or values [N] of regression, which are clipped to [0, 5].
      kind: "classification" or "regression".

    Raises:
      errors.UserError: an output is not a finite number, or the columns do not fit the labels.
    """
    outputs = np.asarray(outputs)
    invalid = ~np.isfinite(outputs.reshape(len(outputs), -1)).all(1)
    if invalid.any():
        raise errors.UserError(
            f"prediction {int(np.argmax(invalid))} of {len(outputs)} is not a finite number; "
            "did the training diverge?"
        )
    decisions = metrics.decide(outputs, kind)
    if kind == task_examples.REGRESSION:
        return [f"{value:.3f}" for value in np.clip(decisions, 0.0, 5.0)]
    if outputs.ndim != 2 or outputs.shape[1] != len(labels):
        raise errors.UserError(
            f"predictions of shape {list(outputs.shape)} do not fit {len(labels)} labels"
        )
    return [labels[index] for index in decisions]


def indices(
    spec: task_examples.TaskSpec, examples: Sequence[task_examples.InputExample]
) -> list[str]:
    """The index column: for QQP the ids in the test file, else 0, 1, …

    Args:
      spec: the task.
      examples: its test set, in order.
    """
    if spec.name == "qqp":
        return [example.guid.removeprefix("test-") for example in examples]
    return [str(index) for index in range(len(examples))]


def table(index: Sequence[str], values: Sequence[str]) -> str:
    """The text of a file: the header ``index<TAB>prediction`` and one row per example.

    Args:
      index: from ``indices``.
      values: from ``predictions``, of the same length.
    """
    rows = [f"{i}\t{value}\n" for i, value in zip(index, values, strict=True)]
    return "index\tprediction\n" + "".join(rows)


def wnli_without_model() -> str:
    """The text of WNLI.tsv for the official test set, if no model was trained."""
    count = glue_tasks.TASKS["wnli"].test_rows
    return table([str(index) for index in range(count)], [WNLI_MAJORITY] * count)


def write_zip(path: str, tables: Mapping[str, str]) -> None:
    """Writes the submission atomically; equal tables give equal bytes.

    Args:
      path: the zip to write or to replace.
      tables: each name in FILES -> its text, from ``table``.
    """
    for name, spec in FILES.items():
        rows = tables[name].count("\n") - 1
        if rows != spec.test_rows:
            _log.warning(
                "%s: %d rows, but the official test set has %d; the server will refuse it",
                name,
                rows,
                spec.test_rows,
            )
    data = io.BytesIO()
    with zipfile.ZipFile(data, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            entry = zipfile.ZipInfo(name)  # without the current date
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, tables[name].encode(), zipfile.ZIP_DEFLATED)
    atomic_files.write_bytes(path, data.getvalue())
