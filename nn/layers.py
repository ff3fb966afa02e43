"""Layers with variables: dense, layer norm, and how initial values are drawn."""

from __future__ import annotations

import zlib

import tensorflow as tf

from nn import functions

# --------------------------------------------------------------------------------------------------
# Building blocks
# --------------------------------------------------------------------------------------------------


class Initializer:
    """Makes variables: initial values are a pure function of (seed, full name), not of order.

    Args:
      stddev: of the truncated normal, redrawn beyond two standard deviations.
      seed: int.
    """

    def __init__(self, stddev: float, seed: int):
        self._stddev = stddev
        self._seed = seed

    def normal(self, name: str, shape: list[int]) -> tf.Variable:
        """float32, truncated normal, in the current name scope."""
        full = tf.get_current_name_scope() + "/" + name
        seed = [self._seed & 0x7FFFFFFF, zlib.crc32(full.encode()) & 0x7FFFFFFF]
        value = tf.random.stateless_truncated_normal(shape, seed, stddev=self._stddev)
        return tf.Variable(value, name=name)

    def constant(self, name: str, shape: list[int], value: float) -> tf.Variable:
        """float32, all ``value``, in the current name scope."""
        return tf.Variable(tf.fill(shape, value), name=name)


class Dense(tf.Module):
    """y = x kernel + bias; kernel [inputs, outputs]."""

    def __init__(self, inputs: int, outputs: int, weights: Initializer, name: str = "dense"):
        super().__init__(name=name)
        with self.name_scope:
            self.kernel = weights.normal("kernel", [inputs, outputs])
            self.bias = weights.constant("bias", [outputs], 0.0)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:  # [N, inputs] -> [N, outputs], dtype of x
        product = tf.matmul(x, tf.cast(self.kernel, x.dtype))
        return tf.nn.bias_add(product, tf.cast(self.bias, x.dtype))


class LayerNorm(tf.Module):
    """Layer norm in float32, whatever the dtype of its input."""

    def __init__(self, width: int, weights: Initializer):
        super().__init__(name="LayerNorm")
        with self.name_scope:
            self.gamma = weights.constant("gamma", [width], 1.0)
            self.beta = weights.constant("beta", [width], 0.0)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:  # [N, H] -> [N, H], dtype of x
        y = functions.layer_norm(
            tf.cast(x, tf.float32), tf.identity(self.gamma), tf.identity(self.beta)
        )
        return tf.cast(y, x.dtype)
