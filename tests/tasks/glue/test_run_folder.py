"""The files in the folders of a search: how they are read, and which are deleted."""

import pytest

from tasks.glue import run_folder


def test_checkpoints_are_removed_and_nothing_else(tmp_path):
    kept = ["eval_results.txt", "log.txt", "run.json", "model.ckpt-notes", "my_model.ckpt-3.index"]
    checkpoints = [
        "model.ckpt-9.index",
        "model.ckpt-9.data-00000-of-00001",
        "model.ckpt-9.state.json",
    ]
    checkpoints += ["model.ckpt-12.index.tempstate123", "checkpoint"]
    for name in kept + checkpoints:
        (tmp_path / name).write_text("12345")
    assert run_folder.remove_checkpoints(str(tmp_path)) == 25
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    assert run_folder.remove_checkpoints(str(tmp_path)) == 0


def test_the_step_of_the_newest_checkpoint(tmp_path):
    assert run_folder.steps_saved(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-120"\nall_model_checkpoint_paths: "model.ckpt-0"\n'
    )
    assert run_folder.steps_saved(str(tmp_path)) == 120


@pytest.mark.parametrize(
    "text, message",
    [
        ("$ python x\n", "no message in the log"),
        ("$ python x\nrun_classifier.py: error: --a=1: no\n\n", "--a=1: no"),
        ("12:00:01 warning: slow\n", "warning: slow"),
        ("Traceback\n  x\nValueError: error: y", "ValueError: error: y"),
        ("x" * 5000 + "\n" + "y" * 400 + "\n", "y" * 300),
    ],
)
def test_the_last_line_of_a_log(tmp_path, text, message):
    (tmp_path / "log.txt").write_text(text)
    assert run_folder.last_log_line(str(tmp_path / "log.txt")) == message


def test_leftovers_of_a_kill_are_removed_and_nothing_else(tmp_path):
    kept = ["summary.txt", "notes.tempstate12.txt", ".tempstate"]
    leftovers = ["summary.txt.tempstate12", "model.ckpt-3.index.tempstate99"]
    for name in kept + leftovers:
        (tmp_path / name).write_text("x")
    run_folder.remove_leftovers(str(tmp_path))
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    run_folder.remove_leftovers(str(tmp_path / "nowhere"))


def test_results_are_removed_by_the_start_of_their_names(tmp_path):
    for name in ("eval_results.txt", "eval_results-mnli-mm.txt", "test_results.tsv", "run.json"):
        (tmp_path / name).write_text("x")
    run_folder.remove_results(str(tmp_path), "eval_results")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["run.json", "test_results.tsv"]
