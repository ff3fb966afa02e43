"""Progress of a run: a bar on a terminal, plain lines elsewhere, metrics.jsonl and TensorBoard.

Every value is an average over the steps since the last one reported, so that every step counts.
"""

import contextlib
import logging
import sys
import time
from collections.abc import Iterator, Mapping

import tqdm
from tqdm.contrib import logging as tqdm_logging

from training import events

_log = logging.getLogger(__name__)


def duration(seconds: float) -> str:
    """``59s``, ``4m05s``, ``3h20m`` or ``2d04h``."""
    whole = max(0, round(seconds))
    if whole < 60:
        return f"{whole}s"
    if whole < 3600:
        return f"{whole // 60}m{whole % 60:02d}s"
    if whole < 86400:
        return f"{whole // 3600}h{whole // 60 % 60:02d}m"
    return f"{whole // 86400}d{whole // 3600 % 24:02d}h"


def is_time(before: int, step: int, every: int, last: int) -> bool:
    """Whether something that is done every so many steps is due.

    Args:
      before: step when this was last asked.
      step: step now.
      every: period in steps; 0: never due.
      last: step from which it is due in any case.
    """
    return every > 0 and (step >= last or step // every > before // every)


class Training:
    """Progress of a training run.

    Args:
      first_step: step that the run starts from.
      last_step: step at which it ends.
      log_steps: steps between two lines. The first step is always reported, without an estimate of
        the time left, as it includes the time to build the graph.
      events: gets the same values.
      quiet: print nothing (processes other than the chief).
    """

    def __init__(
        self,
        first_step: int,
        last_step: int,
        log_steps: int,
        events: events.Events,
        quiet: bool = False,
    ):
        self._last_step = last_step
        self._log_steps = log_steps
        self._events = events
        self._quiet = quiet
        self._reported_step = first_step
        self._reported_time = self._start_time = time.monotonic()
        self._start_step = first_step
        self._is_first = True
        self._sums: dict[str, list[float]] = {}
        self._bar: tqdm.tqdm | None = None
        self._around_bar = contextlib.ExitStack()

    def update(
        self,
        step: int,
        pairs: Mapping[str, tuple[float, float]],
        totals: Mapping[str, float],
        learning_rate: float,
        loss_parts: tuple[str, ...],
    ) -> None:
        """Adds what the steps up to ``step`` did and reports it when that is due.

        Args:
          step: steps done.
          pairs: (sum, weight) of every metric over the new steps.
          totals: examples and tokens over the new steps.
          learning_rate: of the newest step.
          loss_parts: names of the metrics whose sum is the loss.
        """
        for name, pair in {**pairs, **{k: (v, 0.0) for k, v in totals.items()}}.items():
            sums = self._sums.setdefault(name, [0.0, 0.0])
            sums[0] += pair[0]
            sums[1] += pair[1]
        if self._bar is not None:
            self._bar.update(step - self._bar.n)
        if self._is_first or is_time(self._reported_step, step, self._log_steps, self._last_step):
            self._report(step, learning_rate, loss_parts, totals)

    @contextlib.contextmanager
    def paused(self) -> Iterator[None]:
        """Time in which no step is made, and which the rates leave out."""
        begin = time.monotonic()
        try:
            yield
        finally:
            self._reported_time += time.monotonic() - begin

    def _report(
        self, step: int, rate: float, loss_parts: tuple[str, ...], totals: Mapping[str, float]
    ) -> None:
        now = time.monotonic()
        seconds = max(now - self._reported_time, 1e-9)
        means = {
            name: total / weight if weight else 0.0
            for name, (total, weight) in self._sums.items()
            if name not in totals
        }
        values = {"loss": sum(means[name] for name in loss_parts), **means, "learning_rate": rate}
        rates = {f"{name}_per_second": self._sums[name][0] / seconds for name in totals}
        self._events.write(step, {**values, **rates})
        if not self._quiet:
            self._print(step, values, rates, self._time_left(step, now))
        self._sums = {}
        self._reported_step, self._reported_time = step, now
        if self._is_first:
            self._is_first = False
            self._start_step, self._start_time = step, now
            if sys.stderr.isatty() and not self._quiet and step < self._last_step:
                self._around_bar.enter_context(tqdm_logging.logging_redirect_tqdm())
                bar = tqdm.tqdm(total=self._last_step, initial=step, unit="step", file=sys.stderr)
                self._bar = self._around_bar.enter_context(bar)

    def _time_left(self, step: int, now: float) -> str:
        """The end of a line with the time left; empty while the rate is unknown."""
        done = step - self._start_step
        if self._is_first or done <= 0:
            return ""
        seconds = (now - self._start_time) / done * (self._last_step - step)
        return f" | {duration(seconds)} left"

    def _print(
        self, step: int, values: Mapping[str, float], rates: Mapping[str, float], left: str
    ) -> None:
        results = " ".join(f"{name}={value:.4g}" for name, value in values.items())
        speeds = " ".join(
            f"{value:.1f} {name.replace('_per_second', '/s')}" for name, value in rates.items()
        )
        _log.info("step %d/%d %s | %s%s", step, self._last_step, results, speeds, left)
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss={values['loss']:.4g} {speeds.split()[0]} ex/s")

    def close(self) -> None:
        self._around_bar.close()


class Pass:
    """Progress of one pass over a data set: a line every few seconds.

    Args:
      action: what happens to the examples, such as "evaluated".
      total: number of examples.
      seconds: between two lines.
    """

    def __init__(self, action: str, total: int, seconds: float = 10.0):
        self._action = action
        self._total = total
        self._seconds = seconds
        self._done = 0
        self._start_time = self._reported_time = time.monotonic()

    def add(self, examples: int) -> None:
        """Counts examples, and logs the progress when that is due."""
        self._done = min(self._done + examples, self._total)
        now = time.monotonic()
        if now - self._reported_time < self._seconds:
            return
        self._reported_time = now
        rate = self._done / (now - self._start_time)
        left = duration((self._total - self._done) / rate)
        _log.info(
            "%s %d of %d, %.1f examples/s, %s left",
            self._action,
            self._done,
            self._total,
            rate,
            left,
        )
