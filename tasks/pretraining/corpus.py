"""A corpus cut into shards of whole documents."""

from __future__ import annotations

import logging
import os
import typing
from collections.abc import Iterable, Iterator

from system import inputs

_log = logging.getLogger(__name__)


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
