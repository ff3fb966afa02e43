"""Requests to stop: what a signal does, and what is restored after it."""

import os
import signal
import threading

import pytest

from system import signals


@pytest.fixture
def calls():
    """The calls of a handler of SIGTERM that was there before; it must be restored."""
    calls: list[int] = []
    original = signal.signal(signal.SIGTERM, handler := lambda number, _: calls.append(number))
    yield calls
    assert signal.signal(signal.SIGTERM, original) is handler


def test_signals_are_counted_with_a_message_each(calls, capfd, monkeypatch):
    with signals.StopRequests("SIGTERM", "SIGNONE", message="the work stops") as stop:
        signal.raise_signal(signal.SIGTERM)
        stop.request()
        assert capfd.readouterr().err == "SIGTERM: the work stops\n"
        monkeypatch.setattr(os, "write", _closed_terminal)
        signal.raise_signal(signal.SIGTERM)
    assert stop.count == 3 and calls == []


def _closed_terminal(*_):
    raise OSError("Input/output error")


def test_once_gives_the_second_signal_its_usual_effect(calls):
    with signals.StopRequests("SIGTERM", once=True) as stop:
        signal.raise_signal(signal.SIGTERM)
        signal.raise_signal(signal.SIGTERM)
    assert stop.count == 1 and calls == [signal.SIGTERM]


def test_then_may_raise(calls):
    def leave(number, _):
        raise SystemExit(128 + number)

    with pytest.raises(SystemExit, match="143"), signals.StopRequests("SIGTERM", then=leave):
        signal.raise_signal(signal.SIGTERM)


def test_an_ignored_sighup_and_other_threads_are_left_alone(calls):
    handler = signal.signal(signal.SIGTERM, signal.SIG_IGN)  # as SIGINT in a job of a script
    hangup = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # as after nohup
    with signals.StopRequests("SIGTERM", "SIGHUP") as stop:
        signal.raise_signal(signal.SIGHUP)
        assert stop.count == 0
        signal.raise_signal(signal.SIGTERM)
    assert stop.count == 1
    signal.signal(signal.SIGHUP, hangup)
    signal.signal(signal.SIGTERM, handler)
    thread = threading.Thread(target=stop.__enter__)
    thread.start()
    thread.join()
    assert signal.getsignal(signal.SIGTERM) is handler
