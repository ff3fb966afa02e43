"""Errors of TensorFlow and of the system as one line."""

import pytest

from command_line import app

ARGV = ["run_x.py", "--output_dir=gs://bucket/out", "--input_file=data.txt"]


@pytest.mark.parametrize(
    "message, expected",
    [
        (
            "could not reach gs://bucket/out/x",
            "--output_dir=gs://bucket/out: gs:// is not reached: ",
        ),
        ("File system scheme 's3' not implemented (file: 's3://b')", "File system scheme"),
        ("data.txt: no such file", "data.txt: no such file"),
        ("--output_dir=gs://bucket/out is a file", "--output_dir=gs://bucket/out is a file"),
        ("", ""),
    ],
)
def test_remote_paths_that_cannot_be_reached_are_named_with_their_flag(message, expected):
    found = app._name_remote_flags(message, ARGV)
    assert found.startswith(expected)
    assert ("or give local paths" in found) is expected.endswith("reached: ")
