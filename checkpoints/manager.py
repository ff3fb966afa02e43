"""The checkpoints of a directory: save, list, rotate, clean up."""

from __future__ import annotations

import dataclasses
import json
import logging
import os
import re
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from checkpoints import file_names, tf_checkpoint
from command_line import errors
from system import atomic_files

if TYPE_CHECKING:
    pass


_log = logging.getLogger(__name__)


LISTING = "checkpoint"

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
    tf_checkpoint.check_path(directory)
    note = None if state is None else json.dumps(dict(state), indent=1, sort_keys=True) + "\n"
    prefix = os.path.join(directory, f"model.ckpt-{int(step)}")
    entries: list[_Listed] = []
    try:
        tf.io.gfile.makedirs(directory)
        entries = [item for item in _read_listing(directory) if tf_checkpoint.exists(item.prefix)]
        if any(item.prefix == prefix for item in entries):
            entries = _set_aside(directory, prefix, entries)
        tf_checkpoint.write(prefix, tensors, note)
        kept = [item for item in entries if item.prefix != prefix + _ASIDE]
        kept = [*kept, _Listed(prefix, time.time())][-keep:]  # [-0:] is all of them
        _write_listing(directory, kept)
        for item in entries:
            if item not in kept and _inside(directory, item.prefix):
                tf_checkpoint.remove(item.prefix)
    except (tf.errors.OpError, OSError) as error:
        last = f"the last good one is {entries[-1].prefix}" if entries else "there is no older one"
        raise errors.UserError(
            f"{prefix}: the checkpoint cannot be written: {tf_checkpoint.reason(error)}; "
            f"{last}; make room (or get write access) in {directory} and start again"
        ) from error
    return prefix


def _set_aside(directory: str, prefix: str, entries: Sequence[_Listed]) -> list[_Listed]:
    """Copies a listed checkpoint that is about to be written anew, and lists the copy instead.

    Data and index cannot be replaced in one move, and between the two the checkpoint is unreadable.
    """
    aside = prefix + _ASIDE
    tf_checkpoint.copy(prefix, aside)
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
    atomic_files.write_text(os.path.join(directory, LISTING), "\n".join(lines) + "\n")
    atomic_files.sync(directory)


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
        rf"{LISTING}\.(?:tempstate|tmp)\w*|\w+\.(?:json|jsonl|txt)\.tempstate\d+"
        rf"|{_OURS}{file_names.PART}{file_names.TEMPORARY}|{_OURS}_temp_\w+"
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
    tf_checkpoint.check_path(directory)  # here, so that a run fails before its first save
    entries = _read_listing(directory)
    if not entries:
        return None
    newest = entries[-1].prefix
    try:
        tf_checkpoint.Checkpoint(newest)
    except errors.UserError as error:
        raise errors.UserError(f"{error}{recovery_hint(newest)}") from None
    return newest


def require_listing(directory: str) -> None:
    """Raises where checkpoints stand but their listing is gone: they would be overwritten.

    Step 0 alone is what a run leaves that was killed in its first save.

    Raises:
      errors.UserError: naming the newest checkpoint and what to write into the listing.
    """
    import tensorflow as tf

    path = os.path.join(os.fspath(directory), LISTING)
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
    return [item.prefix for item in entries if tf_checkpoint.exists(item.prefix)]


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

    path = os.path.join(directory, LISTING)
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
    return moved if tf_checkpoint.exists(moved) else path


def _inside(directory: str, prefix: str) -> bool:
    return os.path.join(directory, os.path.basename(prefix)) == prefix


def recovery_hint(broken: str) -> str:
    """The end of a message about a damaged checkpoint: the intact one to go back to."""
    directory = os.path.dirname(broken)
    for item in reversed(_read_listing(directory)):
        if item.prefix != broken and tf_checkpoint.intact(item.prefix):
            return (
                f"; the newest intact checkpoint is {item.prefix}: to go on from it, set "
                f'model_checkpoint_path: "{os.path.basename(item.prefix)}" in '
                f"{os.path.join(directory, LISTING)}"
            )
    return "; no other listed checkpoint is intact: restore the file, or use another directory"
