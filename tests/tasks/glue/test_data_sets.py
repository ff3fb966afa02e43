"""The sets of a GLUE folder, and predictions of them in the form of a submission."""

from __future__ import annotations

import pytest

import tiny_glue
from command_line import errors
from tasks.classifier import glue_tasks
from tasks.glue import data_sets


def test_what_a_folder_has(tmp_path):
    tiny_glue.write_all(tmp_path)
    found = data_sets.read("rte", str(tmp_path))
    assert (found.folder, found.train_rows) == (str(tmp_path / "RTE"), 12)
    # Dev rows 0 to 5, of which 2 and 5 have the other label.
    assert found.shares == {"entailment": 4 / 6, "not_entailment": 2 / 6}
    assert found.tests == {"rte": str(tmp_path / "RTE")}
    assert data_sets.read("sts-b", str(tmp_path)).shares == {}
    found = data_sets.read("mnli", str(tmp_path))
    assert found.shares == dict.fromkeys(glue_tasks.TASKS["mnli"].labels, 1 / 3)
    assert found.tests == {
        "mnli": str(tmp_path / "MNLI"),
        "mnli-mm": str(tmp_path / "MNLI"),
        "ax": str(tmp_path / "diagnostic"),
    }


def test_test_sets_that_are_not_there(tmp_path):
    directory = tiny_glue.write_task(tmp_path, "mnli")
    assert list(data_sets.test_folders("mnli", str(tmp_path))) == ["mnli", "mnli-mm"]
    tiny_glue.write_ax(tmp_path)
    (directory / "test_mismatched.tsv").unlink()
    assert list(data_sets.test_folders("mnli", str(tmp_path))) == ["mnli", "ax"]
    (directory / "test_matched.tsv").unlink()
    assert data_sets.test_folders("mnli", str(tmp_path)) == {}
    assert data_sets.test_folders("rte", str(tmp_path)) == {}


@pytest.mark.parametrize("part, line", [("train", 14), ("dev", 8), ("test", 7)])
def test_a_broken_row_of_any_set(tmp_path, part, line):
    directory = tiny_glue.write_task(tmp_path, "rte")
    with open(directory / f"{part}.tsv", "a") as file:
        file.write("99\tred\n")
    with pytest.raises(errors.UserError, match=rf"{part}.tsv:{line}: "):
        data_sets.read("rte", str(tmp_path))
    if part == "train":
        assert data_sets.read("rte", str(tmp_path), skip_bad_rows=True).train_rows == 12


def test_tables_of_a_task_and_what_belongs_to_it(tmp_path):
    tiny_glue.write_all(tmp_path)
    tests = data_sets.test_folders("mnli", str(tmp_path))
    out = tmp_path / "out"
    out.mkdir()
    assert not data_sets.are_predicted("mnli", tests, str(out))
    (out / "test_results.tsv").write_text("0.2\t0.7\t0.1\n" * 4 + "0.2\t0.1\t0.7\n")
    (out / "test_results-mnli-mm.tsv").write_text("0.6\t0.3\t0.1\n" * 5)
    assert not data_sets.are_predicted("mnli", tests, str(out))
    (out / "test_results-ax.tsv").write_text("0.6\t0.3\t0.1\n" * 4)
    assert data_sets.are_predicted("mnli", tests, str(out))
    found = data_sets.tables("mnli", tests, str(out))
    assert list(found) == ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
    rows = found["MNLI-m.tsv"].splitlines()
    assert rows == ["index\tprediction", *(f"{i}\tentailment" for i in range(4)), "4\tneutral"]
    assert found["AX.tsv"].splitlines()[4] == "3\tcontradiction"
    assert not data_sets.are_predicted("mnli", {}, str(out))


def test_values_of_regression_in_one_column(tmp_path):
    tiny_glue.write_task(tmp_path, "sts-b")
    tests = data_sets.test_folders("sts-b", str(tmp_path))
    (tmp_path / "test_results.tsv").write_text("1.5\n-1e-3\n5.25\n3.14159\n2\n")
    found = data_sets.tables("sts-b", tests, str(tmp_path))["STS-B.tsv"].splitlines()
    assert found[1:] == ["0\t1.500", "1\t0.000", "2\t5.000", "3\t3.142", "4\t2.000"]


@pytest.mark.parametrize(
    "text, message",
    [
        ("0.1\t0.9\n" * 4, "has 4 predictions, but the test set in .* has 5 rows"),
        ("0.1\tx\n" * 5, "damaged, expected numbers"),
    ],
)
def test_predictions_that_do_not_fit(tmp_path, text, message):
    tiny_glue.write_task(tmp_path, "rte")
    (tmp_path / "test_results.tsv").write_text(text)
    tests = data_sets.test_folders("rte", str(tmp_path))
    with pytest.raises(errors.UserError, match=message):
        data_sets.tables("rte", tests, str(tmp_path))


def test_wnli_has_the_official_number_of_rows():
    assert data_sets.wnli_without_model().splitlines()[1:] == [f"{i}\t0" for i in range(146)]
