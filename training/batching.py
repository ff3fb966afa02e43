"""From examples in memory to batches: an order that is a pure function of (seed, epoch).

Training shuffles all examples in every epoch; the position in the data is one number, the count of
examples consumed. Evaluation and prediction take every example once, sorted by length so that a
batch has little padding; ``restore_order`` puts the results back in the order of the examples.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from command_line import errors
from training import ragged

INDEX = "example_index"


class ReplicaShard(NamedTuple):
    """The part of each global batch that an input pipeline yields.

    Attributes:
      rows: of a replica's batch; the last replica's batch may be filled up.
      replicas: the ones that the pipeline feeds.
    """

    rows: int
    replicas: range


def replica_shard(batch_size: int, context: tf.distribute.InputContext) -> ReplicaShard:
    """Divides global batches between the replicas.

    Args:
      batch_size: examples in a global batch.
      context: tells how many replicas there are and which ones this pipeline feeds.
    """
    replicas = context.num_replicas_in_sync
    local = replicas // context.num_input_pipelines
    first = context.input_pipeline_id * local
    return ReplicaShard(-(-batch_size // replicas), range(first, first + local))


def prefetch(batches: tf.data.Dataset, shard: ReplicaShard) -> tf.data.Dataset:
    """Prepares two batches for each replica ahead of time.

    tf.data's autotuning is off: taking an autotuned pipeline down may take half a minute.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(2 * len(shard.replicas)).with_options(options)


def permutation(count: int, seed: int, epoch: int) -> np.ndarray:
    """int64 [count]: the order of an epoch."""
    # RandomState: NumPy promises that its stream never changes.
    generator = np.random.RandomState([seed & 0xFFFFFFFF, epoch & 0xFFFFFFFF])
    return generator.permutation(count)


def static_lengths(longest: int) -> tuple[int, ...]:
    """The few lengths that sequences are padded to where shapes are static: 32, 64, 128, ..."""
    shorter = (32 << power for power in range(16))
    return (*(length for length in shorter if length < longest), longest)


