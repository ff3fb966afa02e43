"""Shared by all tests: the environment, the reference data, and how a script is run."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

# As the commands set it, so that the tests use the kernels that users get. They also pass with 0.
os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("CUDA_VISIBLE_DEVICES", "-1")

# A shell that starts the tests in the background makes them and their children ignore Ctrl-C.
if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> pathlib.Path:
    """The folder of golden values and real data, next to the repository; skips if it is missing."""
    folder = pathlib.Path(os.environ.get("BERT_SHARED", ROOT.parent / "shared"))
    if not (folder / "golden").is_dir():
        pytest.skip(f"no reference data in {folder}; set BERT_SHARED to their folder")
    return folder


@pytest.fixture(scope="session")
def script():
    """Runs a command in a process: ``script("create_vocab.py", "--vocab_size=99", cwd=…)``."""

    def run(name: str, *arguments: str, timeout: float = 600, **options):
        return subprocess.run(
            [sys.executable, str(ROOT / name), *arguments],
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            **options,
        )

    return run
