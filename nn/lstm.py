"""A bidirectional LSTM."""

import tensorflow as tf

from nn import layers

_Pair = tuple[tf.Tensor, tf.Tensor]


class BiLstm(tf.Module):
    """One bidirectional LSTM layer; padding changes no state.

    The gates are in the order input, forget, cell, output.

    Args:
      width: H, of the inputs and of the outputs; each direction is H / 2 wide.
      initializer: makes the variables.

    Raises:
      ValueError: an odd width.
    """

    def __init__(self, width: int, initializer: layers.Initializer):
        super().__init__(name="bilstm")
        if width % 2:
            raise ValueError(f"a BiLSTM of odd width {width}; its directions are half as wide")
        self._variables = []
        with self.name_scope:
            for direction in ("forward", "backward"):
                with tf.name_scope(direction):
                    kernel = initializer.normal("kernel", [width, 2 * width])
                    recurrent = initializer.normal("recurrent_kernel", [width // 2, 2 * width])
                    bias = initializer.constant("bias", [2 * width], 0.0)
                self._variables.append((kernel, recurrent, bias))

    def __call__(
        self,
        states: tf.Tensor,  # float32 [B, F, H]
        input_mask: tf.Tensor,  # int32 [B, F]
    ) -> tuple[tf.Tensor, tf.Tensor]:  # float32 [B, F, H]; float32 [B, H], after the last token
        real = tf.cast(input_mask > 0, tf.float32)[:, :, None]
        forward = self._run(states, real, self._variables[0])
        backward = self._run(states[:, ::-1], real[:, ::-1], self._variables[1])
        last = tf.concat([forward[:, -1], backward[:, -1]], -1)
        return tf.concat([forward, backward[:, ::-1]], -1) * real, last

    def _run(
        self,
        states: tf.Tensor,  # float32 [B, F, H]
        real: tf.Tensor,  # float32 [B, F, 1]
        variables: tuple[tf.Variable, ...],  # kernel, recurrent kernel and bias of a direction
    ) -> tf.Tensor:  # float32 [B, F, H / 2]
        kernel, recurrent, bias = variables
        inputs = tf.einsum("bfh,hg->fbg", states, kernel) + bias
        start = tf.zeros([tf.shape(states)[0], recurrent.shape[0]])

        def step(carry: _Pair, inputs_and_mask: _Pair) -> _Pair:
            hidden, cell = carry
            gate_inputs, keep = inputs_and_mask
            gates = gate_inputs + tf.matmul(hidden, recurrent)
            input_gate, forget_gate, candidate, output_gate = tf.split(gates, 4, -1)
            # 1 is added to the forget gate: an LSTM that starts by forgetting learns slowly.
            next_cell = tf.sigmoid(forget_gate + 1.0) * cell
            next_cell += tf.sigmoid(input_gate) * tf.tanh(candidate)
            next_hidden = tf.sigmoid(output_gate) * tf.tanh(next_cell)
            return (
                keep * next_hidden + (1.0 - keep) * hidden,
                keep * next_cell + (1.0 - keep) * cell,
            )

        hidden, _ = tf.scan(step, (inputs, tf.transpose(real, [1, 0, 2])), (start, start))
        return tf.transpose(hidden, [1, 0, 2])
