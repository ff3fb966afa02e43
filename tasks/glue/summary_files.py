"""Writes the summary of a GLUE search beside published scores, as text, Markdown and JSON.

In the tables scores are times 100, as they are usually quoted.
"""

import json
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from system import atomic_files
from tasks.classifier import glue_tasks
from tasks.glue import published, status, summary
from tasks.glue import runs as glue_runs
from training import progress

_Rows = list[list[str]]


def write(directory: str, tasks: Sequence[summary.TaskSummary]) -> str:
    """Writes summary.txt, summary.md and summary.json; returns the text of the first."""
    text = _page(tasks, directory, _text_table)
    files = {
        "summary.txt": text,
        "summary.md": "# GLUE\n\n" + _page(tasks, directory, _markdown_table),
        "summary.json": json.dumps(to_json(tasks), indent=2) + "\n",
    }
    for name, content in files.items():
        atomic_files.write_text(os.path.join(directory, name), content)
    return text


# --------------------------------------------------------------------------------------------------
# JSON
# --------------------------------------------------------------------------------------------------


def to_json(tasks: Sequence[summary.TaskSummary]) -> dict[str, Any]:
    """All results and the published scores, all between 0 and 1 (correlations: -1 and 1)."""
    mean = summary.average(tasks)
    return {
        "tasks": {task.name: _task_json(task) for task in tasks},
        "average": mean,
        "glue_score": mean if summary.is_complete(tasks) else None,
        "paper_test": _fractions(published.PAPER_TEST),
        "paper_score": _fractions(published.PAPER_SCORE),
        "later_dev": _fractions(published.LATER_DEV),
    }


def _fractions(percentages: Any) -> Any:
    """Hundredths of all numbers in nested mappings."""
    if isinstance(percentages, Mapping):
        return {name: _fractions(value) for name, value in percentages.items()}
    return round(percentages / 100, 6)


def _task_json(task: summary.TaskSummary) -> dict[str, Any]:
    best = task.best
    return {
        "metrics": task.results,
        "score": task.score if task.results else None,
        "best": best and {"learning_rate": best.run.rate, "seed": best.run.seed},
        "without_model": not best and bool(task.results),
        "mean": task.means,
        "standard_deviation": task.deviations,
        "seeds_at_best_rate": task.num_seeds,
        "seconds": task.seconds,
        "runs": [
            {
                "learning_rate": item.run.rate,
                "seed": item.run.seed,
                "state": item.state.status,
                "at_chance": item.at_chance,
                "metrics": item.state.results,
                "seconds": item.state.seconds,
                "exit_status": item.state.exit_status,
                "log": item.run.log,
            }
            for item in task.runs
        ],
    }


# --------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------


def _page(
    tasks: Sequence[summary.TaskSummary], directory: str, render: Callable[[_Rows], str]
) -> str:
    mean = summary.average(tasks)
    lines = [render(_task_rows(tasks)), ""]
    if mean is not None:
        lines += [_average_line(tasks, mean), ""]
    lines += [
        "Scores are those of the dev sets, times 100. Mean: over the seeds at the best rate, with",
        "the standard deviation and the number of seeds. BASE and LARGE: the models of the paper,",
        "on the test sets (leaderboard), and on the dev sets as later papers report them (one",
        "metric; QQP accuracy). Runs marked at chance are no better than the most frequent label,",
        "or correlate less than 0.1; they are counted like all others. Names are rate/seed.",
        "",
        render(_run_rows(tasks, directory)),
        "",
    ]
    return "\n".join(lines)


def _average_line(tasks: Sequence[summary.TaskSummary], mean: float) -> str:
    if summary.is_complete(tasks):
        paper = ", ".join(f"{model} {score}" for model, score in published.PAPER_SCORE.items())
        return f"GLUE score on the dev sets: {100 * mean:.1f} (on the test sets: {paper})"
    names = [task.name for task in tasks if task.results]
    # wnli is added by itself when all others have results, if its dev set exists.
    missing = [name for name in glue_runs.TASKS if name not in (*names, "wnli")] or ["wnli"]
    return (
        f"Average of {len(names)} of 9 tasks: {100 * mean:.1f} "
        f"(the GLUE score needs {', '.join(missing)} too)"
    )


