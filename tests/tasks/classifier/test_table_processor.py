"""Rows, labels and headers that do not fit their task."""

import gzip
import logging

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
    assert "left out 2 rows with too few columns (lines 3, 4)" in caplog.text
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
