"""Logits of one or several models for the positions of all windows: collected and checked."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

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
      errors.UserError: a window is missing or occurs twice.
    """
    count = len(features.example_index)
    starts: list[np.ndarray | None] = [None] * count
    ends: list[np.ndarray | None] = [None] * count
    for row, start, end in results:
        if starts[row] is not None:
            raise errors.UserError(f"window {_id(row)} was predicted twice; each is expected once")
        starts[row] = np.asarray(start, np.float32)
        ends[row] = np.asarray(end, np.float32)
    missing = [_id(row) for row in range(count) if starts[row] is None]
    if missing:
        raise errors.UserError(
            f"{len(missing)} of {count} windows have no prediction (unique ids "
            f"{errors.some(missing)}); nothing is written, predict again"
        )
    sides = (ragged.from_rows(rows, np.float32) for rows in (starts, ends))  # type: ignore[arg-type]
    return Logits(*sides)


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

    return Logits(mean([model.start for model in models]), mean([model.end for model in models]))
