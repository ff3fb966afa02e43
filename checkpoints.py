"""The checkpoints of a directory: save, rotate, find, open, restore.

A directory has checkpoints ``model.ckpt-<step>`` (their files: ``checkpoint_files``) and a text
file ``checkpoint`` that lists the complete ones, newest last, as TF 1.x writes and reads it.

One order of writing makes every moment of a save a good moment to be killed::

    state.json -> data -> index (renamed into place) -> `checkpoint` (renamed) -> delete older ones

All paths go through ``tf.io.gfile``, so ``gs://`` works. Only the chief of several workers writes.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import checkpoint_files
import errors
import safetensors_weights
import weight_matching

if TYPE_CHECKING:
    import tensorflow as tf

_log = logging.getLogger(__name__)

_LISTING = "checkpoint"
# Marks the copy of a checkpoint whose step is written again; a checkpoint like any other.
_ASIDE = "-replaced"
_OURS = rf"model\.ckpt-\d+(?:{_ASIDE})?"


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------


def save(
    directory: str,
    step: int,
    tensors: Mapping[str, Any],
    *,
    keep: int = 5,
    state: Mapping[str, Any] | None = None,
) -> str:
    """Writes ``<directory>/model.ckpt-<step>``, lists it as the newest and deletes the oldest.

    Args:
      directory: made when it does not exist.
      step: the optimizer step the values belong to.
      tensors: checkpoint name -> tensor, variable (also of a tf.distribute strategy, of which the
        primary copy is written), NumPy array or Python number (an int is stored as int64).
      keep: newest checkpoints that stay, 0 for all.
      state: small JSON values to keep with the checkpoint; ``read_state`` returns them.

    Returns:
      The prefix of the new checkpoint.

    Raises:
      errors.UserError: the file system refused (no space, no right). What was listed is untouched.
    """
    import tensorflow as tf

    directory = os.fspath(directory)
    checkpoint_files.check_path(directory)
    note = None if state is None else json.dumps(dict(state), indent=1, sort_keys=True) + "\n"
    prefix = os.path.join(directory, f"model.ckpt-{int(step)}")
    entries: list[_Listed] = []
    try:
        tf.io.gfile.makedirs(directory)
        entries = [
            item for item in _read_listing(directory) if checkpoint_files.exists(item.prefix)
        ]
        if any(item.prefix == prefix for item in entries):
            entries = _set_aside(directory, prefix, entries)
        checkpoint_files.write(prefix, tensors, note)
        kept = [item for item in entries if item.prefix != prefix + _ASIDE]
        kept = [*kept, _Listed(prefix, time.time())][-keep:]  # [-0:] is all of them
        _write_listing(directory, kept)
        for item in entries:
            if item not in kept and _inside(directory, item.prefix):
                checkpoint_files.remove(item.prefix)
    except (tf.errors.OpError, OSError) as error:
        last = f"the last good one is {entries[-1].prefix}" if entries else "there is no older one"
        raise errors.UserError(
            f"{prefix}: the checkpoint cannot be written: {checkpoint_files.reason(error)}; "
            f"{last}; make room (or get write access) in {directory} and start again"
        ) from error
    return prefix


def _set_aside(directory: str, prefix: str, entries: Sequence[_Listed]) -> list[_Listed]:
    """Copies a listed checkpoint that is about to be written anew, and lists the copy instead.

    Data and index cannot be replaced in one move, and between the two the checkpoint is unreadable.
    """
    aside = prefix + _ASIDE
    checkpoint_files.copy(prefix, aside)
    moved = [_Listed(aside, item.time) if item.prefix == prefix else item for item in entries]
    _write_listing(directory, moved)
    return moved


def _write_listing(directory: str, entries: Sequence[_Listed]) -> None:
    """Writes the file ``checkpoint``, TensorFlow's CheckpointState as protocol buffer text."""
    names = [
        _quote(os.path.basename(item.prefix) if _inside(directory, item.prefix) else item.prefix)
        for item in entries
    ]
    lines = [f"model_checkpoint_path: {names[-1]}"]
    lines += [f"all_model_checkpoint_paths: {name}" for name in names]
    lines += [f"all_model_checkpoint_timestamps: {item.time!r}" for item in entries]
    checkpoint_files.write_text(os.path.join(directory, _LISTING), "\n".join(lines) + "\n")
    checkpoint_files.sync(directory)


def _quote(text: str) -> str:
    """A string as protocol buffer text: bytes outside plain ASCII in octal."""
    plain = (32 <= byte < 127 and byte not in b'"\\' for byte in text.encode())
    escaped = [
        chr(byte) if fits else f"\\{byte:03o}"
        for byte, fits in zip(text.encode(), plain, strict=True)
    ]
    return f'"{"".join(escaped)}"'


