"""JSON objects in files."""

import pytest
import tensorflow as tf

from command_line import errors
from system import json_files


@pytest.mark.parametrize("scheme", ["", "ram://json"])
def test_objects_missing_files_and_damaged_ones(tmp_path, scheme):
    def read(data):
        path = f"{scheme}{tmp_path}/{len(data)}.json"
        tf.io.gfile.makedirs(f"{scheme}{tmp_path}")
        with tf.io.gfile.GFile(path, "wb") as file:
            file.write(data)
        return json_files.read_object(path, cure="delete it")

    assert json_files.read_object(f"{scheme}{tmp_path}/missing") is None
    assert read('{"a": ["é"]}'.encode()) == {"a": ["é"]}
    assert read(b"\xef\xbb\xbf{}") == {}
    for data in (b"", b'{"a": ', b"\xff", b"[" * 100_000, b"[1, 2]"):
        with pytest.raises(errors.UserError, match=r"json: damaged, expected .*; delete it$"):
            read(data)
