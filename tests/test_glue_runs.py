"""Which runs there are, their command lines, and how far each one is by its directory."""

from __future__ import annotations

import json
import pathlib

import pytest

import command_line
import errors
import glue_runs
import options


def _glue(**flags):
    return options.GlueOptions(data_dir="data", output_dir="out", **flags)


def test_the_plan_goes_task_by_task_in_the_order_given():
    flags = _glue(tasks="SST2, mrpc", learning_rates="2e-5,0.00005", seeds="3,1")
    found = [(run.task, run.rate, run.seed) for run in glue_runs.plan(flags)]
    assert found[:4] == [
        ("sst-2", 2e-5, 3),
        ("sst-2", 2e-5, 1),
        ("sst-2", 5e-5, 3),
        ("sst-2", 5e-5, 1),
    ]
    assert [task for task, *_ in found[4:]] == ["mrpc"] * 4
    assert glue_runs.plan(flags)[3].directory == "out/sst-2/lr5e-5-seed1"
    assert glue_runs.plan(flags)[3].name == "lr=5e-5 seed=1"


def test_the_default_plan_is_that_of_the_paper():
    plan = glue_runs.plan(_glue())
    assert len(plan) == 32 and {run.seed for run in plan} == {1}
    assert [glue_runs.rate_text(run.rate) for run in plan[:4]] == ["5e-5", "4e-5", "3e-5", "2e-5"]
    assert {run.task for run in plan} == set(glue_runs.TASKS) - {"wnli"}


@pytest.mark.parametrize(
    "text", ["2e-5", "3.5e-5", "0.0001", "0.001", "1e-10", "0.1", "1.0", "1.2345678e-5"]
)
def test_a_rate_survives_its_name(tmp_path, text):
    assert glue_runs.rate_text(float(text)) == text
    (tmp_path / f"rte/lr{text}-seed5").mkdir(parents=True)
    (run,) = glue_runs.found(str(tmp_path), "rte")
    assert (run.rate, run.seed) == (float(text), 5)
    assert run.directory == str(tmp_path / f"rte/lr{text}-seed5")


def test_the_runs_that_a_directory_has(tmp_path):
    assert glue_runs.found(str(tmp_path), "rte") == []
    names = ["lr2e-5-seed10", "lr2e-5-seed9", "lr5e-5-seed1", "test", "lr2e--seed1", "notes"]
    for name in names:
        (tmp_path / "rte" / name).mkdir(parents=True)
    found = [(run.rate, run.seed) for run in glue_runs.found(str(tmp_path), "rte")]
    assert found == [(5e-5, 1), (2e-5, 9), (2e-5, 10)]


# --------------------------------------------------------------------------------------------------
# Command lines
# --------------------------------------------------------------------------------------------------


def _groups(**each):
    model = options.ModelOptions(bert_config_file="c.json", init_checkpoint="gs://b/model.ckpt")
    text = options.TokenizerOptions(vocab_file="v.txt", do_lower_case=False)
    return (options.GlueRunOptions(**each), text, model, options.DeviceOptions(xla=True))


def _run(tmp_path, task="mnli", rate=2e-5, seed=7):
    name = f"lr{glue_runs.rate_text(rate)}-seed{seed}"
    return glue_runs.Run(task, rate, seed, str(tmp_path / task / name))


def test_only_what_differs_from_the_defaults_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = _run(tmp_path)
    assert glue_runs.training_flags(run, "glue/MNLI", _groups(train_batch_size=16)) == [
        "--task_name=mnli",
        f"--data_dir={tmp_path}/glue/MNLI",
        f"--output_dir={run.directory}",
        "--do_train",
        "--do_eval",
        "--also_tasks=mnli-mm",
        "--learning_rate=2e-5",
        "--random_seed=7",
        "--keep_checkpoint_max=1",
        "--train_batch_size=16",
        "--do_lower_case=false",
        f"--vocab_file={tmp_path}/v.txt",
        f"--bert_config_file={tmp_path}/c.json",
        "--init_checkpoint=gs://b/model.ckpt",
        "--xla=true",
    ]


def test_the_prediction_takes_the_weights_of_the_run(tmp_path):
    run = _run(tmp_path)
    found = glue_runs.prediction_flags(run, "out/test", "/d/MNLI", ["mnli-mm", "ax"], _groups())
    assert found[:5] == [
        "--task_name=mnli",
        "--data_dir=/d/MNLI",
        "--output_dir=out/test",
        "--do_predict",
        "--also_tasks=mnli-mm,ax",
    ]
    inits = [flag for flag in found if flag.startswith("--init_checkpoint")]
    assert inits == [f"--init_checkpoint={run.directory}"]


def _write(run, name, text):
    pathlib.Path(run.directory).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(run.directory) / name).write_text(text)


def _made(run):
    """run.json of a run of the flags of ``_groups``."""
    arguments = glue_runs.training_flags(run, "/d", _groups())
    groups, _ = command_line.parse(arguments, glue_runs._GROUPS)
    flags = {name: value for group in groups for name, value in vars(group).items()}
    flags |= {"static_shapes": True}  # implied by --xla, and written down so
    _write(run, "run.json", json.dumps({"flags": flags}))


