"""Rows of different lengths in one array."""

import numpy as np

from training import ragged

ROWS = [[5, 6, 7], [], [8], [9, 10]]


def test_rows_come_back():
    found = ragged.from_rows(ROWS)
    assert found.values.dtype == np.int32 and found.values.tolist() == [5, 6, 7, 8, 9, 10]
    assert found.lengths.tolist() == [3, 0, 1, 2]
    assert [found.row(i).tolist() for i in range(4)] == ROWS


def test_padded_rows_in_any_order():
    found = ragged.from_rows(ROWS)
    wanted = [[9, 10, 0, 0], [0, 0, 0, 0], [5, 6, 7, 0], [9, 10, 0, 0]]
    assert found.padded(np.array([3, 1, 0, 3]), 4).tolist() == wanted
    assert found.padded(np.array([0]), 3).tolist() == [[5, 6, 7]]
