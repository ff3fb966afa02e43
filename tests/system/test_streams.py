"""Output streams whose reader has gone away."""

import io
import os
import subprocess
import sys

import pytest

from system import streams


class _Broken(io.StringIO):
    def write(self, text):
        raise OSError(5, "Input/output error")


def test_writes_that_fail_are_dropped(monkeypatch):
    kept = io.StringIO()
    monkeypatch.setattr(sys, "stderr", kept)
    with streams.surviving_readers():
        print("seen", file=sys.stderr, flush=True)
        assert not sys.stderr.isatty()
    assert kept.getvalue() == "seen\n" and sys.stderr is kept
    monkeypatch.setattr(sys, "stdout", _Broken())
    with pytest.raises(OSError, match="Input/output"), streams.surviving_readers():
        print("lost", flush=True)
        raise OSError("Input/output: of a file, not of the stream")


@pytest.mark.parametrize("stream", ["stdout", "stderr"])
@pytest.mark.parametrize("place", ["pipe", "/dev/full"])
def test_the_exit_status_does_not_depend_on_a_reader(stream, place):
    code = (
        "import sys; from system import streams\n"
        "with streams.surviving_readers():\n"
        "    print('x' * 10**5, file=sys.stdout); print('y' * 10**5, file=sys.stderr)\n"
        "sys.exit(3)"
    )
    if place == "pipe":
        reader, writer = os.pipe()
        os.close(reader)
    else:
        writer = os.open(place, os.O_WRONLY)
    others = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.run([sys.executable, "-c", code], **{**others, stream: writer})
    os.close(writer)
    assert process.returncode == 3
