"""Rows of different lengths in one array, the form of features in memory. Needs no TensorFlow."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np


class Ragged(NamedTuple):
    """N rows in one array, one after the other.

    Attributes:
      values: [T], all rows concatenated; T is their total length.
      offsets: int64 [N + 1]; row i is values[offsets[i] : offsets[i + 1]].
    """

    values: np.ndarray
    offsets: np.ndarray

    @property
    def lengths(self) -> np.ndarray:
        """int64 [N], of the rows."""
        return np.diff(self.offsets)

    def row(self, index: int) -> np.ndarray:
        """[length of the row], a view."""
        return self.values[self.offsets[index] : self.offsets[index + 1]]

    def padded(self, rows: np.ndarray, length: int) -> np.ndarray:
        """Some rows as a matrix, padded with zeros at the end.

        Args:
          rows: int [B], indices of rows; repeats are allowed.
          length: F, at least the length of the longest of them.

        Returns:
          [B, F], of the type of ``values``.
        """
        rows = np.asarray(rows)
        starts = self.offsets[rows]
        lengths = self.offsets[rows + 1] - starts  # self.lengths would compute all N each time
        columns = np.arange(length)
        is_real = columns < lengths[:, None]
        matrix = np.zeros([len(rows), length], self.values.dtype)
        matrix[is_real] = self.values[(starts[:, None] + columns)[is_real]]
        return matrix


def from_rows(rows: Iterable[Sequence[int]], dtype: type = np.int32) -> Ragged:
    """Makes a Ragged of rows of any length, 0 included, and values of type ``dtype``."""
    arrays: list[np.ndarray] = [np.asarray(row, dtype) for row in rows]
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum([len(array) for array in arrays], out=offsets[1:])
    values = np.concatenate(arrays) if arrays else np.zeros(0, dtype)
    return Ragged(values, offsets)
