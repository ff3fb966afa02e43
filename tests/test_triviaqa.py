"""Question sets of other layouts become that of SQuAD."""

from __future__ import annotations

import gzip
import json

import pytest

import errors
from tasks import squad_examples, triviaqa


def _question(number, value, aliases, *files):
    return {
        "QuestionId": f"tc_{number}",
        "Question": f"question {number}?",
        "Answer": {"Value": value, "Aliases": aliases, "NormalizedAliases": [value.lower()]},
        "EntityPages": [{"Filename": name, "Title": "t"} for name in files],
    }


@pytest.fixture
def convert(tmp_path):
    """Converts questions over documents given by name."""

    def run(questions, documents, max_tokens=400):
        folder = tmp_path / "evidence"
        folder.mkdir()
        for name, text in documents.items():
            (folder / name).write_text(text, encoding="utf-8")
        path = tmp_path / "wikipedia-train.json"
        path.write_text(json.dumps({"Data": questions}))
        return triviaqa.convert_triviaqa(str(path), str(folder), max_tokens)

    return run


def _answers(data):
    examples = squad_examples.parse(data, "f", is_training=True)
    return {
        q.qas_id: (examples.contexts[q.paragraph][q.start : q.end], q.start)
        for q in examples.questions
    }


def test_first_place_of_any_name_in_whole_words(convert):
    documents = {
        "a.txt": "He used the bus. The United\nStates of America, or US, is large.",
        "b.txt": "Nothing of it here: usher, bus.",
        "c.txt": "In the U.S. it is so.",
    }
    names = ["US", "United States", "United States of America", "U.S."]
    data = convert([_question(1, "USA", names, *documents)], documents)
    assert _answers(data) == {
        "tc_1--a.txt": ("United\nStates of America", 21),
        "tc_1--c.txt": ("U.S.", 7),
    }
    first = data["data"][0]["paragraphs"][0]
    assert first["context"] == documents["a.txt"]
    assert first["qas"][0]["question"] == "question 1?"


def test_only_the_first_tokens_count(convert):
    documents = {"a.txt": "\none  two\nthree Rome five", "b.txt": "Rome " + "x " * 9}
    data = convert([_question(1, "rome", [], "a.txt", "b.txt")], documents, max_tokens=3)
    assert _answers(data) == {"tc_1--b.txt": ("Rome", 0)}
    assert data["data"][0]["paragraphs"][0]["context"] == "Rome x x"


def test_missing_documents_are_counted(convert, caplog):
    caplog.set_level("INFO")
    questions = [_question(1, "Rome", [], "a.txt", "gone.txt"), _question(2, "Paris", [], "a.txt")]
    data = convert(questions, {"a.txt": "Rome"})
    assert list(_answers(data)) == ["tc_1--a.txt"]
    assert "3 documents of 2 questions; 1 with an answer in their first 400 tokens, 1 missing" in (
        caplog.text
    )
    assert "gone.txt" in caplog.text


@pytest.mark.parametrize(
    ("questions", "message"),
    [
        ([_question(1, "Rome", [], "gone.txt")], "none of its 1 documents is in"),
        ([{"QuestionId": "x"}], "Data[0] has no 'Question'"),
        ([{"QuestionId": "x", "Question": "?"}], "Data[0] has no 'Answer'"),
        ([_question(1, "Rome", "R")], "Data[0].Answer.Aliases is text; expected a list"),
    ],
)
def test_what_cannot_be_converted(convert, questions, message):
    with pytest.raises(errors.UserError) as caught:
        convert(questions, {})
    assert message in str(caught.value)


def _mrqa(tmp_path, *lines, name="dev.jsonl.gz"):
    path = tmp_path / name
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(path)


def _mrqa_question(qid, *spans):
    answers = [{"text": "?", "char_spans": [span, [0, 0]]} for span in spans]
    return {"qid": qid, "question": "what?", "detected_answers": answers}


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
def test_mrqa(tmp_path, name):
    lines = [
        {"header": {"dataset": "X"}},
        {"context": "Rome is old.", "qas": [_mrqa_question("a", [8, 10], [0, 3])]},
        {"context": "Zoë is here.", "qas": [_mrqa_question("b", [0, 2]), _mrqa_question("c")]},
    ]
    data = triviaqa.read_mrqa(_mrqa(tmp_path, *lines, name=name))
    paragraphs = data["data"][0]["paragraphs"]
    assert [p["context"] for p in paragraphs] == ["Rome is old.", "Zoë is here."]
    assert [qa["answers"] for p in paragraphs for qa in p["qas"]] == [
        [{"text": "old", "answer_start": 8}, {"text": "Rome", "answer_start": 0}],
        [{"text": "Zoë", "answer_start": 0}],
        [],
    ]


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"qas": []}, ":2: the top level has no 'context'"),
        ([1], ":2: expected an object"),
        ({"context": "abc", "qas": [_mrqa_question("a", [1, 3])]}, "char_spans[0] is [1, 3]"),
        ({"context": "abc", "qas": [_mrqa_question("a", 7)]}, "char_spans[0] is 7; expected"),
        ({"context": "abc", "qas": [{"qid": "a", "question": "?"}]}, "no 'detected_answers'"),
    ],
)
def test_no_mrqa(tmp_path, line, message):
    with pytest.raises(errors.UserError) as caught:
        triviaqa.read_mrqa(_mrqa(tmp_path, {"header": {}}, line))
    assert message in str(caught.value)
    path = tmp_path / "broken.jsonl"
    path.write_text('{"header": {}}\n{"context": \n')
    with pytest.raises(errors.UserError, match="broken.jsonl:2: not JSON"):
        triviaqa.read_mrqa(str(path))
