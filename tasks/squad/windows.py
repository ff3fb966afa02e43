"""One paragraph to windows: the pieces of its context and of its answers, the limits of windows.

Worker processes run this; the glossary is in ``squad_features``.
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
      errors.FlagError: windows would have no room for context, or would not advance.
    """

    max_seq_length: int = 384
    doc_stride: int = 128
    max_query_length: int = 64

    def __post_init__(self) -> None:
        # The flags have the first two limits, too. Callers without flags need them here: windows
        # that do not advance would never end.
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


class Paragraph(NamedTuple):
    """A paragraph with its questions: index, text, start and end of the answer (-1 if none)."""

    context: str
    questions: list[tuple[int, str, int, int]]


# The columns of ``Windows.table``; they become fields of ``squad_features.Features``.
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


class Windows(NamedTuple):
    """The windows of some paragraphs.

    Attributes:
      ids: int32, all windows concatenated.
      lengths: int32, of the windows.
      table: int32 [windows, len(COLUMNS)].
      pieces, words: int32, of all contexts concatenated.
      counts: int32, number of pieces of each context.
      narrowed: number of answers that are a part of their first or last word.
      without_pieces: indexes of the questions left out because their answer has no pieces.
    """

    ids: np.ndarray
    lengths: np.ndarray
    table: np.ndarray
    pieces: np.ndarray
    words: np.ndarray
    counts: np.ndarray
    narrowed: int
    without_pieces: list[int]


class WindowMaker:
    """Makes the windows of some paragraphs; one is sent to each worker process."""

    def __init__(self, tokenizer: tokenization.FullTokenizer, sizes: Sizes):
        self.tokenizer = tokenizer
        self.sizes = sizes
        cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self.cls, self.sep = array.array("i", [cls_id]), array.array("i", [sep_id])

    def __call__(self, paragraphs: Sequence[Paragraph]) -> Windows:
        windows = _WindowList(self)
        for paragraph in paragraphs:
            windows.add(paragraph)
        return windows.result()


class _WindowList:
    """Collects windows in flat arrays, as there may be millions of ids."""

    def __init__(self, maker: WindowMaker):
        self._maker = maker
        self._ids, self._lengths, self._table = (array.array("i") for _ in range(3))
        self._pieces, self._words, self._counts = (array.array("i") for _ in range(3))
        self._narrowed = 0
        self._without_pieces: list[int] = []

    def add(self, paragraph: Paragraph) -> None:
        """Appends the windows of a paragraph's questions."""
        context = _Context(paragraph.context, self._maker.tokenizer)
        self._pieces += context.pieces
        self._words += context.words
        self._counts.append(len(context.pieces))
        for index, text, start, end in paragraph.questions:
            first = last = -1  # pieces of the answer
            if start >= 0:
                first, last, is_narrower = context.answer(start, end)
                self._narrowed += is_narrower
                if last < first:
                    self._without_pieces.append(index)
                    continue
            self._cut(index, text, context.pieces, first, last)

    def _cut(self, index: int, text: str, pieces: array.array, first: int, last: int) -> None:
        """Appends the windows of a question; its answer is the pieces ``first`` to ``last``."""
        maker, sizes = self._maker, self._maker.sizes
        query = maker.tokenizer.encode(text)[: sizes.max_query_length]
        head = maker.cls + array.array("i", query) + maker.sep
        offset = len(head)
        windows = best_windows(len(pieces), sizes.max_seq_length - offset - 1, sizes.doc_stride)
        for span, (begin, end, best_begin, best_end) in enumerate(windows):
            self._ids += head
            self._ids += pieces[begin:end]
            self._ids += maker.sep
            self._lengths.append(offset + end - begin + 1)
            shift = offset - begin
            answer = (0, 0)  # [CLS]
            if begin <= first and last < end:
                answer = (first + shift, last + shift)
            best = (best_begin + shift, best_end + shift)
            self._table.extend((index, span, offset, begin, *best, *answer))

    def result(self) -> Windows:
        return Windows(
            ids=np.array(self._ids, np.int32),
            lengths=np.array(self._lengths, np.int32),
            table=np.array(self._table, np.int32).reshape(-1, len(COLUMNS)),
            pieces=np.array(self._pieces, np.int32),
            words=np.array(self._words, np.int32),
            counts=np.array(self._counts, np.int32),
            narrowed=self._narrowed,
            without_pieces=self._without_pieces,
        )


