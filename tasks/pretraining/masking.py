"""Which tokens of a pre-training example are masked, and how: pure functions of a generator.

"Masked LM" of the BERT paper, section 3.1, and whole word masking as in the release of May 2019.
The same generator state gives the same masks as the original release: one draw a swap while the
candidates are shuffled, then one or two draws a masked token, in the order in which the shuffle
left them. Choosing draws nothing, so it may run before the replacing.

Tokens are vocabulary ids. A masked token is one to predict, whatever is shown in its place.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import MutableSequence, Sequence


@dataclasses.dataclass(frozen=True, kw_only=True)
class MaskingConfig:
    """How examples are masked.

    Attributes:
      share: part of the tokens to mask, special tokens counted; 0.15 in the paper.
      limit: most tokens to mask in an example.
      mask_share: part of the masked tokens shown as ``[MASK]``; 0.8 in the paper.
      keep_share: part of the *others* shown unchanged, the rest is replaced at random; 0.5 in the
        paper.
      mask_id: id of ``[MASK]``.
      pool: ids that random replacements are drawn from: the whole vocabulary, control tokens too,
        as in the original release.
      never: ids that are never masked: ``[CLS]``, ``[SEP]`` and the other control tokens.
      whole_words: mask all pieces of a word together.
      one_decision: with ``whole_words``, all pieces of a word are shown alike, as ``[MASK]``,
        unchanged or replaced; else each piece decides for itself.
    """

    share: float
    limit: int
    mask_share: float
    keep_share: float
    mask_id: int
    pool: Sequence[int]
    never: frozenset[int]
    whole_words: bool = False
    one_decision: bool = False


def mask(
    tokens: Sequence[int], joins: Sequence[int], rule: MaskingConfig, generator: random.Random
) -> tuple[list[int], list[int], list[int]]:
    """Masks some tokens of an example.

    Args:
      tokens: the example, special tokens included.
      joins: with whole words, one flag a token: 1 where the token belongs to the word before it.
        Not read otherwise.
      rule: see there.
      generator: the only source of chance.

    Returns:
      The tokens with the masked ones replaced; the positions of the masked ones, ascending; what
      stood there. There are no positions if nothing can be masked: every token is a control token,
      or every word has more pieces than may be masked.
    """
    candidates = [at for at, token in enumerate(tokens) if token not in rule.never]
    most = num_to_mask(len(tokens), rule)
    if rule.whole_words:
        words = group_words(candidates, joins)
        shuffle(words, generator)
        chosen = choose_words(words, most)
    else:
        shuffle(candidates, generator)
        chosen = [(at,) for at in candidates[:most]]
    shown = list(tokens)
    replace(shown, chosen, rule, generator)
    positions = sorted([at for word in chosen for at in word])
    return shown, positions, [tokens[at] for at in positions]


def num_to_mask(length: int, rule: MaskingConfig) -> int:
    """Most tokens to mask in an example of ``length`` tokens: at least 1, halves round to even."""
    return min(rule.limit, max(1, round(length * rule.share)))


def group_words(candidates: Sequence[int], joins: Sequence[int]) -> list[list[int]]:
    """Positions that are masked together.

    A separator between two candidates does not end a word: where cutting left the second segment
    with a piece of a word in front, that piece is masked with the last word of the first segment.
    The original release does so, and equal draws give equal files only if this stays.

    Args:
      candidates: positions that may be masked, ascending.
      joins: one flag a token: 1 where the token belongs to the word before it.

    Returns:
      The positions of each word.
    """
    words: list[list[int]] = []
    for at in candidates:
        if joins[at] and words:
            words[-1].append(at)
        else:
            words.append([at])
    return words


def choose_words(words: Sequence[Sequence[int]], most: int) -> list[Sequence[int]]:
    """The first words that have at most ``most`` pieces together; too long ones are passed over."""
    chosen = []
    left = most
    for word in words:
        if left == 0:
            break
        if len(word) <= left:
            chosen.append(word)
            left -= len(word)
    return chosen


def replace(
    tokens: list[int],
    chosen: Sequence[Sequence[int]],
    rule: MaskingConfig,
    generator: random.Random,
) -> None:
    """Replaces the chosen tokens in place: by ``[MASK]``, by themselves, or by random ones.

    Args:
      tokens: the example; changed.
      chosen: the positions of each word, in the order of the draws.
      rule: see there.
      generator: one draw decides for ``[MASK]``, a second between the others, a third picks the
        token.
    """
    draw, draw_below = generator.random, generator.randrange
    for word in chosen:
        as_mask = draw() < rule.mask_share
        kept = not as_mask and draw() < rule.keep_share
        for nth, at in enumerate(word):
            if nth and not rule.one_decision:
                as_mask = draw() < rule.mask_share
                kept = not as_mask and draw() < rule.keep_share
            if as_mask:
                tokens[at] = rule.mask_id
            elif not kept:
                tokens[at] = rule.pool[draw_below(len(rule.pool))]


def shuffle(items: MutableSequence, generator: random.Random) -> None:
    """Does what ``generator.shuffle(items)`` does, swap for swap and draw for draw, in half the
    time.

    ``random.shuffle`` asks for a number below i + 1 at every step, which draws as many bits as i +
    1 has until the number fits. The number of bits is the same for a whole run of steps, so here it
    is worked out once a run, and no function is called but the one that draws.
    """
    draw_bits = generator.getrandbits
    last = len(items) - 1
    while last > 0:
        bits = (last + 1).bit_length()
        # Steps last, …, first draw below numbers of this many bits.
        first = max((1 << (bits - 1)) - 1, 1)
        for at in range(last, first - 1, -1):
            other = draw_bits(bits)
            while other > at:
                other = draw_bits(bits)
            items[at], items[other] = items[other], items[at]
        last = first - 1
