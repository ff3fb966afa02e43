"""Fine-tuning on one text or a pair: losses on the devices, scores on the host.

Three kinds: "classification" into one of L labels, "regression" to a number, and "multi_label",
where each of L labels is there or not. Axes: B, N examples, L outputs.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf

import modeling
from tasks.classifier import examples, metrics

Batch = dict[str, tf.Tensor]
Pairs = dict[str, tuple[tf.Tensor, tf.Tensor]]


class Classification(tf.Module):
    """A task of ``protocols.Task``, where the attributes are explained.

    Args:
      model: its number of labels fits the kind.
      kind: see above.
      frozen: scopes whose variables are not trained.
    """

    loss_parts = {"loss": 0.0}

    def __init__(self, model: modeling.ClassifierModel, kind: str, frozen: Sequence[str] = ()):
        super().__init__(name="classification")
        self.model = model
        self._kind = kind
        unused = (f"{model.encoder.scope}/pooler/",) if model.bilstm is not None else ()
        self.without_gradient = (*frozen, *unused)
        self.metrics = ("loss", "accuracy") if kind == examples.CLASSIFICATION else ("loss",)

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The number of real examples, float32 []."""
        return {"loss": tf.reduce_sum(batch["example_weights"])}

    def sums(self, batch: Batch, *, training: bool, seed: tf.Tensor | None = None) -> Pairs:
        """Sum and weight of the loss, and of the accuracy of classification.

        Args:
          batch: of ``batching.FeatureBatches``; label_ids int32 [B], float32 [B] for regression,
            float32 [B, L] for multi-label.
          training: whether to drop out.
          seed: int32 [2], of dropout.
        """
        logits = self._logits(batch, training, seed)
        labels, weights = batch["label_ids"], batch["example_weights"]
        total = tf.reduce_sum(weights)
        pairs = {"loss": (tf.reduce_sum(weights * self._losses(logits, labels)), total)}
        if self._kind == examples.CLASSIFICATION:
            right = tf.cast(tf.equal(tf.argmax(logits, -1, tf.int32), labels), tf.float32)
            pairs["accuracy"] = (tf.reduce_sum(weights * right), total)
        return pairs

    def outputs(self, batch: Batch) -> dict[str, tf.Tensor]:
        """Logits, float32 [B, L], without dropout."""
        return {"logits": self._logits(batch, False, None)}

    def probabilities(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
    ) -> tf.Tensor:  # float32 [B, L]
        """What is written for each example: softmax, or sigmoid, or the numbers."""
        logits = self.model(input_ids, input_mask, segment_ids, training=False)
        if self._kind == examples.MULTI_LABEL:
            return tf.sigmoid(logits)
        return tf.nn.softmax(logits) if self._kind == examples.CLASSIFICATION else logits

    def _logits(self, batch: Batch, training: bool, seed: tf.Tensor | None) -> tf.Tensor:
        """float32 [B, L]; seed is int32 [2]."""
        inputs = (batch["input_ids"], batch["input_mask"], batch["segment_ids"])
        return self.model(*inputs, training=training, seed=seed)

    def _losses(self, logits: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """float32 [B], of logits float32 [B, L] and labels as ``sums`` takes them."""
        if self._kind == examples.REGRESSION:
            return tf.square(logits[:, 0] - labels)
        if self._kind == examples.MULTI_LABEL:
            each = tf.nn.sigmoid_cross_entropy_with_logits(labels=labels, logits=logits)
            return tf.reduce_mean(each, -1)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)


def probabilities(logits: np.ndarray, kind: str) -> np.ndarray:
    """As ``Classification.probabilities``, of logits float32 [N, L]."""
    wide = logits.astype(np.float64)
    if kind == examples.MULTI_LABEL:
        return np.exp(-np.logaddexp(0.0, -wide)).astype(np.float32)
    if kind == examples.CLASSIFICATION:
        return np.exp(_log_softmax(wide)).astype(np.float32)
    return logits


def results(
    logits: np.ndarray, labels: np.ndarray, kind: str, names: Sequence[str], positive: int = 1
) -> dict[str, float]:
    """Loss and scores over a data set: eval_loss, eval_<metric>, and loss, equal to eval_loss.

    Logits are float32 [N, L], labels as ``Classification.sums`` takes them, names from
    ``metrics.BY_KIND``; ``positive`` is the index of the label that F1 is about.
    """
    wide = logits.astype(np.float64)
    if kind == examples.REGRESSION:
        losses = np.square(wide[:, 0] - labels)
    elif kind == examples.MULTI_LABEL:
        losses = (np.logaddexp(0.0, wide) - wide * labels).mean(-1)
    else:
        losses = -_log_softmax(wide)[np.arange(len(labels)), labels]
    loss = float(losses.mean())
    scores = metrics.compute(names, labels, probabilities(logits, kind), kind, positive)
    return {"eval_loss": loss, "loss": loss} | {f"eval_{key}": scores[key] for key in scores}


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    return logits - np.logaddexp.reduce(logits, -1, keepdims=True)
