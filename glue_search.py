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

import errors
import glue_runs
import glue_summary
import options
import processes
import progress
from tasks import glue_sets

_log = logging.getLogger(__name__)


class Search:
    """The work that is to be done, as jobs, and what follows when one is done.

    Args:
      flags: of this command.
      plan: the runs that they ask for.
      sets: of the tasks in the plan.
      groups: the flags that runs get.

    Attributes:
      queue: jobs that wait; ``about`` is the run, or the task whose test set is predicted.
      output_dir: of the flags.
    """

    def __init__(
        self,
        flags: options.GlueOptions,
        plan: Sequence[glue_runs.Run],
        sets: Mapping[str, glue_sets.Sets],
        groups: Sequence[Any],
    ) -> None:
        self.queue: deque[processes.Job] = deque()
        self.output_dir = flags.output_dir
        self._data_dir = flags.data_dir
        self._keep_all_runs = flags.keep_all_runs
        self._plan = plan
        self._sets = dict(sets)
        self._groups = groups
        self._open = {run: glue_runs.state(run).kind != glue_runs.FINISHED for run in plan}
        self._unpredicted: list[str] = []
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
                found = glue_runs.difference(run.directory, self._training(run))
                if not found:
                    continue
                state = glue_runs.state(run)
                if state.kind == glue_runs.FINISHED or glue_runs.steps_saved(run.directory):
                    raise errors.FlagError(found)
                glue_runs.remove_checkpoints(run.directory)  # of step 0: no work is in it

    def begin(self) -> None:
        """Fills the queue with what is not done yet."""
        still = [run for run in self._plan if self._open[run]]
        _log.info(
            "%d runs, %d of them finished before", len(self._plan), len(self._plan) - len(still)
        )
        for task in self._sets:
            jobs = [self._job(run) for run in still if run.task == task]
            self.queue.extend(jobs or self._decide(task))
        self.write_summary()

    def _job(self, run: glue_runs.Run) -> processes.Job:
        return processes.Job([*glue_runs.CLASSIFIER, *self._training(run)], run.log, run)

    def _training(self, run: glue_runs.Run) -> list[str]:
        return glue_runs.training_flags(run, self._sets[run.task].folder, self._groups)

    def _runs(self, task: str) -> list[glue_runs.Run]:
        """The planned runs of a task and those that the directory has."""
        planned = [run for run in self._plan if run.task == task]
        found = glue_runs.found(self.output_dir, task)
        return sorted({*planned, *found}, key=lambda run: (-run.rate, run.seed))

    # ------------------------------------------------------------------ while jobs run

    def starts(self, job: processes.Job) -> None:
        """Prepares the directory of a job and shows its command line."""
        directory = os.path.dirname(job.log)
        os.makedirs(directory, exist_ok=True)
        if isinstance(job.about, str):  # what was predicted with another run is of no use
            for name in os.listdir(directory):
                if name.startswith("test_results"):
                    os.remove(os.path.join(directory, name))
        glue_runs.note_outcome(directory, None)
        _log.info("%s > %s", shlex.join(job.command), job.log)

    def done(self, job: processes.Job, end: processes.End) -> None:
        """Writes down how a job ended and says so; when a task's runs are over, decides it."""
        directory = os.path.dirname(job.log)
        is_run = isinstance(job.about, glue_runs.Run)
        over = end.status == 0 and bool(
            glue_runs.results(job.about) if is_run else self._predictions(job.about)
        )
        if end.stopped and not over:
            glue_runs.note_outcome(directory, None, end.seconds)
            return
        glue_runs.note_outcome(directory, end.status, end.seconds)
        if not is_run:
            self._tell_predicted(job, end, over)
            return
        run = job.about
        self._open[run] = False
        self._worked += self._sets[run.task].train_rows
        self._tell(run, end)
        if not any(self._open[other] for other in self._plan if other.task == run.task):
            self.queue.extendleft(reversed(self._decide(run.task)))
        self.write_summary()

    def _tell(self, run: glue_runs.Run, end: processes.End) -> None:
        state = glue_runs.state(run)
        if state.kind == glue_runs.FINISHED:
            said = ", ".join(f"{name} = {value:.4g}" for name, value in state.results.items())
            if glue_summary.at_chance(run.task, state.results, self._shares(run.task)):
                said += ", at chance"
        else:
            why = _last_line(run.log)
            said = f"failed, {glue_summary.exit_text(state.status)}: {why} (see {run.log})"
        over = sum(not is_open for is_open in self._open.values())
        taken = progress.duration(end.seconds)
        _log.log(
            logging.INFO if state.kind == glue_runs.FINISHED else logging.WARNING,
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

    def _tell_predicted(self, job: processes.Job, end: processes.End, over: bool) -> None:
        if over:
            _log.info("%s: predicted (%s)", job.about, progress.duration(end.seconds))
            return
        self._unpredicted.append(job.about)
        status = glue_summary.exit_text(end.status)
        why = _last_line(job.log)
        _log.warning("%s: prediction failed, %s: %s (see %s)", job.about, status, why, job.log)

    # ------------------------------------------------------------------ after a task's runs

    def _decide(self, task: str) -> list[processes.Job]:
        """Picks the best run, makes room, and returns the job that predicts, if there is one."""
        best = self._summary(task).best
        if best is None:
            return []
        _log.info("%s: best is %s", task, best.run.name)
        if not self._keep_all_runs:
            self._make_room(task, best.run)
        directory = self.test_directory(task)
        sets = self._sets[task]
        if not sets.tests:
            _log.info("%s: no test set in %s, so no predictions", task, sets.folder)
            return []
        others = [name for name in sets.tests if name != task]
        arguments = glue_runs.prediction_flags(
            best.run, directory, sets.folder, others, self._groups
        )
        if self._predictions(task) and not glue_runs.difference(directory, arguments):
            return []
        if glue_runs.steps_saved(best.run.directory) is None:
            self._unpredicted.append(task)
            _log.warning(
                "%s: the checkpoint of the best run is gone; delete %s to run it again",
                task,
                best.run.directory,
            )
            return []
        log = os.path.join(directory, "log.txt")
        return [processes.Job([*glue_runs.CLASSIFIER, *arguments], log, task)]

    def _make_room(self, task: str, best: glue_runs.Run) -> None:
        freed = 0
        for run in self._runs(task):
            if run != best and glue_runs.state(run).kind == glue_runs.FINISHED:
                freed += glue_runs.remove_checkpoints(run.directory)
        if freed:
            _log.info("%s: deleted %.1f MB of checkpoints of its other runs", task, freed / 1e6)

    def _predictions(self, task: str) -> bool:
        return glue_sets.are_predicted(task, self._sets[task].tests, self.test_directory(task))

    # ------------------------------------------------------------------ summary

    def write_summary(self) -> str:
        """Writes the summary of everything that the directory has; returns its text."""
        found = [self._summary(name) for name in glue_runs.TASKS if self._runs(name)]
        others = {task.name for task in found if task.results}
        if others == set(glue_runs.TASKS) - {"wnli"}:  # the last one that the GLUE score needs
            found = [task for task in found if task.name != "wnli"] + [self._summary("wnli")]
        return glue_summary.write(self.output_dir, found)

    def _summary(self, task: str) -> glue_summary.Task:
        states = [(run, glue_runs.state(run)) for run in self._runs(task)]
        return glue_summary.task_of(task, states, self._shares(task))

    def _shares(self, task: str) -> Mapping[str, float]:
        if task not in self._known_shares:  # runs of an earlier command, or wnli without a run
            self._known_shares[task] = {}
            with contextlib.suppress(errors.UserError):  # its data need not be there any more
                self._known_shares[task] = glue_sets.dev_shares(task, self._data_dir)
        return self._known_shares[task]

    def test_directory(self, task: str) -> str:
        """Where the predictions of a task go."""
        return os.path.join(self.output_dir, task, "test")

    def report_failures(self) -> None:
        """Raises where something failed, when all that can be done is done.

        Raises:
          errors.UserError: naming what failed.
        """
        bad = [run for run in self._plan if glue_runs.state(run).kind == glue_runs.FAILED]
        names = [f"{run.task} {run.name} ({run.log})" for run in bad]
        names += [
            f"prediction of {task} ({self.test_directory(task)}/log.txt)"
            for task in self._unpredicted
        ]
        if names:
            raise errors.UserError(f"failed: {', '.join(names)}; the same command tries them again")


def _last_line(log: str) -> str:
    """What a process said last, without its time."""
    with open(log, "rb") as file:
        file.seek(max(0, os.path.getsize(log) - 4096))
        lines = file.read().decode("utf-8", "replace").split("\n")
    said = [line.strip() for line in lines if line.strip() and not line.startswith("$ ")]
    return said[-1][:300] if said else "it said nothing"
