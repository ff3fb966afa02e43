"""What follows when a run ends. No process is started: the tests write the files of the runs."""

import json
import pathlib
import re
import shutil
import time

import pytest

from command_line import errors, options, parser
from tasks.classifier import options as classifier_options
from tasks.glue import data_sets, jobs, run_folder, search
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs

DONE = jobs.JobEnd(0, 2.0, False)


class _FakeSearch:
    """A search over made-up tasks; the test starts and ends its jobs, without processes."""

    def __init__(self, folder, *flags, rows=100, tests=("rte",), **run_flags):
        self.out = folder / "out"
        flags = [f"--output_dir={self.out}", f"--data_dir={folder}", "--tasks=rte", *flags]
        glue_flags = parser.parse(flags, [glue_options.GlueOptions])[0][0]
        model = options.ModelOptions(bert_config_file="c", init_checkpoint="i")
        text = options.TokenizerOptions(vocab_file="v")
        run_options = glue_options.GlueRunOptions(**run_flags)
        for name in ("test", "diagnostic"):
            if not (folder / f"{name}.tsv").exists():
                (folder / f"{name}.tsv").write_text("index\ta\tb\n0\tone\ttwo\n")
        self.tests = dict.fromkeys(tests, str(folder))
        data = {
            "rte": data_sets.TaskData(str(folder), rows, {"a": 0.5, "b": 0.5}, self.tests),
            "sts-b": data_sets.TaskData(str(folder), 3 * rows, {}, {}),
        }
        plan = glue_runs.plan(glue_flags)
        tasks = {run.task for run in plan}
        data = {task: found for task, found in data.items() if task in tasks}
        self.stop = jobs.stop_requests()
        groups = (run_options, text, model, options.DeviceOptions())
        self.search = search.Search(glue_flags, plan, data, groups, self.stop)
        self.out.mkdir(exist_ok=True)

    def begin(self):
        self.search.check_flags()
        self.search.begin()
        return self

    @property
    def queue(self):
        """The directories of the jobs in the queue."""
        return [pathlib.Path(job.log).parent for job in self.search.queue]

    def next(self):
        """Starts the next job and returns it with its directory."""
        job = self.search.queue.popleft()
        job.on_start()
        pathlib.Path(job.log).write_text("$ python …\n12:00:01 last message\n")
        directory = pathlib.Path(job.log).parent
        parsed, _ = parser.parse(job.command[2:], classifier_options.GROUPS)
        flags = {name: value for group in parsed for name, value in vars(group).items()}
        (directory / "run.json").write_text(json.dumps({"flags": flags}))
        return job, directory

    def finish(self, score):
        """Ends the next run with an accuracy, or the same number for both correlations."""
        job, directory = self.next()
        names = ("accuracy", "spearman", "pearson")
        text = "".join(f"eval_{name} = {score}\n" for name in names)
        (directory / "eval_results.txt").write_text(text)
        (directory / "metrics.jsonl").write_text(f"{time.monotonic_ns()}\n")  # differs each time
        _save(directory, 9)
        job.on_end(DONE)
        return directory

    def predict(self):
        """Ends the next prediction and returns the directory of the run that made it."""
        job, directory = self.next()
        assert directory.name == "test"
        (directory / "test_results.tsv").write_text("0.1\t0.9\n")
        job.on_end(DONE)
        return pathlib.Path(job.command[-1].removeprefix("--init_checkpoint="))

    def is_predicted(self):
        return self.search.is_predicted("rte", self.tests)

    def summary(self):
        return json.loads((self.out / "summary.json").read_text())


def _save(directory, step):
    (directory / "checkpoint").write_text(f'model_checkpoint_path: "model.ckpt-{step}"\n')
    (directory / f"model.ckpt-{step}.index").write_text("weights")


def _has_checkpoint(directory):
    return (directory / "checkpoint").exists(), any(directory.glob("model.ckpt-*"))


@pytest.fixture(autouse=True)
def _logged(caplog):
    caplog.set_level("INFO")


