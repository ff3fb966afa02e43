"""The command lines of run_classifier that a search over GLUE starts, and how they have changed."""

from __future__ import annotations

import dataclasses
import os
import pathlib
import sys
from collections.abc import Sequence
from typing import Any

from command_line import options, parser
from tasks.classifier import options as classifier_options
from tasks.glue import run_folder
from tasks.glue import runs as glue_runs

# The command that a run is.
CLASSIFIER = [
    sys.executable,
    str(pathlib.Path(__file__).resolve().parents[2] / "run_classifier.py"),
]

# What may differ between the runs of a table, or from start to start of one: it does not change the
# results.
_FREE = {
    "output_dir", "do_train", "do_eval", "do_predict", "also_tasks", "eval_batch_size",
    "predict_batch_size", "save_checkpoints_steps", "log_steps", "iterations_per_loop",
}  # fmt: skip


def training_flags(run: glue_runs.Run, data_dir: str, groups: Sequence[Any]) -> list[str]:
    """The arguments of run_classifier that make a run.

    Args:
      run: which.
      data_dir: folder of the task.
      groups: the flags that are passed on where they differ from their defaults.
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
    run: glue_runs.Run, output_dir: str, data_dir: str, others: Sequence[str], groups: Sequence[Any]
) -> list[str]:
    """The arguments of run_classifier that predict the test set with what a run has learned.

    Args:
      run: of which the checkpoint is taken.
      output_dir: where the predictions go.
      data_dir: folder of the task.
      others: tasks whose test sets are predicted too.
      groups: see ``training_flags``.
    """
    return [
        f"--task_name={run.task}",
        f"--data_dir={os.path.abspath(data_dir)}",
        f"--output_dir={output_dir}",
        "--do_predict",
        *([f"--also_tasks={','.join(others)}"] if others else []),
        *(flag for flag in _passed_on(groups) if not flag.startswith(_OF_TRAINING)),
        f"--init_checkpoint={os.path.abspath(run.directory)}",
    ]


_OF_TRAINING = ("--init_checkpoint=", "--new_head=")
_PATHS = ("vocab_file", "bert_config_file", "init_checkpoint")


def _passed_on(groups: Sequence[Any]) -> list[str]:
    """Flags that differ from their defaults; paths absolute, to be the same from anywhere."""
    flags = []
    for group in groups:
        for field in dataclasses.fields(group):
            value = getattr(group, field.name)
            if value == field.default:
                continue
            if field.name in _PATHS and "://" not in value:
                value = os.path.abspath(value)
            shown = str(value).lower() if isinstance(value, bool) else value
            flags.append(f"--{field.name}={shown}")
    return flags


def difference(directory: str, arguments: Sequence[str]) -> str:
    """Which flag of a command line is not what run.json in a directory says, and how to cure it.

    Returns:
      One sentence; empty where all are the same, or there is no run.json.

    Raises:
      errors.FlagError: a flag that run_classifier would refuse.
      errors.UserError: run.json is damaged.
    """
    path = os.path.join(directory, "run.json")
    before = run_folder.read_json(path).get("flags")
    if not isinstance(before, dict | None):
        raise run_folder.damaged(path, "flags is no JSON object")
    groups, _ = parser.parse(arguments, classifier_options.GROUPS)
    if before is None:
        return ""
    for group in groups:
        if isinstance(group, options.DeviceOptions):
            group = options.resolve_device(group)
        for field in dataclasses.fields(group):
            now, then = getattr(group, field.name), before.get(field.name, field.default)
            if field.name not in _FREE and now != then:
                return (
                    f"{directory} was made with --{field.name}={_shown(then)}, not "
                    f"{_shown(now)}; give --{field.name}={_shown(then)}, or another --output_dir"
                )
    return ""


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
