"""Reading tables: rows, and errors about rows that cannot be read."""

import csv
import gzip

import pytest

from command_line import errors
from tasks.classifier import tables


def _write(tmp_path, name: str, data: str | bytes) -> str:
    path = tmp_path / name
    data = data.encode() if isinstance(data, str) else data
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return str(path)


def _rows(path: str, header: bool = False, **options):
    return [(row.line, row.fields) for row in tables.Table(path, header, **options)]


def test_quotes_are_data_in_tab_separated_files(tmp_path):
    path = _write(tmp_path, "a.tsv", '"open\t1\nnot "closed"\t"2"\n')
    assert _rows(path) == [(1, ['"open', "1"]), (2, ['not "closed"', '"2"'])]
    # With a quote character the quoted cell loses its quotes, and may hold the separator.
    path = _write(tmp_path, "b.tsv", '"a\tb"\t1\n')
    assert _rows(path, quote='"') == [(1, ["a\tb", "1"])]


def test_only_line_feeds_end_a_line(tmp_path):
    text = "a\x0bb\x0c\x1c\x85\u2028\u2029c\rd\t1\r\nx\t2"
    assert _rows(_write(tmp_path, "a.tsv", text)) == [
        (1, ["a\x0bb\x0c\x1c\x85\u2028\u2029c\rd", "1"]),
        (2, ["x", "2"]),
    ]


def test_one_byte_order_mark_is_dropped(tmp_path):
    path = _write(tmp_path, "a.tsv", "\ufeff2\tx\n\ufeff3\ty\n")
    assert _rows(path) == [(1, ["2", "x"]), (2, ["\ufeff3", "y"])]
    for name, text in (("a.csv", '\ufeff"a,b",1\n'), ("a.jsonl", '\ufeff{"a": 1}\n')):
        assert len(_rows(_write(tmp_path, name, text))) == 1


def test_blank_lines_at_the_end_are_not_rows_unless_a_row_is_one_cell(tmp_path):
    assert _rows(_write(tmp_path, "a.tsv", "a\tb\n\nc\td\n\n\n")) == [
        (1, ["a", "b"]),
        (2, ()),
        (3, ["c", "d"]),
    ]
    assert _rows(_write(tmp_path, "b.tsv", "a\n\n")) == [(1, ["a"]), (2, [""])]
    assert _rows(_write(tmp_path, "c.tsv", "\na\n\n")) == [(1, [""]), (2, ["a"]), (3, [""])]
    assert _rows(_write(tmp_path, "d.tsv", "\na\tb\n")) == [(1, ()), (2, ["a", "b"])]
    assert _rows(_write(tmp_path, "d.tsv", "\na\tb\nc\td\n"), header=True) == [(3, ["c", "d"])]
    for name, row in (("e.csv", "x,1"), ("f.jsonl", '{"t": "x"}')):
        found = _rows(_write(tmp_path, name, f"\n{row}\n\n \n{row}\n\n".replace(" ", "")))
        assert [line for line, fields in found if fields == ()] == [1, 3, 4]
        assert [line for line, fields in found if fields] == [2, 5]


def test_bytes_that_are_not_utf8_name_file_and_line(tmp_path):
    path = _write(tmp_path, "a.tsv", b"1\tgood\n0\tcaf\xe9\n")
    with pytest.raises(errors.UserError, match=r"a\.tsv:2: byte 0xE9 at position 5 is not UTF-8"):
        _rows(path)


def test_gzip(tmp_path):
    assert _rows(_write(tmp_path, "a.csv.gz", "a,b\n1,2\n"), header=True) == [(2, ["1", "2"])]


def test_csv_has_real_quoting(tmp_path):
    path = _write(tmp_path, "a.csv", 'text,label\n"a, ""b""\nc",1\n\nd,2\r\n')
    table = tables.Table(path, header=True)
    assert table.header == ["text", "label"]
    assert list(table) == [(2, ['a, "b"\nc', "1"]), (4, ()), (5, ["d", "2"])]


@pytest.mark.parametrize("rows", [1, 20_000])  # the second is beyond the usual limit of csv
def test_a_quote_that_is_not_closed_names_where_it_opens(tmp_path, rows):
    path = _write(tmp_path, "a.csv", 'x,1\n"y,2\n' + "some text,0\n" * rows)
    with pytest.raises(errors.UserError, match=r'a\.csv:2: a quote \("\) is opened'):
        _rows(path)


