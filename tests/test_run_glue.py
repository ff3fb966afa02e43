"""run_glue.py from the command line to its files; most tests replace run_classifier by a fake."""

import contextlib
import json
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import zipfile

import pytest

import processes
import run_glue
import scripts
import tiny
import tiny_glue
from tasks.glue import commands
from tasks.glue import runs as glue_runs

HERE = pathlib.Path(__file__).resolve().parent
_main = scripts.Command(run_glue)
FAKE = [sys.executable, str(HERE / "fixtures" / "fake_classifier.py")]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("glue")
    tiny_glue.write_model(folder)
    tiny_glue.write_all(folder / "glue")
    return folder


@pytest.fixture(scope="module")
def finished(folder, tmp_path_factory):
    """The output directory of a finished search over all tasks, to be copied."""
    folder_of_command = tmp_path_factory.mktemp("finished")
    flags = _flags(folder, folder_of_command / "out", "--learning_rates=2e-5", "--jobs=2")
    command = _Command(flags, folder_of_command, {})
    assert command.end() == 0, command.log.read_text()
    return folder_of_command / "out"


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """Replaces run_classifier. Call it to set its plan; ``started`` returns its new starts."""
    starts = tmp_path / "starts"
    monkeypatch.setattr(commands, "CLASSIFIER", FAKE)
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


def _names(lines):
    return [line.split(" pid=")[0] for line in lines]


def _rows(values):
    """The text of a file in a submission."""
    return "index\tprediction\n" + "".join(f"{i}\t{v}\n" for i, v in enumerate(values))


def _packed(out):
    with zipfile.ZipFile(out / "submission.zip") as archive:
        return {name: archive.read(name).decode() for name in archive.namelist()}


@pytest.mark.slow
def test_all_of_glue_to_the_submission(folder, tmp_path, fake, caplog, capsys):
    caplog.set_level("INFO")
    out = tmp_path / "out"
    fake(plan={"mrpc 2e-05 1": [0.75, 0.875], "mrpc 5e-05 1": [0.75, 0.9]})
    flags = _flags(folder, out, "--learning_rates=5e-5")
    # In the order of the flags, and a task's prediction after its runs.
    assert _main(*flags, "--tasks=mrpc", "--learning_rates=5e-5,2e-5") == 0
    assert _names(fake.started()) == ["mrpc 5e-05 1", "mrpc 2e-05 1", "mrpc predict"]
    assert _main(*flags) == 0
    expected = []
    for task in ("cola", "sst-2", "sts-b", "qqp", "mnli", "qnli", "rte"):
        expected += [f"{task} 5e-05 1", f"{task} predict"]
    assert _names(fake.started()) == expected
    files = _packed(out)
    assert len(files) == 11
    # All by seed 1 at 5e-5, so row i gets label (i + 6) modulo the number of labels.
    assert files["MRPC.tsv"] == _rows("01010")
    assert files["QQP.tsv"].split("\n")[1:3] == ["10\t0", "11\t1"]  # the ids of the rows
    # 6.25 is beyond the scale; the next number is 0.25.
    assert files["STS-B.tsv"] == _rows(["5.000", "0.250", "1.250", "2.250", "3.250"])
    three = ["contradiction", "entailment", "neutral"]
    assert files["MNLI-m.tsv"] == files["MNLI-mm.tsv"] == _rows([*three, *three[:2]])
    assert files["AX.tsv"] == _rows([*three, three[0]])
    assert files["RTE.tsv"].split("\n")[1:3] == ["0\tentailment", "1\tnot_entailment"]
    assert files["WNLI.tsv"] == _rows("0" * 146)

    summary = json.loads((out / "summary.json").read_text())
    assert summary["tasks"]["mrpc"]["best"] == {"learning_rate": 5e-5, "seed": 1}
    # All at 0.5 but mrpc, (0.75 + 0.9) / 2, and wnli, where 4 of 6 dev rows have the majority.
    assert summary["glue_score"] == pytest.approx((7 * 0.5 + 0.825 + 4 / 6) / 9, abs=1e-9)
    assert "GLUE score on the dev sets: 55.5" in capsys.readouterr().out
    lines = [record.getMessage() for record in caplog.records]
    assert any(
        re.fullmatch(
            r"\[1/2\] mrpc lr=5e-5 seed=1: f1 = 0.75, accuracy = 0.9 \(\ds\), about \d+s left",
            line,
        )
        for line in lines
    )
    assert "--task_name=mrpc" in (out / "mrpc/lr5e-5-seed1/log.txt").read_text().splitlines()[0]

    # The same command has nothing to do, and leaves the files as they are.
    before = (out / "summary.txt").read_text(), (out / "submission.zip").read_bytes()
    assert _main(*flags) == 0
    assert fake.started() == []
    assert before == ((out / "summary.txt").read_text(), (out / "submission.zip").read_bytes())


