"""Seconds until a command answers: --help, the first training step, and going on from a checkpoint.

    python benchmarks/start.py --bert_config_file=bert_config.json --input_file='records*.tfrecord'

The records must have length 128 and 20 predictions. The run goes on from step 20.
"""

import pathlib
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def seconds_until(text: str, *arguments: str) -> float:
    """Time from the start of run_pretraining.py until a line of its output has ``text``."""
    command = [sys.executable, str(ROOT / "run_pretraining.py"), *arguments]
    start = time.monotonic()
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert process.stdout
    took = None
    for line in process.stdout:
        if took is None and text in line:
            took = time.monotonic() - start
    if process.wait() or took is None:
        raise SystemExit(f"{' '.join(command)} did not work")
    return took


def main() -> None:
    print(f"--help: {seconds_until('usage:', '--help'):.2f} s")
    with tempfile.TemporaryDirectory() as folder:
        flags = [*sys.argv[1:], f"--output_dir={folder}", "--do_train", "--num_warmup_steps=2"]
        first = seconds_until("step 1/", *flags, "--num_train_steps=20")
        print(f"first step of a new run: {first:.1f} s")
        place = seconds_until("back at step 20", *flags, "--num_train_steps=22")
        print(f"back at the place of a checkpoint: {place:.1f} s")
        again = seconds_until("step 23/", *flags, "--num_train_steps=24")
        print(f"first step after going on from a checkpoint: {again:.1f} s")


if __name__ == "__main__":
    main()
