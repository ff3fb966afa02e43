"""Standard output and error, which may be closed or lose their reader while the work goes on."""

import contextlib
import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO


class _Tolerant:
    """A stream that drops what cannot be written, such as to a closed pipe or a lost terminal."""

    def __init__(self, stream: TextIO):
        self._stream = stream

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            return self._stream.write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            self._stream.flush()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


@contextlib.contextmanager
def surviving_readers() -> Iterator[None]:
    """No write to ``sys.stdout`` or ``sys.stderr`` raises because nobody reads it any more.

    Work of hours must not be lost with the pipe or the terminal that shows it, nor may its exit
    status: Python ends with 120 when it cannot write the rest of a stream. A stream that the
    process was started without (``2>&-``) goes nowhere.
    """
    _open_descriptors()
    stdout, stderr = _or_nowhere(sys.stdout), _or_nowhere(sys.stderr)
    sys.stdout, sys.stderr = _Tolerant(stdout), _Tolerant(stderr)  # type: ignore[assignment]
    try:
        yield
    finally:
        sys.stdout, sys.stderr = stdout, stderr
        for stream in (stdout, stderr):
            _let_go(stream)


def _open_descriptors() -> None:
    """Opens the descriptors 0 to 2 where they are closed: else other files would get them."""
    while (descriptor := os.open(os.devnull, os.O_RDWR)) <= 2:
        os.set_inheritable(descriptor, True)
    os.close(descriptor)


def _or_nowhere(stream: TextIO | None) -> TextIO:
    """The stream; Python has None for one that was closed when it started."""
    return open(os.devnull, "w") if stream is None else stream


def _let_go(stream: TextIO) -> None:
    """Writes the rest of a stream, to nowhere if need be."""
    try:
        stream.flush()
    except OSError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)
        stream.flush()
