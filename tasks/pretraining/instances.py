"""From documents to masked-LM / next-sentence examples: the walk through one shard of a corpus.

Everything is drawn from one generator in the order of the original release (its documents shuffle,
its targets, its pairs, its truncation, its masks), so the same seed gives the same examples. Two
things differ on purpose: a pair that had to be drawn from one and the same document is never
labelled "random" when it is the true continuation (see ``_elsewhere``), and an example in which
nothing can be masked is dropped.

Tokens are vocabulary ids. A document is one flat list of tokens and the places where its sentences
begin, so a run of sentences is a slice, and where a run reaches a length is a binary search.
"""

from __future__ import annotations

import bisect
import dataclasses
import random
import re
import typing
from collections.abc import Callable, Iterator, Sequence

from tasks.pretraining import masking, records

# What separates words in the tokenizer: tab, LF, CR and categories Zs, Zl, Zp. (str.split also
# parts at control characters, which the tokenizer deletes, and so joins what stands around them.)
_SPACES = re.compile("[ \t\n\r\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]+")


class Document(typing.NamedTuple):
    """A document of at least one sentence.

    Attributes:
      tokens: all sentences, one after the other.
      begins: index of the first token of each sentence, and at the end the number of tokens.
      joins: one byte a token: 1 where it belongs to the word of the token before it. Empty if
        examples are not masked by words.
    """

    tokens: list[int]
    begins: list[int]
    joins: bytes

    @property
    def sentences(self) -> int:
        """Number of sentences."""
        return len(self.begins) - 1

    def run(self, first: int, length: int, stop: int) -> int:
        """Where a run of whole sentences ends that starts at sentence ``first``: at the first end
        with ``length`` tokens or more, at ``stop`` at the latest; it has at least one sentence."""
        begins = self.begins
        end = bisect.bisect_left(begins, begins[first] + length, first + 1)
        return end if end < stop else stop


class Instance(typing.NamedTuple):
    """An example before padding.

    Attributes:
      tokens: as the model sees them, ``[CLS]`` A ``[SEP]`` B ``[SEP]`` or ``[CLS]`` A ``[SEP]``.
      boundary: number of tokens of segment 0: through the first ``[SEP]``.
      positions: where tokens are masked, ascending.
      labels: what stood there.
      is_random_next: 1 if B does not follow A, else 0.
    """

    tokens: list[int]
    boundary: int
    positions: list[int]
    labels: list[int]
    is_random_next: int


@dataclasses.dataclass(frozen=True, kw_only=True)
class InstanceConfig:
    """How examples are made; the fields are the flags of the same names and what follows from them.

    Attributes:
      max_seq_length: most tokens of an example, special tokens included.
      max_predictions_per_seq: places for masked tokens in a record.
      short_seq_prob: share of the passes over a document that make shorter examples.
      single_segment: examples of one segment, without next-sentence pairs.
      words: how words are told: "" (not needed), "pieces" (## joins) or "spaces".
      masking: what is masked.
      cls_id, sep_id: ids of ``[CLS]`` and ``[SEP]``.
    """

    max_seq_length: int
    max_predictions_per_seq: int
    short_seq_prob: float
    single_segment: bool
    words: str
    masking: masking.MaskingConfig
    cls_id: int
    sep_id: int

    @property
    def room(self) -> int:
        """Most tokens of text in an example."""
        return self.max_seq_length - (2 if self.single_segment else 3)


def shard_generator(seed: int, shard: int) -> random.Random:
    """The generator of a shard. The first has the plain seed, as the original release, which knew
    no shards; the others get seeds that share nothing with it or with each other."""
    return random.Random(seed if shard == 0 else f"{seed} shard {shard}")


# --------------------------------------------------------------------------------------------------
# Text → documents
# --------------------------------------------------------------------------------------------------


def read_documents(
    text: str,
    encode: Callable[[str], list[int]],
    words: str,
    continues: Sequence[int],
) -> list[Document]:
    """Tokenizes a shard.

    Args:
      text: one sentence a line, an empty line between documents.
      encode: the tokenizer: sentence → ids.
      words: as in ``Recipe``.
      continues: for each id 1 if its piece begins with ``##``, else 0.

    Returns:
      The documents that have tokens; sentences without tokens are left out.
    """
    documents = []
    for block in text.split("\n\n"):
        tokens: list[int] = []
        begins = [0]
        joins = bytearray()
        for line in block.split("\n"):
            if words == "spaces":
                for word in filter(None, _SPACES.split(line)):
                    ids = encode(word)
                    tokens += ids
                    joins += b"\0" + b"\1" * (len(ids) - 1) if ids else b""
            else:
                tokens += encode(line)
            if len(tokens) > begins[-1]:
                begins.append(len(tokens))
        if not tokens:
            continue
        if words == "pieces":
            joins += bytes(map(continues.__getitem__, tokens))
        documents.append(Document(tokens, begins, bytes(joins)))
    return documents


# --------------------------------------------------------------------------------------------------
# Documents → instances
# --------------------------------------------------------------------------------------------------


