"""Stands for run_classifier.py where the work itself is not at stake: no TensorFlow, no model.

It leaves the files that the real one leaves. FAKE_PLAN, a JSON object, says what happens: by
``<task> <rate> <seed>`` or ``<task> predict`` a list of scores for the task's metrics, "fail", or
"wait" (until SIGTERM, upon which it saves and ends well, as the real one does). Each start adds a
line to FAKE_STARTS.
"""

from __future__ import annotations

import json
import os
import pathlib
import signal
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
import command_line
import options
from tasks import glue

GROUPS = [
    options.ClassifierOptions,
    options.TokenizerOptions,
    options.ModelOptions,
    options.FineTuningOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
]


def main() -> int:
    groups, _ = command_line.parse(sys.argv[1:], GROUPS)
    flags = {name: value for group in groups for name, value in vars(group).items()}
    output = pathlib.Path(flags["output_dir"])
    name = f"{flags['task_name']} {flags['learning_rate']:g} {flags['random_seed']}"
    if flags["do_predict"]:
        name = f"{flags['task_name']} predict"
    with open(os.environ["FAKE_STARTS"], "a") as file:
        threads = os.environ.get("TF_NUM_INTRAOP_THREADS", "all")
        file.write(f"{name} pid={os.getpid()} threads={threads}\n")
    (output / "run.json").write_text(json.dumps({"flags": flags}))
    plan = json.loads(os.environ.get("FAKE_PLAN", "{}"))
    todo = plan.get(name, 0.5)
    if todo == "fail":
        print("run_classifier.py: error: step 7: not finite", file=sys.stderr)
        return 1
    if todo == "wait":
        if not (output / "checkpoint").exists():
            return _wait(output)
        todo = 0.5  # resumed
    if flags["do_predict"]:
        _predict(flags, output)
        return 0
    _save(output, 9)
    metrics = glue.TASKS[flags["task_name"]].metrics
    scores = todo if isinstance(todo, list) else [todo] * len(metrics)
    lines = [f"eval_{metric} = {score}\n" for metric, score in zip(metrics, scores, strict=True)]
    for file in ["eval_results", *(f"eval_results-{x}" for x in _others(flags))]:
        (output / f"{file}.txt").write_text("".join(lines) + "global_step = 9\nloss = 0.5\n")
    return 0


def _others(flags):
    return [name for name in flags["also_tasks"].split(",") if name]


def _save(output, step):
    for ending in ("index", "data-00000-of-00001", "state.json"):
        (output / f"model.ckpt-{step}.{ending}").write_text("weights")
    (output / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')


def _wait(output):
    def stop(*_):
        _save(output, 4)
        print("stopped at step 4")
        sys.exit(0)

    signal.signal(signal.SIGTERM, stop)
    (output / "waiting").touch()
    time.sleep(60)
    return 1


def _predict(flags, output):
    for index, name in enumerate([flags["task_name"], *_others(flags)]):
        spec = glue.TASKS[name]
        folder = flags["data_dir"]
        if name == "ax":
            folder = glue.find_directory(os.path.dirname(folder), spec)
        count = len(glue.create_processor(name).get_test_examples(folder))
        row = "7.25" if not spec.labels else "\t".join(["0.1"] * (len(spec.labels) - 1) + ["0.8"])
        file = "test_results.tsv" if not index else f"test_results-{name}.tsv"
        (output / file).write_text(f"{row}\n" * count)


if __name__ == "__main__":
    sys.exit(main())
