"""What came out of the runs over GLUE, beside what was published: as text, Markdown and JSON.

All scores are of the dev sets. In the tables they are times 100, as they are usually quoted.
"""

from __future__ import annotations

import dataclasses
import json
import os
import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from system import atomic_files
from tasks.classifier import examples, glue_tasks
from tasks.glue import published, status, submission
from tasks.glue import runs as glue_runs
from training import progress

_CHANCE_CORRELATION = 0.1

# Results are read from text with the digits of a float32.
_ROUNDING = 1e-6


@dataclasses.dataclass(frozen=True)
class Outcome:
    """A run, how far it is, and whether what it learned is no better than a guess."""

    run: glue_runs.Run
    state: status.State
    at_chance: bool


@dataclasses.dataclass(frozen=True)
class Task:
    """What came out for a task.

    Attributes:
      name: of the task.
      outcomes: of all its runs.
      best: the finished run with the highest deciding metric, the first of ``glue``; of equal ones
        the other metrics decide, then the order. None where no run has finished.
      results: of the best run; of the majority class for wnli without runs.
      means, deviations: of each metric over the seeds at the best rate; the deviation is that of a
        sample, and missing for a single seed.
      seeds: how many those are.
    """

    name: str
    outcomes: tuple[Outcome, ...]
    best: Outcome | None
    results: dict[str, float]
    means: dict[str, float]
    deviations: dict[str, float]
    seeds: int

    @property
    def seconds(self) -> float:
        """Wall time of all runs."""
        return sum(outcome.state.seconds for outcome in self.outcomes)

    @property
    def score(self) -> float:
        """As GLUE counts the task: the mean of its metrics, of mnli's two sets; cola has one."""
        names = ["matthews"] if self.name == "cola" else list(self.results)
        return statistics.fmean(self.results[name] for name in names)


def at_chance(task: str, results: Mapping[str, float], shares: Mapping[str, float]) -> bool:
    """Whether a run has learned nothing that shows.

    Args:
      task: its name.
      results: of the dev set.
      shares: label → its share of the dev set; none for regression, or where it is not known.

    Returns:
      For regression, whether the deciding correlation is below 0.1; else whether the accuracy is
      not above that of always giving the commonest label.
    """
    spec = glue_tasks.TASKS[task]
    if spec.kind == examples.REGRESSION:
        return results[spec.metrics[0]] < _CHANCE_CORRELATION
    return bool(shares) and results["accuracy"] <= max(shares.values()) + _ROUNDING


def task_of(
    name: str,
    runs: Sequence[tuple[glue_runs.Run, status.State]],
    shares: Mapping[str, float],
) -> Task:
    """Sums up the runs of a task.

    Args:
      name: of the task.
      runs: in an order of preference among equals.
      shares: see ``at_chance``.
    """
    outcomes = tuple(
        Outcome(run, state, bool(state.results) and at_chance(name, state.results, shares))
        for run, state in runs
    )
    finished = [outcome for outcome in outcomes if outcome.state.kind == status.FINISHED]
    if not finished:
        majority = {}
        if name == "wnli" and not runs and shares:
            majority = {"accuracy": shares.get(submission.WNLI_MAJORITY, 0.0)}
        return Task(name, outcomes, None, majority, {}, {}, 0)
    best = max(finished, key=lambda outcome: tuple(outcome.state.results.values()))
    same = [x.state.results for x in finished if x.run.rate == best.run.rate]
    values = {key: [results[key] for results in same] for key in best.state.results}
    means = {key: statistics.fmean(found) for key, found in values.items()}
    deviations = {key: statistics.stdev(found) for key, found in values.items() if len(found) > 1}
    return Task(name, outcomes, best, best.state.results, means, deviations, len(same))


def average(tasks: Sequence[Task]) -> float | None:
    """The mean score of the tasks that have one; with all nine it is the GLUE score."""
    scores = [task.score for task in tasks if task.results]
    return statistics.fmean(scores) if scores else None


def is_whole(tasks: Sequence[Task]) -> bool:
    """Whether all nine tasks of the GLUE score have results."""
    return {task.name for task in tasks if task.results} == set(glue_runs.TASKS)


def write(directory: str, tasks: Sequence[Task]) -> str:
    """Writes summary.txt, summary.md and summary.json; returns the first one's text."""
    text = _page(tasks, directory, _aligned)
    atomic_files.write_text(os.path.join(directory, "summary.txt"), text)
    markdown = "# GLUE\n\n" + _page(tasks, directory, _markdown)
    atomic_files.write_text(os.path.join(directory, "summary.md"), markdown)
    whole = json.dumps(as_json(tasks), indent=2) + "\n"
    atomic_files.write_text(os.path.join(directory, "summary.json"), whole)
    return text


# --------------------------------------------------------------------------------------------------
# JSON
# --------------------------------------------------------------------------------------------------


def as_json(tasks: Sequence[Task]) -> dict[str, Any]:
    """Everything that is known, scores between 0 and 1, those of the paper as printed there."""
    mean = average(tasks)
    return {
        "tasks": {task.name: _task_json(task) for task in tasks},
        "average": mean,
        "glue_score": mean if is_whole(tasks) else None,
        "paper_test": published.PAPER_TEST,
        "paper_score": published.PAPER_SCORE,
        "later_dev": published.LATER_DEV,
    }


