"""Masks: the draws are those of Python's own functions, shares hold, words stay together."""

import array
import collections
import random

import pytest

import pretraining_corpora as corpora
from tasks.pretraining import masking, options

CLS, SEP, MASK = 2, 3, 4
VOCABULARY = range(1000)
DEFAULTS = options.PretrainingDataOptions()


def token_ids(**changes) -> masking.TokenIds:
    special = frozenset({0, CLS, SEP, MASK})
    return masking.TokenIds(CLS, SEP, MASK, 1, special, VOCABULARY, b"")._replace(**changes)


IDS = token_ids()


@pytest.mark.parametrize("make", [list, lambda items: array.array("L", items)])
def test_shuffle_is_that_of_the_standard_library(make):
    mine, theirs = random.Random(7), random.Random(7)
    for length in [*range(70), 127, 128, 129, 1000, 5000]:
        ours, expected = make(range(length)), make(range(length))
        masking.shuffle(ours, mine)
        theirs.shuffle(expected)
        assert ours == expected
        assert mine.getstate() == theirs.getstate()


@pytest.mark.parametrize(
    ("length", "share", "limit", "expected"),
    [
        (128, 0.15, 20, 19),
        (512, 0.15, 77, 77),
        (512, 0.15, 20, 20),
        (5, 0.15, 20, 1),
        (3, 0.0, 20, 1),
        (50, 0.05, 20, 2),  # 2.5: halves round to even
        (70, 0.05, 20, 4),  # 3.5
    ],
)
def test_number_of_masked_tokens(length, share, limit, expected):
    assert (
        masking.num_to_mask(
            length,
            options.PretrainingDataOptions(masked_lm_prob=share, max_predictions_per_seq=limit),
        )
        == expected
    )


def test_two_words_and_three_special_tokens_give_one_prediction():
    tokens = [CLS, 50, SEP, 60, SEP]
    for seed in range(50):
        _, positions, labels = masking.mask(tokens, b"", DEFAULTS, IDS, random.Random(seed))
        assert positions in ([1], [3])
        assert labels == [tokens[positions[0]]]


@pytest.mark.parametrize("shares", [(0.8, 0.1, 0.1), (1.0, 0.0, 0.0), (0.0, 0.25, 0.75)])
def test_shares_of_the_mix(shares):
    masked, kept, replaced = shares
    data = options.PretrainingDataOptions(
        mask_token_share=masked, keep_token_share=kept, random_token_share=replaced
    )
    ids = token_ids(replacements=range(10000, 20000))
    generator = random.Random(1)
    tokens = [CLS, *range(10, 135), SEP]
    counts = collections.Counter()
    for _ in range(1000):
        shown, positions, labels = masking.mask(tokens, b"", data, ids, generator)
        for at, label in zip(positions, labels, strict=True):
            kind = {MASK: "masked", label: "kept"}.get(shown[at], "replaced")
            counts[kind] += 1
            assert kind != "replaced" or shown[at] >= 10000
        untouched = set(range(127)) - set(positions)
        assert all(shown[at] == tokens[at] for at in untouched)
    total = 1000 * 19
    assert counts.total() == total
    assert corpora.within(counts["masked"], total, masked) or counts["masked"] == total * masked
    assert corpora.within(counts["kept"], total, kept) or counts["kept"] == total * kept


def test_replacements_come_from_the_whole_vocabulary():
    data = options.PretrainingDataOptions(
        mask_token_share=0.0, keep_token_share=0.0, random_token_share=1.0
    )
    ids = token_ids(replacements=range(85))
    generator = random.Random(2)
    drawn = collections.Counter()
    for _ in range(500):
        shown, positions, _ = masking.mask([CLS, *range(100, 225), SEP], b"", data, ids, generator)
        drawn.update(shown[at] for at in positions)
    assert set(drawn) == set(range(85))
    assert corpora.within(sum(drawn[token] for token in range(5)), drawn.total(), 5 / 85)


