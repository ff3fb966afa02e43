"""What the fine-tuning scripts share: from flags to a checked config, a schedule and scopes."""

from __future__ import annotations

import dataclasses
import logging
import os

import batching
import checkpoint_files
import checkpoints
import errors
import modeling
import optimization
import options
import tokenization

_log = logging.getLogger(__name__)


def read_config(
    model: options.ModelOptions, output_dir: str, max_seq_length: int, eval_checkpoint: str = ""
) -> modeling.BertConfig:
    """Reads --bert_config_file; attention is left-to-right where the checkpoint was trained so.

    Args:
      model: the config and the initial checkpoint.
      output_dir: its newest checkpoint comes before the initial one.
      max_seq_length: of the task.
      eval_checkpoint: --eval_checkpoint of a run that does not train; comes before both.

    Raises:
      errors.UserError: a config that cannot be, or a checkpoint that is not there.
      errors.FlagError: sequences longer than the model's positions.
    """
    config = modeling.BertConfig.from_json_file(model.bert_config_file)
    if max_seq_length > config.max_position_embeddings:
        raise errors.FlagError(
            f"Cannot use sequence length --max_seq_length={max_seq_length}: the model has "
            f"max_position_embeddings {config.max_position_embeddings} ({model.bert_config_file})"
        )
    if is_named(eval_checkpoint):
        source = checkpoints.resolve(eval_checkpoint, "--eval_checkpoint").path
    else:
        source = checkpoints.latest(output_dir) or ""
    if not source and model.init_checkpoint:
        source = checkpoints.resolve(model.init_checkpoint).path
    attention = checkpoints.read_state(source).get("attention") if source else None
    if attention and attention != config.attention:
        _log.info("%s was trained with attention %s, which is used", source, attention)
        return dataclasses.replace(config, attention=attention)
    return config


def is_named(eval_checkpoint: str) -> bool:
    """Whether --eval_checkpoint names a checkpoint, other than those that this run will have."""
    return eval_checkpoint not in ("", "best", "all")


@dataclasses.dataclass(frozen=True)
class Head:
    """What a model has on its encoder, to be compared with what a checkpoint holds.

    Attributes:
      task: name of the task; saved with checkpoints.
      outputs: what they mean, such as "labels 0, 1"; the ``kind`` that is saved with checkpoints.
      size: L, number of outputs.
      name: --head.
      attention: of the encoder, which the head was trained on.
      weights: variable of the outputs, [L, H].
    """

    task: str
    outputs: str
    size: int
    name: str
    attention: str
    weights: str = "output_weights"

    def difference(self, checkpoint: checkpoint_files.Weights) -> str:
        """What a checkpoint with a head has in another way, and its cure; empty if nothing."""
        state = checkpoints.read_state(checkpoint.path)
        outputs = state.get("kind", self.outputs)
        if outputs != self.outputs:
            path = os.path.join(os.path.dirname(checkpoint.path), "labels.txt")
            where = f" ({path})" if os.path.isfile(path) else ""
            return (
                f"was trained with {_short(outputs)}, not {_short(self.outputs)}; give the task "
                f"and the labels{where} it was trained with"
            )
        size = checkpoint.shapes[self.weights][0]
        if size != self.size:
            return (
                f"has a head of {size} outputs, and the task {self.size} ({_short(self.outputs)}); "
                "give the task and the labels it was trained with"
            )
        has_lstm = any(name.startswith("bilstm/") for name in checkpoint.shapes)
        name = "bilstm" if has_lstm else "linear"
        if name != self.name:
            return f"was trained with --head={name}, not --head={self.name}; give --head={name}"
        attention = state.get("attention", self.attention)
        if attention != self.attention:
            return (
                f"was trained with attention {attention}, not {self.attention}; evaluate it by a "
                "run without --do_train"
            )
        return ""


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def check_head(
    head: Head,
    model: options.ModelOptions,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
) -> None:
    """Compares the head of the run with those of the checkpoints it begins with or evaluates.

    To begin with, a pre-trained encoder without a head will do. What is 'best' or among 'all' is of
    the run's own making, and is seen to when it is restored.

    Raises:
      errors.UserError: one of them has another head, or none though one is needed.
    """
    newest = checkpoints.latest(run.output_dir)
    named = is_named(run.eval_checkpoint)
    if named:
        checkpoint = checkpoints.resolve(run.eval_checkpoint, "--eval_checkpoint")
        _demand(head, checkpoint, "another --eval_checkpoint")
    if newest and (tuning.do_train or not named):
        _demand(head, checkpoint_files.Checkpoint(newest), "another --output_dir", tuning.do_train)
        task = checkpoints.read_state(newest).get("task", head.task)
        if tuning.do_train and task != head.task:
            raise errors.UserError(
                f"{newest} was trained with --task_name={task}, not {head.task}; give another "
                "--output_dir (to start from its weights: with it as --init_checkpoint)"
            )
    elif model.init_checkpoint and tuning.do_train and not tuning.new_head:
        initial = checkpoints.resolve(model.init_checkpoint)
        if head.weights in initial.shapes:
            _demand(head, initial, "--new_head to start with random outputs")
    elif model.init_checkpoint and not (tuning.do_train or named):
        _demand(head, checkpoints.resolve(model.init_checkpoint), "another --init_checkpoint")


