"""What follows when a run ends: no process is started here, their files are put in their place."""

from __future__ import annotations

import json
import pathlib
import re
import shutil

import pytest

from command_line import errors, options, parser
from tasks.classifier import options as classifier_options
from tasks.glue import data_sets, jobs, run_folder, search
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs

DONE = jobs.End(0, 2.0, False)


class _Bench:
    """A search over made-up tasks, whose jobs the test ends as it likes."""

    def __init__(self, folder, *more, rows=100, tests=("rte",), **each):
        self.out = folder / "out"
        flags = [f"--output_dir={self.out}", f"--data_dir={folder}", "--tasks=rte", *more]
        self.flags = parser.parse(flags, [glue_options.GlueOptions])[0][0]
        model = options.ModelOptions(bert_config_file="c", init_checkpoint="i")
        text = options.TokenizerOptions(vocab_file="v")
        self.groups = (glue_options.GlueRunOptions(**each), text, model, options.DeviceOptions())
        places = {name: str(folder) for name in tests}
        for name in ("test", "diagnostic"):
            if not (folder / f"{name}.tsv").exists():
                (folder / f"{name}.tsv").write_text("index\ta\tb\n0\tone\ttwo\n")
        sets = {
            "rte": data_sets.Sets(str(folder), rows, {"a": 0.5, "b": 0.5}, places),
            "sts-b": data_sets.Sets(str(folder), 3 * rows, {}, {}),
        }
        plan = glue_runs.plan(self.flags)
        wanted = {run.task for run in plan}
        self.sets = {task: found for task, found in sets.items() if task in wanted}
        self.stop = jobs.Stop()
        self.work = search.Search(self.flags, plan, self.sets, self.groups, self.stop)
        self.out.mkdir(exist_ok=True)

    def begin(self):
        self.work.check_flags()
        self.work.begin()
        return self

    def next(self):
        """Starts the next job and returns it with its directory."""
        job = self.work.queue.popleft()
        self.work.starts(job)
        pathlib.Path(job.log).write_text("$ python …\n12:00:01 last words\n")
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
        _save(directory, 9)
        self.work.done(job, DONE)
        return directory

    def predict(self):
        job, directory = self.next()
        assert directory.name == "test"
        (directory / "test_results.tsv").write_text("0.1\t0.9\n")
        self.work.done(job, DONE)
        return job

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


def test_the_best_run_predicts_and_the_others_make_room(tmp_path, caplog):
    bench = _Bench(tmp_path, "--learning_rates=5e-5,2e-5", "--seeds=1,2").begin()
    directories = [bench.finish(score) for score in (0.6, 0.7, 0.8, 0.75)]
    assert [directory.name for directory in directories] == [
        "lr5e-5-seed1", "lr5e-5-seed2", "lr2e-5-seed1", "lr2e-5-seed2",
    ]  # fmt: skip
    assert [_has_checkpoint(x) == (True, True) for x in directories] == [False, False, True, False]
    assert all((directory / "eval_results.txt").exists() for directory in directories)
    job = bench.predict()
    assert job.command[-1] == f"--init_checkpoint={directories[2]}"
    assert not bench.work.queue
    assert "rte: best is lr=2e-5 seed=1" in caplog.text
    assert bench.summary()["tasks"]["rte"]["mean"]["accuracy"] == pytest.approx(0.775)

    # The same command has nothing to do; one with another seed may find a better run, and predicts
    # with that.
    flags = ("--learning_rates=5e-5,2e-5", "--seeds=1,2")
    assert not _Bench(tmp_path, *flags).begin().work.queue
    more = _Bench(tmp_path, "--learning_rates=2e-5", "--seeds=3").begin()
    better = more.finish(0.9)
    assert more.predict().command[-1] == f"--init_checkpoint={better}"
    assert _has_checkpoint(directories[2]) == (False, False)
    # The first command again: the best run of the directory is still the better one.
    assert not _Bench(tmp_path, *flags).begin().work.queue


def test_all_checkpoints_may_stay(tmp_path):
    bench = _Bench(tmp_path, "--learning_rates=5e-5,2e-5", "--keep_all_runs").begin()
    assert [_has_checkpoint(bench.finish(score)) for score in (0.6, 0.7)] == [(True, True)] * 2
    assert (tmp_path / "out/rte/lr5e-5-seed1/checkpoint").exists()


