"""What stands on the encoder in fine-tuning.

Axes: B examples, F positions, H hidden size, L labels.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

import errors
import modeling

CLASSIFIER_DROPOUT = 0.1  # of the released model, whatever the encoder's own rate


class BiLstm(tf.Module):
    """One bidirectional LSTM layer, H / 2 wide in each direction (paper section 5.1).

    Gates stand in the order input, forget, cell, output. Padding changes no state.
    """

    def __init__(self, config: modeling.BertConfig, weights: modeling.Weights):
        super().__init__(name="bilstm")
        if config.hidden_size % 2:
            raise errors.FlagError(
                f"--head=bilstm: hidden_size {config.hidden_size} in --bert_config_file is odd, "
                "and the two directions are half as wide; give --head=linear"
            )
        self._units = config.hidden_size // 2
        self._kernels = []
        with self.name_scope:
            for direction in ("forward", "backward"):
                with tf.name_scope(direction):
                    kernel = weights.normal("kernel", [config.hidden_size, 4 * self._units])
                    recurrent = weights.normal("recurrent_kernel", [self._units, 4 * self._units])
                    bias = weights.constant("bias", [4 * self._units], 0.0)
                self._kernels.append((kernel, recurrent, bias))

    def __call__(
        self,
        states: tf.Tensor,  # float32 [B, F, H]
        input_mask: tf.Tensor,  # int32 [B, F]
    ) -> tuple[tf.Tensor, tf.Tensor]:  # float32 [B, F, H]; float32 [B, H], after the last token
        real = tf.cast(input_mask > 0, tf.float32)[:, :, None]
        forward = self._run(states, real, *self._kernels[0])
        backward = self._run(states[:, ::-1], real[:, ::-1], *self._kernels[1])
        last = tf.concat([forward[:, -1], backward[:, -1]], -1)
        return tf.concat([forward, backward[:, ::-1]], -1) * real, last

    def _run(
        self,
        states: tf.Tensor,
        real: tf.Tensor,
        kernel: tf.Variable,
        recurrent: tf.Variable,
        bias: tf.Variable,
    ) -> tf.Tensor:  # [B, F, H / 2]
        inputs = tf.einsum("bfh,hg->fbg", states, kernel) + bias
        start = tf.zeros([tf.shape(states)[0], self._units])

        def step(carry: tuple[tf.Tensor, tf.Tensor], now: tuple[tf.Tensor, tf.Tensor]) -> Any:
            hidden, cell = carry
            gates = now[0] + tf.matmul(hidden, recurrent)
            enter, forget, new, leave = tf.split(gates, 4, -1)
            # 1 is added to the forget gate: an LSTM that starts by forgetting learns slowly.
            next_cell = tf.sigmoid(forget + 1.0) * cell + tf.sigmoid(enter) * tf.tanh(new)
            next_hidden = tf.sigmoid(leave) * tf.tanh(next_cell)
            keep = now[1]
            return (
                keep * next_hidden + (1.0 - keep) * hidden,
                keep * next_cell + (1.0 - keep) * cell,
            )

        hidden, _ = tf.scan(step, (inputs, tf.transpose(real, [1, 0, 2])), (start, start))
        return tf.transpose(hidden, [1, 0, 2])


class ClassifierModel(tf.Module):
    """Encoder, and one output for each label on what stands for the whole text.

    Args:
      config: of the encoder.
      num_labels: L; 1 for regression.
      bilstm: put a BiLSTM between the encoder and the output, instead of the pooler.
      seed: of the initial weights.
      **options: compute_dtype and static_shapes of modeling.BertModel.
    """

    def __init__(
        self,
        config: modeling.BertConfig,
        num_labels: int,
        *,
        bilstm: bool = False,
        seed: int = 12345,
        **options: Any,
    ):
        super().__init__(name="classifier")
        self.bert = modeling.BertModel(config, seed=seed, **options)
        weights = modeling.Weights(config.initializer_range, seed)
        self.bilstm = BiLstm(config, weights) if bilstm else None
        # Names of the released fine-tuned models, without a scope.
        self.output_weights = weights.normal("output_weights", [num_labels, config.hidden_size])
        self.output_bias = weights.constant("output_bias", [num_labels], 0.0)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tf.Tensor:  # float32 [B, L]
        inputs = (input_ids, input_mask, segment_ids)
        if self.bilstm is None:
            pooled = self.bert.pooled(*inputs, training=training, seed=seed)
        else:
            output = self.bert(*inputs, training=training, seed=seed)
            _, pooled = self.bilstm(output.sequence_output, input_mask)
        if training:
            if seed is None:
                raise ValueError("training with dropout needs a seed: pass seed=int32 [2]")
            own = tf.random.fold_in(seed, 1 << 20)  # apart from the encoder's
            pooled = modeling.dropout(pooled, CLASSIFIER_DROPOUT, own)
        logits = tf.matmul(pooled, self.output_weights, transpose_b=True)
        return tf.nn.bias_add(logits, self.output_bias)


class SpanModel(tf.Module):
    """Encoder, and for every token a score as start and one as end of the answer (paper, 4.2).

    There is no dropout above the encoder, and nothing is said by its pooler.

    Args:
      config: of the encoder.
      bilstm: put a BiLSTM between the encoder and the scores.
      seed: of the initial weights.
      **options: compute_dtype and static_shapes of modeling.BertModel.
    """

    def __init__(
        self,
        config: modeling.BertConfig,
        *,
        bilstm: bool = False,
        seed: int = 12345,
        **options: Any,
    ):
        super().__init__(name="span")
        self.bert = modeling.BertModel(config, seed=seed, **options)
        weights = modeling.Weights(config.initializer_range, seed)
        self.bilstm = BiLstm(config, weights) if bilstm else None
        with tf.name_scope("cls"), tf.name_scope("squad"):
            self.output_weights = weights.normal("output_weights", [2, config.hidden_size])
            self.output_bias = weights.constant("output_bias", [2], 0.0)

    def __call__(
        self,
        input_ids: tf.Tensor,  # int32 [B, F]
        input_mask: tf.Tensor,  # int32 [B, F]
        segment_ids: tf.Tensor,  # int32 [B, F]
        *,
        training: bool,
        seed: tf.Tensor | None = None,  # int32 [2]
    ) -> tuple[tf.Tensor, tf.Tensor]:  # start and end, float32 [B, F]
        output = self.bert(input_ids, input_mask, segment_ids, training=training, seed=seed)
        states = output.sequence_output
        if self.bilstm is not None:
            states, _ = self.bilstm(states, input_mask)
        logits = tf.einsum("bfh,oh->bfo", states, self.output_weights) + self.output_bias
        return logits[:, :, 0], logits[:, :, 1]