def one_pass(
    documents: Sequence[Document], recipe: InstanceConfig, generator: random.Random
) -> Iterator[Instance | None]:
    """Walks once through all documents.

    Args:
      documents: in the order of the walk, which the caller shuffles once and keeps for all passes.
      recipe: how.
      generator: where the last pass left it.

    Yields:
      Instances; ``None`` for one in which nothing can be masked.
    """
    make = _singles if recipe.single_segment else _pairs
    for index in range(len(documents)):
        target = recipe.room
        if generator.random() < recipe.short_seq_prob:
            target = generator.randint(2, recipe.room)
        yield from make(documents, index, target, recipe, generator)


def _pairs(
    documents: Sequence[Document],
    index: int,
    target: int,
    recipe: InstanceConfig,
    generator: random.Random,
) -> Iterator[Instance | None]:
    """Examples of two segments from one document: ``target`` is the length to gather in each."""
    document = documents[index]
    begins, last = document.begins, document.sentences
    at = 0
    while at < last:
        end = document.run(at, target, last)
        middle = at + 1
        if end - at > 1:
            middle = at + generator.randint(1, end - at - 1)
        random_next = end - at == 1 or generator.random() < 0.5
        source, first, stop = document, middle, end
        if random_next:
            wanted = target - (begins[middle] - begins[at])
            source = documents[_draw_other(index, len(documents), generator)]
            if source is document:
                random_next, first, stop = _elsewhere(document, at, middle, wanted, generator)
            else:
                first = generator.randint(0, source.sentences - 1)
                stop = source.run(first, wanted, source.sentences)
        yield _pair(
            (document, begins[at], begins[middle]),
            (source, source.begins[first], source.begins[stop]),
            random_next,
            recipe,
            generator,
        )
        # Sentences of the chunk that B did not use are gone through again.
        at = middle if random_next else end


def _draw_other(index: int, count: int, generator: random.Random) -> int:
    """Index of another document; after ten draws of this one, this one."""
    other = index
    for _ in range(10):
        other = generator.randint(0, count - 1)
        if other != index:
            break
    return other


def _elsewhere(
    document: Document, at: int, middle: int, wanted: int, generator: random.Random
) -> tuple[bool, int, int]:
    """Second segment of a "random" pair that must come from the document of the first one.

    This happens in a corpus (or shard) of a single document, and with few documents by bad luck.
    The original release took any place, also the true continuation. Here the segment keeps clear of
    the first one and of the sentence that follows it. Where nothing else is left, the pair becomes
    what it is, an actual continuation; a document of one sentence is paired with itself.

    Args:
      document: of both segments.
      at, middle: sentences of the first segment.
      wanted: tokens to gather.
      generator: one draw, if there is a choice.

    Returns:
      Whether the pair is random; the first sentence of the second segment; the one after its last.
    """
    last = document.sentences
    after = min(middle + 1, last)
    places = at + (last - after)
    if places:
        first = generator.randint(0, places - 1)
        if first < at:
            return True, first, document.run(first, wanted, at)
        first += after - at
        return True, first, document.run(first, wanted, last)
    if middle == last:
        return True, at, middle
    return False, middle, last


def _pair(
    left: tuple[Document, int, int],
    right: tuple[Document, int, int],
    random_next: bool,
    recipe: InstanceConfig,
    generator: random.Random,
) -> Instance | None:
    """Cuts two segments, each a document and two places in its tokens, to the room; masks them."""
    first, a, a_end = left
    second, b, b_end = right
    draw = generator.random
    for _ in range(a_end - a + b_end - b - recipe.room):
        # The longer loses a token, B when both are equal, in front or at the end.
        if a_end - a > b_end - b:
            if draw() < 0.5:
                a += 1
            else:
                a_end -= 1
        elif draw() < 0.5:
            b += 1
        else:
            b_end -= 1
    sep = [recipe.sep_id]
    tokens = [recipe.cls_id, *first.tokens[a:a_end], *sep, *second.tokens[b:b_end], *sep]
    joins = b"\0%b\0%b\0" % (first.joins[a:a_end], second.joins[b:b_end])
    return _masked(tokens, joins, a_end - a + 2, int(random_next), recipe, generator)


def _singles(
    documents: Sequence[Document],
    index: int,
    target: int,
    recipe: InstanceConfig,
    generator: random.Random,
) -> Iterator[Instance | None]:
    """Examples of one segment: sentences up to ``target`` tokens, cut at random ends to fit."""
    document = documents[index]
    at = 0
    while at < document.sentences:
        end = document.run(at, target, document.sentences)
        a, a_end = document.begins[at], document.begins[end]
        for _ in range(a_end - a - recipe.room):
            if generator.random() < 0.5:
                a += 1
            else:
                a_end -= 1
        tokens = [recipe.cls_id, *document.tokens[a:a_end], recipe.sep_id]
        joins = b"\0%b\0" % document.joins[a:a_end]
        yield _masked(tokens, joins, len(tokens), 0, recipe, generator)
        at = end


def _masked(
    tokens: list[int],
    joins: bytes,
    boundary: int,
    is_random_next: int,
    recipe: InstanceConfig,
    generator: random.Random,
) -> Instance | None:
    shown, positions, labels = masking.mask(tokens, joins, recipe.masking, generator)
    if not positions:
        return None
    return Instance(shown, boundary, positions, labels, is_random_next)


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
