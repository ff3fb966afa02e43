"""Padding: between the padded layout [B, F] and the flat layout [N] of the real tokens."""

from typing import Any

import tensorflow as tf


class TokenLayout:
    """Where the real tokens of a batch are; nothing else knows about padding.

    A token is real when its mask is not 0 or when it is the first of its row, so that every row has
    a first token to pool.

    Args:
      input_mask: int32 [B, F].
      static_shapes: every position counts as real, N = B * F.

    Attributes:
      batch_size: B, an int where it is known, else int32 [].
      length: F, likewise.
      flat_to_padded: int32 [N], index of each real token in the padded matrix [B * F].
      padded_to_flat: int32 [B * F], the inverse; padding points at row N, a row of zeros.
    """

    def __init__(self, input_mask: tf.Tensor, static_shapes: bool):
        self._static = static_shapes
        self.batch_size, self.length = dimensions(input_mask)
        if static_shapes:
            return
        first = tf.equal(tf.range(self.length), 0)  # [F]
        real = tf.reshape(tf.logical_or(input_mask > 0, first), [-1])  # [B * F]
        self.flat_to_padded = tf.cast(tf.reshape(tf.where(real), [-1]), tf.int32)
        count = tf.shape(self.flat_to_padded)[0]
        self.padded_to_flat = tf.where(real, tf.cumsum(tf.cast(real, tf.int32)) - 1, count)

    def flatten(self, ids: tf.Tensor) -> tf.Tensor:  # [B, F] -> [N]
        flat = tf.reshape(ids, [-1])
        return flat if self._static else tf.gather(flat, self.flat_to_padded)

    def position_ids(self) -> tf.Tensor:
        """int32 [N]: position of each token in its sequence."""
        if self._static:
            return tf.tile(tf.range(self.length), [self.batch_size])
        return self.flat_to_padded % self.length

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """[N, K] -> [B, F, K]; zeros where there is no token."""
        shape = tf.stack([self.batch_size, self.length, x.shape[-1]])
        return tf.reshape(x if self._static else self._to_padded(x), shape)

    def unpad(self, x: tf.Tensor) -> tf.Tensor:
        """[B, F, K] or [B * F, K] -> [N, K]."""
        x = tf.reshape(x, [-1, x.shape[-1]])
        return x if self._static else self._to_flat(x)

    def gather_positions(self, x: tf.Tensor, positions: tf.Tensor | None) -> tf.Tensor:
        """Some tokens of each row: [N, K], int32 [B, Q] -> [B * Q, K]; zeros for padding.

        All tokens, x itself, where positions is None.
        """
        if positions is None:
            return x
        gathered = tf.gather(self.pad(x), positions, batch_dims=1)  # [B, Q, K]
        return tf.reshape(gathered, [-1, x.shape[-1]])

    # The two gathers are transposes of each other, so each is the other's gradient; TensorFlow's
    # own gradient of a gather is a scatter, which is slower.
    def _to_padded(self, x: tf.Tensor) -> tf.Tensor:  # [N, K] -> [B * F, K]
        @tf.custom_gradient
        def spread(x: tf.Tensor) -> tf.Tensor:
            zeros = tf.zeros([1, x.shape[-1]], x.dtype)
            return tf.gather(tf.concat([x, zeros], 0), self.padded_to_flat), self._to_flat

        return spread(x)

    def _to_flat(self, x: tf.Tensor) -> tf.Tensor:  # [B * F, K] -> [N, K]
        @tf.custom_gradient
        def collect(x: tf.Tensor) -> tf.Tensor:
            return tf.gather(x, self.flat_to_padded), self._to_padded

        return collect(x)


def dimensions(x: tf.Tensor) -> list[Any]:
    """The shape as Python ints where they are known, else as int32 [] tensors."""
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(x.shape)]
