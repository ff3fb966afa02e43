"""Windows of whole files: those of the original release, from any number of processes."""

import dataclasses
import os

import numpy as np
import pytest

import squad_files
from command_line import errors
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import options as squad_options
from training import progress, ragged

SIZES = squad_options.SquadOptions(
    max_seq_length=20, doc_stride=3, max_query_length=6, num_workers=1
)
LETTERS = "a b c d e f g h i j k l m n o p q r s t u v w x y z"


@pytest.mark.parametrize("name", squad_files.GOLDEN)
def test_features_are_those_of_the_original(shared, name):
    made = squad_files.golden(shared, name)
    with np.load(made.folder / "features.npz") as found:
        expected = dict(found)
    features, rows = made.features, np.arange(made.meta["num_features"])
    length = made.meta["max_seq_length"]
    got = {
        "unique_ids": features.unique_ids,
        "example_index": features.example_index,
        "doc_span_index": features.doc_span_index,
        "input_ids": features.input_ids.padded(rows, length),
        "input_mask": np.arange(length) < features.input_ids.lengths[:, None],
        "segment_ids": features.segment_ids.padded(rows, length),
        "token_to_orig_map": np.full([len(rows), length], -1),
        "token_is_max_context": np.full([len(rows), length], -1),
    }
    if made.meta["is_training"]:
        got["start_position"] = features.start_positions
        got["end_position"] = features.end_positions
        got["is_impossible"] = features.is_impossible
    for row in rows:
        words = features.token_to_orig_map(row)
        best = np.where(words >= 0, features.token_is_max_context(row), -1)
        got["token_to_orig_map"][row, : len(words)] = words
        got["token_is_max_context"][row, : len(words)] = best
    assert set(got) == set(expected)
    for field in expected:
        np.testing.assert_array_equal(got[field], expected[field], err_msg=field)