@pytest.mark.slow
def test_tasks_of_several_commands_share_a_directory(folder, finished, tmp_path, fake, caplog):
    caplog.set_level("INFO")
    common = _flags(folder, tmp_path / "out", "--learning_rates=2e-5")
    assert _main(*common, "--tasks=rte,wnli", "--max_seq_length=12", "--num_train_epochs=2") == 0
    assert "no submission.zip yet: it needs CoLA.tsv (cola), SST-2.tsv (sst-2)" in caplog.text
    assert not (tmp_path / "out/submission.zip").exists()
    text = (tmp_path / "out/summary.txt").read_text()
    assert "Average of 2 of 9 tasks: 50.0" in text
    # Other tasks may have other flags, and the folder of a task may be a copy.
    for task in ("cola", "sst-2", "mrpc", "sts-b", "qqp", "mnli"):
        shutil.copytree(finished / task, tmp_path / "out" / task)
    fake.started()
    assert _main(*common, "--tasks=mnli,qnli") == 0
    assert _names(fake.started()) == ["qnli 2e-05 1", "qnli predict"]
    # wnli was trained, so its predictions are those of its model.
    assert _packed(tmp_path / "out")["WNLI.tsv"] == _rows("10101")
    summary = json.loads((tmp_path / "out/summary.json").read_text())
    assert summary["glue_score"] == pytest.approx(0.5)
    assert list(summary["tasks"]) == list(glue_runs.TASKS)


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
    output = capsys.readouterr()
    log = tmp_path / "out/rte/lr2e-5-seed1/log.txt"
    reason = f"failed: rte lr=2e-5 seed=1 ({log}): step 7: not finite; the same command tries"
    assert output.err.splitlines()[-1].startswith(f"run_glue.py: error: {reason}")
    assert "failed, exit status 1" in output.out
    assert _names(fake.started()) == ["rte 2e-05 1", "rte 2e-05 2", "rte predict"]
    fake(plan={"rte 2e-05 1": 0.4})
    assert _main(*flags) == 0
    assert _names(fake.started()) == ["rte 2e-05 1"]


def test_a_run_that_refuses_the_flags_is_the_last_one(folder, tmp_path, fake, capsys):
    out = tmp_path / "out"
    fake(plan={"rte 4e-05 1": "refuse"})
    flags = _flags(folder, out, "--tasks=rte,wnli", "--learning_rates=5e-5,4e-5,3e-5")
    assert _main(*flags) == 2
    assert _names(fake.started()) == ["rte 5e-05 1", "rte 4e-05 1"]
    log = out / "rte/lr4e-5-seed1/log.txt"
    message = f"run_glue.py: error: --freeze_layers=99: the model has 1 (see {log})"
    output = capsys.readouterr()
    assert output.err.splitlines()[-1] == message and not output.out
    assert "1 of 3" in (out / "summary.txt").read_text()
    fake(plan={})  # as if the user had corrected the cause
    assert _main(*flags) == 0
    assert _names(fake.started())[0] == "rte 4e-05 1"


