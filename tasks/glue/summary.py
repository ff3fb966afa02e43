"""Sums up the runs of a GLUE search: the best run of each task, means over seeds, the GLUE score.

All scores are those of the dev sets, between 0 and 1.
"""

import dataclasses
import statistics
from collections.abc import Mapping, Sequence

from tasks.classifier import examples, glue_tasks
from tasks.glue import runs as glue_runs
from tasks.glue import status, submission

_CHANCE_CORRELATION = 0.1
_FLOAT32_ROUNDING = 1e-6  # run_classifier writes results with the digits of a float32


@dataclasses.dataclass(frozen=True)
class RunSummary:
    """A run, its state, and whether its results are no better than chance."""

    run: glue_runs.Run
    state: status.RunState
    at_chance: bool


@dataclasses.dataclass(frozen=True)
class TaskSummary:
    """The results of a task.

    Attributes:
      name: of the task.
      runs: all of them.
      best: the finished run with the highest first metric of the task. Ties are broken by the other
        metrics, then by order. None if no run has finished.
      results: of the best run; for wnli without runs those of its majority class.
      means, deviations: of each metric over the seeds at the best learning rate; the deviation is
        the sample standard deviation, and missing for a single seed.
      num_seeds: number of those seeds.
    """

    name: str
    runs: tuple[RunSummary, ...]
    best: RunSummary | None
    results: dict[str, float]
    means: dict[str, float]
    deviations: dict[str, float]
    num_seeds: int

    @property
    def seconds(self) -> float:
        """Wall time of all runs."""
        return sum(run.state.seconds for run in self.runs)

    @property
    def score(self) -> float:
        """The task's part of the GLUE score: the mean of its metrics; for cola Matthews alone."""
        names = ["matthews"] if self.name == "cola" else list(self.results)
        return statistics.fmean(self.results[name] for name in names)


def at_chance(task: str, results: Mapping[str, float], label_shares: Mapping[str, float]) -> bool:
    """Whether the results of a run are no better than chance.

    Args:
      task: its name.
      results: metrics on the dev set.
      label_shares: label -> its share of the dev set; empty for regression, or if unknown.

    Returns:
      For regression, whether the first metric, a correlation, is below 0.1; else whether the
      accuracy is not above that of always predicting the most frequent label.
    """
    spec = glue_tasks.TASKS[task]
    if spec.kind == examples.REGRESSION:
        return results[spec.metrics[0]] < _CHANCE_CORRELATION
    if not label_shares:
        return False
    return results["accuracy"] <= max(label_shares.values()) + _FLOAT32_ROUNDING


def summarize(
    task: str,
    states: Mapping[glue_runs.Run, status.RunState],
    label_shares: Mapping[str, float],
) -> TaskSummary:
    """Sums up the runs of a task.

    Args:
      task: its name.
      states: run -> its state; of equal runs the first one is preferred.
      label_shares: see ``at_chance``.
    """
    runs = tuple(
        RunSummary(run, state, bool(state.results) and at_chance(task, state.results, label_shares))
        for run, state in states.items()
    )
    finished = [run for run in runs if run.state.status == status.FINISHED]
    if not finished:
        majority = {}
        if task == "wnli" and not runs and label_shares:
            majority = {"accuracy": label_shares.get(submission.WNLI_MAJORITY, 0.0)}
        return TaskSummary(task, runs, None, majority, {}, {}, 0)
    best = max(finished, key=lambda run: tuple(run.state.results.values()))
    at_best_rate = [run.state.results for run in finished if run.run.rate == best.run.rate]
    values = {name: [results[name] for results in at_best_rate] for name in best.state.results}
    means = {name: statistics.fmean(scores) for name, scores in values.items()}
    deviations = {
        name: statistics.stdev(scores) for name, scores in values.items() if len(scores) > 1
    }
    return TaskSummary(
        task, runs, best, best.state.results, means, deviations, num_seeds=len(at_best_rate)
    )


def average(tasks: Sequence[TaskSummary]) -> float | None:
    """The mean score of the tasks with results; for all nine it is the GLUE score."""
    scores = [task.score for task in tasks if task.results]
    return statistics.fmean(scores) if scores else None


def is_complete(tasks: Sequence[TaskSummary]) -> bool:
    """Whether all nine tasks of the GLUE score have results."""
    return {task.name for task in tasks if task.results} == set(glue_runs.TASKS)
