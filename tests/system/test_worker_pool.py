"""Worker processes: order, progress, deaths."""

import functools
import os
import pathlib
import signal
import subprocess
import sys

import pytest

import processes
from command_line import errors
from system import worker_pool

ROOT = pathlib.Path(__file__).resolve().parents[2]


def _square(folder, number):
    """Ends out of order: an even number waits for the next one."""
    if number % 2 == 0:
        processes.wait_until((folder / str(number + 1)).exists)
    (folder / str(number)).touch()
    return number * number


def test_results_come_in_order_and_items_are_read_as_they_are_needed(tmp_path):
    read = []

    def items():
        for number in range(12):
            read.append(number)
            yield number

    with worker_pool.Pool(2, functools.partial(_square, tmp_path), "x") as pool:
        results = pool.map(items())
        assert read == [0, 1, 2, 3]
        assert next(results) == 0
        assert read == [0, 1, 2, 3]
        assert next(results) == 1
        assert read == [0, 1, 2, 3, 4]
        assert list(results) == [number * number for number in range(2, 12)]
        assert list(pool.map([])) == []


def _wait_for(path):
    processes.wait_until(path.exists)
    numbers = (signal.SIGINT, signal.SIGHUP)
    return os.getpid(), all(signal.getsignal(number) == signal.SIG_IGN for number in numbers)


def test_the_parent_is_called_while_it_waits_and_workers_leave_ctrl_c_to_it(tmp_path):
    path = tmp_path / "called"
    with worker_pool.Pool(1, _wait_for, "x") as pool:
        ((worker, ignores),) = pool.map([path], path.touch)
    assert ignores and worker != os.getpid()


class _Counter:
    """Remembers in its process how often it was called."""

    def __init__(self):
        self.calls = 0

    def __call__(self, _):
        self.calls += 1
        return self.calls


def test_every_worker_has_its_own_copy_of_the_work():
    counter = _Counter()
    with worker_pool.Pool(1, counter, "x") as pool:
        assert list(pool.map("abc")) == [1, 2, 3]
    assert counter.calls == 0


def _die(number):
    if number == 3:
        os._exit(9)
    return number


def test_a_killed_worker_is_a_user_error():
    with (
        pytest.raises(errors.UserError) as caught,
        worker_pool.Pool(2, _die, "fewer of them") as pool,
    ):
        list(pool.map(range(100)))
    assert str(caught.value).startswith("a worker process was killed")
    assert str(caught.value).endswith("; try fewer of them")


def _fail(number):
    return 1 // number


def test_an_error_in_a_worker_is_that_of_the_parent():
    with pytest.raises(ZeroDivisionError), worker_pool.Pool(1, _fail, "x") as pool:
        list(pool.map([1, 0]))


_PARENT = """
import os, sys, time
from system import worker_pool

def work(path):
    with open(path, "w") as file:
        print(os.getpid(), file=file)
    time.sleep(3600)

if __name__ == "__main__":
    with worker_pool.Pool(1, work, "x") as pool:
        list(pool.map([sys.argv[1]]))
"""


@pytest.mark.skipif(not pathlib.Path("/proc/self").exists(), reason="needs /proc")
def test_workers_end_when_their_parent_is_killed(tmp_path):
    script, pid = tmp_path / "parent.py", tmp_path / "pid"
    script.write_text(_PARENT)
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen([sys.executable, str(script), str(pid)], env=environment)
    processes.wait_until(lambda: pid.exists() and pid.read_text().endswith("\n"), parent)
    worker = pid.read_text().strip()
    assert processes.is_running(worker)
    parent.kill()
    parent.wait()
    processes.wait_until(lambda: not processes.is_running(worker))
