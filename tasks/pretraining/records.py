"""TFRecord files of examples: one feature list drives writing, parsing and checking.

The files are those of the original release: each record is a serialized ``tf.train.Example``.
Writing the bytes of an example takes no TensorFlow, because the processes that make examples must
not pay for its import (5 seconds and 500 MB each). The format is that of protocol buffers:

    Example   { Features features = 1 }
    Features  { map<string, Feature> feature = 1 }        one entry { key = 1, value = 2 } a feature
    Feature   { FloatList float_list = 2 | Int64List int64_list = 3 }
    *List     { repeated value = 1, packed }
"""

from __future__ import annotations

import functools
import os
import struct
import typing
from collections.abc import Mapping, Sequence

from command_line import errors

if typing.TYPE_CHECKING:
    import tensorflow as tf


class Feature(typing.NamedTuple):
    """One column of a record file.

    Attributes:
      name: key in the example.
      kind: "int64" or "float".
      length: number of values; every record has as many.
      flag: the flag that sets the length, if one does.
    """

    name: str
    kind: str
    length: int
    flag: str = ""


def pretraining_features(max_seq_length: int, max_predictions_per_seq: int) -> tuple[Feature, ...]:
    """What a pre-training record holds.

    Args:
      max_seq_length: tokens of an example, padding included.
      max_predictions_per_seq: places for masked tokens, unused ones included.

    Returns:
      The features, in the order of the logs. Padding is 0 in all of them.
    """
    tokens = (max_seq_length, "max_seq_length")
    masked = (max_predictions_per_seq, "max_predictions_per_seq")
    return (
        Feature("input_ids", "int64", *tokens),
        Feature("input_mask", "int64", *tokens),
        Feature("segment_ids", "int64", *tokens),
        Feature("masked_lm_positions", "int64", *masked),
        Feature("masked_lm_ids", "int64", *masked),
        Feature("masked_lm_weights", "float", *masked),
        Feature("next_sentence_labels", "int64", 1),
    )


# --------------------------------------------------------------------------------------------------
# Writing
# --------------------------------------------------------------------------------------------------


class _Varints(dict):
    """Integer → its bytes in a protocol buffer; worked out once for each integer."""

    def __missing__(self, value: int) -> bytes:
        rest = value % (1 << 64)  # a negative int64 is written as its two's complement
        written = bytearray()
        while rest > 127:
            written.append(rest & 127 | 128)
            rest >>= 7
        written.append(rest)
        self[value] = bytes(written)
        return self[value]


_VARINTS = _Varints()

# Tags: field number · 8 + 2 (length-delimited).
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _VARINTS[len(body)] + body


@functools.cache
def _head(name: str, tag: bytes, size: int) -> bytes:
    """What stands in an entry of the map before ``size`` bytes of packed values.

    The lengths in it depend on the size alone, of which there are few; each is worked out once.
    """
    body = bytes(size)
    feature = _field(tag, _field(_FIELD_1, body))
    entry = _field(_FIELD_1, name.encode()) + _field(_FIELD_2, feature)
    whole = _field(_FIELD_1, entry)
    return whole[: len(whole) - size]


def _int64_values(values: Sequence[int]) -> bytes:
    try:
        small = bytes(values)
    except ValueError:  # a value above 255, or below 0
        return b"".join(map(_VARINTS.__getitem__, values))
    if small.isascii():  # below 128 a number is one byte: itself
        return small
    return b"".join(map(_VARINTS.__getitem__, values))


def encode_example(features: Sequence[Feature], values: Mapping[str, Sequence]) -> bytes:
    """Serializes an example.

    Args:
      features: what it holds.
      values: for each feature at most ``length`` numbers; the rest is filled with 0. ``bytes``
        count as the small integers that they are.

    Returns:
      A serialized ``tf.train.Example``.

    Raises:
      ValueError: there are more values than the feature has places.
    """
    entries: list[bytes] = []
    for name, kind, length, _ in features:
        given = values[name]
        missing = length - len(given)
        if missing < 0:
            raise ValueError(f"{len(given)} values for {name}, which has {length} places")
        if kind == "float":
            tag, packed = _FIELD_2, struct.pack(f"<{len(given)}f", *given) + bytes(4 * missing)
        else:
            tag, packed = _FIELD_3, _int64_values(given) + bytes(missing)
        entries += (_head(name, tag, len(packed)), packed)
    return _field(_FIELD_1, b"".join(entries))


