"""Record files: written whole or not at all, parsed, and checked before they are used."""

import gzip
import math
import os
import struct
import subprocess
import sys
import zlib

import numpy as np
import pytest
import tensorflow as tf

from command_line import errors
from system import temporaries
from tasks.pretraining import record_batches, record_files, records

FEATURES = records.pretraining_features(12, 4)


def example(**values) -> bytes:
    """An example made by the protocol buffer library."""
    feature = {}
    for name, numbers in values.items():
        if any(isinstance(number, float) for number in numbers):
            feature[name] = tf.train.Feature(float_list=tf.train.FloatList(value=numbers))
        else:
            feature[name] = tf.train.Feature(int64_list=tf.train.Int64List(value=numbers))
    return tf.train.Example(features=tf.train.Features(feature=feature)).SerializeToString()


def values(length: int = 12, predictions: int = 4) -> dict[str, list]:
    return {
        "input_ids": list(range(length)),
        "input_mask": [1] * length,
        "segment_ids": [0] * length,
        "masked_lm_positions": [0] * predictions,
        "masked_lm_ids": [0] * predictions,
        "masked_lm_weights": [1.0] * predictions,
        "next_sentence_labels": [1],
    }


def write(path, *serialized: bytes) -> str:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in serialized:
            writer.write(record)
    return str(path)


@pytest.mark.parametrize("encoded_here", [True, False])
def test_parse(encoded_here):
    rows = [values(), {**values(), "input_ids": [30000] * 12, "masked_lm_weights": [0.0] * 4}]
    serialized = [
        records.encode_example(FEATURES, row) if encoded_here else example(**row) for row in rows
    ]
    found = record_files.parse(FEATURES, tf.constant(serialized))
    assert set(found) == {feature.name for feature in FEATURES}
    for name, tensor in found.items():
        assert tensor.dtype == (tf.float32 if name == "masked_lm_weights" else tf.int32)
        np.testing.assert_array_equal(tensor, [row[name] for row in rows])


# Writing.


def read(path) -> list[bytes]:
    return list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator())


def test_round_robin(tmp_path):
    paths = [str(tmp_path / "new" / "folder" / name) for name in "abc"]
    with record_files.RoundRobinWriter(paths) as writer:
        for k in range(8):
            writer.write(b"%d" % k)
        assert not any((tmp_path / "new" / "folder" / name).exists() for name in "abc")
    assert writer.count == 8
    assert [read(path) for path in paths] == [
        [b"0", b"3", b"6"],
        [b"1", b"4", b"7"],
        [b"2", b"5"],
    ]
    assert sorted(item.name for item in (tmp_path / "new" / "folder").iterdir()) == ["a", "b", "c"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_a_failure_keeps_older_files(tmp_path, error):
    (tmp_path / "a").write_bytes(b"precious")
    with (
        pytest.raises(error),
        record_files.RoundRobinWriter([str(tmp_path / "a"), str(tmp_path / "b")]) as w,
    ):
        w.write(b"x")
        raise error
    assert [item.name for item in tmp_path.iterdir()] == ["a"]
    assert (tmp_path / "a").read_bytes() == b"precious"


def test_a_folder_that_cannot_be_made_leaves_nothing(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.OpError):
        record_files.RoundRobinWriter([str(tmp_path / "a"), str(tmp_path / "file" / "b")])
    assert [item.name for item in tmp_path.iterdir()] == ["file"]


# The first record.


def test_a_right_file_passes(tmp_path):
    record_files.check_first_record(write(tmp_path / "a", example(**values())), FEATURES)
    ours = records.encode_example(FEATURES, values(3, 2))
    record_files.check_first_record(write(tmp_path / "b", ours), FEATURES)


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (
            records.pretraining_features(12, 10),
            "records have 4 masked_lm_positions, --max_predictions_per_seq is 10; "
            "run with --max_predictions_per_seq=4",
        ),
        (
            records.pretraining_features(64, 4),
            "records have 12 input_ids, --max_seq_length is 64; run with --max_seq_length=12",
        ),
        (
            records.pretraining_features(64, 2),
            "records have 12 input_ids, --max_seq_length is 64 and 4 masked_lm_positions, "
            "--max_predictions_per_seq is 2; "
            "run with --max_seq_length=12 --max_predictions_per_seq=4",
        ),
    ],
)
def test_other_lengths_name_the_flag(tmp_path, features, message):
    path = write(tmp_path / "a", example(**values()))
    with pytest.raises(errors.UserError) as caught:
        record_files.check_first_record(path, features)
    assert str(caught.value) == f"{path}: {message}"


