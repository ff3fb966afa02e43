"""Rows of different lengths in one array: the features of a data set in memory.

TensorFlow is not needed here, so that processes that make features start fast.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Ragged(NamedTuple):
    """N rows, one after the other.

    Attributes:
      values: [T], all rows joined.
      offsets: int64 [N + 1]; row i is values[offsets[i] : offsets[i + 1]].
    """

    values: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """int64 [N]."""
        return np.diff(self.offsets)

    def row(self, index: int) -> np.ndarray:
        """A view of one row."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def padded(self, rows: np.ndarray, length: int) -> np.ndarray:
        """Some rows side by side, with zeros after them.

        Args:
          rows: int [B], which ones.
          length: F, at least that of the longest of them.

        Returns:
          [B, F], of the type of ``values``.
        """
        rows = np.asarray(rows)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts  # not of all N rows, for each batch anew
        columns = np.arange(length)
        real = columns < lengths[:, None]
        found = np.zeros([len(rows), length], self.values.dtype)
        found[real] = self.values[(starts[:, None] + columns)[real]]
        return found


def from_rows(rows: Iterable[Sequence[int]], dtype: type = np.int32) -> Ragged:
    """Joins rows; each may have any length, also 0."""
    arrays: list[np.ndarray] = [np.asarray(row, dtype) for row in rows]
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    values = np.concatenate(arrays) if arrays else np.zeros(0, dtype)
    return Ragged(values, offsets)