def test_a_line_tells_how_many_are_done_and_how_long_it_takes(tmp_path, caplog, monkeypatch):
    clock = [1000.0]
    monkeypatch.setattr(search.time, "monotonic", lambda: clock[0])
    bench = _Bench(tmp_path, "--tasks=rte,sts-b", "--learning_rates=5e-5,2e-5").begin()
    clock[0] += 60
    bench.finish(0.75)
    # 100 rows took a minute; 100 rows of rte and twice 300 of sts-b are left.
    assert "[1/4] rte lr=5e-5 seed=1: accuracy = 0.75 (2s), about 7m00s left" in caplog.text
    clock[0] += 60
    bench.finish(0.5)
    assert (
        "[2/4] rte lr=2e-5 seed=1: accuracy = 0.5, at chance (2s), about 6m00s left" in caplog.text
    )
    bench.predict()
    clock[0] += 180
    bench.finish(0.09)
    said = "spearman = 0.09, pearson = 0.09, at chance (2s), about 3m00s left"
    assert f"[3/4] sts-b lr=5e-5 seed=1: {said}" in caplog.text
    bench.finish(0.8)
    assert "[4/4] sts-b lr=2e-5 seed=1: spearman = 0.8, pearson = 0.8 (2s)" in caplog.messages
    assert f"sts-b: no test set in {tmp_path}, so no predictions" in caplog.text


def test_a_failed_run_is_marked_and_the_others_go_on(tmp_path, caplog):
    flags = ("--learning_rates=2e-5", "--seeds=1,2,3")
    bench = _Bench(tmp_path, *flags).begin()
    bench.finish(0.7)
    job, directory = bench.next()
    _save(directory, 4)
    bench.work.done(job, jobs.End(1, 3.0, False))
    assert f"failed, exit status 1: last words (see {job.log})" in caplog.text
    bench.finish(0.6)
    bench.predict()
    runs = bench.summary()["tasks"]["rte"]["runs"]
    assert [run["state"] for run in runs] == ["finished", "failed", "finished"]
    assert runs[1]["log"] == job.log
    assert "2e-5/2" in (bench.out / "summary.txt").read_text()
    report = r"failed: rte lr=2e-5 seed=2 \(.*seed2/log.txt\): last words; the same command tries"
    with pytest.raises(errors.UserError, match=report):
        bench.work.report_failures()
    # What it has saved stays, and the same command tries that run alone again.
    assert _has_checkpoint(directory) == (True, True)
    again = _Bench(tmp_path, *flags).begin()
    assert [job.about.seed for job in again.work.queue] == [2]
    again.finish(0.65)
    again.work.report_failures()
    assert not again.work.queue


def test_a_run_that_was_told_to_stop_has_not_failed(tmp_path):
    bench = _Bench(tmp_path, "--learning_rates=2e-5", "--seeds=1,2").begin()
    for status in (0, -15):  # it has saved, or had nothing to save yet
        job, _ = bench.next()
        bench.work.done(job, jobs.End(status, 3.0, True))
    bench.work.report_failures()
    bench.work.write_summary()
    runs = bench.summary()["tasks"]["rte"]["runs"]
    assert [(run["state"], run["seconds"]) for run in runs] == [("unfinished", 3.0)] * 2
    assert len(_Bench(tmp_path, "--learning_rates=2e-5", "--seeds=1,2").begin().work.queue) == 2


def test_a_run_that_ended_well_without_results_has_failed(tmp_path, caplog):
    bench = _Bench(tmp_path, "--learning_rates=2e-5").begin()
    job, _ = bench.next()
    bench.work.done(job, DONE)
    assert "failed, no results" in caplog.text
    with pytest.raises(errors.UserError, match="failed: rte"):
        bench.work.report_failures()


def test_a_prediction_that_failed(tmp_path, caplog):
    flags = ("--learning_rates=2e-5",)
    bench = _Bench(tmp_path, *flags).begin()
    bench.finish(0.7)
    job, directory = bench.next()
    bench.work.done(job, jobs.End(1, 3.0, False))
    assert "rte: prediction failed, exit status 1" in caplog.text
    with pytest.raises(errors.UserError, match="failed: rte predictions .*test/log.txt"):
        bench.work.report_failures()
    again = _Bench(tmp_path, *flags).begin()
    again.predict()
    again.work.report_failures()


