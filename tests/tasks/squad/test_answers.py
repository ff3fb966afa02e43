"""Answers from logits: those of the original release, and what becomes of odd cases."""

import gzip
import itertools
import json
import math

import numpy as np
import pytest

import squad_files
from tasks.squad import answers as squad_answers
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import prediction_files
from tasks.squad import texts as squad_texts
from training import ragged

LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z"


@pytest.mark.parametrize("name", squad_files.PREDICTED)
def test_answers_are_those_of_the_original(shared, name):
    made = squad_files.golden(shared, name)
    results = made.logits()
    np.random.default_rng(0).shuffle(results)  # type: ignore[arg-type]
    logits = squad_logits.collect(made.features, results)
    version_2 = made.meta["version_2_with_negative"]
    options = squad_options.SquadOptions(version_2_with_negative=version_2)
    answers = squad_answers.answer(made.examples, made.features, logits, made.tokenizer, options)
    expected = (made.folder / "predictions.json").read_text()
    assert prediction_files.map_json(answers.predictions) == expected
    with gzip.open(made.folder / "nbest_predictions.json.gz") as file:
        nbest = json.load(file)
    # Texts, order, and every digit of the numbers; also the bytes the standard writer would make.
    text = prediction_files.nbest_json(answers.nbest)
    assert text == json.dumps(nbest, indent=4) + "\n"
    if version_2:
        expected = (made.folder / "null_odds.json").read_text()
        assert prediction_files.map_json(answers.null_odds) == expected
    else:
        assert not answers.null_odds


def _made(tmp_path, *contexts, length=12, stride=3):
    """Examples, features and tokenizer for contexts with one question each, q0, q1, …"""
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {LETTERS}")
    paragraphs = [(text, [squad_files.question(f"q{k}")]) for k, text in enumerate(contexts)]
    data = squad_files.data(*paragraphs)
    examples = squad_examples.parse(data, "f", is_training=False)
    sizes = squad_options.SquadOptions(
        max_seq_length=length, doc_stride=stride, max_query_length=4, num_workers=1
    )
    return examples, squad_features.build(examples, tokenizer, sizes), tokenizer


def _answer(made, starts, ends, **flags):
    examples, features, tokenizer = made
    logits = squad_logits.collect(
        features,
        zip(itertools.count(), map(np.float32, starts), map(np.float32, ends)),  # noqa: B905
    )
    options = squad_options.SquadOptions(**flags)
    return squad_answers.answer(examples, features, logits, tokenizer, options)


def _slowly(made, starts, ends, size, longest, version_2):
    """The rules once more, pair by pair: the n-best list of every question."""
    examples, features, tokenizer = made
    lists = []
    for index, question in enumerate(examples.questions):
        words = squad_examples.words(examples.contexts[question.paragraph])
        pairs, nulls = [], []
        for row in np.flatnonzero(features.example_index == index):
            start_logits, end_logits = starts[row].astype(float), ends[row].astype(float)
            word_of, best = features.token_to_orig_map(row), features.token_is_max_context(row)
            tokens = tokenizer.convert_ids_to_tokens(features.input_ids.row(row).tolist())
            nulls.append((start_logits[0] + end_logits[0], start_logits[0], end_logits[0]))
            ranked = [
                sorted(range(len(side)), key=lambda at: -side[at])[:size]  # noqa: B023
                for side in (start_logits, end_logits)
            ]
            for i, j in itertools.product(*ranked):
                inside = i <= j < i + longest and j < len(tokens)
                if inside and word_of[i] >= 0 and word_of[j] >= 0 and best[i]:
                    original = " ".join(words[word_of[i] : word_of[j] + 1])
                    text = squad_texts.get_final_text(" ".join(tokens[i : j + 1]), original, True)
                    pairs.append((text, start_logits[i], end_logits[j]))
        if version_2:
            pairs.append(("", *min(nulls, key=lambda null: null[0])[1:]))
        pairs.sort(key=lambda pair: -(pair[1] + pair[2]))
        found = {}
        for text, *logits in pairs:
            if len(found) < size or (text == "" and version_2):
                found.setdefault(text, logits)
        # No answer that came too late for the list stands at its end.
        lists.append([(text, *logits) for text, logits in found.items()] or [("empty", 0.0, 0.0)])
    return lists


