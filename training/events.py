"""Metrics as TensorBoard event files and as metrics.jsonl."""

import json
import math
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

from system import atomic_files

if TYPE_CHECKING:
    import tensorflow as tf


class Events:
    """Writes scalars for TensorBoard and metrics.jsonl; needs no ``tensorboard`` package.

    Args:
      directory: where to write; None writes nothing (processes other than the chief).
    """

    def __init__(self, directory: str | None):
        self._directory = directory
        self._writer: tf.summary.SummaryWriter | None = None

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
        path = os.path.join(self._directory, "metrics.jsonl")
        with tf.io.gfile.GFile(path, "a") as file:
            file.write(json.dumps({"step": step, **values}) + "\n")

    def cut(self, step: int) -> None:
        """Drops the rows of metrics.jsonl after a step, those of steps that a killed run lost."""
        rows = self._rows()
        if self._directory is not None and rows:
            text = "".join(f"{row}\n" for row in rows if _step_of(row) <= step)
            atomic_files.write_text(os.path.join(self._directory, "metrics.jsonl"), text)

    def has_evaluation(self, step: int) -> bool:
        """Whether metrics.jsonl has the results of an evaluation at a step."""
        return any(
            _step_of(row) == step and any(name.startswith("eval_") for name in json.loads(row))
            for row in self._rows()
        )

    def _rows(self) -> list[str]:
        if self._directory is None:
            return []
        import tensorflow as tf

        path = os.path.join(self._directory, "metrics.jsonl")
        if not tf.io.gfile.exists(path):
            return []
        with tf.io.gfile.GFile(path) as file:
            return file.read().splitlines()


def _step_of(row: str) -> float:
    try:
        return json.loads(row)["step"]
    except ValueError:  # cut short by a kill
        return math.inf
