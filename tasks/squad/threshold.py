"""The threshold of "no answer" that was tuned for a model, kept for later predictions with it.

The file says which model it is of by a digest of the weights that give the scores, which stays when
a checkpoint is copied or renamed.
"""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from command_line import errors
from system import atomic_files

_log = logging.getLogger(__name__)

# The weights that differ between any two trained models, and are small.
WEIGHTS = ("cls/squad/output_weights", "cls/squad/output_bias")

_FILE = re.compile(r"null_threshold(-\d+)?\.json")


class Threshold(NamedTuple):
    """A threshold and where it comes from.

    Attributes:
      value: of the score of no answer minus that of the best one.
      f1: what it reaches on ``dev_file``.
      dev_file: what it was tuned on.
      step: of the model; 0 for an initial checkpoint and for several models.
      model: ``digest`` of the model.
    """

    value: float
    f1: float
    dev_file: str
    step: int
    model: str


def digest(models: Iterable[Mapping[str, np.ndarray]]) -> str:
    """What tells a model, or several that answer together, from others.

    Args:
      models: the WEIGHTS of each, in any order.
    """
    found = []
    for weights in models:
        state = hashlib.sha256()
        for name in WEIGHTS:
            state.update(np.asarray(weights[name], "<f4").tobytes())
        found.append(state.hexdigest()[:16])
    return ",".join(sorted(found))


def write(path: str, threshold: Threshold) -> None:
    """Keeps a threshold; the folder exists."""
    names = {"value": "null_score_diff_threshold", "step": "global_step"}
    values = {names.get(key, key): value for key, value in threshold._asdict().items()}
    atomic_files.write_text(path, json.dumps(values, indent=2) + "\n")
    _log.info(
        "null_score_diff_threshold %s, with F1 %.3f on %s: %s",
        threshold.value,
        threshold.f1,
        threshold.dev_file,
        path,
    )


def find(directories: Sequence[str], model: str) -> tuple[Threshold, str] | None:
    """The first threshold of a model in some directories, and its file.

    Args:
      directories: any of them may be absent.
      model: its digest.

    Raises:
      errors.UserError: a file is damaged; or there are thresholds, but of other models.
    """
    found = [(_read(path), path) for path in _paths(directories)]
    for threshold, path in found:
        if threshold.model == model:
            return threshold, path
    if found:
        raise errors.UserError(
            f"--null_score_diff_threshold=auto: {found[0][1]} was tuned for another model than the "
            "one that predicts; give a --dev_file to tune it again"
        )
    return None


def _paths(directories: Sequence[str]) -> list[str]:
    found = []
    for directory in dict.fromkeys(directories):
        if tf.io.gfile.isdir(directory):
            names = sorted(tf.io.gfile.listdir(directory))
            found += [os.path.join(directory, name) for name in names if _FILE.fullmatch(name)]
    return found


def _read(path: str) -> Threshold:
    try:
        with tf.io.gfile.GFile(path, "rb") as file:
            values = json.loads(file.read())
        value = values["null_score_diff_threshold"]
        if type(value) is bool or not isinstance(value, int | float) or not math.isfinite(value):
            raise TypeError
        return Threshold(
            float(value),
            float(values["f1"]),
            str(values["dev_file"]),
            int(values["global_step"]),
            str(values["model"]),
        )
    except (KeyError, TypeError, ValueError, RecursionError):
        raise errors.UserError(
            f"{path}: damaged; expected null_score_diff_threshold, a number, and the model it was "
            "tuned for; tune it again with --dev_file"
        ) from None