def _task_json(task: Task) -> dict[str, Any]:
    best = task.best
    return {
        "metrics": task.results,
        "score": task.score if task.results else None,
        "best": best and {"learning_rate": best.run.rate, "seed": best.run.seed},
        "without_model": not best and bool(task.results),
        "mean": task.means,
        "standard_deviation": task.deviations,
        "seeds_at_best_rate": task.seeds,
        "seconds": task.seconds,
        "runs": [
            {
                "learning_rate": outcome.run.rate,
                "seed": outcome.run.seed,
                "state": outcome.state.kind,
                "at_chance": outcome.at_chance,
                "metrics": outcome.state.results,
                "seconds": outcome.state.seconds,
                "exit_status": outcome.state.status,
                "log": outcome.run.log,
            }
            for outcome in task.outcomes
        ],
    }


# --------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------

_Rows = list[list[str]]


def _page(tasks: Sequence[Task], directory: str, render: Any) -> str:
    mean = average(tasks)
    lines = [render(_main_rows(tasks)), ""]
    if mean is not None:
        lines += [_average_line(tasks, mean), ""]
    lines += [
        "Scores are of the dev sets, times 100. Mean: over the seeds at the best rate, with the",
        "standard deviation and the number of seeds. BASE and LARGE: the paper's models, on the",
        "test sets (leaderboard), and on the dev sets as later papers give them (one metric; QQP",
        "accuracy). Runs marked at chance are no better than the commonest label, or correlate",
        "less than 0.1; they are counted like all others. They are named as rate/seed.",
        "",
        render(_run_rows(tasks, directory)),
        "",
    ]
    return "\n".join(lines)


def _average_line(tasks: Sequence[Task], mean: float) -> str:
    if is_whole(tasks):
        paper = ", ".join(f"{model} {score}" for model, score in published.PAPER_SCORE.items())
        return f"GLUE score on the dev sets: {100 * mean:.1f} (on the test sets: {paper})"
    there = [task.name for task in tasks if task.results]
    # Without a run wnli comes by itself when all others are there, if its dev set is.
    missing = [name for name in glue_runs.TASKS if name not in (*there, "wnli")] or ["wnli"]
    return (
        f"Average of {len(there)} of 9 tasks: {100 * mean:.1f} "
        f"(the GLUE score needs {', '.join(missing)} too)"
    )


def _main_rows(tasks: Sequence[Task]) -> _Rows:
    rows = [
        ["task", "metrics", "best", "lr", "seed", "mean", "runs", "at chance", "failed", "time"]
        + ["BASE dev", "BASE test", "LARGE dev", "LARGE test"]
    ]
    for task in tasks:
        metrics = list(task.results) or list(glue_tasks.TASKS[task.name].metrics)
        best = task.best
        rows.append(
            [
                task.name,
                "/".join(metrics),
                "/".join(_percent(task.results.get(metric)) for metric in metrics),
                glue_runs.rate_text(best.run.rate) if best else _no_run(task),
                str(best.run.seed) if best else "-",
                _mean(task, metrics[0]),
                _runs(task),
                _named([x for x in task.outcomes if x.at_chance]),
                _named([x for x in task.outcomes if x.state.kind == status.FAILED]),
                progress.duration(task.seconds),
                *_published(task.name, metrics),
            ]
        )
    return rows


def _no_run(task: Task) -> str:
    return "majority" if task.results else "-"


def _mean(task: Task, metric: str) -> str:
    if not task.means:
        return "-"
    spread = f" ± {100 * task.deviations[metric]:.1f}" if task.deviations else ""
    return f"{_percent(task.means[metric])}{spread} ({task.seeds})"


def _runs(task: Task) -> str:
    count = sum(outcome.state.kind == status.FINISHED for outcome in task.outcomes)
    total = len(task.outcomes)
    return str(total) if count == total else f"{count} of {total}"


def _named(outcomes: Sequence[Outcome]) -> str:
    names = [f"{glue_runs.rate_text(x.run.rate)}/{x.run.seed}" for x in outcomes]
    return ", ".join(names) or "-"


def _published(task: str, metrics: Sequence[str]) -> list[str]:
    cells = []
    for model, test in published.PAPER_TEST.items():
        scores = [str(test[task][metric]) for metric in metrics if metric in test[task]]
        cells += [str(published.LATER_DEV[model].get(task, "-")), "/".join(scores)]
    return cells


def _run_rows(tasks: Sequence[Task], directory: str) -> _Rows:
    rows = [["task", "lr", "seed", "state", "results", "time", "log"]]
    for task in tasks:
        for outcome in task.outcomes:
            run, state = outcome.run, outcome.state
            shown = [f"{name} {_percent(value)}" for name, value in state.results.items()]
            rows.append(
                [
                    task.name,
                    glue_runs.rate_text(run.rate),
                    str(run.seed),
                    _state(outcome, task.best),
                    ", ".join(shown) or "-",
                    progress.duration(state.seconds),
                    os.path.relpath(run.log, directory) if state.kind != status.NEW else "-",
                ]
            )
    return rows


def _state(outcome: Outcome, best: Outcome | None) -> str:
    if outcome.state.kind == status.FAILED:
        return f"failed, {exit_text(outcome.state.status)}"
    marks = ["best"] if outcome is best else []
    marks += ["at chance"] if outcome.at_chance else []
    return ", ".join([outcome.state.kind, *marks])


def exit_text(status: int) -> str:
    """An exit status in words."""
    if status < 0:
        return f"killed by signal {-status}"
    return f"exit status {status}" if status else "no results"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _aligned(rows: _Rows) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([padded[0], rule, *padded[1:]])


def _markdown(rows: _Rows) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
