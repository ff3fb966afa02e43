"""Rows, labels and headers that do not fit their task."""

import datetime
import decimal
import gzip
import json
import logging
import re
import sys

import pytest

from command_line import errors
from tasks.classifier import glue_tasks
from tasks.classifier import options as classifier_options

MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String"


@pytest.fixture
def read(tmp_path):
    """Reads lines as a set of a task."""

    def read(task: str, part: str, *lines: str, **options):
        (tmp_path / f"{part}.tsv").write_text("".join(f"{line}\n" for line in lines))
        processor = glue_tasks.create_processor(
            task, classifier_options.ClassifierOptions(**options)
        )
        return getattr(processor, f"get_{part}_examples")(str(tmp_path))

    return read


@pytest.mark.parametrize("part", ["train", "dev", "test"])
def test_a_row_with_too_few_columns_stops(read, part):
    with pytest.raises(errors.UserError, match=rf"{part}\.tsv:3: 4 columns found, 5 needed: '1.t1"):
        read("mrpc", part, MRPC, "1\t1\t2\ta\tb", "1\t1\t2\ta")


def test_a_comma_separated_file_is_recognized_by_its_header(read):
    with pytest.raises(errors.UserError, match=r"train\.tsv:1: 1 column found, 5 needed.*tab sep"):
        read("mrpc", "train", MRPC.replace("\t", ","), "1,1,2,a,b", skip_bad_rows=True)


def test_bad_training_rows_may_be_left_out_and_are_counted(read, caplog):
    lines = (MRPC, "1\t1\t2\ta\tb", "1\t1\t2\ta", "", "0\t1\t2\tc\td")
    found = read("mrpc", "train", *lines, skip_bad_rows=True)
    assert [example.guid for example in found] == ["train-1", "train-4"]
    assert "left out 1 row with too few columns (line 3)" in caplog.text
    assert "left out 1 row without content (line 4)" in caplog.text
    for part in ("dev", "test"):
        with pytest.raises(errors.UserError, match="4 columns found"):
            read("mrpc", part, *lines, skip_bad_rows=True)
    with pytest.raises(errors.UserError, match="4 columns .* --skip_bad_rows leaves such"):
        read("mrpc", "train", *lines)


def test_broken_rows_of_qqp_training_data_are_left_out(read, caplog):
    header = "id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate"
    lines = (
        header,
        "7\t1\t2\ta\tb\t1",
        "8\t1\t2\tbroken",
        "in the middle\tb\t0",
        "9\t1\t2\tc\td\t0",
    )
    found = read("qqp", "train", *lines)
    assert [example.guid for example in found] == ["train-7", "train-9"]
    assert "left out 2 rows" in caplog.text
    with pytest.raises(errors.UserError, match=r"dev\.tsv:3"):
        read("qqp", "dev", *lines)
    with pytest.raises(errors.UserError, match=r"test\.tsv:3: 2 columns found, 3 needed"):
        read("qqp", "test", "id\tquestion1\tquestion2", "7\ta\tb", "8\tbroken", "in\tthe middle")


def test_a_row_with_an_extra_tab_is_a_warning(read, caplog):
    extra = "1\t1\t2\trome\tis\told city"
    found = read("mrpc", "train", MRPC, "1\t1\t2\ta\tb", *[extra] * 5)
    assert len(found) == 6
    assert "5 rows have more columns than the 5 of the header (lines 3, 4, 5, …)" in caplog.text
    caplog.clear()
    read("cola", "train", "x\t1\t*\ta", "x\t0\t\ta\tb")
    assert "1 rows have more columns than the 4 expected (line 2)" in caplog.text


@pytest.mark.parametrize(
    "line, label", [("source\tlabel\tstar\tsentence", "label"), (MRPC, "#1 ID")]
)
def test_a_header_where_the_task_has_none(read, line, label):
    with pytest.raises(errors.UserError) as found:
        read("cola", "train", line, "x\t1\t\ta")
    assert str(found.value).endswith(
        f"train.tsv:1: label '{label}' is not one of '0', '1' (column 1, from 0); is this a header "
        "line, or the right --task_name?"
    )


