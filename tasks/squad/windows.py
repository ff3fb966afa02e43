"""One paragraph to windows: its context in pieces, where answers are in it, where windows begin.

This is what a worker process does; ``squad_features`` has the glossary.
"""

from __future__ import annotations

import array
import bisect
import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from command_line import errors
from tasks.squad import examples as squad_examples


@dataclasses.dataclass(frozen=True, kw_only=True)
class Sizes:
    """How windows are cut; the fields are the flags of the same names.

    Attributes:
      max_seq_length: most tokens of a window.
      doc_stride: pieces from the start of a window to the start of the next.
      max_query_length: most pieces of a question; the rest is cut off.

    Raises:
      errors.FlagError: no window would have room for context, or windows would not move on.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        # The flags have the first two bounds, too; here they guard callers that come without flags:
        # windows that do not move on have no end.
        if self.doc_stride < 1:
            raise errors.FlagError(f"--doc_stride={self.doc_stride}: expected at least 1")
        if self.max_query_length < 0:
            raise errors.FlagError(
                f"--max_query_length={self.max_query_length}: expected at least 0"
            )
        if self.max_seq_length <= self.max_query_length + 3:
            raise errors.FlagError(
                f"--max_seq_length={self.max_seq_length} leaves no room for the context: expected "
                f"more than --max_query_length + 3 = {self.max_query_length + 3}"
            )


class Item(NamedTuple):
    """A paragraph with its questions: index, text, start and end of the answer (-1 if none)."""

    context: str
    questions: list[tuple[int, str, int, int]]


# What is said of each window in ``Part.table``, by the names of ``squad_features.Features``.
COLUMNS = (
    "example_index",
    "doc_span_index",
    "doc_offset",
    "doc_start",
    "best_start",
    "best_end",
    "start_positions",
    "end_positions",
)


class Part(NamedTuple):
    """What is made of some paragraphs.

    Attributes:
      ids: int32, all windows joined.
      lengths: int32, of the windows.
      table: int32 [windows, len(COLUMNS)].
      pieces, words: int32, of all contexts joined.
      counts: int32, number of pieces of each context.
      narrowed: number of answers that are a part of their first or last word.
      without_pieces: indexes of questions left out, as nothing of their answer is left in tokens.
    """

    ids: np.ndarray
    lengths: np.ndarray
    table: np.ndarray
    pieces: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    narrowed: int
    without_pieces: list[int]


class Work:
    """What a worker process knows; called with some paragraphs, it makes their windows."""

    def __init__(self, tokenizer: tokenization.FullTokenizer, sizes: Sizes):
        self.tokenizer = tokenizer
        self.sizes = sizes
        cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self.cls, self.sep = array.array("i", [cls_id]), array.array("i", [sep_id])

    def __call__(self, items: Sequence[Item]) -> Part:
        rows = _Rows(self)
        for item in items:
            rows.add(item)
        return rows.part()


class _Rows:
    """Windows, one after the other; flat arrays, as there may be millions of ids."""

    def __init__(self, work: Work):
        self._work = work
        self._ids, self._lengths, self._table = (array.array("i") for _ in range(3))
        self._pieces, self._words, self._counts = (array.array("i") for _ in range(3))
        self._narrowed = 0
        self._without_pieces: list[int] = []

    def add(self, item: Item) -> None:
        """Appends the windows of a paragraph's questions."""
        context = _Context(item.context, self._work.tokenizer)
        self._pieces += context.pieces
        self._words += context.words
        self._counts.append(len(context.pieces))
        for index, text, start, end in item.questions:
            first = last = -1  # pieces of the answer
            if start >= 0:
                first, last, is_narrower = context.answer(start, end)
                self._narrowed += is_narrower
                if last < first:
                    self._without_pieces.append(index)
                    continue
            self._cut(index, text, context.pieces, first, last)

    def _cut(self, index: int, text: str, pieces: array.array, first: int, last: int) -> None:
        """Appends the windows of a question, whose answer is pieces ``first`` through ``last``."""
        work, sizes = self._work, self._work.sizes
        query = work.tokenizer.encode(text)[: sizes.max_query_length]
        head = work.cls + array.array("i", query) + work.sep
        offset = len(head)
        windows = best_windows(len(pieces), sizes.max_seq_length - offset - 1, sizes.doc_stride)
        for span, (begin, end, best_begin, best_end) in enumerate(windows):
            self._ids += head
            self._ids += pieces[begin:end]
            self._ids += work.sep
            self._lengths.append(offset + end - begin + 1)
            shift = offset - begin
            place = (0, 0)
            if begin <= first and last < end:
                place = (first + shift, last + shift)
            best = (best_begin + shift, best_end + shift)
            self._table.extend((index, span, offset, begin, *best, *place))

    def part(self) -> Part:
        ids, lengths, table, pieces, words, counts = (
            np.array(values, np.int32)
            for values in (
                self._ids,
                self._lengths,
                self._table,
                self._pieces,
                self._words,
                self._counts,
            )
        )
        return Part(
            ids,
            lengths,
            table.reshape(-1, len(COLUMNS)),
            pieces,
            words,
            counts,
            self._narrowed,
            self._without_pieces,
        )


