"""Examples in memory: the order of an epoch, padding, and the way back into order."""

import itertools

import numpy as np
import pytest
import tensorflow as tf

from training import batching, ragged

COUNT = 23
LENGTHS = [1 + (7 * k) % 11 for k in range(COUNT)]


def _batches(size, seed, **more):
    """Example k has tokens 100 k + 1, 100 k + 2, ... and the label k."""
    tokens = ragged.from_rows([[100 * k + i + 1 for i in range(n)] for k, n in enumerate(LENGTHS)])
    labels = np.arange(COUNT, dtype=np.int32)
    features = {"input_ids": tokens, "label_ids": labels}
    return batching.FeatureBatches(features, batch_size=size, seed=seed, **more)


def _context(pipelines=1, pipeline=0, replicas=1):
    return tf.distribute.InputContext(pipelines, pipeline, replicas)


def _take(batches, count=None, start=0, context=None):
    found = batches.dataset(context or _context(), start).as_numpy_iterator()
    return list(itertools.islice(found, count))


def _examples(batches):
    return [int(k) for batch in batches for k in batch["example_index"] if k >= 0]


@pytest.mark.parametrize("size", [1, 4, 8, 23, 100])
def test_a_pass_has_each_example_once_with_its_own_tokens(size):
    batches = _take(_batches(size, None))
    assert sorted(_examples(batches)) == list(range(COUNT))
    assert all(len(batch["input_ids"]) == size for batch in batches)
    for batch in batches:
        for row, k in enumerate(batch["example_index"]):
            length = LENGTHS[k] if k >= 0 else 0
            wanted = [100 * k + i + 1 for i in range(length)]
            assert batch["input_ids"][row, :length].tolist() == wanted
            assert not batch["input_ids"][row, length:].any()
            assert batch["input_mask"][row].tolist() == [
                int(i < length) for i in range(batch["input_mask"].shape[1])
            ]
            assert batch["label_ids"][row] == max(k, 0)
            assert batch["example_weights"][row] == (k >= 0)


def test_a_pass_goes_from_the_longest_to_the_shortest_and_pads_no_more_than_needed():
    batches = _take(_batches(4, None))
    lengths = [LENGTHS[k] for k in _examples(batches)]
    assert lengths == sorted(LENGTHS, reverse=True)
    widths = [batch["input_ids"].shape[1] for batch in batches]
    assert widths == [max(LENGTHS[k] for k in _examples([batch])) for batch in batches]


def test_every_epoch_has_every_example_once_in_another_order():
    found = _examples(_take(_batches(1, seed=3), 3 * COUNT))
    epochs = [found[i * COUNT : (i + 1) * COUNT] for i in range(3)]
    for number, epoch in enumerate(epochs):
        assert sorted(epoch) == list(range(COUNT))
        assert epoch == batching.permutation(COUNT, 3, number).tolist()
    assert epochs[0] != epochs[1] != epochs[2] != list(range(COUNT))


@pytest.mark.parametrize("size", [4, 23, 60])
def test_batches_go_over_the_end_of_an_epoch_and_start_anywhere(size):
    whole = _take(_batches(size, seed=5), 6)
    order = np.concatenate([batching.permutation(COUNT, 5, epoch) for epoch in range(20)])
    for number, batch in enumerate(whole):
        wanted = order[number * size : (number + 1) * size]
        assert sorted(batch["example_index"].tolist()) == sorted(wanted.tolist())
    later = _take(_batches(size, seed=5), 3, start=3 * size)
    for one, other in zip(whole[3:], later, strict=True):
        assert one.keys() == other.keys()
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


@pytest.mark.parametrize("seed", [None, 7])
@pytest.mark.parametrize("pipelines", [1, 2])
def test_replicas_divide_each_global_batch(seed, pipelines):
    alone = _take(_batches(8, seed), 3)
    parts = [
        _take(_batches(8, seed), 3 * 2 // pipelines, context=_context(pipelines, pipeline, 2))
        for pipeline in range(pipelines)
    ]
    for number, batch in enumerate(alone):
        # A pipeline hands out the batches of its replicas one after the other.
        of_batch = (
            parts[0][2 * number : 2 * number + 2] if pipelines == 1 else [p[number] for p in parts]
        )
        assert all(len(part["input_ids"]) == 4 for part in of_batch)
        assert {part["input_ids"].shape[1] for part in of_batch} == {batch["input_ids"].shape[1]}
        assert sorted(_examples(of_batch)) == sorted(_examples([batch]))


def test_static_lengths():
    assert batching.static_lengths(128) == (32, 64, 128)
    assert batching.static_lengths(384) == (32, 64, 128, 256, 384)
    assert batching.static_lengths(20) == (20,)
    widths = {b["input_ids"].shape[1] for b in _take(_batches(4, None, lengths=(4, 8, 16)))}
    assert widths == {4, 8, 16}
    (spec,) = {
        tuple(_batches(4, None, lengths=(16,)).dataset(_context()).element_spec["input_ids"].shape)
    }
    assert spec == (4, 16)


def test_results_in_order():
    parts = [
        (np.array([k for k in _examples([batch])]), {"x": np.array(_examples([batch])) * 2.0})
        for batch in _take(_batches(4, None))
    ]
    np.testing.assert_array_equal(batching.restore_order(parts, COUNT)["x"], 2.0 * np.arange(COUNT))
    with pytest.raises(ValueError, match="no result for example"):
        batching.restore_order(parts[1:], COUNT)


def test_no_examples():
    with pytest.raises(ValueError, match="without examples"):
        batching.FeatureBatches({"input_ids": ragged.from_rows([])}, batch_size=1, seed=None)
