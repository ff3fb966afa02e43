"""Where the weights of a run come from, and where they are kept: restore, resume, save.

Order in which a training run gets its weights: the newest checkpoint of the output directory, with
optimizer, step and position in the data; else the initial checkpoint, weights only; else random
values.
"""

import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import modeling
from checkpoints import manager, matching, restore, tf_checkpoint
from command_line import errors, options
from training import compatibility, protocols, train_step

_log = logging.getLogger(__name__)


class BestMetric(NamedTuple):
    """Which result tells the best checkpoint, and whether a higher one is better."""

    result: str = "loss"
    higher: bool = False


class InitialWeights(NamedTuple):
    """What a run begins with while its output directory has no checkpoint.

    Attributes:
      checkpoint: weights to start from; may be empty.
      reinitialize: scopes, such as "output_", that keep their random values whatever the checkpoint
        holds.
      labels: names of the outputs of a classifier. Where the config beside weights by others has
        them in another order, the rows of the head are put in this one.
    """

    checkpoint: str = ""
    reinitialize: Sequence[str] = ()
    labels: Sequence[str] = ()


class RunState:
    """The variables of a run and the step they are at.

    Args:
      task: its model has the variables; made under the scope of the strategy that runs it.
      run: where to save, and how often.
      initial: what to begin with.
      signature: what is trained, such as "--objective=mlm"; saved with every checkpoint, and
        compared when one is used again.
      metadata: what else to save with every checkpoint, such as {"attention": "left_to_right"}.

    Attributes:
      variables: of the model, by checkpoint name.
      trained: those that the loss changes.
      global_step: int64 [], updates made so far.
      examples_seen: position in the training data.
      train_step: set by ``begin_training``.
      loaded_checkpoint: whose weights the model has; "" is the newest, None is none.
      weights_path: the checkpoint that the weights are in; "" where they are in none.
    """

    def __init__(
        self,
        task: protocols.Task,
        *,
        run: options.RunOptions,
        initial: InitialWeights = InitialWeights(),  # noqa: B008 - immutable
        signature: str = "",
        metadata: Mapping[str, str] | None = None,
    ):
        self.variables = modeling.named_variables(task.model)
        self.trained = outside(self.variables, task.without_gradient)
        self.global_step = tf.Variable(
            0,
            dtype=tf.int64,
            trainable=False,
            aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA,
            name="global_step",
        )
        self.examples_seen = 0
        self.train_step: train_step.TrainStep | None = None
        self._run = run
        self._initial = initial
        self._signature = signature
        self._description = {"kind": signature, **(metadata or {})}
        self._saved_step = -1
        self._resumed_from = ""
        self._batch_size = 0
        self._variables_listed = False
        self.loaded_checkpoint: str | None = None
        self.weights_path = ""

    @property
    def step(self) -> int:
        """Updates made so far."""
        return int(self.global_step.numpy())

    # ------------------------------------------------------------------ restoring

    def begin_training(self, step: train_step.TrainStep, batch_size: int) -> None:
        """Gives all variables, those of the optimizer too, the values that training starts from.

        Args:
          step: holds the optimizer and the loss scale.
          batch_size: examples of a step; tells the position in the data of checkpoints by other
            programs.

        Raises:
          errors.UserError: checkpoints that are damaged or do not fit the model.
        """
        self.train_step = step
        self.loaded_checkpoint = ""  # from here on the newest weights
        self._batch_size = batch_size
        manager.require_listing(self._run.output_dir)
        newest = manager.latest(self._run.output_dir)
        if newest:
            self._resume(newest)
        elif self._initial.checkpoint:
            requested = outside(self.variables, self._initial.reinitialize)
            self._load(requested, restore.open_checkpoint(self._initial.checkpoint))
            fresh = [name for name in self.variables if name not in requested]
            if fresh:
                _log.info("random, whatever the checkpoint holds: %s", errors.some(fresh))
            self._variables_listed = True
        else:
            manager.check_no_weights(self._run.output_dir)
            _log.info("no --init_checkpoint: all weights are random")

    def catch_up(self) -> None:
        """Takes the newest checkpoint again, where another run has saved since ``begin_training``.

        Call it once this process alone writes to the output directory.

        Raises:
          errors.UserError: as ``begin_training``.
        """
        newest = manager.latest(self._run.output_dir)
        if newest and newest != self._resumed_from:
            self._resume(newest)

    def is_finite(self) -> bool:
        """Whether every weight is a number."""
        return all(np.isfinite(variable.numpy()).all() for variable in self.variables.values())

    def _resume(self, newest: str) -> None:
        if self._initial.checkpoint:
            _log.info("going on from %s; --init_checkpoint is ignored", newest)
        state = self._read_state(newest)
        restore.load_all(self._everything(), newest)
        self._resumed_from = self.weights_path = newest
        self._saved_step = self.step or -1  # step 0 is saved again, with the state of this run
        scale = self.train_step.loss_scale if self.train_step else None
        # A checkpoint of another program has no state.
        self.examples_seen = state.get("examples_seen", self.step * self._batch_size)
        if scale and "loss_scale" in state:
            scale.scale.assign(float(state["loss_scale"]))
            scale.good_steps.assign(state.get("good_steps", 0))

    def _read_state(self, prefix: str) -> Mapping[str, Any]:
        origin = compatibility.Origin.read(prefix)
        origin.check_signature(self._signature)
        return origin.state

    def ensure_loaded(self, checkpoint: str = "", flag: str = "--eval_checkpoint") -> None:
        """Gives the model trained weights, unless it has them; optimizer state is not needed.

        Args:
          checkpoint: what to evaluate; empty for the newest of the output directory, or the initial
            checkpoint where there is none.
          flag: that named it, for messages.

        Raises:
          errors.UserError: there is none, it lacks variables that the metrics depend on, or it has
            more of an encoder than the model.
        """
        if checkpoint == self.loaded_checkpoint:
            return
        directory = self._run.output_dir
        newest = checkpoint or manager.latest(directory)
        if not checkpoint:
            flag = "--output_dir" if newest else "--init_checkpoint"
        if newest:
            is_ignored = self._initial.checkpoint and flag != "--init_checkpoint"
            unused = "; --init_checkpoint is ignored" if is_ignored else ""
            _log.info("with the weights of %s%s", newest, unused)
        elif self._initial.checkpoint:
            _log.info("no trained model in %s, using --init_checkpoint", directory)
        else:
            manager.check_no_weights(directory)
            raise errors.UserError(
                f"nothing to evaluate: no checkpoint in --output_dir={directory} and no "
                "--init_checkpoint; train first (--do_train) or name one"
            )
        source = restore.open_checkpoint(newest or self._initial.checkpoint, flag)
        self._read_state(source.path)
        self.check_trained(source, flag)
        log = not self._variables_listed
        self._load(self.variables, source, flag=flag, log_variables=log)
        self._variables_listed = True
        step = source.read(["global_step"])["global_step"] if "global_step" in source.shapes else 0
        self.global_step.assign(int(step) if newest else 0)
        self.loaded_checkpoint = checkpoint
        self.weights_path = source.path

    def _load(
        self,
        variables: Mapping[str, tf.Variable],
        source: tf_checkpoint.NamedArrays,
        **logging_options: Any,
    ) -> None:
        """Loads weights by anyone, the rows of a classifier's head in the order of its labels."""
        report = restore.load_matching(variables, source, **logging_options)
        order = compatibility.Origin.read(source.path).label_order(self._initial.labels)
        for name in {"output_weights", "output_bias"} & set(report.loaded) if order else ():
            variables[name].assign(tf.gather(variables[name], order))
            _log.info(
                "%s: rows put in the order of the labels (%s)",
                name,
                ", ".join(self._initial.labels),
            )

    def check_trained(self, source: tf_checkpoint.NamedArrays, flag: str) -> None:
        """Checks that a checkpoint is of this model, with a trained head.

        Args:
          source: from ``restore.open_checkpoint``.
          flag: that named it.

        Raises:
          errors.UserError: results with it would not be those of a trained model.
        """
        where = f"{flag}={source.path}"
        names = [*source.shapes, *source.ignored]
        matching.require_encoder(self.variables, names, where)
        shapes = {name: tuple(variable.shape) for name, variable in self.variables.items()}
        reason = matching.untrained_reason(shapes, self.trained, source.shapes)
        if reason:
            raise errors.UserError(f"{where}: {reason}")

    # ------------------------------------------------------------------ saving

    def _everything(self) -> dict[str, tf.Variable]:
        """All that a resumed run needs, by checkpoint name."""
        slots = self.train_step.optimizer.slots() if self.train_step else {}
        return {**self.variables, **slots, "global_step": self.global_step}

    def save(self, directory: str, keep: int, **more: float) -> str:
        """Writes everything that a resumed run needs, and ``more`` into the state beside it."""
        state: dict[str, Any] = {"examples_seen": self.examples_seen, **self._description, **more}
        scale = self.train_step.loss_scale if self.train_step else None
        if scale:
            state["loss_scale"] = float(scale.scale.numpy())
            state["good_steps"] = int(scale.good_steps.numpy())
        return manager.save(directory, self.step, self._everything(), keep=keep, state=state)

    def save_step(self) -> None:
        """Saves this step in the output directory, unless it has been saved."""
        if self.step != self._saved_step:
            prefix = self.save(self._run.output_dir, self._run.keep_checkpoint_max)
            self._saved_step = self.step
            self.weights_path = prefix
            _log.info("saved %s", prefix)

    def save_weights(self) -> str:
        """Writes the weights without optimizer state to <output_dir>/weights/."""
        directory = os.path.join(self._run.output_dir, "weights")
        values = {**self.variables, "global_step": self.global_step}
        return manager.save(directory, self.step, values, keep=1, state=self._description)

    def keep_if_best(self, results: Mapping[str, float], best: BestMetric) -> None:
        """Saves to <output_dir>/best what is better than the checkpoint there."""
        directory = os.path.join(self._run.output_dir, "best")
        kept = manager.latest(directory)
        before: Any = manager.read_state(kept).get(best.result) if kept else None
        value = results[best.result]
        is_number = isinstance(before, int | float) and not math.isnan(before)
        if not is_number or (value > before if best.higher else value < before):
            prefix = self.save(directory, keep=1, **{best.result: value})
            _log.info("best %s so far, kept as %s", best.result, prefix)


def outside(variables: Mapping[str, tf.Variable], scopes: Sequence[str]) -> dict[str, tf.Variable]:
    """The variables outside some scopes.

    Raises:
      ValueError: a scope that no variable is in.
    """
    for scope in scopes:
        if not any(name.startswith(scope) for name in variables):
            raise ValueError(f"no variable in {scope}")
    return {n: v for n, v in variables.items() if not n.startswith(tuple(scopes))}