def trim(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Cuts the features along the sequence to the last real token of the batch.

    Args:
      batch: input_ids, input_mask and segment_ids [B, F], which are cut, and other features.
    """
    mask = batch["input_mask"]
    columns = tf.range(1, tf.shape(mask)[1] + 1)
    longest = tf.maximum(1, tf.reduce_max(tf.where(mask > 0, columns, 0)))
    along = ("input_ids", "input_mask", "segment_ids")
    return {name: x[:, :longest] if name in along else x for name, x in batch.items()}


def raised_user_error(error: tf.errors.OpError) -> errors.UserError | None:
    """The UserError that a Python function of an input pipeline raised, as its error holds it."""
    raised = re.search(r"\bUserError: (.*)", error.message)
    return errors.UserError(raised.group(1)) if raised else None


class FeatureBatches:
    """Batches of the features of a data set, [B, ...] tensors by name.

    A batch has the features, those that are ragged padded with zeros; input_mask int32 [B, F], 1
    for the tokens of input_ids; example_weights float32 [B], 0 for rows that fill up the last batch
    of a pass; example_index int32 [B], -1 for those rows.

    Args:
      features: N examples: ragged rows of tokens, of which input_ids is one, and arrays [N, ...].
      batch_size: examples in a global batch.
      seed: of the order, an endless one; None takes each example once.
      lengths: what sequences are padded to, ascending; empty: the longest of each batch.
    """

    def __init__(
        self,
        features: Mapping[str, ragged.Ragged | np.ndarray],
        *,
        batch_size: int,
        seed: int | None,
        lengths: Sequence[int] = (),
    ):
        self._features = dict(features)
        tokens = self._features["input_ids"]
        assert isinstance(tokens, ragged.Ragged)
        self._row_lengths = tokens.lengths
        self._seed = seed
        self._lengths = tuple(lengths)
        self.batch_size = batch_size
        self.num_examples = len(self._row_lengths)
        if not self.num_examples:
            raise ValueError("a data set without examples")

    def dataset(self, context: tf.distribute.InputContext, start: int = 0) -> tf.data.Dataset:
        """Batches of this input pipeline's replicas, one after the other.

        Args:
          context: of the input pipeline.
          start: examples consumed before.
        """
        shard = replica_shard(self.batch_size, context)

        def slices() -> Iterator[dict[str, np.ndarray]]:
            for rows in self._rows(start):
                length = self._padded_length(rows)
                # Dealt out like cards: every replica gets about as many tokens.
                for replica in shard.replicas:
                    dealt = rows[replica :: context.num_replicas_in_sync]
                    yield self._batch(dealt, shard.rows, length)

        batches = tf.data.Dataset.from_generator(slices, output_signature=self._spec(shard.rows))
        return prefetch(batches, shard)

    to_user_error = staticmethod(raised_user_error)

    def _rows(self, start: int) -> Iterator[np.ndarray]:
        """Examples of each global batch, the longest first."""
        if self._seed is None:
            order = np.argsort(-self._row_lengths, kind="stable")
            for first in range(0, self.num_examples, self.batch_size):
                yield order[first : first + self.batch_size]
            return
        epoch, skip = divmod(start, self.num_examples)
        remaining = permutation(self.num_examples, self._seed, epoch)[skip:]
        while True:
            while len(remaining) < self.batch_size:
                epoch += 1
                next_epoch = permutation(self.num_examples, self._seed, epoch)
                remaining = np.concatenate([remaining, next_epoch])
            rows, remaining = remaining[: self.batch_size], remaining[self.batch_size :]
            yield rows[np.argsort(-self._row_lengths[rows], kind="stable")]

    def _padded_length(self, rows: np.ndarray) -> int:
        longest = max(1, int(self._row_lengths[rows].max()))
        return next((length for length in self._lengths if length >= longest), longest)

    def _batch(self, rows: np.ndarray, count: int, length: int) -> dict[str, np.ndarray]:
        """Rows as arrays [count, ...]."""
        missing = count - len(rows)
        mask = np.arange(length) < self._row_lengths[rows, None]
        batch = {
            name: x.padded(rows, length) if isinstance(x, ragged.Ragged) else x[rows]
            for name, x in self._features.items()
        }
        batch |= {
            "input_mask": mask.astype(np.int32),
            "example_weights": np.ones(len(rows), np.float32),
            INDEX: rows.astype(np.int32),
        }
        if missing:
            batch = {
                name: np.pad(x, [(0, missing)] + [(0, 0)] * (x.ndim - 1))
                for name, x in batch.items()
            }
            batch[INDEX][len(rows) :] = -1
        return batch

    def _spec(self, rows: int) -> dict[str, tf.TensorSpec]:
        length = self._lengths[0] if len(self._lengths) == 1 else None
        spec = {
            name: tf.TensorSpec([rows, length], x.values.dtype)
            if isinstance(x, ragged.Ragged)
            else tf.TensorSpec([rows, *x.shape[1:]], x.dtype)
            for name, x in self._features.items()
        }
        return spec | {
            "input_mask": tf.TensorSpec([rows, length], tf.int32),
            "example_weights": tf.TensorSpec([rows], tf.float32),
            INDEX: tf.TensorSpec([rows], tf.int32),
        }


def restore_order(
    parts: Iterable[tuple[np.ndarray, Mapping[str, np.ndarray]]], count: int
) -> dict[str, np.ndarray]:
    """Puts predictions in the order of the examples.

    Args:
      parts: int [b] indices of examples, and [b, ...] arrays by name; see ``Trainer.predict``.
      count: N examples, each of which is there once.

    Returns:
      [N, ...] arrays by name.

    Raises:
      ValueError: an example is missing.
    """
    results: dict[str, np.ndarray] = {}
    seen = np.zeros(count, bool)
    for rows, values in parts:
        seen[rows] = True
        for name, value in values.items():
            if name not in results:
                results[name] = np.empty([count, *value.shape[1:]], value.dtype)
            results[name][rows] = value
    if not seen.all():
        raise ValueError(f"no result for example {int(np.argmin(seen))}")
    return results
