"""From documents to masked-LM / next-sentence examples: the walk through one shard of a corpus.

Everything is drawn from one generator in the order of the original release (its documents shuffle,
its targets, its pairs, its truncation, its masks), so the same seed gives the same examples. Two
things differ on purpose: a pair whose segments both come from one document is never labelled
"random" when it is the true continuation (see ``_random_segment_same_document``), and an example in
which nothing can be masked is dropped.

Tokens are vocabulary ids. A document is one flat list of tokens and the indices at which its
sentences start, so that consecutive sentences are a slice, and the sentence at which they reach a
length is found by binary search.
"""

import bisect
import random
import re
import typing
from collections.abc import Callable, Iterable, Iterator, Sequence

from tasks.pretraining import masking, options, records

# What separates words in the tokenizer: tab, LF, CR and categories Zs, Zl, Zp. (str.split also
# splits at control characters, which the tokenizer deletes, joining the text on their two sides.)
_SPACES = re.compile("[ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class Segment(typing.NamedTuple):
    """Consecutive tokens of a document, and its ``is_continuation`` for them."""

    tokens: list[int]
    is_continuation: bytes

    def cut(self, part: slice) -> "Segment":
        """Some of its tokens."""
        return Segment(self.tokens[part], self.is_continuation[part])


class Document(typing.NamedTuple):
    """A document of at least one sentence.

    Attributes:
      tokens: all sentences, one after the other.
      starts: index of the first token of each sentence, and at the end the number of tokens.
      is_continuation: for each token 1 if it belongs to the word of the token before it, else 0.
        Empty if examples are not masked by words.
    """

    tokens: list[int]
    starts: list[int]
    is_continuation: bytes

    @property
    def num_sentences(self) -> int:
        """Number of sentences."""
        return len(self.starts) - 1

    def span_end(self, first: int, length: int, stop: int) -> int:
        """The sentence before which a span ends that starts at sentence ``first`` and has at least
        one sentence and ``length`` tokens; ``stop`` if it is not reached before."""
        starts = self.starts
        end = bisect.bisect_left(starts, starts[first] + length, first + 1)
        return end if end < stop else stop

    def segment(self, first: int, end: int) -> Segment:
        """The tokens of sentences ``first`` to ``end`` - 1."""
        whole = Segment(self.tokens, self.is_continuation)
        return whole.cut(slice(self.starts[first], self.starts[end]))


class Instance(typing.NamedTuple):
    """An example before padding.

    Attributes:
      tokens: the input of the model, ``[CLS]`` A ``[SEP]`` B ``[SEP]`` or ``[CLS]`` A ``[SEP]``.
      boundary: number of tokens of segment 0: through the first ``[SEP]``.
      positions: of the masked tokens, ascending.
      labels: the original tokens at these positions.
      is_random_next: 1 if B does not follow A, else 0.
    """

    tokens: list[int]
    boundary: int
    positions: list[int]
    labels: list[int]
    is_random_next: int


def shard_generator(seed: int, shard: int) -> random.Random:
    """The generator of a shard. The first has the plain seed, as the original release, which had no
    shards; the others get seeds that share nothing with it or with each other."""
    return random.Random(seed if shard == 0 else f"{seed} shard {shard}")


# --------------------------------------------------------------------------------------------------
# Text → documents
# --------------------------------------------------------------------------------------------------


def read_documents(
    documents: Iterable[Sequence[str]],
    encode: Callable[[str], Sequence[int]],
    data: options.PretrainingDataOptions,
    ids: masking.TokenIds,
) -> list[Document]:
    """Tokenizes the documents of a shard.

    Args:
      documents: each a list of sentences.
      encode: the tokenizer: sentence → ids.
      data: whether examples are masked by words, and what a word is.
      ids: of the vocabulary.

    Returns:
      The documents that have tokens; sentences without tokens are left out.
    """
    tokenized = []
    for lines in documents:
        tokens: list[int] = []
        starts = [0]
        is_continuation = bytearray()
        for line in lines:
            if data.whole_word_from_spaces:
                for word in filter(None, _SPACES.split(line)):
                    pieces = encode(word)
                    tokens += pieces
                    is_continuation += b"\0" + b"\1" * (len(pieces) - 1) if pieces else b""
            else:
                tokens += encode(line)
            if len(tokens) > starts[-1]:
                starts.append(len(tokens))
        if not tokens:
            continue
        if data.do_whole_word_mask and not data.whole_word_from_spaces:
            is_continuation += bytes(map(ids.is_continuation.__getitem__, tokens))
        tokenized.append(Document(tokens, starts, bytes(is_continuation)))
    return tokenized


# --------------------------------------------------------------------------------------------------
# Documents → instances
# --------------------------------------------------------------------------------------------------


class InstanceBuilder:
    """Makes the instances of a shard.

    Args:
      documents: in the order of the walk, the same in every pass.
      data: how.
      ids: of the vocabulary.
      generator: draws everything.
    """

    def __init__(
        self,
        documents: Sequence[Document],
        data: options.PretrainingDataOptions,
        ids: masking.TokenIds,
        generator: random.Random,
    ):
        self._documents = documents
        self._data = data
        self._ids = ids
        self._generator = generator
        # Most tokens of text, beside [CLS] and the [SEP] of each segment.
        self._room = data.max_seq_length - (2 if data.no_nsp else 3)

    def one_pass(self) -> Iterator[Instance | None]:
        """Walks once through all documents.

        Yields:
          Instances; ``None`` for one in which nothing can be masked.
        """
        build = self._single_segments if self._data.no_nsp else self._pairs
        for index in range(len(self._documents)):
            target = self._room
            if self._generator.random() < self._data.short_seq_prob:
                target = self._generator.randint(2, self._room)
            yield from build(index, target)

    def _pairs(self, index: int, target: int) -> Iterator[Instance | None]:
        """Examples of two segments from one document; each gathers ``target`` tokens."""
        document, generator = self._documents[index], self._generator
        starts, count = document.starts, document.num_sentences
        if count == len(self._documents) == 1:
            return  # there is nothing to pair it with
        first = 0
        while first < count:
            end = document.span_end(first, target, count)
            middle = first + 1
            if end - first > 1:
                middle = first + generator.randint(1, end - first - 1)
            is_random_next = end - first == 1 or generator.random() < 0.5
            other, b_first, b_end = document, middle, end
            if is_random_next:
                b_length = target - (starts[middle] - starts[first])
                other = self._draw_document(index)
                if other is document:
                    is_random_next, b_first, b_end = self._random_segment_same_document(
                        document, first, middle, b_length
                    )
                else:
                    b_first = generator.randint(0, other.num_sentences - 1)
                    b_end = other.span_end(b_first, b_length, other.num_sentences)
            a, b = document.segment(first, middle), other.segment(b_first, b_end)
            yield self._pair(a, b, is_random_next)
            # The next pair starts with the sentences that B did not use.
            first = middle if is_random_next else end

    def _draw_document(self, index: int) -> Document:
        """A document other than ``index``; after ten draws of that one, that one.

        A document of one sentence has no other text to be paired with, so it gets its neighbour.
        """
        drawn = index
        for _ in range(10):
            drawn = self._generator.randint(0, len(self._documents) - 1)
            if drawn != index:
                break
        if drawn == index and self._documents[index].num_sentences == 1:
            drawn = index - 1
        return self._documents[drawn]

    def _random_segment_same_document(
        self, document: Document, first: int, middle: int, length: int
    ) -> tuple[bool, int, int]:
        """Second segment of a "random" pair that must come from the document of the first one.

        This happens in a corpus (or shard) of a single document, and with few documents by bad
        luck. The original release took any sentences, also the true continuation. Here the segment
        avoids the first one and the sentence that follows it. Where nothing else is left, the pair
        is labelled as what it is, an actual continuation. The document has two or more sentences;
        the first segment has the sentences ``first`` to ``middle`` - 1; the second gathers
        ``length`` tokens.

        Returns:
          Whether the pair is random; the first sentence of the second segment; the one after its
          last.
        """
        count = document.num_sentences
        after = min(middle + 1, count)
        choices = first + (count - after)
        if choices:
            start = self._generator.randint(0, choices - 1)
            if start < first:
                return True, start, document.span_end(start, length, first)
            start += after - first
            return True, start, document.span_end(start, length, count)
        return False, middle, count

    def _pair(self, a: Segment, b: Segment, is_random_next: bool) -> Instance | None:
        """Truncates two segments to the room and masks them."""
        a_part, b_part = truncate_pair(len(a.tokens), len(b.tokens), self._room, self._generator)
        a, b = a.cut(a_part), b.cut(b_part)
        cls, sep = self._ids.cls, self._ids.sep
        tokens = [cls, *a.tokens, sep, *b.tokens, sep]
        is_continuation = b"\0%b\0%b\0" % (a.is_continuation, b.is_continuation)
        return self._mask(tokens, is_continuation, len(a.tokens) + 2, int(is_random_next))

    def _single_segments(self, index: int, target: int) -> Iterator[Instance | None]:
        """Examples of one segment: sentences up to ``target`` tokens, truncated at random ends."""
        document = self._documents[index]
        first = 0
        while first < document.num_sentences:
            end = document.span_end(first, target, document.num_sentences)
            whole = document.segment(first, end)
            part, _ = truncate_pair(len(whole.tokens), 0, self._room, self._generator)
            text = whole.cut(part)
            tokens = [self._ids.cls, *text.tokens, self._ids.sep]
            yield self._mask(tokens, b"\0%b\0" % text.is_continuation, len(tokens), 0)
            first = end

    def _mask(
        self, tokens: list[int], is_continuation: bytes, boundary: int, is_random_next: int
    ) -> Instance | None:
        masked, positions, labels = masking.mask(
            tokens, is_continuation, self._data, self._ids, self._generator
        )
        if not positions:
            return None
        return Instance(masked, boundary, positions, labels, is_random_next)


def truncate_pair(
    a_length: int, b_length: int, room: int, generator: random.Random
) -> tuple[slice, slice]:
    """Which tokens of two segments stay when they are truncated to ``room`` tokens together.

    The longer segment loses a token, B when both are equal, at the front or at the end, until they
    fit. Each lost token takes one draw.
    """
    draw = generator.random
    a = b = 0
    a_end, b_end = a_length, b_length
    for _ in range(a_length + b_length - room):
        if a_end - a > b_end - b:
            if draw() < 0.5:
                a += 1
            else:
                a_end -= 1
        elif draw() < 0.5:
            b += 1
        else:
            b_end -= 1
    return slice(a, a_end), slice(b, b_end)


# --------------------------------------------------------------------------------------------------
# Instances → records
# --------------------------------------------------------------------------------------------------


def serialize(instance: Instance, features: Sequence[records.Feature]) -> bytes:
    """The record of an instance; ``features`` are those of ``records.pretraining_features``."""
    tokens, boundary, positions, labels, is_random_next = instance
    length = len(tokens)
    values = {
        "input_ids": tokens,
        "input_mask": b"\1" * length,
        "segment_ids": bytes(boundary) + b"\1" * (length - boundary),
        "masked_lm_positions": positions,
        "masked_lm_ids": labels,
        "masked_lm_weights": [1.0] * len(positions),
        "next_sentence_labels": (is_random_next,),
    }
    return records.encode_example(features, values)
