"""The runs of a search over GLUE: which there are, their command lines, and how far each one is.

All of that stands in the directory, and nowhere else::

    <output_dir>/<task>/lr<rate>-seed<seed>/   run.json, eval_results.txt …  of run_classifier
                                              log.txt, outcome.json          of run_glue
    <output_dir>/<task>/test/                  the same for the predictions of the best run

TensorFlow is not needed here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import math
import os
import re
import sys
from collections.abc import Sequence
from typing import Any, TypeVar

import checkpoint_files
import command_line
import errors
import options
from tasks import glue

# The command that a run is.
CLASSIFIER = [
    sys.executable,
    os.path.join(os.path.dirname(os.path.abspath(__file__)), "run_classifier.py"),
]
_GROUPS = (
    options.ClassifierOptions,
    options.TokenizerOptions,
    options.ModelOptions,
    options.FineTuningOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
)

TASKS = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")
# A task's dev sets beyond its own, each with the name of its results.
_OTHER_DEVS = {"mnli": ("mnli-mm",)}

NEW, UNFINISHED, FINISHED, FAILED = "new", "unfinished", "finished", "failed"
# What may differ between the runs of a table, or from start to start of one: it does not change the
# results.
_FREE = {
    "output_dir", "do_train", "do_eval", "do_predict", "also_tasks", "eval_batch_size",
    "predict_batch_size", "save_checkpoints_steps", "log_steps", "iterations_per_loop",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Run:
    """One fine-tuning.

    Attributes:
      task: of TASKS.
      rate: the learning rate.
      seed: of weights, order and dropout.
      directory: where it is.
    """

    task: str
    rate: float
    seed: int
    directory: str

    @property
    def name(self) -> str:
        """``lr=2e-5 seed=1``, for people."""
        return f"lr={rate_text(self.rate)} seed={self.seed}"

    @property
    def log(self) -> str:
        return os.path.join(self.directory, "log.txt")


@dataclasses.dataclass(frozen=True)
class State:
    """How far a run is.

    Attributes:
      kind: NEW, UNFINISHED, FINISHED or FAILED.
      results: of the dev set, such as {"f1": 0.88, "accuracy": 0.84}; mnli has "mm_accuracy" too.
        Empty unless finished.
      seconds: it took, over all its starts.
      status: exit status of a failed one.
    """

    kind: str
    results: dict[str, float]
    seconds: float = 0.0
    status: int = 0


# --------------------------------------------------------------------------------------------------
# Which runs there are
# --------------------------------------------------------------------------------------------------

_Item = TypeVar("_Item", str, float, int)


def plan(glue_flags: options.GlueOptions) -> list[Run]:
    """The runs that the flags ask for: task by task, and by rate and seed in the order given.

    Raises:
      errors.FlagError: a task, rate or seed that is none, or that stands there twice.
    """
    tasks = _unique("tasks", glue_flags.tasks, [_task(x) for x in _items("tasks", glue_flags)])
    rates = [_rate(item) for item in _items("learning_rates", glue_flags)]
    seeds = [_seed(item) for item in _items("seeds", glue_flags)]
    rates = _unique("learning_rates", glue_flags.learning_rates, rates)
    seeds = _unique("seeds", glue_flags.seeds, seeds)
    return [
        _run(glue_flags.output_dir, task, rate, seed)
        for task in tasks
        for rate in rates
        for seed in seeds
    ]


def found(output_dir: str, task: str) -> list[Run]:
    """The runs of a task that a directory has: highest rate first, then by seed."""
    folder = os.path.join(output_dir, task)
    runs = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        match = re.fullmatch(r"lr([0-9.e-]+)-seed(\d+)", name)
        if match:
            with contextlib.suppress(ValueError):  # a name that is not ours
                runs.append(_run(output_dir, task, float(match[1]), int(match[2])))
    return sorted(runs, key=lambda run: (-run.rate, run.seed))


def rate_text(rate: float) -> str:
    """The shortest text of a learning rate: 2e-5, 0.001."""
    return re.sub(r"e-0(?=\d)", "e-", repr(rate))


def _run(output_dir: str, task: str, rate: float, seed: int) -> Run:
    name = f"lr{rate_text(rate)}-seed{seed}"
    return Run(task, rate, seed, os.path.join(output_dir, task, name))


def _items(flag: str, glue_flags: options.GlueOptions) -> list[str]:
    text = getattr(glue_flags, flag)
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise errors.FlagError(f"--{flag}={text}: an item is empty; give them as a,b,c")
    return items


def _unique(flag: str, text: str, items: list[_Item]) -> list[_Item]:
    for index, item in enumerate(items):
        if item in items[:index]:
            shown = rate_text(item) if isinstance(item, float) else item
            raise errors.FlagError(f"--{flag}={text}: {shown} stands there twice")
    return items


def _task(name: str) -> str:
    try:
        found = glue.canonical_name(name)
    except errors.FlagError:
        found = ""
    if found in TASKS:
        return found
    if found in ("mnli-mm", "ax"):
        raise errors.FlagError(f"--tasks: {name} has no training set of its own; mnli includes it")
    near = "" if found else errors.suggest(name.lower(), list(TASKS))
    raise errors.FlagError(
        f"--tasks: {name} is no task of GLUE{near}; expected some of {', '.join(TASKS)}"
    )


def _rate(item: str) -> float:
    try:
        rate = float(item)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= 1:  # the rate of a run, as --learning_rate takes it, and no slip of the pen
        raise errors.FlagError(
            f"--learning_rates: {item} is not a number above 0 and up to 1, such as 2e-5"
        )
    return rate


def _seed(item: str) -> int:
    if not re.fullmatch(r"\d+", item, re.ASCII) or int(item) > 2**31 - 1:
        raise errors.FlagError(f"--seeds: {item} is not a whole number from 0 to {2**31 - 1}")
    return int(item)


# --------------------------------------------------------------------------------------------------
# Command lines
# --------------------------------------------------------------------------------------------------


def training_flags(run: Run, data_dir: str, groups: Sequence[Any]) -> list[str]:
    """The arguments of run_classifier that make a run.

    Args:
      run: which.
      data_dir: folder of the task.
      groups: the flags that are passed on where they differ from their defaults.
    """
    others = ",".join(_OTHER_DEVS.get(run.task, ()))
    return [
        f"--task_name={run.task}",
        f"--data_dir={os.path.abspath(data_dir)}",
        f"--output_dir={run.directory}",
        "--do_train",
        "--do_eval",
        *([f"--also_tasks={others}"] if others else []),
        f"--learning_rate={rate_text(run.rate)}",
        f"--random_seed={run.seed}",
        "--keep_checkpoint_max=1",
        *_passed_on(groups),
    ]


def prediction_flags(
    run: Run, output_dir: str, data_dir: str, others: Sequence[str], groups: Sequence[Any]
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
        *(flag for flag in _passed_on(groups) if not flag.startswith("--init_checkpoint=")),
        f"--init_checkpoint={os.path.abspath(run.directory)}",
    ]


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
    before = _read_json(os.path.join(directory, "run.json")).get("flags")
    groups, _ = command_line.parse(arguments, _GROUPS)
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


# --------------------------------------------------------------------------------------------------
# How far a run is
# --------------------------------------------------------------------------------------------------


def state(run: Run) -> State:
    """Reads how far a run is.

    Raises:
      errors.UserError: one of its files is damaged.
    """
    outcome = _read_json(os.path.join(run.directory, "outcome.json"))
    seconds, status = float(outcome.get("seconds", 0.0)), outcome.get("exit_status")
    if status:
        return State(FAILED, {}, seconds, status)
    found = results(run)
    if found:
        return State(FINISHED, found, seconds)
    if status is not None:  # it ended well, it says, and there is nothing
        return State(FAILED, {}, seconds, status)
    return State(UNFINISHED if os.path.isdir(run.directory) else NEW, {}, seconds)


def note_outcome(directory: str, status: int | None, seconds: float = 0.0) -> None:
    """Writes outcome.json.

    Args:
      directory: of a run.
      status: exit status; None for a run that has just begun, or was told to stop.
      seconds: to add to those that it took before.
    """
    path = os.path.join(directory, "outcome.json")
    seconds += float(_read_json(path).get("seconds", 0.0))
    checkpoint_files.write_text(
        path, json.dumps({"exit_status": status, "seconds": round(seconds, 1)}) + "\n"
    )


def results(run: Run) -> dict[str, float]:
    """The scores of a run on all dev sets of its task; nothing where one is missing.

    Raises:
      errors.UserError: a file with results is damaged.
    """
    names = {"": "eval_results.txt"}
    names |= {
        f"{x.split('-')[-1]}_": f"eval_results-{x}.txt" for x in _OTHER_DEVS.get(run.task, ())
    }
    metrics = glue.TASKS[run.task].metrics
    scores = {}
    for prefix, name in names.items():
        path = os.path.join(run.directory, name)
        if not os.path.isfile(path):
            return {}
        values = _read_results(path)
        for metric in metrics:
            if f"eval_{metric}" not in values:
                raise errors.UserError(
                    f"{path}: no eval_{metric}; delete {run.directory} to run it again"
                )
            scores[prefix + metric] = values[f"eval_{metric}"]
    return scores


def _read_results(path: str) -> dict[str, float]:
    with open(path, encoding="utf-8") as file:
        pairs = [line.split(" = ") for line in file.read().splitlines()]
    try:
        return {name: float(value) for name, value in pairs}
    except ValueError:
        raise errors.UserError(f"{path}: damaged, expected lines such as loss = 0.4") from None


def _read_json(path: str) -> dict[str, Any]:
    """Empty where the file is missing."""
    try:
        with open(path, encoding="utf-8") as file:
            value = json.load(file)
    except FileNotFoundError:
        return {}
    except ValueError as error:
        raise errors.UserError(f"{path}: damaged, expected JSON: {error}") from None
    if not isinstance(value, dict):
        raise errors.UserError(f"{path}: damaged, expected a JSON object")
    return value


# --------------------------------------------------------------------------------------------------
# Files
# --------------------------------------------------------------------------------------------------


def steps_saved(directory: str) -> int | None:
    """The step of the newest checkpoint that a directory lists; None where it lists none."""
    path = os.path.join(directory, "checkpoint")
    if not os.path.isfile(path):
        return None
    with open(path, encoding="utf-8") as file:
        match = re.search(r'^model_checkpoint_path: ".*?-(\d+)"', file.read(), re.MULTILINE)
    return int(match[1]) if match else None


def remove_checkpoints(directory: str) -> int:
    """Deletes the checkpoints of a run, their list first; returns the bytes that got free."""
    ours = re.compile(
        rf"model\.ckpt-\d+(?:{checkpoint_files.PART})(?:{checkpoint_files.TEMPORARY})?"
    )
    names = [name for name in os.listdir(directory) if ours.fullmatch(name)]
    freed = 0
    listing = [name for name in ("checkpoint",) if os.path.exists(os.path.join(directory, name))]
    for name in listing + names:
        path = os.path.join(directory, name)
        freed += os.path.getsize(path)
        os.remove(path)
    return freed
