"""The only loop: train, evaluate, resume, and the guards around them.

A ``Trainer`` knows nothing of what it trains. It takes a task (a model, its losses and metrics as
sums and weights) and batches (a dataset for each input pipeline, from any position), and runs them
under a tf.distribute strategy. A step is: global loss weights, loss and gradients per replica,
all-reduce, clip, update. Only the loss-and-gradient function, which is pure, may be compiled by
XLA.

Order in which a run gets its weights: the newest checkpoint of the output directory, with
optimizer, step and position in the data; else the initial checkpoint, weights only; else random
values.
"""

from __future__ import annotations

import contextlib
import json
import logging
import math
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

import batching
import checkpoint_files
import checkpoints
import devices
import errors
import modeling
import optimization
import options
import progress
import steps

_log = logging.getLogger(__name__)


class Batches(Protocol):
    """Where examples come from; see ``batching.RecordBatches`` for one."""

    batch_size: int

    def dataset(self, context: tf.distribute.InputContext, start: int = 0) -> tf.data.Dataset: ...


class Trainer:
    """Runs a task.

    Args:
      build_task: makes the task and its model; called once, under the strategy's scope.
      strategy: from ``devices.create_strategy``.
      run: where and how often to save, evaluate and log.
      device: precision and XLA.
      init_checkpoint: weights to start from when the output directory has none; may be empty.
    """

    def __init__(
        self,
        build_task: Callable[[], steps.Task],
        *,
        strategy: tf.distribute.Strategy,
        run: options.RunOptions,
        device: options.DeviceOptions,
        init_checkpoint: str = "",
    ):
        self._strategy = strategy
        self._run = run
        self._init_checkpoint = init_checkpoint
        self._xla = device.xla
        self._calls_on_device = run.iterations_per_loop if device.use_tpu else 1
        self.is_chief = devices.is_chief(strategy)
        with strategy.scope():
            self.task = build_task()
            self._step = tf.Variable(
                0,
                dtype=tf.int64,
                trainable=False,
                aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
                name="global_step",
            )
        self.variables = modeling.named_variables(self.task.model)
        self._trained = {
            name: variable
            for name, variable in self.variables.items()
            if not name.startswith(tuple(self.task.without_gradient))
        }
        self._events = progress.Events(run.output_dir if self.is_chief else None)
        self._train_step: steps.TrainStep | None = None
        self._evaluate_batch: Callable | None = None
        self._half = device.precision == "float16"
        self._examples_seen = 0
        self._restored_from: str | None = None

    @property
    def step(self) -> int:
        """Updates made so far."""
        return int(self._step.numpy())

    @property
    def restored_from(self) -> str | None:
        """The checkpoint the weights come from; None: random, or trained since."""
        return self._restored_from

    # ------------------------------------------------------------------ weights

    def restore(self, prefix: str | None = None) -> None:
        """Gives the model its weights; see the module's docstring for the order.

        Args:
          prefix: a checkpoint of this model to evaluate instead of the newest.
        """
        newest = prefix or checkpoints.latest(self._run.output_dir)
        if newest:
            if self._init_checkpoint:
                _log.info("using %s; --init_checkpoint is ignored", newest)
            wanted = self._to_save()
            checkpoints.restore_all(wanted, newest)
            state = checkpoints.read_state(newest)
            self._examples_seen = int(state.get("examples_seen", -1))
            scale = self._train_step.loss_scale if self._train_step else None
            if scale and "loss_scale" in state:
                scale.scale.assign(state["loss_scale"])
                scale.good_steps.assign(state["good_steps"])
            self._restored_from = newest
        elif self._init_checkpoint:
            source = checkpoints.resolve(self._init_checkpoint)
            checkpoints.restore(self.variables, source)
            self._restored_from = source.path
        else:
            _log.info("no --init_checkpoint: all weights are random")

    def checkpoints_to_evaluate(self, wanted: str) -> list[str | None]:
        """What --eval_checkpoint names.

        Args:
          wanted: a checkpoint, "all" for those listed in the output directory, or empty for the
            newest, or the initial checkpoint where there is none.

        Returns:
          Prefixes; None stands for the initial checkpoint.
        """
        directory = self._run.output_dir
        if wanted == "all":
            found = checkpoints.listed(directory)
            if not found:
                raise errors.UserError(f"--eval_checkpoint=all: no checkpoint in {directory}")
            return list(found)
        if wanted:
            return [checkpoints.resolve(wanted, "--eval_checkpoint").path]
        return [checkpoints.latest(directory)]

    def restore_for_evaluation(self, prefix: str | None) -> None:
        """Gives the model trained weights.

        Args:
          prefix: a checkpoint of this model; None: the initial checkpoint.

        Raises:
          errors.UserError: there is none, or it lacks variables that the metrics depend on.
        """
        if prefix:
            self.restore(prefix)
            return
        if not self._init_checkpoint:
            raise errors.UserError(
                f"nothing to evaluate: no checkpoint in --output_dir={self._run.output_dir} and no "
                "--init_checkpoint; train first (--do_train) or name one"
            )
        _log.info("no trained model in %s, using --init_checkpoint", self._run.output_dir)
        source = checkpoints.resolve(self._init_checkpoint)
        report = checkpoints.restore(self.variables, source)
        untrained = [name for name in report.missing if name in self._trained]
        if untrained:
            raise errors.UserError(
                f"--init_checkpoint={self._init_checkpoint} lacks {', '.join(untrained[:3])}"
                f"{' and more' if len(untrained) > 3 else ''}: that would be evaluating an "
                f"untrained head; train first (--do_train)"
            )

    def _to_save(self) -> dict[str, tf.Variable]:
        slots = self._train_step.optimizer.slots() if self._train_step else {}
        return {**self.variables, **slots, "global_step": self._step}

    def _save(self, directory: str | None = None, keep: int | None = None) -> str:
        state: dict[str, Any] = {"examples_seen": self._examples_seen}
        scale = self._train_step.loss_scale if self._train_step else None
        if scale:
            state["loss_scale"] = float(scale.scale.numpy())
            state["good_steps"] = int(scale.good_steps.numpy())
        return checkpoints.save(
            directory or self._run.output_dir,
            self.step,
            self._to_save(),
            keep=self._run.keep_checkpoint_max if keep is None else keep,
            state=state,
        )

    def save_weights(self) -> str:
        """Writes the weights without optimizer state to <output_dir>/weights/."""
        directory = os.path.join(self._run.output_dir, "weights")
        values = {**self.variables, "global_step": self._step}
        return checkpoints.save(directory, self.step, values, keep=1)

    # ------------------------------------------------------------------ training

    def train(
        self,
        batches: Batches,
        schedule: optimization.Schedule,
        *,
        accumulation: int = 1,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
    ) -> bool:
        """Trains up to step ``schedule.total_steps``, counted from 0 over all runs.

        Args:
          batches: an endless supply.
          schedule: of the learning rate; its total is the last step.
          accumulation: parts that each replica's batch is computed in.
          evaluate: called every --eval_steps; the checkpoint with the lowest "loss" is kept in
            <output_dir>/best.

        Returns:
          Whether the last step was reached; False after SIGTERM or SIGINT, with everything saved.

        Raises:
          errors.UserError: a loss or gradient that is not finite.
          errors.FlagError: a batch size that the devices and parts do not divide.
        """
        self._check_batch_size(batches.batch_size, accumulation)
        if self.is_chief:
            checkpoints.clean_leftovers(self._run.output_dir)
        self._train_step = steps.TrainStep(
            self.task,
            self._trained,
            self._step,
            strategy=self._strategy,
            schedule=schedule,
            accumulation=accumulation,
            seed=self._run.random_seed,
            half=self._half,
            xla=self._xla,
        )
        self.restore()
        first, last = self.step, schedule.total_steps
        if first >= last:
            _log.warning(
                "nothing to train: %s is at step %d and --num_train_steps is %d; raise it to go "
                "on, or take a new --output_dir",
                self._restored_from,
                first,
                last,
            )
            return True
        if self._examples_seen < 0 or not first:
            self._examples_seen = first * batches.batch_size
        start = self._examples_seen
        iterator = iter(
            self._strategy.distribute_datasets_from_function(
                lambda context: batches.dataset(context, start)
            )
        )
        if not first and self.is_chief:
            self._save()
        shown = progress.Training(
            first, last, self._run.log_steps, self._events, quiet=not self.is_chief
        )
        with contextlib.closing(shown), _stop_signals() as stop:
            while self.step < last and not stop.is_set():
                self._advance(iterator, last, batches.batch_size, shown, schedule)
                self._after_steps(last, evaluate)
        if self.step < last:
            prefix = self._save() if self.is_chief else ""
            _log.info("stopped at step %d, saved %s; the same command goes on", self.step, prefix)
        return self.step >= last

    def _check_batch_size(self, batch_size: int, accumulation: int) -> None:
        parts = self._strategy.num_replicas_in_sync * accumulation
        if batch_size % parts:
            raise errors.FlagError(
                f"--train_batch_size={batch_size} is not a multiple of {parts} "
                f"({self._strategy.num_replicas_in_sync} devices x "
                f"--gradient_accumulation_steps={accumulation})"
            )

    def _next_stop(self, last: int) -> int:
        """The next step at which the host has something to do."""
        run = self._run
        periods = [run.save_checkpoints_steps, run.log_steps, run.eval_steps, self._calls_on_device]
        return min([last] + [(self.step // p + 1) * p for p in periods if p])

    def _advance(
        self,
        iterator: Iterator,
        last: int,
        batch_size: int,
        shown: progress.Training,
        schedule: optimization.Schedule,
    ) -> None:
        """Runs one or more steps and checks what came out."""
        before = self.step
        count = min(self._calls_on_device, self._next_stop(last) - before)
        assert self._train_step is not None
        with _explained():
            done = self._train_step.run(iterator, tf.constant(count))
            sums, weights, tokens, skipped, norm = (value.numpy() for value in done)
        skipped = int(skipped)
        if self._train_step.loss_scale:
            self._check_scale(float(self._train_step.loss_scale.scale.numpy()))
        elif skipped or not math.isfinite(norm):
            raise self._not_finite(before + count - skipped + 1, sums, norm)
        if self.step != before + count - skipped:
            raise RuntimeError(f"{count} steps, {skipped} skipped, took {before} to {self.step}")
        self._examples_seen += count * batch_size
        pairs = {
            name: (float(total), float(weight))
            for name, total, weight in zip(self.task.metrics, sums, weights, strict=True)
        }
        totals = {"examples": float(count * batch_size), "tokens": float(tokens)}
        rate = float(schedule.rate(tf.constant(max(0, self.step - 1))))
        shown.update(self.step, pairs, totals, rate, tuple(self.task.loss_parts))

    def _check_scale(self, scale: float) -> None:
        if scale <= 1.0:
            raise errors.UserError(
                f"step {self.step}: gradients overflow float16 at every loss scale; use "
                "--precision=bfloat16 or float32, or lower --learning_rate"
            )

    def _not_finite(self, step: int, sums: np.ndarray, norm: float) -> errors.UserError:
        parts = ", ".join(
            f"{name} {value:g}" for name, value in zip(self.task.metrics, sums, strict=True)
        )
        good = checkpoints.latest(self._run.output_dir)
        return errors.UserError(
            f"step {step}: not finite (gradient norm {norm:g}; sums {parts}); the last good "
            f"checkpoint is {good}. Lower --learning_rate or raise --num_warmup_steps, and run "
            f"again"
        )

    def _after_steps(self, last: int, evaluate: Callable[[], Mapping[str, float]] | None) -> None:
        """Saves and evaluates when it is time."""
        step = self.step
        is_last = step >= last
        if self.is_chief and (is_last or step % self._run.save_checkpoints_steps == 0):
            _log.info("saved %s", self._save())
        if evaluate and self._run.eval_steps and (is_last or step % self._run.eval_steps == 0):
            self._keep_best(evaluate())

    def _keep_best(self, results: Mapping[str, float]) -> None:
        _log.info("step %d: %s", self.step, format_results(results))
        if not self.is_chief:
            return
        self._events.write(self.step, {f"eval_{name}": value for name, value in results.items()})
        directory = os.path.join(self._run.output_dir, "best")
        best = checkpoints.latest(directory)
        before = checkpoints.read_state(best).get("loss", math.inf) if best else math.inf
        if results["loss"] >= before:
            return
        prefix = checkpoints.save(
            directory,
            self.step,
            self._to_save(),
            keep=1,
            state={"examples_seen": self._examples_seen, "loss": results["loss"]},
        )
        _log.info("best loss so far, kept as %s", prefix)

    # ------------------------------------------------------------------ evaluation

    def evaluate(self, batches: Batches) -> dict[str, float]:
        """Metrics over a finite supply of batches, each example counted once.

        Returns:
          "loss", the mean of every metric of the task, and "global_step".
        """
        if self._evaluate_batch is None:
            self._evaluate_batch = steps.make_evaluation(self.task, self._strategy, self._xla)
        totals = np.zeros([2, len(self.task.metrics)])
        started = reported = time.monotonic()
        count = 0
        data = self._strategy.distribute_datasets_from_function(lambda c: batches.dataset(c))
        with _explained():
            for batch in data:
                totals += self._evaluate_batch(batch).numpy()
                count += 1
                now = time.monotonic()
                if now - reported > 10:
                    reported = now
                    rate = count * batches.batch_size / (now - started)
                    _log.info("evaluated %d batches, %.1f examples/s", count, rate)
        means = {
            name: float(total / weight) if weight else 0.0
            for name, total, weight in zip(self.task.metrics, *totals, strict=True)
        }
        loss = sum(means[name] for name in self.task.loss_parts)
        return {"loss": loss, **means, "global_step": self.step}


@contextlib.contextmanager
def _explained() -> Iterator[None]:
    """Turns what TensorFlow says about bad data into what the user did."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = batching.explain(error)
        if reason is None:
            raise
        raise reason from None


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """Turns the first SIGTERM or SIGINT into a request to stop; the second one stops at once."""
    stop = threading.Event()
    before: dict[int, Any] = {}

    def handle(number: int, _: Any) -> None:
        name = signal.Signals(number).name
        _log.info("%s: stopping after this step; again to stop at once, without saving", name)
        stop.set()
        signal.signal(number, before[number])

    if threading.current_thread() is threading.main_thread():
        for wanted in (signal.SIGTERM, signal.SIGINT):
            before[wanted] = signal.signal(wanted, handle)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def format_results(results: Mapping[str, float]) -> str:
    """``loss = 2.31, masked_lm_accuracy = 0.53``, for a log line."""
    return ", ".join(f"{name} = {shown(value)}" for name, value in sorted(results.items()))


def shown(value: float) -> str:
    """A result as text: whole numbers as they are, others with the digits of a float32."""
    return str(value) if isinstance(value, int) else str(np.float32(value))


def write_results(path: str, results: Mapping[str, float]) -> None:
    """Writes eval_results.txt: one ``key = value`` line each, keys sorted."""
    text = "".join(f"{name} = {shown(value)}\n" for name, value in sorted(results.items()))
    checkpoint_files.write_text(path, text)


def write_run_description(
    directory: str, strategy: tf.distribute.Strategy, groups: Sequence[Any]
) -> None:
    """Writes run.json: resolved flags, versions and devices of the newest run."""
    flags = {key: value for group in groups for key, value in vars(group).items()}
    description = {
        "command": sys.argv,
        "flags": flags,
        "python": platform.python_version(),
        "tensorflow": tf.__version__,
        "devices": devices.describe(strategy),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    text = json.dumps(description, indent=2, sort_keys=True) + "\n"
    checkpoint_files.write_text(os.path.join(directory, "run.json"), text)
