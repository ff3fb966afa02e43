"""A corpus cut into shards of whole documents."""

import json
import logging
import os
import typing
from collections.abc import Iterable, Iterator

from command_line import errors
from system import inputs

_log = logging.getLogger(__name__)

_JUDGED_LINES = 3  # of a file, to find out whether it is text


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


def cut(paths: Iterable[str], shard_size: float, text_key: str = "") -> Iterator[Shard]:
    """Cuts a corpus into shards.

    A shard ends before a document that would make it larger than ``shard_size``, unless it has a
    single document: next-sentence pairs need a second one. A single document left over at the end
    joins the shard before it.

    Args:
      paths: text files. The end of a file ends a document.
      shard_size: approximate bytes of a shard.
      text_key: see ``read_lines``.

    Yields:
      Shards of at least two documents; of one document only if the corpus has no more.
    """
    previous = Shard(-1, [], 0)  # held back, because the last document may have to join it
    current = Shard(0, [], 0)
    for lines, size in _documents(paths, text_key):
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


def _documents(paths: Iterable[str], text_key: str) -> Iterator[tuple[list[str], int]]:
    """Yields the lines of each document, stripped and not empty, and its size in bytes."""
    for path in paths:
        lines: list[str] = []
        size = 0
        for line, length in read_lines(path, text_key):
            size += length
            if line:
                lines.append(line)
            elif lines:
                yield lines, size
                lines, size = [], 0
        if lines:
            yield lines, size


def read_lines(path: str, text_key: str = "") -> Iterator[tuple[str, int]]:
    """Yields each line of a text stripped, and its size in bytes.

    Args:
      path: UTF-8 text; one warning tells of bytes that are not. Or a file with a JSON object a
        line, whose texts are separated by an empty line.
      text_key: key of the text in these objects; empty for plain text.

    Raises:
      errors.UserError: a plain text of JSON objects; or a line that is not an object with the key.
    """
    if text_key:
        for number, (line, _) in enumerate(_decoded_lines(path), 1):
            yield from _json_text(path, number, line, text_key)
        return
    begin: list[str] = []  # the first lines with text
    markup = 0
    for line, size in _decoded_lines(path):
        if line and len(begin) < _JUDGED_LINES:
            begin.append(line)
            if len(begin) == _JUDGED_LINES:
                _check_plain(path, begin)
        markup += line.startswith(("<doc ", "</doc>"))
        yield line, size
    if 0 < len(begin) < _JUDGED_LINES:
        _check_plain(path, begin)
    if markup:
        _log.warning(
            "%s: %d lines are the markup of a Wikipedia extractor (<doc …>, </doc>) and count as "
            "text; delete them first, with sed '/^<.*doc/d'",
            path,
            markup,
        )


def _decoded_lines(path: str) -> Iterator[tuple[str, int]]:
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


def _check_plain(path: str, lines: list[str]) -> None:
    """Refuses text of which the first lines are JSON objects."""
    objects = list(filter(None, map(_json_object, lines)))
    if len(objects) < len(lines):
        return
    texts = {key: value for key, value in objects[0].items() if isinstance(value, str)}
    key = max(texts, key=lambda name: len(texts[name]), default="text")
    raise errors.UserError(
        f"{path}:1: a JSON object, and so are the lines after it; --text_key={key} takes the text "
        "under that key of each as a document, of which \\n ends the lines"
    )


def _json_object(line: str) -> dict[str, typing.Any]:
    """The object in a line; empty if there is none."""
    if not line.startswith("{"):
        return {}
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _json_text(path: str, number: int, line: str, key: str) -> Iterator[tuple[str, int]]:
    """The lines of the text in an object, and an empty one."""
    if not line:
        return
    text = _json_object(line).get(key)
    if not isinstance(text, str):
        raise errors.UserError(
            f"{path}:{number}: {line[:40]!r} is not a JSON object with a text under {key!r} "
            f"(--text_key)"
        )
    for part in text.split("\n"):
        yield part.strip(), len(part.encode(errors="replace")) + 1
    yield "", len(line) - len(text) if len(line) > len(text) else 0


def corpus_size(paths: Iterable[str]) -> int | None:
    """Total bytes of the files; ``None`` if some are compressed or remote, so reading must tell."""
    total = 0
    for path in paths:
        if "://" in path or inputs.how_packed(path):
            return None
        total += os.path.getsize(path)
    return total
