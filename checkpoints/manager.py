"""The checkpoints of a directory: save, list, rotate, clean up.

A directory has checkpoints ``model.ckpt-<step>`` (their files: ``tf_checkpoint``) and a text file
``checkpoint`` that lists the complete ones, newest last, as TF 1.x writes and reads it.

A process may be killed at any point of a save, because files are written in this order::

    state.json -> data -> index (renamed into place) -> `checkpoint` (renamed) -> delete older ones

All paths go through ``tf.io.gfile``, so ``gs://`` works. Only the chief of several workers writes.
"""

import contextlib
import dataclasses
import json
import logging
import os
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from checkpoints import file_names, tf_checkpoint
from command_line import errors
from system import atomic_files, json_files

_log = logging.getLogger(__name__)


LISTING = "checkpoint"

# Ends the name of the copy of a checkpoint whose step is saved again.
_REPLACED = "-replaced"

_CHECKPOINT_NAME = rf"model\.ckpt-\d+(?:{_REPLACED})?"


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
      errors.UserError: the file system refused (no space, no permission), or there is an unlisted
        checkpoint of others at this step. Listed checkpoints are untouched.
    """
    directory = os.fspath(directory)
    tf_checkpoint.check_path(directory)
    state_json = None if state is None else json.dumps(dict(state), indent=1, sort_keys=True) + "\n"
    prefix = os.path.join(directory, f"model.ckpt-{int(step)}")
    entries: list[_Entry] = []
    try:
        tf.io.gfile.makedirs(directory)
        entries = [item for item in _read_listing(directory) if tf_checkpoint.exists(item.prefix)]
        if any(item.prefix == prefix for item in entries):
            entries = _copy_listed(directory, prefix, entries)
        elif state is not None:  # else it cannot be told from a leftover
            check_unlisted(directory, step, step)
        tf_checkpoint.write(prefix, tensors, state_json)
        kept = [item for item in entries if item.prefix != prefix + _REPLACED]
        kept = [*kept, _Entry(prefix, time.time())][-keep:]  # [-0:] is all of them
        _write_listing(directory, kept)
        for item in entries:
            if item not in kept and _inside(directory, item.prefix):
                tf_checkpoint.remove(item.prefix)
    except (tf.errors.OpError, OSError) as error:
        last = f"the last good one is {entries[-1].prefix}" if entries else "there is no older one"
        raise errors.UserError(
            f"{prefix}: the checkpoint cannot be written: {errors.reason(error)}; "
            f"{last}; make room (or get write access) in {directory} and start again"
        ) from error
    return prefix


def _copy_listed(directory: str, prefix: str, entries: Sequence["_Entry"]) -> list["_Entry"]:
    """Copies a listed checkpoint that is about to be written again, and lists the copy instead.

    Data and index cannot be replaced in one move, and between the two the checkpoint is unreadable.
    """
    copy = prefix + _REPLACED
    tf_checkpoint.copy(prefix, copy)
    entries = [_Entry(copy, item.time) if item.prefix == prefix else item for item in entries]
    _write_listing(directory, entries)
    return entries


def _write_listing(directory: str, entries: Sequence["_Entry"]) -> None:
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
    characters = (
        chr(byte) if 32 <= byte < 127 and byte not in b'"\\' else f"\\{byte:03o}"
        for byte in text.encode()
    )
    return f'"{"".join(characters)}"'


def clean_leftovers(directory: str) -> list[str]:
    """Deletes what a killed save left; call it before the first save, in the only writing process.

    Deletes only temporary files and those of a ``model.ckpt-<step>`` without an index.

    Returns:
      The names that were deleted.
    """
    directory = os.fspath(directory)
    if not tf.io.gfile.isdir(directory):
        return []
    names = sorted(name.rstrip("/") for name in tf.io.gfile.listdir(directory))
    listed_names = {os.path.basename(item.prefix) for item in _read_listing(directory)}
    complete = {name.removesuffix(".index") for name in names if name.endswith(".index")}
    temporary = re.compile(
        rf"{LISTING}\.(?:tempstate|tmp)\w*|.+\.(?:json|jsonl|txt|tsv)\.tempstate\w+"
        rf"|{_CHECKPOINT_NAME}{file_names.PART}{file_names.TEMPORARY}|{_CHECKPOINT_NAME}_temp_\w+"
    )
    # A .meta alone may belong to a checkpoint in the older single-file format.
    incomplete = re.compile(rf"({_CHECKPOINT_NAME})\.(?:data-\d{{5}}-of-\d{{5}}|state\.json)")
    removed = []
    for name in names:
        part = incomplete.fullmatch(name)
        if temporary.fullmatch(name) or (part and part[1] not in complete | listed_names):
            path = os.path.join(directory, name)
            (tf.io.gfile.rmtree if tf.io.gfile.isdir(path) else tf.io.gfile.remove)(path)
            removed.append(name)
    if removed:
        _log.info("%s: removed what an interrupted save left: %s", directory, errors.some(removed))
    unlisted = sorted(
        name for name in complete - listed_names if re.fullmatch(_CHECKPOINT_NAME, name)
    )
    if unlisted:
        names_text = errors.some(unlisted)
        _log.warning(
            "%s: not used, the file `checkpoint` does not list it: %s", directory, names_text
        )
    return removed


@dataclasses.dataclass(frozen=True)
class _Entry:
    """An entry of the file ``checkpoint``; time in seconds since 1970."""

    prefix: str
    time: float


def latest(directory: str) -> str | None:
    """The prefix of the newest listed checkpoint, or None when the directory lists none.

    Its index is read, and the length of its data files is checked; a flipped bit inside them shows
    only when the values are read (``restore.load_all``).

    Raises:
      errors.UserError: the newest is missing or damaged. Names the file, the newest older one that
        is intact, and how to go on from that.
    """
    directory = os.fspath(directory)
    tf_checkpoint.check_path(directory)  # so that a run fails before its first save
    entries = _read_listing(directory)
    if not entries:
        return None
    newest = entries[-1].prefix
    with recovery_hint(newest):
        tf_checkpoint.Checkpoint(newest)
    return newest


def require_listing(directory: str) -> None:
    """Raises where there are checkpoints but no listing: they would be overwritten.

    A run that was killed in its first save leaves step 0 alone, which does not count.

    Raises:
      errors.UserError: naming the newest checkpoint and what to write into the listing.
    """
    path = os.path.join(os.fspath(directory), LISTING)
    if tf.io.gfile.exists(path) or not tf.io.gfile.isdir(directory):
        return
    matches = [
        re.fullmatch(r"model\.ckpt-(\d+)\.index", name) for name in tf.io.gfile.listdir(directory)
    ]
    steps = [int(match[1]) for match in matches if match]
    if steps and max(steps) > 0:
        raise errors.UserError(
            f"{path} is missing, but there is model.ckpt-{max(steps)}; to go on from it write this "
            f'line into that file: model_checkpoint_path: "model.ckpt-{max(steps)}"; to start over '
            "take another --output_dir"
        )


def check_unlisted(directory: str, first: int, last: int) -> None:
    """Checks that a run will not write over a checkpoint that no run of this project made.

    Those have a file state.json from their first moment on, also as leftovers of a kill.

    Args:
      directory: of the run.
      first, last: steps between which it saves.

    Raises:
      errors.UserError: naming a checkpoint of such a step that is not listed.
    """
    names = tf.io.gfile.listdir(directory) if tf.io.gfile.isdir(directory) else []
    own = {os.path.basename(item.prefix) for item in _read_listing(directory)}
    own |= {name.removesuffix(".state.json") for name in names if name.endswith(".state.json")}
    for name in sorted(names):
        match = re.fullmatch(rf"(model\.ckpt-(\d+)){file_names.PART}", name)
        if match and first <= int(match[2]) <= last and match[1] not in own:
            raise errors.UserError(
                f"{os.path.join(directory, match[1])} would be written over, but is not of this "
                f"run: {os.path.join(directory, LISTING)} does not list it; move it away, or take "
                "another --output_dir (to start from it: with it as --init_checkpoint)"
            )


def check_no_weights(directory: str) -> None:
    """Checks that a run without --init_checkpoint does not pass over weights beside it.

    Raises:
      errors.UserError: naming the files of weights in the directory, which has no listing.
    """
    names = sorted(tf.io.gfile.listdir(directory)) if tf.io.gfile.isdir(directory) else []
    weights = [
        name.removesuffix(".index")
        for name in names
        if name.endswith((".index", ".safetensors")) and not re.match(_CHECKPOINT_NAME, name)
    ]
    if weights:
        raise errors.UserError(
            f"--output_dir={directory} has {errors.some(weights)}, which no run wrote there, so it "
            f"is not used; to use it give --init_checkpoint={os.path.join(directory, weights[0])}, "
            "else take another --output_dir"
        )


def listed(directory: str) -> list[str]:
    """The prefixes that the directory lists and that exist, oldest first; damaged ones too."""
    entries = _read_listing(os.fspath(directory))
    return [item.prefix for item in entries if tf_checkpoint.exists(item.prefix)]


def lists_elsewhere(directory: str) -> bool:
    """Whether no checkpoint that a directory lists exists, and files of others may be in it."""
    entries = _read_listing(os.fspath(directory))
    names = tf.io.gfile.listdir(directory) if entries else []
    return not any(tf_checkpoint.exists(item.prefix) for item in entries) and any(
        name.endswith((".index", ".safetensors")) for name in names
    )


def read_state(prefix: str) -> dict[str, Any]:
    """What ``save`` got as ``state``; empty for a checkpoint of another program.

    Raises:
      errors.UserError: <prefix>.state.json is damaged.
    """
    return json_files.read_object(f"{prefix}.state.json") or {}


def _read_listing(directory: str) -> list[_Entry]:
    """The entries of the file ``checkpoint``, the one to resume from last; they may be missing."""
    path = os.path.join(directory, LISTING)
    if not tf.io.gfile.exists(path):
        return []
    try:
        listing = tf.train.get_checkpoint_state(directory)
    except ValueError:  # it has no model_checkpoint_path
        listing = None
    if listing is None:
        raise errors.UserError(
            f'{path}: damaged, expected lines like model_checkpoint_path: "model.ckpt-100"; write '
            "that line with the newest model.ckpt-<step> of the directory"
        )
    paths = list(listing.all_model_checkpoint_paths)
    times = list(listing.all_model_checkpoint_timestamps)
    by_path = dict(
        zip(paths, times if len(times) == len(paths) else [0.0] * len(paths), strict=True)
    )
    # People edit the first line to go back to an older one, so it decides, not the order.
    newest = listing.model_checkpoint_path
    by_path[newest] = by_path.pop(newest, 0.0)
    return [_Entry(_relocated(directory, path), at) for path, at in by_path.items()]


def _relocated(directory: str, path: str) -> str:
    """A listed path in this directory; TF1 lists absolute paths, wrong after a move or copy."""
    local = os.path.join(directory, os.path.basename(path))
    return local if tf_checkpoint.exists(local) else path


def _inside(directory: str, prefix: str) -> bool:
    return os.path.join(directory, os.path.basename(prefix)) == prefix


@contextlib.contextmanager
def recovery_hint(prefix: str) -> Iterator[None]:
    """Ends the message of a UserError about a checkpoint with the intact one to go back to."""
    try:
        yield
    except errors.UserError as error:
        raise errors.UserError(f"{error}{_newest_intact(prefix)}") from None


def _newest_intact(damaged: str) -> str:
    directory = os.path.dirname(damaged)
    for item in reversed(_read_listing(directory)):
        if item.prefix != damaged and tf_checkpoint.is_intact(item.prefix):
            return (
                f"; the newest intact checkpoint is {item.prefix}: to go on from it, set "
                f'model_checkpoint_path: "{os.path.basename(item.prefix)}" in '
                f"{os.path.join(directory, LISTING)}"
            )
    return "; no other listed checkpoint is intact: restore the file, or use another directory"
