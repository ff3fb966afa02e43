"""Parts of messages."""

from __future__ import annotations

from command_line import errors


def test_a_list_of_names_is_cut():
    assert errors.some([]) == ""
    assert errors.some(["a", "b"]) == "a, b"
    assert errors.some(range(4)) == "0, 1, 2, 3"
    assert errors.some(range(5)) == "0, 1, 2, 3, and 1 more"
    assert errors.some(iter("abcdef"), count=2) == "a, b, and 4 more"
