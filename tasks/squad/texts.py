"""From pieces back to text: the part of a context that a sequence of pieces was made of.

Pieces have lost case, accents and white space. The original release searches for their words among
those of the context and counts characters to map them back. This module does the same; where the
original gives up and takes whole words, because characters vanish or become several, it uses the
tokenizer's offsets, unless ``--answer_texts=original``.
"""

import bisect
import dataclasses
import functools
import itertools
import logging
import unicodedata
from collections.abc import Sequence
from typing import NamedTuple

import tokenization
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import options as squad_options
from tasks.squad import windows as squad_windows

_log = logging.getLogger(__name__)

_INFINITE = 1 << 40  # longer than any word


def get_final_text(
    pred_text: str, orig_text: str, do_lower_case: bool, *, as_original: bool = False
) -> str:
    """The part of a text that was tokenized to the given words.

    Args:
      pred_text: words of the tokenizer, joined by spaces.
      orig_text: text that contains them, and perhaps more.
      do_lower_case: whether it was lower-cased by the tokenizer.
      as_original: give up where the original release does.

    Returns:
      The part of ``orig_text`` that gives ``pred_text``, the first one if there are several; all of
      ``orig_text`` if there is none.
    """
    basic = tokenization.BasicTokenizer(do_lower_case=do_lower_case)
    tokenized = " ".join(basic.tokenize(orig_text))
    span = _find_span(pred_text, orig_text, tokenized, None if as_original else basic)
    return orig_text if span is None else orig_text[slice(*span)]


def _find_span(
    predicted: str, original: str, tokenized: str, basic: tokenization.BasicTokenizer | None
) -> tuple[int, int] | None:
    """Start and end of ``predicted`` in ``original``, which tokenizes to ``tokenized``.

    Without ``basic``, which aligns the two, there is none where they differ in length.
    """
    start = tokenized.find(predicted)
    if start < 0 or not predicted:
        return None
    # Apart from spaces, the two texts usually correspond character by character.
    first = start - tokenized.count(" ", 0, start)
    last = first + len(predicted) - predicted.count(" ") - 1
    if len(original) - original.count(" ") == len(tokenized) - tokenized.count(" "):
        return _nth_character(original, first), _nth_character(original, last) + 1
    if basic is None:
        return None
    starts, ends = basic.align(original)
    return _whole_clusters(original, starts[first], ends[last])


def _whole_clusters(text: str, start: int, end: int) -> tuple[int, int]:
    """A span extended so that it begins and ends between what a reader sees as characters.

    Marks (Unicode category M), zero-width joiners, what follows those, and the vowels and finals of
    Hangul belong to the character before them.
    """
    while 0 < start < len(text) and _continues_cluster(text, start):
        start -= 1
    while 0 < end < len(text) and _continues_cluster(text, end):
        end += 1
    return start, end


def _continues_cluster(text: str, index: int) -> bool:
    char = text[index]
    is_hangul = "\u1160" <= char <= "\u11ff" or "\ud7b0" <= char <= "\ud7ff"
    is_mark = unicodedata.category(char).startswith("M")
    return is_mark or is_hangul or "\u200d" in (char, text[index - 1])


def _nth_character(text: str, index: int) -> int:
    """The position of the character with ``index`` others before it, not counting spaces."""
    position = index
    while True:
        preceding = position - text.count(" ", 0, position)
        if preceding == index and text[position] != " ":
            return position
        position += max(index - preceding, 1)


class Text(NamedTuple):
    """A text in its context.

    Attributes:
      text: words joined by spaces; of the first and the last perhaps only a part.
      start, end: ``context[start:end]`` has these words. Where a text occurs several times, the
        occurrence that the pieces were made of.
    """

    text: str
    start: int
    end: int


@dataclasses.dataclass
class Passages:
    """All contexts.

    Attributes:
      contexts: of ``squad_examples``.
      features: made of these contexts.
      tokenizer: the features were made with it.
      options: with exact_answer_texts, a text is exactly the characters that the pieces were made
        of. Otherwise, as in the original release, it is found by a search for the pieces' words,
        and answer_texts says what happens where these differ in length from the text; pieces with
        ``[UNK]`` are never found, and their text is all of the words they belong to, in scripts
        without spaces perhaps a sentence.
    """

    contexts: Sequence[str]
    features: squad_features.Features
    tokenizer: tokenization.FullTokenizer
    options: squad_options.SquadOptions

    def __post_init__(self) -> None:
        tokenize = self.tokenizer.basic_tokenizer.tokenize
        self.tokenized = functools.cache(lambda word: " ".join(tokenize(word)))


