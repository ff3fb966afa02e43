"""The records of pre-training: one feature list drives writing, parsing and checking.

Records are those of the original release: each is a serialized ``tf.train.Example``. This module
encodes them without TensorFlow, because the processes that make examples must not pay for its
import (5 seconds and 500 MB each); ``record_files`` writes and reads the files. The format is that
of protocol buffers:

    Example   { Features features = 1 }
    Features  { map<string, Feature> feature = 1 }        one entry { key = 1, value = 2 } a feature
    Feature   { FloatList float_list = 2 | Int64List int64_list = 3 }
    *List     { repeated value = 1, packed }
"""

import functools
import struct
import typing
from collections.abc import Mapping, Sequence


class Feature(typing.NamedTuple):
    """One feature of the examples in a record file.

    Attributes:
      name: key in the example.
      dtype: "int64" or "float".
      length: number of values; the same in every record.
      flag: the flag that sets the length, if one does.
      limit: values are at least 0 and below this; 0 allows any.
      limit_name: what the limit is, for messages.
    """

    name: str
    dtype: str
    length: int
    flag: str = ""
    limit: int = 0
    limit_name: str = ""


def pretraining_features(
    max_seq_length: int,
    max_predictions_per_seq: int,
    *,
    vocab_size: int = 0,
    type_vocab_size: int = 0,
) -> tuple[Feature, ...]:
    """The features of a pre-training record.

    Args:
      max_seq_length: tokens of an example, padding included.
      max_predictions_per_seq: slots for masked tokens, unused ones included.
      vocab_size: token ids of the model that reads the records; 0 if there is none yet.
      type_vocab_size: its segment ids; 0 if there is none yet.

    Returns:
      The features, in the order of the logs. Padding is 0 in all of them.
    """
    tokens = (max_seq_length, "max_seq_length")
    masked = (max_predictions_per_seq, "max_predictions_per_seq")
    vocab = (vocab_size, "vocab_size")
    segments = (type_vocab_size, "type_vocab_size")
    return (
        Feature("input_ids", "int64", *tokens, *vocab),
        Feature("input_mask", "int64", *tokens, 2, "the number of values of a mask"),
        Feature("segment_ids", "int64", *tokens, *segments),
        Feature("masked_lm_positions", "int64", *masked, max_seq_length, "max_seq_length"),
        Feature("masked_lm_ids", "int64", *masked, *vocab),
        Feature("masked_lm_weights", "float", *masked),
        Feature("next_sentence_labels", "int64", 1, "", 2, "the number of next-sentence labels"),
    )


# --------------------------------------------------------------------------------------------------
# Encoding
# --------------------------------------------------------------------------------------------------


class _Varints(dict):
    """Integer → its varint bytes; computed once for each integer."""

    def __missing__(self, value: int) -> bytes:
        rest = value % (1 << 64)  # a negative int64 is written as its two's complement
        varint = bytearray()
        while rest > 127:
            varint.append(rest & 127 | 128)
            rest >>= 7
        varint.append(rest)
        self[value] = bytes(varint)
        return self[value]


_VARINTS = _Varints()

# Tags: field number · 8 + 2 (length-delimited).
_FIELD_1, _FIELD_2, _FIELD_3 = b"\x0a", b"\x12", b"\x1a"


def _field(tag: bytes, body: bytes) -> bytes:
    return tag + _VARINTS[len(body)] + body


@functools.cache
def _head(name: str, tag: bytes, size: int) -> bytes:
    """The bytes of an entry of the map that come before ``size`` bytes of packed values.

    The lengths in it depend only on the size, which takes few values: hence the cache.
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
      features: of the example.
      values: for each feature at most ``length`` numbers; the rest is filled with 0. ``bytes``
        count as the small integers that they are.

    Returns:
      A serialized ``tf.train.Example``.

    Raises:
      ValueError: a feature has more values than its length.
    """
    entries: list[bytes] = []
    for name, dtype, length, *_ in features:
        numbers = values[name]
        missing = length - len(numbers)
        if missing < 0:
            raise ValueError(f"{len(numbers)} values for {name}, which has {length} slots")
        if dtype == "float":
            packed = struct.pack(f"<{len(numbers)}f", *numbers) + bytes(4 * missing)
            tag = _FIELD_2
        else:
            packed = _int64_values(numbers) + bytes(missing)
            tag = _FIELD_3
        entries += (_head(name, tag, len(packed)), packed)
    return _field(_FIELD_1, b"".join(entries))