def test_no_header_where_the_task_has_one(read, caplog):
    caplog.set_level(logging.INFO)
    found = read("cola", "test", "0\tfirst", "1\tsecond", "2\tthird")
    assert [example.text_a for example in found] == ["second", "third"]
    assert "test.tsv:1: taken as the header, but column 1 is 'first', not 'sentence'" in caplog.text
    assert "read 2 rows from" in caplog.text and "skipped 1 header" in caplog.text
    caplog.clear()
    read("mrpc", "train", "1\t1\t2\ta\tb", "1\t1\t2\ta\tb")
    assert "train.tsv:1: taken as the header" in caplog.text
    caplog.clear()
    read("mrpc", "train", MRPC, "1\t1\t2\ta\tb")
    assert "taken as" not in caplog.text


def test_test_sets_need_no_label(tmp_path):
    (tmp_path / "test.tsv").write_text(
        "index\tsentence1\tsentence2\tgold_label\n0\ta\tb\t-1\n1\ta\tb\n2\ta\tb\tneutral\n"
    )
    found = glue_tasks.create_processor("snli").get_test_examples(str(tmp_path))
    assert [example.label for example in found] == [None, None, "neutral"]
    (tmp_path / "test.tsv").write_text("index\tsentence1\tsentence2\n0\ta\tb\n")
    found = glue_tasks.create_processor("snli").get_test_examples(str(tmp_path))
    assert [example.label for example in found] == [None]


def test_labels_of_a_test_set_may_be_of_any_kind(tmp_path):
    path = tmp_path / "test.jsonl"
    path.write_text('{"t": "a", "l": ["x"]}\n{"t": "b", "l": {}}\n{"t": "c", "l": null}\n')
    flags = classifier_options.ClassifierOptions(
        test_file=str(path), text_a_column="t", label_column="l", labels="x,y"
    )
    own = glue_tasks.create_processor("custom", flags)
    assert [example.label for example in own.get_test_examples("")] == [None] * 3


@pytest.mark.parametrize("score", ["nan", "inf", "", "A plane is taking off.", "3,8", "1_0"])
def test_a_score_that_is_not_a_number(read, score):
    header = (
        "index\tgenre\tfilename\tyear\told_index\tsource1\tsource2\tsentence1\tsentence2\tscore"
    )
    row = "0\tg\tf\ty\t0\tn\tn\ta\tb\t"
    with pytest.raises(errors.UserError, match=r"train\.tsv:3: label .* is not a finite number"):
        read("sts-b", "train", header, f"{row}3.8", row + score)
    with pytest.raises(errors.UserError, match=r"train\.tsv:2: label '1e39' is beyond 3.4e\+38"):
        read("sts-b", "train", header, f"{row}1e39")
    found = read("sts-b", "train", header, f"{row}3.8")
    assert found[0].label == "3.8"


@pytest.mark.parametrize(
    "task, header, row, column",
    [
        ("mrpc", MRPC, "2\t1\t2\ta\tb", "'Quality'"),
        ("mnli", "\t".join("abcdefghij") + "\tgold_label", "0\t" * 10 + "2", "'gold_label'"),
        ("cola", "x\t1\t\ta", "x\t2\t\ta", "1, from 0"),
        ("sts-b", "\t".join("abcdefghi") + "\tscore", "0\t" * 9 + "many", "'score'"),
    ],
)
def test_a_wrong_label_is_reported_with_its_column(read, task, header, row, column):
    with pytest.raises(errors.UserError, match=rf"train\.tsv:2: label .* \(column {column}\);"):
        read(task, "train", header, row)


def test_compressed_files_are_found(tmp_path):
    (tmp_path / "dev.tsv.gz").write_bytes(gzip.compress(b"x\t1\t\ta\n"))
    assert len(glue_tasks.create_processor("cola").get_dev_examples(str(tmp_path))) == 1


def test_a_file_with_only_a_header(read):
    with pytest.raises(errors.UserError, match=r"dev\.tsv has no rows for the dev set"):
        read("mrpc", "dev", MRPC)


def test_an_empty_text_is_legal(read):
    assert read("cola", "test", "index\tsentence", "0\t", "1\tb")[0].text_a == ""


