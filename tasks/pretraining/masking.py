"""Which tokens of a pre-training example are masked, and how: pure functions of a generator.

"Masked LM" of the BERT paper, section 3.1, and whole word masking as in the release of May 2019.
The same generator state gives the same masks as the original release: one draw a swap while the
candidates are shuffled, then up to three draws a masked token, in the order in which the shuffle
left them. Choosing the tokens draws nothing, so it may run before they are replaced.

Tokens are vocabulary ids. A masked token is one to predict, whatever replaces it in the input.
"""

import random
import typing
from collections.abc import MutableSequence, Sequence

import tokenization
from tasks.pretraining import options


class TokenIds(typing.NamedTuple):
    """What making examples needs of a vocabulary.

    Attributes:
      cls, sep, mask, unknown: ids of ``[CLS]``, ``[SEP]``, ``[MASK]`` and ``[UNK]``.
      never_masked: ids of control tokens.
      replacements: ids that random replacements are drawn from: the whole vocabulary, control
        tokens too, as in the original release.
      is_continuation: for each id 1 if its piece begins with ``##``, else 0.
    """

    cls: int
    sep: int
    mask: int
    unknown: int
    never_masked: frozenset[int]
    replacements: Sequence[int]
    is_continuation: bytes


def token_ids(tokenizer: tokenization.FullTokenizer) -> TokenIds:
    """The ids of a tokenizer's vocabulary, which must have the special tokens."""
    vocab = tokenizer.vocab
    return TokenIds(
        cls=vocab["[CLS]"],
        sep=vocab["[SEP]"],
        mask=vocab["[MASK]"],
        unknown=vocab["[UNK]"],
        # Only --protected_tokens brings these into a text.
        never_masked=frozenset(vocab[token] for token in ("[PAD]", "[CLS]", "[SEP]", "[MASK]")),
        replacements=list(vocab.values()),
        is_continuation=bytes(token.startswith("##") for token in tokenizer.tokens),
    )


def mask(
    tokens: Sequence[int],
    is_continuation: Sequence[int],
    data: options.PretrainingDataOptions,
    ids: TokenIds,
    generator: random.Random,
) -> tuple[list[int], list[int], list[int]]:
    """Masks some tokens of an example.

    Args:
      tokens: the example, special tokens included.
      is_continuation: with --do_whole_word_mask, for each token 1 if it belongs to the word of the
        token before it, else 0. Not read otherwise.
      data: how many tokens are masked, and how.
      ids: of the vocabulary.
      generator: the only source of randomness.

    Returns:
      The tokens with the masked ones replaced; the positions of the masked ones, ascending; the
      tokens that were there. There are no positions if nothing can be masked: every token is a
      control token, or every word has more pieces than may be masked.
    """
    candidates = [
        position for position, token in enumerate(tokens) if token not in ids.never_masked
    ]
    limit = num_to_mask(len(tokens), data)
    if data.do_whole_word_mask:
        words = group_words(candidates, is_continuation)
        shuffle(words, generator)
        chosen = choose_words(words, limit)
    else:
        shuffle(candidates, generator)
        chosen = [(position,) for position in candidates[:limit]]
    masked = list(tokens)
    replace(masked, chosen, data, ids, generator)
    positions = sorted([position for word in chosen for position in word])
    return masked, positions, [tokens[position] for position in positions]


def num_to_mask(length: int, data: options.PretrainingDataOptions) -> int:
    """Most tokens to mask in an example of ``length`` tokens: at least 1, halves round to even."""
    return min(data.max_predictions_per_seq, max(1, round(length * data.masked_lm_prob)))


def group_words(candidates: Sequence[int], is_continuation: Sequence[int]) -> list[list[int]]:
    """Positions that are masked together.

    A separator between two candidates does not end a word: where cutting left the second segment
    with a piece of a word in front, that piece is masked with the last word of the first segment.
    The original release does so, and equal draws give equal files only if this stays.

    Args:
      candidates: positions that may be masked, ascending.
      is_continuation: for each token 1 if it belongs to the word of the token before it, else 0.

    Returns:
      The positions of each word.
    """
    words: list[list[int]] = []
    for position in candidates:
        if is_continuation[position] and words:
            words[-1].append(position)
        else:
            words.append([position])
    return words


def choose_words(words: Sequence[Sequence[int]], limit: int) -> list[Sequence[int]]:
    """The first words that have at most ``limit`` pieces together; too long ones are skipped."""
    chosen = []
    left = limit
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
    data: options.PretrainingDataOptions,
    ids: TokenIds,
    generator: random.Random,
) -> None:
    """Replaces the chosen tokens in place: by ``[MASK]``, by themselves, or by random ones.

    Args:
      tokens: the example; changed.
      chosen: the positions of each word, in the order of the draws.
      data: the shares of the three; whether all pieces of a word are treated alike.
      ids: of the vocabulary.
      generator: one draw decides for ``[MASK]``, a second between the others, a third picks the
        token.
    """
    draw, draw_below = generator.random, generator.randrange
    mask_share, keep_share = data.mask_token_share, data.keep_share_of_others
    for word in chosen:
        as_mask = draw() < mask_share
        kept = not as_mask and draw() < keep_share
        for piece, position in enumerate(word):
            if piece and not data.whole_word_one_decision:
                as_mask = draw() < mask_share
                kept = not as_mask and draw() < keep_share
            if as_mask:
                tokens[position] = ids.mask
            elif not kept:
                tokens[position] = ids.replacements[draw_below(len(ids.replacements))]


def shuffle(items: MutableSequence, generator: random.Random) -> None:
    """Equals ``generator.shuffle(items)``, swap for swap and draw for draw, in half the time.

    ``random.shuffle`` asks for a number below i + 1 at every step, which draws as many bits as
    i + 1 has until the number fits. That number of bits is the same for a long run of steps: here
    it is computed once a run, and the only function called is the one that draws.
    """
    draw_bits = generator.getrandbits
    last = len(items) - 1
    while last > 0:
        bits = (last + 1).bit_length()
        # Steps last, ..., first draw below numbers of this many bits.
        first = max((1 << (bits - 1)) - 1, 1)
        for index in range(last, first - 1, -1):
            other = draw_bits(bits)
            while other > index:
                other = draw_bits(bits)
            items[index], items[other] = items[other], items[index]
        last = first - 1
