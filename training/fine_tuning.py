"""The only fine-tuning driver: from flags and data to a trained, evaluated, exported model.

A task subclasses ``FineTuning`` and says what only it knows: its head, its examples, its scores and
its files. The order of a run is written here, once:

    config and tokenizer → checkpoints are compared → devices, model, weights → train → evaluate
    each chosen checkpoint → predict → export

Everything that can be wrong shows before the first step of training.
"""

import abc
import dataclasses
import logging
import os
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf

import modeling
import optimization
import tokenization
from checkpoints import manager, restore
from command_line import errors, options
from serving import export
from training import (
    batching,
    compatibility,
    devices,
    evaluation,
    fine_tuning_flags,
    loop,
    protocols,
    run_files,
    run_state,
)

_log = logging.getLogger(__name__)


class FineTuning(abc.ABC):
    """A run of a fine-tuning command; ``run`` does what the flags ask for.

    A subclass sets the class attributes, implements the abstract methods, and may extend the
    others. None of them is called before the data are there.

    Args:
      flags: of the command.
      data: what the task has read, without TensorFlow.

    Attributes:
      head_scopes: beginnings of the names of all variables of the head, for --new_head.
      config: of the encoder.
      tokenizer: from text to ids.
      lengths: what sequences are padded to; empty: the longest of each batch.
      trainer: with the model.
    """

    head_scopes: tuple[str, ...] = ("output_",)

    def __init__(self, flags: fine_tuning_flags.FineTuningFlags, data: Any):
        device = options.resolve_device(flags.device)
        self.flags = flags = flags._replace(device=device)
        self.data = data
        if flags.task.do_export:
            export.check_place(self._export_path)
        evaluation.check_selection(flags.run, flags.tuning.do_train)
        _warn_about_unused_flags(flags)
        origin = compatibility.Origin.read(self.starting_checkpoint())
        self.config = read_config(flags.model, flags.task.max_seq_length, origin)
        if flags.tuning.head == "bilstm" and self.config.hidden_size % 2:
            raise errors.FlagError(
                f"--head=bilstm: hidden_size {self.config.hidden_size} in --bert_config_file is "
                "odd, and the two directions are half as wide; give --head=linear"
            )
        self.tokenizer = create_tokenizer(flags.text, self.config, self.init_checkpoint, origin)
        self.lengths = _static_lengths(device, flags.task.max_seq_length)
        self.check_checkpoints(self.head())
        self._strategy = devices.create_strategy(device)
        self.trainer = self._create_trainer()
        self.load_weights(origin)

    # ------------------------------------------------------------------ what a task gives

    @abc.abstractmethod
    def head(self) -> compatibility.Head:
        """What the head is, to be compared with those of checkpoints and saved with them."""

    @abc.abstractmethod
    def build_task(self, encoder: modeling.BertModel, frozen: tuple[str, ...]) -> protocols.Task:
        """Puts the head on the encoder, under the scope of the strategy.

        Args:
          encoder: new, with random weights.
          frozen: scopes whose variables are not trained.
        """

    @property
    @abc.abstractmethod
    def num_train_examples(self) -> int:
        """Examples of an epoch, which the number of steps is computed from."""

    @abc.abstractmethod
    def batches(self, part: str, batch_size: int, seed: int | None = None) -> protocols.Batches:
        """Batches of a set: endless and shuffled with a seed, else each example once.

        Args:
          part: "train", or a name that the task gives a set.
          batch_size: examples in a batch, over all devices.
          seed: of the order.
        """

    @property
    @abc.abstractmethod
    def best(self) -> run_state.BestMetric:
        """Which of the ``dev_scores`` tells the best checkpoint."""

    @abc.abstractmethod
    def dev_scores(self) -> Mapping[str, float]:
        """Scores of the model as it is, for --eval_steps."""

    @abc.abstractmethod
    def evaluate(self) -> Mapping[str, Mapping[str, float]]:
        """Scores of the model as it is, by name of their file: "eval_results" before all."""

    @abc.abstractmethod
    def predict(self) -> None:
        """Writes the predictions of the model as it is."""

    @abc.abstractmethod
    def export(self, path: str) -> None:
        """Writes a SavedModel; called in the chief only."""

    def describe(self) -> None:
        """Writes what the run is into the output directory, when training begins."""
        run_files.write_run_description(
            self.flags.run.output_dir,
            devices.describe(self._strategy),
            self.flags,
            self.config.to_json_string(),
        )

    # ------------------------------------------------------------------ set-up

    @property
    def init_checkpoint(self) -> str:
        """The weights to start from, or to use where no model was trained; may be empty."""
        return self.flags.model.init_checkpoint

    def starting_checkpoint(self) -> str:
        """The checkpoint that the run begins with or uses; "" where there is none."""
        flags = self.flags
        return restore.starting_checkpoint(
            self.init_checkpoint, flags.run.output_dir, flags.checkpoint_to_use
        )

    def check_checkpoints(self, head: compatibility.Head) -> None:
        """Compares the head with those of all checkpoints that the run names."""
        flags = self.flags
        compatibility.check_head(head, self.init_checkpoint, flags.tuning, flags.run)

    def _create_trainer(self) -> loop.Trainer:
        flags, head = self.flags, self.head()
        with self._strategy.scope():
            encoder = modeling.BertModel(
                self.config,
                compute_dtype=tf.as_dtype(flags.device.precision),
                static_shapes=flags.device.static_shapes,
                seed=flags.run.random_seed,
            )
            task = self.build_task(encoder, frozen_scopes(flags.tuning.freeze_layers, encoder))
            state = run_state.RunState(
                task,
                run=flags.run,
                initial=run_state.InitialWeights(
                    self.init_checkpoint,
                    _scopes_to_reinitialize(flags.tuning, self.head_scopes),
                    head.labels,
                ),
                signature=head.signature,
                metadata={"attention": head.attention, "task": head.task},
            )
        return loop.Trainer(
            task,
            state,
            strategy=self._strategy,
            run=flags.run,
            device=flags.device,
            total_steps_flag="--num_train_epochs",
        )

    def load_weights(self, origin: compatibility.Origin) -> None:
        """Gives the model the weights that training begins with, or that are used first."""
        flags = self.flags
        if not flags.tuning.do_train:
            self.trainer.state.ensure_loaded(evaluation.selected_checkpoints(flags.run)[-1])
            origin.warn_about_changed_flags(flags, trains=False)
            return
        schedule = create_schedule(flags.optimizer, flags.tuning, self.num_train_examples)
        parts = flags.optimizer.gradient_accumulation_steps
        self.trainer.prepare_training(schedule, flags.tuning.train_batch_size, parts)
        if manager.latest(flags.run.output_dir):
            origin.warn_about_changed_flags(flags, trains=True)

    # ------------------------------------------------------------------ the run

    def run(self) -> None:
        """Trains, evaluates, predicts and exports as the flags say."""
        flags, trainer = self.flags, self.trainer
        if flags.tuning.do_train:
            batches = self.batches("train", flags.tuning.train_batch_size, flags.run.random_seed)
            trainer.train(batches, self.dev_scores, self.best, self.describe)
            if flags.run.save_weights_only and trainer.is_chief:
                _log.info("weights without optimizer state: %s", trainer.state.save_weights())
        # What lies beside checkpoints belongs to them, and stays.
        elif trainer.is_chief and not manager.latest(flags.run.output_dir):
            self.describe()
        self.use()

    def use(self) -> None:
        """Evaluates, predicts and exports with the checkpoints that the flags name."""
        flags, selected = self.flags, evaluation.selected_checkpoints(self.flags.run)
        if flags.task.do_eval:
            evaluation.evaluate_each(self.trainer, flags, self.evaluate, self.load)
        if flags.task.do_predict:
            self.load(selected[-1])
            self.predict()
        if flags.task.do_export:
            self.load(selected[-1])
            if self.trainer.is_chief:
                weights = self.trainer.state.weights_path
                _log.info("exporting %s to %s", weights, self._export_path)
                self.export(self._export_path)
                _log.info("exported %s to %s", weights, self._export_path)

    def load(self, checkpoint: str) -> None:
        """Gives the model the weights of a checkpoint; "" is the newest."""
        self.trainer.state.ensure_loaded(checkpoint)

    @property
    def _export_path(self) -> str:
        """export/, or export/<version>/ as TensorFlow Serving looks for models."""
        version = self.flags.tuning.export_version
        path = os.path.join(self.flags.run.output_dir, "export")
        return os.path.join(path, str(version)) if version else path

    def predictions(
        self,
        batches: protocols.Batches,
        outputs: Callable[[protocols.Batch], dict[str, tf.Tensor]],
        name: str,
        action: str = "predicted",
    ) -> np.ndarray:
        """What the model computes for each example of a set, [N, ...] in the order of the set.

        Args:
          batches: each example once.
          outputs: from a batch to [B, ...] tensors by name.
          name: which of them is returned.
          action: what the log says of the examples.

        Raises:
          errors.UserError: values that are not finite.
        """
        parts = self.trainer.predict(batches, outputs, action)
        values = batching.restore_order(parts, batches.num_examples)[name]
        wrong = int(np.sum(~np.isfinite(values.reshape(len(values), -1)).all(-1)))
        if wrong:
            raise errors.UserError(
                f"step {self.trainer.step}: the outputs of {wrong} of {len(values)} examples are "
                "not finite: the weights are of no use; train again with a lower --learning_rate"
            )
        return values


