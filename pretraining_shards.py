"""A corpus cut into shards, and the processes that turn shards into records.

A shard is some whole documents. Each is worked through by itself, with its own generator, so the
records do not depend on the number of processes, and no process holds more than a shard. Records go
from process to process through temporary files, because dupe_factor multiplies them; what stays in
memory is their place in the file and the order in which they are to be read.
"""

from __future__ import annotations

import array
import dataclasses
import itertools
import logging
import os
import tempfile
import time
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence

import inputs
import masking
import pretraining_instances as instances
import records
import workers

_log = logging.getLogger(__name__)

_REPORT_SECONDS = 10.0


# --------------------------------------------------------------------------------------------------
# Corpus → shards
# --------------------------------------------------------------------------------------------------


class Shard(typing.NamedTuple):
    """Some documents: one sentence a line, an empty line between documents; ``size`` in bytes."""

    number: int
    text: str
    size: int


def cut(paths: Iterable[str], shard_size: float) -> Iterator[Shard]:
    """Cuts a corpus into shards.

    A shard is closed before a document that would make it too big, but not with a single document
    in it: next-sentence pairs need a second one. A single document left over at the end joins the
    shard before.

    Args:
      paths: text files. The end of a file ends a document.
      shard_size: about how many bytes a shard has.

    Yields:
      Shards of at least two documents; one document only if the corpus has no more.
    """
    ready: list[str] = []  # a full shard, held back until two more documents are there
    current: list[str] = []
    size = ready_size = count = 0
    for text, length in _documents(paths):
        if len(current) > 1 and size + length > shard_size:
            if ready:
                yield Shard(count, "\n\n".join(ready), ready_size)
                count += 1
            ready, ready_size = current, size
            current, size = [], 0
        current.append(text)
        size += length
    if ready and len(current) == 1:
        ready, ready_size = ready + current, ready_size + size
        current = []
    for documents, total in ((ready, ready_size), (current, size)):
        if documents:
            yield Shard(count, "\n\n".join(documents), total)
            count += 1


def _documents(paths: Iterable[str]) -> Iterator[tuple[str, int]]:
    """Yields each document, its lines stripped and without empty ones, and the bytes it had."""
    for path in paths:
        lines: list[str] = []
        size = 0
        for line, length in _lines(path):
            size += length
            if line:
                lines.append(line)
            elif lines:
                yield "\n".join(lines), size
                lines, size = [], 0
        if lines:
            yield "\n".join(lines), size


