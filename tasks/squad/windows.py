"""One paragraph to windows: the pieces of its context and of its answers, the limits of windows.

Worker processes run this; the glossary is in ``squad_features``.
"""

import array
import bisect
import dataclasses
import functools
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from tasks.squad import examples as squad_examples
from tasks.squad import options as squad_options


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


_integers = functools.partial(array.array, "i")


@dataclasses.dataclass
class Windows:
    """The windows of some paragraphs, in flat arrays, as there may be millions of ids.

    Attributes:
      ids: int32, all windows concatenated.
      lengths: int32, of the windows.
      table: int32, len(COLUMNS) values for each window.
      pieces, words: int32, of all contexts concatenated.
      counts: int32, number of pieces of each context.
      narrowed: number of answers that are a part of their first or last word.
      without_pieces: indexes of the questions left out because their answer has no pieces.
    """

    ids: array.array = dataclasses.field(default_factory=_integers)
    lengths: array.array = dataclasses.field(default_factory=_integers)
    table: array.array = dataclasses.field(default_factory=_integers)
    pieces: array.array = dataclasses.field(default_factory=_integers)
    words: array.array = dataclasses.field(default_factory=_integers)
    counts: array.array = dataclasses.field(default_factory=_integers)
    narrowed: int = 0
    without_pieces: list[int] = dataclasses.field(default_factory=list)


class WindowMaker:
    """Makes the windows of some paragraphs; one is sent to each worker process."""

    def __init__(self, tokenizer: tokenization.FullTokenizer, options: squad_options.SquadOptions):
        self._tokenizer = tokenizer
        self._options = options
        cls_id, sep_id = tokenizer.convert_tokens_to_ids(["[CLS]", "[SEP]"])
        self._cls, self._sep = _integers([cls_id]), _integers([sep_id])

    def __call__(self, paragraphs: Sequence[Paragraph]) -> Windows:
        windows = Windows()
        for paragraph in paragraphs:
            context = _Context(paragraph.context, self._tokenizer)
            windows.pieces += context.pieces
            windows.words += context.words
            windows.counts.append(len(context.pieces))
            for index, text, start, end in paragraph.questions:
                answer = [-1, -1]  # first and last piece
                if start >= 0:
                    *answer, is_narrower = context.answer(start, end)
                    windows.narrowed += is_narrower
                    if answer[1] < answer[0]:
                        windows.without_pieces.append(index)
                        continue
                self._cut(windows, index, text, context.pieces, answer)
        return windows

    def _cut(
        self, windows: Windows, index: int, text: str, pieces: array.array, answer: Sequence[int]
    ) -> None:
        """Appends the windows of a question; ``answer`` is its first and last piece."""
        options, (first, last) = self._options, answer
        query = self._tokenizer.encode(text)[: options.max_query_length]
        head = self._cls + _integers(query) + self._sep
        offset = len(head)
        spans = best_windows(len(pieces), options.max_seq_length - offset - 1, options.doc_stride)
        for number, (begin, end, best_begin, best_end) in enumerate(spans):
            windows.ids += head + pieces[begin:end] + self._sep
            windows.lengths.append(offset + end - begin + 1)
            shift = offset - begin
            inside = begin <= first and last < end
            position = (first + shift, last + shift) if inside else (0, 0)  # [CLS]
            best = (best_begin + shift, best_end + shift)
            windows.table.extend((index, number, offset, begin, *best, *position))


# Thai, Lao, Myanmar, Khmer, kana and ideographs: what spaces separate are whole phrases.
_UNSPACED = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff]")


class _Context:
    """A context in pieces."""

    def __init__(self, text: str, tokenizer: tokenization.FullTokenizer):
        self._text = text
        self._tokenizer = tokenizer
        self.pieces, self.words = _integers(), _integers()
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
        pieces = _integers(self._tokenizer.encode(self._text[start:end]))
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
        words = squad_examples.words(self._text)[word:after]
        spans = piece_spans(self._tokenizer, words, self._word_starts[word:after])
        overlapping = [k for k, (a, b) in enumerate(spans) if a < end and b > start]
        begin = self._first_pieces[word]
        if not overlapping:
            return begin, begin + len(spans) - 1
        return begin + overlapping[0], begin + overlapping[-1]


def piece_spans(
    tokenizer: tokenization.FullTokenizer, words: Sequence[str], origins: Sequence[int]
) -> list[tuple[int, int]]:
    """Start and end of each piece of some words, which start at ``origins``."""
    spans = []
    for word, origin in zip(words, origins, strict=True):
        _, starts, ends = tokenizer.encode_with_offsets(word)
        spans += [(origin + start, origin + end) for start, end in zip(starts, ends, strict=True)]
    return spans


@functools.lru_cache(maxsize=4096)
def best_windows(count: int, room: int, stride: int) -> tuple[tuple[int, int, int, int], ...]:
    """The windows of a context, and the pieces that have the most context in each.

    A piece belongs to the window with the largest min(pieces to its left, pieces to its right)
    + 0.01 × length; to the first of equal ones.

    Args:
      count: pieces of the context.
      room: pieces that fit into a window.
      stride: pieces from the start of a window to the start of the next; at least 1.

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