def test_a_better_run_whose_checkpoint_is_gone_predicts_nothing(tmp_path, caplog):
    bench = _Bench(tmp_path, "--learning_rates=2e-5").begin()
    directory = bench.finish(0.7)
    run_folder.remove_checkpoints(str(directory))
    again = _Bench(tmp_path, "--learning_rates=2e-5").begin()
    assert not again.work.queue
    reason = f"the checkpoint of the best run is gone, delete {directory} to run it again"
    assert f"rte: {reason}" in caplog.text
    with pytest.raises(errors.UserError, match=f"failed: rte predictions: {reason}; the same"):
        again.work.report_failures()


def test_predictions_of_another_run_do_not_outlive_it(tmp_path):
    bench = _Bench(tmp_path, "--learning_rates=2e-5").begin()
    bench.finish(0.7)
    bench.predict()
    more = _Bench(tmp_path, "--learning_rates=2e-5", "--seeds=2").begin()
    more.finish(0.8)
    _, directory = more.next()
    assert not (directory / "test_results.tsv").exists()


@pytest.mark.parametrize("step, loses", [(0, False), (4, True)])
def test_changed_flags_are_an_error_where_there_is_something_to_lose(tmp_path, step, loses):
    bench = _Bench(tmp_path, "--learning_rates=2e-5").begin()
    job, directory = bench.next()
    _save(directory, step)
    bench.work.done(job, jobs.End(1, 3.0, False))
    changed = _Bench(tmp_path, "--learning_rates=2e-5", train_batch_size=16)
    if loses:
        with pytest.raises(errors.FlagError, match="--train_batch_size=32, not 16; give --train_"):
            changed.begin()
    else:  # the initial weights of the other run are of no use
        assert len(changed.begin().work.queue) == 1
    assert _has_checkpoint(directory) == (loses, loses)


def test_changed_flags_are_an_error_for_results(tmp_path):
    bench = _Bench(tmp_path, "--learning_rates=2e-5").begin()
    run_folder.remove_checkpoints(str(bench.finish(0.7)))
    with pytest.raises(errors.FlagError, match="--num_train_epochs=3.0, not 4.0"):
        _Bench(tmp_path, "--learning_rates=5e-5", num_train_epochs=4.0).begin()


# --------------------------------------------------------------------------------------------------
# Predictions and the run that made them
# --------------------------------------------------------------------------------------------------

_ONE = ("--learning_rates=2e-5",)


def test_a_run_that_is_made_anew_predicts_anew(tmp_path):
    bench = _Bench(tmp_path, *_ONE).begin()
    directory = bench.finish(0.7)
    bench.predict()
    assert bench.work.is_predicted("rte", {"rte": str(tmp_path)})
    shutil.rmtree(directory)
    again = _Bench(tmp_path, *_ONE).begin()
    again.finish(0.7)  # what it finds is the same, to the last digit
    assert not again.work.is_predicted("rte", {"rte": str(tmp_path)})
    again.predict()
    assert again.work.is_predicted("rte", {"rte": str(tmp_path)})
    assert not _Bench(tmp_path, *_ONE).begin().work.queue


def test_a_run_that_was_made_by_hand_predicts_anew(tmp_path):
    bench = _Bench(tmp_path, *_ONE).begin()
    directory = bench.finish(0.7)
    bench.predict()
    (directory / "eval_results.txt").write_text("eval_accuracy = 0.71\n")
    assert len(_Bench(tmp_path, *_ONE).begin().work.queue) == 1


def test_a_test_set_of_other_rows_is_predicted_anew(tmp_path):
    tests = {"rte": str(tmp_path)}
    bench = _Bench(tmp_path, *_ONE).begin()
    bench.finish(0.7)
    bench.predict()
    (tmp_path / "test.tsv").write_text("index\ta\tb\n0\ttwo\tone\n")
    again = _Bench(tmp_path, *_ONE).begin()
    assert not again.work.is_predicted("rte", tests)
    again.predict()
    assert again.work.is_predicted("rte", tests)


def test_predictions_are_those_of_the_best_run_or_none(tmp_path):
    tests = {"rte": str(tmp_path)}
    bench = _Bench(tmp_path, *_ONE).begin()
    assert not bench.work.is_predicted("rte", tests)
    first = bench.finish(0.7)
    bench.predict()
    more = _Bench(tmp_path, *_ONE, "--seeds=2,3").begin()
    assert more.work.is_predicted("rte", tests)
    more.finish(0.8)  # and seed 3 never ends
    assert not more.work.is_predicted("rte", tests)
    # The first command does what is missing, with the run that is better than its own.
    assert _Bench(tmp_path, *_ONE).begin().predict().about.run.seed == 2
    # A folder without runs has no best one.
    for seed in (1, 2, 3):
        shutil.rmtree(first.parent / f"lr2e-5-seed{seed}", ignore_errors=True)
    assert not _Bench(tmp_path, *_ONE).work.is_predicted("rte", tests)


