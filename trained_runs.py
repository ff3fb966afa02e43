"""What the run that made a checkpoint left beside it, against what this run is given.

Only what shapes cannot tell: another number of heads or another activation fits the same weights,
and computes something else.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from typing import Any

import checkpoint_files
import errors
import modeling
import options
import results_files

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
    for directory in checkpoint_files.run_directories([checkpoint]):
        path = os.path.join(directory, "bert_config.json")
        before = results_files.read_object(path)
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
        return modeling.activation(value)
    except errors.UserError:  # such as gelu_new, another name of what is gelu here
        return None


def warn_of_text(text: options.TokenizerOptions, checkpoint: str) -> None:
    """Names flags by which texts become other tokens than those a checkpoint was trained on."""
    for directory in checkpoint_files.run_directories([checkpoint]):
        flags = results_files.flags_of(directory)
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
