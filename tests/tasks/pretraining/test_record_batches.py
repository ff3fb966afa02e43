"""The order of the records, and the batches made of them."""

import collections
import re

import numpy as np
import pytest
import tensorflow as tf

from command_line import errors
from tasks.pretraining import record_batches, records

FEATURES = records.pretraining_features(8, 2)


def _write(path, numbers, length=None):
    """Record k has input_ids k, k, ... and a mask of 1 + k % 8 tokens."""
    with tf.io.TFRecordWriter(str(path)) as writer:
        for k in numbers:
            real = length or 1 + k % 8
            values = {
                "input_ids": [k] * real,
                "input_mask": [1] * real,
                "segment_ids": [0] * real,
                "masked_lm_positions": [0],
                "masked_lm_ids": [k],
                "masked_lm_weights": [1.0],
                "next_sentence_labels": [k % 2],
            }
            writer.write(records.encode_example(FEATURES, values))
    return str(path)


@pytest.fixture
def files(tmp_path):
    return [_write(tmp_path / "a", range(0, 50)), _write(tmp_path / "b", range(50, 73))]


@pytest.fixture
def small_windows(monkeypatch):
    """Windows of 7 records in groups of 3, so that 73 records make many."""
    monkeypatch.setattr(record_batches, "GROUP", 3)
    return lambda files: [w for path in files for w in record_batches.find_windows(path, 7)]


def _number(record: bytes) -> int:
    return tf.train.Example.FromString(record).features.feature["masked_lm_ids"].int64_list.value[0]


def _take(stream, count):
    return [_number(next(stream)) for _ in range(count)]


def test_windows_cover_each_record_once(files, small_windows):
    windows = small_windows(files)
    assert [w.records for w in windows] == [7] * 7 + [1] + [7] * 3 + [2]
    assert [_number(r) for r in record_batches.in_order(windows)] == list(range(73))


def test_every_epoch_has_every_record_once_in_another_order(files, small_windows):
    stream = record_batches.shuffled(small_windows(files), seed=1)
    epochs = [_take(stream, 73) for _ in range(3)]
    for epoch in epochs:
        assert sorted(epoch) == list(range(73))
    assert epochs[0] != epochs[1] != epochs[2]
    assert epochs[0] == _take(record_batches.shuffled(small_windows(files), seed=1), 73)
    assert epochs[0] != _take(record_batches.shuffled(small_windows(files), seed=2), 73)