class Passage:
    """The context with an index among all contexts, its words and its pieces."""

    def __init__(self, shared: Passages, index: int):
        self._shared = shared
        self._words = squad_examples.words(shared.contexts[index])
        self._starts = squad_examples.word_starts(shared.contexts[index])
        # Characters before each word once the words are joined by spaces.
        lengths = (len(word) + 1 for word in self._words)
        self._joined_starts = list(itertools.accumulate(lengths, initial=0))
        pieces = shared.features.pieces.row(index).tolist()
        self._pieces = shared.tokenizer.convert_ids_to_tokens(pieces)
        self._word_of = shared.features.words.row(index).tolist()  # of each piece
        self._measure_pieces()

    @functools.cached_property
    def _piece_spans(self) -> list[tuple[int, int]]:
        """Start and end of each piece in the words joined by spaces."""
        tokenizer, origins = self._shared.tokenizer, self._joined_starts[:-1]
        return squad_windows.piece_spans(tokenizer, self._words, origins)

    def _measure_pieces(self) -> None:
        """Finds where each piece ends in its word, and counts the irregular words: those that are
        not as long as their pieces, or have an unknown one."""
        self._piece_ends = []
        sizes = [0] * len(self._words)
        unknown = self._shared.tokenizer.wordpiece_tokenizer.unk_token
        for piece, word in zip(self._pieces, self._word_of, strict=True):
            size = len(piece) - 2 if piece.startswith("##") else len(piece)
            sizes[word] += _INFINITE if piece == unknown else size
            self._piece_ends.append(sizes[word])
        irregular = (size != len(word) for size, word in zip(sizes, self._words, strict=True))
        self._irregular_before = list(itertools.accumulate(irregular, initial=0))

    def text(self, first: int, last: int) -> Text:
        """The text of the pieces ``first`` through ``last``."""
        begin, end = self._word_of[first], self._word_of[last] + 1
        original = " ".join(self._words[begin:end])
        origin = self._joined_starts[begin]
        if self._shared.options.exact_answer_texts:
            start, stop = self._exact_span(first, last, origin)
        elif self._is_regular(first, begin, end):
            start, stop = 0, self._joined_starts[end - 1] - origin + self._piece_ends[last]
        else:
            start, stop = self._search(first, last, original)
            text = original[start:stop]
            # The search returns the first of several occurrences, not always that of the pieces.
            if original.find(text) != original.rfind(text):
                exact = self._exact_span(first, last, origin)
                if original[slice(*exact)] == text:
                    start, stop = exact
        span = self._in_context(origin + start), self._in_context(origin + stop)
        return Text(original[start:stop], *span)

    def _exact_span(self, first: int, last: int, origin: int) -> tuple[int, int]:
        """Start and end of pieces in words joined by spaces, which start at ``origin``."""
        return self._piece_spans[first][0] - origin, self._piece_spans[last][1] - origin

    def _is_regular(self, first: int, begin: int, end: int) -> bool:
        """Whether the search can be skipped, as mostly: the pieces start at the start of a word and
        the words ``begin`` to ``end`` are regular, so that it would find exactly these pieces."""
        starts_word = not first or self._word_of[first - 1] != begin
        return starts_word and self._irregular_before[begin] == self._irregular_before[end]

    def _search(self, first: int, last: int, original: str) -> tuple[int, int]:
        """Start and end of some pieces in ``original``, the words they belong to."""
        predicted = " ".join(self._pieces[first : last + 1])
        predicted = " ".join(predicted.replace(" ##", "").replace("##", "").split())
        words = self._words[self._word_of[first] : self._word_of[last] + 1]
        tokenized = " ".join(filter(None, map(self._shared.tokenized, words)))
        as_original = self._shared.options.answer_texts == "original"
        basic = None if as_original else self._shared.tokenizer.basic_tokenizer
        if span := _find_span(predicted, original, tokenized, basic):
            return span
        if self._shared.options.verbose_logging:
            _log.info("%r is not found in %r, which is taken whole", predicted, original)
        return 0, len(original)

    def _in_context(self, position: int) -> int:
        """Maps a position in the words joined by spaces to the context."""
        word = bisect.bisect_right(self._joined_starts, position) - 1
        return self._starts[word] + position - self._joined_starts[word]