def test_spaces_around_a_label_are_not_part_of_it(read):
    assert [e.label for e in read("cola", "train", "x\t1 \t\ta", "x\t 0\t\tb")] == ["1", "0"]


# --------------------------------------------------------------------------------------------------
# Blank lines, empty texts
# --------------------------------------------------------------------------------------------------

FILES = {
    "a.tsv": "a\tb\tlabel\n{}red\tx\t0\n{}blue\ty\t1\n\n",
    "a.csv": "a,b,label\n{}red,x,0\n{}blue,y,1\n\n",
    "a.jsonl": '{}{{"a": "red", "b": "x", "label": 0}}\n{}{{"a": "blue", "b": "y", "label": 1}}\n',
}


def _own(tmp_path, name: str, text: str, part: str, **flags):
    path = tmp_path / name
    if text is not None:  # else it is there
        path.write_text(text)
    columns = {"text_a_column": "a", "text_b_column": "b", "label_column": "label"}
    files = {f"{part}_file": str(path), "labels": "0,1"}
    options = classifier_options.ClassifierOptions(**{**columns, **files, **flags})
    processor = glue_tasks.create_processor("custom", options)
    return getattr(processor, f"get_{part}_examples")("")


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("blank", [("\n", ""), ("", "\n"), ("", "\n\n")])
def test_blank_lines_shift_no_predictions(tmp_path, name, blank, caplog):
    text = FILES[name].format(*blank)
    line = 1 + text[: text.index("\n\n") + 1].count("\n") if "\n\n" in text[:-2] else 1
    for part in ("train", "dev"):
        caplog.clear()
        found = _own(tmp_path, name, text, part)
        assert [(e.text_a, e.label) for e in found] == [("red", "0"), ("blue", "1")]
        assert re.search(rf"left out \d rows? without content \(lines? {line}\b", caplog.text)
    with pytest.raises(errors.UserError, match=rf"{name}:{line}: a blank line between others; "):
        _own(tmp_path, name, text, "test")
    assert len(_own(tmp_path, name, FILES[name].format("", ""), "test")) == 2


@pytest.mark.parametrize(
    "name, text, lines",
    [
        ("a.tsv", "\n\na\tb\tlabel\nred\tx\t0\n", "lines 1, 2"),
        ("a.csv", "\r\na,b,label\r\n\r\nred,x,0\r\n", "lines 1, 3"),
        ("a.tsv", "a\tb\tlabel\n  \nred\tx\t0\n\t\nred\tx\t1\n", "lines 2, 4"),
        ("a.csv", "a,b,label\n \nred,x,0\n,\n", "lines 2, 4"),
        ("a.jsonl", '\n \t\n{"a": "red", "b": "x", "label": 0}\n', "lines 1, 2"),
    ],
)
def test_lines_of_white_space_and_before_the_header_are_blank(tmp_path, caplog, name, text, lines):
    for part in ("train", "dev"):
        caplog.clear()
        assert {e.text_a for e in _own(tmp_path, name, text, part)} == {"red"}
        assert f"left out 2 rows without content ({lines})" in caplog.text


def test_the_line_of_the_header_is_named(tmp_path, caplog):
    with pytest.raises(errors.UserError, match=r"a\.tsv:3: --text_b_column: no column named 'b'"):
        _own(tmp_path, "a.tsv", "\n\na\tlabel\nred\t0\n", "dev")
    found = _own(tmp_path, "a.tsv", "\na\tb\tlabel\nred\tx\n", "test")
    assert len(found) == 1  # a blank line before the header shifts no predictions
    assert "left out 1 row without content (line 1)" in caplog.text


def test_rows_without_a_text_are_counted(tmp_path, caplog):
    text = "a\tb\tlabel\n\tx\t0\nred\t \t1\nred\tx\t1\nred\t\u200b\t1\n"
    assert len(_own(tmp_path, "a.tsv", text, "dev")) == 4
    assert "3 of 4 rows have no text, or of a pair one (lines 2, 3, 5)" in caplog.text
    caplog.clear()
    _own(tmp_path, "a.tsv", text, "dev", text_b_column="")
    assert "1 of 4 rows have no text (line 2)" in caplog.text


