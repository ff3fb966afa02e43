"""From pieces back to text: the part of a context that a run of pieces stands for.

Pieces have lost case, accents and white space. The original release looked for their words among
those of the context and counted characters back. So it is done here; and where it gave up, because
characters vanish or become several, the tokenizer says where they come from.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import logging
from collections.abc import Sequence
from typing import NamedTuple

import tokenization
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features

_log = logging.getLogger(__name__)

_NEVER = 1 << 40  # no word is so long


def final_text(predicted: str, original: str, do_lower_case: bool) -> str:
    """The part of a text that its tokens stand for.

    Args:
      predicted: words as the tokenizer makes them, joined by spaces.
      original: text that has them, and perhaps more.
      do_lower_case: how it was tokenized.

    Returns:
      The part of ``original`` that gives ``predicted``, the first if there are several; all of it
      if there is none.
    """
    basic = tokenization.BasicTokenizer(do_lower_case=do_lower_case)
    found = _place(predicted, original, " ".join(basic.tokenize(original)), basic)
    return original if found is None else original[found[0] : found[1]]


def _place(
    predicted: str, original: str, tokenized: str, basic: tokenization.BasicTokenizer
) -> tuple[int, int] | None:
    """Where ``predicted`` stands in ``original``, whose words are ``tokenized``; or nowhere."""
    at = tokenized.find(predicted)
    if at < 0 or not predicted:
        return None
    # Spaces apart, the two texts mostly correspond character by character.
    first = at - tokenized.count(" ", 0, at)
    last = first + len(predicted) - predicted.count(" ") - 1
    if len(original) - original.count(" ") == len(tokenized) - tokenized.count(" "):
        return _nth_character(original, first), _nth_character(original, last) + 1
    starts, ends = basic.align(original)
    return starts[first], ends[last]


def _nth_character(text: str, index: int) -> int:
    """Where the character stands that has ``index`` others before it, spaces not counted."""
    at = index
    while True:
        before = at - text.count(" ", 0, at)
        if before == index and text[at] != " ":
            return at
        at += max(index - before, 1)


class Text(NamedTuple):
    """A text in its context.

    Attributes:
      text: some words joined by spaces, the first and the last perhaps in part.
      start, end: they are the words of ``context[start:end]``; where the pieces stand, if the text
        stands there.
    """

    text: str
    start: int
    end: int


class Passages:
    """All contexts.

    Args:
      contexts: of ``squad_examples``.
      features: made of them.
      tokenizer: with which they were made.
      exact: cut texts where their pieces stand. Otherwise, as in the original release, where their
        words are found; and words with an unknown one, ``[UNK]``, are never found, so that all of
        the words in question are the text. In scripts without spaces that may be a sentence.
      verbose: log what is not found.
    """

    def __init__(
        self,
        contexts: Sequence[str],
        features: squad_features.Features,
        tokenizer: tokenization.FullTokenizer,
        exact: bool = False,
        verbose: bool = False,
    ):
        self._contexts = contexts
        self._features = features
        self.tokenizer = tokenizer
        self.exact = exact
        self.verbose = verbose
        self._tokenized: dict[str, str] = {}

    def passage(self, index: int) -> Passage:
        """One context; it remembers the texts it was asked for."""
        pieces = self._features.pieces.row(index).tolist()
        words = self._features.words.row(index).tolist()
        return Passage(self, self._contexts[index], pieces, words)

    def tokenized(self, word: str) -> str:
        """The tokens of a word, joined by spaces."""
        found = self._tokenized.get(word)
        if found is None:
            tokens = self.tokenizer.basic_tokenizer.tokenize(word)
            found = self._tokenized[word] = " ".join(tokens)
        return found


class Passage:
    """A context, its words and its pieces.

    Args:
      shared: what all contexts share.
      context: the text.
      pieces: ids of its pieces.
      word_of: index of the word of each piece.
    """

    def __init__(
        self, shared: Passages, context: str, pieces: Sequence[int], word_of: Sequence[int]
    ):
        self._shared = shared
        self._words = squad_examples.words(context)
        self._starts = squad_examples.word_starts(context)
        # Characters before each word once the words are joined by spaces.
        lengths = (len(word) + 1 for word in self._words)
        self._joined_starts = list(itertools.accumulate(lengths, initial=0))
        self._tokenized = list(map(shared.tokenized, self._words))
        self._pieces = shared.tokenizer.convert_ids_to_tokens(pieces)
        self._word_of = word_of
        self._measure()
        self._known: dict[tuple[int, int], Text] = {}

    @functools.cached_property
    def _places(self) -> list[tuple[int, int]]:
        """Start and end of each piece in the words joined by spaces."""
        places = []
        for word, at in zip(self._words, self._joined_starts, strict=False):
            _, starts, ends = self._shared.tokenizer.encode_with_offsets(word)
            places += [(at + start, at + end) for start, end in zip(starts, ends, strict=True)]
        return places

    def _measure(self) -> None:
        """Finds how far each piece reaches in its word, and which words are simple: as long as
        their pieces, none of them unknown."""
        self._reach = []
        sizes = [0] * len(self._words)
        unknown = self._shared.tokenizer.wordpiece_tokenizer.unk_token
        for piece, word in zip(self._pieces, self._word_of, strict=True):
            size = len(piece) - 2 if piece.startswith("##") else len(piece)
            sizes[word] += _NEVER if piece == unknown else size
            self._reach.append(sizes[word])
        odd = (size != len(word) for size, word in zip(sizes, self._words, strict=True))
        self._odd_before = list(itertools.accumulate(odd, initial=0))

    def text(self, first: int, last: int) -> Text:
        """The text from one piece through another."""
        found = self._known.get((first, last))
        if found is None:
            found = self._known[first, last] = self._find(first, last)
        return found

    def _find(self, first: int, last: int) -> Text:
        begin, end = self._word_of[first], self._word_of[last] + 1
        original = " ".join(self._words[begin:end])
        at = self._joined_starts[begin]
        if self._shared.exact:
            start, stop = self._own_place(first, last, at)
        elif self._is_simple(first, begin, end):
            start, stop = 0, self._joined_starts[end - 1] - at + self._reach[last]
        else:
            start, stop = self._search(first, last, original)
            text = original[start:stop]
            # The search gives the first place of a text that stands there several times.
            if original.find(text) != original.rfind(text):
                own_start, own_stop = self._own_place(first, last, at)
                if original[own_start:own_stop] == text:
                    start, stop = own_start, own_stop
        return Text(original[start:stop], self._in_context(at + start), self._in_context(at + stop))

    def _own_place(self, first: int, last: int, at: int) -> tuple[int, int]:
        """Where pieces stand in words joined by spaces, the first of which starts at ``at``."""
        return self._places[first][0] - at, self._places[last][1] - at

    def _is_simple(self, first: int, begin: int, end: int) -> bool:
        """The search would find pieces from the start of some simple words just there: most do."""
        starts_word = not first or self._word_of[first - 1] != begin
        return starts_word and self._odd_before[begin] == self._odd_before[end]

    def _search(self, first: int, last: int, original: str) -> tuple[int, int]:
        """Where the words of pieces stand in ``original``, the words they belong to."""
        predicted = " ".join(self._pieces[first : last + 1])
        predicted = " ".join(predicted.replace(" ##", "").replace("##", "").split())
        words = self._tokenized[self._word_of[first] : self._word_of[last] + 1]
        basic = self._shared.tokenizer.basic_tokenizer
        found = _place(predicted, original, " ".join(filter(None, words)), basic)
        if found is not None:
            return found
        if self._shared.verbose:
            _log.info("%r is not found in %r, which is taken whole", predicted, original)
        return 0, len(original)

    def _in_context(self, at: int) -> int:
        """Where a character of the words joined by spaces, or the end of one, is in the context."""
        word = bisect.bisect_right(self._joined_starts, at) - 1
        return self._starts[word] + at - self._joined_starts[word]