def test_sorted_records_are_mixed_over_the_whole_file(files, small_windows):
    epochs = [_take(record_batches.shuffled(small_windows(files), seed), 73) for seed in range(200)]
    # The first record comes from everywhere: each third of the data about as often.
    thirds = collections.Counter(epoch[0] * 3 // 73 for epoch in epochs)
    assert min(thirds.values()) > 40
    # Neighbours in the file are apart: a shuffle in windows alone would keep them near.
    distance = np.abs(np.diff([np.argsort(epoch) for epoch in epochs], axis=1)).mean()
    assert distance > 8


@pytest.mark.parametrize("start", [0, 1, 20, 21, 22, 72, 73, 74, 200])
def test_a_stream_can_begin_anywhere(files, small_windows, start):
    windows = small_windows(files)
    whole = _take(record_batches.shuffled(windows, seed=5), start + 30)
    assert _take(record_batches.shuffled(windows, seed=5, start=start), 30) == whole[start:]


def _batches(files, replicas=1, pipelines=1, pipeline=0, start=0, features=FEATURES, **options):
    made = record_batches.RecordBatches(files, features, **options)
    context = tf.distribute.InputContext(pipelines, pipeline, replicas)
    return made, made.dataset(context, start)


def test_training_batches_are_endless_and_trimmed_to_the_longest(files):
    made, dataset = _batches(files, batch_size=10, seed=3)
    assert made.num_examples == 73
    seen = []
    for batch in dataset.take(20):
        longest = int(tf.reduce_max(tf.reduce_sum(batch["input_mask"], 1)))
        for name in ("input_ids", "input_mask", "segment_ids"):
            assert batch[name].shape == (10, longest)
        assert batch["masked_lm_ids"].shape == (10, 2)
        assert (batch["example_weights"].numpy() == 1).all()
        seen += batch["masked_lm_ids"].numpy()[:, 0].tolist()
    assert sorted(seen[:73]) == list(range(73))
    assert sorted(seen[73:146]) == list(range(73))


def test_static_batches_keep_the_full_length(files):
    _, dataset = _batches(files, batch_size=4, seed=3, static_shapes=True)
    assert dataset.element_spec["input_ids"].shape == (4, 8)
    assert {tuple(batch["input_ids"].shape) for batch in dataset.take(5)} == {(4, 8)}


def test_evaluation_counts_each_record_once_and_fills_up_with_weight_zero(files):
    _, dataset = _batches(files, batch_size=32, seed=None, max_batches=100)
    batches = list(dataset)
    assert [int(tf.reduce_sum(b["example_weights"])) for b in batches] == [32, 32, 9]
    ids = np.concatenate([b["masked_lm_ids"].numpy()[:, 0] for b in batches])
    weights = np.concatenate([b["example_weights"].numpy() for b in batches])
    assert ids[weights == 1].tolist() == list(range(73))
    last = batches[-1]
    assert last["input_ids"].shape[0] == 32
    assert not last["masked_lm_weights"].numpy()[9:].any()
    _, dataset = _batches(files, batch_size=32, seed=None, max_batches=2)
    assert len(list(dataset)) == 2


def test_replicas_and_workers_share_the_same_global_batch(files):
    options = {"batch_size": 12, "seed": 9, "static_shapes": True}
    whole = [b["masked_lm_ids"].numpy()[:, 0] for b in _batches(files, **options)[1].take(3)]
    mirrored = [
        b["masked_lm_ids"].numpy()[:, 0] for b in _batches(files, replicas=3, **options)[1].take(9)
    ]
    np.testing.assert_array_equal(np.concatenate(mirrored), np.concatenate(whole))
    workers = [
        [
            b["masked_lm_ids"].numpy()[:, 0]
            for b in _batches(files, 4, pipelines=2, pipeline=worker, **options)[1].take(6)
        ]
        for worker in range(2)
    ]
    for step in range(3):
        slices = [part for worker in workers for part in worker[2 * step : 2 * step + 2]]
        np.testing.assert_array_equal(np.concatenate(slices), whole[step])


def test_short_last_batch_of_several_replicas(files):
    _, dataset = _batches(files, replicas=4, batch_size=40, seed=None)
    batches = list(dataset)
    assert [int(tf.reduce_sum(b["example_weights"])) for b in batches] == [10] * 7 + [3]
    assert {b["input_ids"].shape[0] for b in batches} == {10}


def test_replicas_that_do_not_divide_the_batch_lose_no_record(files):
    _, dataset = _batches(files, replicas=3, batch_size=8, seed=None)
    batches = list(dataset)
    ids = np.concatenate([b["masked_lm_ids"].numpy()[:, 0] for b in batches])
    weights = np.concatenate([b["example_weights"].numpy() for b in batches])
    assert ids[weights == 1].tolist() == list(range(73))
    assert {b["input_ids"].shape[0] for b in batches} == {3}


def test_values_beyond_the_limits_are_named(files):
    features = records.pretraining_features(8, 2, vocab_size=70)
    made, dataset = _batches(files, batch_size=73, seed=None, features=features)
    with pytest.raises(tf.errors.InvalidArgumentError) as raised:
        list(dataset)
    message = str(made.to_user_error(raised.value))
    assert re.match(r".*/\w+: record \d+: input_ids 70, but vocab_size is 70; it was", message)
    assert made.to_user_error(tf.errors.InvalidArgumentError(None, None, "another")) is None


def test_broken_files_are_named(tmp_path):
    _write(tmp_path / "whole", range(5))
    data = (tmp_path / "whole").read_bytes()
    cut = tmp_path / "cut"
    for size in (len(data) - 1, len(data) - 20, 4):
        cut.write_bytes(data[:size])
        with pytest.raises(errors.UserError, match="cut: breaks off inside a record"):
            record_batches.find_windows(str(cut))
    flipped = bytearray(data)
    flipped[len(data) // 2] ^= 1
    cut.write_bytes(flipped)
    with pytest.raises(errors.UserError, match="cut: corrupt record"):
        record_batches.read_window(record_batches.find_windows(str(cut))[0])
    cut.write_bytes(b"")
    with pytest.raises(errors.UserError, match="no records"):
        record_batches.RecordBatches([str(cut)], FEATURES, batch_size=1, seed=1)
