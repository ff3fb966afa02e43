"""What the fine-tuning scripts share: from flags to a checked config, a schedule and scopes."""

from __future__ import annotations

import dataclasses
import logging

import modeling
import optimization
import tokenization
from checkpoints import manager
from command_line import errors, options
from training import batching, compatibility

_log = logging.getLogger(__name__)


def read_config(
    model: options.ModelOptions, max_seq_length: int, checkpoint: str = ""
) -> modeling.BertConfig:
    """Reads --bert_config_file; attention is left-to-right where the checkpoint was trained so.

    Args:
      model: names the config.
      max_seq_length: of the task.
      checkpoint: ``checkpoints.source``.

    Raises:
      errors.UserError: a config that cannot be, or is not the checkpoint's.
      errors.FlagError: sequences longer than the model's positions.
    """
    config = modeling.BertConfig.from_json_file(model.bert_config_file)
    if max_seq_length > config.max_position_embeddings:
        raise errors.FlagError(
            f"Cannot use sequence length --max_seq_length={max_seq_length}: the model has "
            f"max_position_embeddings {config.max_position_embeddings} ({model.bert_config_file})"
        )
    compatibility.check_config(config, checkpoint, model.bert_config_file)
    attention = manager.read_state(checkpoint).get("attention") if checkpoint else None
    if attention and attention != config.attention:
        _log.info("%s was trained with attention %s, which is used", checkpoint, attention)
        return dataclasses.replace(config, attention=attention)
    return config


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


def frozen_scopes(count: int, encoder: modeling.BertModel) -> tuple[str, ...]:
    """The scopes of the embeddings and the first ``count`` layers; none if count is 0.

    Raises:
      errors.FlagError: more layers than the model has.
    """
    if count > len(encoder.layers):
        raise errors.FlagError(
            f"--freeze_layers={count}: the model has num_hidden_layers {len(encoder.layers)}"
        )
    modules = [encoder.embeddings, *encoder.layers[:count]] if count else []
    return tuple(module.name_scope.name for module in modules)


def warn_about_unused_flags(tuning: options.FineTuningOptions, run: options.RunOptions) -> None:
    """Names flags that do nothing in this run; scripts pass them to every command alike."""
    if run.save_weights_only and not tuning.do_train:
        _log.warning("--save_weights_only does nothing without --do_train")
    if tuning.new_head and not tuning.do_train:
        _log.warning("--new_head does nothing without --do_train")
    elif tuning.new_head and manager.latest(run.output_dir):
        _log.warning("--new_head does nothing: training goes on from %s", run.output_dir)


def new_scopes(tuning: options.FineTuningOptions, outputs: tuple[str, ...]) -> tuple[str, ...]:
    """The scopes that --new_head keeps from the initial checkpoint; ``outputs``: of the task."""
    if not tuning.new_head:
        return ()
    return (*outputs, "bilstm/") if tuning.head == "bilstm" else outputs


def create_tokenizer(
    text: options.TokenizerOptions,
    config: modeling.BertConfig,
    init_checkpoint: str,
    checkpoint: str = "",
) -> tokenization.FullTokenizer:
    """Makes the tokenizer, and checks it against the model and its checkpoint.

    Args:
      text: the flags.
      config: of the model.
      init_checkpoint: its name may tell its case.
      checkpoint: ``checkpoints.source``; a warning says where it was trained on other tokens.

    Raises:
      errors.UserError: it does not fit.
    """
    tokenization.validate_case_matches_checkpoint(text.do_lower_case, init_checkpoint)
    compatibility.warn_if_text_rules_differ(text, checkpoint)
    tokenizer = tokenization.create_tokenizer(text)
    tokenization.check_vocab(tokenizer, text.vocab_file, vocab_size=config.vocab_size)
    return tokenizer


def static_lengths(device: options.DeviceOptions, max_seq_length: int) -> tuple[int, ...]:
    """What ``batching.FeatureBatches`` pads sequences to; none: as long as a batch needs."""
    if device.use_tpu:  # one shape for all batches
        return (max_seq_length,)
    return batching.static_lengths(max_seq_length) if device.static_shapes else ()