@pytest.mark.parametrize("null", ["null", "NaN"])
def test_a_second_text_of_null_is_none(tmp_path, null):
    rows = f'{{"a": "x", "b": {null}, "label": 1}}\n{{"a": "x", "b": "y", "label": 0}}\n'
    assert [e.text_b for e in _own(tmp_path, "a.jsonl", rows, "dev")] == ["", "y"]
    for row in ('"a": {}, "b": "y", "label": 1', '"a": "x", "b": "y", "label": {}'):
        with pytest.raises(errors.UserError, match=rf"a\.jsonl:1: \w+ is {null}; give it a value"):
            _own(tmp_path, "a.jsonl", f"{{{row.format(null)}}}\n", "dev")
    with pytest.raises(errors.UserError, match=r"a\.jsonl:1: no value for key 'b'"):
        _own(tmp_path, "a.jsonl", '{"a": "x", "label": 1}\n', "dev")


@pytest.mark.parametrize("task", ["mnli", "mnli-mm"])
def test_rows_without_an_agreed_label_are_skipped(read, tmp_path, caplog, task):
    header = "\t".join(f"c{i}" for i in range(12))
    row = "\t".join(["0", *"abcdefg", "a premise", "a hypothesis", "x", "{}"])
    lines = (header, row.format("entailment"), row.format("-"), row.format("neutral"))
    part = "matched" if task == "mnli" else "mismatched"
    (tmp_path / f"dev_{part}.tsv").write_text("".join(f"{line}\n" for line in lines))
    found = glue_tasks.create_processor(task).get_dev_examples(str(tmp_path))
    assert [example.label for example in found] == ["entailment", "neutral"]
    assert "left out 1 row labelled '-' (line 3)" in caplog.text


# --------------------------------------------------------------------------------------------------
# Other layouts
# --------------------------------------------------------------------------------------------------

HUB = {
    "cola": ({"sentence": "s"}, [0, 1], ["0", "1"]),
    "sst-2": ({"sentence": "s"}, ["negative", "positive"], ["0", "1"]),
    "mrpc": ({"sentence1": "s", "sentence2": "t"}, ["not_equivalent", 1], ["0", "1"]),
    "sts-b": ({"sentence1": "s", "sentence2": "t"}, [3.8, 5.0], ["3.8", "5.0"]),
    "qqp": ({"question1": "s", "question2": "t"}, [1, "duplicate"], ["1", "1"]),
    "mnli": (
        {"premise": "s", "hypothesis": "t"},
        [0, 1, 2, "neutral"],
        ["entailment", "neutral", "contradiction", "neutral"],
    ),
    "qnli": ({"question": "s", "sentence": "t"}, [0, 1], ["entailment", "not_entailment"]),
    "rte": ({"sentence1": "s", "sentence2": "t"}, [1, 0], ["not_entailment", "entailment"]),
    "wnli": ({"sentence1": "s", "sentence2": "t"}, [1, "not_entailment"], ["1", "0"]),
    "snli": ({"premise": "s", "hypothesis": "t"}, [2, -1, 0], ["contradiction", "entailment"]),
}


@pytest.mark.parametrize("task", HUB)
@pytest.mark.parametrize("ending", ["jsonl", "json", "parquet"])
def test_files_of_the_hub(tmp_path, task, ending):
    texts, labels, expected = HUB[task]
    same = all(type(label) is type(labels[0]) for label in labels)
    labels = labels if ending != "parquet" or same else list(map(str, labels))
    rows = [{**texts, "label": label, "idx": i} for i, label in enumerate(labels)]
    tests = [{**row, "label": -1} for row in rows] if task != "sts-b" else rows
    middle = "_matched" if task == "mnli" else ""
    for name, content in (("train", rows), (f"validation{middle}", rows), (f"test{middle}", tests)):
        _write_rows(tmp_path / f"{name}.{ending}", content)
    processor = glue_tasks.create_processor(task)
    for part in ("train", "dev"):
        found = getattr(processor, f"get_{part}_examples")(str(tmp_path))
        assert [example.label for example in found] == expected
        assert {(example.text_a, example.text_b) for example in found} == {
            ("s", "t" if len(texts) == 2 else None)
        }
    assert len(processor.get_test_examples(str(tmp_path))) == len(rows)


