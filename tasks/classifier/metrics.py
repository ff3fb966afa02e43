"""Scores of classification, regression and multi-label predictions, as GLUE defines them.

NumPy in, Python floats out. N examples, L labels. A score that is undefined, because one side is
constant or there are no examples, is 0.0: never NaN, which would win or lose every comparison.
"""

import math
from collections.abc import Callable, Sequence

import numpy as np


def accuracy(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Share of predictions that equal their label; both int [N]."""
    return _ratio(np.sum(labels == predictions), len(labels))


def f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 of class 1 ("duplicate", "equivalent"), 2 TP / (2 TP + FP + FN); both int [N]."""
    actual, predicted = labels == 1, predictions == 1
    return _ratio(2 * np.sum(actual & predicted), np.sum(actual) + np.sum(predicted))


def matthews(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Matthews correlation; both int [N].

    For more than two classes it is the correlation of one-hot rows (Gorodkin 2004), which scores
    the GLUE diagnostic set; for two classes that equals the usual coefficient.
    """
    if not (_varies(labels) and _varies(predictions)):
        return 0.0
    classes = np.union1d(labels, predictions)
    actual = np.asarray(labels)[:, None] == classes  # [N, C]
    predicted = np.asarray(predictions)[:, None] == classes
    count, correct = len(actual), int(np.sum(actual & predicted))
    # Python integers: N to the fourth power exceeds int64 for N beyond 50,000.
    sums_a, sums_p = (list(map(int, np.sum(x, 0))) for x in (actual, predicted))
    by_chance = sum(a * p for a, p in zip(sums_a, sums_p, strict=True))
    variances = [count**2 - sum(x * x for x in sums) for sums in (sums_a, sums_p)]
    return _ratio(correct * count - by_chance, math.sqrt(variances[0] * variances[1]))


def pearson(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Linear correlation; both float [N]."""
    if not (_varies(labels) and _varies(predictions)):
        return 0.0
    x = np.asarray(labels, np.float64) - np.mean(labels, dtype=np.float64)
    y = np.asarray(predictions, np.float64) - np.mean(predictions, dtype=np.float64)
    return float(np.clip(_ratio(float(x @ y), math.sqrt(x @ x) * math.sqrt(y @ y)), -1, 1))


def spearman(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Correlation of ranks; equal values share the mean of their ranks; both float [N]."""
    return pearson(_ranks(labels), _ranks(predictions))


def _ranks(values: np.ndarray) -> np.ndarray:
    """float64 [N], counted from 1."""
    _, inverse, counts = np.unique(np.asarray(values), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return (last - (counts - 1) / 2)[inverse]


def micro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """F1 over all decisions together; both 0 or 1, [N, L]."""
    return f1(labels, predictions)


def macro_f1(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Mean over the labels of their F1; both 0 or 1, [N, L]. A label that never occurs counts 0."""
    scores = list(map(f1, np.transpose(labels), np.transpose(predictions)))
    return _ratio(sum(scores), len(scores))


def exact_match(labels: np.ndarray, predictions: np.ndarray) -> float:
    """Share of rows whose labels are all correct; both 0 or 1, [N, L]."""
    return _ratio(np.sum(np.all(labels == predictions, axis=-1)), len(labels))


def _varies(values: np.ndarray) -> bool:
    # Not by the variance, which rounding makes positive for equal values such as 0.1, 0.1, 0.1.
    return len(values) > 0 and bool(np.any(np.asarray(values) != np.asarray(values)[0]))


def _ratio(numerator: float, denominator: float) -> float:
    return float(numerator / denominator) if denominator else 0.0


METRICS: dict[str, Callable[[np.ndarray, np.ndarray], float]] = {
    metric.__name__: metric
    for metric in (
        accuracy, f1, matthews, pearson, spearman, micro_f1, macro_f1, exact_match,
    )
}  # fmt: skip

# The metrics that are defined for a kind of task. Correlations of classes are meaningful only if
# the classes are ordered.
BY_KIND: dict[str, tuple[str, ...]] = {
    "classification": ("accuracy", "f1", "matthews", "pearson", "spearman"),
    "regression": ("pearson", "spearman"),
    "multi_label": ("micro_f1", "macro_f1", "exact_match"),
}


def decide(outputs: np.ndarray, kind: str) -> np.ndarray:
    """The decisions of a model.

    Args:
      outputs: probabilities or logits [N, C] of classification, the lower class winning a tie;
        probabilities [N, L] of multi_label; values [N] or [N, 1] of regression.
      kind: "classification", "regression" or "multi_label".

    Returns:
      int [N]; float [N]; int [N, L] with 1 where the probability is at least one half.
    """
    outputs = np.asarray(outputs)
    if kind == "regression":
        return outputs.reshape(-1)
    if kind == "multi_label":
        return (outputs >= 0.5).astype(np.int32)
    return np.argmax(outputs, axis=-1)


def compute(
    names: Sequence[str], labels: np.ndarray, outputs: np.ndarray, kind: str, positive: int = 1
) -> dict[str, float]:
    """Metrics of BY_KIND, of labels as in ``features.Features`` and outputs as in ``decide``.

    ``positive`` is the class that ``f1`` is about.
    """
    labels, predictions = np.asarray(labels), decide(outputs, kind)
    scores = {name: METRICS[name](labels, predictions) for name in names}
    if "f1" in scores:
        scores["f1"] = f1(labels == positive, predictions == positive)
    return scores
