"""Reading a corpus: lines, documents, and what is not text."""

import gzip
import json

import pytest

from command_line import errors
from tasks.pretraining import corpus


def _lines(path, text, key=""):
    path.write_text(text, encoding="utf-8")
    return [line for line, _ in corpus.read_lines(str(path), key)]


def test_sizes_are_those_of_the_file(tmp_path):
    path = tmp_path / "a"
    assert _lines(path, " a b \n\ncé") == ["a b", "", "cé"]
    assert sum(size for _, size in corpus.read_lines(str(path))) == path.stat().st_size + 1


@pytest.mark.parametrize("count", [1, 2, 3, 9])
def test_json_lines_are_no_text(tmp_path, count):
    rows = [{"url": "x", "text": f"One.\nTwo {i}."} for i in range(count)]
    text = "".join(json.dumps(row) + "\n" for row in rows)
    with pytest.raises(errors.UserError, match="a:1: a JSON object.* --text_key=text takes"):
        _lines(tmp_path / "a", text)
    documents = [["One.", f"Two {i}."] for i in range(count)]
    shards = list(corpus.cut([str(tmp_path / "a")], 1e6, "text"))
    assert [lines for shard in shards for lines in shard.documents] == documents
    with pytest.raises(errors.UserError, match=r"a:1: .* a text under 'body' \(--text_key\)"):
        _lines(tmp_path / "a", text, "body")


@pytest.mark.parametrize("text", ["{a} b\n{c}\n{}\n", "{\n}\n", '["a"]\n["b"]\n', '{"a": 1}\nb\n'])
def test_braces_alone_are_text(tmp_path, text):
    assert _lines(tmp_path / "a", text) == text.split("\n")[:-1]


@pytest.mark.parametrize("line", ["7", "{", '{"text": 7}', '{"text": null}', "[1]"])
def test_lines_without_a_text_are_named(tmp_path, line):
    with pytest.raises(errors.UserError, match=r"a:3: .* is not a JSON object with a text under"):
        _lines(tmp_path / "a", f'{{"text": "good"}}\n\n{line}\n', "text")


def test_markup_of_an_extractor_is_counted(tmp_path, caplog):
    text = '<doc id="1" title="A">\nA is a letter.\n</doc>\n<doc id="2">\nB.\n</doc>\n'
    assert len(_lines(tmp_path / "a", text)) == 6
    assert "4 lines are the markup of a Wikipedia extractor" in caplog.text


def test_the_size_of_a_compressed_corpus_is_unknown_whatever_its_name(tmp_path):
    paths = [str(tmp_path / name) for name in ("a.txt", "b.txt")]
    for path in paths:
        (tmp_path / path).write_bytes(b"one\n")
    assert corpus.corpus_size(paths) == 8
    (tmp_path / "b.txt").write_bytes(gzip.compress(b"one\n"))
    assert corpus.corpus_size(paths) is None


@pytest.mark.parametrize("text", ["one\rtwo\rthree", "one\r\rtwo\r"])
def test_carriage_returns_alone_end_no_line(tmp_path, text):
    path = tmp_path / "a"
    path.write_bytes(text.encode())
    with pytest.raises(errors.UserError, match="a: carriage returns end its lines.*tr"):
        list(corpus.read_lines(str(path)))
    path.write_bytes(b"one\r\ntwo\r\n")
    assert [line for line, _ in corpus.read_lines(str(path))] == ["one", "two"]