def test_control_tokens_inside_the_text_are_never_masked():
    tokens = [CLS, 50, MASK, SEP, 0, CLS, 60, SEP, 70, SEP]
    data = options.PretrainingDataOptions(masked_lm_prob=0.3)
    seen = set()
    for seed in range(200):
        _, positions, _ = masking.mask(tokens, b"", data, IDS, random.Random(seed))
        assert len(positions) == 3
        seen.update(positions)
    assert seen == {1, 6, 8}


def test_every_position_is_equally_likely():
    generator = random.Random(3)
    hits = collections.Counter()
    for _ in range(4000):
        hits.update(masking.mask([CLS, *range(10, 50), SEP], b"", DEFAULTS, IDS, generator)[1])
    assert set(hits) == set(range(1, 41))
    assert all(corpora.within(count, 4000, 6 / 40) for count in hits.values())


# Whole words.

WORDS = options.PretrainingDataOptions(do_whole_word_mask=True)


def test_words_are_grouped_also_across_the_separator():
    #         CLS a  ##b ##c d  SEP ##e f  SEP
    is_continuation = b"\0\0\1\1\0\0\1\0\0"
    candidates = [1, 2, 3, 4, 6, 7]
    assert masking.group_words(candidates, is_continuation) == [[1, 2, 3], [4, 6], [7]]


def test_a_piece_without_a_word_before_it_is_a_word():
    assert masking.group_words([1, 2, 3], b"\0\1\1\0") == [[1, 2], [3]]


def test_words_that_are_too_long_are_skipped():
    words = [[1, 2], [3, 4, 5], [6], [7], [8]]
    assert masking.choose_words(words, 4) == [[1, 2], [6], [7]]
    assert masking.choose_words(words, 1) == [[6]]


def test_a_word_longer_than_the_limit_leaves_nothing_to_mask():
    tokens = [CLS, *range(10, 19), SEP]
    shown, positions, labels = masking.mask(
        tokens, b"\0\0" + b"\1" * 8 + b"\0", WORDS, IDS, random.Random(1)
    )
    assert (shown, positions, labels) == (tokens, [], [])


def two_piece_words(one_decision: bool) -> tuple[int, int]:
    """Number of masked words, and of those whose pieces were treated differently."""
    tokens = [CLS, *range(10, 130), SEP]
    is_continuation = b"\0" + b"\0\1" * 60 + b"\0"
    generator = random.Random(4)
    words = mixed = 0
    data = options.PretrainingDataOptions(
        do_whole_word_mask=True, whole_word_one_decision=one_decision
    )
    ids = token_ids(replacements=range(10000, 20000))
    for _ in range(300):
        masked, positions, _ = masking.mask(tokens, is_continuation, data, ids, generator)
        assert positions[0::2] == [at - 1 for at in positions[1::2]]
        assert all(at % 2 == 1 for at in positions[0::2])
        for at in positions[0::2]:
            kinds = {
                {MASK: "masked", tokens[piece]: "kept"}.get(masked[piece], "replaced")
                for piece in (at, at + 1)
            }
            words += 1
            mixed += len(kinds) == 2
    return words, mixed


def test_each_piece_of_a_word_decides_for_itself():
    words, mixed = two_piece_words(one_decision=False)
    assert words == 300 * 9
    assert corpora.within(mixed, words, 1 - 0.8**2 - 0.1**2 - 0.1**2)


def test_one_decision_a_word():
    words, mixed = two_piece_words(one_decision=True)
    assert words == 300 * 9
    assert mixed == 0


def test_words_without_continuations_are_masked_like_pieces():
    tokens = [CLS, *range(10, 60), SEP]
    by_words = masking.mask(tokens, bytes(52), WORDS, IDS, random.Random(5))
    assert by_words == masking.mask(tokens, b"", DEFAULTS, IDS, random.Random(5))
