"""The search over GLUE at work: what is still to do, and what follows when a part of it is done."""

from __future__ import annotations

import contextlib
import logging
import os
import shlex
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from command_line import errors
from tasks.glue import commands, data_sets, jobs, run_folder, status, summary
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs
from training import progress

_log = logging.getLogger(__name__)


class Search:
    """The work that is to be done, as jobs, and what follows when one is done.

    Args:
      flags: of this command.
      plan: the runs that they ask for.
      sets: of the tasks in the plan.
      groups: the flags that runs get.
      stop: told to stop all when a run says that the flags are wrong.

    Attributes:
      queue: jobs that wait; ``about`` is the run, or the prediction.
      output_dir: of the flags.
      refusal: what a run has said about the flags; empty while all is well.
    """

    def __init__(
        self,
        flags: glue_options.GlueOptions,
        plan: Sequence[glue_runs.Run],
        sets: Mapping[str, data_sets.Sets],
        groups: Sequence[Any],
        stop: jobs.Stop,
    ) -> None:
        self.queue: deque[jobs.Job] = deque()
        self.output_dir = flags.output_dir
        self.refusal = ""
        self._data_dir = flags.data_dir
        self._keep_all_runs = flags.keep_all_runs
        self._plan = plan
        self._sets = dict(sets)
        self._groups = groups
        self._stop = stop
        self._open = {run: status.state(run).kind != status.FINISHED for run in plan}
        self._failures: dict[str, list[str]] = {}  # reason -> who
        self._known_shares = {task: found.shares for task, found in sets.items()}
        self._start = time.monotonic()
        self._worked = 0  # training rows of the runs that ended since the start

    def check_flags(self) -> None:
        """Compares the flags with those that the runs in the directory were made with.

        Raises:
          errors.FlagError: they differ, and there is something to lose.
        """
        for task in self._sets:
            for run in self._runs(task):
                found = commands.difference(run.directory, self._training(run))
                if not found:
                    continue
                state = status.state(run)
                if state.kind == status.FINISHED or run_folder.steps_saved(run.directory):
                    raise errors.FlagError(found)
                run_folder.remove_checkpoints(run.directory)  # of step 0: no work is in it

    def begin(self) -> None:
        """Fills the queue with what is not done yet, and clears up after a killed command."""
        runs = [run for task in glue_runs.TASKS for run in self._runs(task)]
        tests = [self.test_directory(task) for task in glue_runs.TASKS]
        for directory in (self.output_dir, *(run.directory for run in runs), *tests):
            run_folder.remove_leftovers(directory)
        still = [run for run in self._plan if self._open[run]]
        _log.info(
            "%d runs, %d of them finished before", len(self._plan), len(self._plan) - len(still)
        )
        for task in self._sets:
            jobs = [self._job(run) for run in still if run.task == task]
            self.queue.extend(jobs or self._decide(task))
        self.write_summary()

    def _job(self, run: glue_runs.Run) -> jobs.Job:
        return jobs.Job([*commands.CLASSIFIER, *self._training(run)], run.log, run)

    def _training(self, run: glue_runs.Run) -> list[str]:
        return commands.training_flags(run, self._sets[run.task].folder, self._groups)

    def _runs(self, task: str) -> list[glue_runs.Run]:
        """The planned runs of a task and those that the directory has."""
        planned = [run for run in self._plan if run.task == task]
        found = glue_runs.found(self.output_dir, task)
        return sorted({*planned, *found}, key=lambda run: (-run.rate, run.seed))

    # ------------------------------------------------------------------ while jobs run

    def starts(self, job: jobs.Job) -> None:
        """Prepares the directory of a job and shows its command line."""
        about = job.about
        os.makedirs(about.directory, exist_ok=True)
        # Old results first: under the new note they would pass for those of this start.
        if isinstance(about, glue_runs.Run):
            run_folder.remove_results(about.directory, "eval_results")
            status.note_start(about.directory)
        else:
            run_folder.remove_results(about.directory, "test_results")
            status.note_start(
                about.directory,
                model=status.model(about.run),
                tests=data_sets.digest(self._sets[about.task].tests),
            )
        _log.info("%s > %s", shlex.join(job.command), job.log)

    def done(self, job: jobs.Job, end: jobs.End) -> None:
        """Writes down how a job ended and says so; when a task's runs are over, decides it."""
        about = job.about
        is_run = isinstance(about, glue_runs.Run)
        over = end.status == 0 and bool(
            status.results(about) if is_run else self._has_predictions(about.task)
        )
        refused = end.status == errors.FlagError.exit_status
        if end.stopped and not (over or refused):
            status.note_end(about.directory, None, end.seconds)
            return
        status.note_end(about.directory, end.status, end.seconds)
        if refused:
            self._refuse(about)
        elif is_run:
            self._open[about] = False
            self._worked += self._sets[about.task].train_rows
            self._tell(about, end)
            if not any(self._open[run] for run in self._plan if run.task == about.task):
                self.queue.extendleft(reversed(self._decide(about.task)))
        else:
            self._tell_predicted(about, end, over)
        self.write_summary()

    def _refuse(self, about: glue_runs.Run | glue_runs.Prediction) -> None:
        """Stops all: the flags are wrong, and the other runs have the same ones."""
        self.refusal = f"{run_folder.last_log_line(about.log)} (see {about.log})"
        if not self._stop.requests:
            self._stop.request()

    def _failed(self, about: glue_runs.Run | glue_runs.Prediction, status: int) -> str:
        """Keeps a failure for the report, and returns what there is to say now."""
        how, said = summary.exit_text(status), run_folder.last_log_line(about.log)
        reason = said if status > 0 else how
        self._failures.setdefault(reason, []).append(f"{about.task} {about.name} ({about.log})")
        return f"failed, {how}: {said} (see {about.log})"

    def _tell(self, run: glue_runs.Run, end: jobs.End) -> None:
        state = status.state(run)
        if state.kind == status.FINISHED:
            said = ", ".join(f"{name} = {value:.4g}" for name, value in state.results.items())
            if summary.at_chance(run.task, state.results, self._shares(run.task)):
                said += ", at chance"
        else:
            said = self._failed(run, state.status)
        over = sum(not is_open for is_open in self._open.values())
        taken = progress.duration(end.seconds)
        _log.log(
            logging.INFO if state.kind == status.FINISHED else logging.WARNING,
            "[%d/%d] %s %s: %s (%s)%s",
            *(over, len(self._plan), run.task, run.name, said, taken, self._time_left()),
        )

    def _time_left(self) -> str:
        """A forecast from the training rows that were worked through since the start."""
        rows = sum(self._sets[run.task].train_rows for run in self._plan if self._open[run])
        if not rows:
            return ""
        seconds = (time.monotonic() - self._start) / self._worked * rows
        return f", about {progress.duration(seconds)} left"

    def _tell_predicted(self, about: glue_runs.Prediction, end: jobs.End, over: bool) -> None:
        if over:
            _log.info("%s: predicted (%s)", about.task, progress.duration(end.seconds))
        else:
            _log.warning("%s: prediction %s", about.task, self._failed(about, end.status))

    # ------------------------------------------------------------------ after a task's runs

    def _decide(self, task: str) -> list[jobs.Job]:
        """Picks the best run, makes room, and returns the job that predicts, if there is one."""
        best = self._summary(task).best
        if best is None:
            return []
        _log.info("%s: best is %s", task, best.run.name)
        if not self._keep_all_runs:
            self._make_room(task, best.run)
        sets = self._sets[task]
        if not sets.tests:
            _log.info("%s: no test set in %s, so no predictions", task, sets.folder)
            return []
        if self.is_predicted(task, sets.tests):
            return []
        about = glue_runs.Prediction(best.run, self.test_directory(task))
        if run_folder.steps_saved(best.run.directory) is None:
            gone = "the checkpoint of the best run is gone"
            reason = f"{gone}, delete {best.run.directory} to run it again"
            self._failures.setdefault(reason, []).append(f"{task} {about.name}")
            _log.warning("%s: %s", task, reason)
            return []
        others = [name for name in sets.tests if name != task]
        arguments = commands.prediction_flags(
            best.run, about.directory, sets.folder, others, self._groups
        )
        return [jobs.Job([*commands.CLASSIFIER, *arguments], about.log, about)]

    def _make_room(self, task: str, best: glue_runs.Run) -> None:
        freed = 0
        for run in self._runs(task):
            if run != best and status.state(run).kind == status.FINISHED:
                freed += run_folder.remove_checkpoints(run.directory)
        if freed:
            _log.info("%s: deleted %.1f MB of checkpoints of its other runs", task, freed / 1e6)

    def _has_predictions(self, task: str) -> bool:
        return data_sets.are_predicted(task, self._sets[task].tests, self.test_directory(task))

    def is_predicted(self, task: str, tests: Mapping[str, str]) -> bool:
        """Whether the best run of a task, as it is now, has predicted all of some test sets."""
        directory = self.test_directory(task)
        if not data_sets.are_predicted(task, tests, directory):
            return False
        best = self._summary(task).best
        return best is not None and status.predicted_with(directory) == {
            "model": status.model(best.run),
            "tests": data_sets.digest(tests),
        }

    # ------------------------------------------------------------------ summary

    def write_summary(self) -> str:
        """Writes the summary of everything that the directory has; returns its text."""
        found = [self._summary(name) for name in glue_runs.TASKS if self._runs(name)]
        others = {task.name for task in found if task.results}
        if others == set(glue_runs.TASKS) - {"wnli"}:  # the last one that the GLUE score needs
            found = [task for task in found if task.name != "wnli"] + [self._summary("wnli")]
        return summary.write(self.output_dir, found)

    def _summary(self, task: str) -> summary.Task:
        states = [(run, status.state(run)) for run in self._runs(task)]
        return summary.task_of(task, states, self._shares(task))

    def _shares(self, task: str) -> Mapping[str, float]:
        if task not in self._known_shares:  # runs of an earlier command, or wnli without a run
            self._known_shares[task] = {}
            with contextlib.suppress(errors.UserError):  # its data need not be there any more
                self._known_shares[task] = data_sets.dev_shares(task, self._data_dir)
        return self._known_shares[task]

    def test_directory(self, task: str) -> str:
        """Where the predictions of a task go."""
        return os.path.join(self.output_dir, task, "test")

    def has_runs(self, task: str) -> bool:
        """Whether a task is trained, by this command or an earlier one."""
        return bool(self._runs(task))

    def report_failures(self) -> None:
        """Raises where something failed, when all that can be done is done.

        Raises:
          errors.UserError: naming each reason and what failed for it.
        """
        told = [f"{errors.some(names)}: {reason}" for reason, names in self._failures.items()]
        if told:
            raise errors.UserError(
                f"failed: {'; '.join(told)}; the same command tries them again, from what their "
                "folders have (delete a folder to begin anew)"
            )
