"""The rules of ``tokenization`` as a TensorFlow graph, for models that are served raw text.

Only operations of TensorFlow itself are used, so a saved graph loads wherever TensorFlow does. What
each code point becomes is not written down a second time: ``tokenization`` is asked about every one
of them, and the answers are saved with the graph. Unicode is therefore that of the Python which
built the graph, not that of the server.

One difference is known. Where accents are stripped, NFD also sorts marks that follow each other by
their combining class; here they stay in the order of the text. The marks that are stripped anyway
do not matter, so it takes two spacing marks (category Mc) of different non-zero classes in the
wrong order: U+302E or U+302F before a spacing virama such as U+1B44, say, or musical stems and
dots (U+1D165 to U+1D172) swapped. No released vocabulary has any of them: the word is [UNK] in
either order.

Axes: B texts, C characters of all texts one after the other, W words of all texts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tokenization
from command_line import options

_CODES = 0x110000  # of Unicode; higher numbers stand for protected tokens
_CODE_BITS = 21
_PAGE = 256
_SPACE = ord(" ")
_BETWEEN = 0  # separates words; no vocabulary has a token with this character

# What the neighbours of a capital sigma can be. It is lower-cased to the final form if the nearest
# character before it that counts has a case, and the nearest one behind it has none.
_HAS_CASE = 1
_DOES_NOT_COUNT = 2
_SIGMA, _FINAL_SIGMA = ord("Σ"), ord("ς")


class GraphTokenizer(tf.Module):
    """Texts → WordPiece ids, as ``FullTokenizer.encode``, inside a graph.

    Args:
      text: vocabulary and rules; all of them are followed.

    Attributes:
      tokenizer: its twin in Python.

    Raises:
      errors.UserError: the vocabulary cannot be read, or lacks a protected token.
    """

    def __init__(self, text: options.TokenizerOptions):
        super().__init__(name="tokenizer")
        self.tokenizer = tokenization.create_tokenizer(text)
        basic = tokenization.BasicTokenizer(
            text.do_lower_case,
            strip_accents=text.strip_accents,
            space_symbols=text.space_symbols,
        )
        names = [token.strip() for token in text.protected_tokens.split(",")]
        protected = {name: _CODES + k for k, name in enumerate(filter(None, names))}
        changes = _changes(basic)
        changes.update({code: [_BETWEEN, code, _BETWEEN] for code in protected.values()})
        pieces = _pieces(self.tokenizer.vocab)
        # A protected token is one character, whatever its length.
        pieces[0].update({(code,): self.tokenizer.encode(t)[0] for t, code in protected.items()})
        self._unknown = self.tokenizer.vocab[self.tokenizer.wordpiece_tokenizer.unk_token]
        self._longest_word = self.tokenizer.wordpiece_tokenizer.max_input_chars_per_word
        with tf.device("CPU:0"):
            self._changes = _Changes(changes)
            self._cases = _Cases(_cases(basic)) if text.do_lower_case else None
            self._pieces = _Trie(*pieces)
            spelled = {tuple(map(ord, token)): code for token, code in protected.items()}
            self._protected = _Trie(spelled) if spelled else None

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:  # string [B] -> int32 [B, tokens]
        """The ids of each text; bytes that are not UTF-8 are left out."""
        with tf.device("CPU:0"):  # where strings live
            codes, rows = self._decode(texts)
            if self._protected is not None:
                codes, rows = _join(codes, rows, self._protected)
            if self._cases is not None:
                codes = self._cases.mark_final_sigmas(codes)
            codes, sources = self._changes(codes)
            ids, places = self._split(codes)
            rows = tf.gather(tf.gather(rows, sources), places)
            return tf.RaggedTensor.from_value_rowids(ids, rows, tf.shape(texts, tf.int64)[0])

    def _decode(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Code points, a space after each text, and the text of each; int32 [C], int64 [C]."""
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        spaces = tf.fill([tf.shape(texts)[0], 1], _SPACE)
        codes = tf.concat([codes, spaces], 1)
        return codes.values, codes.value_rowids()

    def _split(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Words to pieces.

        Args:
          codes: int32 [C], words that _BETWEEN separates and ends.

        Returns:
          Ids, int32 [pieces], and the index of the first character of each, int32 [pieces].
        """
        words = _Words.find(codes)
        is_short = tf.gather(words.lengths <= self._longest_word, words.of)
        tried = _where(words.is_letter & is_short)
        roots = 1 - tf.cast(tf.gather(words.is_start, tried), tf.int32)
        ids, lengths = self._pieces.longest(codes, tried, roots)
        reached, failed = _follow(codes, lengths, _where(words.is_start), words.lengths)
        failed = tf.gather(failed, words.of)
        places = _where(tf.where(failed, words.is_start, reached))
        ids = tf.where(failed, self._unknown, ids)
        return tf.gather(ids, places), places


class Inputs(NamedTuple):
    """What the model reads; int32 [B, F], F the longest row, zeros behind the shorter ones."""

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor


def pack(
    ids_a: tf.RaggedTensor,  # int32 [B, tokens]
    ids_b: tf.RaggedTensor,  # int32 [B, tokens]; a row without any: there is no second text
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
) -> Inputs:
    """Lays texts out as [CLS] A [SEP], or [CLS] A [SEP] B [SEP].

    When they are too long, the longer one loses its last token until both fit, B if they are
    equally long.
    """
    length_a, length_b = ids_a.row_lengths(), ids_b.row_lengths()  # int64 [B]
    has_b = tf.cast(length_b > 0, tf.int64)
    room = max_seq_length - 2 - has_b
    # While both are long they shrink together, down to half the room each, A to the larger half.
    kept_a = tf.minimum(length_a, tf.maximum(room - length_b, (room + has_b) // (1 + has_b)))
    kept_b = tf.minimum(length_b, room - kept_a)
    cls = tf.fill([tf.size(length_a), 1], cls_id)
    sep = tf.fill([tf.size(length_a), 1], sep_id)
    parts = [cls, _first(ids_a, kept_a), sep, _first(ids_b, kept_b), _first(sep, has_b)]
    ids = tf.concat(parts, 1)
    lengths = ids.row_lengths()
    padded = ids.to_tensor()
    mask = tf.sequence_mask(lengths, tf.shape(padded)[1], tf.int32)
    return Inputs(padded, mask, mask - tf.sequence_mask(kept_a + 2, tf.shape(padded)[1], tf.int32))


def _first(rows: tf.Tensor | tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
    """The first elements of each row; ``counts`` int64 [B], at most the row's length."""
    rows = tf.RaggedTensor.from_tensor(rows) if isinstance(rows, tf.Tensor) else rows
    of = rows.value_rowids()
    columns = tf.range(tf.size(of, tf.int64)) - tf.gather(rows.row_starts(), of)
    keep = columns < tf.gather(counts, of)
    values, of = tf.boolean_mask(rows.values, keep), tf.boolean_mask(of, keep)
    return tf.RaggedTensor.from_value_rowids(values, of, rows.nrows())


# --------------------------------------------------------------------------------------------------
# What tokenization says
# --------------------------------------------------------------------------------------------------


def _changes(basic: tokenization.BasicTokenizer) -> dict[int, list[int]]:
    """What each code point becomes between letters; not those that stay what they are."""
    found = {}
    for page in _pages():
        together = f"a{'a'.join(map(chr, page))}a"
        if basic.tokenize(together) == [together]:  # true of most pages, and quickly asked
            continue
        for code, words in zip(page, _ask(basic, [f"a{chr(code)}a" for code in page]), strict=True):
            new = " ".join(words)[1:-1]
            if len(words) > 1 or new != chr(code):
                found[code] = [_BETWEEN if char == " " else ord(char) for char in new]
    return found


def _cases(basic: tokenization.BasicTokenizer) -> dict[int, int]:
    """_HAS_CASE or _DOES_NOT_COUNT, of the code points that are one of them."""
    found = {}
    for page in _pages():
        texts = [f"A{chr(code)}Σ" for code in page]
        if "ς" not in "".join(basic.tokenize(" ".join(texts))):
            continue
        for code, words in zip(page, _ask(basic, texts), strict=True):
            if words[-1].endswith("ς"):
                alone = basic.tokenize(f"{chr(code)}Σ")[-1].endswith("ς")
                found[code] = _HAS_CASE if alone else _DOES_NOT_COUNT
    return found


def _pages() -> Iterator[range]:
    for plane in (0, 1, 2, 3, 14):  # the others are empty, or for private use
        for first in range(plane << 16, plane + 1 << 16, _PAGE):
            yield range(first, first + _PAGE)


def _ask(basic: tokenization.BasicTokenizer, texts: list[str]) -> list[list[str]]:
    """The words of each text; one call for all takes a tenth of the time."""
    end = "end"  # a word that no text has
    words = basic.tokenize(f" {end} ".join([*texts, ""]))
    ends = [-1, *(index for index, word in enumerate(words) if word == end)]
    return [words[first + 1 : last] for first, last in zip(ends, ends[1:], strict=False)]


def _pieces(vocab: Mapping[str, int]) -> tuple[dict[tuple[int, ...], int], ...]:
    """Spelling → id, of the pieces that begin a word and of those that go on with one."""
    begin: dict[tuple[int, ...], int] = {}
    go_on: dict[tuple[int, ...], int] = {}
    for token, index in vocab.items():
        # "#" is always a word by itself, so no word begins with "##".
        kind, letters = (go_on, token[2:]) if token.startswith("##") else (begin, token)
        if letters:
            kind[tuple(map(ord, letters))] = index
    return begin, go_on


# --------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------


def _table(values: Any, dtype: Any = np.int32) -> tf.Variable:
    # Variables, not constants: those would be stored once for every use.
    return tf.Variable(np.asarray(values, dtype), trainable=False)


class _Changes(tf.Module):
    """Puts for each code point what it becomes: nothing, or one or more others."""

    def __init__(self, changes: Mapping[int, list[int]]):
        super().__init__()
        codes = sorted(changes)
        self._codes = _table(codes)
        # Number 0 is for the code points that stay.
        self._lengths = _table([1, *(len(changes[code]) for code in codes)])
        self._starts = _table(np.cumsum(self._lengths.numpy()) - self._lengths.numpy())
        self._values = _table([0, *(new for code in codes for new in changes[code])])

    def __call__(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """int32 [C] → the new codes, and from which element each comes; int32 both."""
        numbers, is_known = _find(self._codes, codes)
        numbers = tf.where(is_known, numbers + 1, 0)
        lengths = tf.gather(self._lengths, numbers)
        sources = tf.repeat(tf.range(tf.size(codes)), lengths)
        inside = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(lengths) - lengths, sources)
        numbers = tf.gather(numbers, sources)
        new = tf.gather(self._values, tf.gather(self._starts, numbers) + inside)
        return tf.where(numbers == 0, tf.gather(codes, sources), new), sources


class _Cases(tf.Module):
    """Finds the capital sigmas that end a word."""

    def __init__(self, cases: Mapping[int, int]):
        super().__init__()
        self._codes = _table(sorted(cases))
        self._kinds = _table([cases[code] for code in sorted(cases)])

    def mark_final_sigmas(self, codes: tf.Tensor) -> tf.Tensor:  # int32 [C] -> int32 [C]
        numbers, is_known = _find(self._codes, codes)
        kinds = tf.where(is_known, tf.gather(self._kinds, numbers), 0)
        places = _where(kinds != _DOES_NOT_COUNT)
        has_case = tf.gather(kinds, places) == _HAS_CASE
        before = tf.concat([[False], has_case[:-1]], 0)
        behind = tf.concat([has_case[1:], [False]], 0)
        is_final = (tf.gather(codes, places) == _SIGMA) & before & ~behind
        return _put(codes, tf.boolean_mask(places, is_final), _FINAL_SIGMA)


class _Trie(tf.Module):
    """Finds the longest known string at many places at once.

    Args:
      *roots: spelling → id; each is a set of strings of its own. Ids are not negative.
    """

    def __init__(self, *roots: Mapping[tuple[int, ...], int]):
        super().__init__()
        self._roots = len(roots)
        keys, ids = _number_nodes([_nest(root) for root in roots])
        # Nodes are numbered in the order of their keys, so a key's index is its node's number.
        self._keys = _table(keys, np.int64)
        self._ids = _table(ids)

    def longest(
        self,
        codes: tf.Tensor,  # int32 [C]; the last one is in no string
        places: tf.Tensor,  # int32 [places]
        roots: tf.Tensor,  # int32 [places], number of the root to start from
    ) -> tuple[tf.Tensor, tf.Tensor]:  # int32 [C]
        """Id and length of the longest string that starts there; 0 and 0 where there is none."""

        def step(depth, places, nodes, ids, lengths):  # one character further, where that leads on
            next_codes = tf.gather(codes, places + depth)
            key = tf.bitwise.left_shift(tf.cast(nodes, tf.int64), _CODE_BITS)
            numbers, is_known = _find(self._keys, key + tf.cast(next_codes, tf.int64))
            places = tf.boolean_mask(places, is_known)
            nodes = tf.boolean_mask(numbers, is_known) + self._roots
            found = tf.gather(self._ids, nodes)
            ends = tf.boolean_mask(places, found >= 0)
            ids = _put(ids, ends, tf.boolean_mask(found, found >= 0))
            return depth + 1, places, nodes, ids, _put(lengths, ends, depth + 1)

        zeros = tf.zeros_like(codes)
        free, fixed = tf.TensorShape([None]), tf.TensorShape([None])
        *_, ids, lengths = tf.while_loop(
            lambda depth, places, *_: tf.size(places) > 0,
            step,
            (0, places, roots, zeros, zeros),
            (tf.TensorShape([]), free, free, fixed, fixed),
        )
        return ids, lengths


_Node = dict[int, Any]  # code → node below; _ID → id of the string that ends here
_ID = -1


def _nest(strings: Mapping[tuple[int, ...], int]) -> _Node:
    root: _Node = {}
    for codes, index in strings.items():
        node = root
        for code in codes:
            node = node.setdefault(code, {})
        node[_ID] = index
    return root


def _number_nodes(nodes: list[_Node]) -> tuple[list[int], list[int]]:
    """Numbers nodes level by level; of all but the roots, the key (parent, code) in rising order.

    Returns:
      Keys, and the id of each node with the roots, -1 where no string ends.
    """
    keys: list[int] = []
    ids = [-1] * len(nodes)
    for number, node in enumerate(nodes):  # which grows meanwhile
        for code in sorted(node.keys() - {_ID}):
            keys.append(number << _CODE_BITS | code)
            ids.append(node[code].get(_ID, -1))
            nodes.append(node[code])
    return keys, ids


# --------------------------------------------------------------------------------------------------
# Steps on characters
# --------------------------------------------------------------------------------------------------


class _Words(NamedTuple):
    """Where words are.

    Attributes:
      is_letter: bool [C], False between words.
      is_start: bool [C].
      of: int32 [C], the number of the word; between words that of a neighbour.
      lengths: int32 [W + 1], the last 0: so there is one even where there is no word.
    """

    is_letter: tf.Tensor
    is_start: tf.Tensor
    of: tf.Tensor
    lengths: tf.Tensor

    @classmethod
    def find(cls, codes: tf.Tensor) -> _Words:
        is_letter = codes != _BETWEEN
        is_start = is_letter & ~tf.concat([[False], is_letter[:-1]], 0)
        number = tf.cumsum(tf.cast(is_start, tf.int32))
        of = tf.maximum(number - 1, 0)
        count = tf.reduce_max(tf.concat([[0], number], 0))
        lengths = tf.math.unsorted_segment_sum(tf.cast(is_letter, tf.int32), of, count + 1)
        return cls(is_letter, is_start, of, lengths)


def _follow(
    codes: tf.Tensor,  # int32 [C]
    lengths: tf.Tensor,  # int32 [C], of the longest piece that starts there, or 0
    starts: tf.Tensor,  # int32 [W]
    words: tf.Tensor,  # [W + 1]
) -> tuple[tf.Tensor, tf.Tensor]:  # bool [C]; bool [W + 1]
    """Goes through all words piece by piece: where pieces start, and which words have none."""

    def step(places, numbers, reached, failed):
        sizes = tf.gather(lengths, places)
        reached = _put(reached, places, True)
        failed = _put(failed, tf.boolean_mask(numbers, sizes == 0), True)
        goes_on = (sizes > 0) & (tf.gather(codes, places + sizes) != _BETWEEN)
        places = tf.boolean_mask(places + sizes, goes_on)
        return places, tf.boolean_mask(numbers, goes_on), reached, failed

    free = tf.TensorShape([None])
    *_, reached, failed = tf.while_loop(
        lambda places, *_: tf.size(places) > 0,
        step,
        (
            starts,
            tf.range(tf.size(starts)),
            tf.zeros_like(codes, tf.bool),
            tf.zeros_like(words, tf.bool),
        ),
        (free, free, free, free),
    )
    return reached, failed


def _join(codes: tf.Tensor, rows: tf.Tensor, protected: _Trie) -> tuple[tf.Tensor, tf.Tensor]:
    """Makes of each protected token a single code; from the left, the longest first."""
    everywhere = tf.range(tf.size(codes))
    new, lengths = protected.longest(codes, everywhere, tf.zeros_like(codes))
    places = _where(lengths > 0)
    ends = places + tf.gather(lengths, places)
    following = tf.searchsorted(places, ends)  # the next one that does not overlap

    def step(at, is_chosen):
        return following[at], _put(is_chosen, at[None], True)

    _, is_chosen = tf.while_loop(
        lambda at, _: at < tf.size(places), step, (0, tf.zeros_like(places, tf.bool))
    )
    places, ends = tf.boolean_mask(places, is_chosen), tf.boolean_mask(ends, is_chosen)
    joined = _put(codes, places, tf.gather(new, places))
    edges = tf.concat([places + 1, ends], 0)
    signs = tf.concat([tf.ones_like(places), -tf.ones_like(ends)], 0)
    inside = tf.cumsum(tf.tensor_scatter_nd_add(tf.zeros_like(codes), edges[:, None], signs))
    return tf.boolean_mask(joined, inside == 0), tf.boolean_mask(rows, inside == 0)


def _find(keys: tf.Variable, wanted: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Index among the sorted keys, int32, and whether it is there at all; of each element."""
    index = tf.minimum(tf.searchsorted(keys, wanted), tf.size(keys) - 1)
    return index, tf.gather(keys, index) == wanted


def _where(condition: tf.Tensor) -> tf.Tensor:  # bool [C] -> int32 [places]
    return tf.cast(tf.where(condition)[:, 0], tf.int32)


def _put(values: tf.Tensor, places: tf.Tensor, new: Any) -> tf.Tensor:
    """``values`` with ``new``, one for each place or one for all, at ``places``."""
    new = tf.broadcast_to(tf.cast(new, values.dtype), tf.shape(places))
    return tf.tensor_scatter_nd_update(values, places[:, None], new)
