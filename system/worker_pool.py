"""Worker processes that do one kind of work: results in order, and no process left behind.

A worker ends with its parent, however that ends, and leaves Ctrl-C and hang-ups to it. TensorFlow
is not needed here, so workers start in the time that their own modules take.
"""

import collections
import concurrent.futures
import itertools
import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import process
from typing import Any, Generic, TypeVar

from command_line import errors

Item = TypeVar("Item")
Result = TypeVar("Result")

# Spawned, not forked: a fork would copy the locks of TensorFlow's threads, and workers need none of
# what the parent holds.
CONTEXT = multiprocessing.get_context("spawn")


def available_cores() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


class Pool(Generic[Item, Result]):
    """Processes that work on items; a context manager.

    Args:
      count: processes.
      work: called with an item, in a worker. Each worker gets its copy when it starts.
      cure: what to try where a worker is killed, for the message.
    """

    def __init__(self, count: int, work: Callable[[Item], Result], cure: str):
        self._count = count
        self._cure = cure
        self._executor = process.ProcessPoolExecutor(
            count, mp_context=CONTEXT, initializer=_start, initargs=(work,)
        )

    def __enter__(self) -> "Pool[Item, Result]":
        return self

    def __exit__(self, *_: object) -> None:
        self._executor.shutdown(wait=True, cancel_futures=True)

    def map(
        self, items: Iterable[Item], meanwhile: Callable[[], None] | None = None
    ) -> Iterator[Result]:
        """Hands items to the workers, a few at a time, and takes the results in the same order.

        Args:
          items: read as they are needed. The first ones are being worked on when this returns.
          meanwhile: called every second while a result is waited for.

        Raises:
          errors.UserError: (while iterating, too) a worker was killed.
        """
        rest = iter(items)
        # Two a worker: enough to do while the parent is busy with a result.
        first = itertools.islice(rest, 2 * self._count)
        waiting = collections.deque(map(self._submit, first))
        return self._results(waiting, rest, meanwhile)

    def _results(
        self,
        waiting: collections.deque[concurrent.futures.Future],
        rest: Iterator[Item],
        meanwhile: Callable[[], None] | None,
    ) -> Iterator[Result]:
        while waiting:
            future = waiting.popleft()
            while meanwhile and not future.done():
                concurrent.futures.wait([future], timeout=1.0)
                meanwhile()
            try:
                result = future.result()
            except process.BrokenProcessPool:
                raise self._killed() from None
            yield result
            waiting.extend(map(self._submit, itertools.islice(rest, 1)))

    def _submit(self, item: Item) -> concurrent.futures.Future:
        try:
            return self._executor.submit(_work_on, item)
        except process.BrokenProcessPool:
            raise self._killed() from None

    def _killed(self) -> errors.UserError:
        return errors.UserError(
            f"a worker process was killed, perhaps because memory ran out; try {self._cure}"
        )


# --------------------------------------------------------------------------------------------------
# In a worker
# --------------------------------------------------------------------------------------------------

_work: Callable[[Any], Any]


def _start(work: Callable[[Any], Any]) -> None:
    global _work
    _work = work
    # Ctrl-C, and the end of a connection, reach every process of the terminal; the parent alone
    # decides what they mean.
    for name in ("SIGINT", "SIGHUP"):
        if hasattr(signal, name):
            signal.signal(getattr(signal, name), signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Without this a worker would wait for ever after its parent was killed."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)


def _work_on(item: Any) -> Any:
    return _work(item)
