"""Logits of every window, once each."""

import numpy as np
import pytest

import squad_files
from command_line import errors
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from training import ragged


@pytest.fixture
def features(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, "what ? a b c d e f g h")
    data = squad_files.data(
        ("a b c d e f g h", [squad_files.question("q")]), ("a b", [squad_files.question("r")])
    )
    examples = squad_examples.parse(data, "f", is_training=False)
    sizes = squad_options.SquadOptions(
        max_seq_length=10, doc_stride=2, max_query_length=4, num_workers=1
    )
    return squad_features.build(examples, tokenizer, sizes)


def _results(features, padded=0):
    for row, length in enumerate(features.input_ids.lengths):
        size = padded or length
        yield row, np.arange(size) + 100 * row, -np.arange(size) - 100.0 * row


def test_any_order_any_padding(features):
    assert features.input_ids.lengths.tolist() == [10, 10, 9, 7]
    for padded in (0, 12):
        rows = list(_results(features, padded))
        logits = squad_logits.collect(features, rows[::-1])
        assert logits.start.values.dtype == np.float32
        for row, start, end in rows:
            np.testing.assert_array_equal(logits.start.row(row), start)
            np.testing.assert_array_equal(logits.end.row(row), end)


def test_missing_windows_are_counted_and_named(features):
    rows = list(_results(features))
    with pytest.raises(errors.UserError) as caught:
        squad_logits.collect(features, [rows[0], rows[3]])
    assert "2 of 4 windows have no prediction" in str(caught.value)
    assert "1000000001, 1000000002" in str(caught.value)


def test_window_predicted_twice(features):
    rows = list(_results(features))
    with pytest.raises(errors.UserError, match="window 1000000001 was predicted twice"):
        squad_logits.collect(features, [*rows, rows[1]])


def test_wrong_logits(features):
    rows = list(_results(features))

    def check(*results):
        squad_logits.check(features, squad_logits.collect(features, results))

    with pytest.raises(errors.UserError, match="window 1000000002 has 8 logits; .*its 9 tokens"):
        check(*rows[:2], (2, rows[2][1][:-1], rows[2][2][:-1]), rows[3])
    for value in (np.nan, np.inf):
        broken = rows[1][2].copy()
        broken[-1] = value
        with pytest.raises(
            errors.UserError, match="a logit of window 1000000001 is .*expected finite"
        ):
            check(rows[0], (1, rows[1][1], broken), *rows[2:])
    with pytest.raises(errors.UserError, match="differ in length"):
        check(*rows[:3], (3, rows[3][1], np.zeros(9)))
    fewer = squad_logits.Logits(*(ragged.from_rows([[1.0]], np.float32) for _ in range(2)))
    with pytest.raises(errors.UserError, match="logits of 1 windows; expected 4"):
        squad_logits.check(features, fewer)


def test_ensemble_is_the_mean():
    def model(*values):
        side = ragged.from_rows([values[:2], values[2:]], np.float32)
        return squad_logits.Logits(side, side._replace(values=-2 * side.values))

    one, two, three = model(1, 2, 3), model(2, 4, 9), model(0, 0, 0)
    found = squad_logits.average([one, two, three])
    np.testing.assert_array_equal(found.start.values, np.float32([1, 2, 4]))
    np.testing.assert_array_equal(found.end.values, np.float32([-2, -4, -8]))
    np.testing.assert_array_equal(found.start.offsets, [0, 2, 3])
    for side, alone in zip(one, squad_logits.average([one]), strict=True):
        np.testing.assert_array_equal(side.values, alone.values)
    other = ragged.from_rows([[1.0], [2.0, 3.0]], np.float32)
    with pytest.raises(errors.UserError, match="different lengths"):
        squad_logits.average([one, squad_logits.Logits(other, other)])
