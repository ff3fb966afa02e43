"""Metrics as TensorBoard event files and as metrics.jsonl."""

import json
import os
from collections.abc import Mapping
from typing import Any

from system import atomic_files, inputs


class Events:
    """Writes scalars for TensorBoard and metrics.jsonl; needs no ``tensorboard`` package.

    Args:
      directory: where to write; None writes nothing (processes other than the chief).
    """

    def __init__(self, directory: str | None):
        self._directory = directory
        self._path = os.path.join(directory or "", "metrics.jsonl")
        self._writer: Any = None

    def write(self, step: int, values: Mapping[str, float]) -> None:
        """Appends the values of one step."""
        if self._directory is None:
            return
        import tensorflow as tf
        from tensorflow.core.framework import summary_pb2

        if self._writer is None:
            self._writer = tf.summary.create_file_writer(self._directory)
        # What tf.summary.scalar writes, without its import of the tensorboard package.
        metadata = summary_pb2.SummaryMetadata(
            plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name="scalars"),
            data_class=summary_pb2.DATA_CLASS_SCALAR,
        )
        with self._writer.as_default(step=step):
            for name, value in values.items():
                tf.summary.write(name, tf.constant(value, tf.float32), metadata=metadata)
        self._writer.flush()
        with tf.io.gfile.GFile(self._path, "a") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")

    def cut(self, step: int) -> None:
        """Drops the rows of metrics.jsonl after a step, those of steps that a killed run lost."""
        if rows := self._rows():
            text = "".join(f"{row}\n" for row in rows if _is_until(_values(row), step))
            atomic_files.write_text(self._path, text)

    def has_evaluation(self, step: int) -> bool:
        """Whether metrics.jsonl has the results of an evaluation at a step."""
        return any(
            values.get("step") == step and any(name.startswith("eval_") for name in values)
            for values in map(_values, self._rows())
        )

    def _rows(self) -> list[str]:
        if self._directory is None or not inputs.is_file(self._path):
            return []
        return [row.decode("utf-8", "replace") for row in inputs.read_lines(self._path)]


def _is_until(values: Mapping[str, Any], step: int) -> bool:
    at = values.get("step")
    return isinstance(at, int) and at <= step


def _values(row: str) -> Mapping[str, Any]:
    """The values in a row; empty for one that a kill has cut short, or that is damaged."""
    try:
        values = json.loads(row)
    except (ValueError, RecursionError):
        return {}
    return values if isinstance(values, dict) else {}