LACKING = {k: v for k, v in values().items() if not k.endswith(("lm_ids", "_labels"))}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            example(**LACKING, label_ids=[3]),
            "records lack masked_lm_ids, next_sentence_labels .*label_ids",
        ),
        (
            example(**{**values(), "masked_lm_weights": [1, 1, 1, 1]}),
            "masked_lm_weights is int64_list, expected float_list",
        ),
        (
            example(**{**values(), "next_sentence_labels": [1, 0]}),
            "2 next_sentence_labels, expected 1",
        ),
        (b"\xff\xff not an example", "a: its records are not tf.train.Example"),
    ],
)
def test_records_of_something_else(tmp_path, record, message):
    with pytest.raises(errors.UserError, match=message):
        record_files.check_first_record(write(tmp_path / "a", record), FEATURES)


def test_damaged_files_are_named(tmp_path):
    whole = tmp_path / "whole"
    write(whole, example(**values()))
    data = whole.read_bytes()
    damaged = {
        "cut": data[:-7],
        "text": b"Call me Ishmael. Some years ago, never mind how long precisely.",
        "flipped": data[:40] + bytes([data[40] ^ 1]) + data[41:],
        "length": struct.pack("<Q", 10**12) + data[8:],
    }
    for name, content in damaged.items():
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises(errors.UserError, match=f"{name}: not a TFRecord file, or compressed"):
            record_files.check_first_record(str(path), FEATURES)