@pytest.mark.parametrize("version_2", [False, True])
@pytest.mark.parametrize("padding", [0, 4])
@pytest.mark.parametrize("seed", range(8))
def test_answers_follow_the_rules_also_among_equal_logits(tmp_path, seed, padding, version_2):
    generator = np.random.default_rng(seed)
    letters = LETTERS.split()
    contexts = [" ".join(generator.choice(letters, size)) for size in generator.integers(1, 40, 30)]
    made = _made(tmp_path, *contexts)
    lengths = made[1].input_ids.lengths + padding
    # Few different values, so that nearly everything is a tie.
    starts, ends = (
        [generator.integers(-2, 3, length).astype(np.float32) for length in lengths]
        for _ in range(2)
    )
    size, longest = int(generator.integers(1, 9)), int(generator.integers(1, 9))
    flags = {"n_best_size": size, "max_answer_length": longest}
    answers = _answer(made, starts, ends, **flags, version_2_with_negative=version_2)
    expected = _slowly(made, starts, ends, size, longest, version_2)
    for entries, wanted in zip(answers.nbest.values(), expected, strict=True):
        assert [(e.text, e.start_logit, e.end_logit) for e in entries] == wanted
        assert math.isclose(sum(entry.probability for entry in entries), 1.0)
        for one, other in itertools.pairwise(entries):
            sums = [e.start_logit + e.end_logit for e in (one, other)]
            assert math.isclose(other.probability / one.probability, math.exp(sums[1] - sums[0]))


def test_blocks_change_nothing(tmp_path, monkeypatch):
    generator = np.random.default_rng(3)
    made = _made(tmp_path, *[" ".join(generator.choice(list("abc"), 30)) for _ in range(12)])
    lengths = made[1].input_ids.lengths
    starts, ends = ([generator.normal(size=n) for n in lengths] for _ in range(2))
    whole = _answer(made, starts, ends)
    monkeypatch.setattr(squad_answers, "_BLOCK_PAIRS", 1)
    assert _answer(made, starts, ends) == whole


def _peak(length, at, height=9.0):
    logits = np.zeros(length)
    logits[at] = height
    return logits


# [CLS] what ? [SEP] a b c [SEP]: the context is positions 4 to 6.
QUESTION_ONLY = [_peak(8, [1, 2])], [_peak(8, [1, 2])]


@pytest.mark.parametrize("size", [1, 2])
def test_no_valid_span(tmp_path, size):
    made = _made(tmp_path, "a b c")
    answers = _answer(made, *QUESTION_ONLY, n_best_size=size)
    assert answers.predictions == {"q0": "empty"}
    assert answers.nbest == {"q0": [("empty", 1.0, 0.0, 0.0, -1, -1)]}
    flags = {"version_2_with_negative": True, "null_score_diff_threshold": "50"}
    answers = _answer(made, *QUESTION_ONLY, n_best_size=size, **flags)
    assert answers.predictions == {"q0": ""}
    assert answers.nbest == {"q0": [("", 1.0, 0.0, 0.0, -1, -1)]}
    assert 50.0 < answers.null_odds["q0"] < math.inf


def test_null_is_the_only_candidate(tmp_path):
    made = _made(tmp_path, "a b c")
    null = [_peak(8, 0)], [_peak(8, 0)]
    answers = _answer(made, *null, n_best_size=1, version_2_with_negative=True)
    assert answers.predictions == {"q0": ""}
    assert [entry.text for entry in answers.nbest["q0"]] == [""]
    # With room for another it is compared with that.
    answers = _answer(made, *null, n_best_size=8, version_2_with_negative=True)
    assert answers.null_odds == {"q0": 18.0}
    assert answers.predictions == {"q0": ""}


