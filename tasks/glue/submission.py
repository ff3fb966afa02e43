"""Predictions in the form that the GLUE server takes: one tab separated file a task, in one zip."""

from __future__ import annotations

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

# File in the zip -> its task, in the order in which the server lists them.
FILES: dict[str, glue_tasks.TaskSpec] = {
    glue_tasks.TASKS[name].submission: glue_tasks.TASKS[name]
    for name in (
        "cola", "sst-2", "mrpc", "sts-b", "mnli", "mnli-mm", "qnli", "qqp", "rte", "wnli", "ax",
    )
}  # fmt: skip

# What every row of WNLI gets where no model was trained: the class that is the majority of the test
# set, which beats what models learn from its training set (65.1 against chance).
WNLI_MAJORITY = "0"


def predictions(labels: Sequence[str], outputs: np.ndarray, kind: str) -> list[str]:
    """What a model's outputs say, as the server wants it.

    Args:
      labels: in the order of the outputs; unused for regression.
      outputs: probabilities [N, C], or values [N] of regression, which are clipped to [0, 5].
      kind: "classification" or "regression".

    Raises:
      errors.UserError: an output is not a number, or there is not one column a label.
    """
    outputs = np.asarray(outputs)
    broken = ~np.isfinite(outputs.reshape(len(outputs), -1)).all(1)
    if broken.any():
        raise errors.UserError(
            f"prediction {int(np.argmax(broken))} of {len(outputs)} is not a finite number; "
            "did the training diverge?"
        )
    decided = metrics.decide(outputs, kind)
    if kind == task_examples.REGRESSION:
        return [f"{value:.3f}" for value in np.clip(decided, 0.0, 5.0)]
    if outputs.ndim != 2 or outputs.shape[1] != len(labels):
        raise errors.UserError(
            f"predictions of shape {list(outputs.shape)} do not fit {len(labels)} labels"
        )
    return [labels[index] for index in decided]


def indices(spec: glue_tasks.TaskSpec, examples: Sequence[glue_tasks.InputExample]) -> list[str]:
    """The index column: the id of a row where the test file has one that counts (QQP), else 0, 1, …

    Args:
      spec: the task.
      examples: its test set, in order.
    """
    if spec.name == "qqp":
        return [example.guid.removeprefix("test-") for example in examples]
    return [str(index) for index in range(len(examples))]


def table(index: Sequence[str], values: Sequence[str]) -> str:
    """The text of a file: ``index<TAB>prediction`` and one row an example.

    Args:
      index: of ``indices``.
      values: of ``predictions``; equally many.
    """
    rows = [f"{i}\t{value}\n" for i, value in zip(index, values, strict=True)]
    return "index\tprediction\n" + "".join(rows)


def wnli_without_model(examples: Sequence[glue_tasks.InputExample]) -> str:
    """The text of WNLI.tsv where no model was trained."""
    return table(indices(glue_tasks.TASKS["wnli"], examples), [WNLI_MAJORITY] * len(examples))


def write_zip(path: str, tables: Mapping[str, str]) -> None:
    """Writes the submission, whole or not at all; equal tables give equal bytes.

    Args:
      path: the zip to write; what stands there is replaced.
      tables: the names in FILES, all of them -> text of ``table``.

    Raises:
      errors.UserError: files are missing or not of GLUE.
    """
    missing = [name for name in FILES if name not in tables]
    unknown = sorted(set(tables) - set(FILES))
    if missing or unknown:
        found = f"missing are {', '.join(missing)}" if missing else ""
        found += f"; not of GLUE: {', '.join(unknown)}" if unknown else ""
        raise errors.UserError(f"{path}: a submission has exactly {len(FILES)} files; {found}")
    for name, spec in FILES.items():
        rows = tables[name].count("\n") - 1
        if rows != spec.test_rows:
            _log.warning(
                "%s: %d rows, but the official test set has %d; the server will refuse it",
                name,
                rows,
                spec.test_rows,
            )
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in FILES:
            entry = zipfile.ZipInfo(name)  # of a fixed date
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, tables[name].encode(), zipfile.ZIP_DEFLATED)
    atomic_files.write_bytes(path, packed.getvalue())
