"""The state of a run, from the files in its directory."""

import pathlib

import pytest

from command_line import errors
from tasks.glue import jobs, status
from tasks.glue import runs as glue_runs


def _run(tmp_path, task="mnli", rate=2e-5, seed=7):
    name = f"lr{glue_runs.rate_text(rate)}-seed{seed}"
    return glue_runs.Run(task, rate, seed, str(tmp_path / task / name))


def _write(run, name, text):
    pathlib.Path(run.directory).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(run.directory) / name).write_text(text)


def test_a_run_from_new_to_finished(tmp_path):
    run = _run(tmp_path)
    table = status.RunTable(str(tmp_path), [run])
    assert table[run] == status.RunState("new", {})
    table.start(run)
    assert table[run] == status.read(run) == status.RunState("unfinished", {})
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_loss = 0.5\n")
    stopped = table.end(run, jobs.JobEnd(0, 10.04, True))  # before the second results file
    assert stopped == table[run] == status.read(run) == status.RunState("unfinished", {}, 10.0)
    table = status.RunTable(str(tmp_path), [])
    table.start(run)
    assert not (pathlib.Path(run.directory) / "eval_results.txt").exists()
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_loss = 0.5\n")
    _write(run, "eval_results-mnli-mm.txt", "eval_accuracy = 0.83\nglobal_step = 3\n")
    finished = table.end(run, jobs.JobEnd(0, 20.0, False))
    results = {"accuracy": 0.84, "mm_accuracy": 0.83}
    assert finished == status.read(run) == status.RunState("finished", results, 30.0)
    assert table.of_task("mnli") == {run: finished} and table.of_task("rte") == {}


def test_the_runs_of_a_table_are_sorted_by_rate_and_seed(tmp_path):
    planned = [_run(tmp_path, "rte", *pair) for pair in ((2e-5, 10), (2e-5, 9), (5e-5, 3))]
    existing = _run(tmp_path, "rte", 5e-5, 1)
    _write(existing, "log.txt", "")
    table = status.RunTable(str(tmp_path), planned)
    pairs = [(run.rate, run.seed) for run in table.of_task("rte")]
    assert pairs == [(5e-5, 1), (5e-5, 3), (2e-5, 9), (2e-5, 10)]


def test_a_run_that_was_killed_after_its_last_result_is_finished(tmp_path):
    run = _run(tmp_path, "mrpc")
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_f1 = 0.5\n")
    # The deciding metric comes first, whatever the order of the file.
    assert list(status.read(run).results.items()) == [("f1", 0.5), ("accuracy", 0.84)]


@pytest.mark.parametrize("exit_status", [1, -9])
def test_a_run_that_failed_after_writing_results_has_failed(tmp_path, exit_status):
    run = _run(tmp_path, "rte")
    table = status.RunTable(str(tmp_path), [run])
    table.start(run)
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\n")
    table.end(run, jobs.JobEnd(exit_status, 3.0, False))
    assert table[run] == status.read(run) == status.RunState("failed", {}, 3.0, exit_status)


@pytest.mark.parametrize(
    "exit_status, stopped, expected",
    [
        (0, False, "failed"),  # without results
        (0, True, "unfinished"),
        (-15, True, "unfinished"),
        (2, True, "failed"),  # it refused the flags before it was stopped
    ],
)
def test_a_run_that_ends_without_results(tmp_path, exit_status, stopped, expected):
    run = _run(tmp_path, "rte")
    table = status.RunTable(str(tmp_path), [run])
    table.start(run)
    state = table.end(run, jobs.JobEnd(exit_status, 3.0, stopped))
    assert state == status.read(run) and state.status == expected


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
        status.RunTable(str(tmp_path), [])