def _write_rows(path, rows):
    if path.suffix == ".parquet":
        pyarrow = pytest.importorskip("pyarrow", reason="requirements-parquet.txt")
        parquet = pytest.importorskip("pyarrow.parquet")
        parquet.write_table(pyarrow.Table.from_pylist(rows), path)
    elif path.suffix == ".json":
        path.write_text(json.dumps(rows, indent=1))
    else:
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def test_the_original_files_of_mrpc(tmp_path):
    """The dev set is the rows of the training file whose ids GLUE's dev_ids.tsv lists."""
    pairs = [(1, 2), (3, 4), (5, 6)]
    rows = "".join(f"{i % 2}\t{a}\t{b}\tfirst {i}\tsecond {i}\n" for i, (a, b) in enumerate(pairs))
    for name in ("msr_paraphrase_train.txt", "msr_paraphrase_test.txt"):
        (tmp_path / name).write_text(f"\ufeff{MRPC}\n{rows}")
    processor = glue_tasks.create_processor("mrpc")
    with pytest.raises(errors.UserError, match=r"dev_ids\.tsv is missing; GLUE's dev set of MRPC"):
        processor.get_train_examples(str(tmp_path))
    (tmp_path / "dev_ids.tsv").write_text("3\t4\n")
    processor = glue_tasks.create_processor("mrpc")
    assert [e.text_a for e in processor.get_train_examples(str(tmp_path))] == ["first 0", "first 2"]
    dev = processor.get_dev_examples(str(tmp_path))
    assert [(e.text_a, e.text_b, e.label) for e in dev] == [("first 1", "second 1", "1")]
    assert len(processor.get_test_examples(str(tmp_path))) == 3
    for text, message in (
        ("3\t4\n7\t8\n9\t9\n", r"2 of 3 pairs of ids \('7 8'\) are not in msr_para"),
        ("<html>not found</html>\n", r"1 of 1 pairs of ids \('<html>not found"),
        ("", "0 of 0 pairs of ids"),
    ):
        (tmp_path / "dev_ids.tsv").write_text(text)
        for part in ("train", "dev"):
            with pytest.raises(errors.UserError, match=rf"dev_ids\.tsv: {message}"):
                getattr(processor, f"get_{part}_examples")(str(tmp_path))
    (tmp_path / "dev.tsv").write_text(f"{MRPC}\n{rows}")  # GLUE's own file comes first
    assert len(processor.get_dev_examples(str(tmp_path))) == 3


def test_other_tasks_read_all_of_a_file_that_has_the_name_of_mrpc(tmp_path):
    rows = f"{MRPC}\n1\t1\t2\ta\tb\n0\t3\t4\tc\td\n"
    columns = {"text_a_column": "3", "text_b_column": "4", "label_column": "0"}
    name = "msr_paraphrase_train.txt"
    assert len(_own(tmp_path, name, rows, "train", has_header=True, **columns)) == 2


def test_a_column_for_each_label(tmp_path):
    columns = {"label_column": "sport, art", "labels": "", "multi_label": True}
    text = "a\tb\tsport\tart\nred\tx\t1\t0\nblue\ty\t1.0\tTrue\ngreen\tz\t0\tfalse\n"
    found = _own(tmp_path, "a.tsv", text, "train", **columns)
    assert [example.label for example in found] == [["sport"], ["sport", "art"], []]
    rows = '{"a": "x", "b": "y", "sport": 0, "art": true}\n'
    assert _own(tmp_path, "a.jsonl", rows, "dev", **columns)[0].label == ["art"]
    assert _own(tmp_path, "a.tsv", "a\tb\nred\tx\n", "test", **columns)[0].label is None
    with pytest.raises(errors.UserError, match=r"a\.tsv:2: '2' is not 0 or 1 \(column 'art'\)"):
        _own(tmp_path, "a.tsv", "a\tb\tsport\tart\nred\tx\t1\t2\n", "train", **columns)
    with pytest.raises(errors.UserError, match="no column named 'art'"):
        _own(tmp_path, "a.tsv", "a\tb\tsport\nred\tx\t1\n", "train", **columns)
    for changes, message in (
        ({"labels": "x,y"}, r"art: these columns are the labels, but the labels are x, y \(--lab"),
        ({"labels": "sport,art,x"}, "but the labels are sport, art, x"),
        ({"label_column": "2,3"}, "--label_column=2,3: 2 is a number; give the columns"),
        ({"label_column": "art,art"}, "--label_column=art,art names art twice"),
        ({"label_column": "art,b"}, "--label_column=art,b: b is also the --text_b_column"),
    ):
        with pytest.raises(errors.FlagError, match=message):
            _own(tmp_path, "a.tsv", text, "train", **{**columns, **changes})


