"""Classifier and BiLSTM against NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny
from nn import layers, lstm

CONFIG = dataclasses.replace(
    modeling.BertConfig.from_dict(tiny.CONFIG),
    num_hidden_layers=2,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
LEFT = dataclasses.replace(CONFIG, attention="left_to_right")
LENGTHS = (9, 1, 5)


def _inputs(lengths=LENGTHS, width=9):
    rng = np.random.default_rng(0)
    mask = (np.arange(width) < np.array(lengths)[:, None]).astype(np.int32)
    ids = rng.integers(1, tiny.VOCAB, mask.shape).astype(np.int32) * mask
    types = (np.arange(width) > 3).astype(np.int32) * mask
    return ids, mask, types


def _value_and_gradients(model, compute):
    weights = np.random.default_rng(1).normal(size=compute().shape).astype(np.float32)
    with tf.GradientTape() as tape:
        value = compute()
        loss = tf.reduce_sum(value * weights)
    found = tape.gradient(
        loss, model.trainable_variables, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    return [value, *map(tf.convert_to_tensor, found)]


@pytest.mark.parametrize("static", [False, True])
def test_pooled_alone_equals_the_pooled_output_and_its_gradients(static):
    model = modeling.BertModel(CONFIG, static_shapes=static)
    whole = _value_and_gradients(model, lambda: model(*_inputs(), training=False).pooled_output)
    alone = _value_and_gradients(model, lambda: model.encode_pooled(*_inputs(), training=False))
    for wanted, found in zip(whole, alone, strict=True):
        np.testing.assert_allclose(found, wanted, atol=2e-6)


@pytest.mark.parametrize("config", [CONFIG, LEFT], ids=["bidirectional", "left_to_right"])
@pytest.mark.parametrize("static", [False, True])
def test_states_at_some_positions_equal_the_sequence_output_and_its_gradients(static, config):
    model = modeling.BertModel(config, static_shapes=static)
    positions = np.array([[0, 8, 3, 3], [0, 0, 0, 0], [4, 2, 1, 0]], np.int32)

    def gathered():
        output = model(*_inputs(), training=False).sequence_output
        return tf.gather(output, positions, batch_dims=1)

    whole = _value_and_gradients(model, gathered)
    alone = _value_and_gradients(
        model, lambda: model.encode_positions(positions, *_inputs(), training=False)
    )
    for wanted, found in zip(whole, alone, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=3e-6, atol=1e-5)


@pytest.mark.parametrize("static", [False, True])
def test_left_to_right_pools_the_last_token(static):
    model = modeling.BertModel(LEFT, static_shapes=static)
    output = model(*_inputs(), training=False)
    last = np.array([row[n - 1] for row, n in zip(output.sequence_output, LENGTHS, strict=True)])
    wanted = np.tanh(last @ model.pooler.kernel.numpy() + model.pooler.bias.numpy())
    np.testing.assert_allclose(model.encode_pooled(*_inputs(), training=False), wanted, atol=2e-6)
    ids, _, types = _inputs()
    alone = model.encode_pooled(ids[:1], None, types[:1], training=False)
    np.testing.assert_allclose(alone, wanted[:1], atol=2e-6)


def test_classifier_names_and_logits():
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 3)
    names = modeling.named_variables(model)
    own = {name: v.shape.as_list() for name, v in names.items() if not name.startswith("bert/")}
    assert own == {"output_weights": [3, 16], "output_bias": [3]}
    model.output_bias.assign([0.5, -1.0, 2.0])
    pooled = model.encoder(*_inputs(), training=False).pooled_output.numpy()
    wanted = pooled @ model.output_weights.numpy().T + [0.5, -1.0, 2.0]
    np.testing.assert_allclose(model(*_inputs(), training=False), wanted, atol=2e-6)


def test_classifier_drops_a_tenth_of_the_pooled_state_in_training():
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 1)
    model.output_weights.assign(np.ones([1, 16]))
    still = model.encoder(*_inputs(), training=False).pooled_output.numpy()
    with pytest.raises(ValueError, match="seed"):
        model(*_inputs(), training=True)
    run = tf.function(lambda seed: model(*_inputs(), training=True, seed=seed))
    sums = [run(tf.constant([1, k])) for k in range(400)]
    assert len({float(total[0, 0]) for total in sums}) > 100
    np.testing.assert_allclose(np.mean(sums, 0)[:, 0], still.sum(-1), atol=0.1)


def _sigmoid(x):
    return 1 / (1 + np.exp(-x))


def _lstm(states, kernel, recurrent, bias):
    """One row, one direction: float64 [F, H] -> [F, U]."""
    hidden = cell = np.zeros(recurrent.shape[0])
    found = []
    for x in states:
        enter, forget, new, leave = np.split(x @ kernel + bias + hidden @ recurrent, 4)
        cell = _sigmoid(forget + 1) * cell + _sigmoid(enter) * np.tanh(new)
        hidden = _sigmoid(leave) * np.tanh(cell)
        found.append(hidden)
    return np.array(found)


@pytest.mark.parametrize("compiled", [False, True])
def test_bilstm_equals_numpy_whatever_the_padding(compiled):
    bilstm = lstm.BiLstm(CONFIG.hidden_size, layers.Initializer(0.5, 3))
    rng = np.random.default_rng(2)
    states = rng.normal(size=[3, 9, 16]).astype(np.float32)
    mask = _inputs()[1]
    run = tf.function(bilstm, jit_compile=True) if compiled else bilstm
    each, last = run(tf.constant(states), tf.constant(mask))
    values = {v.name.removesuffix(":0"): v.numpy().astype(np.float64) for v in bilstm.variables}
    for row, length in enumerate(LENGTHS):
        real = states[row, :length].astype(np.float64)
        parts = ("kernel", "recurrent_kernel", "bias")
        ahead = _lstm(real, *(values[f"bilstm/forward/{part}"] for part in parts))
        back = _lstm(real[::-1], *(values[f"bilstm/backward/{part}"] for part in parts))[::-1]
        np.testing.assert_allclose(each[row, :length], np.hstack([ahead, back]), atol=1e-5)
        np.testing.assert_allclose(last[row], np.hstack([ahead[-1], back[0]]), atol=1e-5)
        assert not np.any(each[row, length:])


def test_bilstm_classifier_reads_all_tokens_and_leaves_the_pooler_alone():
    model = modeling.ClassifierModel(modeling.BertModel(LEFT), 2, bilstm=True)
    ids, mask, types = _inputs()
    with tf.GradientTape() as tape:
        logits = model(ids, mask, types, training=False)
    gradients = tape.gradient(logits, list(modeling.named_variables(model).values()))
    names = modeling.named_variables(model)
    missing = {name for name, g in zip(names, gradients, strict=True) if g is None}
    assert missing == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    changed = ids.copy()
    changed[0, 8] = 1 + changed[0, 8] % (tiny.VOCAB - 1)
    assert np.abs(model(changed, mask, types, training=False)[0] - logits[0]).max() > 1e-6


def test_span_names_and_logits():
    model = modeling.SpanModel(modeling.BertModel(CONFIG))
    names = modeling.named_variables(model)
    own = {name: v.shape.as_list() for name, v in names.items() if not name.startswith("bert/")}
    assert own == {"cls/squad/output_weights": [2, 16], "cls/squad/output_bias": [2]}
    model.output_bias.assign([0.5, -1.0])
    states = model.encoder(*_inputs(), training=False).sequence_output.numpy()
    wanted = states @ model.output_weights.numpy().T + [0.5, -1.0]
    mask = _inputs()[1] > 0
    for found, side in zip(model(*_inputs(), training=False), (0, 1), strict=True):
        np.testing.assert_allclose(found.numpy()[mask], wanted[..., side][mask], atol=2e-6)


@pytest.mark.parametrize("bilstm", [False, True])
def test_span_scores_depend_neither_on_padding_nor_on_the_pooler(bilstm):
    model = modeling.SpanModel(modeling.BertModel(CONFIG), bilstm=bilstm)
    inputs = _inputs()
    variables = modeling.named_variables(model)
    with tf.GradientTape() as tape:
        start, end = model(*inputs, training=False)
        loss = tf.reduce_sum(start * inputs[1]) - tf.reduce_sum(end * inputs[1])
    gradients = tape.gradient(loss, list(variables.values()))
    missing = {name for name, g in zip(variables, gradients, strict=True) if g is None}
    assert missing == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    for row, length in enumerate(LENGTHS):
        alone = model(*(x[row : row + 1, :length] for x in inputs), training=False)
        for side, found in zip((start, end), alone, strict=True):
            np.testing.assert_allclose(found[0], side[row, :length], atol=2e-6)


def test_nothing_is_dropped_above_the_encoder():
    still = modeling.SpanModel(modeling.BertModel(CONFIG))  # without dropout in the encoder
    found = [still(*_inputs(), training=training, seed=tf.constant([1, 2]))
             for training in (True, False)]  # fmt: skip
    np.testing.assert_array_equal(*found)
