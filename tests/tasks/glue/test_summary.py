"""The best run, means, marks and tables, against numbers calculated by hand."""

import json

import pytest

from tasks.classifier import glue_tasks
from tasks.glue import published, status, summary, summary_files
from tasks.glue import runs as glue_runs

FINISHED, FAILED = status.FINISHED, status.FAILED


def _run(task, rate, seed):
    name = f"lr{glue_runs.rate_text(rate)}-seed{seed}"
    return glue_runs.Run(task, rate, seed, f"out/{task}/{name}")


def _finished(task, rate, seed, *scores, seconds=60.0, names=None):
    results = dict(zip(names or glue_tasks.TASKS[task].metrics, scores, strict=True))
    return _run(task, rate, seed), status.RunState(FINISHED, results, seconds)


def _failed(task, rate, seed, exit_status):
    return _run(task, rate, seed), status.RunState(FAILED, {}, 5.0, exit_status)


def _mrpc():
    """Seeds 1 to 3 at two rates; the dev set has 68 % of label 1."""
    runs = [
        _finished("mrpc", 5e-5, 1, 0.81, 0.68),  # all rows labelled 1
        _finished("mrpc", 5e-5, 2, 0.90, 0.85),
        _failed("mrpc", 5e-5, 3, -9),
        _finished("mrpc", 2e-5, 1, 0.88, 0.84),
        _finished("mrpc", 2e-5, 2, 0.91, 0.87, seconds=3600.0),
        _finished("mrpc", 2e-5, 3, 0.85, 0.60),
    ]
    return summary.summarize("mrpc", dict(runs), {"1": 0.68, "0": 0.32})


def test_the_best_run_and_the_mean_over_seeds_at_its_rate():
    task = _mrpc()
    assert (task.best.run.rate, task.best.run.seed) == (2e-5, 2)
    assert task.results == {"f1": 0.91, "accuracy": 0.87}
    assert task.num_seeds == 3
    assert task.means["f1"] == pytest.approx(0.88)
    # Deviations 0, 0.03 and -0.03: the square root of 0.0018 / 2.
    assert task.deviations["f1"] == pytest.approx(0.03)
    assert task.means["accuracy"] == pytest.approx(0.77)
    assert task.seconds == 4 * 60 + 3600 + 5
    assert task.score == pytest.approx(0.89)
    # Runs at chance are marked, and counted like the others.
    assert [x.run.seed for x in task.runs if x.at_chance] == [1, 3]


def test_ties_are_broken_by_the_next_metric_then_by_order():
    runs = [
        _finished("mrpc", 5e-5, 1, 0.9, 0.80),
        _finished("mrpc", 4e-5, 1, 0.9, 0.85),
        _finished("mrpc", 3e-5, 1, 0.9, 0.85),
    ]
    assert summary.summarize("mrpc", dict(runs), {}).best.run.rate == 4e-5
    task = summary.summarize("mrpc", dict(runs[:1]), {})
    assert task.means == {"f1": 0.9, "accuracy": 0.8} and task.deviations == {}


@pytest.mark.parametrize(
    "task, results, at_chance",
    [
        ("rte", {"accuracy": 0.5271}, False),
        ("rte", {"accuracy": 0.5270758}, True),  # 146 of 277, as a float32 is written
        ("rte", {"accuracy": 0.45}, True),
        ("cola", {"matthews": 0.3, "accuracy": 0.5}, True),
        ("cola", {"matthews": 0.0, "accuracy": 0.53}, False),
        ("sts-b", {"spearman": 0.0999, "pearson": 0.3}, True),
        ("sts-b", {"spearman": 0.1, "pearson": 0.0}, False),
        ("sts-b", {"spearman": -0.5, "pearson": -0.5}, True),
    ],
)
def test_at_chance(task, results, at_chance):
    shares = {} if task == "sts-b" else {"a": 146 / 277, "b": 131 / 277}
    assert summary.at_chance(task, results, shares) is at_chance


def test_nothing_is_at_chance_if_the_shares_are_unknown():
    assert summary.at_chance("rte", {"accuracy": 0.1}, {}) is False


def _nine():
    """Scores 0.1 to 0.9 in the order of the tasks, so the mean is 0.5."""
    tasks = []
    for index, name in enumerate(glue_runs.TASKS[:-1], 1):
        names = ("accuracy", "mm_accuracy") if name == "mnli" else glue_tasks.TASKS[name].metrics
        value = index / 10
        # The mean of both metrics is the score, but accuracy does not count in cola.
        scores = {1: [value], 2: [value + 0.05, value - 0.05]}[len(names)]
        scores = [value, 0.99] if name == "cola" else scores
        run = _finished(name, 2e-5, 1, *scores, names=names)
        tasks.append(summary.summarize(name, dict([run]), {}))
    return [*tasks, summary.summarize("wnli", {}, {"0": 0.9, "1": 0.1})]


