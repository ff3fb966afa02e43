"""The code of docs/changing_the_model.md runs and does what the page says."""

import dataclasses
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

import modeling
import optimization
import tiny
from command_line import errors
from nn import functions

PAGE = pathlib.Path(__file__).resolve().parents[1] / "docs/changing_the_model.md"
CONFIG = modeling.BertConfig.from_dict({**tiny.CONFIG, "num_hidden_layers": 2})
MASK = np.array([[1] * 9, [1] * 5 + [0] * 4], np.int32)
IDS = np.random.default_rng(0).integers(1, tiny.VOCAB, MASK.shape).astype(np.int32) * MASK
SEED = tf.constant([3, 4])


def _run_snippet(heading: str) -> dict:
    section = PAGE.read_text().split(f"## {heading}\n")[1]
    match = re.search(r"```python\n(.*?)```", section, re.DOTALL)
    assert match
    names: dict = {}
    exec(compile(match[1], heading, "exec"), names)
    return names


def _train(encoder, jit=False) -> list[float]:
    model = modeling.ClassifierModel(encoder, 2)
    variables = modeling.named_variables(model)
    optimizer = optimization.AdamWeightDecay(variables)

    @tf.function(jit_compile=jit)
    def compute(seed):
        with tf.GradientTape() as tape:
            logits = model(IDS, MASK, 0 * MASK, training=True, seed=seed)
            loss = tf.reduce_mean(
                tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1], logits=logits)
            )
        return loss, tape.gradient(loss, list(variables.values()))

    losses = []
    for step in range(20):
        loss, gradients = compute(tf.constant([1, step]))
        optimizer.apply([tf.convert_to_tensor(g) for g in gradients], tf.constant(3e-3))
        losses.append(float(loss))
    return losses


def _states(encoder, ids=IDS, **options):
    return encoder(ids, MASK, **{"training": False, **options}).sequence_output.numpy()


@pytest.mark.parametrize("static", [False, True])
def test_windowed_attention(static):
    windowed = _run_snippet("Windowed attention")["WindowedBert"]
    full = modeling.BertModel(CONFIG, static_shapes=static)
    wide = windowed(CONFIG, window=9, static_shapes=static)
    assert list(modeling.named_variables(wide)) == list(modeling.named_variables(full))
    np.testing.assert_array_equal(_states(wide), _states(full))

    narrow = windowed(CONFIG, window=1, static_shapes=static)
    changed = IDS.copy()
    changed[0, 8] = 1 + changed[0, 8] % (tiny.VOCAB - 1)
    before, after = _states(narrow), _states(narrow, changed)
    # Through two layers, a token has influence on those at most two positions away.
    np.testing.assert_allclose(before[0, :6], after[0, :6], atol=1e-6)
    assert np.abs(before[0, 6:] - after[0, 6:]).max(-1).min() > 1e-4
    positions = np.array([[7, 2], [4, 0]], np.int32)
    gathered = narrow.encode_positions(positions, IDS, MASK, training=False)
    expected = np.take_along_axis(before, positions[..., None], 1)
    np.testing.assert_allclose(gathered, expected, atol=1e-5)
    losses = _train(narrow, jit=static)
    assert losses[-1] < 0.7 * losses[0]


def test_a_fourth_dropout():
    more_dropout = _run_snippet("A fourth dropout")["InnerDropoutBert"]
    plain, changed = modeling.BertModel(CONFIG), more_dropout(CONFIG)
    np.testing.assert_array_equal(_states(changed), _states(plain))
    one, other = (_states(model, training=True, seed=SEED) for model in (plain, changed))
    assert np.abs(one - other).max() > 1e-3
    # At rate 0 it draws nothing, and the masks of the other dropouts are those of the plain model.
    for layer in changed.layers:
        layer.feed_forward.inner_dropout.rate = 0.0
    np.testing.assert_array_equal(_states(changed, training=True, seed=SEED), one)
    losses = _train(more_dropout(CONFIG))
    assert losses[-1] < 0.7 * losses[0]


def test_another_activation(monkeypatch):
    with pytest.raises(errors.UserError, match="Unsupported activation"):
        modeling.BertModel(dataclasses.replace(CONFIG, hidden_act="swish"))
    monkeypatch.setattr(functions, "ACTIVATIONS", dict(functions.ACTIVATIONS))
    _run_snippet("Another activation")
    encoder = modeling.BertModel(dataclasses.replace(CONFIG, hidden_act="swish"))
    assert encoder.layers[0].feed_forward.activation is tf.nn.silu
    losses = _train(encoder)
    assert losses[-1] < 0.7 * losses[0]
