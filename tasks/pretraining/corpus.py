"""A corpus cut into shards of whole documents."""

import logging
import os
import typing
from collections.abc import Iterable, Iterator

from system import inputs

_log = logging.getLogger(__name__)


class Shard(typing.NamedTuple):
    """Consecutive documents of a corpus.

    Attributes:
      number: 0, 1, ... in the order of the corpus.
      documents: the lines of each document, stripped and not empty.
      size: bytes that the documents have in their files.
    """

    number: int
    documents: list[list[str]]
    size: int


def cut(paths: Iterable[str], shard_size: float) -> Iterator[Shard]:
    """Cuts a corpus into shards.

    A shard ends before a document that would make it larger than ``shard_size``, unless it has a
    single document: next-sentence pairs need a second one. A single document left over at the end
    joins the shard before it.

    Args:
      paths: text files. The end of a file ends a document.
      shard_size: approximate bytes of a shard.

    Yields:
      Shards of at least two documents; of one document only if the corpus has no more.
    """
    previous = Shard(-1, [], 0)  # held back, because the last document may have to join it
    current = Shard(0, [], 0)
    for lines, size in _documents(paths):
        if len(current.documents) > 1 and current.size + size > shard_size:
            if previous.documents:
                yield previous
            previous, current = current, Shard(current.number + 1, [], 0)
        current.documents.append(lines)
        current = current._replace(size=current.size + size)
    if previous.documents and len(current.documents) == 1:
        documents = previous.documents + current.documents
        yield Shard(previous.number, documents, previous.size + current.size)
        return
    for shard in (previous, current):
        if shard.documents:
            yield shard


def _documents(paths: Iterable[str]) -> Iterator[tuple[list[str], int]]:
    """Yields the lines of each document, stripped and not empty, and its size in bytes."""
    for path in paths:
        lines: list[str] = []
        size = 0
        for line, length in _lines(path):
            size += length
            if line:
                lines.append(line)
            elif lines:
                yield lines, size
                lines, size = [], 0
        if lines:
            yield lines, size


def _lines(path: str) -> Iterator[tuple[str, int]]:
    """Yields each line stripped, and its size in bytes; warns once if some are not UTF-8."""
    first_bad = bad_lines = dropped = 0
    for number, raw in enumerate(inputs.read_lines(path), start=1):
        try:
            line = raw.decode()
        except UnicodeDecodeError:
            line = raw.decode(errors="ignore")
            first_bad = first_bad or number
            bad_lines += 1
            dropped += len(raw) - len(line.encode())
        yield line.strip(), len(raw) + 1
    if bad_lines:
        _log.warning(
            "%s:%d: not UTF-8; %d such bytes dropped in %d lines, this the first",
            path,
            first_bad,
            dropped,
            bad_lines,
        )


def corpus_size(paths: Iterable[str]) -> int | None:
    """Total bytes of the files; ``None`` if some are compressed or remote, so reading must tell."""
    total = 0
    for path in paths:
        if "://" in path or path.endswith(".gz"):
            return None
        total += os.path.getsize(path)
    return total