# Thai, Lao, Myanmar, Khmer, kana and ideographs: between spaces stand whole phrases.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


class _Context:
    """A context in pieces."""

    def __init__(self, text: str, tokenizer: tokenization.FullTokenizer):
        self._text = text
        self._tokenizer = tokenizer
        self.pieces = array.array("i")
        self.words = array.array("i")
        self._first_pieces = []  # of each word; one without pieces shares that of the next
        for index, word in enumerate(squad_examples.words(text)):
            self._first_pieces.append(len(self.pieces))
            ids = tokenizer.encode(word)
            self.pieces.extend(ids)
            self.words.extend([index] * len(ids))
        self._first_pieces.append(len(self.pieces))

    @functools.cached_property
    def _word_starts(self) -> list[int]:
        return squad_examples.word_starts(self._text)

    def answer(self, start: int, end: int) -> tuple[int, int, bool]:
        """The pieces of an answer.

        Args:
          start, end: its characters; the first and the last belong to words.

        Returns:
          First and last piece, the last before the first if there is none; and whether they are
          fewer than those of the words.
        """
        first_word = bisect.bisect_right(self._word_starts, start) - 1
        after = bisect.bisect_right(self._word_starts, end - 1)
        begin, stop = self._first_pieces[first_word], self._first_pieces[after]
        wanted = array.array("i", self._tokenizer.encode(self._text[start:end]))
        # The first place in these words where the answer's own pieces stand, if there is one.
        for at in range(begin, stop - len(wanted) + 1) if wanted else ():
            if self.pieces[at : at + len(wanted)] == wanted:
                return at, at + len(wanted) - 1, len(wanted) < stop - begin
        if _UNSPACED.search(self._text, start - 1, end + 1):  # the neighbours count too
            first, last = self._touched(first_word, after, start, end)
            return first, last, last - first + 1 < stop - begin
        return begin, stop - 1, False

    def _touched(self, word: int, after: int, start: int, end: int) -> tuple[int, int]:
        """First and last piece of some words that have characters of an answer.

        The original release took the words whole. That is much too much where words are phrases,
        which are cut into pieces otherwise than the answer alone.
        """
        spans = []
        for at in range(word, after):
            origin = self._word_starts[at]
            text = squad_examples.words(self._text)[at]
            _, starts, ends = self._tokenizer.encode_with_offsets(text)
            spans += [(origin + a, origin + b) for a, b in zip(starts, ends, strict=True)]
        touched = [k for k, (a, b) in enumerate(spans) if a < end and b > start]
        begin = self._first_pieces[word]
        if not touched:
            return begin, begin + len(spans) - 1
        return begin + touched[0], begin + touched[-1]


@functools.lru_cache(maxsize=4096)
def best_windows(count: int, room: int, stride: int) -> tuple[tuple[int, int, int, int], ...]:
    """The windows of a context, and which pieces each shows best.

    Best is the window with the largest min(pieces to the left, pieces to the right) + 0.01 × length
    around a piece; of equal ones the first.

    Args:
      count: pieces of the context.
      room: pieces that a window can take.
      stride: see ``Sizes.doc_stride``.

    Returns:
      For each window: where it begins and ends (exclusive), and where the pieces that are best
      shown by it begin and end. These are one run each: from left to right, the lead of a window
      over a later one never grows.
    """
    spans: list[tuple[int, int]] = []
    while count and (not spans or spans[-1][1] < count):
        begin = spans[-1][0] + min(stride, room) if spans else 0
        spans.append((begin, min(begin + room, count)))
    scores = np.full(count, -1.0)
    owners = np.zeros(count, np.int64)
    for index, (begin, end) in enumerate(spans):
        places = np.arange(end - begin)
        score = np.minimum(places, places[::-1]) + 0.01 * (end - begin)
        better = score > scores[begin:end]
        scores[begin:end][better] = score[better]
        owners[begin:end][better] = index
    borders = np.searchsorted(owners, np.arange(len(spans) + 1)).tolist()
    return tuple(
        (begin, end, borders[index], borders[index + 1]) for index, (begin, end) in enumerate(spans)
    )
