"""Anyone's own tables: columns, headers, labels, and what is said when they do not fit."""

from __future__ import annotations

import json
import logging

import pytest

import errors
from tasks import examples as task_examples
from tasks import glue


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def _custom(**options):
    options = {"text_a_column": "text", "label_column": "label", **options}
    return glue.create_processor("custom", **options)


def _pairs(found):
    return [(example.text_a, example.text_b, example.label) for example in found]


def test_the_same_table_in_three_formats(write):
    rows = [("b c", 'say "x"', "neg"), ("a, b", "d", "pos"), ("", "e", "neg")]
    objects = [dict(zip(("text", "other", "label"), row, strict=True)) for row in rows]
    files = [
        write("a.tsv", "label\ttext\tother\n" + "".join(f"{r[2]}\t{r[0]}\t{r[1]}\n" for r in rows)),
        write("a.csv", 'text,other,label\nb c,"say ""x""",neg\n"a, b",d,pos\n,e,neg\n'),
        write("a.jsonl", "".join(json.dumps(one) + "\n" for one in objects)),
    ]
    for path in files:
        processor = _custom(train_file=path, dev_file=path, text_b_column="other")
        assert _pairs(processor.get_train_examples("")) == rows
        assert processor.get_labels() == ["neg", "pos"]
        assert processor.get_dev_examples("")[0].guid.startswith("dev-")
        assert task_examples.metrics_of(processor) == ("accuracy", "f1", "matthews")


def test_columns_by_number(write):
    path = write("a.tsv", "1\tfirst\n0\tsecond\n")
    processor = _custom(train_file=path, text_a_column=1, label_column="0")
    assert _pairs(processor.get_train_examples("")) == [("first", None, "1"), ("second", None, "0")]
    with_header = _custom(
        train_file=path, text_a_column="1", label_column="0", has_header="true", labels=["0", "1"]
    )
    assert _pairs(with_header.get_train_examples("")) == [("second", None, "0")]


def test_a_first_line_that_may_be_the_other_thing_is_pointed_at(write, caplog):
    data = "1\tfirst\n0\tsecond\n"
    processor = _custom(
        train_file=write("a.tsv", data), text_a_column=1, label_column=0, has_header="true",
        labels=["0", "1"],
    )  # fmt: skip
    processor.get_train_examples("")
    assert "a.tsv:1: taken as the header, but it looks like a row of data" in caplog.text
    path = write("b.tsv", "label\ttext\n" + data * 20)
    by_number = {"train_file": path, "text_a_column": 1, "label_column": 0}
    assert _custom(**by_number).get_labels() == ["0", "1", "label"]
    assert "label 'label' stands in line 1 only" in caplog.text
    with pytest.raises(
        errors.UserError, match=r"b\.tsv:1: label 'label' is not one .*--has_header"
    ):
        _custom(**by_number, labels=["0", "1"]).get_train_examples("")


def test_test_files_need_no_labels(write):
    first, second = write("t1.tsv", "text\na\nb\n"), write("t2.csv", "label,text\n-1,c\npos,d\n")
    processor = _custom(test_file=f"{first},{second}", labels=["pos", "neg"])
    assert processor.files("test", "") == [first, second]
    assert _pairs(processor.get_test_examples("")) == [
        ("a", None, None),
        ("b", None, None),
        ("c", None, None),
        ("d", None, "pos"),
    ]
    assert len(processor.read("test", first)) == 2
    unlabelled = glue.create_processor(
        "custom", test_file=first, text_a_column="text", labels=["x", "y"]
    )
    assert len(unlabelled.get_test_examples("")) == 2


def test_the_order_of_labels_is_the_given_one(write):
    path = write("a.tsv", "text\tlabel\na\tpos\n")
    processor = _custom(train_file=path, labels=["pos", "neg", "both"])
    assert processor.get_labels() == ["pos", "neg", "both"]
    assert task_examples.metrics_of(processor) == ("accuracy",)


def test_labels_outside_those_of_training(write):
    train = write("a.tsv", "text\tlabel\na\tpos\nb\tneg\n")
    dev = write("b.tsv", "text\tlabel\na\tpos\nb\tPos\n")
    processor = _custom(train_file=train, dev_file=dev)
    with pytest.raises(
        errors.UserError, match=r"b\.tsv:3: label 'Pos' is not one of 'neg', 'pos';"
    ):
        processor.get_dev_examples("")


def test_wrong_label_columns(write, caplog):
    one = write("a.tsv", "text\tlabel\na\tx\nb\tx\n")
    with pytest.raises(errors.UserError, match=r"found the labels \['x'\] only"):
        _custom(train_file=one).get_labels()
    empty = write("b.tsv", "text\tlabel\na\tx\nb\t\nc\ty\n")
    with pytest.raises(errors.UserError, match="1 rows have an empty label"):
        _custom(train_file=empty).get_labels()
    texts = write("c.tsv", "text\tlabel\n" + "".join(f"x\tt{i}\n" for i in range(30)))
    assert len(_custom(train_file=texts).get_labels()) == 30
    assert "found 30 labels in 30 rows; is it the right --label_column?" in caplog.text