def _task_rows(tasks: Sequence[summary.TaskSummary]) -> _Rows:
    rows = [
        ["task", "metrics", "best", "lr", "seed", "mean", "runs", "at chance", "failed", "time"]
        + ["BASE dev", "BASE test", "LARGE dev", "LARGE test"]
    ]
    for task in tasks:
        metrics = list(task.results) or list(glue_tasks.TASKS[task.name].metrics)
        best, failed = task.best, status.FAILED
        without_run = "majority" if task.results else "-"
        rows.append(
            [
                task.name,
                "/".join(metrics),
                "/".join(_percent(task.results.get(metric)) for metric in metrics),
                glue_runs.rate_text(best.run.rate) if best else without_run,
                str(best.run.seed) if best else "-",
                _mean(task, metrics[0]),
                _run_count(task),
                _run_names([item for item in task.runs if item.at_chance]),
                _run_names([item for item in task.runs if item.state.status == failed]),
                progress.duration(task.seconds),
                *_published_scores(task.name, metrics),
            ]
        )
    return rows


def _mean(task: summary.TaskSummary, metric: str) -> str:
    if not task.means:
        return "-"
    deviation = f" ± {100 * task.deviations[metric]:.1f}" if task.deviations else ""
    return f"{_percent(task.means[metric])}{deviation} ({task.num_seeds})"


def _run_count(task: summary.TaskSummary) -> str:
    count = sum(item.state.status == status.FINISHED for item in task.runs)
    total = len(task.runs)
    return str(total) if count == total else f"{count} of {total}"


def _run_names(items: Sequence[summary.RunSummary]) -> str:
    names = [f"{glue_runs.rate_text(item.run.rate)}/{item.run.seed}" for item in items]
    return ", ".join(names) or "-"


def _published_scores(task: str, metrics: Sequence[str]) -> list[str]:
    cells = []
    for model, test in published.PAPER_TEST.items():
        scores = [str(test[task][metric]) for metric in metrics if metric in test[task]]
        cells += [str(published.LATER_DEV[model].get(task, "-")), "/".join(scores)]
    return cells


def _run_rows(tasks: Sequence[summary.TaskSummary], directory: str) -> _Rows:
    rows = [["task", "lr", "seed", "state", "results", "time", "log"]]
    for task in tasks:
        for item in task.runs:
            run, state = item.run, item.state
            results = [f"{name} {_percent(value)}" for name, value in state.results.items()]
            rows.append(
                [
                    task.name,
                    glue_runs.rate_text(run.rate),
                    str(run.seed),
                    _state(item, is_best=item is task.best),
                    ", ".join(results) or "-",
                    progress.duration(state.seconds),
                    os.path.relpath(run.log, directory) if state.status != status.NEW else "-",
                ]
            )
    return rows


def _state(item: summary.RunSummary, is_best: bool) -> str:
    if item.state.status == status.FAILED:
        return f"failed, {exit_text(item.state.exit_status)}"
    marks = ["best"] if is_best else []
    marks += ["at chance"] if item.at_chance else []
    return ", ".join([item.state.status, *marks])


def exit_text(exit_status: int) -> str:
    """The exit status of a failed run in words."""
    if exit_status < 0:
        return f"killed by signal {-exit_status}"
    if exit_status > 128:
        return f"stopped by signal {exit_status - 128}"
    return f"exit status {exit_status}" if exit_status else "no results"


def _percent(value: float | None) -> str:
    return "-" if value is None else f"{100 * value:.1f}"


def _text_table(rows: _Rows) -> str:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]
    rule = "  ".join("-" * width for width in widths)
    return "\n".join([padded[0], rule, *padded[1:]])


def _markdown_table(rows: _Rows) -> str:
    lines = [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join([lines[0], "|" + "---|" * len(rows[0]), *lines[1:]])
