"""The runs of a search over GLUE: which there are, and where each one is.

All that a search knows stands in its directory, and nowhere else::

    <output_dir>/<task>/lr<rate>-seed<seed>/   run.json, eval_results.txt …  of run_classifier
                                              log.txt, outcome.json          of run_glue
    <output_dir>/<task>/test/                  the same for the predictions of the best run

TensorFlow is not needed here.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re
from typing import TypeVar

from command_line import errors
from tasks.classifier import glue_tasks
from tasks.glue import options as glue_options

TASKS = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")
# A task's dev sets beyond its own, each with the name of its results.
OTHER_DEVS = {"mnli": ("mnli-mm",)}


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
class Prediction:
    """What a run says of the test sets of its task.

    Attributes:
      run: the best of the task.
      directory: where the predictions go; one for all runs of the task.
    """

    run: Run
    directory: str
    name = "predictions"

    @property
    def task(self) -> str:
        return self.run.task

    @property
    def log(self) -> str:
        return os.path.join(self.directory, "log.txt")


_Item = TypeVar("_Item", str, float, int)


def plan(glue_flags: glue_options.GlueOptions) -> list[Run]:
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
                run = _run(output_dir, task, float(match[1]), int(match[2]))
                runs += [run] if os.path.basename(run.directory) == name else []
    return sorted(runs, key=lambda run: (-run.rate, run.seed))


def rate_text(rate: float) -> str:
    """The shortest text of a learning rate: 2e-5, 0.001."""
    return re.sub(r"e-0(?=\d)", "e-", repr(rate))


def _run(output_dir: str, task: str, rate: float, seed: int) -> Run:
    name = f"lr{rate_text(rate)}-seed{seed}"
    return Run(task, rate, seed, os.path.join(output_dir, task, name))


def _items(flag: str, glue_flags: glue_options.GlueOptions) -> list[str]:
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
        found = glue_tasks.canonical_name(name)
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
    # As --learning_rate takes it, and no slip of the pen.
    if "_" in item or not 0 < rate <= 1:
        raise errors.FlagError(
            f"--learning_rates: {item} is not a number above 0 and up to 1, such as 2e-5"
        )
    return rate


def _seed(item: str) -> int:
    if not re.fullmatch(r"\d+", item, re.ASCII) or int(item) > 2**31 - 1:
        raise errors.FlagError(f"--seeds: {item} is not a whole number from 0 to {2**31 - 1}")
    return int(item)