def clean_leftovers(directory: str) -> list[str]:
    """Deletes what a killed save left; call it before the first save, in the only writing process.

    Touches only temporaries of small files and ``model.ckpt-<step>`` files that no index completes.

    Returns:
      The names that were deleted.
    """
    import tensorflow as tf

    directory = os.fspath(directory)
    if not tf.io.gfile.isdir(directory):
        return []
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    listed_names = {os.path.basename(item.prefix) for item in _read_listing(directory)}
    whole = {name.removesuffix(".index") for name in names if name.endswith(".index")}
    temporary = re.compile(
        rf"{_LISTING}\.(?:tempstate|tmp)\w*|\w+\.(?:json|jsonl|txt)\.tempstate\d+"
        rf"|{_OURS}{checkpoint_files.PART}{checkpoint_files.TEMPORARY}|{_OURS}_temp_\w+"
    )
    # A .meta alone may belong to a checkpoint in the older single-file format.
    half = re.compile(rf"({_OURS})\.(?:data-\d{{5}}-of-\d{{5}}|state\.json)")
    removed = []
    for name in names:
        part = half.fullmatch(name)
        if temporary.fullmatch(name) or (part and part[1] not in whole | listed_names):
            path = os.path.join(directory, name)
            (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)
            removed.append(name)
    if removed:
        shown = errors.some(removed)
        _log.info("%s: removed what an interrupted save left: %s", directory, shown)
    unlisted = sorted(name for name in whole - listed_names if re.fullmatch(_OURS, name))
    if unlisted:
        shown = errors.some(unlisted)
        _log.warning("%s: not used, the file `checkpoint` does not list it: %s", directory, shown)
    return removed


# --------------------------------------------------------------------------------------------------
# Finding
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True)
class _Listed:
    """An entry of the file ``checkpoint``; time in seconds since 1970."""

    prefix: str
    time: float


def latest(directory: str) -> str | None:
    """The prefix of the newest listed checkpoint, or None when the directory lists none.

    Its index is read, and its data files are there in full length; a flipped bit inside them shows
    only when the values are read (``restore_all``).

    Raises:
      errors.UserError: the newest is missing or damaged. Names the file, the newest older one that
        is intact, and how to go on from that.
    """
    directory = os.fspath(directory)
    checkpoint_files.check_path(directory)  # here, so that a run fails before its first save
    entries = _read_listing(directory)
    if not entries:
        return None
    newest = entries[-1].prefix
    try:
        checkpoint_files.Checkpoint(newest)
    except errors.UserError as error:
        raise errors.UserError(f"{error}{_way_out(newest)}") from None
    return newest


def refuse_unlisted(directory: str) -> None:
    """Raises where checkpoints stand but their listing is gone: they would be overwritten.

    Step 0 alone is what a run leaves that was killed in its first save.

    Raises:
      errors.UserError: naming the newest checkpoint and what to write into the listing.
    """
    import tensorflow as tf

    path = os.path.join(os.fspath(directory), _LISTING)
    if tf.io.gfile.exists(path) or not tf.io.gfile.isdir(directory):
        return
    found = [
        re.fullmatch(r"model\.ckpt-(\d+)\.index", name) for name in tf.io.gfile.listdir(directory)
    ]
    steps = [int(match[1]) for match in found if match]
    if steps and max(steps) > 0:
        raise errors.UserError(
            f"{path} is missing, but there is model.ckpt-{max(steps)}; to go on from it write this "
            f'line into that file: model_checkpoint_path: "model.ckpt-{max(steps)}"; to start anew '
            "take another --output_dir"
        )


def listed(directory: str) -> list[str]:
    """The prefixes that the directory lists and that exist, oldest first; not looked into."""
    entries = _read_listing(os.fspath(directory))
    return [item.prefix for item in entries if checkpoint_files.exists(item.prefix)]


def read_state(prefix: str) -> dict[str, Any]:
    """What ``save`` got as ``state``; empty for a checkpoint of another program."""
    import tensorflow as tf

    path = f"{prefix}.state.json"
    if not tf.io.gfile.exists(path):
        return {}
    with tf.io.gfile.GFile(path) as file:
        text = file.read()
    try:
        state = json.loads(text)
    except ValueError as error:
        raise errors.UserError(f"{path}: damaged, expected JSON: {error}") from None
    if not isinstance(state, dict):
        raise errors.UserError(f"{path}: damaged, expected a JSON object, found {text[:40]!r}")
    return state


def _read_listing(directory: str) -> list[_Listed]:
    """The entries of the file ``checkpoint``, the one to resume from last; they may be missing."""
    import tensorflow as tf

    path = os.path.join(directory, _LISTING)
    if not tf.io.gfile.exists(path):
        return []
    try:
        found = tf.train.get_checkpoint_state(directory)
    except ValueError:  # it has no model_checkpoint_path
        found = None
    if found is None:
        raise errors.UserError(
            f'{path}: damaged, expected lines like model_checkpoint_path: "model.ckpt-100"; write '
            "that line with the newest model.ckpt-<step> of the directory"
        )
    paths = list(found.all_model_checkpoint_paths)
    times = list(found.all_model_checkpoint_timestamps)
    by_path = dict(
        zip(paths, times if len(times) == len(paths) else [0.0] * len(paths), strict=True)
    )
    # People edit the first line to go back to an older one, so it decides, not the order.
    newest = found.model_checkpoint_path
    by_path[newest] = by_path.pop(newest, 0.0)
    return [_Listed(_here(directory, item), at) for item, at in by_path.items()]