def _demand(
    head: Head, checkpoint: checkpoint_files.Weights, else_give: str, resumes: bool = False
) -> None:
    """Raises where a checkpoint does not have the head; ``else_give``: the other cure."""
    if not any(name.startswith("bert/") for name in checkpoint.shapes):
        return  # said better where it is restored
    if head.weights not in checkpoint.shapes:
        raise errors.UserError(
            f"{checkpoint.path} has no {head.weights}: "
            + (
                "training cannot go on from it; give it as --init_checkpoint, with another "
                "--output_dir"
                if resumes
                else "the results would be those of an untrained head; train first (--do_train)"
            )
        )
    difference = head.difference(checkpoint)
    if difference:
        raise errors.UserError(f"{checkpoint.path} {difference}, or {else_give}")


def create_schedule(
    optimizer: options.OptimizerOptions, tuning: options.FineTuningOptions, examples: int
) -> optimization.Schedule:
    """The learning rate over --num_train_epochs; the last step is counted as the original did.

    Args:
      optimizer: the peak.
      tuning: batch size, epochs and warm-up.
      examples: N, rows or questions that an epoch has.

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


def frozen_scopes(layers: int, config: modeling.BertConfig) -> tuple[str, ...]:
    """The scopes of the embeddings and the first layers; none for 0 layers.

    Raises:
      errors.FlagError: more layers than the model has.
    """
    if layers > config.num_hidden_layers:
        raise errors.FlagError(
            f"--freeze_layers={layers}: the model has num_hidden_layers {config.num_hidden_layers}"
        )
    if not layers:
        return ()
    return ("bert/embeddings/", *(f"bert/encoder/layer_{index}/" for index in range(layers)))


def new_scopes(tuning: options.FineTuningOptions, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes that --new_head keeps from the initial checkpoint; ``outputs``: of the task."""
    if not tuning.new_head:
        return ()
    return (*outputs, "bilstm/") if tuning.head == "bilstm" else outputs


def create_tokenizer(
    text: options.TokenizerOptions, config: modeling.BertConfig, init_checkpoint: str
) -> tokenization.FullTokenizer:
    """Makes the tokenizer, and checks it against the model and the name of its checkpoint.

    Raises:
      errors.UserError: it does not fit.
    """
    tokenization.validate_case_matches_checkpoint(text.do_lower_case, init_checkpoint)
    tokenizer = tokenization.create_tokenizer(text)
    tokenization.check_vocab(tokenizer, text.vocab_file, vocab_size=config.vocab_size)
    return tokenizer


def static_lengths(device: options.DeviceOptions, max_seq_length: int) -> tuple[int, ...]:
    """What ``batching.FeatureBatches`` pads sequences to; none: as long as a batch needs."""
    if device.use_tpu:  # one shape for all batches
        return (max_seq_length,)
    return batching.static_lengths(max_seq_length) if device.static_shapes else ()
