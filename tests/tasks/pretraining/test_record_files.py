"""Record files: written whole or not at all, parsed, and checked before they are used."""

import struct

import numpy as np
import pytest
import tensorflow as tf

from command_line import errors
from tasks.pretraining import record_files, records

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
        with pytest.raises(errors.UserError, match=f"{name}: not a TFRecord file, or damaged"):
            record_files.check_first_record(str(path), FEATURES)


def test_an_empty_file_is_named(tmp_path):
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(errors.UserError, match="empty: the file holds no records"):
        record_files.check_first_record(str(tmp_path / "empty"), FEATURES)


def test_values_beyond_int32_stay_too_large():
    features = (records.Feature("input_ids", "int64", 2),)
    written = records.encode_example(features, {"input_ids": [2**40, -(2**40)]})
    found = record_files.parse(features, tf.constant([written]))["input_ids"].numpy()
    assert found.tolist() == [[2**31 - 1, -(2**31)]]
