"""Fine-tuning on questions over a context: where the answer starts, and where it ends.

Axes: B windows, F positions.
"""

from collections.abc import Sequence

import tensorflow as tf

import modeling

Batch = dict[str, tf.Tensor]
Pairs = dict[str, tuple[tf.Tensor, tf.Tensor]]

# The score of padding: nothing is left of it in a softmax, and it is no candidate for an answer.
NO_TOKEN = -1e9


class QuestionAnswering(tf.Module):
    """A task of ``protocols.Task``, where the attributes are explained.

    The softmax of the loss goes over the real tokens of a window alone, so that padding changes
    nothing; that of the original release went over padding too.

    Args:
      model: encoder and span scores.
      frozen: scopes whose variables are not trained.
    """

    loss_parts = {"loss": 0.0}
    metrics = ("loss",)

    def __init__(self, model: modeling.SpanModel, frozen: Sequence[str] = ()):
        super().__init__(name="question_answering")
        self.model = model
        # As released: the pooler is kept in the checkpoint as it was, without optimizer state.
        self.without_gradient = (*frozen, f"{model.encoder.scope}/pooler/")

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The number of real windows, float32 []."""
        return {"loss": tf.reduce_sum(batch["example_weights"])}

    def sums(self, batch: Batch, *, training: bool, seed: tf.Tensor | None = None) -> Pairs:
        """Sum and weight of the loss: the mean of the cross-entropies of start and end.

        Args:
          batch: of ``batching.FeatureBatches``; start_positions and end_positions int32 [B].
          training: whether to drop out.
          seed: int32 [2], of dropout.
        """
        mask = batch["input_mask"]
        start, end = self.model(
            batch["input_ids"], mask, batch["segment_ids"], training=training, seed=seed
        )
        losses = 0.5 * (
            _cross_entropy(start, mask, batch["start_positions"])
            + _cross_entropy(end, mask, batch["end_positions"])
        )
        weights = batch["example_weights"]
        return {"loss": (tf.reduce_sum(weights * losses), tf.reduce_sum(weights))}

    def outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """``logits`` of a batch."""
        return self.logits(batch["input_ids"], batch["input_mask"], batch["segment_ids"])

    def logits(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
    ) -> dict[str, tf.Tensor]:
        """start_logits and end_logits, float32 [B, F], without dropout; NO_TOKEN at padding."""
        start, end = self.model(input_ids, input_mask, segment_ids, training=False)
        return {"start_logits": _real(start, input_mask), "end_logits": _real(end, input_mask)}


def _real(logits: tf.Tensor, mask: tf.Tensor) -> tf.Tensor:  # float32, int32 -> float32 [B, F]
    return tf.where(mask > 0, logits, NO_TOKEN)


def _cross_entropy(logits: tf.Tensor, mask: tf.Tensor, positions: tf.Tensor) -> tf.Tensor:
    """float32 [B], of logits float32 [B, F], mask int32 [B, F] and positions int32 [B]."""
    return tf.nn.sparse_softmax_cross_entropy_with_logits(
        labels=positions, logits=_real(logits, mask)
    )
