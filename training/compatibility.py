"""Does a checkpoint fit a run? One answer, from the checkpoint and from what lies beside it.

Shapes tell only half of it: weights trained with another number of attention heads, another
activation or another order of labels have the same shapes, and compute something else.
"""

import dataclasses
import functools
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import modeling
from checkpoints import config_files, file_names, manager, restore, tf_checkpoint
from command_line import errors, options
from nn import functions
from system import inputs
from training import label_files, run_files

_log = logging.getLogger(__name__)

# A run that changes one of these gives the model other inputs than it was trained on.
_INPUT_FLAGS = {"doc_stride", "max_predictions_per_seq", "max_query_length", "max_seq_length"}

# A resumed run that changes one of these trains on with something else.
_TRAINING_FLAGS = {
    *_INPUT_FLAGS, "answer_policy", "bert_config_file", "data_dir", "freeze_layers", "input_file",
    "label_column", "learning_rate", "num_train_epochs", "num_train_steps", "num_warmup_steps",
    "random_seed", "text_a_column", "text_b_column", "train_batch_size", "train_file",
    "version_2_with_negative", "vocab_file", "warmup_proportion", "whole_answer_windows_only",
}  # fmt: skip

# What is read beside a checkpoint, the more important last.
_FILES_BESIDE = (("config", "config.json"), ("config", "bert_config.json"), ("flags", "run.json"))

# What <checkpoint>.state.json may hold, apart from results: types, and their name for messages.
_STATE_VALUES = {
    "kind": ((str,), "text"),
    "task": ((str,), "text"),
    "attention": ((str,), "text"),
    "examples_seen": ((int,), "a whole number of at least 0"),
    "good_steps": ((int,), "a whole number of at least 0"),
    "loss_scale": ((int, float), "a positive number"),
}

# The flag for what a model predicts, by the first word of its signature.
_SIGNATURE_FLAGS = {"multi-label": "--multi_label, ", "regression": "--regression, "}


# --------------------------------------------------------------------------------------------------
# Beside a checkpoint
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Origin:
    """What the run that made a checkpoint left beside it; anything may be missing.

    Attributes:
      checkpoint: the prefix or file; "" if there is no checkpoint.
      state: of <checkpoint>.state.json.
      config: of bert_config.json, or of Hugging Face's config.json.
      config_path: its path.
      flags: of run.json.
      flags_path: the path of run.json.
      labels_path: the path of labels.txt.
    """

    checkpoint: str = ""
    state: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    config: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    config_path: str = ""
    flags: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    flags_path: str = ""
    labels_path: str = ""

    @functools.cached_property
    def labels(self) -> list[str]:
        """Those of a classifier, empty if nothing tells; only asked for by runs that have labels.

        Raises:
          errors.UserError: the file is damaged.
        """
        if self.labels_path:
            return label_files.read_labels(self.labels_path)
        return config_files.label_names(self.config)

    @property
    def labels_source(self) -> str:
        """Where the labels are from, for messages."""
        return self.labels_path or f"id2label in {self.config_path}"

    def label_order(self, labels: Sequence[str]) -> list[int] | None:
        """Which output of a checkpoint by others has each label, where only the order differs.

        Args:
          labels: of this run.

        Returns:
          Indices of outputs of the checkpoint; None where the orders agree, the names are others,
          or a run of this project wrote the checkpoint.
        """
        theirs = [label.casefold() for label in self.labels]
        ours = [label.casefold() for label in labels]
        is_own = "kind" in self.state or self.labels_path
        if is_own or sorted(theirs) != sorted(ours) or len(set(ours)) < len(ours):
            return None
        order = [theirs.index(label) for label in ours]
        return None if order == sorted(order) else order

    @classmethod
    def read(cls, checkpoint: str) -> "Origin":
        """Reads what lies beside a checkpoint, and in the run's directory above best/ or weights/.

        Raises:
          errors.UserError: the state file is damaged.
        """
        if not checkpoint:
            return cls()
        values: dict[str, Any] = {"state": _read_state(checkpoint)}
        for directory in reversed(file_names.run_directories([checkpoint])):
            for name, file in _FILES_BESIDE:
                path = os.path.join(directory, file)
                contents = run_files.read_object(path)
                if name == "flags":
                    contents = contents.get("flags")  # type: ignore[assignment]
                if isinstance(contents, dict) and contents:
                    values |= {name: contents, f"{name}_path": path}
            path = os.path.join(directory, label_files.LABELS_FILE)
            if inputs.is_file(path):
                values["labels_path"] = path
        return cls(checkpoint, **values)

    def check_config(self, config: modeling.BertConfig, config_file: str) -> None:
        """Compares what shapes do not tell.

        Args:
          config: that is to be used.
          config_file: where it was read from, for the message.

        Raises:
          errors.UserError: the checkpoint was trained with another num_attention_heads,
            hidden_act or layer_norm_eps.
        """
        if not self.config:
            return
        said = {"layer_norm_eps": functions.LAYER_NORM_EPSILON, **self.config}
        if "hidden_act" in said:
            said["hidden_act"] = config_files.hidden_act(self.config)
        for key in ("num_attention_heads", "hidden_act", "layer_norm_eps"):
            used, trained = getattr(config, key), said.get(key)
            known = key in said and _meaning(key, trained) is not None
            if known and _meaning(key, trained) != _meaning(key, used):
                raise errors.UserError(
                    f"--bert_config_file={config_file} has {key} {used}, but {self.checkpoint} was "
                    f"trained with {trained} ({self.config_path}); give the config it was trained "
                    "with"
                )

    def warn_about_changed_flags(self, groups: Iterable[Any], *, trains: bool) -> None:
        """Names flags that differ from those that the checkpoint was trained with.

        Args:
          groups: the flags of the run.
          trains: whether it goes on with the training; otherwise only inputs matter.
        """
        flags = run_files.flags_by_name(groups)
        if not self.flags.get("do_train"):
            return
        names = _TRAINING_FLAGS if trains else _INPUT_FLAGS
        for name in sorted(names & flags.keys() & self.flags.keys()):
            if flags[name] != self.flags[name]:
                _log.warning(
                    "--%s=%s, but %s was trained with %s",
                    name,
                    flags[name],
                    self.checkpoint,
                    self.flags[name],
                )

    def check_signature(self, signature: str) -> None:
        """Compares what was trained.

        Raises:
          errors.UserError: something other than ``signature``.
        """
        trained = self.state.get("kind", signature)
        if trained != signature:
            raise errors.UserError(
                f"{self.checkpoint} was trained with {trained}, not {signature}; give {trained}, "
                "or another --output_dir"
            )

    def warn_if_text_rules_differ(self, text: options.TokenizerOptions) -> None:
        """Names flags by which texts become other tokens than those the model was trained on."""
        if "do_lower_case" not in self.flags:  # pre-training reads no text
            return
        names = ("do_lower_case", "strip_accents")
        rules = zip(names, _text_rules(vars(text)), _text_rules(self.flags), strict=True)
        for name, used, trained in rules:
            if used != trained:
                _log.warning(
                    "--%s=%s, but %s was trained with %s (%s)",
                    name,
                    str(used).lower(),
                    self.checkpoint,
                    str(trained).lower(),
                    self.flags_path,
                )