def test_the_best_run_predicts_and_the_others_lose_their_checkpoints(tmp_path, caplog):
    fake = _FakeSearch(tmp_path, "--learning_rates=5e-5,2e-5", "--seeds=1,2").begin()
    directories = [fake.finish(score) for score in (0.6, 0.7, 0.8, 0.75)]
    assert [directory.name for directory in directories] == [
        "lr5e-5-seed1", "lr5e-5-seed2", "lr2e-5-seed1", "lr2e-5-seed2",
    ]  # fmt: skip
    assert [_has_checkpoint(x) == (True, True) for x in directories] == [False, False, True, False]
    assert all((directory / "eval_results.txt").exists() for directory in directories)
    assert fake.predict() == directories[2]
    assert not fake.queue
    assert "rte: best is lr=2e-5 seed=1" in caplog.text
    assert fake.summary()["tasks"]["rte"]["mean"]["accuracy"] == pytest.approx(0.775)

    # The same command has nothing to do. Another seed may give a better run, which then predicts.
    flags = ("--learning_rates=5e-5,2e-5", "--seeds=1,2")
    assert not _FakeSearch(tmp_path, *flags).begin().queue
    more = _FakeSearch(tmp_path, "--learning_rates=2e-5", "--seeds=3").begin()
    better = more.finish(0.9)
    assert more.predict() == better
    assert _has_checkpoint(directories[2]) == (False, False)
    # The first command again: the best run of the directory is still the better one.
    assert not _FakeSearch(tmp_path, *flags).begin().queue


def test_all_checkpoints_may_be_kept(tmp_path):
    fake = _FakeSearch(tmp_path, "--learning_rates=5e-5,2e-5", "--keep_all_runs").begin()
    assert [_has_checkpoint(fake.finish(score)) for score in (0.6, 0.7)] == [(True, True)] * 2
    assert (tmp_path / "out/rte/lr5e-5-seed1/checkpoint").exists()


