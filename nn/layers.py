"""Layers with variables, dropout with named seeds, and how initial values are drawn."""

import zlib

import tensorflow as tf

from nn import functions


def _hash_in_scope(name: str) -> int:
    """Hash of the full name that ``name`` has in the current name scope, in [0, 2^31)."""
    return zlib.crc32(f"{tf.get_current_name_scope()}/{name}".encode()) & 0x7FFFFFFF


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
        seed = [self._seed & 0x7FFFFFFF, _hash_in_scope(name)]
        value = tf.random.stateless_truncated_normal(shape, seed, stddev=self._stddev)
        return tf.Variable(value, name=name)

    def constant(self, name: str, shape: list[int], value: float) -> tf.Variable:
        """float32, all ``value``, in the current name scope."""
        return tf.Variable(tf.fill(shape, value), name=name)


class Dense(tf.Module):
    """y = x kernel + bias; kernel [inputs, outputs]."""

    def __init__(self, inputs: int, outputs: int, initializer: Initializer, name: str = "dense"):
        super().__init__(name=name)
        with self.name_scope:
            self.kernel = initializer.normal("kernel", [inputs, outputs])
            self.bias = initializer.constant("bias", [outputs], 0.0)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:  # [N, inputs] -> [N, outputs], dtype of x
        product = tf.matmul(x, tf.cast(self.kernel, x.dtype))
        return tf.nn.bias_add(product, tf.cast(self.bias, x.dtype))


class LayerNorm(tf.Module):
    """Layer norm in float32, whatever the dtype of its input."""

    def __init__(
        self,
        width: int,
        initializer: Initializer,
        epsilon: float = functions.LAYER_NORM_EPSILON,
    ):
        super().__init__(name="LayerNorm")
        self.epsilon = epsilon
        with self.name_scope:
            self.gamma = initializer.constant("gamma", [width], 1.0)
            self.beta = initializer.constant("beta", [width], 0.0)

    def __call__(self, x: tf.Tensor) -> tf.Tensor:  # [N, H] -> [N, H], dtype of x
        y = functions.layer_norm(
            tf.cast(x, tf.float32), tf.identity(self.gamma), tf.identity(self.beta), self.epsilon
        )
        return tf.cast(y, x.dtype)


class Dropout(tf.Module):
    """Dropout whose mask is a pure function of (seed of the step, full name).

    The full name is that of the name scope in which it is made, and ``name``; two of the same full
    name, or two calls in one step, would drop the same elements.

    Args:
      rate: probability to drop an element, in [0, 1).
      name: unlike that of other dropouts in the same name scope.
    """

    def __init__(self, rate: float, name: str = "dropout"):
        super().__init__(name=name)
        self.rate = rate
        self._hash = _hash_in_scope(name)

    def __call__(self, x: tf.Tensor, seed: tf.Tensor | None) -> tf.Tensor:  # shape and dtype of x
        """Drops elements of x, floating, any shape; ``seed``: int32 [2], or None to keep all."""
        if seed is None or self.rate == 0:
            return x
        return functions.dropout(x, self.rate, tf.random.fold_in(seed, self._hash))


def dropout_seed(model: tf.Module, training: bool, seed: tf.Tensor | None) -> tf.Tensor | None:
    """The seed for the layers of a model, int32 [2]: None when not training.

    Raises:
      ValueError: training without a seed, when some layer drops elements.
    """
    if not training:
        return None
    if seed is None and any(isinstance(m, Dropout) and m.rate > 0 for m in model.submodules):
        raise ValueError("training with dropout needs a seed: pass seed=int32 [2]")
    return seed