@pytest.mark.parametrize(
    "flag, status, message",
    [
        ("--tasks=mrcp", 2, "--tasks: mrcp is not a GLUE task; did you mean mrpc?"),
        ("--tasks=xnli", 2, "--tasks: xnli is not a GLUE task; expected some of cola"),
        ("--tasks=mnli,ax", 2, "--tasks: ax has no training set of its own; mnli includes it"),
        ("--tasks=mrpc,,rte", 2, "--tasks=mrpc,,rte: an item is empty"),
        ("--tasks=sst2,rte,SST-2", 2, "--tasks=sst2,rte,SST-2: sst-2 is listed twice"),
        ("--learning_rates=2e-5,fast", 2, "--learning_rates: fast is not a number above 0"),
        ("--learning_rates=1_0e-5", 2, "--learning_rates: 1_0e-5 is not a number above 0"),
        ("--learning_rates=0", 2, "--learning_rates: 0 is not a number above 0"),
        ("--learning_rates=nan", 2, "--learning_rates: nan is not a number above 0"),
        ("--learning_rates=2", 2, "--learning_rates: 2 is not a number above 0"),
        ("--learning_rates=2e-5,0.00002", 2, "2e-5 is listed twice"),
        ("--seeds=1,x", 2, "--seeds: x is not a whole number"),
        ("--seeds=1,01", 2, "--seeds=1,01: 1 is listed twice"),
        ("--new_head", 2, "--new_head does nothing without --init_checkpoint; add it"),
        ("--iterations_per_loop=5", 2, "--iterations_per_loop=5 does nothing without --use_tpu"),
        ("--tpu_name=local", 2, "--tpu_name=local does nothing without --use_tpu"),
        ("--master=local", 2, "--master=local does nothing without --use_tpu"),
        ("--learning_rate=2e-5", 2, "unknown flag --learning_rate; did you mean learning_rates"),
        ("--max_seq_length=25", 2, "--max_seq_length=25: the model has max_position_embeddings 24"),
        ("--jobs=0", 2, "--jobs=0: expected at least 1"),
        ("--output_dir=gs://b/o", 2, "--output_dir=gs://b/o: expected a local directory"),
        ("--init_checkpoint=nowhere", 1, "--init_checkpoint=nowhere: not found"),
        ("--bert_config_file=nowhere", 1, "--bert_config_file=nowhere: cannot be read"),
        ("--vocab_file=nowhere", 1, "--vocab_file=nowhere"),
        ("--data_dir=nowhere", 1, "--data_dir=nowhere: not a directory"),
        (f"--data_dir={HERE}", 1, f"no folder MRPC or mrpc in {HERE}, for task mrpc"),
    ],
)
def test_wrong_flags_are_reported_before_the_first_run(
    folder, tmp_path, fake, capsys, flag, status, message
):
    flags = _flags(folder, tmp_path / "out", "--tasks=mrpc")
    assert _main(*flags, flag) == status
    assert message in capsys.readouterr().err
    assert fake.started() == [] and not (tmp_path / "out").exists()


@pytest.mark.parametrize("flag", ["--num_gpus=1", "--num_cpu_devices=2"])
def test_flags_of_other_devices_are_refused_beside_a_tpu(folder, tmp_path, fake, capsys, flag):
    flags = _flags(folder, tmp_path / "out", "--use_tpu", "--tpu_name=local")
    assert _main(*flags, flag) == 2
    assert f"{flag} does nothing with --use_tpu; leave it out" in capsys.readouterr().err
    assert fake.started() == []


def test_mistakes_in_data_and_model_are_reported_before_the_first_run(
    folder, tmp_path, fake, capsys
):
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
        "import sys, run_glue\n"
        "from tasks.glue import commands\n"
        f"commands.CLASSIFIER = {FAKE!r}\n"
        "assert run_glue.main(sys.argv) == 0\n"
        "assert 'tensorflow' not in sys.modules\n"
    )
    flags = _flags(folder, tmp_path / "out", "--tasks=rte")
    environment = {**os.environ, "FAKE_STARTS": str(tmp_path / "starts"), "FAKE_PLAN": "{}"}
    subprocess.run(
        [sys.executable, "-c", code, *flags], check=True, env=environment, cwd=HERE.parent
    )


# --------------------------------------------------------------------------------------------------
# Stopping and continuing
# --------------------------------------------------------------------------------------------------


