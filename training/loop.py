"""The only loop: train, evaluate, predict, resume, and the guards around them.

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
import logging
import math
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import modeling
import optimization
from checkpoints import manager, matching, restore, tf_checkpoint
from command_line import errors, options
from system import locks, signals
from training import batching, devices, events, progress, protocols, run_files, train_step

_log = logging.getLogger(__name__)


class BestMetric(NamedTuple):
    """How the best checkpoint is told: by which result, and whether a higher one is better."""

    result: str = "loss"
    higher: bool = False


class Trainer:
    """Runs a task.

    Args:
      build_task: makes the task and its model; called once, under the strategy's scope.
      strategy: from ``devices.create_strategy``.
      run: where and how often to save, evaluate and log.
      device: precision and XLA.
      init_checkpoint: weights to start from when the output directory has none; may be empty.
      kind: flag and value that say what is trained, such as "--objective=mlm"; saved with every
        checkpoint, and checked when one is used again.
      notes: what else to save with every checkpoint, such as {"attention": "left_to_right"}.
      length_flag: the flag that sets the last step, for messages.
      fresh: scopes, such as "output_", that keep their random values whatever the initial
        checkpoint holds.
    """

    def __init__(
        self,
        build_task: Callable[[], protocols.Task],
        *,
        strategy: tf.distribute.Strategy,
        run: options.RunOptions,
        device: options.DeviceOptions,
        init_checkpoint: str = "",
        kind: str = "",
        notes: Mapping[str, str] | None = None,
        length_flag: str = "--num_train_steps",
        fresh: Sequence[str] = (),
    ):
        self._kind = kind
        self._notes = dict(notes or {})
        self._length_flag = length_flag
        self._fresh = fresh
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
        self._trained = _without(self.variables, self.task.without_gradient)
        self._events = events.Events(run.output_dir if self.is_chief else None)
        self._schedule: optimization.Schedule | None = None
        self._train_step: train_step.TrainStep | None = None
        self._evaluate_batch: Callable | None = None
        self._predict_batch: dict[Callable, Callable] = {}
        self._half = device.precision == "float16"
        self._examples_seen = 0
        self._saved_step = -1
        self._variables_listed = False
        self._at_hand: str | None = None  # the checkpoint whose weights the model has

    @property
    def step(self) -> int:
        """Updates made so far."""
        return int(self._step.numpy())

    # ------------------------------------------------------------------ weights

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
        self._at_hand = ""  # from here on the newest weights
        self._train_step = train_step.TrainStep(
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
        manager.require_listing(self._run.output_dir)
        newest = manager.latest(self._run.output_dir)
        if newest:
            self._resume(newest, batch_size)
        elif self._init_checkpoint:
            wanted = _without(self.variables, self._fresh)
            restore.restore(wanted, restore.resolve(self._init_checkpoint))
            fresh = [name for name in self.variables if name not in wanted]
            if fresh:
                _log.info("random, whatever the checkpoint holds: %s", errors.some(fresh))
            self._variables_listed = True
        else:
            _log.info("no --init_checkpoint: all weights are random")

    def _resume(self, newest: str, batch_size: int) -> None:
        if self._init_checkpoint:
            _log.info("going on from %s; --init_checkpoint is ignored", newest)
        state = self._read_state(newest)
        restore.restore_all(self._to_save(), newest)
        scale = self._train_step.loss_scale if self._train_step else None
        try:
            # A checkpoint of another toolkit has no state.
            self._examples_seen = int(state.get("examples_seen", self.step * batch_size))
            if scale and "loss_scale" in state:
                scale.scale.assign(float(state["loss_scale"]))
                scale.good_steps.assign(int(state["good_steps"]))
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise errors.UserError(
                f"{newest}.state.json: damaged: {error!r}; delete it to go on from "
                "global_step x --train_batch_size examples"
            ) from None

    def _read_state(self, prefix: str) -> dict[str, Any]:
        """What was saved beside a checkpoint, after a look at what it was trained for."""
        state = manager.read_state(prefix)
        kind = state.get("kind", self._kind)
        if kind != self._kind:
            raise errors.UserError(
                f"{prefix} was trained with {kind}, not {self._kind}; give {kind}, or another "
                "--output_dir"
            )
        return state

    def restore_for_evaluation(self, checkpoint: str = "", flag: str = "--eval_checkpoint") -> None:
        """Gives the model trained weights; optimizer state is not needed.

        Args:
          checkpoint: what to evaluate; empty for the newest of the output directory, or the initial
            checkpoint where there is none.
          flag: that named it, for messages.

        Raises:
          errors.UserError: there is none, it lacks variables that the metrics depend on, or it has
            more of an encoder than the model.
        """
        directory = self._run.output_dir
        newest = checkpoint or manager.latest(directory)
        if not checkpoint:
            flag = "--output_dir" if newest else "--init_checkpoint"
        if newest:
            unused = "; --init_checkpoint is ignored" if self._init_checkpoint else ""
            _log.info("with the weights of %s%s", newest, unused)
        elif self._init_checkpoint:
            _log.info("no trained model in %s, using --init_checkpoint", directory)
        else:
            raise errors.UserError(
                f"nothing to evaluate: no checkpoint in --output_dir={directory} and no "
                "--init_checkpoint; train first (--do_train) or name one"
            )
        source = restore.resolve(newest or self._init_checkpoint, flag)
        self._read_state(source.path)
        self.check_trained(source, flag)
        restore.restore(self.variables, source, what=flag, each_variable=not self._variables_listed)
        self._variables_listed = True
        step = source.read(["global_step"])["global_step"] if "global_step" in source.shapes else 0
        self._step.assign(int(step) if newest else 0)
        self._at_hand = checkpoint

    def check_trained(self, source: tf_checkpoint.NamedArrays, flag: str) -> None:
        """Finds out whether a checkpoint is of this model, with a head.

        Args:
          source: what ``checkpoints.resolve`` returned.
          flag: that named it.

        Raises:
          errors.UserError: results with it would not be those of a trained model.
        """
        where = f"{flag}={source.path}"
        names = [*source.shapes, *source.ignored]
        matching.require_encoder(self.variables, names, where)
        shapes = {name: tuple(variable.shape) for name, variable in self.variables.items()}
        why = matching.untrained_reason(shapes, self._trained, source.shapes)
        if why:
            raise errors.UserError(f"{where}: {why}")

    def ensure_loaded(self, checkpoint: str = "", flag: str = "--eval_checkpoint") -> None:
        """``restore_for_evaluation``, unless these weights are at hand."""
        if checkpoint != self._at_hand:
            self.restore_for_evaluation(checkpoint, flag)

    def _to_save(self) -> dict[str, tf.Variable]:
        slots = self._train_step.optimizer.slots() if self._train_step else {}
        return {**self.variables, **slots, "global_step": self._step}

    def _save(self, directory: str, keep: int, **more: float) -> str:
        """Writes everything that a resumed run needs, and ``more`` beside it."""
        state = {"examples_seen": self._examples_seen, "kind": self._kind, **self._notes}
        state |= more
        scale = self._train_step.loss_scale if self._train_step else None
        if scale:
            state["loss_scale"] = float(scale.scale.numpy())
            state["good_steps"] = int(scale.good_steps.numpy())
        return manager.save(directory, self.step, self._to_save(), keep=keep, state=state)

    def _save_step(self) -> None:
        """Saves this step in the output directory, unless that is done."""
        if self.is_chief and self.step != self._saved_step:
            prefix = self._save(self._run.output_dir, self._run.keep_checkpoint_max)
            self._saved_step = self.step
            _log.info("saved %s", prefix)

    def save_weights(self) -> str:
        """Writes the weights without optimizer state to <output_dir>/weights/."""
        directory = os.path.join(self._run.output_dir, "weights")
        values = {**self.variables, "global_step": self._step}
        state = {"kind": self._kind, **self._notes}
        return manager.save(directory, self.step, values, keep=1, state=state)

    # ------------------------------------------------------------------ training

    def train(
        self,
        batches: protocols.Batches,
        evaluate: Callable[[], Mapping[str, float]] | None = None,
        best: BestMetric = BestMetric(),  # noqa: B008 - immutable
        begin: Callable[[], None] | None = None,
    ) -> bool:
        """Trains up to the last step of the schedule; ``prepare_training`` comes first.

        Args:
          batches: an endless supply.
          evaluate: called every --eval_steps.
          best: which of the evaluated checkpoints is kept in <output_dir>/best.
          begin: called by the chief once it alone writes there, when there are steps to take.

        Returns:
          Whether the last step was reached; False after SIGTERM or SIGINT, with everything saved.

        Raises:
          errors.UserError: a loss or gradient that is not finite.
        """
        assert self._schedule is not None, "prepare_training comes first"
        first, last = self.step, self._schedule.total_steps
        # A run may have been killed between a save and the evaluation of that step.
        is_missed = (
            evaluate is not None
            and first > 0
            and progress.is_time(first - 1, first, self._run.eval_steps, last)
            and not self._events.has_evaluation(first)
        )
        if first >= last:
            _log.warning(
                "nothing to train: %s is at step %d, and %s ends training at step %d; raise it to "
                "go on, or take a new --output_dir",
                self._run.output_dir,
                first,
                self._length_flag,
                last,
            )
            if is_missed and evaluate:
                with self._writing():
                    self._keep_best(evaluate(), best)
            return True
        with _user_errors(batches):  # before anything is written
            next(iter(batches.dataset(tf.distribute.InputContext(), self._examples_seen)))
        if first:
            _log.info("back at step %d, after %d examples", first, self._examples_seen)
        with self._writing():
            if self.is_chief:
                manager.clean_leftovers(self._run.output_dir)
                self._events.cut(first)
                if begin:
                    begin()
            if is_missed and evaluate:
                self._keep_best(evaluate(), best)
            self._loop(batches, evaluate, best)
        if self.step < last:
            self._save_step()
            _log.info("stopped at step %d; the same command goes on from there", self.step)
        return self.step >= last

    def _writing(self) -> contextlib.AbstractContextManager[None]:
        """Keeps other runs out of the directory while the chief writes there."""
        if not self.is_chief:
            return contextlib.nullcontext()
        return locks.sole_writer(self._run.output_dir)

    def _loop(
        self,
        batches: protocols.Batches,
        evaluate: Callable[[], Mapping[str, float]] | None,
        best: BestMetric,
    ) -> None:
        """Steps until the last one, or until a signal."""
        assert self._schedule is not None
        first, last, start = self.step, self._schedule.total_steps, self._examples_seen
        iterator = iter(
            self._strategy.distribute_datasets_from_function(
                lambda context: batches.dataset(context, start)
            )
        )
        self._saved_step = first or -1  # a run begins with the checkpoint of step 0
        if not first:
            self._save_step()
        shown = progress.Training(
            first, last, self._run.log_steps, self._events, quiet=not self.is_chief
        )
        with contextlib.closing(shown), signals.stop_signals() as stop:
            while self.step < last and not stop.is_set():
                before = self.step
                self._advance(iterator, batches, shown)
                if self.step > before and self._after_steps(last, bool(evaluate)) and evaluate:
                    self._keep_best(evaluate(), best)

    def _next_stop(self, last: int) -> int:
        """The next step at which the host has something to do."""
        run = self._run
        periods = [run.save_checkpoints_steps, run.log_steps, run.eval_steps, self._calls_on_device]
        return min([last] + [(self.step // p + 1) * p for p in periods if p])

    def _advance(
        self, iterator: Iterator, batches: protocols.Batches, shown: progress.Training
    ) -> None:
        """Runs one or more steps and checks what came out."""
        assert self._train_step is not None and self._schedule is not None
        before = self.step
        last = self._schedule.total_steps
        count = min(self._calls_on_device, self._next_stop(last) - before)
        with _user_errors(batches):
            done = self._train_step.run(iterator, tf.constant(count))
            sums, weights, tokens, skipped, norm = (value.numpy() for value in done)
        skipped = int(skipped)
        if self._train_step.loss_scale:
            self._check_scale(float(self._train_step.loss_scale.scale.numpy()))
        elif skipped:
            raise self._not_finite(sums, norm)
        if self.step != before + count - skipped:
            raise RuntimeError(f"{count} steps, {skipped} skipped, took {before} to {self.step}")
        self._examples_seen += count * batches.batch_size
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
        good = manager.latest(self._run.output_dir)
        return errors.UserError(
            f"step {self.step + 1}: not finite (gradient norm {norm:g}; sums {parts}); the last "
            f"good checkpoint is {good}. Lower --learning_rate or warm up longer, and "
            f"run again"
        )

    def _after_steps(self, last: int, evaluates: bool) -> bool:
        """Saves when it is time; whether it is time to evaluate."""
        step = self.step
        if progress.is_time(step - 1, step, self._run.save_checkpoints_steps, last):
            self._save_step()
        return evaluates and progress.is_time(step - 1, step, self._run.eval_steps, last)

    def _keep_best(self, results: Mapping[str, float], best: BestMetric) -> None:
        _log.info("step %d: %s", self.step, run_files.format_results(results))
        if not self.is_chief:
            return
        directory = os.path.join(self._run.output_dir, "best")
        kept = manager.latest(directory)
        before = manager.read_state(kept).get(best.result) if kept else None
        value = results[best.result]
        if before is None or (value > before if best.higher else value < before):
            prefix = self._save(directory, keep=1, **{best.result: value})
            _log.info("best %s so far, kept as %s", best.result, prefix)
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
        for sums in self._over("evaluated", batches, self._evaluate_batch):
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
        self, batches: protocols.Batches, outputs: Callable[[protocols.Batch], dict[str, tf.Tensor]]
    ) -> Iterator[tuple[np.ndarray, dict[str, np.ndarray]]]:
        """What the model says of each example of a finite supply of batches.

        Args:
          batches: with the feature ``batching.INDEX``.
          outputs: from a batch to [B, ...] tensors by name; runs on the devices.

        Yields:
          int32 [b], indices of examples; and [b, ...] arrays by name, for
          ``batching.restore_order``.
        """

        def indexed(batch: protocols.Batch) -> dict[str, tf.Tensor]:
            return {batching.INDEX: batch[batching.INDEX], **outputs(batch)}

        if outputs not in self._predict_batch:
            made = train_step.make_prediction(indexed, self._strategy, self._xla)
            self._predict_batch[outputs] = made
        for found in self._over("predicted", batches, self._predict_batch[outputs]):
            arrays = {n: np.concatenate([x.numpy() for x in parts]) for n, parts in found.items()}
            rows = arrays.pop(batching.INDEX)
            real = rows >= 0
            yield rows[real], {name: x[real] for name, x in arrays.items()}

    def _over(
        self, done: str, batches: protocols.Batches, run: Callable[[Iterator], Any]
    ) -> Iterator[Any]:
        """Runs a function on each of a finite supply of batches, and tells how far it is."""
        shown = progress.Pass(done, batches.num_examples)
        data = iter(self._strategy.distribute_datasets_from_function(lambda c: batches.dataset(c)))
        while True:
            try:
                with _user_errors(batches):
                    found = run(data)
            except tf.errors.OutOfRangeError:
                return
            shown.add(batches.batch_size)
            yield found


def _without(variables: Mapping[str, tf.Variable], scopes: Sequence[str]) -> dict[str, tf.Variable]:
    """The variables outside some scopes.

    Raises:
      ValueError: a scope that no variable is in.
    """
    for scope in scopes:
        if not any(name.startswith(scope) for name in variables):
            raise ValueError(f"no variable in {scope}")
    return {n: v for n, v in variables.items() if not n.startswith(tuple(scopes))}


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
