"""Files of another shape end in one line that says where."""

import gzip
import json
import sys

import pytest

import squad_files
from command_line import errors
from tasks.squad import json_layout

GOOD = squad_files.data(("Rome is old.", [squad_files.question("q", ("old", 8))]))


def _questions(data):
    return [
        (
            qa.json_path,
            json_layout.take_id(qa),
            [answer.take("text", str) for answer in qa.objects("answers")],
        )
        for paragraph in json_layout.paragraphs(data, "f.json")
        for qa in paragraph.objects("qas")
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
        assert json_layout.load(str(path)) == GOOD


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"data": [\n  {"title": }\n]}', ":2: not JSON in the layout of SQuAD: Expecting value"),
        (b'{"header": 1}\n{"context": "c"}\n', "(it holds one JSON object a line)"),
        (b"", ":1: not JSON"),
        (b'{"data":\n"caf\xe9"}', ":2: not UTF-8 text"),
        (b"[" * 200_000, ": lists or objects are nested too deeply; expected the layout of SQuAD"),
        (b'{"data": {"a":' * 100_000, ": lists or objects are nested too deeply"),
        pytest.param(
            b'{"data": ' + b"7" * 5000 + b"}",
            ": a number has too many digits; expected the layout of SQuAD",
            marks=pytest.mark.skipif(
                not hasattr(sys, "get_int_max_str_digits"), reason="this Python reads any number"
            ),
        ),
    ],
)
def test_no_json(tmp_path, content, message):
    path = tmp_path / "x.json"
    path.write_bytes(content)
    with pytest.raises(errors.UserError) as caught:
        json_layout.load(str(path))
    assert str(caught.value).startswith(f"{path}:")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("data", [b"{", b"{\n\xff", b"[" * 200_000])
def test_a_line_of_a_file_and_another_layout(data):
    with pytest.raises(errors.UserError) as caught:
        json_layout.parse(data, "x.jsonl", "MRQA", 7)
    assert str(caught.value).startswith("x.jsonl:7: ")
    assert "SQuAD" not in str(caught.value)


def test_nodes():
    node = json_layout.top_level({"a": {"b": [{"c": 1}, {}], "d": ["x", None]}}, "f", "a", "OTHER")
    inner = node.child("a")
    assert [item.value for item in inner.objects("b")] == [{"c": 1}, {}]
    items = inner.items("d", str)
    assert next(items) == ("a.d[0]", "x")
    for take, message in (
        (lambda: next(items), "f: a.d[1] is null; expected text"),
        (lambda: list(inner.objects("d")), "f: a.d[0] is text; expected an object"),
        (lambda: inner.child("d"), "f: a.d is a list; expected an object"),
        (
            lambda: list(inner.objects("b"))[1].take("c", int),
            "f: a.b[1] has no 'c', only nothing; expected the layout of OTHER",
        ),
        (
            lambda: json_layout.top_level(None, "f", "a", "OTHER"),
            "f: the top level is null; expected an object with the key 'a' (the layout of OTHER)",
        ),
    ):
        with pytest.raises(errors.UserError) as caught:
            take()
        assert str(caught.value) == message


# --------------------------------------------------------------------------------------------------
# Flat rows
# --------------------------------------------------------------------------------------------------

FLAT = [
    {"id": "a", "title": "T", "context": "Rome is old", "question": "what?",
     "answers": {"text": ["Rome"], "answer_start": [0]}},
    {"id": "b", "title": "T", "context": "Rome is old", "question": "how?",
     "answers": {"text": [], "answer_start": []}},
    {"id": "c", "title": "T", "context": "Go", "question": "where?",
     "answers": {"text": ["Go", "Go"], "answer_start": [0, 0]}},
]  # fmt: skip


