"""The runs of a GLUE search, planned and existing, and their directories.

A search keeps everything in its output directory::

    <output_dir>/<task>/lr<rate>-seed<seed>/   run.json, eval_results.txt …  by run_classifier
                                              log.txt, outcome.json          by run_glue
    <output_dir>/<task>/test/                  the same for the predictions of the best run

Needs no TensorFlow.
"""

import contextlib
import dataclasses
import math
import os
import re
from collections.abc import Callable
from typing import TypeVar

from command_line import errors
from tasks.classifier import glue_tasks
from tasks.glue import options as glue_options

TASKS = ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte", "wnli")
# A task's dev sets beyond its own, each with the name of its results.
OTHER_DEVS = {"mnli": ("mnli-mm",)}


@dataclasses.dataclass(frozen=True)
class Run:
    """One fine-tuning run.

    Attributes:
      task: one of TASKS.
      rate: the learning rate.
      seed: of the initial weights, the order of the examples and dropout.
      directory: of its checkpoints and results.
    """

    task: str
    rate: float
    seed: int
    directory: str

    @property
    def name(self) -> str:
        """``lr=2e-5 seed=1``, for messages."""
        return f"lr={rate_text(self.rate)} seed={self.seed}"

    @property
    def log(self) -> str:
        return os.path.join(self.directory, "log.txt")


_Item = TypeVar("_Item", str, float, int)


def plan(glue_flags: glue_options.GlueOptions) -> list[Run]:
    """The runs that the flags ask for: task by task, and by rate and seed in the order given.

    Raises:
      errors.FlagError: a task, rate or seed is invalid or is listed twice.
    """
    tasks = _parse_list(glue_flags, "tasks", _parse_task)
    rates = _parse_list(glue_flags, "learning_rates", _parse_rate)
    seeds = _parse_list(glue_flags, "seeds", _parse_seed)
    return [
        _run(glue_flags.output_dir, task, rate, seed)
        for task in tasks
        for rate in rates
        for seed in seeds
    ]


def existing(output_dir: str, task: str) -> list[Run]:
    """The runs of a task that have a directory, in no particular order."""
    folder = os.path.join(output_dir, task)
    runs = []
    for name in os.listdir(folder) if os.path.isdir(folder) else []:
        match = re.fullmatch(r"lr([0-9.e-]+)-seed(\d+)", name)
        if match:
            with contextlib.suppress(ValueError):  # such as lr2e--seed1
                run = _run(output_dir, task, float(match[1]), int(match[2]))
                runs += [run] if os.path.basename(run.directory) == name else []
    return runs


def rate_text(rate: float) -> str:
    """The shortest text of a learning rate: 2e-5, 0.001."""
    return re.sub(r"e-0(?=\d)", "e-", repr(rate))


def _run(output_dir: str, task: str, rate: float, seed: int) -> Run:
    name = f"lr{rate_text(rate)}-seed{seed}"
    return Run(task, rate, seed, os.path.join(output_dir, task, name))


def _parse_list(
    glue_flags: glue_options.GlueOptions, flag: str, parse: Callable[[str], _Item]
) -> list[_Item]:
    text = getattr(glue_flags, flag)
    items: list[_Item] = []
    for part in text.split(","):
        if not part.strip():
            raise errors.FlagError(f"--{flag}={text}: an item is empty; give them as a,b,c")
        item = parse(part.strip())
        if item in items:
            name = rate_text(item) if isinstance(item, float) else item
            raise errors.FlagError(f"--{flag}={text}: {name} is listed twice")
        items.append(item)
    return items


def _parse_task(text: str) -> str:
    try:
        name = glue_tasks.canonical_name(text)
    except errors.FlagError:
        name = ""
    if name in TASKS:
        return name
    if name in ("mnli-mm", "ax"):
        raise errors.FlagError(f"--tasks: {text} has no training set of its own; mnli includes it")
    suggestion = "" if name else errors.suggest(text.lower(), list(TASKS))
    raise errors.FlagError(
        f"--tasks: {text} is not a GLUE task{suggestion}; expected some of {', '.join(TASKS)}"
    )


def _parse_rate(text: str) -> float:
    try:
        rate = float(text)
    except ValueError:
        rate = math.nan
    # The range is that of --learning_rate. Python reads 1_0 as 10, which is more likely a typo.
    if "_" in text or not 0 < rate <= 1:
        raise errors.FlagError(
            f"--learning_rates: {text} is not a number above 0 and up to 1, such as 2e-5"
        )
    return rate


def _parse_seed(text: str) -> int:
    if not re.fullmatch(r"\d+", text, re.ASCII) or int(text) > 2**31 - 1:
        raise errors.FlagError(f"--seeds: {text} is not a whole number from 0 to {2**31 - 1}")
    return int(text)
