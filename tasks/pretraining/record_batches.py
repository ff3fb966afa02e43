"""From record files to batches: a shuffled order that is a pure function of (seed, position).

Records are read in windows of consecutive ones. In each epoch the windows are permuted over all
files; groups of them are read together and their records permuted. The position in the data is one
number, the count of examples consumed, so a resumed run continues at once where it stopped,
whatever the number of devices: every replica takes its slice of the same global batch.
"""

import itertools
import logging
import sys
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from tensorflow.python.lib.io import tf_record

from command_line import errors
from tasks.pretraining import record_files, records
from training import batching

WINDOW = 1024  # records read at once
GROUP = 8  # windows whose records are mixed

_BLOCK = 1 << 22  # bytes read at once while the records are counted

# In messages of TensorFlow about a record whose values cannot be used.
_FLAWS = ("Can't parse serialized Example", "the records do not fit the model", "is not in [")

_log = logging.getLogger(__name__)


class Window(NamedTuple):
    """Consecutive records of a file."""

    path: str
    offset: int  # bytes
    records: int


def find_windows(path: str, size: int = WINDOW, limit: int = sys.maxsize) -> list[Window]:
    """Walks through a TFRecord file by its length headers, without parsing.

    Args:
      path: the file.
      size: records in a window.
      limit: records after which to stop.

    Raises:
      errors.UserError: the file ends inside a record.
    """
    windows: list[Window] = []
    position = start = count = 0
    block, block_start = b"", 0
    with tf.io.gfile.GFile(path, "rb") as file:
        total = file.size()
        while position < total and limit > 0:
            if position + 8 > block_start + len(block):
                file.seek(position)
                block, block_start = file.read(_BLOCK), position
                block += bytes(max(0, 8 - len(block)))
            # A record: length (8 bytes), its checksum (4), the data, their checksum (4).
            end = position + 16 + record_files.LENGTH.unpack_from(block, position - block_start)[0]
            if end > total:  # TensorFlow would reserve memory for any length, and be killed
                raise _broken(path, position)
            position = end
            count += 1
            limit -= 1
            if count == size or position >= total or not limit:
                windows.append(Window(path, start, count))
                start, count = position, 0
    return windows


def _broken(path: str, position: int) -> errors.UserError:
    return errors.UserError(
        f"{path}: breaks off inside a record after byte {position}; make the file again with "
        "create_pretraining_data.py, or wait for the process that is still writing it"
    )


def read_window(window: Window) -> np.ndarray:
    """The serialized records, object array [count]; TensorFlow checks their checksums."""
    reader = tf_record.tf_record_random_reader(window.path)
    serialized = np.empty(window.records, object)
    offset = window.offset
    try:
        for index in range(window.records):
            serialized[index], offset = reader.read(offset)
    except (tf.errors.DataLossError, IndexError):
        raise errors.UserError(
            f"{window.path}: corrupt record at byte {offset}; make the file again with "
            "create_pretraining_data.py"
        ) from None
    finally:
        reader.close()
    return serialized


def shuffled(windows: Sequence[Window], seed: int, start: int = 0) -> Iterator[bytes]:
    """Endless stream of serialized records, each once an epoch, from number ``start`` on."""
    total = sum(window.records for window in windows)
    epoch, skip = divmod(start, total)
    while True:
        # RandomState: NumPy promises that its stream never changes.
        generator = np.random.RandomState([seed & 0xFFFFFFFF, epoch & 0xFFFFFFFF])
        order = generator.permutation(len(windows))
        for first in range(0, len(order), GROUP):
            group = [windows[index] for index in order[first : first + GROUP]]
            size = sum(window.records for window in group)
            mix = generator.permutation(size)
            if skip < size:
                serialized = np.concatenate([read_window(window) for window in group])
                yield from serialized[mix[skip:]]
            skip = max(0, skip - size)
        epoch += 1


def in_order(windows: Sequence[Window]) -> Iterator[bytes]:
    """Every record once."""
    for window in windows:
        yield from read_window(window)