def _lines(path: str) -> Iterator[tuple[str, int]]:
    """Yields each line stripped, and the bytes it had; warns once if some are not UTF-8."""
    first = lines = dropped = 0
    for number, raw in enumerate(inputs.read_lines(path), start=1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line = raw.decode(errors="ignore")
            first = first or number
            lines += 1
            dropped += len(raw) - len(line.encode())
        yield line.strip(), len(raw) + 1
    if lines:
        _log.warning(
            "%s:%d: not UTF-8; %d such bytes dropped in %d lines, this the first",
            path,
            first,
            dropped,
            lines,
        )


def corpus_size(paths: Iterable[str]) -> int | None:
    """Bytes of text in all files; ``None`` where only reading would tell (compressed or remote)."""
    total = 0
    for path in paths:
        if "://" in path or path.endswith(".gz"):
            return None
        total += os.path.getsize(path)
    return total


# --------------------------------------------------------------------------------------------------
# Shard → records, in a worker process
# --------------------------------------------------------------------------------------------------


@dataclasses.dataclass(frozen=True, kw_only=True)
class Job:
    """What every worker process knows.

    Attributes:
      encode: the tokenizer: sentence → ids.
      continues: for each id 1 if its piece begins with ``##``, else 0.
      recipe: how instances are made.
      unknown_id: id of ``[UNK]``.
      dupe_factor: passes over the corpus.
      random_seed: see ``pretraining_instances.shard_generator``.
      folder: where the temporary files go; the pool makes one for its run.
    """

    encode: Callable[[str], list[int]]
    continues: bytes
    recipe: instances.Recipe
    unknown_id: int
    dupe_factor: int
    random_seed: int
    folder: str = ""


@dataclasses.dataclass(kw_only=True)
class Counts:
    """What was seen; the fields add up over shards."""

    documents: int = 0
    single_sentence_documents: int = 0
    tokens: int = 0
    unknown_tokens: int = 0
    continuation_pieces: int = 0
    instances: int = 0
    dropped: int = 0

    def __add__(self, other: Counts) -> Counts:
        mine, others = dataclasses.asdict(self), dataclasses.asdict(other)
        return Counts(**{name: mine[name] + others[name] for name in mine})


class Built(typing.NamedTuple):
    """The records of a shard.

    Attributes:
      path: the temporary file that holds them back to back.
      ends: where each record ends in the file.
      order: the order in which they are to be read.
      counts: see there.
    """

    path: str
    ends: array.array
    order: array.array
    counts: Counts

    def read(self) -> Iterator[bytes]:
        """Yields the records in their final order, then removes the file."""
        # Unbuffered: the order is random, so whatever else a buffer holds is of no use.
        with open(self.path, "rb", buffering=0) as spill:
            for at in self.order:
                begin = self.ends[at - 1] if at else 0
                spill.seek(begin)
                yield spill.read(self.ends[at] - begin)
        os.remove(self.path)


def build_shard(job: Job, shard: Shard, board: _Board | None = None) -> Built:
    """Makes the records of a shard: the whole of what the original release did with a corpus.

    Args:
      job: see there.
      shard: the text.
      board: where progress is told and a stop is asked for.

    Returns:
      The records, in a file in ``job.folder``.
    """
    recipe = job.recipe
    features = records.pretraining_features(recipe.max_seq_length, recipe.max_predictions_per_seq)
    documents = instances.read_documents(shard.text, job.encode, recipe.words, job.continues)
    counts = _count(documents, job.unknown_id)
    generator = instances.shard_generator(job.random_seed, shard.number)
    generator.shuffle(documents)
    ends = array.array("Q")
    path = os.path.join(job.folder, f"shard-{shard.number}")
    with open(path, "wb") as spill:
        for _ in range(job.dupe_factor):
            before, written = len(ends), ends[-1] if ends else 0
            for instance in instances.one_pass(documents, recipe, generator):
                if instance is None:
                    counts.dropped += 1
                    continue
                written += spill.write(instances.serialize(instance, features))
                ends.append(written)
            if board is not None:
                board.tell(shard.size, len(ends) - before)
    order = array.array("L", range(len(ends)))
    masking.shuffle(order, generator)
    counts.instances = len(ends)
    return Built(path, ends, order, counts)


def _count(documents: Sequence[instances.Document], unknown_id: int) -> Counts:
    return Counts(
        documents=len(documents),
        single_sentence_documents=sum(document.sentences == 1 for document in documents),
        tokens=sum(len(document.tokens) for document in documents),
        unknown_tokens=sum(document.tokens.count(unknown_id) for document in documents),
        continuation_pieces=sum(sum(document.joins) for document in documents),
    )


class _Stopped(Exception):
    """The parent asked to stop."""


class _Board:
    """Numbers that all processes see: text gone through (bytes × passes), instances, stop."""

    def __init__(self) -> None:
        self._numbers = workers.CONTEXT.Array("Q", 3)

    def tell(self, size: int, made: int) -> None:
        """Called by a worker after each pass over its shard."""
        with self._numbers.get_lock():
            self._numbers[0] += size
            self._numbers[1] += made
            stop = self._numbers[2]
        if stop:
            raise _Stopped

    def read(self) -> tuple[int, int]:
        """Returns bytes × passes, and instances."""
        with self._numbers.get_lock():
            return self._numbers[0], self._numbers[1]

    def stop(self) -> None:
        """Ends the work of all processes after their pass."""
        with self._numbers.get_lock():
            self._numbers[2] = 1


class _Builder:
    """``build_shard`` for a worker process."""

    def __init__(self, job: Job, board: _Board):
        self._job = job
        self._board = board

    def __call__(self, shard: Shard) -> Built:
        try:
            return build_shard(self._job, shard, self._board)
        except OSError as error:
            # A failed write does not say which file: the disk with the temporary files may be full.
            raise OSError(error.errno, error.strerror, error.filename or self._job.folder) from None


# --------------------------------------------------------------------------------------------------
# The pool, in the parent process
# --------------------------------------------------------------------------------------------------


class Pool:
    """Worker processes that build shards; a context manager."""

    def __init__(self, count: int, job: Job, total: int | None):
        """Starts nothing yet.

        Args:
          count: processes; 0 takes one a core.
          job: what they do; its ``folder`` is replaced by a new temporary one.
          total: bytes of the corpus if known, for the time left.
        """
        count = count or workers.available_cores()
        self._dupe_factor = job.dupe_factor
        self._total = total
        self._begin = self._reported = time.monotonic()
        self._temporary = tempfile.TemporaryDirectory(prefix="pretraining_data_")
        self._board = _Board()
        self._workers: workers.Pool[Shard, Built] = workers.Pool(
            count,
            _Builder(dataclasses.replace(job, folder=self._temporary.name), self._board),
            f"a smaller --num_workers (now {count}) or a smaller --shard_size_mb",
        )

    def __enter__(self) -> Pool:
        return self

    def __exit__(self, kind, *rest) -> None:
        if kind is not None:
            self._board.stop()
        self._workers.__exit__(kind, *rest)
        self._temporary.cleanup()

    def build(self, shards: Iterator[Shard]) -> Iterator[Built] | None:
        """Hands shards to the workers, a few at a time, and takes the results in the same order.

        Args:
          shards: read as they are needed.

        Returns:
          The results; the first shards are being worked on when this returns, so that the parent
          can import TensorFlow meanwhile. ``None`` if there is not one shard.

        Raises:
          errors.UserError: (while iterating, too) a worker died.
        """
        first = next(shards, None)
        if first is None:
            return None
        return self._workers.map(itertools.chain([first], shards), self._report)

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        passed, made = self._board.read()
        done, seconds = passed / self._dupe_factor, now - self._begin
        left = ""
        if self._total and done:
            minutes, rest = divmod(int(max(self._total - done, 0) / done * seconds), 60)
            left = f" of {self._total / 1e6:.1f} MB, {minutes}:{rest:02d} left"
        _log.info("%.1f MB%s; %d instances, %d/s", done / 1e6, left, made, made / seconds)