# --------------------------------------------------------------------------------------------------
# From flags
# --------------------------------------------------------------------------------------------------


def read_config(
    model: options.ModelOptions, max_seq_length: int, origin: compatibility.Origin
) -> modeling.BertConfig:
    """Reads --bert_config_file; attention is left-to-right where the checkpoint was trained so.

    Raises:
      errors.UserError: a config that cannot be, or is not the checkpoint's.
      errors.FlagError: sequences longer than the model's positions.
    """
    config = modeling.BertConfig.from_json_file(model.bert_config_file)
    positions = config.max_position_embeddings
    fine_tuning_flags.check_length(max_seq_length, positions, model.bert_config_file)
    origin.check_config(config, model.bert_config_file)
    attention = origin.state.get("attention")
    if attention and attention != config.attention:
        _log.info("%s was trained with attention %s, which is used", origin.checkpoint, attention)
        return dataclasses.replace(config, attention=attention)
    return config


def create_tokenizer(
    text: options.TokenizerOptions,
    config: modeling.BertConfig,
    init_checkpoint: str,
    origin: compatibility.Origin,
) -> tokenization.FullTokenizer:
    """Makes the tokenizer, and checks it against the model and its checkpoint.

    The name of ``init_checkpoint`` may tell its letter case. A warning names the flags with which
    the checkpoint of ``origin`` was trained on other tokens.

    Raises:
      errors.UserError: it does not fit.
    """
    tokenization.validate_case_matches_checkpoint(text.do_lower_case, init_checkpoint)
    origin.warn_if_text_rules_differ(text)
    tokenizer = tokenization.create_tokenizer(text)
    tokenization.check_vocab(tokenizer, text.vocab_file, vocab_size=config.vocab_size)
    return tokenizer


