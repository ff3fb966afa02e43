"""Losses on the devices and scores on the host, each against NumPy."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny
from tasks.classifier import task as classifier_task

CONFIG = dataclasses.replace(modeling.BertConfig.from_dict(tiny.CONFIG), initializer_range=0.5)
ROWS = 6
LABELS = {
    "classification": np.array([0, 2, 1, 1, 0, 0], np.int32),
    "regression": np.array([0.5, -2, 3.25, 0, 1, 5], np.float32),
    "multi_label": np.array(
        [[1, 0, 1], [0, 0, 0], [1, 1, 1], [0, 1, 0], [0, 0, 1], [0, 0, 0]], np.float32
    ),
}


def _task(kind):
    return classifier_task.Classification(
        modeling.ClassifierModel(modeling.BertModel(CONFIG), 1 if kind == "regression" else 3), kind
    )


def _batch(kind, weights=(1, 1, 1, 1, 1, 0)):
    rng = np.random.default_rng(0)
    ids = rng.integers(1, tiny.VOCAB, [ROWS, 7]).astype(np.int32)
    return {
        "input_ids": tf.constant(ids),
        "input_mask": tf.ones_like(ids),
        "segment_ids": tf.zeros_like(ids),
        "label_ids": tf.constant(LABELS[kind]),
        "example_weights": tf.constant(weights, tf.float32),
    }


def _losses(kind, logits):
    labels = LABELS[kind]
    if kind == "regression":
        return (logits[:, 0] - labels) ** 2
    if kind == "multi_label":
        p = 1 / (1 + np.exp(-logits))
        return -(labels * np.log(p) + (1 - labels) * np.log(1 - p)).mean(1)
    p = np.exp(logits) / np.exp(logits).sum(1, keepdims=True)
    return -np.log(p[np.arange(ROWS), labels])


@pytest.mark.parametrize("kind", LABELS)
def test_sums_leave_rows_out_that_fill_up_the_batch(kind):
    task, batch = _task(kind), _batch(kind)
    logits = task.outputs(batch)["logits"].numpy().astype(np.float64)
    pairs = task.sums(batch, training=False)
    assert set(pairs) == set(task.metrics)
    np.testing.assert_allclose(pairs["loss"][0], _losses(kind, logits)[:5].sum(), rtol=1e-5)
    assert pairs["loss"][1] == task.weights(batch)["loss"] == 5
    if kind == "classification":
        right = (logits.argmax(1) == LABELS[kind])[:5].sum()
        assert pairs["accuracy"][0] == right and pairs["accuracy"][1] == 5


@pytest.mark.parametrize("kind", LABELS)
def test_results_and_probabilities(kind):
    task, batch = _task(kind), _batch(kind)
    logits = task.outputs(batch)["logits"].numpy()
    names = {"classification": ["accuracy"], "regression": ["pearson"], "multi_label": ["micro_f1"]}
    found = classifier_task.results(logits, LABELS[kind], kind, names[kind])
    assert set(found) == {"loss", "eval_loss", f"eval_{names[kind][0]}"}
    assert found["loss"] == found["eval_loss"] == pytest.approx(_losses(kind, logits).mean(), 1e-6)
    rows = classifier_task.probabilities(logits, kind)
    assert rows.dtype == np.float32
    inputs = [batch[name] for name in ("input_ids", "input_mask", "segment_ids")]
    np.testing.assert_allclose(task.probabilities(*inputs), rows, atol=1e-6)
    if kind == "classification":
        np.testing.assert_allclose(rows.sum(1), 1, atol=1e-6)
        assert found["eval_accuracy"] == np.mean(logits.argmax(1) == LABELS[kind])
    if kind == "multi_label":
        np.testing.assert_allclose(rows, 1 / (1 + np.exp(-logits.astype(float))), atol=1e-6)
    if kind == "regression":
        expected = np.corrcoef(logits[:, 0], LABELS[kind])[0, 1]
        assert found["eval_pearson"] == pytest.approx(expected, abs=1e-6)


def test_large_logits_give_no_overflow():
    logits = np.array([[1000.0, -1000.0], [-1000.0, 1000.0]], np.float32)
    found = classifier_task.results(logits, np.array([0, 0]), "classification", ["accuracy"])
    assert found["loss"] == pytest.approx(1000.0)
    rows = classifier_task.probabilities(logits, "multi_label")
    np.testing.assert_array_equal(rows, [[1, 0], [0, 1]])
