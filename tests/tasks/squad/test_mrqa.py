"""The MRQA collection becomes files in the layout of SQuAD."""

import gzip
import json

import pytest

from command_line import errors
from tasks.squad import mrqa


def _mrqa(tmp_path, *lines, name="dev.jsonl.gz"):
    path = tmp_path / name
    text = "".join(json.dumps(line) + "\n" for line in lines).encode()
    path.write_bytes(gzip.compress(text) if name.endswith(".gz") else text)
    return str(path)


def _mrqa_question(qid, *spans, text="?"):
    answers = [{"text": text, "char_spans": [span, [0, 0]]} for span in spans]
    return {"qid": qid, "question": "what?", "detected_answers": answers}


@pytest.mark.parametrize("name", ["dev.jsonl", "dev.jsonl.gz"])
def test_contexts_questions_and_first_places(tmp_path, name, caplog):
    lines = [
        {"header": {"dataset": "X"}},
        {"context": "Rome is old.", "qas": [_mrqa_question("a", [8, 10], [0, 3])]},
        {"context": "Zoë is here.", "qas": [_mrqa_question("b", [0, 2]), _mrqa_question("c")]},
    ]
    data = mrqa.read(_mrqa(tmp_path, *lines, name=name))
    paragraphs = data["data"][0]["paragraphs"]
    assert [p["context"] for p in paragraphs] == ["Rome is old.", "Zoë is here."]
    assert [qa["answers"] for p in paragraphs for qa in p["qas"]] == [
        [{"text": "old", "answer_start": 8}, {"text": "Rome", "answer_start": 0}],
        [{"text": "Zoë", "answer_start": 0}],
    ]
    assert [qa["id"] for p in paragraphs for qa in p["qas"]] == ["a", "b"]
    assert "blank" not in caplog.text
    message = "1 of 3 questions have no detected answer and are left out: c"
    assert message in caplog.text


def test_blank_lines_are_told(tmp_path, caplog):
    lines = [json.dumps({"header": {}}), "", json.dumps({"context": "abc", "qas": [
        _mrqa_question("a", [0, 2])]}), ""]  # fmt: skip
    (tmp_path / "a.jsonl").write_text("\n".join(lines))
    assert mrqa.read(str(tmp_path / "a.jsonl"))["data"]
    assert "a.jsonl: left out blank lines: 2" in caplog.text


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ({"qas": []}, ":2: the top level has no 'context'"),
        (
            [1],
            ":2: the top level is a list; expected an object with the key 'context' (the layout of "
            "MRQA)",
        ),
        ({"context": "abc", "qas": [_mrqa_question("a", [1, 3])]}, "char_spans[0] is [1, 3]"),
        ({"context": "abc", "qas": [_mrqa_question("a", 7)]}, "char_spans[0] is 7; expected"),
        ({"context": "abc", "qas": [_mrqa_question("a", [2, 2.0])]}, "char_spans[0] is [2, 2.0]"),
        ({"context": "abc", "qas": [_mrqa_question("a", [0.0, 1])]}, "char_spans[0] is [0.0, 1]"),
        ({"context": "abc", "qas": [_mrqa_question("a", [False, 1])]}, "[False, 1]; expected fir"),
        ({"context": "abc", "qas": [_mrqa_question("a", [0, None])]}, "[0, None]; expected first"),
        ({"context": "abc", "qas": [_mrqa_question("a", [2, 1])]}, "char_spans[0] is [2, 1]"),
        ({"context": "abc", "qas": [_mrqa_question("a", [0])]}, "char_spans[0] is [0]"),
        ({"context": "abc", "qas": [{"qid": "a", "question": "?"}]}, "no 'detected_answers'"),
    ],
)
def test_another_layout(tmp_path, line, message):
    with pytest.raises(errors.UserError) as caught:
        mrqa.read(_mrqa(tmp_path, {"header": {}}, line))
    assert message in str(caught.value)
    assert "dev.jsonl.gz:2: " in str(caught.value)
    assert "SQuAD" not in str(caught.value)


def test_places_of_another_text_are_named(tmp_path, caplog):
    same = _mrqa_question("a", [0, 7], text="ROME is")
    other = _mrqa_question("b", [1, 4], text="Rome")
    mrqa.read(_mrqa(tmp_path, {"context": "Rome  is old", "qas": [same, other]}))
    assert "1 questions' answers have another text than" in caplog.text
    assert caplog.text.rstrip().endswith(": b")


def test_one_id_twice(tmp_path):
    lines = [{"context": "Rome", "qas": [_mrqa_question("a", [0, 3])]}] * 2
    with pytest.raises(errors.UserError, match=r":2: qas\[0\].qid 'a' is that of an earlier"):
        mrqa.read(_mrqa(tmp_path, *lines))


def test_no_json(tmp_path):
    path = tmp_path / "broken.jsonl"
    path.write_text('{"header": {}}\n{"context": \n')
    with pytest.raises(errors.UserError, match="broken.jsonl:2: not JSON in the layout of MRQA"):
        mrqa.read(str(path))
    path.write_text('{"header": {}}\n' + '{"context":' * 100_000)
    with pytest.raises(errors.UserError, match="broken.jsonl:2: lists or objects are nested too"):
        mrqa.read(str(path))


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        ([], "there is no question in it"),
        ([{"context": "Rome", "qas": []}], "there is no question in it"),
        (
            [{"context": "Rome", "qas": [_mrqa_question("a"), _mrqa_question("b")]}],
            "none of its 2 questions has a detected answer",
        ),
    ],
)
def test_no_question(tmp_path, lines, message):
    with pytest.raises(errors.UserError) as caught:
        mrqa.read(_mrqa(tmp_path, {"header": {}}, *lines))
    assert message in str(caught.value)


def test_questions_without_answers_are_left_out_and_named(tmp_path, caplog):
    unanswered = [_mrqa_question(f"no{number}") for number in range(6)]
    answer_without_place = _mrqa_question("placeless", [0, 0])
    answer_without_place["detected_answers"][0]["char_spans"] = []
    lines = [
        {"context": "x", "qas": unanswered},
        {"context": "Rome", "qas": [_mrqa_question("yes", [0, 3]), answer_without_place]},
    ]
    data = mrqa.read(_mrqa(tmp_path, {"header": {}}, *lines))
    (paragraph,) = data["data"][0]["paragraphs"]
    assert [qa["id"] for qa in paragraph["qas"]] == ["yes"]
    told = "7 of 8 questions have no detected answer and are left out: no0, no1, no2, no3, and 3"
    assert told in caplog.text