def test_an_empty_file_is_told_from_a_full_one(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    assert not record_files.check_first_record(str(tmp_path / "empty"), FEATURES)
    write(tmp_path / "full", example(**values()))
    assert record_files.check_first_record(str(tmp_path / "full"), FEATURES)


@pytest.mark.parametrize("length", [2**62, 2**63, 2**64 - 1, 2**64 - 16])
def test_a_length_beyond_the_file_never_reaches_tensorflow(tmp_path, length):
    """With a right checksum, for which TensorFlow would reserve the memory."""
    header = struct.pack("<Q", length)
    crc = _crc32c(header)
    mask = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    path = tmp_path / "huge"
    path.write_bytes(header + struct.pack("<I", mask) + bytes(100))
    with pytest.raises(errors.UserError, match="huge: not a TFRecord file, or compressed"):
        record_files.check_first_record(str(path), FEATURES)
    with pytest.raises(errors.UserError, match="huge: breaks off inside a record after byte 0"):
        record_batches.find_windows(str(path))


def _crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def test_compressed_records_are_refused_with_the_cure(tmp_path):
    write(tmp_path / "plain", example(**values()))
    packed = tmp_path / "records.gz"
    packed.write_bytes(gzip.compress((tmp_path / "plain").read_bytes()))
    with pytest.raises(errors.UserError, match="records.gz: compressed with gzip; unpack it"):
        record_files.check_first_record(str(packed), FEATURES)
    packed.write_bytes(zlib.compress((tmp_path / "plain").read_bytes()))
    with pytest.raises(errors.UserError, match="records.gz: not a TFRecord file, or compressed"):
        record_files.check_first_record(str(packed), FEATURES)


def test_a_length_may_begin_as_gzip_files_do(tmp_path):
    size = int.from_bytes(b"\x1f\x8b", "little")
    record = tf.train.Example.FromString(example(**values()))
    record.features.feature["more"].bytes_list.value.append(b"x")
    record.features.feature["more"].bytes_list.value[0] *= size - record.ByteSize() - 8
    path = write(tmp_path / "a", record.SerializeToString())
    assert (tmp_path / "a").read_bytes()[:2] == b"\x1f\x8b"
    assert record_files.check_first_record(path, FEATURES)


@pytest.mark.parametrize(
    "changes, message",
    [
        ({}, ""),
        ({"masked_lm_weights": [1.0, math.nan]}, "masked_lm_weights nan, expected a finite"),
        ({"masked_lm_weights": [math.inf, 0.0]}, "masked_lm_weights inf, expected a finite"),
        ({"masked_lm_weights": [-1.0, 0.0]}, "masked_lm_weights -1.0, expected a finite"),
        ({"input_mask": [2] * 8}, "input_mask 2, but the number of values of a mask is 2"),
        ({"input_ids": [-1] * 8}, "input_ids -1, but vocab_size is 70"),
        ({"masked_lm_positions": [0, 7], "input_mask": [1] * 7 + [0]}, "7, but it has 7 tokens"),
        ({"next_sentence_labels": [1, 0]}, "2 next_sentence_labels, expected 1; were files"),
    ],
)
def test_the_flaw_of_a_record(changes, message):
    features = records.pretraining_features(8, 2, vocab_size=70)
    good = {
        "input_ids": [2] * 8, "input_mask": [1] * 8, "segment_ids": [0] * 8,
        "masked_lm_positions": [1, 2], "masked_lm_ids": [3, 4], "masked_lm_weights": [1.0, 1.0],
        "next_sentence_labels": [0],
    }  # fmt: skip
    found = record_files.flaw(features, example(**{**good, **changes}))
    assert message in found and bool(found) == bool(message)
    assert "not a tf.train.Example" in record_files.flaw(features, b"\xff\xff no example")


def test_values_beyond_int32_stay_too_large():
    features = (records.Feature("input_ids", "int64", 2),)
    written = records.encode_example(features, {"input_ids": [2**40, -(2**40)]})
    found = record_files.parse(features, tf.constant([written]))["input_ids"].numpy()
    assert found.tolist() == [[2**31 - 1, -(2**31)]]


# What a killed process left.


def test_leftovers_of_a_dead_process_are_removed(tmp_path):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    left = temporaries.suffix().replace(f"p{os.getpid()}", f"p{dead.pid}")
    (tmp_path / f".a{left}").write_bytes(b"half")
    (tmp_path / f".other{left}").write_bytes(b"half")
    with record_files.RoundRobinWriter([str(tmp_path / "a")]) as writer:
        writer.write(b"x")
    assert sorted(os.listdir(tmp_path)) == [f".other{left}", "a"]


def test_files_that_were_being_replaced_are_told(tmp_path, caplog, monkeypatch):
    paths = [write(tmp_path / name, example(**values())) for name in "abc"]
    rename = tf.io.gfile.rename

    def broken(source, target, overwrite):
        if target.endswith("b"):
            raise OSError("no space")
        rename(source, target, overwrite)

    monkeypatch.setattr(tf.io.gfile, "rename", broken)
    message = "broken off while .*no space.*: .*/a are new, .*/b, .*/c are not; run again"
    with pytest.raises(errors.UserError, match=message), record_files.RoundRobinWriter(paths) as w:
        w.write(b"x")
    assert sorted(os.listdir(tmp_path)) == ["a", "b", "c"]
    (tmp_path / f".b{temporaries.suffix()}").touch()
    for path in paths[1:]:
        caplog.clear()
        record_files.check_first_record(path, FEATURES)
        assert ("another process is writing it" in caplog.text) is path.endswith("b")
