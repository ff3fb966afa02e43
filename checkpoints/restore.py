"""The checkpoints of a directory: save, rotate, find, open, restore.

A directory has checkpoints ``model.ckpt-<step>`` (their files: ``checkpoint_files``) and a text
file ``checkpoint`` that lists the complete ones, newest last, as TF 1.x writes and reads it.

One order of writing makes every moment of a save a good moment to be killed::

    state.json -> data -> index (renamed into place) -> `checkpoint` (renamed) -> delete older ones

All paths go through ``tf.io.gfile``, so ``gs://`` works. Only the chief of several workers writes.
"""

from __future__ import annotations

import dataclasses
import logging
import os
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from checkpoints import file_names, hugging_face, manager, matching, tf_checkpoint
from command_line import errors

if TYPE_CHECKING:
    import tensorflow as tf


_log = logging.getLogger(__name__)


# --------------------------------------------------------------------------------------------------
# Opening what a flag names
# --------------------------------------------------------------------------------------------------


def resolve(path: str, flag: str = "--init_checkpoint") -> tf_checkpoint.NamedArrays:
    """Opens whatever names a checkpoint.

    Args:
      path: a prefix; any file of the checkpoint; a directory (its ``checkpoint`` file, else its
        only ``*.index``, else its only ``*.safetensors``) or the ``checkpoint`` file in it; or a
        ``.safetensors`` file of a Hugging Face BERT.
      flag: the flag the path came from, for messages.

    Returns:
      The open file: path, shapes, dtypes and ``read``.

    Raises:
      errors.UserError: nothing there (names what is), several candidates, or a damaged file.
    """
    import tensorflow as tf

    path = os.fspath(path)
    there, isdir = tf.io.gfile.exists, tf.io.gfile.isdir
    prefix = re.sub(rf"{file_names.PART}$", "", path)
    try:
        if path.endswith(".safetensors") and there(path):
            return hugging_face.HuggingFaceWeights(path)
        if there(f"{prefix}.index"):
            return tf_checkpoint.Checkpoint(prefix)
        if isdir(path):
            return _resolve_directory(path)
        if os.path.basename(path) == manager.LISTING and there(path):
            return _resolve_directory(os.path.dirname(path) or ".")
        if prefix != path and there(path) and not there(prefix):
            raise errors.UserError(f"{prefix}.index is missing beside it")
        if there(prefix):
            return tf_checkpoint.Checkpoint(prefix)
        raise errors.UserError(f"not found{_neighbours(path)}")
    except errors.UserError as error:
        raise errors.UserError(f"{flag}={path}: {error}") from None


def starting_checkpoint(init_checkpoint: str, output_dir: str, eval_checkpoint: str = "") -> str:
    """The checkpoint that a run begins with or uses; "" where there is none.

    Args:
      init_checkpoint: of the flag; several, comma separated, are not known here.
      output_dir: its newest checkpoint comes before the initial one.
      eval_checkpoint: that --eval_checkpoint names in a run that does not train; comes before both.

    Raises:
      errors.UserError: a checkpoint that is named is not there, or damaged.
    """
    if eval_checkpoint:
        return resolve(eval_checkpoint, "--eval_checkpoint").path
    newest = manager.latest(output_dir)
    if newest or not init_checkpoint:
        return newest or ""
    return resolve(init_checkpoint).path


def _resolve_directory(directory: str) -> tf_checkpoint.NamedArrays:
    import tensorflow as tf

    newest = manager.latest(directory)
    if newest:
        return tf_checkpoint.Checkpoint(newest)
    names = sorted(tf.io.gfile.listdir(directory))
    for ending in (".index", ".safetensors"):
        found = [os.path.join(directory, name) for name in names if name.endswith(ending)]
        if len(found) > 1:
            shown = errors.some(name.removesuffix(".index") for name in found)
            raise errors.UserError(f"the directory has {len(found)} checkpoints, name one: {shown}")
        if found and ending == ".index":
            return tf_checkpoint.Checkpoint(found[0].removesuffix(ending))
        if found:
            return hugging_face.HuggingFaceWeights(found[0])
    raise errors.UserError(
        "the directory has no checkpoint: looked for a file `checkpoint`, *.index and "
        f"*.safetensors, found {errors.some(names) or 'nothing'}"
    )


def _neighbours(path: str) -> str:
    """What stands where ``path`` does not: similar names, or all checkpoints there."""
    import tensorflow as tf

    directory, base = os.path.split(path.rstrip("/"))
    directory = directory or "."
    if not tf.io.gfile.isdir(directory):
        return f", and there is no directory {directory}"
    names = [name.rstrip("/") for name in tf.io.gfile.listdir(directory)]
    known = [name.removesuffix(".index") for name in names if name.endswith(".index")]
    known += [name for name in names if name.endswith(".safetensors")]
    known += [name for name in names if tf.io.gfile.isdir(os.path.join(directory, name))]
    if not known:
        return f", and no checkpoint is in {directory}"
    near = errors.suggest(base, known)
    return near or f"; {directory} has {errors.some(sorted(known))}"