# Thai, Lao, Myanmar, Khmer, kana and ideographs: what spaces separate are whole phrases.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


class _Context:
    """A context in pieces."""

    def __init__(self, text: str, tokenizer: tokenization.FullTokenizer):
        self._text = text
        self._tokenizer = tokenizer
        self.pieces = array.array("i")
        self.words = array.array("i")
        self._first_pieces = []  # of each word; a word without pieces has that of the next word
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
          First and last piece, with last < first if there are none; and whether they are fewer than
          the pieces of the answer's words.
        """
        first_word = bisect.bisect_right(self._word_starts, start) - 1
        after = bisect.bisect_right(self._word_starts, end - 1)
        begin, stop = self._first_pieces[first_word], self._first_pieces[after]
        pieces = array.array("i", self._tokenizer.encode(self._text[start:end]))
        # As in the original, the first occurrence of the answer's own pieces in these words.
        for first in range(begin, stop - len(pieces) + 1) if pieces else ():
            if self.pieces[first : first + len(pieces)] == pieces:
                return first, first + len(pieces) - 1, len(pieces) < stop - begin
        if _UNSPACED.search(self._text, start - 1, end + 1):  # the characters around count too
            first, last = self._overlapping(first_word, after, start, end)
            return first, last, last - first + 1 < stop - begin
        return begin, stop - 1, False

    def _overlapping(self, word: int, after: int, start: int, end: int) -> tuple[int, int]:
        """First and last piece, of the words ``word`` up to ``after``, that overlap an answer.

        The original release takes the whole words. That is far too much where words are phrases,
        which are split into other pieces than the answer alone.
        """
        spans = []
        for index in range(word, after):
            origin = self._word_starts[index]
            text = squad_examples.words(self._text)[index]
            _, starts, ends = self._tokenizer.encode_with_offsets(text)
            spans += [(origin + a, origin + b) for a, b in zip(starts, ends, strict=True)]
        overlapping = [k for k, (a, b) in enumerate(spans) if a < end and b > start]
        begin = self._first_pieces[word]
        if not overlapping:
            return begin, begin + len(spans) - 1
        return begin + overlapping[0], begin + overlapping[-1]


@functools.lru_cache(maxsize=4096)
def best_windows(count: int, room: int, stride: int) -> tuple[tuple[int, int, int, int], ...]:
    """The windows of a context, and the pieces that have the most context in each.

    A piece belongs to the window with the largest min(pieces to its left, pieces to its right)
    + 0.01 × length; to the first of equal ones.

    Args:
      count: pieces of the context.
      room: pieces that fit into a window.
      stride: see ``Sizes.doc_stride``.

    Returns:
      For each window: its begin and end (exclusive), and begin and end of the pieces that belong to
      it. These are contiguous, because from left to right the lead of a window over a later one
      never grows.
    """
    spans: list[tuple[int, int]] = []
    while count and (not spans or spans[-1][1] < count):
        begin = spans[-1][0] + min(stride, room) if spans else 0
        spans.append((begin, min(begin + room, count)))
    scores = np.full(count, -1.0)
    owners = np.zeros(count, np.int64)
    for index, (begin, end) in enumerate(spans):
        positions = np.arange(end - begin)
        score = np.minimum(positions, positions[::-1]) + 0.01 * (end - begin)
        better = score > scores[begin:end]
        scores[begin:end][better] = score[better]
        owners[begin:end][better] = index
    borders = np.searchsorted(owners, np.arange(len(spans) + 1)).tolist()
    return tuple(
        (begin, end, borders[index], borders[index + 1]) for index, (begin, end) in enumerate(spans)
    )
