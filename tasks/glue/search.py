"""The jobs of a GLUE search: which are still to do, and what follows when one of them ends."""

import contextlib
import functools
import logging
import os
import time
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from command_line import errors
from system import signals
from tasks.glue import (
    commands,
    data_sets,
    jobs,
    predictions,
    run_folder,
    status,
    summary,
    summary_files,
)
from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs
from training import progress

_log = logging.getLogger(__name__)


class Search:
    """A search over GLUE: its queue of jobs and the table of its runs.

    Args:
      flags: of this command.
      plan: the runs that the flags ask for.
      data: of each task in the plan.
      run_groups: flag groups that the runs get.
      stop: is requested when a run refuses the flags, since all runs have the same ones.

    Attributes:
      queue: jobs that have not started. A job that ends may add more.
      refusal: why a run refused the flags; empty if none did.

    Raises:
      errors.UserError: a file of a run is damaged.
    """

    def __init__(
        self,
        flags: glue_options.GlueOptions,
        plan: Sequence[glue_runs.Run],
        data: Mapping[str, data_sets.TaskData],
        run_groups: Sequence[Any],
        stop: signals.StopRequests,
    ) -> None:
        self.queue: deque[jobs.Job] = deque()
        self.refusal = ""
        self._flags = flags
        self._plan = plan
        self._data = data
        self._run_groups = run_groups
        self._stop = stop
        self._table = status.RunTable(flags.output_dir, plan)
        self._pending = {run for run in plan if self._table[run].status != status.FINISHED}
        self._failures: dict[str, list[str]] = {}  # reason -> names of runs
        self._label_shares = {task: one.label_shares for task, one in data.items()}
        self._start = time.monotonic()
        self._rows_done = 0  # training rows of the runs that have ended since the start

    def check_flags(self) -> None:
        """Compares the flags with those of the runs that already exist.

        Raises:
          errors.FlagError: they differ, and the run has results or trained weights to lose.
        """
        for task in self._data:
            for run, state in self._table.of_task(task).items():
                difference = commands.difference(run.directory, self._training_flags(run))
                if not difference:
                    continue
                if state.status == status.FINISHED or run_folder.steps_saved(run.directory):
                    raise errors.FlagError(difference)
                run_folder.remove_checkpoints(run.directory)  # of step 0, so untrained

    def begin(self) -> None:
        """Fills the queue with what is not done yet and cleans up after a killed command."""
        directories = [self._flags.output_dir]
        for task in glue_runs.TASKS:
            directories += [run.directory for run in self._table.of_task(task)]
            directories.append(self.prediction_directory(task))
        for directory in directories:
            run_folder.remove_leftovers(directory)
        finished = len(self._plan) - len(self._pending)
        _log.info("%d runs, %d of them finished before", len(self._plan), finished)
        for task in self._data:
            pending = [run for run in self._plan if run.task == task and run in self._pending]
            training = list(map(self._training_job, pending))
            self.queue.extend(training or self._finish_task(task))
        self.write_summary()

    # ------------------------------------------------------------------ runs

    def _training_flags(self, run: glue_runs.Run) -> list[str]:
        return commands.training_flags(run, self._data[run.task].folder, self._run_groups)

    def _training_job(self, run: glue_runs.Run) -> jobs.Job:
        return jobs.Job(
            command=[*commands.CLASSIFIER, *self._training_flags(run)],
            log=run.log,
            on_start=functools.partial(self._table.start, run),
            on_end=functools.partial(self._end_run, run),
        )

    def _end_run(self, run: glue_runs.Run, end: jobs.JobEnd) -> None:
        state = self._table.end(run, end)
        if state.status == status.UNFINISHED:  # it was stopped
            return
        if state.exit_status == errors.FlagError.exit_status:
            self._refuse(run.log)
        else:
            self._pending.discard(run)
            self._rows_done += self._data[run.task].train_rows
            self._log_run(run, state, end.seconds)
            if not any(other.task == run.task for other in self._pending):
                self.queue.extendleft(self._finish_task(run.task))
        self.write_summary()

    def _refuse(self, log: str) -> None:
        """Stops all jobs, because one of them has refused flags that all of them have."""
        self.refusal = f"{run_folder.last_log_line(log)} (see {log})"
        if not self._stop.count:  # a second request would kill the others
            self._stop.request()

    def _log_run(self, run: glue_runs.Run, state: status.RunState, seconds: float) -> None:
        level = logging.INFO
        outcome = ", ".join(f"{name} = {value:.4g}" for name, value in state.results.items())
        if state.status == status.FAILED:
            level = logging.WARNING
            outcome = self._note_failure(f"{run.task} {run.name}", run.log, state.exit_status)
        elif summary.at_chance(run.task, state.results, self._label_shares_of(run.task)):
            outcome += ", at chance"
        done, duration = len(self._plan) - len(self._pending), progress.duration(seconds)
        position = f"[{done}/{len(self._plan)}] {run.task} {run.name}"
        _log.log(level, "%s: %s (%s)%s", position, outcome, duration, self._time_left())

    def _note_failure(self, name: str, log: str, exit_status: int) -> str:
        """Keeps a failure for ``report_failures`` and describes it."""
        cause, message = summary_files.exit_text(exit_status), run_folder.last_log_line(log)
        reason = message if exit_status > 0 else cause
        self._failures.setdefault(reason, []).append(f"{name} ({log})")
        return f"failed, {cause}: {message} (see {log})"

    def _time_left(self) -> str:
        """A forecast from the training rows that were worked through since the start."""
        rows = sum(self._data[run.task].train_rows for run in self._pending)
        if not rows:
            return ""
        seconds = (time.monotonic() - self._start) / self._rows_done * rows
        return f", about {progress.duration(seconds)} left"

    # ------------------------------------------------------------------ predictions

    def _finish_task(self, task: str) -> list[jobs.Job]:
        """Picks the best run of a task, deletes the checkpoints of the others and makes it predict.

        Returns:
          The job that predicts; none if there is no need or no way to predict.
        """
        best = self._summarize(task).best
        if best is None:
            return []
        _log.info("%s: best is %s", task, best.run.name)
        if not self._flags.keep_all_runs:
            self._remove_other_checkpoints(best.run)
        data = self._data[task]
        if not data.tests:
            _log.info("%s: no test set in %s, so no predictions", task, data.folder)
            return []
        if self.is_predicted(task, data.tests):
            return []
        if run_folder.steps_saved(best.run.directory) is None:
            reason = "the checkpoint of the best run is gone"
            reason += f", delete {best.run.directory} to run it again"
            self._failures.setdefault(reason, []).append(f"{task} predictions")
            _log.warning("%s: %s", task, reason)
            return []
        return [self._prediction_job(best.run)]

    def _remove_other_checkpoints(self, best: glue_runs.Run) -> None:
        freed = 0
        for run, state in self._table.of_task(best.task).items():
            if run != best and state.status == status.FINISHED:
                freed += run_folder.remove_checkpoints(run.directory)
        if freed:
            megabytes = freed / 1e6
            _log.info("%s: deleted %.1f MB of checkpoints of its other runs", best.task, megabytes)

    def _prediction_job(self, run: glue_runs.Run) -> jobs.Job:
        directory, data = self.prediction_directory(run.task), self._data[run.task]
        flags = commands.prediction_flags(run, directory, data, self._run_groups)
        return jobs.Job(
            command=[*commands.CLASSIFIER, *flags],
            log=os.path.join(directory, "log.txt"),
            on_start=functools.partial(predictions.start, directory, run, data.tests),
            on_end=functools.partial(self._end_prediction, run.task),
        )

    def _end_prediction(self, task: str, end: jobs.JobEnd) -> None:
        directory = self.prediction_directory(task)
        log = os.path.join(directory, "log.txt")
        if end.exit_status == errors.FlagError.exit_status:
            self._refuse(log)
        elif end.exit_status == 0 and predictions.exist(directory, task, self._data[task].tests):
            _log.info("%s: predicted (%s)", task, progress.duration(end.seconds))
        elif not end.stopped:
            failure = self._note_failure(f"{task} predictions", log, end.exit_status)
            _log.warning("%s: prediction %s", task, failure)

    def prediction_directory(self, task: str) -> str:
        """Where the predictions of a task are."""
        return os.path.join(self._flags.output_dir, task, "test")

    def is_predicted(self, task: str, tests: Mapping[str, str]) -> bool:
        """Whether the best run of a task has predicted all of some test sets as they are now.

        Args:
          task: its name.
          tests: test set -> its folder, as ``data_sets.test_folders`` returns them.
        """
        best = self._summarize(task).best
        directory = self.prediction_directory(task)
        return best is not None and predictions.are_current(directory, best.run, tests)

    # ------------------------------------------------------------------ summary

    def write_summary(self) -> str:
        """Writes the summary of all runs, also those of earlier commands; returns its text."""
        tasks = [self._summarize(name) for name in glue_runs.TASKS if self.has_runs(name)]
        with_results = {task.name for task in tasks if task.results}
        if with_results == set(glue_runs.TASKS) - {"wnli"}:  # the last one for the GLUE score
            tasks = [task for task in tasks if task.name != "wnli"] + [self._summarize("wnli")]
        return summary_files.write(self._flags.output_dir, tasks)

    def _summarize(self, task: str) -> summary.TaskSummary:
        return summary.summarize(task, self._table.of_task(task), self._label_shares_of(task))

    def _label_shares_of(self, task: str) -> Mapping[str, float]:
        if task not in self._label_shares:  # it has runs of an earlier command, or is wnli
            self._label_shares[task] = {}
            with contextlib.suppress(errors.UserError):  # its data may have been deleted
                self._label_shares[task] = data_sets.dev_label_shares(task, self._flags.data_dir)
        return self._label_shares[task]

    def has_runs(self, task: str) -> bool:
        """Whether a task has runs, of this command or of an earlier one."""
        return bool(self._table.of_task(task))

    def report_failures(self) -> None:
        """Raises an error if something has failed; to be called when all jobs have ended.

        Raises:
          errors.UserError: naming each reason, and the runs that failed for it.
        """
        failures = [f"{errors.some(names)}: {why}" for why, names in self._failures.items()]
        if failures:
            raise errors.UserError(
                f"failed: {'; '.join(failures)}; the same command tries them again, from what "
                "their folders have (delete a folder to start over)"
            )
