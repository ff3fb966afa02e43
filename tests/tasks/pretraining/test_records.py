"""Encoded records against TensorFlow's own protocol buffers."""

import pathlib
import random
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from tasks.pretraining import records


def test_the_pretraining_features():
    assert [tuple(feature)[:3] for feature in records.pretraining_features(128, 20)] == [
        ("input_ids", "int64", 128),
        ("input_mask", "int64", 128),
        ("segment_ids", "int64", 128),
        ("masked_lm_positions", "int64", 20),
        ("masked_lm_ids", "int64", 20),
        ("masked_lm_weights", "float", 20),
        ("next_sentence_labels", "int64", 1),
    ]


@pytest.mark.parametrize("length", [1, 5, 64, 127, 128, 200, 5000])
@pytest.mark.parametrize("largest", [1, 127, 128, 255, 256, 30521, 250000, 2**40])
def test_protocol_buffers_read_what_was_encoded(length, largest):
    generator = random.Random(length + largest)
    features = (
        records.Feature("ids", "int64", length),
        records.Feature("weights", "float", length),
        records.Feature("flags", "int64", length),
    )
    given = generator.randrange(length + 1)
    ids = [generator.randint(0, largest) for _ in range(given)]
    weights = [float(np.float32(generator.random())) for _ in range(given)]
    serialized = records.encode_example(
        features, {"ids": ids, "weights": weights, "flags": b"\1" * given}
    )
    found = tf.train.Example.FromString(serialized).features.feature
    assert sorted(found) == ["flags", "ids", "weights"]
    rest = [0] * (length - given)
    assert list(found["ids"].int64_list.value) == ids + rest
    assert list(found["weights"].float_list.value) == weights + rest
    assert list(found["flags"].int64_list.value) == [1] * given + rest


def test_negative_numbers():
    features = (records.Feature("labels", "int64", 3),)
    serialized = records.encode_example(features, {"labels": [-1, 5, -(2**63)]})
    found = tf.train.Example.FromString(serialized).features.feature["labels"]
    assert list(found.int64_list.value) == [-1, 5, -(2**63)]


def test_too_many_values_are_refused():
    with pytest.raises(ValueError, match="13 values for input_ids, which has 12"):
        records.encode_example(
            [records.Feature("input_ids", "int64", 12)], {"input_ids": range(13)}
        )


def test_writing_does_not_import_tensorflow():
    code = (
        "import sys, create_pretraining_data\n"
        "from tasks.pretraining import records, shards\n"
        "records.encode_example(records.pretraining_features(5, 1), {name: [1] for name in "
        "('input_ids input_mask segment_ids masked_lm_positions masked_lm_ids masked_lm_weights "
        "next_sentence_labels').split()})\n"
        "assert 'tensorflow' not in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, cwd=pathlib.Path(__file__).resolve().parents[3]
    )