def _read_state(checkpoint: str) -> Mapping[str, Any]:
    """What lies in <checkpoint>.state.json, with values that can be used."""
    state = manager.read_state(checkpoint)
    for key, (kind, expected) in _STATE_VALUES.items():
        value = state.get(key)
        is_negative = isinstance(value, int | float) and not 0 <= value < 2**63
        if key in state and (type(value) not in kind or is_negative):
            raise errors.UserError(
                f"{checkpoint}.state.json: damaged: {key} is {value!r:.40}, expected {expected}; "
                "restore the file, or delete it: training then goes on from global_step x "
                "--train_batch_size examples"
            )
    if state.get("attention", modeling.ATTENTION_KINDS[0]) not in modeling.ATTENTION_KINDS:
        raise errors.UserError(
            f"{checkpoint}.state.json: damaged: attention is {state['attention']!r:.40}, expected "
            f"{' or '.join(modeling.ATTENTION_KINDS)}; restore the file"
        )
    return state


def _meaning(key: str, value: Any) -> Any:
    """What a value of a config computes; None for an activation that is not known here."""
    if key != "hidden_act":
        return value
    try:
        return functions.activation(value)
    except errors.UserError:
        return None


def _text_rules(flags: Mapping[str, Any]) -> tuple[Any, Any]:
    """Whether texts are lower-cased, and whether they lose accents."""
    lower, strip = flags["do_lower_case"], flags.get("strip_accents")
    return lower, lower if strip is None else strip


