"""Tables of the user: columns, headers, labels, and messages about those that do not fit."""

import json
import logging

import pytest

from command_line import errors
from tasks.classifier import examples, glue_tasks
from tasks.classifier import options as classifier_options


@pytest.fixture
def write(tmp_path):
    def write(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def _custom(**options):
    options = {"text_a_column": "text", "label_column": "label", **options}
    return glue_tasks.create_processor("custom", classifier_options.ClassifierOptions(**options))


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
        assert examples.metrics_of(processor) == ("accuracy", "f1", "matthews")


@pytest.mark.parametrize("text", ["", "[]", "\n \n"])
def test_files_without_rows(write, text):
    processor = _custom(train_file=write("a.json", text))
    for read in (processor.get_labels, lambda: processor.get_train_examples("")):
        with pytest.raises(errors.UserError, match=r"a\.json has no rows"):
            read()


def test_columns_by_number(write):
    path = write("a.tsv", "1\tfirst\n0\tsecond\n")
    processor = _custom(train_file=path, text_a_column="1", label_column="0")
    assert _pairs(processor.get_train_examples("")) == [("first", None, "1"), ("second", None, "0")]
    with_header = _custom(
        train_file=path, text_a_column="1", label_column="0", has_header=True, labels="0,1"
    )
    assert _pairs(with_header.get_train_examples("")) == [("second", None, "0")]


def test_a_first_line_that_may_be_misread_is_reported(write, caplog):
    data = "1\tfirst\n0\tsecond\n"
    processor = _custom(
        train_file=write("a.tsv", data), text_a_column="1", label_column="0", has_header=True,
        labels="0,1",
    )  # fmt: skip
    processor.get_train_examples("")
    assert "a.tsv:1: taken as the header, but it looks like a row of data" in caplog.text
    path = write("b.tsv", "label\ttext\n" + data * 20)
    by_number = {"train_file": path, "text_a_column": "1", "label_column": "0"}
    with pytest.raises(
        errors.UserError, match=r"b\.tsv:1: label 'label' is not one .*--has_header"
    ):
        _custom(**by_number, labels="0,1").get_train_examples("")


HEADER_LEARNED = "is in line 1 only; if that is a header, give --has_header=true"


@pytest.mark.parametrize(
    "labels, has_warning",
    [
        ("label a b a b", True),
        ("label" + " a b" * 8, True),
        ("label" + " a b" * 20 + " c", True),  # another rare one, but in many rows
        ("a b a b", False),
        ("a b", False),
        ("a b c b", False),  # c occurs once, too
        ("a b b", True),  # may be a label; it is only a warning
    ],
)
def test_a_header_that_is_read_as_a_label_is_a_warning(write, caplog, labels, has_warning):
    labels = labels.split()
    table = "".join(f"text\t{label} \n" for label in labels)
    path, other = write("a.tsv", table), write("b.tsv", table)
    by_number = {"text_a_column": "0", "label_column": "1"}
    assert _custom(train_file=path, **by_number).get_labels() == sorted(set(labels))
    assert (f"label '{labels[0]}' {HEADER_LEARNED}" in caplog.text) == has_warning
    caplog.clear()
    _custom(train_file=f"{path},{other}", **by_number).get_labels()
    assert (f"label 'label' {HEADER_LEARNED}" in caplog.text) == (labels[0] == "label")
    caplog.clear()
    rows = [json.dumps({"text": "x", "label": label}) for label in labels]
    _custom(train_file=write("a.jsonl", "\n".join(rows))).get_labels()
    assert "line 1 only" not in caplog.text  # JSON lines have no header


def test_test_files_need_no_labels(write):
    first, second = write("t1.tsv", "text\na\nb\n"), write("t2.csv", "label,text\n-1,c\npos,d\n")
    processor = _custom(test_file=f"{first},{second}", labels="pos,neg")
    assert processor.files("test", "") == [first, second]
    assert _pairs(processor.get_test_examples("")) == [
        ("a", None, None),
        ("b", None, None),
        ("c", None, None),
        ("d", None, "pos"),
    ]
    assert len(processor.read("test", first)) == 2
    unlabelled = _custom(test_file=first, label_column="", labels="x,y")
    assert len(unlabelled.get_test_examples("")) == 2


def test_the_order_of_labels_is_the_given_one(write):
    path = write("a.tsv", "text\tlabel\na\tpos\n")
    processor = _custom(train_file=path, labels="pos,neg,both")
    assert processor.get_labels() == ["pos", "neg", "both"]
    assert examples.metrics_of(processor) == ("accuracy",)


def test_labels_outside_those_of_training(write):
    train = write("a.tsv", "text\tlabel\na\tpos\nb\tneg\n")
    dev = write("b.tsv", "text\tlabel\na\tpos\nb\tPos\n")
    processor = _custom(train_file=train, dev_file=dev)
    with pytest.raises(
        errors.UserError,
        match=r"b\.tsv:3: label 'Pos' is not one of 'neg', 'pos' \(column 'label'\); is",
    ):
        processor.get_dev_examples("")
    with pytest.raises(errors.UserError, match=r"b\.tsv:3: label 'Pos' .* \(column 1, from 0\);"):
        _custom(
            train_file=train, dev_file=dev, text_a_column="0", label_column="1", labels="label,pos"
        ).get_dev_examples("")
    dev = write("b.jsonl", '{"text": "a", "label": "Pos"}\n')
    with pytest.raises(errors.UserError, match=r"b\.jsonl:1: label 'Pos' .* \(key 'label'\);"):
        _custom(train_file=train, dev_file=dev).get_dev_examples("")


def test_rows_that_are_left_out_make_no_labels(write, caplog):
    """The label stands first, so that a row cut short still has something in its column."""
    rows = "label\ttext\na\tx\nb\ty\na line without tab\n\nb\tz\n"
    options = {"train_file": write("a.tsv", rows)}
    processor = _custom(**options, skip_bad_rows=True)
    assert processor.get_labels() == ["a", "b"]
    assert [example.label for example in processor.get_train_examples("")] == ["a", "b", "b"]
    assert "left out 1 row with too few columns (line 4)" in caplog.text
    assert "left out 1 row without content (line 5)" in caplog.text
    with pytest.raises(errors.UserError, match=r"a\.tsv:4: 1 column found, 2 needed: 'a line wit"):
        _custom(**options).get_labels()


def test_wrong_label_columns(write, caplog):
    one = write("a.tsv", "text\tlabel\na\tx\nb\tx\n")
    with pytest.raises(errors.UserError, match=r"found the labels \['x'\] only"):
        _custom(train_file=one).get_labels()
    empty = write("b.tsv", "text\tlabel\na\tx\nb\t\nc\ty\n")
    with pytest.raises(errors.UserError, match=r"b\.tsv:3: the label is empty \(column 'label'\);"):
        _custom(train_file=empty).get_labels()
    texts = write("c.tsv", "text\tlabel\n" + "".join(f"x\tt{i}\n" for i in range(30)))
    assert len(_custom(train_file=texts).get_labels()) == 30
    assert "found 30 labels in 30 rows; is it the right --label_column?" in caplog.text


def test_regression(write):
    path = write("a.jsonl", '{"text": "a", "label": 3.8}\n{"text": "b", "label": "-1"}\n')
    processor = _custom(train_file=path, regression=True)
    assert [example.label for example in processor.get_train_examples("")] == ["3.8", "-1"]
    assert processor.get_labels() == [] and processor.kind == examples.REGRESSION
    assert examples.metrics_of(processor) == ("pearson", "spearman")
    path = write("b.jsonl", '{"text": "a", "label": NaN}\n')
    with pytest.raises(errors.UserError, match=r"b\.jsonl:1: label is NaN; give it a value"):
        _custom(train_file=path, regression=True).get_train_examples("")
    path = write("c.jsonl", '{"text": "a", "label": 3.4028235e38}\n{"text": "b", "label": 1e39}\n')
    with pytest.raises(
        errors.UserError, match=r"c\.jsonl:2: label '1e\+39' is beyond 3.4e\+38, th"
    ):
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
    assert examples.metrics_of(processor) == ("micro_f1", "macro_f1", "exact_match")
    known = _custom(train_file=table, multi_label=True, labels="x,y")
    with pytest.raises(errors.UserError, match=r"a\.tsv:4: label 'z' is not one of 'x', 'y'"):
        known.get_train_examples("")


@pytest.mark.parametrize(
    "cell, message",
    [
        ('["b", null]', "the list of labels has 'null', which is not a label"),
        ('["b", ["c"]]', "the list of labels has '\\[\"c\"\\]', which is not a label"),
        ('["b", {}]', "the list of labels has '{}', which is not a label"),
        ('["b", " "]', "the list of labels has an empty label"),
        ("['b', 'c']", r"\"\['b', 'c'\]\" is not a JSON list of labels"),
    ],
)
def test_lists_of_other_things_than_labels(write, cell, message):
    path = write("a.tsv", f"text\tlabel\nx\ta,b\ny\t{cell}\n")
    for options in ({}, {"labels": "a,b,None,null"}):
        processor = _custom(train_file=path, multi_label=True, **options)
        with pytest.raises(errors.UserError, match=rf"a\.tsv:3: {message} \(column 'label'\); "):
            processor.get_labels()
            processor.get_train_examples("")


def test_labels_in_lists_are_what_stands_between_spaces(write):
    rows = [{"text": "x", "label": ["a ", " b c"]}, {"text": "y", "label": [1, True, 0.5, "a"]}]
    path = write("a.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    processor = _custom(train_file=path, multi_label=True)
    assert processor.get_labels() == ["0.5", "1", "a", "b c", "true"]
    labels = [example.label for example in processor.get_train_examples("")]
    assert labels == [["a", "b c"], ["1", "true", "0.5", "a"]]


HALF = "half of a surrogate pair"


def test_half_of_a_surrogate_pair(write, caplog):
    rows = [("good \ud83d!", "a"), ("\ude00x \ud83d", "b"), ("\U0001f600", "a")]
    lines = [json.dumps({"text": text, "label": label}) for text, label in rows]
    processor = _custom(train_file=write("a.jsonl", "\n".join(lines)))
    texts = [example.text_a for example in processor.get_train_examples("")]
    # U+FFFD is deleted by the tokenizer, as it is when a program reads such bytes.
    assert texts == ["good \ufffd!", "\ufffdx \ufffd", "\U0001f600"]
    assert f"a.jsonl: 2 rows have {HALF}, such as \\ud83d alone, in a text; it" in caplog.text
    assert "(lines 1, 2)" in caplog.text
    for options, label in (({}, "a\ud83d"), ({"multi_label": True}, ["b", "a\ud83d"])):
        lines = [json.dumps({"text": "x", "label": label}) for label in ("b", label)]
        path = write("b.jsonl", "\n".join(lines))
        with pytest.raises(errors.UserError, match=rf"b.jsonl:2: label 'a\\ud83d' has {HALF}, wh"):
            _custom(train_file=path, **options).get_labels()


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
        ({"regression": True, "labels": "a,b"}, "--labels does not fit --regression"),
        ({"labels": "a,b,a"}, "--labels: a is listed twice"),
        ({"labels": "a"}, "expected two or more labels"),
        ({"labels": "a,b\nc"}, "--labels: 'b.nc' has a line break"),
        ({"has_header": False}, "=false contradicts --text_a_column=text, which is the name"),
        ({"has_header": False, "text_a_column": "0"}, "contradicts --label_column=label, which"),
    ],
)
def test_flags_that_do_not_fit(write, options, message):
    path = write("a.tsv", "text\tlabel\na\tx\n")
    with pytest.raises(errors.FlagError, match=message):
        _custom(train_file=path, **options)


