"""Parts of messages."""

import tensorflow as tf

from command_line import errors


def test_a_list_of_names_is_cut():
    assert errors.some([]) == ""
    assert errors.some(["a", "b"]) == "a, b"
    assert errors.some(range(4)) == "0, 1, 2, 3"
    assert errors.some(range(5)) == "0, 1, 2, 3, and 1 more"
    assert errors.some(iter("abcdef"), count=2) == "a, b, and 4 more"


def test_reasons_are_one_plain_line():
    error = tf.errors.DataLossError(None, None, "{{function_node x}} bad\nchecksum [Op:RestoreV2]")
    assert errors.reason(error) == "bad checksum"
    assert errors.reason(OSError(28, "No space left on device")).endswith("No space left on device")
