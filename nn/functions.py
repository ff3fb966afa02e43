"""Activation functions, dropout and layer normalization."""

import math
from collections.abc import Callable

import tensorflow as tf

from command_line import errors

LAYER_NORM_EPSILON = 1e-12

# GELU, tanh form: x sigmoid(x (_LINEAR + _CUBIC x^2)).
_LINEAR = 2 * math.sqrt(2.0 / math.pi)
_CUBIC = 0.044715 * _LINEAR


@tf.custom_gradient
def gelu(x: tf.Tensor) -> tf.Tensor:
    """Gaussian error linear unit, tanh form, as in the original release; any shape, dtype of x.

    0.5 x (1 + tanh(sqrt(2/pi) (x + 0.044715 x^3))), computed as x sigmoid(2 sqrt(2/pi) (...)),
    which is the same function. The written-out gradient keeps one tensor instead of seven.
    Source: Hendrycks and Gimpel 2016, arXiv 1606.08415, section 2.
    """
    inputs, x = x, tf.cast(x, tf.float32)
    gate = tf.sigmoid(x * (_LINEAR + _CUBIC * tf.square(x)))

    def gradient(dy: tf.Tensor) -> tf.Tensor:
        slope = x * (_LINEAR + 3 * _CUBIC * tf.square(x))
        # SigmoidGrad is gate (1 - gate) slope in one pass over memory.
        derivative = gate + tf.raw_ops.SigmoidGrad(y=gate, dy=slope)
        return tf.cast(tf.cast(dy, tf.float32) * derivative, inputs.dtype)

    return tf.cast(x * gate, inputs.dtype), gradient


@tf.custom_gradient
def gelu_erf(x: tf.Tensor) -> tf.Tensor:
    """Exact Gaussian error linear unit, 0.5 x (1 + erf(x / sqrt(2))); any shape, dtype of x."""
    inputs, x = x, tf.cast(x, tf.float32)
    gate = 0.5 + 0.5 * tf.math.erf(x * math.sqrt(0.5))

    def gradient(dy: tf.Tensor) -> tf.Tensor:
        density = tf.exp(-0.5 * tf.square(x)) * (1 / math.sqrt(2 * math.pi))
        return tf.cast(tf.cast(dy, tf.float32) * (gate + x * density), inputs.dtype)

    return tf.cast(x * gate, inputs.dtype), gradient


# What ``hidden_act`` of bert_config.json may be, in lower case. "gelu" is the tanh form, as in the
# original release; Hugging Face calls the exact form so, which ``modeling.BertConfig`` sees to.
ACTIVATIONS: dict[str, Callable[[tf.Tensor], tf.Tensor]] = {
    "gelu": gelu,
    "gelu_new": gelu,
    "gelu_pytorch_tanh": gelu,
    "gelu_erf": gelu_erf,
    "relu": tf.nn.relu,
    "tanh": tf.tanh,
    "linear": tf.identity,
}


def activation(name: str | None) -> Callable[[tf.Tensor], tf.Tensor]:
    """The activation called ``name``, in any case; an empty name or None is "linear".

    Raises:
      errors.UserError: a name that is not in ACTIVATIONS.
    """
    function = ACTIVATIONS.get(str(name or "linear").lower())
    if function is None:
        raise errors.UserError(
            f"Unsupported activation: hidden_act is {name!r}, expected {', '.join(ACTIVATIONS)}"
        )
    return function


def dropout(x: tf.Tensor, rate: float, seed: tf.Tensor) -> tf.Tensor:
    """Zeroes each element with probability ``rate`` and scales the rest by 1 / (1 - rate).

    The mask is a pure function of the seed, so a resumed run drops what an unbroken one drops. It
    costs 16 random bits an element; the rate is exact to 2^-16.

    Args:
      x: any shape, floating.
      rate: in [0, 1).
      seed: int32 [2].
    """
    threshold = round(rate * 65536)
    if threshold == 0:
        return x

    @tf.custom_gradient
    def masked(x: tf.Tensor) -> tf.Tensor:
        size = tf.size(x)
        words = tf.random.stateless_uniform([(size + 1) // 2], seed, None, None, tf.int32)
        bits = tf.reshape(tf.bitcast(words, tf.int16), [-1])[:size]
        keep = tf.cast(bits >= tf.constant(threshold - 32768, tf.int16), x.dtype)
        mask = tf.reshape(keep, tf.shape(x)) * tf.cast(65536 / (65536 - threshold), x.dtype)
        return x * mask, lambda dy: dy * mask

    return masked(x)


def layer_norm(
    x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor, epsilon: float = LAYER_NORM_EPSILON
) -> tf.Tensor:
    """Normalizes rows to mean 0 and variance 1, then scales and shifts.

    Args:
      x: float32 [N, H].
      gamma: float32 [H].
      beta: float32 [H].
      epsilon: added to the variance.

    Returns:
      float32 [N, H]. Source: Ba et al. 2016, arXiv 1607.06450.
    """

    @tf.custom_gradient
    def normalize(x: tf.Tensor, gamma: tf.Tensor, beta: tf.Tensor) -> tf.Tensor:
        centered = x - tf.reduce_mean(x, -1, keepdims=True)
        variance = tf.reduce_mean(tf.square(centered), -1, keepdims=True)
        inverse = tf.math.rsqrt(variance + epsilon)
        normalized = centered * inverse

        def gradient(dy: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
            scaled = dy * gamma
            dx = scaled - tf.reduce_mean(scaled, -1, keepdims=True)
            dx -= normalized * tf.reduce_mean(scaled * normalized, -1, keepdims=True)
            return inverse * dx, tf.reduce_sum(dy * normalized, 0), tf.reduce_sum(dy, 0)

        return normalized * gamma + beta, gradient

    return normalize(x, gamma, beta)
