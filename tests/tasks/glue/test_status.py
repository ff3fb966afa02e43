"""How far a run is, by what lies in its folder."""

from __future__ import annotations

import pathlib

import pytest

from command_line import errors
from tasks.glue import runs as glue_runs
from tasks.glue import status


def _run(tmp_path, task="mnli", rate=2e-5, seed=7):
    name = f"lr{glue_runs.rate_text(rate)}-seed{seed}"
    return glue_runs.Run(task, rate, seed, str(tmp_path / task / name))


def _write(run, name, text):
    pathlib.Path(run.directory).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(run.directory) / name).write_text(text)


def test_a_run_from_new_to_finished(tmp_path):
    run = _run(tmp_path)
    assert status.state(run) == status.State("new", {})
    _write(run, "log.txt", "$ python\n")
    status.note_start(run.directory)
    assert status.state(run) == status.State("unfinished", {})
    status.note_end(run.directory, None, 10.04)  # told to stop after ten seconds
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_loss = 0.5\n")
    assert status.state(run) == status.State("unfinished", {}, 10.0)
    _write(run, "eval_results-mnli-mm.txt", "eval_accuracy = 0.83\nglobal_step = 3\n")
    status.note_end(run.directory, 0, 20)
    results = {"accuracy": 0.84, "mm_accuracy": 0.83}
    assert status.state(run) == status.State("finished", results, 30.0)
    assert status.results(run) == results


def test_a_run_that_was_killed_after_its_last_word_is_finished(tmp_path):
    run = _run(tmp_path, "mrpc")
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_f1 = 0.5\n")
    # The deciding metric comes first, whatever the order of the file.
    assert list(status.state(run).results.items()) == [("f1", 0.5), ("accuracy", 0.84)]


@pytest.mark.parametrize("exit_status", [1, -9])
def test_a_failed_run_stays_one_whatever_it_left(tmp_path, exit_status):
    run = _run(tmp_path, "rte")
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\n")
    status.note_end(run.directory, exit_status, 3)
    assert status.state(run) == status.State("failed", {}, 3.0, exit_status)
    status.note_start(run.directory)  # begun again
    assert status.state(run).kind == "finished"


def test_a_run_that_ends_well_without_results_has_failed(tmp_path):
    run = _run(tmp_path, "rte")
    _write(run, "log.txt", "")
    status.note_end(run.directory, 0, 3)
    assert status.state(run) == status.State("failed", {}, 3.0, 0)


def test_a_model_is_another_one_after_each_start_and_with_other_results(tmp_path):
    run = _run(tmp_path, "rte")
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\n")
    unknown = status.model(run)
    status.note_start(run.directory)
    first = status.model(run)
    status.note_end(run.directory, 0, 3)
    assert status.model(run) == first != unknown
    status.note_start(run.directory)
    second = status.model(run)
    assert second != first and second["results"] == first["results"]
    _write(run, "eval_results.txt", "eval_accuracy = 0.85\n")  # made by hand, past this command
    assert status.model(run) != second
    other = _run(tmp_path, "rte", seed=8)
    assert status.model(other)["name"] == "lr=2e-5 seed=8"


def test_what_predicted_is_noted(tmp_path):
    run = _run(tmp_path, "rte")
    _write(run, "eval_results.txt", "eval_accuracy = 0.1234567\n")
    status.note_start(run.directory)
    (tmp_path / "test").mkdir()
    assert status.predicted_with(str(tmp_path / "test")) == {}
    notes = {"model": status.model(run), "tests": "0a1b"}
    status.note_start(str(tmp_path / "test"), **notes)
    status.note_end(str(tmp_path / "test"), 0, 1.0)
    assert status.predicted_with(str(tmp_path / "test")) == notes


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("outcome.json", "{", "outcome.json: damaged, expected JSON"),
        ("outcome.json", "[]", "outcome.json: damaged, expected a JSON object"),
        ("outcome.json", '{"seconds": "x"}', "outcome.json: damaged, seconds is 'x'; .*; delete"),
        ("eval_results.txt", "eval_accuracy\n", "eval_results.txt: damaged, expected lines"),
        ("eval_results.txt", "\ufffd", "eval_results.txt: damaged, expected lines .*; delete .*7"),
        ("eval_results.txt", "eval_f1 = 0.5\n", "no eval_accuracy; delete .* to run it again"),
    ],
)
def test_damaged_files(tmp_path, name, text, message):
    run = _run(tmp_path, "rte")
    _write(run, name, text)
    with pytest.raises(errors.UserError, match=message):
        status.state(run)