@pytest.mark.parametrize("form", ["lines", "crlf", "one", "list", "data", "gzip", "parquet"])
def test_flat_rows_of_the_hub(tmp_path, form):
    path = tmp_path / ("rows.parquet" if form == "parquet" else "rows.json")
    rows = FLAT[:1] if form == "one" else FLAT
    text = "".join(json.dumps(row) + "\n" for row in rows)
    if form == "parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="requirements-parquet.txt")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif form == "gzip":
        path.write_bytes(gzip.compress(text.encode()))
    elif form == "crlf":
        path.write_bytes(b"\xef\xbb\xbf" + text.replace("\n", "\r\n").encode())
    else:
        forms = {"list": json.dumps(rows), "data": json.dumps({"data": rows}, indent=1)}
        path.write_text(forms.get(form, text))
    found = list(json_layout.paragraphs(json_layout.load_questions(str(path)), "f"))
    assert [node.value["context"] for node in found] == ["Rome is old", "Go"][: len(rows)]
    first, *rest = found[0].value["qas"]
    answers = [{"text": "Rome", "answer_start": 0}]
    assert first == {"id": "a", "question": "what?", "answers": answers}
    if rest:  # without the key is_impossible, as parse() expects of SQuAD 2.0
        assert rest == [{"id": "b", "question": "how?", "answers": []}]
        assert len(found[1].value["qas"][0]["answers"]) == 2


@pytest.mark.parametrize(
    "change, message",
    [
        ({"context": 7}, "context is a whole number; expected text"),
        ({"id": None}, "id is null; expected text"),
        ({"question": ["?"]}, "question is a list; expected text"),
        ({"is_impossible": "no"}, "is_impossible is text; expected true or false"),
        ({"answers": []}, "answers is a list; expected an object"),
        ({"answers": {"text": ["x"], "answer_start": []}}, "answers has 1 text and 0 answer_s"),
        ({"answers": {"text": ["x"]}}, "answers has no 'answer_start', only 'text'"),
        (
            {"answers": {"text": ["x"], "answer_start": ["0"]}},
            "answers.answer_start[0] is text; expected a whole number",
        ),
    ],
)
def test_flat_rows_of_another_layout(tmp_path, change, message):
    """Lines are named by their number, rows of a list by their index."""
    path = tmp_path / "f.json"
    rows = [FLAT[0], {**FLAT[1], **change}]
    places = {
        f"{path}:3: ": "\n\n".join(map(json.dumps, rows)),
        f"{path}: data[1].": json.dumps({"data": rows}),
        f"{path}: [1].": json.dumps(rows),
    }
    for place, text in places.items():
        path.write_text(text)
        with pytest.raises(errors.UserError) as caught:
            json_layout.load_questions(str(path))
        assert str(caught.value).startswith(f"{place}{message}"), caught.value


def test_flat_rows_that_are_no_objects(tmp_path):
    path = tmp_path / "f.json"
    for text, message in (
        (json.dumps([FLAT[0], 7]), f"{path}: [1] is a whole number; expected an object"),
        (f"{json.dumps(FLAT[0])}\n{{7}}", f"{path}:2: not JSON"),
    ):
        path.write_text(text)
        with pytest.raises(errors.UserError) as caught:
            json_layout.load_questions(str(path))
        assert message in str(caught.value)


def test_parquet_rows_of_another_layout(tmp_path):
    pyarrow = pytest.importorskip("pyarrow", reason="requirements-parquet.txt")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "f.parquet"
    parquet.write_table(pyarrow.Table.from_pylist([{**FLAT[0], "context": b"Rome"}]), path)
    with pytest.raises(errors.UserError, match="row 1.context is bytes; expected text"):
        json_layout.load_questions(str(path))


def test_blank_lines_are_told(tmp_path, caplog):
    path = tmp_path / "f.jsonl"
    lines = list(map(json.dumps, FLAT))
    path.write_text(f"\n{lines[0]}\n \n{lines[1]}\r\n{lines[2]}\n\n\n")
    assert json_layout.load_questions(str(path))["data"]
    assert "f.jsonl: left out blank lines: 1, 3" in caplog.text.splitlines()[0]
    caplog.clear()
    path.write_text("\n".join([*lines, "", ""]))
    assert json_layout.load_questions(str(path))["data"] and not caplog.text
