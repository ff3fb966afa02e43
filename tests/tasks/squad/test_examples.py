"""Which questions and answers a file gives, and what is said of the others."""

import random

import pytest

import squad_files
from command_line import errors
from tasks.squad import examples as squad_examples

ROME = "Rome is old."


def _train(context, *qas, **flags):
    data = squad_files.data((context, qas))
    return squad_examples.parse(data, "f.json", is_training=True, **flags)


def _answers(examples):
    return [
        examples.contexts[q.paragraph][q.start : q.end] if q.start >= 0 else None
        for q in examples.questions
    ]


def _one(context, text, start):
    """What is trained for a single answer; None if it is left out."""
    good = squad_files.question("good", (context[-1], len(context) - 1))
    examples = _train(context, squad_files.question("q", (text, start)), good)
    return _answers(examples)[0] if len(examples.questions) == 2 else None


def test_words_part_at_five_characters_only():
    text = " a\tb\r\nc\u202fd  e\u00a0f\u3000g\u2009h\u2028i\u000bj "
    expected = ["a", "b", "c", "d", "e\u00a0f\u3000g\u2009h\u2028i\u000bj"]
    assert squad_examples.words(text) == expected
    starts = squad_examples.word_starts(text)
    assert [text[s : s + len(w)] for s, w in zip(starts, expected, strict=True)] == expected


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u2028", "\u202f", "  ", "\n", "\u3000"])
def test_answer_with_any_space(space):
    context = f"The bridge is 120{space}m long."
    answer = f"120{space}m"
    assert _one(context, answer, 14) == answer
    # An annotator's tool may have written another white space than the context has.
    assert _one(context, "120 m", 14) == answer
    assert _one(context, f" {answer} ", 13) == answer


@pytest.mark.parametrize(
    ("text", "start", "found"),
    [
        ("old", 8, "old"),
        ("old", 7, "old"),
        ("old", 9, "old"),
        ("old", 3, "old"),
        ("old", 2, None),  # too far off to be sure
        ("old", 40, None),
        ("old", 12, None),
        ("old", -1, None),
        ("old", -4, None),
        ("new", 8, None),
        ("ROME", 0, None),
        ("", 0, None),
        (" \n", 4, None),
        (" is ", 4, "is"),
        ("is old. Not", 5, None),
        ("Rome", 1, "Rome"),
        (ROME, 0, ROME),
    ],
)
def test_answer_start(text, start, found, caplog):
    assert _one(ROME, text, start) == found
    if found is None:
        assert "question q skips answer" in caplog.text


def test_wrong_start_between_equal_texts_is_not_guessed():
    assert _one("go go go home", "go", 1) is None
    assert _one("go go go home", "go", 3) == "go"
    assert _one("go\u00a0go go home", "go go", 0) == "go\u00a0go"
    examples = _train("go go home", squad_files.question("q", ("go", 3)))
    assert (examples.questions[0].start, examples.summary.moved) == (3, 0)
    examples = _train("we\u00a0go home", squad_files.question("q", ("\u00a0go ", 2)))
    assert (examples.questions[0].start, examples.summary.moved) == (2, 0)
    examples = _train("we go home", squad_files.question("q", ("go", 2)))
    assert (examples.questions[0].start, examples.summary.moved) == (3, 1)


def test_impossible_questions():
    qas = [
        squad_files.question("a", ("Rome", 0)),
        squad_files.question("b", is_impossible=True),
        squad_files.question("c", ("Rome", 0), is_impossible=True),
        squad_files.question("d"),
        squad_files.question("e", ("old", 8), is_impossible=False),
    ]
    examples = _train(ROME, *qas, version_2_with_negative=True)
    assert _answers(examples) == ["Rome", None, None, None, "old"]
    assert [q.is_impossible for q in examples.questions] == [False, True, True, True, False]
    assert examples.summary.impossible == 3
    # Without the flag the key is not read.
    assert _answers(_train(ROME, qas[0], qas[2])) == ["Rome", "Rome"]


