"""What the devices do: a training step, an evaluation batch, a prediction batch.

A training step sums the weights of the loss over all replicas, computes loss and gradients of each
replica's batch, all-reduces, clips and updates. Only the loss-and-gradient function, which is pure,
may be compiled by XLA; compiled functions cannot all-reduce or assign under MirroredStrategy.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

import optimization
from training import batching, protocols


class StepConfig(NamedTuple):
    """How a training step is computed.

    Attributes:
      schedule: of the learning rate.
      accumulation: micro-batches that each replica's batch is computed in.
      seed: of dropout.
      use_loss_scale: scale the loss, for float16.
      xla: compile the loss-and-gradient function.
    """

    schedule: optimization.Schedule
    accumulation: int = 1
    seed: int = 12345
    use_loss_scale: bool = False
    xla: bool = False


class StepSums(NamedTuple):
    """What one or more steps did.

    Attributes:
      sums: float32 [metrics], of each metric.
      weights: float32 [metrics], that the sums are to be divided by.
      tokens: float32 [], real tokens.
      skipped: int32 [], steps that were not finite, and therefore not applied.
      norm: float32 [], global norm of the newest gradients, before clipping.
    """

    sums: tf.Tensor
    weights: tf.Tensor
    tokens: tf.Tensor
    skipped: tf.Tensor
    norm: tf.Tensor


class TrainStep:
    """One optimizer step of a task on all devices.

    Args:
      task: what to train.
      trained: variables to update, by checkpoint name.
      step: int64 [], updates made so far; each applied step adds one.
      strategy: its scope holds the variables.
      config: how.

    Attributes:
      optimizer: with the moments of the trained variables.
      loss_scale: None without config.use_loss_scale.
    """

    def __init__(
        self,
        task: protocols.Task,
        trained: Mapping[str, tf.Variable],
        step: tf.Variable,
        strategy: tf.distribute.Strategy,
        config: StepConfig,
    ):
        self._task = task
        self._trained = dict(trained)
        self._step = step
        self._strategy = strategy
        self._config = config
        with strategy.scope():
            self.optimizer = optimization.AdamWeightDecay(trained)
            self.loss_scale = optimization.LossScale() if config.use_loss_scale else None
        self._compute = _compiled(self._loss_and_gradients, config.xla)

    # AutoGraph would rewrite all that is called here, and double the time of the first step.
    @tf.function(autograph=False)
    def run(self, iterator: Iterator, count: tf.Tensor) -> StepSums:
        """Runs steps without the host; stops at one that is not finite, except in float16.

        Args:
          iterator: of the strategy's distributed dataset.
          count: int32 [], number of steps; a tensor, so that another number is not retraced.
        """
        strategy = self._strategy

        def body(index: tf.Tensor, total: StepSums) -> tuple[tf.Tensor, StepSums]:
            results = strategy.run(self._on_replica, args=(next(iterator),))
            # All-reduced: the same on all replicas.
            new = StepSums._make(strategy.experimental_local_results(x)[0] for x in results)
            sums = [old + added for old, added in zip(total[:4], new[:4], strict=True)]
            return index + 1, StepSums._make([*sums, new.norm])

        def condition(index: tf.Tensor, total: StepSums) -> tf.Tensor:
            if self.loss_scale:
                return index < count
            return (index < count) & (total.skipped == 0)

        metrics = tf.zeros([len(self._task.metrics)])
        zeros = StepSums(metrics, metrics, tf.constant(0.0), tf.constant(0), tf.constant(0.0))
        _, total = tf.while_loop(condition, body, (tf.constant(0), zeros))
        return total

    def _on_replica(self, batch: protocols.Batch) -> StepSums:
        """A step on one replica."""
        weights = self._all_reduce(self._task.weights(batch))
        weights = {name: weights[name] + extra for name, extra in self._task.loss_parts.items()}
        scale = tf.convert_to_tensor(self.loss_scale.scale) if self.loss_scale else None

        gradients, sums, metric_weights = self._accumulate(batch, weights, scale)
        tokens = tf.reduce_sum(tf.cast(batch["input_mask"], tf.float32))
        gradients, sums, metric_weights, tokens = self._all_reduce(
            (gradients, sums, metric_weights, tokens)
        )
        gradients, norm = optimization.clip(gradients)
        finite = tf.math.is_finite(norm)
        if self.loss_scale is None:
            # Without a scale, a loss that is not finite is no overflow: it ends the run.
            finite &= tf.reduce_all(tf.math.is_finite(sums))
        rate = self._config.schedule.rate(self._step)

        def apply() -> bool:
            self.optimizer.apply(gradients, rate)
            return True

        tf.cond(finite, apply, lambda: False)
        self._step.assign_add(tf.cast(finite, tf.int64))
        if self.loss_scale:
            self.loss_scale.update(finite)
        return StepSums(sums, metric_weights, tokens, 1 - tf.cast(finite, tf.int32), norm)

    def _all_reduce(self, values: Any) -> Any:
        """Sums over the replicas."""
        replica = tf.distribute.get_replica_context()
        if replica.num_replicas_in_sync == 1:
            return values
        return replica.all_reduce(tf.distribute.ReduceOp.SUM, values)

    def _seed(self) -> tf.Tensor:
        """int32 [2]: dropout seed of this step on this replica."""
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        seed = tf.constant([self._config.seed & 0x7FFFFFFF, 0])
        seed = tf.random.fold_in(seed, tf.cast(self._step, tf.int32))
        return tf.random.fold_in(seed, replica)

    def _accumulate(
        self,
        batch: protocols.Batch,
        weights: dict[str, tf.Tensor],  # float32 [] each
        scale: tf.Tensor | None,  # float32 []
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
        """Gradients and metrics of a replica's batch, computed in micro-batches."""
        count = self._config.accumulation
        seed = self._seed()
        if count == 1:
            return self._compute(batch, weights, tf.random.fold_in(seed, 0), scale)
        rows, rest = divmod(next(iter(batch.values())).shape[0], count)
        if rest:
            raise ValueError(f"{count} parts do not divide a batch of {rows * count + rest} rows")

        def body(index: tf.Tensor, total: Any) -> tuple[tf.Tensor, Any]:
            micro = {name: x[index * rows : (index + 1) * rows] for name, x in batch.items()}
            if micro["input_mask"].shape[1] is None:  # rows are sorted, the longest first
                micro = batching.trim(micro)
            new = self._compute(micro, weights, tf.random.fold_in(seed, index), scale)
            return index + 1, tf.nest.map_structure(tf.add, total, new)

        metrics = tf.zeros([len(self._task.metrics)])
        zeros = ([tf.zeros(v.shape) for v in self._trained.values()], metrics, metrics)
        _, total = tf.while_loop(
            lambda index, _: index < count, body, (tf.constant(0), zeros), parallel_iterations=1
        )
        return total

    def _loss_and_gradients(
        self,
        batch: protocols.Batch,
        weights: dict[str, tf.Tensor],  # float32 [] each
        seed: tf.Tensor,  # int32 [2]
        scale: tf.Tensor | None,  # float32 []
    ) -> tuple[list[tf.Tensor], tf.Tensor, tf.Tensor]:
        """Gradients of a micro-batch, its metric sums and their weights; a pure function.

        Its loss is its part of the loss of the whole batch, whose weights are given, so that
        gradients of micro-batches and replicas add up.
        """
        variables = list(self._trained.values())
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(variables)
            pairs = self._task.sums(batch, training=True, seed=seed)
            loss = tf.add_n(
                [tf.math.divide_no_nan(pairs[name][0], weights[name]) for name in weights]
            )
            target = loss if scale is None else loss * scale
        gradients = tape.gradient(target, variables)
        missing = [n for n, g in zip(self._trained, gradients, strict=True) if g is None]
        if missing:
            raise RuntimeError(f"the loss does not depend on {', '.join(missing)}")
        gradients = [tf.convert_to_tensor(gradient) for gradient in gradients]
        if scale is not None:
            gradients = [gradient / scale for gradient in gradients]
        sums, metric_weights = zip(*(pairs[name] for name in self._task.metrics), strict=True)
        return gradients, tf.stack(sums), tf.stack(metric_weights)