class RoundRobinWriter:
    """Writes record k to file k mod number of files; the files appear when all is written.

    A context manager. Records go to temporary files beside the final ones, which are renamed at the
    end; an exception removes them, so a failed run leaves what stood there before.
    """

    def __init__(self, paths: Sequence[str]):
        """Creates missing directories and opens the temporary files.

        Args:
          paths: the files; anything ``tf.io.gfile`` can write.
        """
        import tensorflow as tf

        self._gfile = tf.io.gfile
        self._paths = {}
        self._writers: list = []
        self.count = 0
        try:
            for path in paths:
                folder, name = os.path.split(path)
                if folder:
                    self._gfile.makedirs(folder)
                temporary = os.path.join(folder, f".{name}.{os.getpid()}.incomplete")
                self._paths[temporary] = path
                self._writers.append(tf.io.TFRecordWriter(temporary))
        except BaseException:
            self._discard()
            raise

    def write(self, record: bytes) -> None:
        """Appends a serialized example to the file whose turn it is."""
        self._writers[self.count % len(self._writers)].write(record)
        self.count += 1

    def __enter__(self) -> RoundRobinWriter:
        return self

    def __exit__(self, kind, *_) -> None:
        if kind is not None:
            self._discard()
            return
        try:
            for writer in self._writers:
                writer.close()
            for temporary, path in self._paths.items():
                self._gfile.rename(temporary, path, overwrite=True)
        except BaseException:
            self._discard()
            raise

    def _discard(self) -> None:
        self._writers.clear()  # closes them
        for temporary in self._paths:
            if self._gfile.exists(temporary):
                self._gfile.remove(temporary)


# --------------------------------------------------------------------------------------------------
# Reading
# --------------------------------------------------------------------------------------------------


def parse(features: Sequence[Feature], serialized: tf.Tensor) -> dict[str, tf.Tensor]:
    """Reads a batch of examples; for use in a ``tf.data`` pipeline or outside.

    Args:
      features: what the examples hold.
      serialized: string tensor of shape [batch].

    Returns:
      A tensor of shape [batch, length] for each feature: int32 for "int64", float32 for "float".
    """
    import tensorflow as tf

    wanted = {
        feature.name: tf.io.FixedLenFeature(
            [feature.length], tf.float32 if feature.kind == "float" else tf.int64
        )
        for feature in features
    }
    found = tf.io.parse_example(serialized, wanted)
    # Clipped, not wrapped, so that a value beyond int32 is still found to be too large.
    return {
        name: tf.cast(tf.clip_by_value(value, tf.int32.min, tf.int32.max), tf.int32)
        if value.dtype == tf.int64
        else value
        for name, value in found.items()
    }


def check_first_record(path: str, features: Sequence[Feature]) -> None:
    """Compares the first record of a file with the feature list, before anything is built on it.

    Args:
      path: a TFRecord file.
      features: what its records are to hold.

    Raises:
      errors.UserError: the file is empty, cut off or not a TFRecord file; its records lack features
        (all that are missing are listed) or have another length (the flag to change is named).
    """
    example = _first_example(path)
    found = {
        name: (value.WhichOneof("kind") or "", value)
        for name, value in example.features.feature.items()
    }
    missing = [feature.name for feature in features if feature.name not in found]
    if missing:
        raise errors.UserError(
            f"{path}: records lack {', '.join(missing)} (they have "
            f"{', '.join(sorted(found)) or 'nothing'}); create_pretraining_data.py makes them"
        )
    wrong: dict[str, str] = {}
    cures: dict[str, str] = {}
    for feature in features:
        kind, value = found[feature.name]
        if kind != f"{feature.kind}_list":
            raise errors.UserError(
                f"{path}: {feature.name} is {kind or 'empty'}, expected {feature.kind}_list"
            )
        length = len(getattr(value, kind).value)
        if length != feature.length and not feature.flag:
            raise errors.UserError(
                f"{path}: records have {length} {feature.name}, expected {feature.length}"
            )
        if length != feature.length:
            wrong.setdefault(
                feature.flag, f"{length} {feature.name}, --{feature.flag} is {feature.length}"
            )
            cures.setdefault(feature.flag, f"--{feature.flag}={length}")
    if wrong:
        raise errors.UserError(
            f"{path}: records have {' and '.join(wrong.values())}; "
            f"run with {' '.join(cures.values())}"
        )


def _first_example(path: str) -> tf.train.Example:
    import tensorflow as tf
    from google.protobuf import message

    try:
        record = next(iter(tf.data.TFRecordDataset(path).take(1)), None)
    except tf.errors.DataLossError:
        raise errors.UserError(
            f"{path}: not a TFRecord file, or damaged, or not yet written whole"
        ) from None
    if record is None:
        raise errors.UserError(
            f"{path}: the file holds no records; make it anew, or wait until it is written"
        )
    try:
        return tf.train.Example.FromString(record.numpy())
    except message.DecodeError:
        raise errors.UserError(f"{path}: its records are not tf.train.Example messages") from None
