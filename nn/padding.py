"""Padding: between the padded layout [B, F] and the flat layout [N] of the real tokens."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


class TokenLayout:
    """Where the real tokens of a batch stand; the one place that knows about padding.

    A token is real when its mask is not 0 or when it is the first of its row, so that every row has
    a first token to pool.

    Args:
      input_mask: int32 [B, F].
      static_shapes: every position counts as real.
    """

    def __init__(self, input_mask: tf.Tensor, static_shapes: bool):
        self.static = static_shapes
        self.batch, self.length = dimensions(input_mask)
        if static_shapes:
            return
        first = tf.equal(tf.range(self.length), 0)  # [F]
        real = tf.reshape(tf.logical_or(input_mask > 0, first), [-1])  # [B * F]
        # [N]: place of each real token in the padded matrix.
        self.place = tf.cast(tf.reshape(tf.where(real), [-1]), tf.int32)
        count = tf.shape(self.place)[0]
        # [B * F]: row of each padded place in the flat matrix; padding points at a row of zeros.
        self.row = tf.where(real, tf.cumsum(tf.cast(real, tf.int32)) - 1, count)

    def flatten(self, ids: tf.Tensor) -> tf.Tensor:  # [B, F] -> [N]
        flat = tf.reshape(ids, [-1])
        return flat if self.static else tf.gather(flat, self.place)

    def columns(self) -> tf.Tensor:
        """int32 [N]: position of each token in its sequence."""
        if self.static:
            return tf.tile(tf.range(self.length), [self.batch])
        return self.place % self.length

    def pad(self, x: tf.Tensor) -> tf.Tensor:
        """[N, K] -> [B, F, K]; zeros where there is no token."""
        shape = tf.stack([self.batch, self.length, x.shape[-1]])
        if self.static:
            return tf.reshape(x, shape)
        return tf.reshape(self._spread(x), shape)

    def unpad(self, x: tf.Tensor) -> tf.Tensor:
        """[B, F, K] -> [N, K]."""
        flat = tf.reshape(x, [-1, x.shape[-1]])
        return flat if self.static else self._collect(flat)

    def pick(self, x: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
        """Some tokens of each row: [N, K], int32 [B, Q] -> [B * Q, K]; zeros for padding."""
        picked = tf.gather(self.pad(x), positions, batch_dims=1)  # [B, Q, K]
        return tf.reshape(picked, [-1, x.shape[-1]])

    # The two gathers are transposes of each other, so each is the other's gradient; TensorFlow's
    # own gradient of a gather is a scatter, which is slower.
    def _spread(self, x: tf.Tensor) -> tf.Tensor:  # [N, K] -> [B * F, K]
        @tf.custom_gradient
        def spread(x: tf.Tensor) -> tf.Tensor:
            zeros = tf.zeros([1, x.shape[-1]], x.dtype)
            return tf.gather(tf.concat([x, zeros], 0), self.row), self._collect

        return spread(x)

    def _collect(self, x: tf.Tensor) -> tf.Tensor:  # [B * F, K] -> [N, K]
        @tf.custom_gradient
        def collect(x: tf.Tensor) -> tf.Tensor:
            return tf.gather(x, self.place), self._spread

        return collect(x)


def dimensions(x: tf.Tensor) -> list[Any]:
    """The shape as Python ints where they are known, else as scalar tensors."""
    dynamic = tf.shape(x)
    return [dynamic[i] if size is None else size for i, size in enumerate(x.shape)]
