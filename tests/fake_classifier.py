"""Stands for run_classifier.py where the work itself is not at stake: no TensorFlow, no model.

It leaves the files that the real one leaves, and predicts what its seed and rate say: other runs
predict otherwise. FAKE_PLAN, a JSON object, says what happens: by ``<task> <rate> <seed>`` or
``<task> predict`` a list of scores for the task's metrics, "fail", "refuse" (the flags), or "wait"
(until SIGTERM, upon which it saves and ends well, as the real one does). Each start adds a line to
FAKE_STARTS. FAKE_PAUSE is a time in seconds that passes before each file.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import checkpoint_files
import command_line
import run_classifier
from tasks import glue


def main() -> int:
    groups, _ = command_line.parse(sys.argv[1:], run_classifier.GROUPS)
    flags = {name: value for group in groups for name, value in vars(group).items()}
    output = pathlib.Path(flags["output_dir"])
    name = f"{flags['task_name']} {flags['learning_rate']:g} {flags['random_seed']}"
    if flags["do_predict"]:
        name = f"{flags['task_name']} predict"
    with open(os.environ["FAKE_STARTS"], "a") as file:
        threads = os.environ.get("TF_NUM_INTRAOP_THREADS", "all")
        file.write(f"{name} pid={os.getpid()} threads={threads}\n")
    _write(output / "run.json", json.dumps({"flags": flags}))
    plan = json.loads(os.environ.get("FAKE_PLAN", "{}"))
    todo = plan.get(name, 0.5)
    if todo in ("fail", "refuse"):
        why = "step 7: not finite" if todo == "fail" else "--freeze_layers=99: the model has 1"
        print(f"run_classifier.py: error: {why}", file=sys.stderr)
        return 1 if todo == "fail" else 2
    if todo == "wait":
        if not (output / "checkpoint").exists():
            return _wait(flags, output)
        todo = 0.5  # resumed
    if flags["do_predict"]:
        return _predict(flags, output)
    _save(flags, output, 9)
    metrics = glue.TASKS[flags["task_name"]].metrics
    scores = todo if isinstance(todo, list) else [todo] * len(metrics)
    lines = [f"eval_{metric} = {score}\n" for metric, score in zip(metrics, scores, strict=True)]
    for file in ["eval_results", *(f"eval_results-{x}" for x in _others(flags))]:
        _write(output / f"{file}.txt", "".join(lines) + "global_step = 9\nloss = 0.5\n")
    return 0


def _write(path, text):
    time.sleep(float(os.environ.get("FAKE_PAUSE", "0")))
    checkpoint_files.write_text(str(path), text)


def _others(flags):
    return [name for name in flags["also_tasks"].split(",") if name]


def _save(flags, output, step):
    for ending in ("index", "data-00000-of-00001", "state.json"):
        weights = f"{flags['random_seed']} {flags['learning_rate']}"
        _write(output / f"model.ckpt-{step}.{ending}", weights)
    _write(output / "checkpoint", f'model_checkpoint_path: "model.ckpt-{step}"\n')


def _wait(flags, output):
    def stop(*_):
        _save(flags, output, 4)
        print("stopped at step 4")
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    (output / "waiting").touch()
    time.sleep(60)
    return 1


def said_of(task: str, row: int, seed: int, rate: float) -> str:
    """What a run with this seed and rate says of a row of a test set, as its prediction's line."""
    labels = glue.TASKS[task].labels
    number = row + seed + round(rate * 1e5)
    if not labels:
        return f"{number % 7 + 0.25}"
    return "\t".join("0.8" if i == number % len(labels) else "0.1" for i in range(len(labels)))


def _predict(flags, output):
    weights = pathlib.Path(flags["init_checkpoint"], "model.ckpt-9.index")
    if not weights.exists():
        print(f"run_classifier.py: error: {weights}: not found", file=sys.stderr)
        return 1
    seed, rate = weights.read_text().split()
    for index, name in enumerate([flags["task_name"], *_others(flags)]):
        spec = glue.TASKS[name]
        folder = flags["data_dir"]
        if name == "ax":
            folder = glue.find_directory(os.path.dirname(folder), spec)
        count = len(glue.create_processor(name).get_test_examples(folder))
        lines = [said_of(name, row, int(seed), float(rate)) + "\n" for row in range(count)]
        file = "test_results.tsv" if not index else f"test_results-{name}.tsv"
        _write(output / file, "".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