def test_a_kill_between_two_files_of_predictions_leaves_none_that_count(tmp_path):
    tests = {"rte": str(tmp_path), "ax": str(tmp_path)}
    bench = _Bench(tmp_path, *_ONE, tests=("rte", "ax")).begin()
    bench.finish(0.7)
    _, directory = bench.next()
    (directory / "test_results.tsv").write_text("0.1\t0.9\n")
    again = _Bench(tmp_path, *_ONE, tests=("rte", "ax")).begin()
    assert not again.work.is_predicted("rte", tests)
    again.next()
    assert not (directory / "test_results.tsv").exists()


def test_results_of_an_earlier_try_do_not_pass_for_those_of_the_next(tmp_path):
    bench = _Bench(tmp_path, *_ONE).begin()
    job, directory = bench.next()
    (directory / "eval_results.txt").write_text("eval_accuracy = 0.9\n")
    bench.work.done(job, jobs.End(-9, 3.0, False))
    _Bench(tmp_path, *_ONE, num_train_epochs=4.0).begin().next()  # and is killed
    again = _Bench(tmp_path, *_ONE, num_train_epochs=4.0).begin()
    assert len(again.work.queue) == 1 and not (directory / "eval_results.txt").exists()


def test_what_a_killed_command_was_about_to_write_is_cleared_away(tmp_path):
    bench = _Bench(tmp_path, *_ONE).begin()
    places = [bench.out, bench.finish(0.7), pathlib.Path(bench.predict().about.directory)]
    for place in places:
        (place / "outcome.json.tempstate77").write_text("{")
    _Bench(tmp_path, *_ONE).begin()
    assert not [path for place in places for path in place.glob("*.tempstate*")]


# --------------------------------------------------------------------------------------------------
# Failures
# --------------------------------------------------------------------------------------------------


def _fail(bench, said, status):
    job, _ = bench.next()
    pathlib.Path(job.log).write_text(f"$ python …\n{said}\n")
    bench.work.done(job, jobs.End(status, 3.0, False))


def test_each_reason_is_told_once(tmp_path):
    bench = _Bench(tmp_path, *_ONE, "--seeds=1,2,3,4,5,6").begin()
    for said in ("step 7: not finite", "disk full", "step 7: not finite"):
        _fail(bench, f"run_classifier.py: error: {said}", 1)
    _fail(bench, "12:00:00 step 3", -9)
    _fail(bench, "12:00:09 step 4", -9)
    bench.finish(0.6)
    with pytest.raises(errors.UserError) as caught:
        bench.work.report_failures()
    told = re.sub(r" \(\S+/(lr\S+)/log.txt\)", r"", str(caught.value))
    assert told == (
        "failed: rte lr=2e-5 seed=1, rte lr=2e-5 seed=3: step 7: not finite; rte lr=2e-5 seed=2: "
        "disk full; rte lr=2e-5 seed=4, rte lr=2e-5 seed=5: killed by signal 9; the same command "
        "tries them again, from what their folders have (delete a folder to begin anew)"
    )


def test_a_run_that_refuses_the_flags_stops_all(tmp_path, caplog):
    bench = _Bench(tmp_path, *_ONE, "--seeds=1,2,3").begin()
    job, _ = bench.next()
    beside, _ = bench.next()
    pathlib.Path(job.log).write_text(
        "$ python …\nrun_classifier.py: error: --freeze_layers=9: no\n"
    )
    bench.work.done(job, jobs.End(2, 3.0, False))
    assert bench.work.refusal == f"--freeze_layers=9: no (see {job.log})"
    assert bench.stop.requests == 1
    bench.work.done(beside, jobs.End(2, 3.0, True))  # it was about to say the same
    assert bench.stop.requests == 1  # a second one would kill others
    runs = bench.summary()["tasks"]["rte"]["runs"]
    assert [run["state"] for run in runs] == ["failed", "failed", "new"]


def test_a_prediction_that_refuses_the_flags_stops_all(tmp_path):
    bench = _Bench(tmp_path, *_ONE).begin()
    bench.finish(0.7)
    job, _ = bench.next()
    bench.work.done(job, jobs.End(2, 3.0, False))
    assert bench.work.refusal == f"last words (see {job.log})" and bench.stop.requests == 1
