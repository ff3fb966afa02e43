"""Runs several commands at a time, each in its own process; none outlives this process.

A signal to stop is passed on, and the processes get the time to save and to end by themselves.
"""

import ctypes
import dataclasses
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from system import signals, worker_pool

_log = logging.getLogger(__name__)

_POLL_SECONDS = 0.05
_PR_SET_PDEATHSIG = 1
# Loaded at import, because nothing may be loaded between fork and exec.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class JobEnd(NamedTuple):
    """How a job ended.

    Attributes:
      exit_status: of its process; -9: killed by signal 9.
      seconds: wall time.
      stopped: whether it was asked to stop.
    """

    exit_status: int
    seconds: float
    stopped: bool


@dataclasses.dataclass
class Job:
    """A command to run.

    Attributes:
      command: program and arguments.
      log: file that its output is appended to, below the command line.
      on_start: called before the process starts.
      on_end: called when the process has ended.
    """

    command: list[str]
    log: str
    on_start: Callable[[], None]
    on_end: Callable[[JobEnd], None]


def stop_requests() -> signals.StopRequests:
    """What ``run_all`` stops for: the first signal asks the jobs to save, the second kills them."""
    message = "the runs save and stop; again to stop without saving"
    return signals.StopRequests("SIGTERM", "SIGINT", "SIGHUP", message=message)


def thread_limits(jobs: int) -> dict[str, str]:
    """Environment variables that give each of several TensorFlow processes its share of the cores.

    Args:
      jobs: processes at a time. A single one is not limited, and the user's own setting wins.
    """
    if jobs == 1 or "TF_NUM_INTRAOP_THREADS" in os.environ:
        return {}
    return {"TF_NUM_INTRAOP_THREADS": str(max(1, worker_pool.available_cores() // jobs))}


def run_all(
    queue: deque[Job],
    jobs: int,
    *,
    environment: Mapping[str, str] | None = None,
    inherited_files: Sequence[int] = (),
    stop: signals.StopRequests,
) -> None:
    """Runs the jobs of a queue in order, several at a time, until it is empty or ``stop`` is set.

    Args:
      queue: is emptied; the callbacks of its jobs may add more.
      jobs: processes at a time.
      environment: variables added to those of this process.
      inherited_files: descriptors of open files that the processes share, such as that of a lock.
      stop: the first request is passed on as SIGTERM, the second one as SIGKILL.
    """
    running: list[_Process] = []
    try:
        while running or (queue and not stop.count):
            while queue and len(running) < jobs and not stop.count:
                job = queue.popleft()
                job.on_start()
                _log.info("%s > %s", shlex.join(job.command), job.log)
                running.append(_Process(job, environment or {}, inherited_files))
            for process in running:
                process.stop(stop.count)
            time.sleep(_POLL_SECONDS)
            for process in [process for process in running if process.has_ended()]:
                running.remove(process)
                process.job.on_end(process.end())
    finally:
        for process in running:  # a callback has raised
            process.stop(1)
        for process in running:
            process.wait()


class _Process:
    """The process of a job."""

    def __init__(
        self, job: Job, environment: Mapping[str, str], inherited_files: Sequence[int]
    ) -> None:
        self.job = job
        self._stop_requests = 0
        self._start = time.monotonic()
        with open(job.log, "a", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(job.command)}\n")
            log.flush()
            # In its own session, so that Ctrl-C in a terminal reaches this process alone, which
            # passes it on once.
            self._process = subprocess.Popen(
                job.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                pass_fds=inherited_files,
                start_new_session=True,
                preexec_fn=_stop_with_parent(os.getpid()) if _LIBC else None,
            )

    def has_ended(self) -> bool:
        return self._process.poll() is not None

    def end(self) -> JobEnd:
        seconds = time.monotonic() - self._start
        return JobEnd(self._process.returncode, seconds, bool(self._stop_requests))

    def stop(self, requests: int) -> None:
        """Passes on the requests to stop that are new."""
        if requests > self._stop_requests:
            self._process.send_signal(signal.SIGTERM if requests == 1 else signal.SIGKILL)
            self._stop_requests = requests

    def wait(self) -> None:
        self._process.wait()


def _stop_with_parent(parent: int) -> Callable[[], None]:
    """What a new process does first: ask for SIGTERM when this one dies, even by kill -9."""

    def request_signal() -> None:
        assert _LIBC is not None
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # the parent died before the call
            os._exit(1)

    return request_signal