@pytest.mark.parametrize(
    "columns",
    [
        {"text_a_column": "label"},
        {"text_b_column": "label"},
        {"text_a_column": "1", "label_column": "1"},
        {"text_a_column": "1"},
    ],
)
def test_a_column_is_not_text_and_label(write, columns):
    path = write("a.tsv", "text\tlabel\na\tx\nb\ty\n")
    flag = next(iter(columns))
    for options in ({}, {"labels": "x,y"}):
        with pytest.raises(errors.FlagError, match=rf"--label_column=\w+ is also the --{flag};"):
            processor = _custom(train_file=path, **columns, **options)
            processor.get_labels()
            processor.get_train_examples("")


def test_json_lines_have_keys_whatever_is_said_of_headers(write):
    path = write("a.jsonl", '{"text": "a", "label": "x"}\n{"text": "b", "label": "y"}\n')
    processor = _custom(train_file=path, has_header="false")
    assert _pairs(processor.get_train_examples("")) == [("a", None, "x"), ("b", None, "y")]


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
    columns = {"text_a_column": "-2", "label_column": "-1"}
    found = _custom(train_file=path, **columns).get_train_examples("")
    assert _pairs(found) == [("first", None, "1"), ("second", None, "0")]
    with pytest.raises(errors.UserError, match=r"a\.tsv:1: 2 columns found, 3 needed"):
        _custom(train_file=path, text_a_column="-3", label_column="-1").get_train_examples("")


def test_labels_are_what_stands_between_spaces(write):
    path = write("a.tsv", "text\tlabel\na\tx \nb\t y\n")
    processor = _custom(train_file=path, dev_file=path)
    assert processor.get_labels() == ["x", "y"]
    assert [example.label for example in processor.get_dev_examples("")] == ["x", "y"]
    broken = write("b.csv", 'text,label\na,"x\ny"\nb,z\n')
    with pytest.raises(errors.UserError, match=r"b\.csv:2: label 'x\\ny' has a line break, but"):
        _custom(train_file=broken).get_labels()