def test_the_glue_score_takes_all_nine_tasks():
    tasks = _nine()
    assert [round(task.score, 9) for task in tasks] == [x / 10 for x in range(1, 10)]
    assert summary.is_complete(tasks) and summary.average(tasks) == pytest.approx(0.5)
    found = summary_files.to_json(tasks)
    assert found["glue_score"] == found["average"] == pytest.approx(0.5)
    assert found["tasks"]["wnli"]["without_model"] is True
    some = tasks[:3]
    found = summary_files.to_json(some)
    assert found["glue_score"] is None and found["average"] == pytest.approx(0.2)
    assert summary.average([]) is None


def test_what_is_published_fits_the_tasks_and_the_leaderboard_score():
    for model, rows in published.PAPER_TEST.items():
        assert set(rows) == set(glue_runs.TASKS)
        scores = []
        for task, results in rows.items():
            metrics = set(glue_tasks.TASKS[task].metrics) | (
                {"mm_accuracy"} if task == "mnli" else set()
            )
            assert set(results) <= metrics
            scores.append(sum(results.values()) / len(results))
        assert sum(scores) / 9 == pytest.approx(published.PAPER_SCORE[model], abs=0.06)


def test_the_files(tmp_path):
    rte = summary.summarize("rte", dict([_failed("rte", 2e-5, 4, 1)]), {"0": 0.5, "1": 0.5})
    text = summary_files.write(str(tmp_path), [_mrpc(), rte])
    assert text == (tmp_path / "summary.txt").read_text()
    main, runs = text.split("\n\n")[0].splitlines(), text.split("\n\n")[-1].splitlines()
    cells = [cell.strip() for cell in main[2].split("  ") if cell.strip()]
    assert cells == [
        *("mrpc", "f1/accuracy", "91.0/87.0", "2e-5", "2", "88.0 ± 3.0 (3)", "5 of 6"),
        *("5e-5/1, 2e-5/3", "5e-5/3", "1h04m", "88.6", "88.9/84.8", "88.0", "89.3/85.4"),
    ]
    cells = [cell.strip() for cell in main[3].split("  ") if cell.strip()]
    assert cells == [
        *("rte", "accuracy", "-", "-", "-", "-", "0 of 1", "-", "2e-5/4", "5s"),
        *("69.3", "66.4", "70.4", "70.1"),
    ]
    assert "Average of 1 of 9 tasks: 89.0 (the GLUE score needs cola, sst-2, sts-b" in text
    found = [" ".join(line.split()) for line in runs]
    assert found[2].startswith("mrpc 5e-5 1 finished, at chance f1 81.0, accuracy 68.0 1m00s ")
    assert found[4].startswith("mrpc 5e-5 3 failed, killed by signal 9 - 5s ")
    assert found[4].endswith("mrpc/lr5e-5-seed3/log.txt")
    assert found[6].startswith("mrpc 2e-5 2 finished, best f1 91.0")
    assert found[8].startswith("rte 2e-5 4 failed, exit status 1 - 5s ")
    markdown = (tmp_path / "summary.md").read_text()
    row = "| mrpc | f1/accuracy | 91.0/87.0 | 2e-5 | 2 | 88.0 ± 3.0 (3) | 5 of 6 |"
    assert row in markdown
    found = json.loads((tmp_path / "summary.json").read_text())["tasks"]
    assert found["mrpc"]["best"] == {"learning_rate": 2e-5, "seed": 2}
    failed = found["rte"]["runs"][0]
    assert (
        failed["state"] == "failed" and failed["exit_status"] == 1 and found["rte"]["best"] is None
    )
    assert failed["log"] == "out/rte/lr2e-5-seed4/log.txt"


def test_the_glue_score_is_printed_beside_the_papers(tmp_path):
    text = summary_files.write(str(tmp_path), _nine())
    assert "GLUE score on the dev sets: 50.0 (on the test sets: BERT-BASE 78.3" in text
    assert "majority" in text


def test_exit_statuses_in_words():
    found = [summary_files.exit_text(number) for number in (1, -15, 0)]
    assert found == ["exit status 1", "killed by signal 15", "no results"]