def test_changed_flags_are_named(tmp_path):
    run = _run(tmp_path)
    arguments = glue_runs.training_flags(run, "/d", _groups())
    assert glue_runs.difference(run.directory, arguments) == ""  # there is nothing yet
    _made(run)
    assert glue_runs.difference(run.directory, arguments) == ""
    free = _groups(eval_batch_size=99, predict_batch_size=99, log_steps=1, save_checkpoints_steps=3)
    assert glue_runs.difference(run.directory, glue_runs.training_flags(run, "/d", free)) == ""
    changed = glue_runs.training_flags(run, "/d", _groups(num_train_epochs=2.0))
    assert glue_runs.difference(run.directory, changed) == (
        f"{run.directory} was made with --num_train_epochs=3.0, not 2.0; give "
        "--num_train_epochs=3.0, or another --output_dir"
    )
    other = glue_runs.training_flags(run, "/e", _groups())
    assert "--data_dir=/d, not /e" in glue_runs.difference(run.directory, other)


def test_a_flag_that_run_json_does_not_know_had_its_default(tmp_path):
    run = _run(tmp_path)
    _made(run)
    path = pathlib.Path(run.directory) / "run.json"
    flags = json.loads(path.read_text())["flags"]
    del flags["new_head"]
    path.write_text(json.dumps({"flags": flags}))
    same = glue_runs.training_flags(run, "/d", _groups())
    assert glue_runs.difference(run.directory, same) == ""
    new = glue_runs.training_flags(run, "/d", _groups(new_head=True))
    assert "--new_head=false, not true" in glue_runs.difference(run.directory, new)


# --------------------------------------------------------------------------------------------------
# How far a run is
# --------------------------------------------------------------------------------------------------


def test_a_run_from_new_to_finished(tmp_path):
    run = _run(tmp_path)
    assert glue_runs.state(run) == glue_runs.State("new", {})
    _write(run, "log.txt", "$ python\n")
    glue_runs.note_outcome(run.directory, None)
    assert glue_runs.state(run) == glue_runs.State("unfinished", {})
    glue_runs.note_outcome(run.directory, None, 10.04)  # told to stop after ten seconds
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_loss = 0.5\n")
    assert glue_runs.state(run) == glue_runs.State("unfinished", {}, 10.0)
    _write(run, "eval_results-mnli-mm.txt", "eval_accuracy = 0.83\nglobal_step = 3\n")
    glue_runs.note_outcome(run.directory, 0, 20)
    results = {"accuracy": 0.84, "mm_accuracy": 0.83}
    assert glue_runs.state(run) == glue_runs.State("finished", results, 30.0)
    assert glue_runs.results(run) == results


def test_a_run_that_was_killed_after_its_last_word_is_finished(tmp_path):
    run = _run(tmp_path, "mrpc")
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\neval_f1 = 0.5\n")
    # The deciding metric comes first, whatever the order of the file.
    assert list(glue_runs.state(run).results.items()) == [("f1", 0.5), ("accuracy", 0.84)]


@pytest.mark.parametrize("status", [1, -9])
def test_a_failed_run_stays_one_whatever_it_left(tmp_path, status):
    run = _run(tmp_path, "rte")
    _write(run, "eval_results.txt", "eval_accuracy = 0.84\n")
    glue_runs.note_outcome(run.directory, status, 3)
    assert glue_runs.state(run) == glue_runs.State("failed", {}, 3.0, status)
    glue_runs.note_outcome(run.directory, None)  # begun again
    assert glue_runs.state(run).kind == "finished"


def test_a_run_that_ends_well_without_results_has_failed(tmp_path):
    run = _run(tmp_path, "rte")
    _write(run, "log.txt", "")
    glue_runs.note_outcome(run.directory, 0, 3)
    assert glue_runs.state(run) == glue_runs.State("failed", {}, 3.0, 0)


@pytest.mark.parametrize(
    "name, text, message",
    [
        ("outcome.json", "{", "outcome.json: damaged, expected JSON"),
        ("outcome.json", "[]", "outcome.json: damaged, expected a JSON object"),
        ("eval_results.txt", "eval_accuracy\n", "eval_results.txt: damaged, expected lines"),
        ("eval_results.txt", "eval_f1 = 0.5\n", "no eval_accuracy; delete .* to run it again"),
    ],
)
def test_damaged_files(tmp_path, name, text, message):
    run = _run(tmp_path, "rte")
    _write(run, name, text)
    with pytest.raises(errors.UserError, match=message):
        glue_runs.state(run)


def test_checkpoints_are_removed_and_nothing_else(tmp_path):
    kept = ["eval_results.txt", "log.txt", "run.json", "model.ckpt-notes", "my_model.ckpt-3.index"]
    ours = ["model.ckpt-9.index", "model.ckpt-9.data-00000-of-00001", "model.ckpt-9.state.json"]
    ours += ["model.ckpt-12.index.tempstate123", "checkpoint"]
    for name in kept + ours:
        (tmp_path / name).write_text("12345")
    assert glue_runs.remove_checkpoints(str(tmp_path)) == 25
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(kept)
    assert glue_runs.remove_checkpoints(str(tmp_path)) == 0


def test_the_step_of_the_newest_checkpoint(tmp_path):
    assert glue_runs.steps_saved(str(tmp_path)) is None
    (tmp_path / "checkpoint").write_text(
        'model_checkpoint_path: "model.ckpt-120"\nall_model_checkpoint_paths: "model.ckpt-0"\n'
    )
    assert glue_runs.steps_saved(str(tmp_path)) == 120
