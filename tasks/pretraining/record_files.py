"""Files of pre-training records: writing them whole or not at all, parsing and checking them."""

import logging
import math
import os
import re
import struct
from collections.abc import Sequence

import tensorflow as tf
from google.protobuf import message

from command_line import errors
from system import atomic_files, inputs, temporaries
from tasks.pretraining import records

_log = logging.getLogger(__name__)

LENGTH = struct.Struct("<Q")  # of a record, at its beginning


class RoundRobinWriter:
    """Writes record k to file k mod number of files; the files appear when all is written.

    A context manager. Records go to temporary files beside the final ones, which are renamed at the
    end; an exception removes them, so a failed run leaves older files as they were.

    Attributes:
      count: records written so far.
    """

    def __init__(self, paths: Sequence[str]):
        """Creates missing directories and opens the temporary files.

        Args:
          paths: the files; anything ``tf.io.gfile`` can write.
        """
        self._paths: dict[str, str] = {}
        self._writers: list = []
        self.count = 0
        try:
            for path in paths:
                folder, name = os.path.split(path)
                if folder:
                    tf.io.gfile.makedirs(folder)
                temporaries.remove_abandoned(folder or ".", re.escape(f".{name}"))
                temporary = os.path.join(folder, f".{name}{temporaries.suffix()}")
                self._paths[temporary] = path
                self._writers.append(tf.io.TFRecordWriter(temporary))
        except BaseException:
            self._discard()
            raise

    def write(self, record: bytes) -> None:
        """Appends a serialized example to the file whose turn it is."""
        self._writers[self.count % len(self._writers)].write(record)
        self.count += 1

    def __enter__(self) -> "RoundRobinWriter":
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            self._discard()
            return
        done: list[str] = []
        try:
            for writer in self._writers:
                writer.close()
            for temporary in self._paths:
                atomic_files.sync(temporary)
            # Only now: a failure before this leaves all older files, one from here on a mixture.
            for temporary, path in self._paths.items():
                tf.io.gfile.rename(temporary, path, overwrite=True)
                done.append(path)
            for folder in {os.path.dirname(path) for path in done}:
                atomic_files.sync(folder)
        except BaseException as error:
            self._discard()
            if 0 < len(done) < len(self._paths):
                older = [path for path in self._paths.values() if path not in done]
                raise errors.UserError(
                    f"broken off while the files were put in place ({errors.reason(error)}): "
                    f"{errors.some(done)} are new, {errors.some(older)} are not; run again"
                ) from error
            raise

    def _discard(self) -> None:
        self._writers.clear()  # closes them
        for temporary in self._paths:
            if tf.io.gfile.exists(temporary):
                tf.io.gfile.remove(temporary)


def decode_example(features: Sequence[records.Feature], serialized: bytes) -> dict[str, list]:
    """The values of each feature of one example, padding included."""
    columns = tf.train.Example.FromString(serialized).features.feature
    return {f.name: list(getattr(columns[f.name], f"{f.dtype}_list").value) for f in features}


