"""Measures create_pretraining_data.py: records a second and peak memory, by corpus and processes.

    python benchmarks/pretraining_data.py --text=novels --vocab_file=vocab.txt

The text is a folder of ``*.txt`` files, gone through again and again until the corpus is big
enough.
Flags: length 128, dupe_factor 5. Memory is the sum of the resident sets of all processes, sampled
ten times a second; pages that two processes share count twice. Linux only.
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The original release on TensorFlow 1.15, one core, on 2.6 MB of this text: 57 CPU-seconds for
# 32,563 records, 343 MB. It has one process, and both figures grow with the corpus.
ORIGINAL_RATE = 32563 / 57
ORIGINAL_MEGABYTES = 343 / 2.6  # for each MB of text


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--text", type=pathlib.Path, required=True)
    parser.add_argument("--vocab_file", type=pathlib.Path, required=True)
    parser.add_argument("--megabytes", default="2.6,26,100")
    parser.add_argument("--workers", default="1,2")
    parser.add_argument("--dupe_factor", type=int, default=5)
    parser.add_argument("--shard_size_mb", type=float, default=4.0)
    given = parser.parse_args()
    print(
        "   MB  workers  records    wall s     CPU s  records/s  original's wall s  ratio  peak MB"
    )
    with tempfile.TemporaryDirectory() as folder:
        for megabytes in map(float, given.megabytes.split(",")):
            corpus = pathlib.Path(folder, "corpus.txt")
            write_corpus(corpus, given.text, megabytes)
            for workers in map(int, given.workers.split(",")):
                row(corpus, workers, given)


def write_corpus(path: pathlib.Path, folder: pathlib.Path, megabytes: float) -> None:
    texts = [file.read_bytes() for file in sorted(folder.glob("*.txt"))]
    written = 0
    with path.open("wb") as corpus:
        while written < megabytes * 1e6 * 0.99:
            for text in texts:
                written += corpus.write(text + b"\n\n")


def row(corpus: pathlib.Path, workers: int, given: argparse.Namespace) -> None:
    seconds, cpu, peak, log = measure(
        [
            sys.executable,
            str(ROOT / "create_pretraining_data.py"),
            f"--input_file={corpus}",
            f"--vocab_file={given.vocab_file}",
            f"--output_file={corpus.parent / 'out.tfrecord'}",
            f"--dupe_factor={given.dupe_factor}",
            f"--num_workers={workers}",
            f"--shard_size_mb={given.shard_size_mb}",
            "--log_examples=0",
        ]
    )
    count = int(re.findall(r"Wrote (\d+) total instances", log)[0])
    original = count / ORIGINAL_RATE
    print(
        f"{corpus.stat().st_size / 1e6:5.1f}  {workers:7}  {count:7}  {seconds:8.1f}  {cpu:8.1f}  "
        f"{count / seconds:9.0f}  {original:17.0f}  {original / seconds:5.1f}  {peak:7.0f}",
        flush=True,
    )


def measure(command: list[str]) -> tuple[float, float, float, str]:
    """Runs a command; returns wall seconds, CPU seconds, peak MB of all its processes, its log."""
    begin, peak = time.monotonic(), 0
    with tempfile.TemporaryFile("w+") as log:
        before = children_seconds()
        process = subprocess.Popen(command, stdout=log, stderr=log)
        while process.poll() is None:
            peak = max(peak, tree_bytes(process.pid))
            time.sleep(0.1)
        seconds = time.monotonic() - begin
        log.seek(0)
        text = log.read()
    if process.returncode:
        raise SystemExit(text)
    return seconds, children_seconds() - before, peak / 1e6, text


def children_seconds() -> float:
    import resource

    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def tree_bytes(process: int) -> int:
    """Resident bytes of a process and all that it started."""
    try:
        status = pathlib.Path(f"/proc/{process}/status").read_text()
        tasks = list(pathlib.Path(f"/proc/{process}/task").iterdir())
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except OSError:  # ended meanwhile
        return 0
    resident = re.search(r"VmRSS:\s+(\d+) kB", status)
    own = int(resident[1]) * 1024 if resident else 0
    return own + sum(tree_bytes(int(child)) for child in children)


if __name__ == "__main__":
    main()
