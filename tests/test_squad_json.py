"""Files of another shape end in one line that says where."""

from __future__ import annotations

import gzip
import json

import pytest
import squad_files

import errors
from tasks import squad_json

GOOD = squad_files.data(("Rome is old.", [squad_files.question("q", ("old", 8))]))


def _questions(data):
    return [
        (at, qas_id, squad_json.answer_texts(qa, at, "f.json"))
        for where, paragraph in squad_json.paragraphs(data, "f.json")
        for at, qas_id, qa in squad_json.questions_of(paragraph, where, "f.json")
    ]


def test_paths_ids_and_answers():
    assert _questions(GOOD) == [("data[0].paragraphs[0].qas[0]", "q", ["old"])]
    numbered = squad_files.data(("x", [squad_files.question(17)]))
    assert _questions(numbered) == [("data[0].paragraphs[0].qas[0]", "17", [])]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([GOOD], "f.json: the top level is a list; expected an object with the key 'data'"),
        ({"version": "1"}, "f.json: the top level has no 'data', only 'version'"),
        ({"Data": []}, "the top level has no 'data', only 'Data'"),
        ({"data": {}}, "f.json: data is an object; expected a list"),
        ({"data": ["x"]}, "f.json: data[0] is text; expected an object"),
        (
            {"data": [*GOOD["data"], {"title": "t", "context": "c", "qas": []}]},
            "f.json: data[1] has no 'paragraphs', only 'title', 'context', 'qas'",
        ),
        (
            {"data": [{"paragraphs": [{"context": "c"}]}]},
            "data[0].paragraphs[0] has no 'qas', only 'context'",
        ),
        (
            {"data": [{"paragraphs": [{"qas": [{"question": "?"}]}]}]},
            "data[0].paragraphs[0].qas[0] has no 'id'",
        ),
        (
            {"data": [{"paragraphs": [{"qas": [{"id": None}]}]}]},
            "data[0].paragraphs[0].qas[0].id is null; expected text",
        ),
        (
            {"data": [{"paragraphs": [{"qas": [{"id": True}]}]}]},
            "data[0].paragraphs[0].qas[0].id is true or false; expected text",
        ),
        (
            squad_files.data(("c", [{"id": "q", "answers": [{"answer_start": 1}]}])),
            "data[0].paragraphs[0].qas[0].answers[0] has no 'text'",
        ),
        (
            squad_files.data(("c", [{"id": "q", "answers": "Rome"}])),
            "data[0].paragraphs[0].qas[0].answers is text; expected a list",
        ),
    ],
)
def test_another_layout(data, message):
    with pytest.raises(errors.UserError) as caught:
        _questions(data)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


def test_load(tmp_path):
    plain, packed, marked = (tmp_path / name for name in ("a.json", "a.json.gz", "b.json"))
    text = json.dumps(GOOD, indent=1)
    plain.write_text(text)
    packed.write_bytes(gzip.compress(text.encode()))
    marked.write_bytes(b"\xef\xbb\xbf" + text.encode())  # a byte-order mark
    for path in (plain, packed, marked):
        assert squad_json.load(str(path)) == GOOD


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [\n  {"title": }\n]}', ":2: not JSON in the layout of SQuAD: Expecting value"),
        (b'{"header": 1}\n{"context": "c"}\n', "(it holds one JSON object a line)"),
        (b"", ":1: not JSON"),
        (b'{"data":\n"caf\xe9"}', ":2: not UTF-8 text"),
    ],
)
def test_no_json(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(errors.UserError) as caught:
        squad_json.load(str(path))
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