class _Command:
    """run_glue in its own process, with the fake run_classifier if there is a plan for it."""

    def __init__(self, flags, tmp_path, plan=None):
        replaced = f"commands.CLASSIFIER = {FAKE!r}; " if plan is not None else ""
        imports = "import sys, run_glue; from tasks.glue import commands; "
        code = f"{imports}{replaced}sys.exit(run_glue.main(sys.argv))"
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

    def wait_for(self, *paths):
        processes.wait_until(lambda: all(path.exists() for path in paths), self.process)

    def end(self, number=None):
        if number is not None:
            self.process.send_signal(number)
        return self.process.wait(processes.LAST_RESORT)


def _wait_for_end(starts):
    """Waits until the processes of these lines of FAKE_STARTS have ended."""
    pids = [re.search(r"pid=(\d+)", line)[1] for line in starts]
    processes.wait_until(lambda: not any(map(processes.is_running, pids)))


@pytest.mark.parametrize(
    "number",
    [pytest.param(number, marks=pytest.mark.slow) for number in (signal.SIGTERM, signal.SIGINT)]
    + [signal.SIGKILL],
)
def test_the_same_command_continues_after_a_stop_or_kill(folder, tmp_path, number):
    out = tmp_path / "out"
    flags = _flags(folder, out, "--tasks=rte", "--seeds=1,2,3", "--learning_rates=2e-5", "--jobs=2")
    plan = {"rte 2e-05 2": "wait", "rte 2e-05 3": "wait"}
    command = _Command(flags, tmp_path, plan)
    waiting = [out / f"rte/lr2e-5-seed{seed}/waiting" for seed in (2, 3)]
    command.wait_for(*waiting, out / "rte/lr2e-5-seed1/eval_results.txt")
    status = command.end(number)
    starts = (tmp_path / "starts").read_text().splitlines()
    _wait_for_end(starts)
    if number == signal.SIGKILL:
        assert status == -9
    else:
        assert (
            status == 128 + number
            and "stopped; the same command goes on" in command.log.read_text()
        )
        assert "1 of 3" in (out / "summary.txt").read_text()
    for path in waiting:  # the runs have saved
        assert (path.parent / "checkpoint").exists()
    (tmp_path / "starts").unlink()
    command = _Command(flags, tmp_path, plan)
    assert command.end() == 0, command.log.read_text()
    again = _names((tmp_path / "starts").read_text().splitlines())
    assert sorted(again) == ["rte 2e-05 2", "rte 2e-05 3", "rte predict"]
    assert "3 runs, 1 of them finished before" in command.log.read_text()


def test_a_submission_has_only_predictions_of_the_best_runs(
    folder, finished, tmp_path, fake, caplog
):
    caplog.set_level("INFO")
    out = shutil.copytree(finished, tmp_path / "out")
    flags = _flags(folder, out, "--learning_rates=2e-5")
    before = (out / "submission.zip").read_bytes()
    assert _packed(out)["MRPC.tsv"] == _rows("10101")  # row i: i + 1 + 2
    # A better seed, and a stop before that has predicted.
    plan = {"mrpc 2e-05 2": 0.9, "mrpc 2e-05 3": "wait"}
    command = _Command([*flags, "--tasks=mrpc", "--seeds=1,2,3"], tmp_path, plan)
    command.wait_for(out / "mrpc/lr2e-5-seed3/waiting")
    assert command.end(signal.SIGTERM) == 143, command.log.read_text()
    fake.started()
    caplog.clear()
    assert _main(*flags, "--tasks=rte") == 0
    assert fake.started() == []
    assert "no submission.zip yet: it needs MRPC.tsv (mrpc); run" in caplog.text
    assert "mrpc: the predictions are not of the best run and the present test files" in caplog.text
    assert "submission.zip is left from an earlier command" in caplog.text
    assert (out / "submission.zip").read_bytes() == before
    # The cure that the message gives.
    assert _main(*flags, "--tasks=mrpc") == 0
    assert _names(fake.started()) == ["mrpc predict"]
    summary = json.loads((out / "summary.json").read_text())
    assert summary["tasks"]["mrpc"]["best"] == {"learning_rate": 2e-5, "seed": 2}
    assert _packed(out)["MRPC.tsv"] == _rows("01010")  # row i: i + 2 + 2