def test_null_is_appended_to_a_full_list(tmp_path):
    made = _made(tmp_path, "a b c")
    spans = [_peak(8, [4, 5])], [_peak(8, [5, 6])]
    answers = _answer(made, *spans, n_best_size=2, version_2_with_negative=True)
    assert [entry.text for entry in answers.nbest["q0"]] == ["a b", "a b c", ""]
    assert answers.null_odds == {"q0": -18.0}


def test_threshold(tmp_path):
    made = _made(tmp_path, "a b c")
    logits = [_peak(8, 5, 2.0)], [_peak(8, 5, 1.0)]
    for threshold, text in ((-3.0, "b"), (-3.5, ""), (0.0, "b")):
        flags = {"version_2_with_negative": True, "null_score_diff_threshold": str(threshold)}
        answers = _answer(made, *logits, **flags)
        assert answers.null_odds == {"q0": -3.0}
        assert answers.predictions == {"q0": text}
        assert answers.with_threshold(-3.5).predictions == {"q0": ""}
        assert answers.best_texts() == {"q0": "b"}


def test_least_null_score_of_the_windows_counts(tmp_path):
    made = _made(tmp_path, "a b c d e f g h i j k l")
    count = len(made[1].example_index)
    assert count == 3
    lengths = made[1].input_ids.lengths
    starts = [_peak(n, 0, 5.0 - (row == 1)) for row, n in enumerate(lengths)]
    ends = [_peak(n, 5, 1.0) for n in lengths]
    answers = _answer(made, starts, ends, version_2_with_negative=True)
    null = next(entry for entry in answers.nbest["q0"] if not entry.text)
    assert (null.start_logit, null.end_logit) == (4.0, 0.0)
    assert answers.null_odds == {"q0": 3.0}


def test_question_without_a_window(tmp_path):
    made = _made(tmp_path, "a b c", "", "\u200b")
    logits = [_peak(8, 5)], [_peak(8, 5)]
    assert _answer(made, *logits).predictions == {"q0": "b", "q1": "empty", "q2": "empty"}
    answers = _answer(made, *logits, version_2_with_negative=True)
    assert answers.predictions == {"q0": "b", "q1": "", "q2": ""}
    assert list(answers.nbest) == ["q0", "q1", "q2"]
    assert answers.null_odds["q1"] == squad_answers.ONLY_NULL


def test_no_window_at_all(tmp_path):
    made = _made(tmp_path, "")
    assert _answer(made, [], []).predictions == {"q0": "empty"}


def test_padding_of_batches_changes_no_answer(tmp_path):
    generator = np.random.default_rng(5)
    made = _made(tmp_path, *[" ".join(generator.choice(list("abc"), n)) for n in (3, 9, 30)])
    lengths = made[1].input_ids.lengths
    starts, ends = ([generator.normal(size=n) for n in lengths] for _ in range(2))
    plain = _answer(made, starts, ends)
    low = [np.concatenate([side, np.full(5, -1e4)]) for side in starts]
    low_ends = [np.concatenate([side, np.full(5, -1e4)]) for side in ends]
    assert _answer(made, low, low_ends) == plain


def test_ragged_logits_of_an_ensemble_answer_too(tmp_path):
    made = _made(tmp_path, "a b c")
    sides = [ragged.from_rows([_peak(8, at)], np.float32) for at in (4, 5)]
    models = [squad_logits.Logits(side, side) for side in (*sides, sides[1])]
    examples, features, tokenizer = made
    answers = squad_answers.answer(
        examples, features, squad_logits.average(models), tokenizer, squad_options.SquadOptions()
    )
    assert answers.predictions == {"q0": "b"}
