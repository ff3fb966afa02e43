"""Whether the head of a checkpoint is the one that a run has on its encoder."""

from __future__ import annotations

import dataclasses
import logging
import os
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

import modeling
from checkpoints import file_names, manager, restore, tf_checkpoint
from command_line import errors, options
from nn import functions
from training import label_files, run_files

# The flag of a kind of outputs, by their first word.
_KINDS = {"multi-label": "--multi_label, ", "regression": "--regression, "}


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

    def difference(self, checkpoint: tf_checkpoint.NamedArrays) -> str:
        """What a checkpoint with a head has in another way, and its cure; empty if nothing."""
        state = manager.read_state(checkpoint.path)
        path, beside = self._labels_beside(checkpoint.path)
        outputs = state.get("kind") or beside or self.outputs
        if outputs != self.outputs:
            where = f" ({path})" if beside else ""
            flag = _KINDS.get(outputs.split(" ")[0], "")
            return (
                f"was trained with {_short(outputs)}, not {_short(self.outputs)}; give {flag}the "
                f"task and the labels{where} it was trained with"
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

    def _labels_beside(self, checkpoint: str) -> tuple[str, str]:
        """labels.txt beside a checkpoint, and the outputs it stands for; empty without one."""
        kind, found, _ = self.outputs.partition("labels ")
        path = os.path.join(os.path.dirname(checkpoint), "labels.txt")
        if not found or not tf.io.gfile.exists(path):
            return path, ""
        with tf.io.gfile.GFile(path) as file:
            return path, f"{kind}labels {label_files.label_signature(file.read().splitlines())}"


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def check(
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
    newest = manager.latest(run.output_dir)
    named = run.named_checkpoint
    if named:
        checkpoint = restore.resolve(named, "--eval_checkpoint")
        _demand(head, checkpoint, "another --eval_checkpoint")
    if newest and (tuning.do_train or not named):
        _demand(head, tf_checkpoint.Checkpoint(newest), "another --output_dir", tuning.do_train)
        task = manager.read_state(newest).get("task", head.task)
        if tuning.do_train and task != head.task:
            raise errors.UserError(
                f"{newest} was trained with --task_name={task}, not {head.task}; give another "
                "--output_dir (to start from its weights: with it as --init_checkpoint)"
            )
    elif model.init_checkpoint and tuning.do_train and not tuning.new_head:
        initial = restore.resolve(model.init_checkpoint)
        if head.weights in initial.shapes:
            _demand(head, initial, "--new_head to start with random outputs")
    elif model.init_checkpoint and not (tuning.do_train or named):
        _demand(head, restore.resolve(model.init_checkpoint), "another --init_checkpoint")


def _demand(
    head: Head, checkpoint: tf_checkpoint.NamedArrays, else_give: str, resumes: bool = False
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


_log = logging.getLogger(__name__)


def check_config(config: modeling.BertConfig, checkpoint: str, config_file: str) -> None:
    """Compares a config with the bert_config.json beside a checkpoint, where there is one.

    Args:
      config: that is to be used.
      checkpoint: a prefix or file; "" is none.
      config_file: of ``config``, for messages.

    Raises:
      errors.UserError: they differ in num_attention_heads or hidden_act.
    """
    for directory in file_names.run_directories([checkpoint]):
        path = os.path.join(directory, "bert_config.json")
        before = run_files.read_object(path)
        for key in ("num_attention_heads", "hidden_act"):
            used, trained = getattr(config, key), before.get(key)
            if key in before and _computes(key, trained) not in (None, _computes(key, used)):
                raise errors.UserError(
                    f"--bert_config_file={config_file} has {key} {used}, but {checkpoint} was "
                    f"trained with {trained} ({path}); give the config it was trained with"
                )


def _computes(key: str, value: Any) -> Any:
    """What a value of a config stands for; None where this project does not know it."""
    if key != "hidden_act":
        return value
    try:
        return functions.activation(value)
    except errors.UserError:
        return None


def warn_if_text_rules_differ(text: options.TokenizerOptions, checkpoint: str) -> None:
    """Names flags by which texts become other tokens than those a checkpoint was trained on."""
    for directory in file_names.run_directories([checkpoint]):
        flags = run_files.flags_of(directory)
        if "do_lower_case" not in flags:  # pre-training reads no text
            continue
        for name, used, trained in zip(
            ("do_lower_case", "strip_accents"), _rules(vars(text)), _rules(flags), strict=True
        ):
            if used != trained:
                _log.warning(
                    "--%s=%s, but %s was trained with %s (%s)",
                    name,
                    str(used).lower(),
                    checkpoint,
                    str(trained).lower(),
                    os.path.join(directory, "run.json"),
                )


def _rules(flags: Mapping[str, Any]) -> tuple[Any, Any]:
    """Whether texts are lower-cased, and whether they lose accents."""
    lower, strip = flags["do_lower_case"], flags.get("strip_accents")
    return lower, lower if strip is None else strip