def _here(directory: str, path: str) -> str:
    """TF1 lists absolute paths, which do not follow a directory that was moved or copied."""
    moved = os.path.join(directory, os.path.basename(path))
    return moved if checkpoint_files.exists(moved) else path


def _inside(directory: str, prefix: str) -> bool:
    return os.path.join(directory, os.path.basename(prefix)) == prefix


def _way_out(broken: str) -> str:
    """The end of a message about a damaged checkpoint: the intact one to go back to."""
    directory = os.path.dirname(broken)
    for item in reversed(_read_listing(directory)):
        if item.prefix != broken and checkpoint_files.intact(item.prefix):
            return (
                f"; the newest intact checkpoint is {item.prefix}: to go on from it, set "
                f'model_checkpoint_path: "{os.path.basename(item.prefix)}" in '
                f"{os.path.join(directory, _LISTING)}"
            )
    return "; no other listed checkpoint is intact: restore the file, or use another directory"


# --------------------------------------------------------------------------------------------------
# Opening what a flag names
# --------------------------------------------------------------------------------------------------


def resolve(path: str, flag: str = "--init_checkpoint") -> checkpoint_files.Weights:
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
    prefix = re.sub(rf"{checkpoint_files.PART}$", "", path)
    try:
        if path.endswith(".safetensors") and there(path):
            return safetensors_weights.HuggingFaceWeights(path)
        if there(f"{prefix}.index"):
            return checkpoint_files.Checkpoint(prefix)
        if isdir(path):
            return _resolve_directory(path)
        if os.path.basename(path) == _LISTING and there(path):
            return _resolve_directory(os.path.dirname(path) or ".")
        if prefix != path and there(path) and not there(prefix):
            raise errors.UserError(f"{prefix}.index is missing beside it")
        if there(prefix):
            return checkpoint_files.Checkpoint(prefix)
        raise errors.UserError(f"not found{_neighbours(path)}")
    except errors.UserError as error:
        raise errors.UserError(f"{flag}={path}: {error}") from None


def source(init_checkpoint: str, output_dir: str, eval_checkpoint: str = "") -> str:
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
    newest = latest(output_dir)
    if newest or not init_checkpoint:
        return newest or ""
    return resolve(init_checkpoint).path


def _resolve_directory(directory: str) -> checkpoint_files.Weights:
    import tensorflow as tf

    newest = latest(directory)
    if newest:
        return checkpoint_files.Checkpoint(newest)
    names = sorted(tf.io.gfile.listdir(directory))
    for ending in (".index", ".safetensors"):
        found = [os.path.join(directory, name) for name in names if name.endswith(ending)]
        if len(found) > 1:
            shown = errors.some(name.removesuffix(".index") for name in found)
            raise errors.UserError(f"the directory has {len(found)} checkpoints, name one: {shown}")
        if found and ending == ".index":
            return checkpoint_files.Checkpoint(found[0].removesuffix(ending))
        if found:
            return safetensors_weights.HuggingFaceWeights(found[0])
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
    checkpoint: checkpoint_files.Weights,
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
    weight_matching.require_encoder(variables, names, source)
    different = weight_matching.difference(_shapes(variables), checkpoint.shapes)
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
    weight_matching.warn_about_encoder(report.missing, report.ignored, source)
    return report


def _log_variables(variables: Mapping[str, tf.Variable], loaded: set[str]) -> None:
    for name, variable in variables.items():
        if variable.trainable:
            mark = ", *INIT_FROM_CKPT*" if name in loaded else ""
            _log.info("%s, shape = %s%s", name, tuple(variable.shape), mark)


def _log_report(report: Report, source: str) -> None:
    missing = errors.some(report.missing)
    # Slots are in every checkpoint of a training run; their names would hide the others.
    ignored = weight_matching.weights_only(report.ignored)
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
    why = weight_matching.another_model(_shapes(variables), checkpoint.shapes)
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
        raise errors.UserError(f"{error}{_way_out(prefix)}") from None
    _log.info("restored %d variables from %s", len(variables), prefix)


def _open_own(prefix: str) -> checkpoint_files.Checkpoint:
    try:
        return checkpoint_files.Checkpoint(prefix)
    except errors.UserError as error:
        raise errors.UserError(f"{error}{_way_out(prefix)}") from None


def _assign(
    variables: Mapping[str, tf.Variable],
    checkpoint: checkpoint_files.Weights,
    names: Iterable[str],
) -> None:
    for name in names:  # one by one, so that a large model is not held twice
        variable = variables[name]
        value = checkpoint.read([name])[name]
        variable.assign(value.astype(variable.dtype.as_numpy_dtype, copy=False))


def _shapes(variables: Mapping[str, tf.Variable]) -> dict[str, tuple[int, ...]]:
    return {name: tuple(variable.shape) for name, variable in variables.items()}