def create_schedule(
    optimizer: options.OptimizerOptions, tuning: options.FineTuningOptions, examples: int
) -> optimization.Schedule:
    """The learning rate over --num_train_epochs; the last step is counted as the original did.

    ``examples`` counts the rows or questions of an epoch.

    Raises:
      errors.FlagError: more steps than can be counted.
    """
    batch, epochs = tuning.train_batch_size, tuning.num_train_epochs
    steps = int(examples / batch * epochs)
    if steps < 1:
        _log.warning(
            "%d examples / --train_batch_size=%d x --num_train_epochs=%g is less than one step; "
            "taking 1",
            examples,
            batch,
            epochs,
        )
        steps = 1
    if steps >= 2**31:
        raise errors.FlagError(
            f"--num_train_epochs={epochs:g}: {examples} examples and --train_batch_size={batch} "
            f"make {steps:.2g} steps; expected less than 2^31"
        )
    warmup = int(steps * tuning.warmup_proportion)
    _log.info("training: %d examples, batches of %d, %d steps", examples, batch, steps)
    return optimization.Schedule(optimizer.learning_rate, steps, warmup)


def frozen_scopes(count: int, encoder: modeling.BertModel) -> tuple[str, ...]:
    """The scopes of the embeddings and the first ``count`` layers; none if count is 0.

    Raises:
      errors.FlagError: more layers than the model has.
    """
    if count > len(encoder.layers):
        raise errors.FlagError(
            f"--freeze_layers={count}: the model has num_hidden_layers {len(encoder.layers)}"
        )
    modules: list[tf.Module] = [encoder.embeddings, *encoder.layers[:count]] if count else []
    return tuple(module.name_scope.name for module in modules)


def _scopes_to_reinitialize(
    tuning: options.FineTuningOptions, head_scopes: tuple[str, ...]
) -> tuple[str, ...]:
    """The scopes that --new_head keeps from the initial checkpoint."""
    if not tuning.new_head:
        return ()
    return (*head_scopes, "bilstm/") if tuning.head == "bilstm" else head_scopes


def _warn_about_unused_flags(flags: fine_tuning_flags.FineTuningFlags) -> None:
    """Names flags that do nothing in this run; scripts pass them to every command alike."""
    tuning, run = flags.tuning, flags.run
    if run.save_weights_only and not tuning.do_train:
        _log.warning("--save_weights_only does nothing without --do_train")
    if tuning.new_head and not tuning.do_train:
        _log.warning("--new_head does nothing without --do_train")
    elif tuning.new_head and manager.latest(run.output_dir):
        _log.warning("--new_head does nothing: training goes on from %s", run.output_dir)


def _static_lengths(device: options.DeviceOptions, max_seq_length: int) -> tuple[int, ...]:
    """What sequences are padded to; none: as long as a batch needs."""
    if device.use_tpu:  # one shape for all batches
        return (max_seq_length,)
    return batching.static_lengths(max_seq_length) if device.static_shapes else ()