def _compiled(function: Callable, xla: bool) -> Callable:
    """The function itself, or a call of its XLA form, if requested."""
    if not xla:
        return function
    compiled = tf.function(function, jit_compile=True, autograph=False)
    # strategy.run must not see the compiled function itself: it would compile all replicas as one.
    return lambda *arguments: compiled(*arguments)


def make_evaluation(
    task: protocols.Task, strategy: tf.distribute.Strategy, xla: bool
) -> Callable[[Iterator], tf.Tensor]:
    """The function from a distributed iterator to sums and weights of its next batch.

    Returns:
      A function that returns float32 [2, metrics] and raises tf.errors.OutOfRangeError at the end.
    """

    def sums(batch: protocols.Batch) -> tf.Tensor:
        pairs = task.sums(batch, training=False)
        return tf.stack([tf.stack([pairs[name][i] for name in task.metrics]) for i in (0, 1)])

    compute = _compiled(sums, xla)

    @tf.function(autograph=False)
    def evaluate(iterator: Iterator) -> tf.Tensor:
        return strategy.reduce("SUM", strategy.run(compute, args=(next(iterator),)), axis=None)

    return evaluate


def make_prediction(
    outputs: Callable[[protocols.Batch], dict[str, tf.Tensor]],
    strategy: tf.distribute.Strategy,
    xla: bool,
) -> Callable[[Iterator], dict[str, tuple[tf.Tensor, ...]]]:
    """The function from a distributed iterator to the outputs for its next batch.

    Args:
      outputs: from a batch to [B, ...] tensors by name.
      strategy: its scope holds the variables.
      xla: compile ``outputs``.

    Returns:
      A function that returns the tensors of each local replica, and raises
      tf.errors.OutOfRangeError at the end.
    """
    compute = _compiled(outputs, xla)

    @tf.function(autograph=False)
    def predict(iterator: Iterator) -> dict[str, tuple[tf.Tensor, ...]]:
        results = strategy.run(compute, args=(next(iterator),))
        return {name: strategy.experimental_local_results(x) for name, x in results.items()}

    return predict
