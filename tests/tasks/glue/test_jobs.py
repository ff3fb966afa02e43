"""Commands side by side: their logs, how they end, and what becomes of them when told to stop."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections import deque

import pytest

from system import worker_pool
from tasks.glue import jobs


def _job(tmp_path, name, code):
    return jobs.Job([sys.executable, "-c", code], str(tmp_path / f"{name}.log"), name)


def _run(queue, count=1, **more):
    ends = []
    with jobs.Stop() as stop:
        jobs.run_all(
            queue, count, lambda job, end: ends.append((job.about, end)), stop=stop, **more
        )
    return ends


def test_statuses_and_logs_of_jobs_in_order(tmp_path):
    queue = deque(
        [
            _job(tmp_path, "a", "import sys; print('out'); print('err', file=sys.stderr)"),
            _job(tmp_path, "b", "raise SystemExit(3)"),
            _job(tmp_path, "c", "import os; os.kill(os.getpid(), 9)"),
        ]
    )
    (tmp_path / "a.log").write_text("before\n")
    ends = _run(queue, environment={"GREETING": "x"})
    assert [(name, end.status, end.stopped) for name, end in ends] == [
        ("a", 0, False),
        ("b", 3, False),
        ("c", -9, False),
    ]
    lines = (tmp_path / "a.log").read_text().splitlines()
    assert lines[0] == "before" and lines[1].startswith("$ ")
    assert sorted(lines[-2:]) == ["err", "out"]
    assert not queue


def test_no_more_than_the_given_number_at_a_time(tmp_path):
    code = (
        "import os, time, pathlib; d = pathlib.Path({!r}); p = d / str(os.getpid())\n"
        "p.touch(); time.sleep(0.4); print('seen', len(list(d.iterdir()))); p.unlink()"
    ).format(str(tmp_path / "alive"))
    (tmp_path / "alive").mkdir()
    queue = deque(_job(tmp_path, str(i), code) for i in range(4))
    ends = _run(queue, count=2)
    assert [end.status for _, end in ends] == [0] * 4
    seen = [int((tmp_path / f"{i}.log").read_text().split()[-1]) for i in range(4)]
    assert max(seen) == 2


def test_done_may_add_jobs_and_starts_prepares_them(tmp_path):
    queue = deque([jobs.Job([sys.executable, "-c", ""], str(tmp_path / "1/log"), 1)])
    names = []

    def done(job, end):
        names.append(job.about)
        if job.about < 3:
            log = str(tmp_path / f"{job.about + 1}/log")
            queue.append(jobs.Job([sys.executable, "-c", ""], log, job.about + 1))

    with jobs.Stop() as stop:
        jobs.run_all(
            queue, 1, done, starts=lambda job: os.makedirs(os.path.dirname(job.log)), stop=stop
        )
    assert names == [1, 2, 3]


_PATIENT = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, lambda *_: {0})\n"
    "print(os.getpid(), file=open({1!r}, 'w'), flush=True)\n"
    "time.sleep(30)"
)


@pytest.mark.parametrize("action, status", [("sys.exit(0)", 0), ("print('no')", -9)])
def test_the_first_request_asks_and_the_second_kills(tmp_path, action, status):
    ready = str(tmp_path / "ready")
    queue = deque(_job(tmp_path, name, _PATIENT.format(action, ready)) for name in "ab")
    requests = f"os.kill({os.getpid()}, signal.SIGTERM)\n"
    if status:
        requests += f"time.sleep(0.5)\nos.kill({os.getpid()}, signal.SIGINT)\n"
    sender = (
        "import os, signal, time\n"
        f"while not os.path.exists({ready!r}): time.sleep(0.01)\n"
        f"{requests}"
    )
    ends = []
    with jobs.Stop() as stop:
        # The first look at the queue comes before the first request: so from within.
        with subprocess.Popen([sys.executable, "-c", sender]):
            jobs.run_all(queue, 1, lambda job, end: ends.append((job.about, end)), stop=stop)
        assert stop.requests == 1 + (status != 0)
    assert [(name, end.status, end.stopped) for name, end in ends] == [("a", status, True)]
    assert len(queue) == 1  # the other one was not begun
    assert signal.getsignal(signal.SIGTERM) is not stop._handle


def test_a_request_without_a_signal_stops_the_others(tmp_path):
    ready = tmp_path / "ready"
    queue = deque([_job(tmp_path, "a", _PATIENT.format("sys.exit(0)", str(ready)))])
    queue += [_job(tmp_path, "b", ""), _job(tmp_path, "c", "")]
    ends = []
    with jobs.Stop() as stop:

        def done(job, end):
            ends.append((job.about, end.status, end.stopped))
            while not (ready.exists() and ready.read_text().endswith("\n")):
                time.sleep(0.01)
            if not stop.requests:
                stop.request()

        jobs.run_all(queue, 2, done, stop=stop)
    assert ends == [("b", 0, False), ("a", 0, True)]
    assert [job.about for job in queue] == ["c"]


def test_a_terminal_that_is_gone_is_no_reason_to_fail(monkeypatch):
    def broken(*_):
        raise OSError("Input/output error")

    monkeypatch.setattr(jobs.os, "write", broken)
    with jobs.Stop() as stop:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.01)
        assert stop.requests == 1


def test_an_error_of_ours_leaves_no_process_behind(tmp_path):
    ready = tmp_path / "ready"
    queue = deque([_job(tmp_path, "a", _PATIENT.format("sys.exit(0)", str(ready)))])
    queue.append(_job(tmp_path, "b", ""))

    def done(job, end):
        while not (ready.exists() and ready.read_text().endswith("\n")):
            time.sleep(0.01)
        raise RuntimeError("disk full")

    start = time.monotonic()
    with jobs.Stop() as stop, pytest.raises(RuntimeError, match="disk full"):
        jobs.run_all(queue, 2, done, stop=stop)
    assert time.monotonic() - start < 20  # it did not wait for the long one
    with pytest.raises(ProcessLookupError):
        os.kill(int(ready.read_text()), 0)


def test_the_share_of_threads(monkeypatch):
    monkeypatch.delenv("TF_NUM_INTRAOP_THREADS", raising=False)
    monkeypatch.setattr(worker_pool, "available_cores", lambda: 8)
    assert jobs.share_of_threads(1) == {}
    assert jobs.share_of_threads(3) == {"TF_NUM_INTRAOP_THREADS": "2"}
    assert jobs.share_of_threads(20) == {"TF_NUM_INTRAOP_THREADS": "1"}
    monkeypatch.setenv("TF_NUM_INTRAOP_THREADS", "5")
    assert jobs.share_of_threads(3) == {}
