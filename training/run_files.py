"""What a run leaves beside its checkpoints: eval_results.txt and run.json."""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from system import atomic_files

_log = logging.getLogger(__name__)

_OF_TRAINING = {
    "answer_policy", "bert_config_file", "data_dir", "doc_stride", "freeze_layers", "input_file",
    "label_column", "learning_rate", "max_predictions_per_seq", "max_query_length",
    "max_seq_length", "num_train_epochs", "num_train_steps", "num_warmup_steps", "random_seed",
    "text_a_column", "text_b_column", "train_batch_size", "train_file",
    "version_2_with_negative", "vocab_file", "warmup_proportion", "whole_answer_windows_only",
}  # fmt: skip


def format_results(results: Mapping[str, float]) -> str:
    """``loss = 2.31, masked_lm_accuracy = 0.53``, for a log line."""
    return ", ".join(f"{name} = {format_value(value)}" for name, value in sorted(results.items()))


def format_value(value: float) -> str:
    """A result as text: whole numbers as they are, others with the digits of a float32."""
    if isinstance(value, int):
        return str(value)
    with np.errstate(over="ignore"):  # what a float32 cannot hold is shown as inf
        return str(np.float32(value))


def write_results(path: str, results: Mapping[str, float]) -> None:
    """Writes eval_results.txt: one ``key = value`` line each, keys sorted."""
    text = "".join(f"{name} = {format_value(value)}\n" for name, value in sorted(results.items()))
    atomic_files.write_text(path, text)


def write_run_description(
    directory: str, devices: Sequence[str], groups: Sequence[Any], config: str
) -> None:
    """Writes what the newest run was, and the config that belongs to the checkpoints.

    Flags that change what is trained are compared with those of the run before, which this one goes
    on from; a warning names the ones that differ.

    Args:
      directory: made where it is missing; gets run.json and bert_config.json.
      devices: their names.
      groups: the resolved flags.
      config: text of the second file.
    """
    flags = {key: value for group in groups for key, value in vars(group).items()}
    path = os.path.join(directory, "run.json")
    before = flags_of(directory)
    if before.get("do_train"):
        for name in sorted(_OF_TRAINING & flags.keys() & before.keys()):
            if flags[name] != before[name]:
                _log.warning("going on with --%s=%s; it was %s", name, flags[name], before[name])
    description = {
        "flags": flags,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tensorflow": tf.__version__,
        "devices": list(devices),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    tf.io.gfile.makedirs(directory)
    text = json.dumps(description, indent=2, sort_keys=True) + "\n"
    atomic_files.write_text(path, text)
    atomic_files.write_text(os.path.join(directory, "bert_config.json"), config)


def read_object(path: str) -> dict[str, Any]:
    """The object in a JSON file that need not be there; empty where it is missing or damaged."""
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path, "rb") as file:
        data = file.read()
    try:
        found = json.loads(data)
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def flags_of(directory: str) -> dict[str, Any]:
    """The flags in the run.json of a directory; none where it is missing or damaged."""
    flags = read_object(os.path.join(directory, "run.json")).get("flags")
    return flags if isinstance(flags, dict) else {}
