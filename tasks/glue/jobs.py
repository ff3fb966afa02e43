"""Several commands at a time, each in its own process: none is left behind, however this one ends.

A signal to stop is passed on, and the processes are given the time to save and end by themselves.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import os
import shlex
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any, NamedTuple

from system import worker_pool

_PAUSE = 0.05  # seconds from look to look at the processes
_SIGNALS = tuple(
    getattr(signal, name) for name in ("SIGTERM", "SIGINT", "SIGHUP") if hasattr(signal, name)
)
_PR_SET_PDEATHSIG = 1
# Loaded here: nothing may be loaded between fork and exec.
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


@dataclasses.dataclass
class Job:
    """A command to run.

    Attributes:
      command: program and arguments.
      log: file that its output is added to, below the command line.
      about: what it is for; not looked into.
    """

    command: list[str]
    log: str
    about: Any = None


class End(NamedTuple):
    """How a job ended: exit status (-9: killed by signal 9), seconds, whether it was told to."""

    status: int
    seconds: float
    stopped: bool


def share_of_threads(jobs: int) -> dict[str, str]:
    """Environment that gives each of several TensorFlow processes its share of the cores.

    Args:
      jobs: processes at a time. One alone takes what it likes, and so does the user's own setting.
    """
    if jobs == 1 or "TF_NUM_INTRAOP_THREADS" in os.environ:
        return {}
    return {"TF_NUM_INTRAOP_THREADS": str(max(1, worker_pool.available_cores() // jobs))}


def run_all(
    queue: deque[Job],
    jobs: int,
    done: Callable[[Job, End], None],
    *,
    starts: Callable[[Job], None] = lambda job: None,
    environment: Mapping[str, str] | None = None,
    inherited: Sequence[int] = (),
    stop: Stop,
) -> None:
    """Runs the jobs of a queue in order, several at a time, until it is empty or ``stop`` is set.

    Args:
      queue: emptied; ``done`` may put more into it.
      jobs: processes at a time.
      done: gets each job when it has ended.
      starts: gets a job before its process is there.
      environment: added to that of this process.
      inherited: open files that the processes share, such as one that holds a lock.
      stop: the first request is passed on as SIGTERM, the second one kills.
    """
    running: list[_Child] = []
    try:
        while running or (queue and not stop.requests):
            while queue and len(running) < jobs and not stop.requests:
                job = queue.popleft()
                starts(job)
                running.append(_Child(job, environment or {}, inherited))
            for child in running:
                child.stop(stop.requests)
            time.sleep(_PAUSE)
            for child in [child for child in running if child.ended()]:
                running.remove(child)
                done(child.job, End(child.status, child.seconds, bool(child.stopped)))
    finally:
        for child in running:  # only after an error of ours
            child.stop(1)
        for child in running:
            child.wait()


class Stop:
    """Counts the requests to stop, most of which come as signals while it is entered.

    Attributes:
      requests: how many came.
    """

    def __init__(self) -> None:
        self.requests = 0
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Stop:
        if threading.current_thread() is threading.main_thread():
            for number in _SIGNALS:
                if signal.getsignal(number) != signal.SIG_IGN:  # nohup ignores SIGHUP
                    self._before[number] = signal.signal(number, self._handle)
        return self

    def request(self) -> None:
        """Asks as a signal would."""
        self.requests += 1

    def _handle(self, number: int, _: Any) -> None:
        self.request()
        # Past the streams, which may be in the middle of a line.
        name = signal.Signals(number).name
        with contextlib.suppress(OSError):  # SIGHUP: the terminal is gone
            os.write(2, f"{name}: the runs save and stop; again to stop without saving\n".encode())

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)


class _Child:
    """A process and its log."""

    def __init__(self, job: Job, environment: Mapping[str, str], inherited: Sequence[int]) -> None:
        self.job = job
        self.stopped = 0
        self._start = time.monotonic()
        with open(job.log, "a", encoding="utf-8") as log:
            log.write(f"$ {shlex.join(job.command)}\n")
            log.flush()
            # A session of its own: Ctrl-C in a terminal reaches this process alone, which passes it
            # on once.
            self._process = subprocess.Popen(
                job.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **environment},
                pass_fds=inherited,
                start_new_session=True,
                preexec_fn=_end_with(os.getpid()) if _LIBC else None,
            )

    @property
    def status(self) -> int:
        return self._process.returncode

    @property
    def seconds(self) -> float:
        return time.monotonic() - self._start

    def ended(self) -> bool:
        return self._process.poll() is not None

    def stop(self, requests: int) -> None:
        """Passes new requests to stop on."""
        if requests > self.stopped:
            self._process.send_signal(signal.SIGTERM if requests == 1 else signal.SIGKILL)
            self.stopped = requests

    def wait(self) -> None:
        self._process.wait()


def _end_with(parent: int) -> Callable[[], None]:
    """What a new process does first: ask for SIGTERM when this one dies, by kill -9 too."""

    def ask() -> None:
        assert _LIBC is not None
        _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it died before that
            os._exit(1)

    return ask
