"""Whether the names and shapes in a file fit those of a model, and messages that say why not.

Nothing is read or assigned here: ``restore`` checks before it does either.
"""

import logging
import re
from collections.abc import Iterable, Mapping, Sequence

from command_line import errors

_log = logging.getLogger(__name__)

_TRAINING_STATE = re.compile(
    r"global_step|beta[12]_power|.*/adam_[mv]"
    # What lies below the name of a weight is its optimizer's, whichever that was.
    r"|(?:.*/)?(?:kernel|bias|gamma|beta|\w+_embeddings|output_weights|output_bias)/.+"
)
_WORD_EMBEDDINGS = "bert/embeddings/word_embeddings"

Shapes = Mapping[str, tuple[int, ...]]


def weights_only(names: Iterable[str]) -> list[str]:
    """Names without those of an optimizer's slots and counters."""
    return [name for name in names if not _TRAINING_STATE.fullmatch(name)]


def encoder_weights(names: Iterable[str]) -> list[str]:
    """Names of weights of the encoder's layers."""
    return [name for name in weights_only(names) if name.startswith("bert/encoder/")]


def shape_difference(model: Shapes, file: Shapes) -> str:
    """A message with the first shape that differs and the likely flag; empty when none differs."""
    pairs = {
        name: (file[name], shape)
        for name, shape in model.items()
        if name in file and file[name] != shape
    }
    if not pairs:
        return ""
    name, (in_file, in_model) = next(iter(pairs.items()))
    more = f" (and {len(pairs) - 1} more)" if len(pairs) > 1 else ""
    return (
        f"{name} has shape {in_file} in the checkpoint and {in_model} in the model{more}; "
        f"look at {_likely_flag(name, in_file, in_model)}"
    )


def _likely_flag(name: str, in_file: tuple[int, ...], in_model: tuple[int, ...]) -> str:
    name = re.sub(r"/adam_[mv]$", "", name)
    rows_only = len(in_file) == len(in_model) and in_file[1:] == in_model[1:]
    inner = re.search(r"/intermediate/dense/|/layer_\d+/output/dense/kernel$", name)
    if name == "cls/predictions/output_bias" or (name == _WORD_EMBEDDINGS and rows_only):
        return "vocab_size in --bert_config_file: the checkpoint has another vocabulary"
    if name in ("output_weights", "output_bias") and rows_only:
        return "the number of labels: the checkpoint was fine-tuned for another task"
    if name == "bert/embeddings/position_embeddings" and rows_only:
        return "max_position_embeddings in --bert_config_file"
    if name == "bert/embeddings/token_type_embeddings" and rows_only:
        return "type_vocab_size in --bert_config_file"
    key = "hidden_size or intermediate_size" if inner else "hidden_size"
    return f"{key} in --bert_config_file"


def require_encoder(model: Iterable[str], file: Sequence[str], source: str) -> None:
    """Requires that the file has some of the model's ``bert/`` variables.

    Args:
      model: names of the model's variables.
      file: all names in the file.
      source: flag and path, for the message.

    Raises:
      errors.UserError: it has none. Says what kind of file it seems to be.
    """
    encoder = [name for name in model if name.startswith("bert/")]
    if not encoder or not set(encoder).isdisjoint(file):
        return
    prefixed = [name for name in file if name.endswith(f"/{_WORD_EMBEDDINGS}")]
    if any(".ATTRIBUTES/" in name for name in file):
        hint = "it is an object-based TF2 checkpoint, which has no variable names"
    elif prefixed:
        hint = f"its names begin with {prefixed[0].removesuffix(_WORD_EMBEDDINGS)!r}"
    else:
        hint = f"it holds {errors.some(file) or 'nothing'}"
    raise errors.UserError(
        f"{source}: none of the model's {len(encoder)} bert/ variables is in it, all of them would "
        f"be random; {hint}; expected names like {_WORD_EMBEDDINGS}"
    )


def warn_about_encoder(missing: Iterable[str], ignored: Iterable[str], source: str) -> None:
    """Logs which ``bert/`` variables stay random, and which of the file are not in the model."""
    missing, ignored = weights_only(missing), weights_only(ignored)
    pooler = [name for name in missing if name.startswith("bert/pooler/")]
    lacking = [name for name in missing if name.startswith("bert/") and name not in pooler]
    unused = encoder_weights(ignored)
    if pooler:
        _log.warning("%s: it has no pooler (%s), which stays random", source, errors.some(pooler))
    if lacking:
        names = ", ".join(lacking)
        _log.warning(
            "%s: %d encoder variables are missing and stay random: %s", source, len(lacking), names
        )
    if unused:
        _log.warning(
            "%s: %d of its encoder variables are not in the model: %s; is num_hidden_layers "
            "in --bert_config_file right?",
            source,
            len(unused),
            errors.some(unused),
        )


def untrained_reason(model: Shapes, trained: Iterable[str], file: Shapes) -> str:
    """Why results with a checkpoint would not be those of a trained model; empty if they would be.

    Args:
      model: all variables of the model.
      trained: names of those that training changes. The others may be missing in the file, such as
        a pooler that no output depends on, but not layers of the encoder.
      file: all weights of the checkpoint.
    """
    different = shape_difference(model, file)
    if different:
        return different
    surplus = encoder_weights(name for name in file if name not in model)
    lacking = encoder_weights(name for name in model if name not in file)
    if surplus or lacking:
        what = f"also has {errors.some(surplus)}" if surplus else f"lacks {errors.some(lacking)}"
        return f"it {what}; look at num_hidden_layers in --bert_config_file"
    untrained = [name for name in trained if name not in file]
    if untrained:
        return (
            f"it lacks {errors.some(untrained)}: the results would be those of an untrained head; "
            "train first (--do_train)"
        )
    return ""


def foreign_model_reason(model: Shapes, file: Shapes) -> str:
    """Why a checkpoint was not written by this model; empty when it may have been.

    The file must have every weight in its shape and no other ``bert/`` weight; it may have other
    heads.
    """
    different = shape_difference(model, file)
    lacking = [name for name in weights_only(model) if name not in file]
    surplus = [n for n in weights_only(file) if n.startswith("bert/") and n not in model]
    if different or not (lacking or surplus):
        return different
    return f"it lacks {errors.some(lacking)}" if lacking else f"it also has {errors.some(surplus)}"
