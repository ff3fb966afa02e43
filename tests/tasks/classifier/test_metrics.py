"""Scores against hand-worked values and against other formulas of the same quantities."""

import itertools
import math

import numpy as np
import pytest

from tasks.classifier import metrics


def test_hand_worked_binary_scores():
    # TP 3, FP 1, FN 2, TN 4.
    labels = np.array([1, 1, 1, 0, 1, 1, 0, 0, 0, 0])
    guesses = np.array([1, 1, 1, 1, 0, 0, 0, 0, 0, 0])
    assert metrics.accuracy(labels, guesses) == 0.7
    assert metrics.f1(labels, guesses) == pytest.approx(6 / 9)
    assert metrics.matthews(labels, guesses) == pytest.approx(
        (3 * 4 - 1 * 2) / math.sqrt(4 * 5 * 5 * 6)
    )


@pytest.mark.parametrize("classes", [2, 3, 5])
def test_matthews_is_the_correlation_of_one_hot_rows(classes):
    rng = np.random.default_rng(classes)
    labels = rng.integers(0, classes, 200)
    guesses = np.where(rng.random(200) < 0.5, labels, rng.integers(0, classes, 200))
    x, y = (np.eye(classes)[v] - np.eye(classes)[v].mean(0) for v in (labels, guesses))
    expected = (x * y).sum() / math.sqrt((x * x).sum() * (y * y).sum())
    assert metrics.matthews(labels, guesses) == pytest.approx(expected, abs=1e-12)
    if classes == 2:
        assert expected == pytest.approx(np.corrcoef(labels, guesses)[0, 1])
    assert metrics.matthews(labels, labels) == pytest.approx(1.0)


def test_matthews_of_many_rows_does_not_overflow():
    labels = np.arange(400_000) % 2
    assert metrics.matthews(labels, labels) == pytest.approx(1.0)
    assert metrics.matthews(labels, 1 - labels) == pytest.approx(-1.0)


def test_pearson_equals_numpy():
    rng = np.random.default_rng(0)
    x = rng.normal(3, 1, 100).astype(np.float32)
    y = (x + rng.normal(0, 1, 100)).astype(np.float32)
    assert metrics.pearson(x, y) == pytest.approx(np.corrcoef(x, y)[0, 1], abs=1e-12)
    assert metrics.pearson(x, -2 * x + 7) == pytest.approx(-1.0, abs=1e-6)


def _kendall_style_ranks(values):
    """The average rank of each value: one more than what is smaller, and half of its equals."""
    return [sum(b < a for b in values) + (sum(b == a for b in values) + 1) / 2 for a in values]


def test_spearman_with_ties():
    # Ranks 1, 2.5, 2.5, 4 and 1, 2, 3, 4: covariance 4.5, spreads 4.5 and 5.
    found = metrics.spearman(np.array([0.0, 2, 2, 3]), np.array([10.0, 20, 30, 40]))
    assert found == pytest.approx(4.5 / math.sqrt(4.5 * 5))
    rng = np.random.default_rng(1)
    x, y = rng.integers(0, 6, 80) / 2, rng.integers(0, 9, 80) / 4
    ranks = [_kendall_style_ranks(v.tolist()) for v in (x, y)]
    assert metrics.spearman(x, y) == pytest.approx(np.corrcoef(*ranks)[0, 1], abs=1e-12)
    assert metrics.spearman(x, np.exp(x)) == pytest.approx(1.0)


@pytest.mark.parametrize("name", list(metrics.METRICS))
@pytest.mark.parametrize("value", [0, 1])
def test_constants_and_nothing_give_a_number(name, value):
    shape = (4, 3) if name in ("micro_f1", "macro_f1", "exact_match") else (4,)
    for labels, guesses in itertools.product(
        (np.full(shape, value), np.arange(np.prod(shape)).reshape(shape) % 2), repeat=2
    ):
        found = metrics.METRICS[name](labels, guesses)
        assert type(found) is float and math.isfinite(found)
    empty = np.zeros((0, *shape[1:]), np.int32)
    assert metrics.METRICS[name](empty, empty) == 0.0


@pytest.mark.parametrize("name", ["matthews", "pearson", "spearman"])
def test_a_constant_prediction_has_no_correlation(name):
    # The mean of these is not quite 0.1, so a variance would not be 0.
    constant = np.full(7, 0.1)
    assert metrics.METRICS[name](np.arange(7) % 2, constant) == 0.0
    assert metrics.METRICS[name](constant, np.arange(7) % 2) == 0.0


def test_hand_worked_multi_label_scores():
    labels = np.array([[1, 0, 1], [0, 0, 0], [1, 1, 0]])
    guesses = np.array([[1, 0, 0], [0, 0, 0], [1, 0, 1]])
    # TP 2, FP 1, FN 2; by label: 2/2, 0, 0; the second row alone is all right.
    assert metrics.micro_f1(labels, guesses) == pytest.approx(4 / 7)
    assert metrics.macro_f1(labels, guesses) == pytest.approx(1 / 3)
    assert metrics.exact_match(labels, guesses) == pytest.approx(1 / 3)


@pytest.mark.parametrize("kind", list(metrics.BY_KIND))
def test_metrics_of_a_kind_are_1_for_outputs_that_are_right(kind):
    """Those of another kind are not: accuracy of two labels a row would be 2."""
    labels, outputs = {
        "classification": (np.array([0, 1, 1]), np.array([[0.9, 0.1], [0.2, 0.8], [0.4, 0.6]])),
        "regression": (np.array([0.5, 3.0, 1.0]), np.array([[0.5], [3.0], [1.0]])),
        "multi_label": (np.array([[1, 0], [1, 1]]), np.array([[0.9, 0.2], [0.7, 0.6]])),
    }[kind]
    found = metrics.compute(metrics.BY_KIND[kind], labels, outputs, kind)
    assert list(found) == list(metrics.BY_KIND[kind])
    assert found == pytest.approx(dict.fromkeys(found, 1.0))


def test_every_metric_is_of_a_kind():
    assert {name for names in metrics.BY_KIND.values() for name in names} == set(metrics.METRICS)


def test_compute_reads_outputs_by_kind():
    found = metrics.compute(
        ("f1", "accuracy"),
        np.array([1, 0, 1], np.int32),
        np.array([[0.1, 0.9], [0.5, 0.5], [0.8, 0.2]], np.float32),
        "classification",
    )
    assert list(found) == ["f1", "accuracy"]
    assert found == pytest.approx({"f1": 2 / 3, "accuracy": 2 / 3})
    numbers = np.array([[1.0], [2.5], [2.0]], np.float32)
    found = metrics.compute(["spearman"], np.array([1.0, 3.0, 2.0]), numbers, "regression")
    assert found == pytest.approx({"spearman": 1.0})
    sets = metrics.decide(np.array([[0.5, 0.49], [0.9, 0.51]]), "multi_label")
    assert sets.tolist() == [[1, 0], [1, 1]]
