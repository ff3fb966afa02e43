"""The command lines of run_classifier that a GLUE search starts, compared with earlier ones."""

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from command_line import options, parser
from tasks.classifier import options as classifier_options
from tasks.glue import data_sets, run_folder
from tasks.glue import runs as glue_runs

CLASSIFIER = [
    sys.executable,
    str(pathlib.Path(__file__).resolve().parents[2] / "run_classifier.py"),
]

# Flags that may differ from run to run, or from start to start of a run, because they do not change
# its results.
_FREE = {
    "output_dir", "do_train", "do_eval", "do_predict", "also_tasks", "eval_batch_size",
    "predict_batch_size", "save_checkpoints_steps", "log_steps", "iterations_per_loop",
}  # fmt: skip


def training_flags(run: glue_runs.Run, data_dir: str, groups: Sequence[Any]) -> list[str]:
    """The arguments of run_classifier for a run.

    Args:
      run: the run.
      data_dir: folder of the task.
      groups: flag groups, of which the flags that differ from their defaults are passed on.
    """
    others = ",".join(glue_runs.OTHER_DEVS.get(run.task, ()))
    return [
        f"--task_name={run.task}",
        f"--data_dir={os.path.abspath(data_dir)}",
        f"--output_dir={run.directory}",
        "--do_train",
        "--do_eval",
        *([f"--also_tasks={others}"] if others else []),
        f"--learning_rate={glue_runs.rate_text(run.rate)}",
        f"--random_seed={run.seed}",
        "--keep_checkpoint_max=1",
        *_passed_on(groups),
    ]


def prediction_flags(
    run: glue_runs.Run, output_dir: str, data: data_sets.TaskData, groups: Sequence[Any]
) -> list[str]:
    """The arguments of run_classifier that predict the test sets with the weights of a run.

    Args:
      run: a finished run, whose checkpoint is taken.
      output_dir: where the predictions go.
      data: of the task.
      groups: see ``training_flags``.
    """
    others = [name for name in data.tests if name != run.task]
    return [
        f"--task_name={run.task}",
        f"--data_dir={os.path.abspath(data.folder)}",
        f"--output_dir={output_dir}",
        "--do_predict",
        *([f"--also_tasks={','.join(others)}"] if others else []),
        *(flag for flag in _passed_on(groups) if not flag.startswith(_TRAINING_FLAGS)),
        f"--init_checkpoint={os.path.abspath(run.directory)}",
    ]


_TRAINING_FLAGS = ("--init_checkpoint=", "--new_head=")
_PATHS = ("vocab_file", "bert_config_file", "init_checkpoint")


def _passed_on(groups: Sequence[Any]) -> list[str]:
    """The flags that differ from their defaults, with absolute paths."""
    flags = []
    for group in groups:
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if value == field.default:
                continue
            if field.name in _PATHS and "://" not in value:
                value = os.path.abspath(value)
            flags.append(f"--{field.name}={_format_value(value)}")
    return flags


def difference(directory: str, arguments: Sequence[str]) -> str:
    """Names a flag whose value differs from the one in a run directory's run.json, and the cure.

    Returns:
      One sentence; empty if no flag differs or if there is no run.json.

    Raises:
      errors.FlagError: a flag that run_classifier would refuse.
      errors.UserError: run.json is damaged.
    """
    path = os.path.join(directory, "run.json")
    before = run_folder.read_json(path).get("flags")
    if not isinstance(before, dict | None):
        raise run_folder.damaged(path, "flags is not a JSON object")
    groups, _ = parser.parse(arguments, classifier_options.GROUPS)
    if before is None:
        return ""
    for group in groups:
        if isinstance(group, options.DeviceOptions):
            group = options.resolve_device(group)
        for field in dataclasses.fields(group):
            value, earlier = getattr(group, field.name), before.get(field.name, field.default)
            if field.name not in _FREE and value != earlier:
                flag = f"--{field.name}={_format_value(earlier)}"
                return (
                    f"{directory} was made with {flag}, not {_format_value(value)}; give {flag}, "
                    "or another --output_dir"
                )
    return ""


def _format_value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