def test_wnli_needs_predictions_if_it_is_trained(folder, finished, tmp_path, fake, caplog):
    caplog.set_level("INFO")
    out = shutil.copytree(finished, tmp_path / "out")
    flags = _flags(folder, out, "--learning_rates=2e-5")
    assert _packed(out)["WNLI.tsv"] == _rows("0" * 146)
    fake(plan={"wnli predict": "fail"})
    assert _main(*flags, "--tasks=wnli") == 1
    assert "no submission.zip yet: it needs WNLI.tsv (wnli)" in caplog.text
    assert _packed(out) == _packed(finished)


def _outcome(out):
    """All results of a search, without times."""
    text = (out / "summary.json").read_text()
    summary = re.sub(r'"(seconds|log)": [^\n]*', "", text)
    files = sorted(str(path.relative_to(out)) for path in out.rglob("*"))
    predictions = {
        str(path.relative_to(out)): path.read_text() for path in out.rglob("test_results*")
    }
    return summary, (out / "submission.zip").read_bytes(), files, predictions


@pytest.mark.slow
def test_kills_at_any_moment_do_not_change_the_outcome(folder, tmp_path, monkeypatch):
    monkeypatch.setenv("FAKE_PAUSE", "0.02")
    plan = {"mrpc 2e-05 2": [0.8, 0.7], "rte 2e-05 1": 0.7, "mnli 2e-05 2": 0.6}
    more = ("--seeds=1,2", "--learning_rates=2e-5", "--jobs=2")
    whole = _Command(_flags(folder, tmp_path / "whole", *more), tmp_path, plan)
    assert whole.end() == 0, whole.log.read_text()
    moments = random.Random(1)
    for _ in range(15):
        command = _Command(_flags(folder, tmp_path / "out", *more), tmp_path, plan)
        with contextlib.suppress(subprocess.TimeoutExpired):
            assert command.process.wait(moments.uniform(0.5, 4.0)) == 0
            break
        command.end(signal.SIGKILL)
    command = _Command(_flags(folder, tmp_path / "out", *more), tmp_path, plan)
    assert command.end() == 0, command.log.read_text()
    assert _outcome(tmp_path / "out") == _outcome(tmp_path / "whole")


def test_a_second_command_in_the_same_directory_is_refused(
    folder, tmp_path, fake, monkeypatch, capsys
):
    flags = _flags(folder, tmp_path / "out", "--tasks=rte", "--learning_rates=2e-5")
    monkeypatch.setattr("tasks.glue.command._LOCK_TIMEOUT", 0.1)
    command = _Command(flags, tmp_path, {"rte 2e-05 1": "wait"})
    command.wait_for(tmp_path / "out/rte/lr2e-5-seed1/waiting")
    assert _main(*flags) == 1
    assert "another run_glue works there" in capsys.readouterr().err
    assert command.end(signal.SIGTERM) == 143


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
    # The same command accepts the run.json of the real script, and has nothing to do.
    assert _main(*_flags(folder, out, *more)) == 0
    assert (out / "rte/test/log.txt").read_text().count("$ ") == 1


@pytest.mark.slow
def test_flags_that_a_real_run_refuses(folder, tmp_path, capsys):
    out = tmp_path / "out"
    assert _main(*_flags(folder, out, "--tasks=rte,wnli", "--freeze_layers=99")) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    message = "run_glue.py: error: --freeze_layers=99: the model has num_hidden_layers 1"
    log = out / "rte/lr5e-5-seed1/log.txt"
    assert last.startswith(message) and last.endswith(f"(see {log})")
    assert list(out.rglob("log.txt")) == [log]


@pytest.mark.slow
@tiny.needs_half_precision
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
    command.wait_for(run / "model.ckpt-50.index")
    command.end(signal.SIGKILL)
    # The second command waits for the run, which is still saving.
    command = _Command(flags, tmp_path)
    assert command.end() == 0, command.log.read_text()
    before, after = (run / "log.txt").read_text().split("$ ")[1:]
    stopped = int(re.search(r"stopped at step (\d+)", before)[1])
    first = int(re.search(r"saved .*model\.ckpt-(\d+)", after)[1])
    assert 50 <= stopped < first <= stopped + 50
    assert "global_step = 1200" in (run / "eval_results.txt").read_text()
    assert "rte" in json.loads((out / "summary.json").read_text())["tasks"]