class RecordBatches:
    """Batches of a set of record files.

    Args:
      paths: record files.
      features: what a record holds. Values beyond the limit of a feature are an error.
      batch_size: examples in a global batch.
      seed: of the order; None reads every record once, in the order of the files.
      max_batches: most batches when reading once.
      static_shapes: keep sequences at their full length instead of the longest of the batch.

    Raises:
      errors.UserError: files that end inside a record, or no records.
    """

    def __init__(
        self,
        paths: Sequence[str],
        features: Sequence[records.Feature],
        *,
        batch_size: int,
        seed: int | None,
        max_batches: int | None = None,
        static_shapes: bool = False,
    ):
        self._windows: list[Window] = []
        left = sys.maxsize if max_batches is None else max_batches * batch_size
        for path in paths:
            windows = find_windows(path, limit=left)
            left -= sum(window.records for window in windows)
            self._windows += windows
        self._features = features
        self._seed = seed
        self._max_batches = max_batches
        self._static_shapes = static_shapes
        self.batch_size = batch_size
        self.num_examples = sum(window.records for window in self._windows)
        if not self.num_examples:
            raise errors.UserError(f"no records in {', '.join(paths)}")

    def dataset(self, context: tf.distribute.InputContext, start: int = 0) -> tf.data.Dataset:
        """Batches of this input pipeline's replicas, one after the other.

        Args:
          context: tells how many replicas there are and which ones this pipeline feeds.
          start: examples consumed before.

        Returns:
          dict of tensors [B / replicas, ...]: the features, and example_weights float32, 0 for
          padding rows of the last batch.
        """
        share = batching.replica_shard(self.batch_size, context)

        def slices() -> Iterator[np.ndarray]:
            for batch in self._batches(start):
                for replica in share.replicas:
                    first = replica * share.rows
                    yield np.array(batch[first : first + share.rows], object)

        raw = tf.data.Dataset.from_generator(
            slices, output_signature=tf.TensorSpec([None], tf.string)
        )

        # AutoGraph would rewrite the parser in a second, and change nothing.
        @tf.autograph.experimental.do_not_convert
        def parse(rows: tf.Tensor) -> dict[str, tf.Tensor]:
            return self._parse(rows, share.rows)

        parsed = raw.map(parse, num_parallel_calls=2, deterministic=True)
        return batching.prefetch(parsed, share)

    def to_user_error(self, error: tf.errors.OpError) -> errors.UserError | None:
        """The mistake in the records that an error of the pipeline or of a step comes from."""
        raised = batching.raised_user_error(error)
        if raised or not any(text in error.message for text in _FLAWS):
            return raised
        return self._first_flaw()

    def _first_flaw(self) -> errors.UserError | None:
        """The first record that cannot be used, in the order of the files; None if all can."""
        _log.info("looking for the record at fault")
        path, number = "", 0
        for window in self._windows:
            if window.path != path:
                path, number = window.path, 0
            for record in read_window(window):
                number += 1
                if flaw := record_files.flaw(self._features, record):
                    return errors.UserError(f"{path}: record {number}: {flaw}")
        return None

    def _batches(self, start: int) -> Iterator[list[bytes]]:
        if self._seed is None:
            stream = in_order(self._windows)
        else:
            stream = shuffled(self._windows, self._seed, start)
        batches = iter(lambda: list(itertools.islice(stream, self.batch_size)), [])
        return itertools.islice(batches, self._max_batches)

    def _parse(self, rows: tf.Tensor, count: int) -> dict[str, tf.Tensor]:
        """Serialized records, string [b], as a batch of ``count`` rows."""
        batch = record_files.parse(self._features, rows)
        checks = [
            tf.debugging.Assert(
                tf.reduce_all(
                    (batch[name] >= 0) & (batch[name] < (limit or batch[name].dtype.max))
                ),
                [f"{_FLAWS[1]}: {name}"],
            )
            for name, _, _, _, limit, _ in self._features
        ]
        with tf.control_dependencies(checks):
            batch = {name: tf.identity(x) for name, x in batch.items()}
        batch["example_weights"] = tf.ones(tf.shape(rows))
        missing = count - tf.shape(rows)[0]
        batch = {name: _pad_rows(x, missing, count) for name, x in batch.items()}
        return batch if self._static_shapes else batching.trim(batch)


def _pad_rows(x: tf.Tensor, missing: tf.Tensor, rows: int) -> tf.Tensor:
    """Appends rows of zeros: [b, ...] -> [rows, ...]."""
    padded = tf.pad(x, [[0, missing]] + [[0, 0]] * (x.shape.rank - 1))
    padded.set_shape([rows, *x.shape[1:]])
    return padded
