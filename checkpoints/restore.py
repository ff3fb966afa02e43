"""From a path to the values of variables: open what a flag names, load it, report differences."""

import dataclasses
import logging
import os
import re
from collections.abc import Mapping

import tensorflow as tf

from checkpoints import file_names, hugging_face, manager, matching, tf_checkpoint
from command_line import errors
from system import inputs

_log = logging.getLogger(__name__)


def open_checkpoint(path: str, flag: str = "--init_checkpoint") -> tf_checkpoint.NamedArrays:
    """Opens the checkpoint that a path names.

    Args:
      path: a prefix; any file of the checkpoint; a directory (its ``checkpoint`` file, else its
        only ``*.index``, else its only ``*.safetensors``) or the ``checkpoint`` file in it; or a
        ``.safetensors`` file of a Hugging Face BERT.
      flag: the flag the path came from, for messages.

    Returns:
      The open file: path, shapes, dtypes and ``read``.

    Raises:
      errors.UserError: not found (with suggestions), several candidates, or a damaged file.
    """
    path = os.fspath(path)
    exists, isdir = tf.io.gfile.exists, tf.io.gfile.isdir
    prefix = re.sub(rf"{file_names.PART}$", "", path)
    try:
        if path.endswith(".safetensors") and exists(path):
            return hugging_face.HuggingFaceWeights(path)
        if exists(f"{prefix}.index"):
            return tf_checkpoint.Checkpoint(prefix)
        if isdir(path):
            return _resolve_directory(path)
        if os.path.basename(path) == manager.LISTING and exists(path):
            return _resolve_directory(os.path.dirname(path) or ".")
        if prefix != path and exists(path) and not exists(prefix):
            raise errors.UserError(f"{prefix}.index is missing beside it")
        if exists(prefix):
            if (kind := inputs.how_packed(prefix)).startswith("compressed"):
                raise errors.UserError(kind)
            return tf_checkpoint.Checkpoint(prefix)
        raise errors.UserError(f"not found{_suggest(path)}")
    except errors.UserError as error:
        raise errors.UserError(f"{flag}={path}: {error}") from None


def starting_checkpoint(init_checkpoint: str, output_dir: str, eval_checkpoint: str = "") -> str:
    """The checkpoint whose weights a run starts from or uses; "" where there is none.

    Args:
      init_checkpoint: --init_checkpoint; one path.
      output_dir: its newest checkpoint takes precedence over ``init_checkpoint``.
      eval_checkpoint: --eval_checkpoint of a run that does not train; takes precedence over both.

    Raises:
      errors.UserError: the checkpoint does not exist or is damaged.
    """
    if eval_checkpoint:
        return open_checkpoint(eval_checkpoint, "--eval_checkpoint").path
    newest = manager.latest(output_dir)
    if newest or not init_checkpoint:
        return newest or ""
    return open_checkpoint(init_checkpoint).path


def _resolve_directory(directory: str) -> tf_checkpoint.NamedArrays:
    if manager.lists_elsewhere(directory):
        _log.warning(
            "%s: names no checkpoint that exists, perhaps one of another machine; looking for "
            "others in the directory",
            os.path.join(directory, manager.LISTING),
        )
    elif newest := manager.latest(directory):
        return tf_checkpoint.Checkpoint(newest)
    names = sorted(tf.io.gfile.listdir(directory))
    for ending in (".index", ".safetensors"):
        paths = [os.path.join(directory, name) for name in names if name.endswith(ending)]
        if len(paths) > 1:
            prefixes = errors.some(path.removesuffix(".index") for path in paths)
            raise errors.UserError(
                f"the directory has {len(paths)} checkpoints, name one: {prefixes}"
            )
        if paths and ending == ".index":
            return tf_checkpoint.Checkpoint(paths[0].removesuffix(ending))
        if paths:
            return hugging_face.HuggingFaceWeights(paths[0])
    raise errors.UserError(
        "the directory has no checkpoint: looked for a file `checkpoint`, *.index and "
        f"*.safetensors, found {errors.some(names) or 'nothing'}"
    )


def _suggest(path: str) -> str:
    """Similar names beside a path that does not exist, or all checkpoints there."""
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
    return errors.suggest(base, known) or f"; {directory} has {errors.some(sorted(known))}"


@dataclasses.dataclass(frozen=True)
class Report:
    """Which names were loaded, and which not.

    Attributes:
      loaded: variables that got the file's values.
      missing: variables the file lacks, which keep their initial (random) values.
      ignored: names in the file that no variable has.
    """

    loaded: tuple[str, ...]
    missing: tuple[str, ...]
    ignored: tuple[str, ...]


def load_matching(
    variables: Mapping[str, tf.Variable],
    checkpoint: tf_checkpoint.NamedArrays,
    *,
    flag: str = "--init_checkpoint",
    log_variables: bool = True,
) -> Report:
    """Loads the variables that a checkpoint has; the others keep their values and are reported.

    Call it in cross-replica context, where ``assign`` reaches every copy of a variable.

    Args:
      variables: checkpoint name -> variable. Optimizer slots and ``global_step`` are read only when
        they are among these.
      checkpoint: from ``open_checkpoint``.
      flag: the flag that named it, for messages.
      log_variables: log a line for every trainable variable besides the summary.

    Raises:
      errors.UserError: none of the ``bert/`` variables is in the file, or a shape differs; raised
        before any value is read or assigned.
    """
    source = f"{flag}={checkpoint.path}"
    names = [*checkpoint.shapes, *checkpoint.ignored]
    matching.require_encoder(variables, names, source)
    different = matching.shape_difference(_shapes(variables), checkpoint.shapes)
    if different:
        raise errors.UserError(f"{source}: {different}")
    report = Report(
        tuple(name for name in variables if name in checkpoint.shapes),
        tuple(name for name in variables if name not in checkpoint.shapes),
        (*(name for name in checkpoint.shapes if name not in variables), *checkpoint.ignored),
    )
    _assign({name: variables[name] for name in report.loaded}, checkpoint)
    if log_variables:
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


def load_all(variables: Mapping[str, tf.Variable], prefix: str) -> None:
    """Loads every variable from a checkpoint that the same model wrote, to resume or evaluate.

    Args:
      variables: checkpoint name -> variable; to resume, slots and ``global_step`` too.
      prefix: from ``manager.latest``.

    Raises:
      errors.UserError: the checkpoint is of another model, lacks optimizer state that ``variables``
        has, or is damaged (names the newest intact one).
    """
    with manager.recovery_hint(prefix):
        checkpoint = tf_checkpoint.Checkpoint(prefix)
    reason = matching.foreign_model_reason(_shapes(variables), checkpoint.shapes)
    if reason:
        raise errors.UserError(
            f"{prefix} was written by another model: {reason}; give the --bert_config_file and "
            "flags it was trained with, or another --output_dir"
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
    with manager.recovery_hint(prefix):
        _assign(variables, checkpoint)
    _log.info("restored %d variables from %s", len(variables), prefix)


def _assign(variables: Mapping[str, tf.Variable], checkpoint: tf_checkpoint.NamedArrays) -> None:
    # One by one, so that memory never holds a large model twice.
    for name, variable in variables.items():
        value = checkpoint.read([name])[name]
        variable.assign(value.astype(variable.dtype.as_numpy_dtype, copy=False))


def _shapes(variables: Mapping[str, tf.Variable]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(variable.shape) for name, variable in variables.items()}
