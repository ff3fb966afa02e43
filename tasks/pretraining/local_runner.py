"""A pool of local processes that turn shards into records."""

import dataclasses
import itertools
import logging
import tempfile
import time
from collections.abc import Iterator

from system import temporaries, worker_pool
from tasks.pretraining import corpus, shards

_log = logging.getLogger(__name__)


_REPORT_SECONDS = 10.0


class _Stopped(Exception):
    """The parent asked to stop."""


class SharedProgress:
    """Counts that all processes share: text processed (bytes × passes), instances, stop."""

    def __init__(self) -> None:
        self._counts = worker_pool.CONTEXT.Array("Q", 3)  # bytes, instances, 1 to stop

    def add(self, size: int, made: int) -> None:
        """Called by a worker after each pass over its shard."""
        with self._counts.get_lock():
            self._counts[0] += size
            self._counts[1] += made
            stop = self._counts[2]
        if stop:
            raise _Stopped

    def read(self) -> tuple[int, int]:
        """Returns bytes × passes, and instances."""
        with self._counts.get_lock():
            return self._counts[0], self._counts[1]

    def stop(self) -> None:
        """Ends the work of all processes after their current pass."""
        with self._counts.get_lock():
            self._counts[2] = 1


class _Builder:
    """``build_shard`` for a worker process."""

    def __init__(self, job: shards.Job, progress: SharedProgress):
        self._job = job
        self._progress = progress

    def __call__(self, shard: corpus.Shard) -> shards.ShardRecords:
        try:
            return shards.build_shard(self._job, shard, self._progress.add)
        except OSError as error:
            # A failed write does not say which file: the disk with the temporary files may be full.
            raise OSError(error.errno, error.strerror, error.filename or self._job.folder) from None


# --------------------------------------------------------------------------------------------------
# The pool, in the parent process
# --------------------------------------------------------------------------------------------------


class Pool:
    """Worker processes that build shards; a context manager."""

    def __init__(self, count: int, job: shards.Job, total: int | None):
        """Starts nothing yet.

        Args:
          count: processes; 0: as many as there are cores.
          job: what they know; its ``folder`` is replaced by a new temporary one.
          total: bytes of the corpus if known, to log the time left.
        """
        count = count or worker_pool.available_cores()
        self._dupe_factor = job.data.dupe_factor
        self._total = total
        self._begin = self._reported = time.monotonic()
        temporaries.remove_abandoned(tempfile.gettempdir(), r"pretraining_data_\w+")
        self._temporary = tempfile.TemporaryDirectory(
            prefix="pretraining_data_", suffix=temporaries.suffix()
        )
        self._progress = SharedProgress()
        self._workers: worker_pool.Pool[corpus.Shard, shards.ShardRecords] = worker_pool.Pool(
            count,
            _Builder(dataclasses.replace(job, folder=self._temporary.name), self._progress),
            f"a smaller --num_workers (now {count}) or a smaller --shard_size_mb",
        )

    def __enter__(self) -> "Pool":
        return self

    def __exit__(self, kind, *rest) -> None:
        if kind is not None:
            self._progress.stop()
        self._workers.__exit__(kind, *rest)
        self._temporary.cleanup()

    def build(self, parts: Iterator[corpus.Shard]) -> Iterator[shards.ShardRecords] | None:
        """Hands parts of the corpus to the workers, a few at a time; results keep their order.

        Args:
          parts: read as they are needed.

        Returns:
          The results; the workers have begun when this returns, so that the parent can import
          TensorFlow meanwhile. ``None`` if there are no parts.

        Raises:
          errors.UserError: (while iterating, too) a worker died.
        """
        first = next(parts, None)
        if first is None:
            return None
        return self._workers.map(itertools.chain([first], parts), self._report)

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported < _REPORT_SECONDS:
            return
        self._reported = now
        passed, made = self._progress.read()
        done, seconds = passed / self._dupe_factor, now - self._begin
        left = ""
        if self._total and done:
            minutes, rest = divmod(int(max(self._total - done, 0) / done * seconds), 60)
            left = f" of {self._total / 1e6:.1f} MB, {minutes}:{rest:02d} left"
        _log.info("%.1f MB%s; %d instances, %d/s", done / 1e6, left, made, made / seconds)
