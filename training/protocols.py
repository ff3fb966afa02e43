"""What the training loop asks of a task and of its batches."""

from collections.abc import Mapping, Sequence
from typing import Protocol

import tensorflow as tf

from command_line import errors


class Batches(Protocol):
    """Where examples come from; see ``batching``."""

    batch_size: int
    num_examples: int

    def dataset(self, context: tf.distribute.InputContext, start: int = 0) -> tf.data.Dataset:
        """Batches of one input pipeline's replicas, from the ``start``-th example on."""

    def to_user_error(self, error: tf.errors.OpError) -> errors.UserError | None:
        """The user's mistake behind an error of the pipeline or of a step, if there is one."""


Batch = dict[str, tf.Tensor]


class Task(Protocol):
    """What is trained: a model, its losses and its metrics.

    Losses and metrics are (sum, weight) pairs, which add up over parts of a batch, devices and
    batches. The loss is the sum over ``loss_parts`` of sum / (weight + constant).

    Attributes:
      model: its trainable variables carry checkpoint names.
      loss_parts: names of the parts of the loss, each with the constant added to its weight.
      metrics: names of all pairs that ``sums`` returns.
      without_gradient: scopes, such as "bert/pooler/", whose variables the loss does not depend on.
    """

    model: tf.Module
    loss_parts: Mapping[str, float]
    metrics: Sequence[str]
    without_gradient: Sequence[str]

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Weight of each part of the loss, float32 []; does not run the model."""

    def sums(
        self, batch: Batch, *, training: bool, seed: tf.Tensor | None = None
    ) -> dict[str, tuple[tf.Tensor, tf.Tensor]]:
        """Sum and weight of every metric, float32 [] each; ``seed``: int32 [2], of dropout."""
