"""Signals: requests to stop become something that the work can look at."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def stop_signals() -> Iterator[threading.Event]:
    """Turns the first SIGTERM or SIGINT into a request to stop; the next one stops at once."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    # The signal may land inside a log call, whose stream cannot be entered twice: so the request
    # comes first, and the message goes past the streams.
    def handle(number: int, _: Any) -> None:
        stop.set()
        signal.signal(number, before[number])
        name = signal.Signals(number).name
        os.write(2, f"{name}: stopping after this step; again to stop without saving\n".encode())

    if threading.current_thread() is threading.main_thread():
        for wanted in (signal.SIGTERM, signal.SIGINT):
            before[wanted] = signal.signal(wanted, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
