"""Command lines of runs and predictions, and how they differ from earlier ones."""

import json
import pathlib

import pytest

from command_line import errors, options, parser
from tasks.classifier import options as classifier_options
from tasks.glue import commands, data_sets
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs


def _groups(**run_flags):
    model = options.ModelOptions(bert_config_file="c.json", init_checkpoint="gs://b/model.ckpt")
    text = options.TokenizerOptions(vocab_file="v.txt", do_lower_case=False)
    return (glue_options.GlueRunOptions(**run_flags), text, model, options.DeviceOptions(xla=True))


def _run(tmp_path, task="mnli", rate=2e-5, seed=7):
    name = f"lr{glue_runs.rate_text(rate)}-seed{seed}"
    return glue_runs.Run(task, rate, seed, str(tmp_path / task / name))


def test_only_what_differs_from_the_defaults_is_passed_on(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = _run(tmp_path)
    assert commands.training_flags(run, "glue/MNLI", _groups(train_batch_size=16)) == [
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
    tests = dict.fromkeys(("mnli", "mnli-mm", "ax"), "/d/MNLI")
    data = data_sets.TaskData("/d/MNLI", 1, {}, tests)
    flags = commands.prediction_flags(run, "out/test", data, _groups())
    assert flags[:5] == [
        "--task_name=mnli",
        "--data_dir=/d/MNLI",
        "--output_dir=out/test",
        "--do_predict",
        "--also_tasks=mnli-mm,ax",
    ]
    checkpoints = [flag for flag in flags if flag.startswith("--init_checkpoint")]
    assert checkpoints == [f"--init_checkpoint={run.directory}"]


def test_a_prediction_does_not_replace_the_head(tmp_path):
    run, groups = _run(tmp_path), _groups(new_head=True, max_seq_length=64)
    assert "--new_head=true" in commands.training_flags(run, "/d", groups)
    data = data_sets.TaskData("/d", 1, {}, {"mnli": "/d"})
    flags = commands.prediction_flags(run, "out/test", data, groups)
    assert "--max_seq_length=64" in flags and not any("new_head" in flag for flag in flags)


def test_the_command_is_run_classifier():
    root = pathlib.Path(__file__).resolve().parents[3]
    assert commands.CLASSIFIER[1] == str(root / "run_classifier.py")


def _write(run, name, text):
    pathlib.Path(run.directory).mkdir(parents=True, exist_ok=True)
    (pathlib.Path(run.directory) / name).write_text(text)


def _write_run_json(run):
    """Writes the run.json of a run with the flags of ``_groups``."""
    arguments = commands.training_flags(run, "/d", _groups())
    groups, _ = parser.parse(arguments, classifier_options.GROUPS)
    flags = {name: value for group in groups for name, value in vars(group).items()}
    flags |= {"static_shapes": True}  # implied by --xla
    _write(run, "run.json", json.dumps({"flags": flags}))


def test_a_changed_flag_is_named(tmp_path):
    run = _run(tmp_path)
    arguments = commands.training_flags(run, "/d", _groups())
    assert commands.difference(run.directory, arguments) == ""  # there is no run.json yet
    _write_run_json(run)
    assert commands.difference(run.directory, arguments) == ""
    free = _groups(eval_batch_size=99, predict_batch_size=99, log_steps=1, save_checkpoints_steps=3)
    same = commands.training_flags(run, "/d", free)
    assert commands.difference(run.directory, same) == ""
    changed = commands.training_flags(run, "/d", _groups(num_train_epochs=2.0))
    assert commands.difference(run.directory, changed) == (
        f"{run.directory} was made with --num_train_epochs=3.0, not 2.0; give "
        "--num_train_epochs=3.0, or another --output_dir"
    )
    other = commands.training_flags(run, "/e", _groups())
    assert "--data_dir=/d, not /e" in commands.difference(run.directory, other)


def test_a_damaged_run_json(tmp_path):
    run = _run(tmp_path)
    _write(run, "run.json", '{"flags": []}')
    with pytest.raises(errors.UserError, match="run.json: damaged, flags is not a .*; delete"):
        commands.difference(run.directory, [])


def test_a_flag_that_run_json_lacks_had_its_default(tmp_path):
    run = _run(tmp_path)
    _write_run_json(run)
    path = pathlib.Path(run.directory) / "run.json"
    flags = json.loads(path.read_text())["flags"]
    del flags["new_head"]
    path.write_text(json.dumps({"flags": flags}))
    same = commands.training_flags(run, "/d", _groups())
    assert commands.difference(run.directory, same) == ""
    new = commands.training_flags(run, "/d", _groups(new_head=True))
    assert "--new_head=false, not true" in commands.difference(run.directory, new)
