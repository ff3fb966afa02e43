"""AdamWeightDecay, the learning rate schedule, clipping and the loss scale.

Numbers equal those of the original release: no bias correction, decay outside the moments, a
schedule that counts its decay from step 0 and therefore drops a little when warm-up ends.
Checkpoints and published results depend on it.

Source: Kingma and Ba 2014, arXiv 1412.6980 (moments); Loshchilov and Hutter 2017, arXiv 1711.05101
(decoupled decay); Devlin et al. 2018, appendix A.2 (values).
"""

import dataclasses
import re
from collections.abc import Mapping, Sequence

import numpy as np
import tensorflow as tf

from command_line import original_names

BETA_1 = 0.9
BETA_2 = 0.999
EPSILON = 1e-6
WEIGHT_DECAY = 0.01
CLIP_NORM = 1.0

# TensorFlow's kernel takes 1 - beta_2 in float32, which makes the root of its second moment this
# much too small.
_BETA_2_ROUNDING = float((1 - np.float32(BETA_2)) / np.float32(0.001)) ** 0.5

# Searched anywhere in the variable's name.
_NOT_DECAYED = re.compile("LayerNorm|layer_norm|bias")


@dataclasses.dataclass(frozen=True)
class Schedule:
    """Linear warm-up, linear decay to 0.

    Attributes:
      learning_rate: rate that the decay starts from at step 0.
      total_steps: step from which on the rate is 0.
      warmup_steps: steps during which the rate is learning_rate * step / warmup_steps instead.
    """

    learning_rate: float
    total_steps: int
    warmup_steps: int = 0

    def rate(self, step: tf.Tensor) -> tf.Tensor:
        """The rate of the update that turns step into step + 1.

        Args:
          step: integer [], updates made so far: 0 for the first one.

        Returns:
          float32 [].
        """
        step = tf.cast(step, tf.float32)
        decayed = self.learning_rate * (1.0 - tf.minimum(step, self.total_steps) / self.total_steps)
        if not self.warmup_steps:
            return decayed
        warming_up = self.learning_rate * step / self.warmup_steps
        return tf.where(step < self.warmup_steps, warming_up, decayed)


def is_decayed(name: str) -> bool:
    """Whether weight decay applies: not to layer norms, not to biases."""
    return _NOT_DECAYED.search(name) is None


def clip(gradients: Sequence[tf.Tensor]) -> tuple[list, tf.Tensor]:
    """Scales gradients so that their common norm is at most CLIP_NORM.

    Args:
      gradients: float32, any shapes, dense.

    Returns:
      The gradients and their norm before clipping, float32 []; not finite when any gradient is not.
    """
    norm = tf.linalg.global_norm(gradients)
    return [gradient * (CLIP_NORM / tf.maximum(norm, CLIP_NORM)) for gradient in gradients], norm


class AdamWeightDecay(tf.Module):
    """Holds the moments of a set of variables and updates them in place.

    Args:
      variables: by checkpoint name. The moments are called <name>/adam_m and <name>/adam_v.
    """

    def __init__(self, variables: Mapping[str, tf.Variable]):
        super().__init__(name="optimizer")
        self._variables = dict(variables)
        self.m = {name: _zeros(x.shape, f"{name}/adam_m") for name, x in variables.items()}
        self.v = {name: _zeros(x.shape, f"{name}/adam_v") for name, x in variables.items()}

    def slots(self) -> dict[str, tf.Variable]:
        """The moments by checkpoint name."""
        m = {f"{name}/adam_m": moment for name, moment in self.m.items()}
        return m | {f"{name}/adam_v": moment for name, moment in self.v.items()}

    def apply(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        """Updates all variables; inside a strategy, call it in replica context.

            m' = 0.9 m + 0.1 g
            v' = 0.999 v + 0.001 g^2
            p' = p - rate (m' / (sqrt(v') + 1e-6) + 0.01 p)

        without the last term where decay does not apply. TensorFlow's fused kernel does the same in
        a quarter of the time of single operations; powers of 0 switch its bias correction off.

        Args:
          gradients: float32, dense, in the order of the variables given at construction.
          rate: float32 [].
        """
        # Made once: a node for each of hundreds of variables would slow down the first step.
        decay = 1.0 - rate * WEIGHT_DECAY
        scalars = {
            "beta1_power": 0.0,
            "beta2_power": 0.0,
            "lr": rate * _BETA_2_ROUNDING,
            "beta1": BETA_1,
            "beta2": BETA_2,
            "epsilon": EPSILON * _BETA_2_ROUNDING,
        }
        scalars = {name: tf.convert_to_tensor(value) for name, value in scalars.items()}
        for (name, variable), gradient in zip(self._variables.items(), gradients, strict=True):
            decayed = []
            if is_decayed(name):
                decayed = [variable.assign(tf.convert_to_tensor(variable) * decay)]
            with tf.control_dependencies(decayed):
                tf.raw_ops.ResourceApplyAdam(
                    var=variable.handle,
                    m=self.m[name].handle,
                    v=self.v[name].handle,
                    grad=gradient,
                    **scalars,
                )


def _zeros(shape: tf.TensorShape, name: str) -> tf.Variable:
    return tf.Variable(tf.zeros(shape), trainable=False, name=name)


class LossScale(tf.Module):
    """Dynamic loss scale for float16: halves on overflow, doubles after many good steps.

    Source: Micikevicius et al. 2017, arXiv 1710.03740, section 3.2.

    Args:
      initial: first scale.
      growth_interval: good steps after which the scale doubles.
    """

    LARGEST = 2.0**24

    def __init__(self, initial: float = 2.0**15, growth_interval: int = 2000):
        super().__init__(name="loss_scale")
        first = tf.VariableAggregation.ONLY_FIRST_REPLICA  # all replicas compute the same
        self.growth_interval = growth_interval
        self.scale = tf.Variable(initial, trainable=False, aggregation=first)
        self.good_steps = tf.Variable(0, trainable=False, aggregation=first)

    def update(self, finite: tf.Tensor) -> None:
        """Adapts the scale after a step; ``finite``: bool [], whether its gradients were finite."""
        good_steps = tf.where(finite, self.good_steps + 1, 0)
        grows = good_steps >= self.growth_interval
        doubled = tf.minimum(self.scale * 2.0, self.LARGEST)
        halved = tf.maximum(self.scale * 0.5, 1.0)
        unchanged_or_doubled = tf.where(grows, doubled, tf.convert_to_tensor(self.scale))
        self.scale.assign(tf.where(finite, unchanged_or_doubled, halved))
        self.good_steps.assign(tf.where(grows, 0, good_steps))


__getattr__ = original_names.getattr_of("optimization")
