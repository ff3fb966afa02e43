"""Signals as requests to stop, which the work can look at between two steps."""

import contextlib
import os
import signal
import threading
from collections.abc import Callable
from typing import Any


class StopRequests:
    """A context manager that counts the requests to stop, most of which come as signals.

    Only the main thread gets signals, so elsewhere nothing is changed. SIGHUP stays ignored after
    ``nohup``; SIGINT, which shells ignore in background jobs, does not. The handlers of before come
    back at the end.

    Args:
      names: the signals, such as "SIGTERM"; one that the platform lacks is left out.
      message: written to standard error after the name of the signal; "" writes nothing.
      once: the handler of before comes back with the first request, so the next signal of the same
        kind has its usual effect.
      then: called with the signal's number and frame after all this; it may raise.

    Attributes:
      count: requests so far.
      first_signal: number of the first signal; 0 if there was none.
    """

    def __init__(
        self,
        *names: str,
        message: str = "",
        once: bool = False,
        then: Callable[[int, Any], object] | None = None,
    ) -> None:
        self.count = 0
        self.first_signal = 0
        self._numbers = [getattr(signal, name) for name in names if hasattr(signal, name)]
        self._message = message
        self._once = once
        self._then = then
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> "StopRequests":
        if threading.current_thread() is threading.main_thread():
            for number in self._numbers:
                is_ignored = signal.getsignal(number) == signal.SIG_IGN
                if not (is_ignored and signal.Signals(number).name == "SIGHUP"):
                    self._previous[number] = signal.signal(number, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def request(self) -> None:
        """Asks as a signal would."""
        self.count += 1

    def _handle(self, number: int, frame: Any) -> None:
        self.request()  # first: nothing below may lose it
        self.first_signal = self.first_signal or number
        if self._once:
            signal.signal(number, self._previous[number])
        if self._message:
            # The signal may land inside a write to a stream, which cannot be entered twice; and
            # after SIGHUP the terminal is gone.
            with contextlib.suppress(OSError):
                os.write(2, f"{signal.Signals(number).name}: {self._message}\n".encode())
        if self._then:
            self._then(number, frame)