# --------------------------------------------------------------------------------------------------
# Task heads
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Head:
    """The task head of a run, to be compared with those of checkpoints.

    Attributes:
      task: name of the task; saved with checkpoints.
      signature: what the outputs mean, such as "labels 0, 1"; saved with checkpoints.
      num_outputs: number of outputs.
      kind: --head.
      attention: of the encoder that the head is trained on.
      variable: name of the output weights, of shape [num_outputs, H].
      labels: names of the outputs; empty where they have none.
    """

    task: str
    signature: str
    num_outputs: int
    kind: str
    attention: str
    variable: str = "output_weights"
    labels: tuple[str, ...] = ()

    def mismatch(self, checkpoint: tf_checkpoint.NamedArrays, origin: Origin) -> str:
        """Why a checkpoint with a head is not of this one, and the cure; empty if it is."""
        trained = origin.state.get("kind") or self._signature_of(origin) or self.signature
        if trained != self.signature:
            path = f" ({origin.labels_source})" if self._signature_of(origin) else ""
            flag = _SIGNATURE_FLAGS.get(trained.split(" ")[0], "")
            return (
                f"was trained with {_short(trained)}, not {_short(self.signature)}; give {flag}the "
                f"task and the labels{path} it was trained with"
            )
        num_outputs = checkpoint.shapes[self.variable][0]
        if num_outputs != self.num_outputs:
            return (
                f"has a head of {num_outputs} outputs, and the task {self.num_outputs} "
                f"({_short(self.signature)}); give the task and the labels it was trained with"
            )
        has_lstm = any(name.startswith("bilstm/") for name in checkpoint.shapes)
        kind = "bilstm" if has_lstm else "linear"
        if kind != self.kind:
            return f"was trained with --head={kind}, not --head={self.kind}; give --head={kind}"
        attention = origin.state.get("attention", self.attention)
        if attention != self.attention:
            return (
                f"was trained with attention {attention}, not {self.attention}; evaluate it by a "
                "run without --do_train"
            )
        return ""

    def _signature_of(self, origin: Origin) -> str:
        """The signature that the labels beside a checkpoint tell; empty if there are none.

        Labels by Hugging Face in another order, or in another case, are those of this head: its
        rows will be put in order.
        """
        if not self.labels or not origin.labels:
            return ""
        several = self.signature.partition("labels ")[0]
        labels = origin.labels
        if not origin.labels_path:
            task = origin.config.get("problem_type")
            if task:
                several = "multi-label " if task == "multi_label_classification" else ""
            names = {label.casefold(): label for label in self.labels}
            labels = [names.get(label.casefold(), label) for label in labels]
            if sorted(labels) == sorted(self.labels):
                labels = list(self.labels)
        return f"{several}labels {label_files.label_signature(labels)}"

    def warn_if_labels_are_unknown(self, checkpoint: str, origin: Origin) -> None:
        """Says which labels the outputs of a checkpoint are taken for, if nothing tells."""
        if self.labels and not (origin.labels or "kind" in origin.state):
            _log.warning(
                "%s: nothing beside it names its labels; they are taken to be %s, in this order",
                checkpoint,
                _short(", ".join(self.labels)),
            )


def _short(text: str) -> str:
    return text if len(text) <= 80 else f"{text[:80]}…"


def check_head(
    head: Head,
    init_checkpoint: str,
    tuning: options.FineTuningOptions,
    run: options.RunOptions,
) -> None:
    """Compares the head of a run with those of the checkpoints it begins with or evaluates.

    Training may begin with a pre-trained encoder without a head. Checkpoints that 'best' and 'all'
    mean are the run's own; they are checked when they are restored.

    Raises:
      errors.UserError: one of them has another head, or none though one is needed.
    """
    newest = manager.latest(run.output_dir)
    named = run.named_checkpoint
    if named:
        checkpoint = restore.open_checkpoint(named, "--eval_checkpoint")
        _require_head(head, checkpoint, "another --eval_checkpoint")
    if newest and (tuning.do_train or not named):
        checkpoint = tf_checkpoint.Checkpoint(newest)
        origin = _require_head(head, checkpoint, "another --output_dir", resumes=tuning.do_train)
        task = origin.state.get("task", head.task)
        if tuning.do_train and task != head.task:
            raise errors.UserError(
                f"{newest} was trained with --task_name={task}, not {head.task}; give another "
                "--output_dir (to start from its weights: with it as --init_checkpoint)"
            )
    elif init_checkpoint and tuning.do_train and not tuning.new_head:
        initial = restore.open_checkpoint(init_checkpoint)
        if head.variable in initial.shapes:
            _require_head(head, initial, "--new_head to start with random outputs")
    elif init_checkpoint and not (tuning.do_train or named):
        _require_head(head, restore.open_checkpoint(init_checkpoint), "another --init_checkpoint")


def _require_head(
    head: Head, checkpoint: tf_checkpoint.NamedArrays, alternative: str, *, resumes: bool = False
) -> Origin:
    """Raises where a checkpoint does not have the head; ``alternative`` is the other cure."""
    origin = Origin.read(checkpoint.path)
    if not any(name.startswith("bert/") for name in checkpoint.shapes):
        return origin  # restoring reports this more precisely
    if head.variable not in checkpoint.shapes:
        raise errors.UserError(
            f"{checkpoint.path} has no {head.variable}: "
            + (
                "training cannot go on from it; give it as --init_checkpoint, with another "
                "--output_dir"
                if resumes
                else "the results would be those of an untrained head; train first (--do_train)"
            )
        )
    if mismatch := head.mismatch(checkpoint, origin):
        raise errors.UserError(f"{checkpoint.path} {mismatch}, or {alternative}")
    head.warn_if_labels_are_unknown(checkpoint.path, origin)
    return origin
