"""The threshold of "no answer" that was tuned for a model, kept for later predictions with it.

The file says which model it is of by a digest of the weights that give the scores, which stays when
a checkpoint is copied or renamed.
"""

import contextlib
import hashlib
import json
import logging
import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from command_line import errors
from system import atomic_files, json_files

_log = logging.getLogger(__name__)

# The weights that differ between any two trained models, and are small.
WEIGHTS = ("cls/squad/output_weights", "cls/squad/output_bias")

_CURE = "tune it again with --dev_file"

_FILE = re.compile(r"null_threshold(-\d+)?\.json")


def digest(models: Iterable[Mapping[str, np.ndarray]]) -> str:
    """Identifies a model, or several that answer together, by the WEIGHTS of each in any order."""
    digests = []
    for weights in models:
        values = (np.asarray(weights[name], "<f4").tobytes() for name in WEIGHTS)
        digests.append(hashlib.sha256(b"".join(values)).hexdigest()[:16])
    return ",".join(sorted(digests))


def write(path: str, threshold: float, *, f1: float, dev_file: str, step: int, model: str) -> None:
    """Writes a threshold to a file in an existing folder.

    Args:
      path: the file.
      threshold: of the score of no answer minus that of the best one.
      f1: what it reaches on ``dev_file``, which it was tuned on.
      step: of the model; 0 for an initial checkpoint and for several models.
      model: ``digest`` of the model.
    """
    values = {"null_score_diff_threshold": threshold, "f1": f1, "dev_file": dev_file}
    values |= {"global_step": step, "model": model}
    atomic_files.write_text(path, json.dumps(values, indent=2) + "\n")
    log = "null_score_diff_threshold %s, with F1 %.3f on %s: %s"
    _log.info(log, threshold, f1, dev_file, path)


def find(directories: Sequence[str], model: str) -> tuple[float, str] | None:
    """The first threshold of a model in some directories, which may be absent, and its file.

    Raises:
      errors.UserError: a file is damaged; or there are thresholds, but of other models.
    """
    paths = []
    for directory in filter(tf.io.gfile.isdir, dict.fromkeys(directories)):
        names = sorted(filter(_FILE.fullmatch, tf.io.gfile.listdir(directory)))
        paths += [os.path.join(directory, name) for name in names]
    thresholds = [(*_read(path), path) for path in paths]
    for threshold, owner, path in thresholds:
        if owner == model:
            return threshold, path
    if paths:
        raise errors.UserError(
            f"--null_score_diff_threshold=auto: {paths[0]} was tuned for another model than the "
            "one that predicts; give a --dev_file to tune it again"
        )
    return None


def _read(path: str) -> tuple[float, str]:
    """The threshold in a file, and the digest of its model."""
    values = json_files.read_object(path, _CURE) or {}
    value: Any = values.get("null_score_diff_threshold")
    model = values.get("model")
    if type(value) in (int, float) and isinstance(model, str):
        with contextlib.suppress(OverflowError):
            if math.isfinite(threshold := float(value)):
                return threshold, model
    raise errors.UserError(
        f"{path}: damaged; expected null_score_diff_threshold, a number, and the model it was "
        f"tuned for; {_CURE}"
    )
