"""The recipes run as they stand, on a tiny model and a few rows."""

import json
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import documented
import processes
import squad_files
import tiny_glue
import tiny_squad

RECIPES = pathlib.Path(__file__).resolve().parents[1] / "recipes"
SQUAD_FLAGS = "--max_seq_length=40 --max_query_length=8"

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A released model's folder, GLUE and SQuAD."""
    folder = tmp_path_factory.mktemp("recipes")
    documented.write_released_model(folder / "uncased_tiny")
    tiny_glue.write_all(folder / "glue")
    documented.write_squad(folder / "squad")
    documented.write_triviaqa(folder / "triviaqa", 600)
    return folder


def _start(folder, recipe, output, **variables):
    bert = str(folder / "uncased_tiny")
    places = {"GLUE_DIR": "glue", "SQUAD_DIR": "squad"}
    environment = {
        **os.environ,
        "PATH": f"{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
        "BERT_DIR": bert,
        "BERT_BASE_DIR": bert,
        **{name: str(folder / place) for name, place in places.items()},
        **variables,
    }
    command = ["sh", str(RECIPES / recipe), str(output)]
    return subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def _run(folder, recipe, output, **variables):
    process = _start(folder, recipe, output, **variables)
    text, _ = process.communicate(timeout=3 * processes.LAST_RESORT)
    assert process.returncode == 0, text[-2000:]
    return text


def test_mrpc(folder, tmp_path):
    _run(folder, "mrpc.sh", tmp_path / "run")
    assert "eval_accuracy" in (tmp_path / "run/eval_results.txt").read_text()
    lines = (tmp_path / "run/predictions/test_results.tsv").read_text().splitlines()
    assert len(lines) == 5


def test_glue(folder, tmp_path):
    flags = "--tasks=rte,sts-b --learning_rates=1e-3 --max_seq_length=16"
    _run(folder, "glue.sh", tmp_path / "run", RUN_GLUE_FLAGS=flags)
    assert "rte" in (tmp_path / "run/summary.txt").read_text().lower()
    predicted = list((tmp_path / "run").glob("*/test/test_results.tsv"))
    assert len(predicted) == 2


def test_squad_after_triviaqa(folder, tmp_path):
    run = tmp_path / "run"
    more = {"TRIVIAQA_DIR": str(folder / "triviaqa"), "RUN_SQUAD_FLAGS": SQUAD_FLAGS}
    text = _run(folder, "squad1.sh", run, **more)
    assert "600 examples" in text
    assert f"--init_checkpoint={run}/triviaqa/weights" in text
    found = json.loads((run / "squad/eval_results.json").read_text())
    assert {"exact_match", "f1", "global_step"} == found.keys()
    assert len(json.loads((run / "squad/predictions.json").read_text())) == 13


def test_a_stopped_stage_is_not_taken_for_a_trained_one(folder, tmp_path):
    run = tmp_path / "run"
    flags = f"{SQUAD_FLAGS} --train_batch_size=1 --log_steps=1"
    more = {"TRIVIAQA_DIR": str(folder / "triviaqa"), "RUN_SQUAD_FLAGS": flags}
    process = _start(folder, "squad1.sh", run, **more)
    processes.wait_until((run / "triviaqa/metrics.jsonl").exists, process)
    for child in (
        pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    ):
        os.kill(int(child), signal.SIGTERM)
    text, _ = process.communicate(timeout=processes.LAST_RESORT)
    assert process.returncode == 143, text
    assert not (run / "squad").exists()


def test_squad_2_with_questions_of_ones_own(folder, tmp_path):
    run = tmp_path / "run"
    test = tiny_squad.write_json(
        tmp_path / "test.json", ("a red b", [squad_files.question("mine")])
    )
    text = _run(folder, "squad2.sh", run, RUN_SQUAD_FLAGS=SQUAD_FLAGS, TEST_FILE=test)
    threshold = json.loads((run / "null_threshold.json").read_text())["null_score_diff_threshold"]
    assert f"null_score_diff_threshold {threshold} of {run}/null_threshold.json" in text
    assert list(json.loads((run / "predictions.json").read_text())) == ["mine"]