# --------------------------------------------------------------------------------------------------
# Restoring
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class Report:
    """What became of each name.

    Attributes:
      loaded: variables that got the file's values.
      missing: variables the file lacks, which keep their initial (random) values.
      ignored: names in the file that were not asked for.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


def restore(
    variables: Mapping[str, tf.Variable],
    checkpoint: tf_checkpoint.NamedArrays,
    *,
    what: str = "--init_checkpoint",
    each_variable: bool = True,
) -> Report:
    """Gives variables the values of a pre-trained or fine-tuned model, and says which got none.

    Call it in cross-replica context, where ``assign`` reaches every copy of a variable.

    Args:
      variables: checkpoint name -> variable. Optimizer slots and ``global_step`` are read only when
        they are among these.
      checkpoint: what ``resolve`` returned.
      what: the flag, for messages.
      each_variable: log a line for every trainable variable, not the summary alone.

    Raises:
      errors.UserError: none of the ``bert/`` variables is in the file, or a shape differs. Nothing
        has been read or assigned then.
    """
    source = f"{what}={checkpoint.path}"
    names = [*checkpoint.shapes, *checkpoint.ignored]
    matching.require_encoder(variables, names, source)
    different = matching.difference(_shapes(variables), checkpoint.shapes)
    if different:
        raise errors.UserError(f"{source}: {different}")
    report = Report(
        tuple(name for name in variables if name in checkpoint.shapes),
        tuple(name for name in variables if name not in checkpoint.shapes),
        (*(name for name in checkpoint.shapes if name not in variables), *checkpoint.ignored),
    )
    _assign(variables, checkpoint, report.loaded)
    if each_variable:
        _log_variables(variables, set(report.loaded))
    _log_report(report, source)
    matching.warn_about_encoder(report.missing, report.ignored, source)
    return report


def _log_variables(variables: Mapping[str, tf.Variable], loaded: set[str]) -> None:
    for name, variable in variables.items():
        if variable.trainable:
            mark = ", *INIT_FROM_CKPT*" if name in loaded else ""
            _log.info("%s, shape = %s%s", name, tuple(variable.shape), mark)


def _log_report(report: Report, source: str) -> None:
    missing = errors.some(report.missing)
    # Slots are in every checkpoint of a training run; their names would hide the others.
    ignored = matching.weights_only(report.ignored)
    others = len(report.ignored) - len(ignored)
    _log.info(
        "%s: loaded %d, missing (random) %d%s, ignored %d%s%s",
        source,
        len(report.loaded),
        len(report.missing),
        f" ({missing})" if missing else "",
        len(ignored),
        f" ({errors.some(ignored)})" if ignored else "",
        f" and {others} of the optimizer" if others else "",
    )


def restore_all(variables: Mapping[str, tf.Variable], prefix: str) -> None:
    """Gives every variable its value of a checkpoint that this model wrote, to resume or evaluate.

    Args:
      variables: checkpoint name -> variable; to resume, slots and ``global_step`` too.
      prefix: what ``latest`` returned.

    Raises:
      errors.UserError: the checkpoint is of another model, has no optimizer state though that is
        asked for, or is damaged (names the newest intact one).
    """
    checkpoint = _open_own(prefix)
    why = matching.foreign_model_reason(_shapes(variables), checkpoint.shapes)
    if why:
        raise errors.UserError(
            f"{prefix} was written by another model: {why}; give the --bert_config_file and flags "
            "it was trained with, or another --output_dir"
        )
    missing = [name for name in variables if name not in checkpoint.shapes]
    if missing:
        has_state = any(name.endswith("/adam_m") for name in checkpoint.shapes)
        frozen = "the --freeze_layers it was trained with, or " if has_state else ""
        raise errors.UserError(
            f"{prefix} has no optimizer state ({errors.some(missing)}), so training "
            f"cannot resume from it; give {frozen}it as --init_checkpoint, with another "
            "--output_dir"
        )
    try:
        _assign(variables, checkpoint, variables)
    except errors.UserError as error:
        raise errors.UserError(f"{error}{manager.recovery_hint(prefix)}") from None
    _log.info("restored %d variables from %s", len(variables), prefix)


def _open_own(prefix: str) -> tf_checkpoint.Checkpoint:
    try:
        return tf_checkpoint.Checkpoint(prefix)
    except errors.UserError as error:
        raise errors.UserError(f"{error}{manager.recovery_hint(prefix)}") from None


def _assign(
    variables: Mapping[str, tf.Variable],
    checkpoint: tf_checkpoint.NamedArrays,
    names: Iterable[str],
) -> None:
    for name in names:  # one by one, so that a large model is not held twice
        variable = variables[name]
        value = checkpoint.read([name])[name]
        variable.assign(value.astype(variable.dtype.as_numpy_dtype, copy=False))


def _shapes(variables: Mapping[str, tf.Variable]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(variable.shape) for name, variable in variables.items()}
