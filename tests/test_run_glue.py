"""run_glue.py from the command line to its files; the runs are made up unless a test says real."""

from __future__ import annotations

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import zipfile

import pytest
import tiny_glue

import glue_runs
import run_glue

HERE = pathlib.Path(__file__).resolve().parent
FAKE = [sys.executable, str(HERE / "fake_classifier.py")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    tiny_glue.write_model(folder)
    tiny_glue.write_all(folder / "glue")
    return folder


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Makes runs of fake_classifier. Call it to set its plan; ``started`` tells its new starts."""
    starts = tmp_path / "starts"
    monkeypatch.setattr(glue_runs, "CLASSIFIER", FAKE)
    monkeypatch.setenv("FAKE_STARTS", str(starts))
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)

    def plan(**todo):
        monkeypatch.setenv("FAKE_PLAN", json.dumps(todo["plan"]))

    def started():
        lines = starts.read_text().splitlines() if starts.exists() else []
        starts.unlink(missing_ok=True)
        return lines

    plan.started = started
    return plan


def _flags(folder, output, *more):
    return [
        f"--data_dir={folder / 'glue'}",
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'config.json'}",
        f"--output_dir={output}",
        "--max_seq_length=16",
        *more,
    ]


def _main(*arguments):
    return run_glue.main(["run_glue.py", *map(str, arguments)])


def _names(lines):
    return [line.split(" pid=")[0] for line in lines]


def test_all_of_glue_to_the_submission(folder, tmp_path, fake, caplog, capsys):
    caplog.set_level("INFO")
    out = tmp_path / "out"
    fake(plan={"mrpc 2e-05 1": [0.75, 0.875], "mrpc 5e-05 1": [0.75, 0.9]})
    flags = _flags(folder, out, "--learning_rates=5e-5,2e-5")
    assert _main(*flags) == 0
    tasks = ["cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli", "qnli", "rte"]
    expected = []
    for task in tasks:  # in the order of the flags, and a task's prediction after its runs
        expected += [f"{task} 5e-05 1", f"{task} 2e-05 1", f"{task} predict"]
    assert _names(fake.started()) == expected
    with zipfile.ZipFile(out / "submission.zip") as archive:
        files = {name: archive.read(name).decode() for name in archive.namelist()}
    head = "index\tprediction\n"
    assert len(files) == 11
    assert files["MRPC.tsv"] == head + "0\t1\n1\t1\n2\t1\n3\t1\n4\t1\n"
    assert files["QQP.tsv"].split("\n")[1] == "10\t1"  # the id of the row
    assert files["STS-B.tsv"] == head + "".join(f"{i}\t5.000\n" for i in range(5))
    assert files["MNLI-mm.tsv"].split("\n")[5] == "4\tneutral"
    assert files["AX.tsv"] == head + "".join(f"{i}\tneutral\n" for i in range(4))
    assert files["RTE.tsv"].split("\n")[1] == "0\tnot_entailment"
    assert files["WNLI.tsv"] == head + "".join(f"{i}\t0\n" for i in range(146))

    summary = json.loads((out / "summary.json").read_text())
    assert summary["tasks"]["mrpc"]["best"] == {"learning_rate": 5e-5, "seed": 1}
    # All at 0.5 but mrpc, (0.75 + 0.9) / 2, and wnli, where 4 of 6 dev rows have the majority.
    assert summary["glue_score"] == pytest.approx((7 * 0.5 + 0.825 + 4 / 6) / 9, abs=1e-9)
    assert "GLUE score on the dev sets: 55.5" in capsys.readouterr().out
    lines = [record.getMessage() for record in caplog.records]
    assert any(
        re.fullmatch(
            r"\[5/16\] mrpc lr=5e-5 seed=1: f1 = 0.75, accuracy = 0.9 \(\ds\), about \d+s left",
            line,
        )
        for line in lines
    )
    assert "--task_name=mrpc" in (out / "mrpc/lr5e-5-seed1/log.txt").read_text().splitlines()[0]

    # Nothing is left to do, and the files stay as they are.
    before = (out / "summary.txt").read_text(), (out / "submission.zip").read_bytes()
    assert _main(*flags) == 0
    assert fake.started() == []
    assert before == ((out / "summary.txt").read_text(), (out / "submission.zip").read_bytes())


def test_tasks_of_several_commands_share_a_directory(folder, tmp_path, fake, caplog):
    caplog.set_level("INFO")
    common = _flags(folder, tmp_path / "out", "--learning_rates=2e-5")
    assert _main(*common, "--tasks=rte,wnli") == 0
    assert "no submission.zip yet: it needs CoLA.tsv (cola), SST-2.tsv (sst-2)" in caplog.text
    assert not (tmp_path / "out/submission.zip").exists()
    text = (tmp_path / "out/summary.txt").read_text()
    assert "Average of 2 of 9 tasks: 50.0" in text
    # Another length is another matter for another task.
    rest = "--tasks=cola,sst-2,mrpc,sts-b,qqp,mnli,qnli"
    assert _main(*common, rest, "--max_seq_length=12", "--num_train_epochs=2") == 0
    with zipfile.ZipFile(tmp_path / "out/submission.zip") as archive:
        # wnli was trained, so its model speaks.
        assert archive.read("WNLI.tsv").decode() == "index\tprediction\n" + "".join(
            f"{i}\t1\n" for i in range(5)
        )
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["glue_score"] == pytest.approx(0.5)
    assert list(summary["tasks"]) == list(glue_runs.TASKS)


def test_no_test_set_is_a_note(folder, tmp_path, fake, caplog):
    caplog.set_level("INFO")
    directory = tiny_glue.write_task(tmp_path / "glue", "qnli", test=False)
    flags = _flags(folder, tmp_path / "out", f"--data_dir={tmp_path / 'glue'}")
    assert _main(*flags, "--tasks=QNLI", "--learning_rates=2e-5") == 0
    assert f"qnli: no test set in {directory}, so no predictions" in caplog.text
    assert _names(fake.started()) == ["qnli 2e-05 1"]


def test_jobs_share_the_cores(folder, tmp_path, fake, monkeypatch):
    flags = _flags(folder, tmp_path / "out", "--tasks=rte", "--learning_rates=2e-5", "--seeds=1,2")
    assert _main(*flags, "--jobs=2") == 0
    cores = len(os.sched_getaffinity(0))
    assert [line.split("threads=")[1] for line in fake.started()] == [str(max(1, cores // 2))] * 3
    assert _main(*flags, "--seeds=3") == 0
    assert [line.split("threads=")[1] for line in fake.started()] == ["all"]


def test_a_failed_run_gives_exit_status_1_after_all_others(folder, tmp_path, fake, capsys):
    fake(plan={"rte 2e-05 1": "fail"})
    flags = _flags(folder, tmp_path / "out", "--tasks=rte", "--learning_rates=2e-5", "--seeds=1,2")
    assert _main(*flags) == 1
    shown = capsys.readouterr()
    log = tmp_path / "out/rte/lr2e-5-seed1/log.txt"
    assert f"run_glue.py: error: failed: rte lr=2e-5 seed=1 ({log})" in shown.err
    assert "failed, exit status 1" in shown.out
    assert _names(fake.started()) == ["rte 2e-05 1", "rte 2e-05 2", "rte predict"]
    assert _main(*flags, "--num_train_epochs=4") == 2
    assert "lr2e-5-seed2 was made with --num_train_epochs=3.0, not 4.0" in capsys.readouterr().err
    fake(plan={"rte 2e-05 1": 0.4})
    assert _main(*flags) == 0
    assert _names(fake.started()) == ["rte 2e-05 1"]


@pytest.mark.parametrize(
    "flag, status, message",
    [
        ("--tasks=mrcp", 2, "--tasks: mrcp is no task of GLUE; did you mean mrpc?"),
        ("--tasks=xnli", 2, "--tasks: xnli is no task of GLUE; expected some of cola"),
        ("--tasks=mnli,ax", 2, "--tasks: ax has no training set of its own; mnli includes it"),
        ("--tasks=mrpc,,rte", 2, "--tasks=mrpc,,rte: an item is empty"),
        ("--tasks=sst2,rte,SST-2", 2, "--tasks=sst2,rte,SST-2: sst-2 stands there twice"),
        ("--learning_rates=2e-5,fast", 2, "--learning_rates: fast is not a number above 0"),
        ("--learning_rates=0", 2, "--learning_rates: 0 is not a number above 0"),
        ("--learning_rates=nan", 2, "--learning_rates: nan is not a number above 0"),
        ("--learning_rates=2", 2, "--learning_rates: 2 is not a number above 0"),
        ("--learning_rates=2e-5,0.00002", 2, "2e-5 stands there twice"),
        ("--seeds=1,x", 2, "--seeds: x is not a whole number"),
        ("--seeds=1,01", 2, "--seeds=1,01: 1 stands there twice"),
        ("--learning_rate=2e-5", 2, "unknown flag --learning_rate; did you mean learning_rates"),
        ("--max_seq_length=25", 2, "--max_seq_length=25: the model has max_position_embeddings 24"),
        ("--jobs=0", 2, "--jobs=0: expected at least 1"),
        ("--output_dir=gs://b/o", 2, "--output_dir=gs://b/o: expected a local directory"),
        ("--init_checkpoint=nowhere", 1, "--init_checkpoint=nowhere: not found"),
        ("--bert_config_file=nowhere", 1, "--bert_config_file=nowhere: cannot be read"),
        ("--vocab_file=nowhere", 1, "--vocab_file=nowhere"),
        ("--data_dir=nowhere", 1, "--data_dir=nowhere: there is no such folder"),
        (f"--data_dir={HERE}", 1, f"no folder MRPC in {HERE}, for task mrpc"),
    ],
)
def test_mistakes_show_before_the_first_run(folder, tmp_path, fake, capsys, flag, status, message):
    flags = _flags(folder, tmp_path / "out", "--tasks=mrpc")
    assert _main(*flags, flag) == status
    assert message in capsys.readouterr().err
    assert fake.started() == [] and not (tmp_path / "out").exists()


def test_mistakes_in_data_and_model_show_before_the_first_run(folder, tmp_path, fake, capsys):
    data = tmp_path / "glue"
    tiny_glue.write_task(data, "rte")
    tiny_glue.write_task(data, "mnli")
    flags = _flags(folder, tmp_path / "out", f"--data_dir={data}")
    (data / "MNLI/dev_mismatched.tsv").unlink()
    assert _main(*flags, "--tasks=rte,mnli") == 1
    assert "no dev_mismatched.tsv" in capsys.readouterr().err
    with open(data / "RTE/train.tsv", "a") as file:
        file.write("12\tred\tblue\tmaybe\n")
    assert _main(*flags, "--tasks=rte") == 1
    assert "RTE/train.tsv:14: label 'maybe'" in capsys.readouterr().err
    config = tmp_path / "config.json"
    config.write_text(json.dumps({**tiny_glue.CONFIG, "vocab_size": 9}))
    assert _main(*_flags(folder, tmp_path / "out", f"--bert_config_file={config}")) == 1
    assert "10" in capsys.readouterr().err
    config.write_text("[]")
    assert _main(*_flags(folder, tmp_path / "out", f"--bert_config_file={config}")) == 1
    assert "expected a JSON object" in capsys.readouterr().err
    assert fake.started() == []


def test_tensorflow_is_not_needed(folder, tmp_path):
    code = (
        "import sys, run_glue, glue_runs\n"
        f"glue_runs.CLASSIFIER = {FAKE!r}\n"
        "assert run_glue.main(sys.argv) == 0\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    flags = _flags(folder, tmp_path / "out", "--tasks=rte")
    environment = {**os.environ, "FAKE_STARTS": str(tmp_path / "starts"), "FAKE_PLAN": "{}"}
    subprocess.run(
        [sys.executable, "-c", code, *flags], check=True, env=environment, cwd=HERE.parent
    )


# --------------------------------------------------------------------------------------------------
# Stopping and going on
# --------------------------------------------------------------------------------------------------


class _Command:
    """run_glue in a process of its own, with the made-up runs or the real ones."""

    def __init__(self, flags, tmp_path, plan=None):
        replaced = f"glue_runs.CLASSIFIER = {FAKE!r}; " if plan is not None else ""
        code = f"import sys, glue_runs, run_glue; {replaced}sys.exit(run_glue.main(sys.argv))"
        self.log = tmp_path / "command.log"
        more = {"FAKE_STARTS": str(tmp_path / "starts"), "FAKE_PLAN": json.dumps(plan or {})}
        with open(self.log, "w") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", code, *flags],
                stdout=log,
                stderr=log,
                cwd=HERE.parent,
                env={**os.environ, **more},
            )

    def wait_for(self, *paths, seconds=60):
        end = time.monotonic() + seconds
        while not all(path.exists() for path in paths):
            assert time.monotonic() < end and self.process.poll() is None, self.log.read_text()
            time.sleep(0.02)

    def end(self, number=None):
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(90)


def _is_gone(line, seconds=10.0):
    """Whether the process of a line in the starts ends."""
    pid = int(re.search(r"pid=(\d+)", line)[1])
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        try:
            with open(f"/proc/{pid}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] == "Z":  # nobody has asked how it ended
                    return True
        except OSError:
            return True
        time.sleep(0.05)
    return False


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_stopped_or_killed_the_same_command_goes_on(folder, tmp_path, number):
    out = tmp_path / "out"
    flags = _flags(folder, out, "--tasks=rte", "--seeds=1,2,3", "--learning_rates=2e-5", "--jobs=2")
    plan = {"rte 2e-05 2": "wait", "rte 2e-05 3": "wait"}
    command = _Command(flags, tmp_path, plan)
    waiting = [out / f"rte/lr2e-5-seed{seed}/waiting" for seed in (2, 3)]
    command.wait_for(*waiting, out / "rte/lr2e-5-seed1/eval_results.txt")
    status = command.end(number)
    starts = (tmp_path / "starts").read_text().splitlines()
    assert all(_is_gone(line) for line in starts)
    if number == signal.SIGKILL:
        assert status == -9
    else:
        assert status == 0 and "stopped; the same command goes on" in command.log.read_text()
        assert "1 of 3" in (out / "summary.txt").read_text()
    for path in waiting:  # they have saved
        assert (path.parent / "checkpoint").exists()
    (tmp_path / "starts").unlink()
    command = _Command(flags, tmp_path, plan)
    assert command.end() == 0, command.log.read_text()
    again = _names((tmp_path / "starts").read_text().splitlines())
    assert sorted(again) == ["rte 2e-05 2", "rte 2e-05 3", "rte predict"]
    assert "3 runs, 1 of them finished before" in command.log.read_text()


def test_a_second_command_in_the_same_directory_is_refused(
    folder, tmp_path, fake, monkeypatch, capsys
):
    flags = _flags(folder, tmp_path / "out", "--tasks=rte", "--learning_rates=2e-5")
    monkeypatch.setattr(run_glue, "_PATIENCE", 0.1)
    command = _Command(flags, tmp_path, {"rte 2e-05 1": "wait"})
    command.wait_for(tmp_path / "out/rte/lr2e-5-seed1/waiting")
    assert _main(*flags) == 1
    assert "another run_glue works there" in capsys.readouterr().err
    assert command.end(signal.SIGTERM) == 0


# --------------------------------------------------------------------------------------------------
# With the real run_classifier
# --------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_real_run(folder, tmp_path):
    out = tmp_path / "out"
    more = ("--tasks=rte", "--learning_rates=1e-3", "--seeds=7", "--train_batch_size=4")
    assert _main(*_flags(folder, out, *more, "--predict_batch_size=2")) == 0
    assert len((out / "rte/test/test_results.tsv").read_text().splitlines()) == 5
    summary = json.loads((out / "summary.json").read_text())["tasks"]["rte"]
    written = (out / "rte/lr0.001-seed7/eval_results.txt").read_text()
    assert f"eval_accuracy = {summary['metrics']['accuracy']}" in written
    assert "global_step = 9\n" in written  # 12 rows, 4 a step, 3 epochs
    run = json.loads((out / "rte/lr0.001-seed7/run.json").read_text())["flags"]
    assert (run["random_seed"], run["keep_checkpoint_max"], run["max_seq_length"]) == (7, 1, 16)
    # run.json of the real script is what this command expects: nothing to do, nothing changed.
    assert _main(*_flags(folder, out, *more)) == 0
    assert (out / "rte/test/log.txt").read_text().count("$ ") == 1


@pytest.mark.slow
def test_real_runs_of_all_of_mnli(folder, tmp_path):
    out = tmp_path / "out"
    flags = _flags(folder, out, "--tasks=mnli", "--learning_rates=1e-3,1e-4", "--jobs=2")
    assert _main(*flags, "--train_batch_size=4", "--head=bilstm", "--precision=bfloat16") == 0
    results = json.loads((out / "summary.json").read_text())["tasks"]["mnli"]
    assert set(results["metrics"]) == {"accuracy", "mm_accuracy"}
    assert len((out / "mnli/test/test_results-ax.tsv").read_text().splitlines()) == 4
    assert len((out / "mnli/test/test_results-mnli-mm.tsv").read_text().splitlines()) == 5
    runs = [path for path in (out / "mnli").iterdir() if path.name.startswith("lr")]
    assert sorted((run / "checkpoint").exists() for run in runs) == [False, True]


@pytest.mark.slow
def test_a_real_run_goes_on_after_kill_9(folder, tmp_path):
    out = tmp_path / "out"
    flags = _flags(folder, out, "--tasks=rte", "--learning_rates=1e-3", "--train_batch_size=4")
    flags += ["--num_train_epochs=400", "--save_checkpoints_steps=50"]
    run = out / "rte/lr0.001-seed1"
    command = _Command(flags, tmp_path)
    command.wait_for(run / "model.ckpt-50.index", seconds=120)
    command.end(signal.SIGKILL)
    # At once: the run, which is still saving, is waited for.
    command = _Command(flags, tmp_path)
    assert command.process.wait(400) == 0, command.log.read_text()
    before, after = (run / "log.txt").read_text().split("$ ")[1:]
    stopped = int(re.search(r"stopped at step (\d+)", before)[1])
    first = int(re.search(r"saved .*model\.ckpt-(\d+)", after)[1])
    assert 50 <= stopped < first <= stopped + 50
    assert "global_step = 1200" in (run / "eval_results.txt").read_text()
    assert "rte" in json.loads((out / "summary.json").read_text())["tasks"]
