"""Damaged files end in one line or are read; see fixtures/mutated_files.py, which can do more."""

import pytest

import mutated_files


@pytest.mark.slow
@pytest.mark.parametrize("kind", mutated_files.KINDS)
def test_no_damage_ends_in_a_traceback_a_crash_or_a_hang(kind):
    counts, faults = mutated_files.run(kind, 20)
    assert not faults
    assert counts.total() == 20
