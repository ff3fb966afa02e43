"""Cutting a corpus, and the processes that work on it: order, stops, deaths."""

import os
import pathlib
import random
import signal
import subprocess
import sys

import pytest

import pretraining_corpora as corpora
import processes
from tasks.pretraining import corpus, instances, local_runner

ROOT = pathlib.Path(__file__).resolve().parents[3]


@pytest.fixture
def run(tmp_path, capsys, caplog) -> corpora.Run:
    return corpora.Run(tmp_path, capsys, caplog)


def test_output_does_not_depend_on_the_number_of_processes(run):
    run.write(corpora.random_corpus(7, 60, 20, 12))
    flags = {"shard_size_mb": 0.001, "dupe_factor": 2, "max_seq_length": 64}
    assert len(list(corpus.cut([str(run.folder / "corpus.txt")], 1000))) > 8
    rows = run(num_workers=1, **flags)
    assert run(num_workers=3, **flags) == rows
    assert run(num_workers=1, random_seed=2, **flags) != rows


def test_every_shard_draws_for_itself(run):
    document = "".join(letter * 20 + "\n" for letter in corpora.LETTERS) + "\n"
    run.write(document * 8)
    rows = run(shard_size_mb=0.001, max_seq_length=64, dupe_factor=2)
    seeds = {instances.shard_generator(5, shard).random() for shard in range(100)}
    assert (
        len(seeds | {instances.shard_generator(6, shard).random() for shard in range(100)}) == 200
    )
    assert instances.shard_generator(5, 0).getstate() == random.Random(5).getstate()
    assert len({str(row) for row in rows}) > 0.9 * len(rows)


@pytest.mark.parametrize("size", [1, 9, 10, 25, 1000])
def test_shards_hold_whole_documents(run, size):
    documents = ["ab\ncd", "e", "fghi\njk\nl", "m n o", "p", "q\nr", "s" * 50, "t", "u"]
    path = run.write("\n\n\n".join(documents) + "\n")
    shards = list(corpus.cut([path], size))
    assert [shard.number for shard in shards] == list(range(len(shards)))
    assert ["\n".join(lines) for shard in shards for lines in shard.documents] == documents
    counts = [len(shard.documents) for shard in shards]
    assert min(counts) >= 2
    for shard, count in zip(shards, counts, strict=True):
        assert count <= 3 or shard.size <= size
    if size == 1:
        assert counts == [2, 2, 2, 3]
    if size == 1000:
        assert counts == [9]


def test_progress_is_logged(run, monkeypatch):
    monkeypatch.setattr(local_runner, "_REPORT_SECONDS", 0.0)
    run.write(corpora.random_corpus(7, 100, 20, 12))
    run(dupe_factor=5)
    assert any(" MB of " in line and " left; " in line for line in run.log)


def children(process: int) -> list[int]:
    """The workers of a running script."""
    found = []
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        for child in (task / "children").read_text().split():
            if b"spawn_main" in pathlib.Path(f"/proc/{child}/cmdline").read_bytes():
                found.append(int(child))
    return found


@pytest.fixture
def running(run):
    """The script at work on something long, in a process of its own."""
    run.write(corpora.random_corpus(8, 300, 30, 12))
    (run.folder / "spill").mkdir()
    (run.folder / "out").write_bytes(b"precious")
    process = subprocess.Popen(
        [
            sys.executable,
            str(ROOT / "create_pretraining_data.py"),
            *run.arguments("out", {"dupe_factor": 1000, "num_workers": 2, "shard_size_mb": 0.05}),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(run.folder / "spill")},
    )
    processes.wait_until(
        lambda: len(children(process.pid)) >= 2 and list(run.folder.glob("spill/*/shard-1")),
        process,
    )
    yield process
    process.kill()
    process.communicate()


def wait_for_end(workers: list[int]) -> None:
    processes.wait_until(lambda: not any(map(processes.is_running, workers)))


needs_proc = pytest.mark.skipif(not pathlib.Path("/proc/self/task").exists(), reason="needs /proc")


@needs_proc
@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_stopped(run, running, number):
    workers = children(running.pid)
    running.send_signal(number)
    _, log = running.communicate(timeout=processes.LAST_RESORT)
    assert running.returncode == 128 + number, log
    assert "Traceback" not in log
    wait_for_end(workers)
    assert not list((run.folder / "spill").iterdir())
    assert (run.folder / "out").read_bytes() == b"precious"
    assert not list(run.folder.glob(".*"))


@needs_proc
@pytest.mark.slow
def test_a_dead_worker_is_an_error(run, running):
    workers = children(running.pid)
    os.kill(workers[0], signal.SIGKILL)
    _, log = running.communicate(timeout=processes.LAST_RESORT)
    assert running.returncode == 1
    assert "a worker process was killed" in log.splitlines()[-1]
    wait_for_end(workers)
    assert not list((run.folder / "spill").iterdir())
    assert (run.folder / "out").read_bytes() == b"precious"


@needs_proc
@pytest.mark.slow
def test_workers_end_with_their_parent(running):
    workers = children(running.pid)
    running.kill()
    running.wait()
    wait_for_end(workers)