def test_a_line_per_run_with_the_time_left(tmp_path, caplog, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(search.time, "monotonic", lambda: clock[0])
    fake = _FakeSearch(tmp_path, "--tasks=rte,sts-b", "--learning_rates=5e-5,2e-5").begin()
    clock[0] += 60
    fake.finish(0.75)
    # 100 rows took a minute; 100 rows of rte and twice 300 of sts-b are left.
    assert "[1/4] rte lr=5e-5 seed=1: accuracy = 0.75 (2s), about 7m00s left" in caplog.text
    clock[0] += 60
    fake.finish(0.5)
    assert (
        "[2/4] rte lr=2e-5 seed=1: accuracy = 0.5, at chance (2s), about 6m00s left" in caplog.text
    )
    fake.predict()
    clock[0] += 180
    fake.finish(0.09)
    line = "spearman = 0.09, pearson = 0.09, at chance (2s), about 3m00s left"
    assert f"[3/4] sts-b lr=5e-5 seed=1: {line}" in caplog.text
    fake.finish(0.8)
    assert "[4/4] sts-b lr=2e-5 seed=1: spearman = 0.8, pearson = 0.8 (2s)" in caplog.messages
    assert f"sts-b: no test set in {tmp_path}, so no predictions" in caplog.text


def test_a_failed_run_is_marked_and_the_others_go_on(tmp_path, caplog):
    flags = ("--learning_rates=2e-5", "--seeds=1,2,3")
    fake = _FakeSearch(tmp_path, *flags).begin()
    fake.finish(0.7)
    job, directory = fake.next()
    _save(directory, 4)
    job.on_end(jobs.JobEnd(1, 3.0, False))
    assert f"failed, exit status 1: last message (see {job.log})" in caplog.text
    fake.finish(0.6)
    fake.predict()
    runs = fake.summary()["tasks"]["rte"]["runs"]
    assert [run["state"] for run in runs] == ["finished", "failed", "finished"]
    assert runs[1]["log"] == job.log
    assert "2e-5/2" in (fake.out / "summary.txt").read_text()
    report = r"failed: rte lr=2e-5 seed=2 \(.*seed2/log.txt\): last message; the same command tries"
    with pytest.raises(errors.UserError, match=report):
        fake.search.report_failures()
    # Its checkpoint is kept, and the same command tries only that run again.
    assert _has_checkpoint(directory) == (True, True)
    again = _FakeSearch(tmp_path, *flags).begin()
    assert again.queue == [directory]
    again.finish(0.65)
    again.search.report_failures()
    assert not again.queue


def test_a_run_that_was_stopped_has_not_failed(tmp_path):
    fake = _FakeSearch(tmp_path, "--learning_rates=2e-5", "--seeds=1,2").begin()
    for status in (0, -15):  # it has saved, or had nothing to save yet
        job, _ = fake.next()
        job.on_end(jobs.JobEnd(status, 3.0, True))
    fake.search.report_failures()
    fake.search.write_summary()
    runs = fake.summary()["tasks"]["rte"]["runs"]
    assert [(run["state"], run["seconds"]) for run in runs] == [("unfinished", 3.0)] * 2
    assert len(_FakeSearch(tmp_path, "--learning_rates=2e-5", "--seeds=1,2").begin().queue) == 2


def test_a_prediction_that_failed(tmp_path, caplog):
    flags = ("--learning_rates=2e-5",)
    fake = _FakeSearch(tmp_path, *flags).begin()
    fake.finish(0.7)
    job, directory = fake.next()
    job.on_end(jobs.JobEnd(1, 3.0, False))
    assert "rte: prediction failed, exit status 1" in caplog.text
    with pytest.raises(errors.UserError, match="failed: rte predictions .*test/log.txt"):
        fake.search.report_failures()
    again = _FakeSearch(tmp_path, *flags).begin()
    again.predict()
    again.search.report_failures()


def test_a_better_run_whose_checkpoint_is_gone_predicts_nothing(tmp_path, caplog):
    fake = _FakeSearch(tmp_path, "--learning_rates=2e-5").begin()
    directory = fake.finish(0.7)
    run_folder.remove_checkpoints(str(directory))
    again = _FakeSearch(tmp_path, "--learning_rates=2e-5").begin()
    assert not again.queue
    reason = f"the checkpoint of the best run is gone, delete {directory} to run it again"
    assert f"rte: {reason}" in caplog.text
    with pytest.raises(errors.UserError, match=f"failed: rte predictions: {reason}; the same"):
        again.search.report_failures()


@pytest.mark.parametrize("step, is_error", [(0, False), (4, True)])
def test_changed_flags_are_an_error_if_weights_were_trained(tmp_path, step, is_error):
    fake = _FakeSearch(tmp_path, "--learning_rates=2e-5").begin()
    job, directory = fake.next()
    _save(directory, step)
    job.on_end(jobs.JobEnd(1, 3.0, False))
    changed = _FakeSearch(tmp_path, "--learning_rates=2e-5", train_batch_size=16)
    if is_error:
        with pytest.raises(errors.FlagError, match="--train_batch_size=32, not 16; give --train_"):
            changed.begin()
    else:  # untrained weights are not worth an error
        assert len(changed.begin().queue) == 1
    assert _has_checkpoint(directory) == (is_error, is_error)


def test_changed_flags_are_an_error_if_there_are_results(tmp_path):
    fake = _FakeSearch(tmp_path, "--learning_rates=2e-5").begin()
    run_folder.remove_checkpoints(str(fake.finish(0.7)))
    with pytest.raises(errors.FlagError, match="--num_train_epochs=3.0, not 4.0"):
        _FakeSearch(tmp_path, "--learning_rates=5e-5", num_train_epochs=4.0).begin()


# --------------------------------------------------------------------------------------------------
# Which run the predictions are of
# --------------------------------------------------------------------------------------------------

_ONE = ("--learning_rates=2e-5",)


def test_a_run_that_was_repeated_predicts_again(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE).begin()
    directory = fake.finish(0.7)
    fake.predict()
    assert fake.is_predicted()
    shutil.rmtree(directory)
    again = _FakeSearch(tmp_path, *_ONE).begin()
    again.finish(0.7)  # with exactly the same results
    assert not again.is_predicted()
    again.predict()
    assert again.is_predicted()
    assert not _FakeSearch(tmp_path, *_ONE).begin().queue


def test_only_predictions_of_the_best_run_count(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE).begin()
    assert not fake.is_predicted()
    first = fake.finish(0.7)
    fake.predict()
    more = _FakeSearch(tmp_path, *_ONE, "--seeds=2,3").begin()
    assert more.is_predicted()
    better = more.finish(0.8)  # and seed 3 never ends
    assert not more.is_predicted()
    # The first command makes the missing predictions, with a better run than its own.
    assert _FakeSearch(tmp_path, *_ONE).begin().predict() == better
    # Without runs there is no best one.
    for seed in (1, 2, 3):
        shutil.rmtree(first.parent / f"lr2e-5-seed{seed}", ignore_errors=True)
    assert not _FakeSearch(tmp_path, *_ONE).is_predicted()


def test_predictions_cut_short_by_a_kill_do_not_count(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE, tests=("rte", "ax")).begin()
    fake.finish(0.7)
    _, directory = fake.next()
    (directory / "test_results.tsv").write_text("0.1\t0.9\n")
    again = _FakeSearch(tmp_path, *_ONE, tests=("rte", "ax")).begin()
    assert not again.is_predicted()
    again.next()
    assert not (directory / "test_results.tsv").exists()


def test_results_of_an_earlier_start_do_not_count_for_the_next(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE).begin()
    job, directory = fake.next()
    (directory / "eval_results.txt").write_text("eval_accuracy = 0.9\n")
    job.on_end(jobs.JobEnd(-9, 3.0, False))
    _FakeSearch(tmp_path, *_ONE, num_train_epochs=4.0).begin().next()  # and is killed
    again = _FakeSearch(tmp_path, *_ONE, num_train_epochs=4.0).begin()
    assert len(again.queue) == 1 and not (directory / "eval_results.txt").exists()


def test_leftovers_of_a_killed_command_are_deleted(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE).begin()
    directories = [fake.out, fake.finish(0.7), fake.out / "rte/test"]
    fake.predict()
    for directory in directories:
        (directory / "outcome.json.tempstate77").write_text("{")
    _FakeSearch(tmp_path, *_ONE).begin()
    assert not list(tmp_path.rglob("*.tempstate*"))


# --------------------------------------------------------------------------------------------------
# Failures
# --------------------------------------------------------------------------------------------------


def _fail(fake, message, exit_status):
    job, _ = fake.next()
    pathlib.Path(job.log).write_text(f"$ python …\n{message}\n")
    job.on_end(jobs.JobEnd(exit_status, 3.0, False))


def test_each_reason_is_reported_once(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE, "--seeds=1,2,3,4,5,6").begin()
    for message in ("step 7: not finite", "disk full", "step 7: not finite"):
        _fail(fake, f"run_classifier.py: error: {message}", 1)
    _fail(fake, "12:00:00 step 3", -9)
    _fail(fake, "12:00:09 step 4", -9)
    fake.finish(0.6)
    with pytest.raises(errors.UserError) as error:
        fake.search.report_failures()
    report = re.sub(r" \(\S+/(lr\S+)/log.txt\)", r"", str(error.value))
    assert report == (
        "failed: rte lr=2e-5 seed=1, rte lr=2e-5 seed=3: step 7: not finite; rte lr=2e-5 seed=2: "
        "disk full; rte lr=2e-5 seed=4, rte lr=2e-5 seed=5: killed by signal 9; the same command "
        "tries them again, from what their folders have (delete a folder to start over)"
    )


def test_a_run_that_refuses_the_flags_stops_the_search(tmp_path, caplog):
    fake = _FakeSearch(tmp_path, *_ONE, "--seeds=1,2,3").begin()
    job, _ = fake.next()
    other, _ = fake.next()
    pathlib.Path(job.log).write_text(
        "$ python …\nrun_classifier.py: error: --freeze_layers=9: no\n"
    )
    job.on_end(jobs.JobEnd(2, 3.0, False))
    assert fake.search.refusal == f"--freeze_layers=9: no (see {job.log})"
    assert fake.stop.count == 1
    other.on_end(jobs.JobEnd(2, 3.0, True))  # it refuses them, too
    assert fake.stop.count == 1  # a second one would kill the others
    runs = fake.summary()["tasks"]["rte"]["runs"]
    assert [run["state"] for run in runs] == ["failed", "failed", "new"]


def test_a_prediction_that_refuses_the_flags_stops_the_search(tmp_path):
    fake = _FakeSearch(tmp_path, *_ONE).begin()
    fake.finish(0.7)
    job, _ = fake.next()
    job.on_end(jobs.JobEnd(2, 3.0, False))
    assert fake.search.refusal == f"last message (see {job.log})" and fake.stop.count == 1