def _random_examples(seed, paragraphs=30):
    generator = np.random.default_rng(seed)
    letters, made = LETTERS.split(), []
    for number in range(paragraphs):
        context = " ".join(generator.choice(letters, generator.integers(1, 60)))
        questions = []
        for k in range(generator.integers(0, 4)):
            start = 2 * int(generator.integers(0, len(context) // 2 + 1))
            qas_id = f"{number}-{k}"
            if generator.random() < 0.2:
                questions.append(squad_files.question(qas_id, is_impossible=True))
            else:
                questions.append(squad_files.question(qas_id, (context[start : start + 3], start)))
        made.append((context, questions))
    return squad_examples.parse(
        squad_files.data(*made), "f", is_training=True, version_2_with_negative=True
    )


def _same(one, other):
    for name, value in one._asdict().items():
        theirs = getattr(other, name)
        if isinstance(value, ragged.Ragged):
            np.testing.assert_array_equal(value.values, theirs.values, err_msg=name)
            np.testing.assert_array_equal(value.offsets, theirs.offsets, err_msg=name)
        else:
            np.testing.assert_array_equal(value, theirs, err_msg=name)


def test_any_number_of_processes_gives_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr(squad_features, "_CHUNK", 300)
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {LETTERS}")
    examples = squad_examples.shuffled(_random_examples(0))
    assert len(squad_features._chunks(examples)) > 10
    here = squad_features.build(examples, tokenizer, SIZES)
    for workers in (3, 0):
        sizes = dataclasses.replace(SIZES, num_workers=workers)
        _same(here, squad_features.build(examples, tokenizer, sizes))


def test_order_of_questions_only_orders_windows(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {LETTERS}")
    examples = _random_examples(1, 300)
    plain = squad_features.build(examples, tokenizer, SIZES)
    mixed = squad_features.build(squad_examples.shuffled(examples), tokenizer, SIZES)
    assert (np.diff(mixed.example_index) >= 0).all()
    order = squad_examples.shuffled(examples).questions
    at = {question.qas_id: k for k, question in enumerate(examples.questions)}
    for row in range(len(mixed.example_index)):
        index = at[order[mixed.example_index[row]].qas_id]
        span = mixed.doc_span_index[row]
        other = np.flatnonzero(plain.example_index == index)[span]
        np.testing.assert_array_equal(mixed.input_ids.row(row), plain.input_ids.row(other))
        np.testing.assert_array_equal(mixed.segment_ids.row(row), plain.segment_ids.row(other))
        for name in ("start_positions", "end_positions", "is_impossible", "paragraph", "doc_start"):
            assert getattr(mixed, name)[row] == getattr(plain, name)[other]


def test_labels_point_at_the_answer(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {LETTERS}")
    examples = _random_examples(2, 60)
    features = squad_features.build(examples, tokenizer, SIZES)
    labelled = 0
    for row, (start, end) in enumerate(
        zip(features.start_positions, features.end_positions, strict=True)
    ):
        question = examples.questions[features.example_index[row]]
        context = examples.contexts[question.paragraph]
        tokens = tokenizer.convert_ids_to_tokens(features.input_ids.row(row).tolist())
        words = features.token_to_orig_map(row)
        for position in np.flatnonzero(words >= 0):
            assert tokens[position] == squad_examples.words(context)[words[position]]
        if start:
            labelled += 1
            assert tokens[start : end + 1] == context[question.start : question.end].split()
        assert not (start and question.is_impossible)
    summary = squad_features.summarize(examples, features)
    assert summary.windows == len(features.example_index)
    assert summary.windows_with_answer == labelled > 50
    answered = squad_features.with_whole_answer(features)
    assert len(answered.example_index) == labelled + features.is_impossible.sum()
    assert ((answered.start_positions > 0) | answered.is_impossible).all()
    first = np.flatnonzero((features.start_positions > 0) | features.is_impossible)[0]
    np.testing.assert_array_equal(answered.input_ids.row(0), features.input_ids.row(first))


def test_questions_without_windows(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, "what ? a")
    data = squad_files.data(
        ("", [squad_files.question("none")]),
        ("a", []),
        ("\u200b", [squad_files.question("deleted")]),
        ("a", [squad_files.question("some")]),
    )
    examples = squad_examples.parse(data, "f", is_training=False)
    features = squad_features.build(examples, tokenizer, SIZES)
    assert features.example_index.tolist() == [2]
    assert features.paragraph.tolist() == [3]
    assert features.unique_ids.tolist() == [1000000000]


def test_answer_without_pieces_is_left_out_and_told(tmp_path):
    tokenizer = squad_files.tokenizer(tmp_path, "what ? a")
    questions = [squad_files.question("no", ("\u0301", 2)), squad_files.question("yes", ("a", 0))]
    data = squad_files.data(("a \u0301", questions))
    examples = squad_examples.parse(data, "f", is_training=True)
    features = squad_features.build(examples, tokenizer, SIZES)
    assert features.example_index.tolist() == [1]
    lines = list(squad_features.summarize(examples, features).lines())
    assert "kept 1 of 2, skipped 1" in lines[0]
    assert lines[1].startswith("1 examples, 1 windows, 1 of them with the answer;")
    assert lines[-1] == "skipped 1, no token is left of the answer: no"
    assert examples.summary.dropped == {}


@pytest.mark.parametrize("order", [lambda examples: examples, squad_examples.shuffled])
def test_summary_with_several_answers_a_question(tmp_path, order):
    tokenizer = squad_files.tokenizer(tmp_path, "what ? a")
    nothing, something = ("\u0301", 2), ("a", 0)
    questions = [
        squad_files.question("both", something, nothing),
        squad_files.question("none", nothing, ("\u0301", 4)),
        squad_files.question("two", something, ("a", 6)),
        squad_files.question("lost", ("b", 0)),
    ]
    data = squad_files.data(("a \u0301 \u0301 a", questions))
    examples = squad_examples.parse(data, "f", is_training=True, answer_policy="all")
    features = squad_features.build(order(examples), tokenizer, SIZES)
    lines = list(squad_features.summarize(order(examples), features).lines())
    assert "4 questions, 0 of them without an answer: kept 2 of 4, skipped 2" in lines[0]
    assert lines[1].startswith("3 examples, 3 windows, 3 of them with the answer;")
    assert lines[2:] == [
        "skipped 1, the answer is not at its answer_start: lost",
        "skipped 1, no token is left of the answer: none",
    ]


@pytest.mark.parametrize("order", [lambda examples: examples, squad_examples.shuffled])
def test_answers_in_no_window_whole_are_named(tmp_path, order):
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {LETTERS}")
    # Room for 15 letters behind [CLS] what ? [SEP]; windows begin at a, d, g and so on.
    longest, longer = LETTERS[: 2 * 15 - 1], LETTERS[: 2 * 16 - 1]
    inside = LETTERS[2 : 2 * 16 - 1]  # 15 letters from b
    names = [f"long{number}" for number in range(5)]
    questions = [squad_files.question(name, (longer, 0)) for name in names]
    questions += [
        squad_files.question("fits", (longest, 0)),
        squad_files.question("impossible", is_impossible=True),
        squad_files.question("inside", (inside, 2)),
    ]
    examples = squad_examples.parse(
        squad_files.data((LETTERS, questions)), "f", is_training=True, version_2_with_negative=True
    )
    features = squad_features.build(order(examples), tokenizer, SIZES)
    summary = squad_features.summarize(order(examples), features)
    assert summary.in_no_window == [*names, "inside"]
    assert (summary.examples, summary.windows_with_answer) == (8, 1)
    assert list(summary.lines())[-1] == (
        "6 answers are in no window whole: long0, long1, long2, long3, and 2 more"
    )


def test_progress_is_told(tmp_path, monkeypatch, caplog):
    caplog.set_level("INFO")
    monkeypatch.setattr(squad_features, "_CHUNK", 300)
    seconds = iter(range(0, 100_000, 20))
    monkeypatch.setattr(progress.time, "monotonic", lambda: float(next(seconds)))
    tokenizer = squad_files.tokenizer(tmp_path, f"what ? {LETTERS}")
    data = squad_files.data(
        ("a " * 200, []), ("a", [squad_files.question("q0"), squad_files.question("q1")])
    )
    examples = squad_examples.parse(data, "f", is_training=False)
    squad_features.build(examples, tokenizer, SIZES)
    assert [record.getMessage() for record in caplog.records] == [
        "made windows of 2 of 2, 0.1 examples/s, 0s left"
    ]


class _Dying:
    """A tokenizer that ends its process."""

    def convert_tokens_to_ids(self, tokens):
        return list(range(len(tokens)))

    def encode(self, text):
        os._exit(9)


def test_killed_worker_is_a_user_error(monkeypatch):
    monkeypatch.setattr(squad_features, "_CHUNK", 10)
    with pytest.raises(errors.UserError, match="a worker process was killed.*now 2"):
        squad_features.build(
            _random_examples(3), _Dying(), dataclasses.replace(SIZES, num_workers=2)
        )


@pytest.mark.parametrize("context, share", [("a мир", 50), ("a a a мир", 25), ("a a", 0)])
def test_contexts_that_the_vocabulary_does_not_know(tmp_path, context, share, caplog):
    tokenizer = squad_files.tokenizer(tmp_path, "what ? a")
    data = squad_files.data((context, [squad_files.question("q")]))
    examples = squad_examples.parse(data, "f", is_training=False)
    squad_features.build(examples, tokenizer, SIZES)
    told = f"the contexts: {share}% of the words are [UNK]"
    assert (told in caplog.text) is bool(share) and ("[UNK]" in caplog.text) is bool(share)