def test_columns_of_labels_in_the_order_of_an_earlier_run(tmp_path):
    (tmp_path / "labels.txt").write_text("art\nsport\n")
    flags = {"label_column": "sport,art", "labels": str(tmp_path / "labels.txt")}
    text = "a\tb\tsport\tart\nred\tx\t1\t0\nblue\ty\t1\t1\n"
    found = _own(tmp_path, "a.tsv", text, "dev", multi_label=True, **flags)
    assert [example.label for example in found] == [["sport"], ["art", "sport"]]


@pytest.mark.parametrize("name", ["a.tsv", "a.jsonl"])
def test_several_columns_of_labels_without_the_flag(tmp_path, name):
    text = "a\tb\tsport\tart\nx\ty\t1\t0\n"
    if name == "a.jsonl":
        text = '{"a": "x", "b": "y", "sport": 1, "art": 0}\n'
    with pytest.raises(errors.UserError, match="a column for each label needs --multi_label"):
        _own(tmp_path, name, text, "train", label_column="sport,art")


@pytest.mark.parametrize(
    "text, line, message",
    [
        ('[\n {"a": "x"},\n 7]', 3, "'7]' is not a JSON object"),
        ('[{"a": "x"}\n{"a": "y"}]', 1, "follows an object; expected a comma"),
        ('[{"a": "x"},\n', 1, "not a JSON object"),
        ('[{"a": "x"}] x', 0, "there is more after the list"),
    ],
)
def test_damaged_lists_of_objects(tmp_path, text, line, message):
    where = rf"a\.json:{line}: " if line else ""
    with pytest.raises(errors.UserError, match=f"{where}.*({message})"):
        _own(tmp_path, "a.json", text, "test", text_b_column="", label_column="")


def test_values_of_parquet(tmp_path):
    """Dates and decimal numbers are their text; bytes are nobody's text."""
    texts = [datetime.date(2020, 1, 2), decimal.Decimal("3.80"), 7, True, "x"]
    for text in texts:
        _write_rows(tmp_path / "a.parquet", [{"a": text, "b": float("nan"), "label": 1}])
        found = _own(tmp_path, "a.parquet", None, "dev")
        assert (found[0].text_a, found[0].text_b) == (str(text).replace("T", "t"), "")
    for value, shown in ((b"x", "\"b'x'\""), ({"y": datetime.date(2020, 1, 2)}, "2020-01-02")):
        _write_rows(tmp_path / "a.parquet", [{"a": value, "b": "y", "label": 1}])
        with pytest.raises(errors.UserError, match=rf"a\.parquet:1: a is .*{shown}.*; expected"):
            _own(tmp_path, "a.parquet", None, "dev")


def test_parquet_that_cannot_be_read(tmp_path, monkeypatch):
    path = tmp_path / "a.parquet"
    pytest.importorskip("pyarrow", reason="requirements-parquet.txt")
    with pytest.raises(errors.UserError, match=r"a\.parquet: not a Parquet file, or damaged"):
        _own(tmp_path, "a.parquet", "text", "test")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(
        errors.UserError, match="pyarrow is not installed.*requirements-parquet.txt"
    ):
        _own(tmp_path, "a.parquet", "text", "test")
    assert path.exists()
