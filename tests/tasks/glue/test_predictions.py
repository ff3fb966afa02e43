"""Predictions in the form of a submission, and whether they are current."""

import pytest

import tiny_glue
from command_line import errors
from tasks.glue import data_sets, predictions
from tasks.glue import runs as glue_runs


def test_the_tables_of_a_task_with_several_test_sets(tmp_path):
    tiny_glue.write_all(tmp_path)
    tests = data_sets.test_folders("mnli", str(tmp_path))
    out = tmp_path / "out"
    out.mkdir()
    assert not predictions.exist(str(out), "mnli", tests)
    (out / "test_results.tsv").write_text("0.2\t0.7\t0.1\n" * 4 + "0.2\t0.1\t0.7\n")
    (out / "test_results-mnli-mm.tsv").write_text("0.6\t0.3\t0.1\n" * 5)
    assert not predictions.exist(str(out), "mnli", tests)
    (out / "test_results-ax.tsv").write_text("0.6\t0.3\t0.1\n" * 4)
    assert predictions.exist(str(out), "mnli", tests)
    tables = predictions.tables(str(out), "mnli", tests)
    assert list(tables) == ["MNLI-m.tsv", "MNLI-mm.tsv", "AX.tsv"]
    rows = tables["MNLI-m.tsv"].splitlines()
    assert rows == ["index\tprediction", *(f"{i}\tentailment" for i in range(4)), "4\tneutral"]
    assert tables["AX.tsv"].splitlines()[4] == "3\tcontradiction"
    assert not predictions.exist(str(out), "mnli", {})


def test_the_table_of_a_regression(tmp_path):
    tiny_glue.write_task(tmp_path, "sts-b")
    tests = data_sets.test_folders("sts-b", str(tmp_path))
    (tmp_path / "test_results.tsv").write_text("1.5\n-1e-3\n5.25\n3.14159\n2\n")
    tables = predictions.tables(str(tmp_path), "sts-b", tests)["STS-B.tsv"].splitlines()
    assert tables[1:] == ["0\t1.500", "1\t0.000", "2\t5.000", "3\t3.142", "4\t2.000"]


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
        predictions.tables(str(tmp_path), "rte", tests)


@pytest.fixture
def predicted(tmp_path):
    """A run of rte that has predicted: the run, the test sets, and the directory of predictions."""
    tiny_glue.write_task(tmp_path / "glue", "rte")
    run = glue_runs.Run("rte", 2e-5, 1, str(tmp_path / "run"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run/eval_results.txt").write_text("eval_accuracy = 0.5\n")
    tests = data_sets.test_folders("rte", str(tmp_path / "glue"))
    predictions.start(str(tmp_path / "test"), run, tests)
    (tmp_path / "test/test_results.tsv").write_text("0.1\t0.9\n" * 5)
    assert predictions.are_current(str(tmp_path / "test"), run, tests)
    return run, tests, tmp_path / "test"


@pytest.mark.parametrize("name", ["run/eval_results.txt", "glue/RTE/test.tsv"])
def test_predictions_are_outdated_when_a_file_has_changed(predicted, tmp_path, name):
    run, tests, directory = predicted
    path = tmp_path / name
    text = path.read_text()
    path.write_text(text.replace("e", "o", 1))
    assert not predictions.are_current(str(directory), run, tests)
    path.write_text(text)  # as after a copy of the folder
    assert predictions.are_current(str(directory), run, tests)


def test_predictions_are_outdated_when_the_run_was_trained_again(predicted, tmp_path):
    run, tests, directory = predicted
    (tmp_path / "run/metrics.jsonl").write_text('{"step": 1, "examples_per_second": 9.5}\n')
    assert not predictions.are_current(str(directory), run, tests)


def test_predictions_of_another_run_are_outdated_and_do_not_outlive_the_next_start(predicted):
    run, tests, directory = predicted
    other = glue_runs.Run("rte", 2e-5, 2, run.directory)
    assert not predictions.are_current(str(directory), other, tests)
    predictions.start(str(directory), other, tests)
    assert not (directory / "test_results.tsv").exists()