def test_regression(write):
    path = write("a.jsonl", '{"text": "a", "label": 3.8}\n{"text": "b", "label": "-1"}\n')
    processor = _custom(train_file=path, regression=True)
    assert [example.label for example in processor.get_train_examples("")] == ["3.8", "-1"]
    assert processor.get_labels() == [] and processor.kind == glue.REGRESSION
    assert task_examples.metrics_of(processor) == ("pearson", "spearman")
    path = write("b.jsonl", '{"text": "a", "label": NaN}\n')
    with pytest.raises(errors.UserError, match=r"b\.jsonl:1: label 'NaN' is not a finite number"):
        _custom(train_file=path, regression=True).get_train_examples("")


def test_multi_label(write):
    table = write("a.tsv", 'text\tlabel\na\tx, y\nb\t\nc\t["z", "x"]\n')
    lines = [
        {"text": "a", "label": "x,y"},
        {"text": "b", "label": []},
        {"text": "c", "label": ["z", "x"]},
    ]
    objects = write("a.jsonl", "".join(json.dumps(one) + "\n" for one in lines))
    for path in (table, objects):
        processor = _custom(train_file=path, multi_label=True)
        labels = [example.label for example in processor.get_train_examples("")]
        assert labels == [["x", "y"], [], ["z", "x"]]
        assert processor.get_labels() == ["x", "y", "z"]
    assert task_examples.metrics_of(processor) == ("micro_f1", "macro_f1", "exact_match")
    known = _custom(train_file=table, multi_label=True, labels=["x", "y"])
    with pytest.raises(errors.UserError, match=r"a\.tsv:4: label 'z' is not one of 'x', 'y'"):
        known.get_train_examples("")


def test_an_extra_separator_without_header(write, caplog):
    path = write("a.csv", "1,rome is old\n0,rome, is old\n")
    _custom(train_file=path, text_a_column=1, label_column=0).get_train_examples("")
    assert "1 rows have more columns than the 2 expected (line 2)" in caplog.text


def test_counts_are_logged(write, caplog):
    caplog.set_level(logging.INFO)
    path = write("a.csv", "text,label\na,1\nb,0\n")
    _custom(train_file=path).get_train_examples("")
    assert f"read 2 rows from {path}, skipped 1 header" in caplog.text
    assert f"found 2 labels in {path}: 0, 1" in caplog.text


@pytest.mark.parametrize(
    "options, message",
    [
        ({"text_a_column": ""}, "--text_a_column is missing"),
        ({"label_column": ""}, "--label_column is missing"),
        ({"regression": True, "multi_label": True}, "exclude each other"),
        ({"regression": True, "labels": ["a", "b"]}, "--labels does not fit --regression"),
        ({"labels": ["a", "b", "a"]}, "--labels: a is there twice"),
        ({"labels": ["a", ""]}, "--labels: a label is empty"),
        ({"labels": ["a"]}, "expected two or more labels"),
        ({"has_header": "maybe"}, "--has_header=maybe: expected auto, true or false"),
    ],
)
def test_flags_that_do_not_fit(write, options, message):
    path = write("a.tsv", "text\tlabel\na\tx\n")
    with pytest.raises(errors.FlagError, match=message):
        _custom(train_file=path, **options)


def test_missing_sets_and_files(write, tmp_path):
    test = write("t.tsv", "text\na\n")
    processor = _custom(test_file=test)
    with pytest.raises(errors.FlagError, match="--labels is missing; only a --train_file"):
        processor.get_labels()
    with pytest.raises(errors.FlagError, match="--train_file is missing"):
        processor.get_train_examples("")
    with pytest.raises(errors.UserError, match="--dev_file: no file matches"):
        _custom(dev_file=str(tmp_path / "none.tsv"))
    with pytest.raises(
        errors.UserError, match="--label_column: no column named 'lable'.*mean label"
    ):
        _custom(
            train_file=write("a.tsv", "text\tlabel\na\tx\n"), label_column="lable"
        ).get_train_examples("")


def test_columns_counted_from_the_end(write):
    path = write("a.tsv", "first\t1\nsecond\t0\n")
    columns = {"text_a_column": -2, "label_column": -1}
    found = _custom(train_file=path, **columns).get_train_examples("")
    assert _pairs(found) == [("first", None, "1"), ("second", None, "0")]
    with pytest.raises(errors.UserError, match=r"a\.tsv:1: 2 columns found, 3 needed"):
        _custom(train_file=path, text_a_column=-3, label_column=-1).get_train_examples("")


def test_labels_are_what_stands_between_spaces(write):
    path = write("a.tsv", "text\tlabel\na\tx \nb\t y\n")
    processor = _custom(train_file=path, dev_file=path)
    assert processor.get_labels() == ["x", "y"]
    assert [example.label for example in processor.get_dev_examples("")] == ["x", "y"]
    broken = write("b.csv", 'text,label\na,"x\ny"\nb,z\n')
    with pytest.raises(errors.UserError, match=r"b\.csv: the label 'x\\ny' has a line break"):
        _custom(train_file=broken).get_labels()
