"""The files of one checkpoint; reading damaged ones is tested with the directories of them."""

import os

import numpy as np
import pytest
import tensorflow as tf

from checkpoints import file_names, tf_checkpoint


def test_the_index_comes_last_and_is_removed_first(tmp_path):
    prefix = str(tmp_path / "model.ckpt-1")
    tf_checkpoint.write(prefix, {"a": np.ones(3)}, "{}\n")
    (tmp_path / "model.ckpt-1.data-00000-of-00001.tempstate99").write_text("")
    (tmp_path / "model.ckpt-10.index").write_text("")
    endings = [path[len(prefix) :] for path in tf_checkpoint.files(prefix)]
    assert endings == [".index", ".data-00000-of-00001", ".state.json"]
    tf_checkpoint.remove(prefix)
    assert os.listdir(tmp_path) == ["model.ckpt-10.index"]


def test_a_copy_reads_the_same(tmp_path):
    prefix, twin = str(tmp_path / "one"), str(tmp_path / "two")
    tf_checkpoint.write(prefix, {"a": np.arange(3.0)}, None)
    tf_checkpoint.copy(prefix, twin)
    tf_checkpoint.remove(prefix)
    assert not tf_checkpoint.exists(prefix) and tf_checkpoint.is_intact(twin)
    np.testing.assert_array_equal(tf_checkpoint.Checkpoint(twin).read(["a"])["a"], [0, 1, 2])


def test_intact_reads_all_values(tmp_path):
    prefix = str(tmp_path / "one")
    tf_checkpoint.write(prefix, {"a": np.zeros(50), "text": tf.constant(["x", "yz"])}, None)
    assert tf_checkpoint.is_intact(prefix)
    assert tf_checkpoint.Checkpoint(prefix).read(["text"])["text"].tolist() == [b"x", b"yz"]
    with open(f"{prefix}.data-00000-of-00001", "r+b") as file:
        file.write(b"\x01")
    assert not tf_checkpoint.is_intact(prefix)


def test_a_name_that_is_not_there(tmp_path):
    tf_checkpoint.write(str(tmp_path / "one"), {"a": np.zeros(2)}, None)
    with pytest.raises(KeyError, match="b"):
        tf_checkpoint.Checkpoint(str(tmp_path / "one")).read(["b"])


def test_a_failed_write_leaves_nothing(tmp_path):
    with pytest.raises(ValueError):  # the note is on disk by then
        tf_checkpoint.write(str(tmp_path / "one"), {"a": np.zeros(2), "b": object()}, "{}\n")
    assert os.listdir(tmp_path) == []


def test_directories_of_the_runs_that_made_checkpoints(tmp_path):
    for name in ("run", "run/best", "run/weights", "plain"):
        (tmp_path / name).mkdir()
    found = file_names.run_directories(
        [
            "", str(tmp_path / "run/best"), str(tmp_path / "plain"),
            str(tmp_path / "run/weights/model.ckpt-3"), str(tmp_path / "other/bert_model.ckpt"),
        ]
    )  # fmt: skip
    names = ["run/best", "run", "plain", "run/weights", "run", "other"]
    assert found == [str(tmp_path / name) for name in names]