@pytest.mark.parametrize(
    ("qa", "version_2", "message"),
    [
        (squad_files.question("q9"), False, "(id q9) has no answer; files with unanswerable"),
        (squad_files.question("q9", is_impossible=True), False, "--version_2_with_negative"),
        (squad_files.question("q9", is_impossible=False), True, "is_impossible is false"),
        (squad_files.question("q9", ("a", 0), ("b", 1)), False, "q9) has 2 answers, but training"),
        (squad_files.question("q9", ("a", 0), ("b", 1)), False, "; is this a dev file?"),
        (squad_files.question("q9", ("a", 0), ("b", 1)), False, "--answer_policy=first takes"),
        (squad_files.question("q9", is_impossible="no"), True, "is text; expected true or false"),
        (squad_files.question("q9", ("is", 5.0)), False, "is a number with a fraction; expected a"),
        (squad_files.question("q9", ("is", None)), False, "answers[0].answer_start is null"),
        ({"id": "q9", "question": "?"}, False, "qas[0] has no 'answers'"),
        ({"id": "q9", "question": "?"}, True, "qas[0] has no 'answers'"),
        ({"id": "q9", "answers": []}, True, "qas[0] has no 'question'"),
    ],
)
def test_answers_that_do_not_fit_the_flags(qa, version_2, message):
    with pytest.raises(errors.UserError) as caught:
        _train(ROME, qa, version_2_with_negative=version_2)
    assert message in str(caught.value)
    assert "f.json: data[0].paragraphs[0].qas[0]" in str(caught.value)


@pytest.mark.parametrize(
    ("policy", "expected"), [("first", ["is old"]), ("shortest", ["is"]), ("all", ["is old", "is"])]
)
def test_answer_policies(policy, expected):
    # The first answer is not in the text, the last is a repetition.
    answers = [("new", 8), ("is old", 5), ("is", 5), ("is old", 5)]
    examples = _train(ROME, squad_files.question("q", *answers), answer_policy=policy)
    assert _answers(examples) == expected
    assert examples.summary.dropped == {}
    assert {(q.qas_id, q.number) for q in examples.questions} == {("q", 0)}


def test_an_unknown_answer_policy():
    with pytest.raises(errors.FlagError, match="--answer_policy=frist: expected one of error, fir"):
        squad_examples.parse({"data": []}, "x.json", is_training=True, answer_policy="frist")


def test_prediction_reads_nothing_about_answers(caplog):
    qas = [
        {"id": "a", "question": "?"},
        {"id": "b", "question": "?", "answers": None, "is_impossible": "maybe"},
        squad_files.question("c", ("x", 99), ("y", -3)),
    ]
    data = squad_files.data((ROME, qas))
    examples = squad_examples.parse(data, "f", is_training=False)
    assert [q.qas_id for q in examples.questions] == ["a", "b", "c"]
    assert {(q.start, q.end, q.is_impossible) for q in examples.questions} == {(-1, -1, False)}
    assert not caplog.records


def test_unanswerable_questions_without_the_flag_are_told(caplog):
    data = squad_files.data((ROME, [squad_files.question("a", is_impossible=True)]))
    squad_examples.parse(data, "f", is_training=False)
    assert "1 unanswerable questions (is_impossible), but each will get an answer" in caplog.text
    assert "--version_2_with_negative" in caplog.text
    caplog.clear()
    squad_examples.parse(data, "f", is_training=False, version_2_with_negative=True)
    assert not caplog.records


def test_ids_that_occur_twice(caplog):
    twice = squad_files.data((ROME, [squad_files.question("a"), squad_files.question("a")]))
    assert len(squad_examples.parse(twice, "f", is_training=False).questions) == 2
    assert "2 questions, 1 ids; the last question of an id gives its answer; repeated: a" in (
        caplog.text
    )
    apart = squad_files.data(
        (ROME, [squad_files.question("a")]), ("Other", [squad_files.question("a")])
    )
    assert len(squad_examples.parse(apart, "f", is_training=False).questions) == 2
    caplog.clear()
    train = [squad_files.question("a", ("is", 5)), squad_files.question("a", ("old", 8))]
    assert _answers(_train(ROME, *train)) == ["is", "old"]
    assert "2 questions, 1 ids; repeated: a" in caplog.text


