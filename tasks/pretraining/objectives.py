"""Pre-training objectives: masked words with or without next sentence, and left-to-right words.

An objective is a task of ``training.loop.Trainer``. Losses and metrics are (sum, weight) pairs, so
that they add up over micro-batches, devices and batches, and are divided once.
"""

import dataclasses
from typing import Any

import numpy as np
import tensorflow as tf

import modeling
from command_line import errors

# The original adds this to the masked-LM weights, so that a batch without predictions has loss 0.
_SMALL = 1e-5

Batch = dict[str, tf.Tensor]
Pairs = dict[str, tuple[tf.Tensor, tf.Tensor]]


class _Objective(tf.Module):
    """What the objectives share; the attributes are explained in ``training.protocols.Task``."""

    loss_parts: dict[str, float]
    metrics: tuple[str, ...]
    without_gradient: tuple[str, ...] = ()

    def __init__(self, model: modeling.PretrainingModel):
        super().__init__(name="objective")
        self.model = model

    def _token_pairs(self, states: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Pairs:
        """Loss and accuracy of predicted tokens: [K, H], int32 [K], float32 [K]."""
        if not self.model.encoder.static_shapes:
            real = tf.reshape(tf.where(weights > 0), [-1])
            states, labels, weights = (tf.gather(x, real) for x in (states, labels, weights))
        logits = self.model.token_logits(states)  # [K, V]
        return _pairs("masked_lm", logits, labels, weights)


def _next_sentence_scopes(model: modeling.PretrainingModel) -> tuple[str, ...]:
    """Scopes of the variables that only next-sentence prediction uses."""
    return (f"{model.encoder.scope}/pooler/", model.next_sentence.name_scope.name)


def _pairs(name: str, logits: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Pairs:
    """Cross-entropy and accuracy.

    Args:
      name: beginning of the metrics' names.
      logits: float32 [K, C].
      labels: int32 [K].
      weights: float32 [K].
    """
    loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
    right = tf.equal(tf.argmax(logits, -1, tf.int32), labels)
    total = tf.reduce_sum(weights)
    return {
        f"{name}_loss": (tf.reduce_sum(weights * loss), total),
        f"{name}_accuracy": (tf.reduce_sum(weights * tf.cast(right, tf.float32)), total),
    }


class MaskedLm(_Objective):
    """Masked words, and whether B follows A unless ``next_sentence`` is off (paper section 3.1)."""

    def __init__(self, model: modeling.PretrainingModel, *, next_sentence: bool = True):
        super().__init__(model)
        self.next_sentence = next_sentence
        self.loss_parts = {"masked_lm_loss": _SMALL}
        self.metrics: tuple[str, ...] = ("masked_lm_loss", "masked_lm_accuracy")
        if next_sentence:
            self.loss_parts["next_sentence_loss"] = 0.0
            self.metrics += ("next_sentence_loss", "next_sentence_accuracy")
        else:
            self.without_gradient = _next_sentence_scopes(model)

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        """The weight of each part of the loss, float32 [], known before the model runs."""
        weights = {"masked_lm_loss": tf.reduce_sum(batch["masked_lm_weights"])}
        if self.next_sentence:
            weights["next_sentence_loss"] = tf.reduce_sum(batch["example_weights"])
        return weights

    def sums(self, batch: Batch, *, training: bool, seed: tf.Tensor | None = None) -> Pairs:
        """Sum and weight of every metric.

        Args:
          batch: the features of ``records.pretraining_features`` with a leading axis B, and
            example_weights float32 [B], 0 for rows that only fill the batch up.
          training: whether to drop out.
          seed: int32 [2], of dropout.
        """
        encoder = self.model.encoder
        positions = batch["masked_lm_positions"]
        first = tf.zeros_like(positions[:, :1])
        states = encoder.encode_positions(
            tf.concat([first, positions], 1),
            batch["input_ids"],
            batch["input_mask"],
            batch["segment_ids"],
            training=training,
            seed=seed,
        )  # [B, 1 + M, H]
        pairs = self._token_pairs(
            tf.reshape(states[:, 1:], [-1, states.shape[-1]]),
            tf.reshape(batch["masked_lm_ids"], [-1]),
            tf.reshape(batch["masked_lm_weights"], [-1]),
        )
        if self.next_sentence:
            logits = self.model.next_sentence(encoder.apply_pooler(states[:, 0]))  # [B, 2]
            labels = tf.reshape(batch["next_sentence_labels"], [-1])
            pairs |= _pairs("next_sentence", logits, labels, batch["example_weights"])
        return pairs


class LeftToRight(_Objective):
    """Every next token, from the tokens before it (paper section 5.1, LTR & No NSP).

    Reads the records of masked-LM pre-training and puts the original tokens back. The metrics keep
    the names of the masked-LM ones: they are the same quantities, per predicted token.
    """

    loss_parts = {"masked_lm_loss": _SMALL}
    metrics = ("masked_lm_loss", "masked_lm_accuracy")

    def __init__(self, model: modeling.PretrainingModel):
        if model.encoder.config.attention != "left_to_right":
            raise ValueError("LeftToRight needs a model with attention='left_to_right'")
        super().__init__(model)
        self.without_gradient = _next_sentence_scopes(model)

    def weights(self, batch: Batch) -> dict[str, tf.Tensor]:
        return {"masked_lm_loss": tf.reduce_sum(self._predicted(batch))}

    def _predicted(self, batch: Batch) -> tf.Tensor:
        """float32 [B, F - 1]: whether position i + 1 holds a real token."""
        real = tf.cast(batch["input_mask"][:, 1:], tf.float32)
        return real * batch["example_weights"][:, None]

    def sums(self, batch: Batch, *, training: bool, seed: tf.Tensor | None = None) -> Pairs:
        """Sum and weight of every metric; arguments as in MaskedLm."""
        original = original_ids(batch)  # [B, F]
        output = self.model.encoder(
            original, batch["input_mask"], batch["segment_ids"], training=training, seed=seed
        )
        states = output.sequence_output[:, :-1]  # [B, F - 1, H]
        return self._token_pairs(
            tf.reshape(states, [-1, states.shape[-1]]),
            tf.reshape(original[:, 1:], [-1]),
            tf.reshape(self._predicted(batch), [-1]),
        )


def original_ids(batch: Batch) -> tf.Tensor:
    """The tokens before masking, int32 [B, F].

    Args:
      batch: input_ids int32 [B, F]; masked_lm_positions and masked_lm_ids int32 [B, M];
        masked_lm_weights float32 [B, M], 0 for unused slots.
    """
    ids = batch["input_ids"]
    positions = batch["masked_lm_positions"]
    # An unused slot has position 0; it writes back the token that position 0 has.
    current = tf.gather(ids, positions, batch_dims=1)
    values = tf.where(batch["masked_lm_weights"] > 0, batch["masked_lm_ids"], current)
    rows = tf.ones_like(positions) * tf.range(tf.shape(positions)[0])[:, None]
    return tf.tensor_scatter_nd_update(ids, tf.stack([rows, positions], -1), values)


def frequency_baseline(dataset: tf.data.Dataset, vocab_size: int) -> dict[str, float]:
    """What guessing by frequency alone achieves on the predictions of a dataset.

    Args:
      dataset: batches as evaluation reads them.
      vocab_size: V.

    Returns:
      masked_lm_loss: entropy of the masked tokens in nats, which no model that ignores the context
        can go below; masked_lm_accuracy: share of the commonest; next_sentence_accuracy: share of
        the commoner answer.
    """
    tokens = np.zeros(vocab_size)
    answers = np.zeros(2)
    for batch in dataset.as_numpy_iterator():
        used = batch["masked_lm_weights"] > 0
        tokens += np.bincount(batch["masked_lm_ids"][used], minlength=vocab_size)
        real = batch["example_weights"] > 0
        answers += np.bincount(batch["next_sentence_labels"][real, 0], minlength=2)
    shares = tokens / max(tokens.sum(), 1)
    seen = shares[shares > 0]
    return {
        "masked_lm_loss": float(-(seen * np.log(seen)).sum()),
        "masked_lm_accuracy": float(shares.max()),
        "next_sentence_accuracy": float(answers.max() / max(answers.sum(), 1)),
    }


def create_objective(
    name: str, config: modeling.BertConfig, **model_options: Any
) -> MaskedLm | LeftToRight:
    """Builds the model and objective called mlm_nsp, mlm or ltr.

    Args:
      name: value of --objective.
      config: sizes; ltr turns its attention to left_to_right.
      **model_options: compute_dtype, static_shapes and seed of modeling.BertModel.

    Raises:
      errors.FlagError: a left_to_right config with a masked-LM objective.
    """
    if name == "ltr":
        config = dataclasses.replace(config, attention="left_to_right")
    elif config.attention == "left_to_right":
        raise errors.FlagError(
            f"--objective={name} does not fit --bert_config_file with attention left_to_right; "
            "use --objective=ltr"
        )
    model = modeling.PretrainingModel(modeling.BertModel(config, **model_options))
    if name == "ltr":
        return LeftToRight(model)
    return MaskedLm(model, next_sentence=name == "mlm_nsp")