def test_a_cell_may_be_of_any_length(tmp_path):
    limit = csv.field_size_limit()
    plain, quoted = "bad " * limit, "bad, " * limit
    path = _write(tmp_path, "a.csv", f'{plain},1\n"{quoted}",2\n')
    assert _rows(path) == [(1, [plain, "1"]), (2, [quoted, "2"])]
    next(iter(tables.Table(path, header=False)))  # stopping early restores the limit too
    assert csv.field_size_limit() == limit


def test_a_cell_that_is_too_long_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(tables, "_MAX_CELL_LENGTH", 5)
    path = _write(tmp_path, "a.csv", "short,1\nlonger,2\n")
    with pytest.raises(errors.UserError, match=r"a\.csv:2: a cell has more than 5 characters; is"):
        _rows(path)


def test_json_lines(tmp_path):
    path = _write(tmp_path, "a.jsonl", '{"t": "a\\tb", "n": 3.8, "l": ["x"]}\n\n{"t": "c"}\n')
    table = tables.Table(path, header=True)
    first, blank, second = table
    assert (first.line, blank.line, second.line) == (1, 2, 3) and blank.is_blank
    assert table.cell(first, "t") == "a\tb"
    assert table.cell(first, "n") == "3.8"
    assert table.cell(first, "l", lists=True) == '["x"]'
    assert not table.has_cell(second, "n")
    with pytest.raises(errors.UserError, match=r"a\.jsonl:1: l is .* expected text"):
        table.cell(first, "l")
    with pytest.raises(errors.UserError, match=r"a\.jsonl:3: no value for key 'n', only t"):
        table.cell(second, "n")


@pytest.mark.parametrize("line", ["[1]", "text", '{"a": 1', "3", '{"a": ' + "[" * 100_000])
def test_a_line_that_is_not_an_object(tmp_path, line):
    path = _write(tmp_path, "a.jsonl", f'{{"a": 1}}\n{line}\n')
    with pytest.raises(errors.UserError, match=r"a\.jsonl:2: .* is not a JSON object"):
        _rows(path)


def test_columns_by_name_or_number(tmp_path):
    path = _write(tmp_path, "a.tsv", "id\ttext\tid\n1\tx\t2\n")
    table = tables.Table(path, header=True)
    assert table.column("text", "--text_a_column") == 1
    assert table.column("1", "--text_a_column") == table.column(1, "--text_a_column") == 1
    assert table.column("-1", "--label_column") == -1
    with pytest.raises(errors.UserError, match=r"--label_column: 2 columns named 'id'"):
        table.column("id", "--label_column")
    with pytest.raises(
        errors.UserError, match=r"--text_a_column: no column named 'txt'.*mean text"
    ):
        table.column("txt", "--text_a_column")
    with pytest.raises(errors.UserError, match="without a header; give the column's number"):
        tables.Table(path, header=False).column("text", "--text_a_column")


def test_a_missing_cell_says_what_was_found_and_needed(tmp_path):
    path = _write(
        tmp_path, "a.tsv", "1\tx\n1,a text of more than forty characters in a comma file\n"
    )
    table = tables.Table(path, header=False)
    _, short = table
    with pytest.raises(errors.UserError) as found:
        table.cell(short, 1)
    assert str(found.value) == (
        f"{path}:2: 1 column found, 2 needed: '1,a text of more than forty characters i'…; "
        "is the file tab separated?"
    )


def test_an_empty_file_has_no_header(tmp_path):
    with pytest.raises(errors.UserError, match=r"a\.tsv is empty; expected a header line"):
        tables.Table(_write(tmp_path, "a.tsv", ""), header=True)


def test_a_json_value_that_is_null_or_missing(tmp_path):
    path = _write(tmp_path, "a.jsonl", '{"text": null}\n{"txt": "b"}\n')
    table = tables.Table(path, header=True)
    null, absent = table
    with pytest.raises(errors.UserError, match=r"a\.jsonl:1: text is null; give it a value"):
        table.cell(null, "text")
    with pytest.raises(errors.UserError, match=r"a\.jsonl:2: no value for key 'text'.*mean txt"):
        table.cell(absent, "text")
