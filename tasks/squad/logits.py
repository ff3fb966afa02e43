"""Logits of one or several models for the positions of all windows: collected and checked."""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from command_line import errors
from tasks.squad import features as squad_features
from training import ragged


class Logits(NamedTuple):
    """Scores of every position of N windows.

    Attributes:
      start, end: N rows, float32, each at least as long as its window. As in the original release,
        logits of padding compete for the places among the best starts and ends.
    """

    start: ragged.Ragged
    end: ragged.Ragged


def collect(
    features: squad_features.Features, results: Iterable[tuple[int, np.ndarray, np.ndarray]]
) -> Logits:
    """Collects the results of a model.

    Args:
      features: the windows that were predicted.
      results: (row, start logits [F], end logits [F]) of every window, in any order. F may be the
        padded or the real length of a window.

    Raises:
      errors.UserError: a window is missing or occurs twice, or its logits fail ``check``.
    """
    count = len(features.example_index)
    pairs: dict[int, Any] = {}
    for row, *pair in results:
        if row in pairs:
            raise errors.UserError(f"window {_id(row)} was predicted twice; each is expected once")
        pairs[row] = pair
    missing = [_id(row) for row in range(count) if row not in pairs]
    if missing:
        raise errors.UserError(
            f"{len(missing)} of {count} windows have no prediction (unique ids "
            f"{errors.some(missing)}); nothing is written, predict again"
        )
    starts, ends = ([pairs[row][side] for row in range(count)] for side in (0, 1))
    logits = Logits(ragged.from_rows(starts, np.float32), ragged.from_rows(ends, np.float32))
    check(features, logits)
    return logits


def check(features: squad_features.Features, logits: Logits) -> None:
    """Raises an errors.UserError unless the logits are finite and belong to the windows."""
    if not np.array_equal(logits.start.offsets, logits.end.offsets):
        raise errors.UserError("start and end logits differ in length; expected pairs")
    lengths, tokens = logits.start.lengths, features.input_ids.lengths
    if len(lengths) != len(tokens):
        raise errors.UserError(f"logits of {len(lengths)} windows; expected {len(tokens)}")
    for row in np.flatnonzero(lengths < tokens)[:1]:
        raise errors.UserError(
            f"window {_id(row)} has {lengths[row]} logits; expected one for each of its "
            f"{tokens[row]} tokens"
        )
    for side in logits:
        for index in np.flatnonzero(~np.isfinite(side.values))[:1]:
            row = np.searchsorted(side.offsets, index, side="right") - 1
            raise errors.UserError(
                f"a logit of window {_id(row)} is {side.values[index]}; expected finite numbers: "
                "the checkpoint is broken, use an earlier one"
            )


def _id(row: int) -> int:
    return squad_features.FIRST_UNIQUE_ID + int(row)


def average(models: Sequence[Logits]) -> Logits:
    """An ensemble: the mean logits of several models for the same windows.

    The paper does not say how its ensembles combine models (Table 2, "Ensemble").
    """
    first = models[0]
    for other in models[1:]:
        if not np.array_equal(other.start.offsets, first.start.offsets):
            raise errors.UserError("the models of the ensemble give logits of different lengths")

    def mean(sides: Sequence[ragged.Ragged]) -> ragged.Ragged:
        total = sum(side.values.astype(np.float64) for side in sides)
        return ragged.Ragged(np.asarray(total / len(sides), np.float32), sides[0].offsets)

    return Logits(*map(mean, zip(*models, strict=True)))