def parse(features: Sequence[records.Feature], serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    """Reads a batch of examples; for use in a ``tf.data`` pipeline or outside.

    Args:
      features: what the examples hold.
      serialized: string tensor of shape [batch].

    Returns:
      A tensor of shape [batch, length] for each feature: int32 for "int64", float32 for "float".
    """
    specs = {
        feature.name: tf.io.FixedLenFeature(
            [feature.length], tf.float32 if feature.dtype == "float" else tf.int64
        )
        for feature in features
    }
    # Clipped, not wrapped, so that a value beyond int32 is still recognised as too large.
    return {
        name: tf.cast(tf.clip_by_value(value, tf.int32.min, tf.int32.max), tf.int32)
        if value.dtype == tf.int64
        else value
        for name, value in tf.io.parse_example(serialized, specs).items()
    }


def check_first_record(path: str, features: Sequence[records.Feature]) -> bool:
    """Compares the first record of a file with the feature list, before anything is built on it.

    Args:
      path: a TFRecord file.
      features: what its records must have.

    Returns:
      Whether there is one; files without are made where there are more files than examples.

    Raises:
      errors.UserError: the file is cut off or not a TFRecord file; its records lack features (all
        that are missing are listed) or have another length (the flag to change is named).
    """
    _warn_if_being_replaced(path)
    example = _first_example(path)
    if example is None:
        return False
    columns = example.features.feature
    missing = [feature.name for feature in features if feature.name not in columns]
    if missing:
        raise errors.UserError(
            f"{path}: records lack {', '.join(missing)} (they have "
            f"{', '.join(sorted(columns)) or 'nothing'}); create_pretraining_data.py makes them"
        )
    mismatches: dict[str, str] = {}
    cures: dict[str, str] = {}
    for feature in features:
        length = _count_values(path, feature, columns[feature.name])
        if length == feature.length:
            continue
        if not feature.flag:
            raise errors.UserError(
                f"{path}: records have {length} {feature.name}, expected {feature.length}"
            )
        mismatches.setdefault(
            feature.flag, f"{length} {feature.name}, --{feature.flag} is {feature.length}"
        )
        cures.setdefault(feature.flag, f"--{feature.flag}={length}")
    if mismatches:
        raise errors.UserError(
            f"{path}: records have {' and '.join(mismatches.values())}; "
            f"run with {' '.join(cures.values())}"
        )
    return True


def flaw(features: Sequence[records.Feature], serialized: bytes) -> str:
    """What is wrong with the values of a record, with the cure; empty if nothing is."""
    try:
        columns = tf.train.Example.FromString(serialized).features.feature
    except message.DecodeError:
        return "it is not a tf.train.Example message"
    for name, dtype, length, _, limit, limit_name in features:
        values = list(getattr(columns[name], f"{dtype}_list").value)
        if len(values) != length:
            return (
                f"it has {len(values)} {name}, expected {length}; were files of different lengths "
                "joined?"
            )
        wrong = [value for value in values if not 0 <= value < (limit or math.inf)]
        if wrong and limit:
            return (
                f"{name} {wrong[0]}, but {limit_name} is {limit}; it was made with another "
                "vocabulary or other lengths than --bert_config_file says"
            )
        if wrong:
            return f"{name} {wrong[0]}, expected a finite number of at least 0"
    tokens = sum(columns["input_mask"].int64_list.value)
    last = max(columns["masked_lm_positions"].int64_list.value, default=0)
    if last >= max(tokens, 1):
        return f"masked_lm_positions {last}, but it has {tokens} tokens"
    return ""


def _warn_if_being_replaced(path: str) -> None:
    folder, name = os.path.split(path)
    others = [] if "://" in path else os.listdir(folder or ".")
    if any(other.startswith(f".{name}.tempstate") for other in others):
        _log.warning(
            "%s: another process is writing it, or was killed while it did: of several files, some "
            "may be older than others",
            path,
        )


def _count_values(path: str, feature: records.Feature, column: tf.train.Feature) -> int:
    """Number of values that a record has of a feature, which must be of the feature's type."""
    kind = column.WhichOneof("kind")
    if kind != f"{feature.dtype}_list":
        raise errors.UserError(
            f"{path}: {feature.name} is {kind or 'empty'}, expected {feature.dtype}_list"
        )
    return len(getattr(column, kind).value)


def _first_example(path: str) -> tf.train.Example | None:
    with tf.io.gfile.GFile(path, "rb") as file:
        header, size = file.read(LENGTH.size), file.size()
    if not size:
        return None
    # TensorFlow would reserve memory for any length, and be killed. Checksums: 4 + 4 bytes.
    fits = len(header) == LENGTH.size and LENGTH.unpack(header)[0] + LENGTH.size + 8 <= size
    try:
        record = next(iter(tf.data.TFRecordDataset(path))) if fits else None
    except (tf.errors.DataLossError, StopIteration):
        record = None
    if record is None:  # not before: the length of a record may begin as gzip files do
        unknown = "not a TFRecord file, or compressed, or damaged, or not yet completely written"
        raise errors.UserError(f"{path}: {inputs.how_packed(path) or unknown}")
    try:
        return tf.train.Example.FromString(record.numpy())
    except message.DecodeError:
        raise errors.UserError(f"{path}: its records are not tf.train.Example messages") from None
