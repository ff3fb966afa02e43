"""What a run leaves beside its checkpoints: eval_results.txt, evaluation.json and run.json."""

import json
import os
import platform
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from command_line import errors
from system import atomic_files, json_files


def format_results(results: Mapping[str, float]) -> str:
    """``loss = 2.31, masked_lm_accuracy = 0.53``, for a log line."""
    return ", ".join(f"{name} = {format_value(value)}" for name, value in sorted(results.items()))


def format_value(value: float | str) -> str:
    """A result as text: whole numbers as they are, others with the digits of a float32."""
    if isinstance(value, int | str):
        return str(value)
    with np.errstate(over="ignore"):  # what a float32 cannot hold is shown as inf
        return str(np.float32(value))


def write_results(path: str, results: Mapping[str, float]) -> None:
    """Writes eval_results.txt: one ``key = value`` line each, keys sorted."""
    text = "".join(f"{name} = {format_value(value)}\n" for name, value in sorted(results.items()))
    atomic_files.write_text(path, text)


def note_evaluation(directory: str, name: str, checkpoint: str, flags: Mapping[str, Any]) -> None:
    """Notes in evaluation.json how <name>.txt was made; notes about other files stay."""
    path = os.path.join(directory, "evaluation.json")
    notes = {**read_object(path), name: {"checkpoint": checkpoint, "flags": dict(flags)}}
    atomic_files.write_text(path, json.dumps(notes, indent=2, sort_keys=True) + "\n")


def flags_by_name(groups: Iterable[Any]) -> dict[str, Any]:
    """The values of all flags of some groups."""
    return {key: value for group in groups for key, value in vars(group).items()}


def write_run_description(
    directory: str, devices: Sequence[str], groups: Iterable[Any], config: str
) -> None:
    """Writes run.json, what the newest run was, and ``config`` as bert_config.json.

    The directory is made where it is missing; ``devices`` has the names of the devices, ``groups``
    the resolved flags.
    """
    description = {
        "flags": flags_by_name(groups),
        "python": platform.python_version(),
        "numpy": np.__version__,
        "tensorflow": tf.__version__,
        "devices": list(devices),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    tf.io.gfile.makedirs(directory)
    text = json.dumps(description, indent=2, sort_keys=True) + "\n"
    atomic_files.write_text(os.path.join(directory, "run.json"), text)
    atomic_files.write_text(os.path.join(directory, "bert_config.json"), config)


def read_object(path: str) -> dict[str, Any]:
    """The object in a JSON file of an earlier run; empty where it is missing or damaged."""
    try:
        return json_files.read_object(path) or {}
    except errors.UserError:
        return {}
