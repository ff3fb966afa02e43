"""Commands side by side: their logs, how they end, and how they are stopped."""

import functools
import os
import subprocess
import sys
from collections import deque

import pytest

import processes
from system import worker_pool
from tasks.glue import jobs


class _Queue:
    """Jobs that record how they end.

    Args:
      folder: of their logs.
      code: name -> Python program.

    Attributes:
      jobs: to be run.
      ends: (name, exit status, whether it was stopped) of each job that has ended.
    """

    def __init__(self, folder, **code):
        self._folder = folder
        self.jobs = deque()
        self.ends = []
        for name, program in code.items():
            self.add(name, program)

    def add(self, name, program="", on_start=lambda: None, then=lambda: None):
        def on_end(end):
            self.ends.append((name, end.exit_status, end.stopped))
            then()

        command, log = [sys.executable, "-c", program], str(self._folder / f"{name}.log")
        self.jobs.append(jobs.Job(command, log, on_start, on_end))

    def run(self, count=1, **options):
        with jobs.stop_requests() as stop:
            jobs.run_all(self.jobs, count, stop=stop, **options)


def test_statuses_and_logs_of_jobs_in_order(tmp_path):
    queue = _Queue(
        tmp_path,
        a="import sys; print('out'); print('err', file=sys.stderr)",
        b="raise SystemExit(3)",
        c="import os; os.kill(os.getpid(), 9)",
    )
    (tmp_path / "a.log").write_text("before\n")
    queue.run(environment={"GREETING": "x"})
    assert queue.ends == [("a", 0, False), ("b", 3, False), ("c", -9, False)]
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert lines[0] == "before" and lines[1].startswith("$ ")
    assert sorted(lines[-2:]) == ["err", "out"]
    assert not queue.jobs


def test_no_more_than_the_given_number_at_a_time(tmp_path):
    """Jobs 0 and 1 wait for each other, so they must run at once."""
    code = (
        "import os, pathlib, time; d = pathlib.Path({!r}); (d / str(os.getpid())).touch()\n"
        "while len(list(d.iterdir())) < 2: time.sleep(0.01)"
    ).format(str(tmp_path / "started"))
    (tmp_path / "started").mkdir()
    queue, running, counts = _Queue(tmp_path), set(), []
    for name in "0123":

        def start(name=name):
            running.add(name)
            counts.append(len(running))

        queue.add(name, code, start, functools.partial(running.remove, name))
    queue.run(count=2)
    assert [exit_status for _, exit_status, _ in queue.ends] == [0] * 4
    assert max(counts) == 2


def test_the_end_of_a_job_may_add_another_whose_start_prepares_it(tmp_path):
    queue = _Queue(tmp_path)

    def add_second():
        queue.add("b/log", on_start=(tmp_path / "b").mkdir)

    queue.add("a", then=add_second)
    queue.run()
    assert [name for name, *_ in queue.ends] == ["a", "b/log"]


_SLOW_TO_STOP = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: {0})\n"
    "print(os.getpid(), file=open({1!r}, 'w'), flush=True)\n"
    f"time.sleep({processes.LAST_RESORT})\n"
    "print('was not stopped', file=open({1!r}, 'a'))"
)


@pytest.mark.parametrize("action, status", [("sys.exit(0)", 0), ("open('asked', 'w')", -9)])
def test_the_first_request_asks_and_the_second_kills(tmp_path, monkeypatch, action, status):
    monkeypatch.chdir(tmp_path)
    ready = str(tmp_path / "ready")
    queue = _Queue(tmp_path, **dict.fromkeys("ab", _SLOW_TO_STOP.format(action, ready)))
    requests = f"os.kill({os.getpid()}, signal.SIGTERM)\n"
    if status:
        requests += "while not os.path.exists('asked'): time.sleep(0.01)\n"
        requests += f"os.kill({os.getpid()}, signal.SIGINT)\n"
    sender = (
        "import os, signal, time\n"
        f"while not os.path.exists({ready!r}): time.sleep(0.01)\n"
        f"{requests}"
    )
    with jobs.stop_requests() as stop:
        with subprocess.Popen([sys.executable, "-c", sender]):
            jobs.run_all(queue.jobs, 1, stop=stop)
        assert stop.count == 1 + (status != 0)
    assert queue.ends == [("a", status, True)]
    assert len(queue.jobs) == 1  # the second one was never started


def _wait_for_line(path):
    processes.wait_until(lambda: path.exists() and path.read_text().endswith("\n"))


def test_a_request_without_a_signal_stops_the_others(tmp_path):
    ready = tmp_path / "ready"
    queue = _Queue(tmp_path, a=_SLOW_TO_STOP.format("sys.exit(0)", str(ready)))
    with jobs.stop_requests() as stop:

        def request():
            _wait_for_line(ready)
            stop.request()

        queue.add("b", then=request)
        queue.add("c")
        jobs.run_all(queue.jobs, 2, stop=stop)
    assert queue.ends == [("b", 0, False), ("a", 0, True)]
    assert len(queue.jobs) == 1


def test_an_error_in_a_callback_leaves_no_process_behind(tmp_path):
    ready = tmp_path / "ready"
    queue = _Queue(tmp_path, a=_SLOW_TO_STOP.format("sys.exit(0)", str(ready)))

    def fail():
        _wait_for_line(ready)
        raise RuntimeError("disk full")

    queue.add("b", then=fail)
    with pytest.raises(RuntimeError, match="disk full"):
        queue.run(count=2)
    with pytest.raises(ProcessLookupError):
        os.kill(int(ready.read_text()), 0)  # only its id: it did not sleep to its end


def test_thread_limits(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setattr(worker_pool, "available_cores", lambda: 8)
    assert jobs.thread_limits(1) == {}
    assert jobs.thread_limits(3) == {"TF_NUM_INTRAOP_THREADS": "2"}
    assert jobs.thread_limits(20) == {"TF_NUM_INTRAOP_THREADS": "1"}
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "5")
    assert jobs.thread_limits(3) == {}
