"""The only loop: train, evaluate, predict, resume, and the guards around them.

A ``Trainer`` knows nothing of what it trains. It takes a task (a model, its losses and metrics as
sums and weights) and batches (a dataset for each input pipeline, from any position), and runs them
under a tf.distribute strategy. A step is: global loss weights, loss and gradients per replica,
all-reduce, clip, update. Only the loss-and-gradient function, which is pure, may be compiled by
XLA.

Where the weights come from and go to is the matter of ``run_state``.
"""

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import optimization
from checkpoints import manager
from command_line import errors, options
from system import locks, signals
from training import (
    batching,
    devices,
    events,
    progress,
    protocols,
    run_files,
    run_state,
    train_step,
)

_log = logging.getLogger(__name__)


class Trainer:
    """Runs a task.

    Args:
      task: the model, its losses and metrics; made under the scope of ``strategy``.
      state: of the run; made under the same scope.
      strategy: from ``devices.create_strategy``.
      run: where and how often to save, evaluate and log.
      device: precision and XLA.
      total_steps_flag: the flag that sets the last step, for messages.
    """

    def __init__(
        self,
        task: protocols.Task,
        state: run_state.RunState,
        *,
        strategy: tf.distribute.Strategy,
        run: options.RunOptions,
        device: options.DeviceOptions,
        total_steps_flag: str = "--num_train_steps",
    ):
        self.task = task
        self.state = state
        self.is_chief = devices.is_chief(strategy)
        self._total_steps_flag = total_steps_flag
        self._strategy = strategy
        self._run = run
        self._xla = device.xla
        self._use_loss_scale = device.precision == "float16"
        self._steps_per_call = run.iterations_per_loop if device.use_tpu else 1
        self._events = events.Events(run.output_dir if self.is_chief else None)
        self._schedule: optimization.Schedule | None = None
        self._stop = _stop_requests()  # counts only while a run trains
        self._evaluate_batch: Callable | None = None
        self._predict_batch: dict[Callable, Callable] = {}

    @property
    def step(self) -> int:
        """Updates made so far."""
        return self.state.step

    # ------------------------------------------------------------------ training

    def prepare_training(
        self, schedule: optimization.Schedule, batch_size: int, accumulation: int = 1
    ) -> None:
        """Makes the optimizer and restores; what does not fit shows here, before data is read.

        Args:
          schedule: of the learning rate; its total is the last step, counted over all runs.
          batch_size: examples of a step, over all devices.
          accumulation: parts that each replica's batch is computed in.

        Raises:
          errors.UserError: checkpoints that are damaged or do not fit the model.
          errors.FlagError: a batch size that the devices and parts do not divide.
        """
        replicas = self._strategy.num_replicas_in_sync
        if batch_size % (replicas * accumulation):
            raise errors.FlagError(
                f"--train_batch_size={batch_size} is not a multiple of {replicas * accumulation} "
                f"({replicas} devices x --gradient_accumulation_steps={accumulation})"
            )
        self._schedule = schedule
        config = train_step.StepConfig(
            schedule, accumulation, self._run.random_seed, self._use_loss_scale, self._xla
        )
        step = train_step.TrainStep(
            self.task, self.state.trained, self.state.global_step, self._strategy, config
        )
        self.state.begin_training(step, batch_size)

    def train(
        self,
        batches: protocols.Batches,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        best: run_state.BestMetric = run_state.BestMetric(),  # noqa: B008 - immutable
        begin: Callable[[], None] | None = None,
    ) -> None:
        """Trains up to the last step of the schedule; ``prepare_training`` comes first.

        Args:
          batches: an endless supply.
          evaluate: called every --eval_steps.
          best: which of the evaluated checkpoints is kept in <output_dir>/best.
          begin: called by the chief once it alone writes there, when there are steps to take.

        Raises:
          errors.UserError: bad data, or a loss or gradient that is not finite; the last good state
            is saved.
          errors.Stopped: after SIGTERM, SIGINT or SIGHUP, with everything saved.
        """
        assert self._schedule is not None, "prepare_training comes first"
        last = self._schedule.total_steps
        if self.step < last:
            with _user_errors(batches):  # before anything is written
                next(iter(batches.dataset(tf.distribute.InputContext(), self.state.examples_seen)))
        elif not self._evaluation_is_missing():
            self._log_nothing_to_train()
            return
        with self._writing():
            self.state.catch_up()
            if self.step < last and self.is_chief:
                manager.check_unlisted(self._run.output_dir, self.step, last)
                manager.clean_leftovers(self._run.output_dir)
                self._events.cut(self.step)
                if begin:
                    begin()
            if evaluate and self._evaluation_is_missing():
                self._keep_best(evaluate(), best)
            if self.step < last:
                self._loop(batches, evaluate, best)
            else:
                self._log_nothing_to_train()

    def _log_nothing_to_train(self) -> None:
        assert self._schedule is not None
        _log.warning(
            "nothing to train: %s is at step %d, and %s ends training at step %d; raise it to go "
            "on, or take a new --output_dir",
            self._run.output_dir,
            self.step,
            self._total_steps_flag,
            self._schedule.total_steps,
        )

    def _evaluation_is_missing(self) -> bool:
        """Whether the run was killed between saving this step and evaluating it."""
        assert self._schedule is not None
        step, period = self.step, self._run.eval_steps
        is_due = step > 0 and progress.is_time(step - 1, step, period, self._schedule.total_steps)
        return is_due and not self._events.has_evaluation(step)

    def _writing(self) -> contextlib.AbstractContextManager[object]:
        """Keeps other runs out of the directory while the chief writes there."""
        if not self.is_chief:
            return contextlib.nullcontext()
        tf.io.gfile.makedirs(self._run.output_dir)
        holder = "another run is training there; wait for it"
        return locks.exclusive(self._run.output_dir, holder)

    def _loop(
        self,
        batches: protocols.Batches,
        evaluate: Callable[[], Mapping[str, float]] | None,
        best: run_state.BestMetric,
    ) -> None:
        """Steps until the last one, or until a signal."""
        assert self._schedule is not None
        first, last, start = self.step, self._schedule.total_steps, self.state.examples_seen
        if first:
            _log.info("back at step %d, after %d examples", first, start)
        distribute = self._strategy.distribute_datasets_from_function
        iterator = iter(distribute(lambda context: batches.dataset(context, start)))
        self._save_step()  # a run begins with the checkpoint of step 0
        shown = progress.Training(
            first, last, self._log_steps, self._events, quiet=not self.is_chief
        )
        _log.info("building the first step, which takes longer than the others")
        with contextlib.closing(shown), _stop_requests() as self._stop:
            while self.step < last and not self._stop.count:
                before = self.step
                with self._saving_what_is_good(batches):
                    self._advance(iterator, batches, shown)
                if progress.is_time(before, self.step, self._run.save_checkpoints_steps, last):
                    with shown.paused():
                        self._save_step()
                if evaluate and progress.is_time(before, self.step, self._run.eval_steps, last):
                    with shown.paused(), self._saving_what_is_good(batches):
                        self._keep_best(evaluate(), best)
            if self._stop.count:
                self._save_step()
        if self._stop.first_signal:
            _log.info("stopped at step %d; the same command goes on from there", self.step)
            raise errors.Stopped(self._stop.first_signal)

    @contextlib.contextmanager
    def _saving_what_is_good(self, batches: protocols.Batches) -> Iterator[None]:
        """Saves the steps before an error; the step that fails changes nothing."""
        before = self.step
        try:
            yield
        except _EvaluationStopped:
            return  # the loop ends as after a step
        except errors.UserError as error:
            if self.state.is_finite():
                # Of several steps in one call, those before the error count.
                self.state.examples_seen += (self.step - before) * batches.batch_size
                self._save_step()
            saved = manager.latest(self._run.output_dir)
            raise errors.UserError(f"{error}; the steps before it are saved as {saved}") from None

    @property
    def _log_steps(self) -> int:
        """--log_steps, but at most a twentieth of the run: a short one has a curve, too."""
        assert self._schedule is not None
        return max(1, min(self._run.log_steps, self._schedule.total_steps // 20))

    def _advance(
        self, iterator: Iterator, batches: protocols.Batches, shown: progress.Training
    ) -> None:
        """Runs one or more steps and checks what came out."""
        assert self.state.train_step is not None and self._schedule is not None
        before, run = self.step, self._run
        periods = (
            run.save_checkpoints_steps,
            self._log_steps,
            run.eval_steps,
            self._steps_per_call,
        )
        # The next step at which the host has something to do.
        stop = min(self._schedule.total_steps, *((before // p + 1) * p for p in periods if p))
        count = min(self._steps_per_call, stop - before)
        with _user_errors(batches):
            done = self.state.train_step.run(iterator, tf.constant(count))
            sums, weights, tokens, skipped, norm = (value.numpy() for value in done)
        skipped = int(skipped)
        if self.state.train_step.loss_scale:
            self._check_scale(float(self.state.train_step.loss_scale.scale.numpy()))
        elif skipped:
            raise self._not_finite(sums, norm)
        if self.step != before + count - skipped:
            raise RuntimeError(f"{count} steps, {skipped} skipped, took {before} to {self.step}")
        self.state.examples_seen += count * batches.batch_size
        pairs = {
            name: (float(total), float(weight))
            for name, total, weight in zip(self.task.metrics, sums, weights, strict=True)
        }
        totals = {"examples": float(count * batches.batch_size), "tokens": float(tokens)}
        rate = float(self._schedule.rate(tf.constant(max(0, self.step - 1))))
        shown.update(self.step, pairs, totals, rate, tuple(self.task.loss_parts))

    def _check_scale(self, scale: float) -> None:
        if scale <= 1.0:
            raise errors.UserError(
                f"step {self.step}: gradients overflow float16 at every loss scale; use "
                "--precision=bfloat16 or float32, or lower --learning_rate"
            )

    def _not_finite(self, sums: np.ndarray, norm: float) -> errors.UserError:
        parts = ", ".join(
            f"{name} {value:g}" for name, value in zip(self.task.metrics, sums, strict=True)
        )
        return errors.UserError(
            f"step {self.step + 1}: not finite (gradient norm {norm:g}; sums {parts}); lower "
            "--learning_rate or warm up longer, and run again"
        )

    def _save_step(self) -> None:
        if self.is_chief:
            self.state.save_step()

    def _keep_best(self, results: Mapping[str, float], best: run_state.BestMetric) -> None:
        _log.info("step %d: %s", self.step, run_files.format_results(results))
        if not self.is_chief:
            return
        self.state.keep_if_best(results, best)
        # Last: a step without this row is evaluated when a killed run goes on.
        self._events.write(self.step, {f"eval_{name}": value for name, value in results.items()})

    # ------------------------------------------------------------------ evaluation

    def evaluate(self, batches: protocols.Batches) -> dict[str, float]:
        """Metrics over a finite supply of batches, each example counted once.

        Returns:
          "loss", the mean of every metric of the task, and "global_step".
        """
        if self._evaluate_batch is None:
            self._evaluate_batch = train_step.make_evaluation(self.task, self._strategy, self._xla)
        totals = np.zeros([2, len(self.task.metrics)])
        for sums in self._iterate("evaluated", batches, self._evaluate_batch):
            totals += sums.numpy()
        means = {
            name: float(total / weight) if weight else 0.0
            for name, total, weight in zip(self.task.metrics, *totals, strict=True)
        }
        loss = sum(means[name] for name in self.task.loss_parts)
        self.check_loss(loss)
        return {"loss": loss, **means, "global_step": self.step}

    def check_loss(self, loss: float) -> None:
        """Refuses a loss that means nothing.

        Raises:
          errors.UserError: it is not finite.
        """
        if not math.isfinite(loss):
            raise errors.UserError(
                f"the loss at step {self.step} is {loss}: the weights are of no use; train again "
                "from an older checkpoint with a lower --learning_rate"
            )

    def predict(
        self,
        batches: protocols.Batches,
        outputs: Callable[[protocols.Batch], dict[str, tf.Tensor]],
        action: str = "predicted",
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """What the model says of each example of a finite supply of batches.

        Args:
          batches: with the feature ``batching.INDEX``.
          outputs: from a batch to [B, ...] tensors by name; runs on the devices.
          action: what the log says of the examples.

        Yields:
          int32 [b], indices of examples; and [b, ...] arrays by name, for
          ``batching.restore_order``.
        """

        def indexed(batch: protocols.Batch) -> dict[str, tf.Tensor]:
            return {batching.INDEX: batch[batching.INDEX], **outputs(batch)}

        if outputs not in self._predict_batch:
            made = train_step.make_prediction(indexed, self._strategy, self._xla)
            self._predict_batch[outputs] = made
        for results in self._iterate(action, batches, self._predict_batch[outputs]):
            arrays = {n: np.concatenate([x.numpy() for x in xs]) for n, xs in results.items()}
            rows = arrays.pop(batching.INDEX)
            real = rows >= 0
            yield rows[real], {name: x[real] for name, x in arrays.items()}

    def _iterate(
        self, done: str, batches: protocols.Batches, run: Callable[[Iterator], Any]
    ) -> Iterator[Any]:
        """Runs a function on each of a finite supply of batches, and tells how far it is."""
        shown = progress.Pass(done, batches.num_examples)
        data = iter(self._strategy.distribute_datasets_from_function(lambda c: batches.dataset(c)))
        while True:
            try:
                with _user_errors(batches):
                    results = run(data)
            except tf.errors.OutOfRangeError:
                return
            shown.add(batches.batch_size)
            yield results
            if self._stop.count:
                raise _EvaluationStopped


class _EvaluationStopped(Exception):
    """A signal came while a run evaluated between two of its steps; it resumes with that."""


def _stop_requests() -> signals.StopRequests:
    """Counts the signals that end a run; a second one has its usual effect at once."""
    message = "stopping after this step; again to stop without saving"
    return signals.StopRequests("SIGTERM", "SIGINT", "SIGHUP", message=message, once=True)


@contextlib.contextmanager
def _user_errors(batches: protocols.Batches) -> Iterator[None]:
    """Turns what TensorFlow says about bad data into what the user did."""
    try:
        yield
    except tf.errors.OpError as error:
        reason = batches.to_user_error(error)
        if reason is None:
            raise
        raise reason from None