@pytest.mark.parametrize(
    "text", ["\u200b", "", " ", "\xad\ufeff", "\u200b \u200b", "\u2028", "\ufe0f", "\u3164"]
)
def test_an_answer_without_a_visible_character(text, caplog):
    context = "go \u200bhome \xad\ufeff \u200b \u200b \u2028\ufe0f\u3164"
    start = max(context.find(text), 0)
    both = [squad_files.question("none", (text, start)), squad_files.question("q", ("go", 0))]
    examples = _train(context, *both)
    assert _answers(examples) == ["go"]
    assert examples.summary.dropped == {"the answer is empty": ["none"]}
    for more in ({}, {"is_impossible": False}):
        qas = [squad_files.question("none", (text, start), **more), both[1]]
        examples = _train(context, *qas, version_2_with_negative=True)
        assert [q.is_impossible for q in examples.questions] == [True, False]
        assert (
            "1 of 2 questions have an empty answer and count as unanswerable: none" in caplog.text
        )


def test_questions_without_a_text_are_counted(caplog):
    texts = {"a": "", "b": "\u200b", "c": "what ?"}
    qas = [{**squad_files.question(key), "question": text} for key, text in texts.items()]
    squad_examples.parse(squad_files.data((ROME, qas)), "f", is_training=False)
    assert "f: the question of 2 of 3 questions is empty: a, b" in caplog.text


@pytest.mark.parametrize("context", ["", " \n", "\u200b\xa0\xad", "\ufffd\0"])
def test_empty_context(caplog, context):
    data = squad_files.data(
        (context, [squad_files.question("a")]), (ROME, [squad_files.question("b")])
    )
    examples = squad_examples.parse(data, "f", is_training=False)
    assert [q.qas_id for q in examples.questions] == ["a", "b"]
    assert "the context of 1 of 2 questions is empty: a" in caplog.text


def test_nothing_to_do():
    with pytest.raises(errors.UserError, match="f: there is no question in it"):
        squad_examples.parse({"data": []}, "f", is_training=False)
    with pytest.raises(errors.UserError, match="nothing to learn"):
        _train(ROME, squad_files.question("q", ("new", 0)))


def test_summary(caplog):
    qas = [squad_files.question(f"far{k}", ("old", 90)) for k in range(12)]
    qas += [squad_files.question("gone", ("new", 8)), squad_files.question("near", ("old", 7))]
    qas += [squad_files.question("good", ("old", 8))]
    summary = _train(ROME, *qas).summary
    assert (summary.questions, summary.examples, summary.moved) == (15, 2, 1)
    assert {reason: len(ids) for reason, ids in summary.dropped.items()} == {
        "answer_start is outside the context": 12,
        "the answer is not at its answer_start": 1,
    }
    lines = list(summary.lines())
    assert "kept 2 of 15, skipped 13" in lines[0]
    assert "1 moved" in lines[1]
    assert lines[2].endswith("far0, far1, far2, far3, and 8 more")
    assert lines[3].endswith(": gone")
    # Ten warnings of a kind are enough.
    assert caplog.text.count("answer_start is outside") == 10


def test_training_order_is_the_original_one():
    qas = [squad_files.question(str(k), ("is", 5)) for k in range(50)]
    order = [str(k) for k in range(50)]
    random.Random(12345).shuffle(order)
    examples = squad_examples.shuffled(_train(ROME, *qas))
    assert [q.qas_id for q in examples.questions] == order


def test_contexts_are_shared():
    data = squad_files.data(
        ("one", [squad_files.question("a"), squad_files.question("b")]),
        ("two", []),
        ("three", [squad_files.question("c")]),
    )
    examples = squad_examples.parse(data, "f", is_training=False)
    assert examples.contexts == ["one", "two", "three"]
    assert [q.paragraph for q in examples.questions] == [0, 0, 2]
