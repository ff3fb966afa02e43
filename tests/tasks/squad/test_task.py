"""Losses and scores of spans against NumPy; padding changes neither."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny
from tasks.squad import task as squad_task
from training import batching, ragged

CONFIG = dataclasses.replace(
    modeling.BertConfig.from_dict(tiny.CONFIG),
    initializer_range=0.5,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
)
LENGTHS = (9, 4, 6, 7)
STARTS, ENDS = [0, 2, 5, 3], [8, 3, 5, 0]


def _features():
    rng = np.random.default_rng(0)
    ids = ragged.from_rows([rng.integers(1, tiny.VOCAB, n) for n in LENGTHS])
    types = ragged.from_rows([[0] * 2 + [1] * (n - 2) for n in LENGTHS])
    return {
        "input_ids": ids,
        "segment_ids": types,
        "start_positions": np.array(STARTS, np.int32),
        "end_positions": np.array(ENDS, np.int32),
    }


def _batches(batch_size, lengths=()):
    made = batching.FeatureBatches(_features(), batch_size=batch_size, seed=None, lengths=lengths)
    return list(made.dataset(tf.distribute.InputContext()))


def _task(static=False):
    return squad_task.QuestionAnswering(
        modeling.SpanModel(modeling.BertModel(CONFIG, static_shapes=static))
    )


def _expected(model):
    """Loss of each window, from its own tokens alone."""
    features = _features()
    found = []
    for row, (start, end) in enumerate(zip(STARTS, ENDS, strict=True)):
        ids, types = (features[name].row(row)[None] for name in ("input_ids", "segment_ids"))
        sides = model(ids, np.ones_like(ids), types, training=False)
        total = 0.0
        for logits, position in zip(sides, (start, end), strict=True):
            wide = logits.numpy()[0].astype(np.float64)
            total += np.log(np.exp(wide).sum()) - wide[position]
        found.append(total / 2)
    return np.array(found)


@pytest.mark.parametrize("static", [False, True])
@pytest.mark.parametrize("batch_size, lengths", [(4, ()), (3, ()), (8, (16,)), (1, (24,))])
def test_the_loss_is_the_mean_over_start_and_end_of_real_tokens(static, batch_size, lengths):
    task = _task(static)
    pairs, weights = [], 0.0
    for batch in _batches(batch_size, lengths):
        pairs.append(task.sums(batch, training=False)["loss"])
        weights += float(task.weights(batch)["loss"])
    total, weight = (float(sum(part)) for part in zip(*pairs, strict=True))
    assert weight == weights == 4  # rows that fill up a batch do not count
    assert total == pytest.approx(_expected(task.model).sum(), rel=1e-5)


def test_logits_of_padding_take_no_part():
    task = _task()
    batch = _batches(4, (16,))[0]
    found = task.outputs(batch)
    assert set(found) == {"start_logits", "end_logits"}
    mask = batch["input_mask"].numpy() > 0
    sides = task.model(batch["input_ids"], batch["input_mask"], batch["segment_ids"],
                       training=False)  # fmt: skip
    for values, side in zip(found.values(), sides, strict=True):
        np.testing.assert_array_equal(values.numpy()[mask], side.numpy()[mask])
        assert (values.numpy()[~mask] == squad_task.NO_TOKEN).all()
        shares = tf.nn.softmax(values).numpy()
        assert not shares[~mask].any() and np.isfinite(shares).all()


def test_gradients_reach_all_but_the_pooler_and_what_is_frozen():
    model = modeling.SpanModel(modeling.BertModel(CONFIG))
    task = squad_task.QuestionAnswering(model, frozen=("bert/embeddings/",))
    assert set(task.without_gradient) == {"bert/embeddings/", "bert/pooler/"}
    variables = modeling.named_variables(model)
    with tf.GradientTape() as tape:
        loss, _ = task.sums(_batches(8)[0], training=True, seed=tf.constant([1, 2]))["loss"]
    gradients = tape.gradient(loss, list(variables.values()))
    missing = {name for name, g in zip(variables, gradients, strict=True) if g is None}
    assert missing == {name for name in variables if name.startswith("bert/pooler/")}
    # A bias moves all scores of a side alike: a softmax does not see it.
    named = dict(zip(variables, gradients, strict=True))
    np.testing.assert_allclose(named["cls/squad/output_bias"], 0, atol=1e-5)
    assert np.abs(named["cls/squad/output_weights"]).max() > 1e-3
