"""What a running job shows and writes."""

import json
import logging
import re

import pytest
import tensorflow as tf

from training import events, progress


@pytest.mark.parametrize(
    "seconds, text",
    [
        (0.2, "0s"),
        (59.4, "59s"),
        (59.6, "1m00s"),
        (245, "4m05s"),
        (3599.7, "1h00m"),
        (12_000, "3h20m"),
        (187_300, "2d04h"),
        (-3, "0s"),
    ],
)
def test_durations(seconds, text):
    assert progress.duration(seconds) == text


class Clock:
    def __init__(self, monkeypatch):
        self.now = 100.0
        monkeypatch.setattr(progress.time, "monotonic", lambda: self.now)


@pytest.fixture
def clock(monkeypatch):
    return Clock(monkeypatch)


def test_lines_rates_and_forecast(tmp_path, clock, caplog):
    caplog.set_level(logging.INFO)
    shown = progress.Training(10, 30, log_steps=5, events=events.Events(str(tmp_path)))
    for step in range(11, 31):
        clock.now += 8.0 if step == 11 else 2.0  # the first step builds the graph
        shown.update(
            step,
            {"masked_lm_loss": (2.0 * step, 2.0), "masked_lm_accuracy": (1.0, 4.0)},
            {"examples": 32.0, "tokens": 320.0},
            learning_rate=0.5,
            loss_parts=("masked_lm_loss",),
        )
    shown.close()
    lines = [r.getMessage() for r in caplog.records]
    assert [line.split()[1] for line in lines] == ["11/30", "15/30", "20/30", "25/30", "30/30"]
    # Steps 12 to 15: mean loss 13.5, 4 steps in 8 seconds, 15 steps of 2 seconds left.
    assert "loss=13.5" in lines[1] and "masked_lm_accuracy=0.25" in lines[1]
    assert "16.0 examples/s 160.0 tokens/s | 30s left" in lines[1]
    assert lines[0].endswith("tokens/s")  # the first step says nothing about the others
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert [row["step"] for row in rows] == [11, 15, 20, 25, 30]
    assert rows[1]["loss"] == 13.5 and rows[1]["learning_rate"] == 0.5
    assert rows[1]["examples_per_second"] == 16.0


def test_rates_leave_out_what_is_no_step(clock, caplog):
    caplog.set_level(logging.INFO)
    shown = progress.Training(0, 20, log_steps=5, events=events.Events(None))
    for step in range(1, 11):
        clock.now += 2.0
        shown.update(step, {"loss": (1.0, 1.0)}, {"examples": 32.0}, 0.5, ("loss",))
        if step in (3, 5):
            with shown.paused():
                clock.now += 100.0  # saving, or an evaluation
    lines = [r.getMessage() for r in caplog.records]
    assert [re.search(r"([\d.]+) examples/s", line)[1] for line in lines] == ["16.0"] * 3
    # They take their time all the same.
    assert lines[-1].endswith(f"| {progress.duration(218 / 9 * 10)} left")


def test_a_terminal_gets_a_bar_once_the_first_step_is_done(monkeypatch, capsys):
    monkeypatch.setattr(progress.sys.stderr, "isatty", lambda: True)
    shown = progress.Training(10, 30, log_steps=5, events=events.Events(None))
    assert capsys.readouterr().err == ""
    for step in (11, 12):
        shown.update(step, {"loss": (1.0, 1.0)}, {"examples": 8.0}, 0.5, ("loss",))
    shown.close()
    assert "12/30" in capsys.readouterr().err


def test_events_are_read_back_as_scalars(tmp_path):
    written = events.Events(str(tmp_path))
    written.write(3, {"loss": 1.5})
    written.write(4, {"loss": 1.25})
    (path,) = tmp_path.glob("events.out.tfevents.*")
    found = []
    for record in tf.data.TFRecordDataset(str(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            assert value.metadata.plugin_data.plugin_name == "scalars"
            found.append((event.step, value.tag, float(tf.make_ndarray(value.tensor))))
    assert found == [(3, "loss", 1.5), (4, "loss", 1.25)]


def test_only_the_chief_writes(tmp_path):
    events.Events(None).write(1, {"loss": 1.0})
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "before, step, every, last, due",
    [
        (9, 10, 5, 100, True),
        (10, 11, 5, 100, False),
        (8, 13, 5, 100, True),  # five steps at once
        (11, 12, 5, 12, True),
        (11, 12, 0, 12, False),
        (0, 1, 1, 100, True),
    ],
)
def test_is_time(before, step, every, last, due):
    assert progress.is_time(before, step, every, last) is due
