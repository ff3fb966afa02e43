"""The rules of ``tokenization`` as a TensorFlow graph, for models that are served raw text.

Only operations of TensorFlow itself are used, so a saved graph loads wherever TensorFlow does. The
rules for characters are not implemented a second time: ``tokenization`` is run on every code point,
and the results are saved with the graph as tables. The Unicode version is therefore that of the
Python that built the graph, not that of the server.

One difference is known. Where accents are stripped, NFD also sorts consecutive combining marks by
their combining class; here they keep the order of the text. This matters only for marks that are
not stripped: two spacing marks (category Mc) of different non-zero classes in the wrong order, such
as U+302E or U+302F before a spacing virama (U+1B44), or musical stems and dots (U+1D165 to U+1D172)
swapped. No released vocabulary contains any of them: the word is [UNK] in either order.

Axes: B texts, C characters of all texts concatenated, W words of all texts.
"""

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

import tokenization
from command_line import options

_UNICODE_SIZE = 0x110000  # code points of Unicode; larger numbers represent protected tokens
_CODE_BITS = 21  # enough for every code point and protected token
_PAGE_SIZE = 256
_SPACE = ord(" ")
_WORD_BREAK = 0  # separates words; cleaning deletes this code point, so no word contains it

# Unicode's classes for the rule Final_Sigma: a capital sigma is lower-cased to the final form if,
# skipping case-ignorable characters, the one before it is cased and the one after it is not.
_CASED = 1
_CASE_IGNORABLE = 2
_SIGMA, _FINAL_SIGMA = ord("Σ"), ord("ς")


class GraphTokenizer(tf.Module):
    """Texts → WordPiece ids, as ``FullTokenizer.encode``, inside a graph.

    Args:
      text: vocabulary and tokenization rules; all of them are supported.

    Attributes:
      tokenizer: the equivalent tokenizer in Python.

    Raises:
      errors.UserError: the vocabulary cannot be read, or lacks a protected token.
    """

    def __init__(self, text: options.TokenizerOptions):
        super().__init__(name="tokenizer")
        self.tokenizer = tokenization.create_tokenizer(text)
        # Protected tokens are found before the rules for characters, which do not know them.
        basic = tokenization.BasicTokenizer(
            text.do_lower_case, strip_accents=text.strip_accents, space_symbols=text.space_symbols
        )
        names = tokenization.split_protected_tokens(text)
        protected = {name: _UNICODE_SIZE + index for index, name in enumerate(names)}
        replacements = _replacements(basic)
        replacements.update({code: [_WORD_BREAK, code, _WORD_BREAK] for code in protected.values()})
        pieces = _spellings(self.tokenizer.vocab)
        # From here on a protected token is a single character, whatever its length.
        pieces[0].update({(code,): self.tokenizer.encode(t)[0] for t, code in protected.items()})
        self._unk_id = self.tokenizer.vocab[self.tokenizer.wordpiece_tokenizer.unk_token]
        self._max_word_length = self.tokenizer.wordpiece_tokenizer.max_input_chars_per_word
        with tf.device("CPU:0"):
            self._character_map = _CharacterMap(replacements)
            self._final_sigmas = _FinalSigmas(_case_classes(basic)) if text.do_lower_case else None
            self._pieces = _Trie(*pieces)
            spelled = {tuple(map(ord, token)): code for token, code in protected.items()}
            self._protected = _Trie(spelled) if spelled else None

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:  # string [B] -> int32 [B, tokens]
        """The ids of each text; bytes that are not UTF-8 are dropped."""
        with tf.device("CPU:0"):  # string tensors exist only there
            codes, rows = self._decode(texts)
            if self._protected is not None:
                codes, rows = _join_protected(codes, rows, self._protected)
            if self._final_sigmas is not None:  # before anything is deleted or split off
                codes = self._final_sigmas(codes)
            codes, sources = self._character_map(codes)
            ids, positions = self._split(codes)
            rows = tf.gather(tf.gather(rows, sources), positions)
            return tf.RaggedTensor.from_value_rowids(ids, rows, tf.shape(texts, tf.int64)[0])

    def _decode(self, texts: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Code points, with a space after each text, and the text of each; int32 [C], int64 [C]."""
        codes = tf.strings.unicode_decode(texts, "UTF-8", errors="ignore")
        spaces = tf.fill([tf.shape(texts)[0], 1], _SPACE)
        codes = tf.concat([codes, spaces], 1)
        return codes.values, codes.value_rowids()

    def _split(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Splits words into pieces.

        Args:
          codes: int32 [C]; every word is followed by _WORD_BREAK.

        Returns:
          Ids, int32 [pieces], and the index of the first character of each, int32 [pieces].
        """
        words = _Words.locate(codes)
        is_short = tf.gather(words.lengths <= self._max_word_length, words.index)
        candidates = _indices(words.is_letter & is_short)
        # Root 0 has the pieces that start a word, root 1 those that continue one.
        roots = 1 - tf.cast(tf.gather(words.is_start, candidates), tf.int32)
        ids, lengths = self._pieces.longest(codes, candidates, roots)
        starts_piece, failed = _walk_pieces(codes, lengths, _indices(words.is_start), words.lengths)
        failed = tf.gather(failed, words.index)
        positions = _indices(tf.where(failed, words.is_start, starts_piece))
        ids = tf.where(failed, self._unk_id, ids)
        return tf.gather(ids, positions), positions


class Inputs(NamedTuple):
    """The inputs of the model, int32 [B, F]: F is the longest row; shorter ones end in zeros."""

    input_ids: tf.Tensor
    input_mask: tf.Tensor
    segment_ids: tf.Tensor


def pack(
    ids_a: tf.RaggedTensor,  # int32 [B, tokens]
    ids_b: tf.RaggedTensor,  # int32 [B, tokens]; an empty row means that there is no second text
    cls_id: int,
    sep_id: int,
    max_seq_length: int,
) -> Inputs:
    """Builds the rows [CLS] A [SEP], or [CLS] A [SEP] B [SEP].

    Texts that are too long lose one token at a time: the longer of the two its last one, B if both
    are equally long.
    """
    length_a, length_b = ids_a.row_lengths(), ids_b.row_lengths()  # int64 [B]
    has_b = tf.cast(length_b > 0, tf.int64)
    room = max_seq_length - 2 - has_b
    # Once equally long, both shrink alternately to half the room each; A gets the larger half.
    kept_a = tf.minimum(length_a, tf.maximum(room - length_b, (room + has_b) // (1 + has_b)))
    kept_b = tf.minimum(length_b, room - kept_a)
    cls = tf.fill([tf.size(length_a), 1], cls_id)
    sep = tf.fill([tf.size(length_a), 1], sep_id)
    ids_a, ids_b = _truncate_rows(ids_a, kept_a), _truncate_rows(ids_b, kept_b)
    ids = tf.concat([cls, ids_a, sep, ids_b, _truncate_rows(sep, has_b)], 1)
    padded = ids.to_tensor()
    mask = tf.sequence_mask(ids.row_lengths(), tf.shape(padded)[1], tf.int32)
    return Inputs(padded, mask, mask - tf.sequence_mask(kept_a + 2, tf.shape(padded)[1], tf.int32))


def _truncate_rows(rows: tf.Tensor | tf.RaggedTensor, counts: tf.Tensor) -> tf.RaggedTensor:
    """The first ``counts`` (int64 [B], at most the row's length) elements of each row."""
    rows = tf.RaggedTensor.from_tensor(rows) if isinstance(rows, tf.Tensor) else rows
    row_ids = rows.value_rowids()
    columns = tf.range(tf.size(row_ids, tf.int64)) - tf.gather(rows.row_starts(), row_ids)
    keep = columns < tf.gather(counts, row_ids)
    values, row_ids = tf.boolean_mask(rows.values, keep), tf.boolean_mask(row_ids, keep)
    return tf.RaggedTensor.from_value_rowids(values, row_ids, rows.nrows())


# --------------------------------------------------------------------------------------------------
# Rules of tokenization, as tables
# --------------------------------------------------------------------------------------------------


def _replacements(basic: tokenization.BasicTokenizer) -> dict[int, list[int]]:
    """The code points that each code point becomes between letters; without unchanged ones."""
    replacements = {}
    for page in _code_pages():
        joined = f"a{'a'.join(map(chr, page))}a"
        if basic.tokenize(joined) == [joined]:  # nothing changes: so in most pages
            continue
        for code, words in zip(
            page, _tokenize_each(basic, [f"a{chr(code)}a" for code in page]), strict=True
        ):
            new = " ".join(words)[1:-1]
            if len(words) > 1 or new != chr(code):
                replacements[code] = [_WORD_BREAK if char == " " else ord(char) for char in new]
    return replacements


def _case_classes(basic: tokenization.BasicTokenizer) -> dict[int, int]:
    """The class of each code point that is _CASED or _CASE_IGNORABLE."""
    classes = {}
    for page in _code_pages():
        texts = [f"A{chr(code)}Σ" for code in page]
        if "ς" not in "".join(basic.tokenize(" ".join(texts))):
            continue
        for code, words in zip(page, _tokenize_each(basic, texts), strict=True):
            if words[-1].endswith("ς"):
                is_cased = basic.tokenize(f"{chr(code)}Σ")[-1].endswith("ς")
                classes[code] = _CASED if is_cased else _CASE_IGNORABLE
    return classes


def _code_pages() -> Iterator[range]:
    for plane in (0, 1, 2, 3, 14):  # the others are empty or for private use
        for first in range(plane << 16, plane + 1 << 16, _PAGE_SIZE):
            yield range(first, first + _PAGE_SIZE)


def _tokenize_each(basic: tokenization.BasicTokenizer, texts: list[str]) -> list[list[str]]:
    """The words of each text; a single call for all of them takes a tenth of the time."""
    end = "end"  # a word that occurs in none of the texts
    words = basic.tokenize(f" {end} ".join([*texts, ""]))
    ends = [-1, *(index for index, word in enumerate(words) if word == end)]
    return [words[first + 1 : last] for first, last in zip(ends, ends[1:], strict=False)]


def _spellings(vocab: Mapping[str, int]) -> tuple[dict[tuple[int, ...], int], ...]:
    """Code points → id, for the pieces that start a word and for those that continue one."""
    starting: dict[tuple[int, ...], int] = {}
    continuing: dict[tuple[int, ...], int] = {}
    for token, index in vocab.items():
        # "#" is always a word by itself, so no word starts with "##".
        pieces, letters = (continuing, token[2:]) if token.startswith("##") else (starting, token)
        if letters:
            pieces[tuple(map(ord, letters))] = index
    return starting, continuing


# --------------------------------------------------------------------------------------------------
# Tables
# --------------------------------------------------------------------------------------------------


def _table(values: Any, dtype: Any = np.int32) -> tf.Variable:
    # A variable, because a constant would be stored once for every use.
    return tf.Variable(np.asarray(values, dtype), trainable=False)


class _CharacterMap(tf.Module):
    """Replaces each code point with none, one or several others."""

    def __init__(self, replacements: Mapping[int, list[int]]):
        super().__init__()
        codes = sorted(replacements)
        self._codes = _table(codes)
        # Entry 0 is for the code points that stay unchanged.
        self._lengths = _table([1, *(len(replacements[code]) for code in codes)])
        self._starts = _table(np.cumsum(self._lengths.numpy()) - self._lengths.numpy())
        self._values = _table([0, *(new for code in codes for new in replacements[code])])

    def __call__(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """int32 [C] → the new codes, and the index of the old one that each comes from; int32."""
        entries, is_known = _lookup(self._codes, codes)
        entries = tf.where(is_known, entries + 1, 0)
        lengths = tf.gather(self._lengths, entries)
        sources = tf.repeat(tf.range(tf.size(codes)), lengths)
        offsets = tf.range(tf.size(sources)) - tf.gather(tf.cumsum(lengths) - lengths, sources)
        entries = tf.gather(entries, sources)
        new = tf.gather(self._values, tf.gather(self._starts, entries) + offsets)
        return tf.where(entries == 0, tf.gather(codes, sources), new), sources


class _FinalSigmas(tf.Module):
    """Lower-cases the capital sigmas that end a word."""

    def __init__(self, classes: Mapping[int, int]):
        super().__init__()
        self._codes = _table(sorted(classes))
        self._classes = _table([classes[code] for code in sorted(classes)])

    def __call__(self, codes: tf.Tensor) -> tf.Tensor:  # int32 [C] -> int32 [C]
        entries, is_known = _lookup(self._codes, codes)
        classes = tf.where(is_known, tf.gather(self._classes, entries), 0)
        positions = _indices(classes != _CASE_IGNORABLE)
        is_cased = tf.gather(classes, positions) == _CASED
        follows_cased = tf.concat([[False], is_cased[:-1]], 0)
        precedes_cased = tf.concat([is_cased[1:], [False]], 0)
        is_final = (tf.gather(codes, positions) == _SIGMA) & follows_cased & ~precedes_cased
        return _scatter(codes, tf.boolean_mask(positions, is_final), _FINAL_SIGMA)


class _Trie(tf.Module):
    """Finds the longest known string at many positions at once.

    Args:
      *roots: code points → id; each is a separate set of strings. Ids are not negative.
    """

    def __init__(self, *roots: Mapping[tuple[int, ...], int]):
        super().__init__()
        self._roots = len(roots)
        keys, ids = _number_nodes([_build_trie(root) for root in roots])
        # Nodes are numbered in the order of their keys: a key's index is its node's number, less
        # the number of roots.
        self._keys = _table(keys, np.int64)
        self._ids = _table(ids)

    def longest(
        self,
        codes: tf.Tensor,  # int32 [C]; the last one is in no string
        positions: tf.Tensor,  # int32 [positions]
        roots: tf.Tensor,  # int32 [positions], number of the root to start from
    ) -> tuple[tf.Tensor, tf.Tensor]:  # int32 [C]
        """Id and length of the longest string that starts there; 0 and 0 where there is none."""

        def step(depth, positions, nodes, ids, lengths):  # reads one more character
            next_codes = tf.gather(codes, positions + depth)
            key = tf.bitwise.left_shift(tf.cast(nodes, tf.int64), _CODE_BITS)
            entries, is_known = _lookup(self._keys, key + tf.cast(next_codes, tf.int64))
            positions = tf.boolean_mask(positions, is_known)
            nodes = tf.boolean_mask(entries, is_known) + self._roots
            node_ids = tf.gather(self._ids, nodes)
            matched = tf.boolean_mask(positions, node_ids >= 0)
            ids = _scatter(ids, matched, tf.boolean_mask(node_ids, node_ids >= 0))
            return depth + 1, positions, nodes, ids, _scatter(lengths, matched, depth + 1)

        zeros = tf.zeros_like(codes)
        free, fixed = tf.TensorShape([None]), tf.TensorShape([None])
        *_, ids, lengths = tf.while_loop(
            lambda depth, positions, *_: tf.size(positions) > 0,
            step,
            (0, positions, roots, zeros, zeros),
            (tf.TensorShape([]), free, free, fixed, fixed),
        )
        return ids, lengths


_Node = dict[int, Any]  # code → child node; _ID → id of the string that ends at this node
_ID = -1


def _build_trie(strings: Mapping[tuple[int, ...], int]) -> _Node:
    root: _Node = {}
    for codes, index in strings.items():
        node = root
        for code in codes:
            node = node.setdefault(code, {})
        node[_ID] = index
    return root


def _number_nodes(nodes: list[_Node]) -> tuple[list[int], list[int]]:
    """Numbers the nodes of several tries level by level, starting with the roots.

    Returns:
      The key (parent, code) of every node but the roots, ascending; and the id of every node, the
      roots included, -1 where no string ends.
    """
    keys: list[int] = []
    ids = [-1] * len(nodes)
    for number, node in enumerate(nodes):  # the list grows inside the loop: breadth first
        for code in sorted(node.keys() - {_ID}):
            keys.append(number << _CODE_BITS | code)
            ids.append(node[code].get(_ID, -1))
            nodes.append(node[code])
    return keys, ids


# --------------------------------------------------------------------------------------------------
# Operations on characters
# --------------------------------------------------------------------------------------------------


class _Words(NamedTuple):
    """The words of all texts.

    Attributes:
      is_letter: bool [C], False between words.
      is_start: bool [C], True at the first character of a word.
      index: int32 [C], the index of the word; between words that of a neighbour.
      lengths: int32 [W + 1]; the last is 0, so that gathering works where there is no word at all.
    """

    is_letter: tf.Tensor
    is_start: tf.Tensor
    index: tf.Tensor
    lengths: tf.Tensor

    @classmethod
    def locate(cls, codes: tf.Tensor) -> "_Words":  # int32 [C]
        is_letter = codes != _WORD_BREAK
        is_start = is_letter & ~tf.concat([[False], is_letter[:-1]], 0)
        started = tf.cumsum(tf.cast(is_start, tf.int32))
        index = tf.maximum(started - 1, 0)
        count = tf.reduce_max(tf.concat([[0], started], 0))
        lengths = tf.math.unsorted_segment_sum(tf.cast(is_letter, tf.int32), index, count + 1)
        return cls(is_letter, is_start, index, lengths)


def _walk_pieces(
    codes: tf.Tensor,  # int32 [C]
    lengths: tf.Tensor,  # int32 [C], of the longest piece that starts at a character, or 0
    starts: tf.Tensor,  # int32 [W], first characters of the words
    word_lengths: tf.Tensor,  # int32 [W + 1]
) -> tuple[tf.Tensor, tf.Tensor]:  # bool [C]; bool [W + 1]
    """Walks through all words at once, piece by piece.

    Returns:
      Whether a piece starts at a character, and whether a word has a part that is no piece.
    """

    def step(positions, words, starts_piece, failed):
        sizes = tf.gather(lengths, positions)
        starts_piece = _scatter(starts_piece, positions, True)
        failed = _scatter(failed, tf.boolean_mask(words, sizes == 0), True)
        goes_on = (sizes > 0) & (tf.gather(codes, positions + sizes) != _WORD_BREAK)
        positions = tf.boolean_mask(positions + sizes, goes_on)
        return positions, tf.boolean_mask(words, goes_on), starts_piece, failed

    free = tf.TensorShape([None])
    *_, starts_piece, failed = tf.while_loop(
        lambda positions, *_: tf.size(positions) > 0,
        step,
        (
            starts,
            tf.range(tf.size(starts)),
            tf.zeros_like(codes, tf.bool),
            tf.zeros_like(word_lengths, tf.bool),
        ),
        (free, free, free, free),
    )
    return starts_piece, failed


def _join_protected(
    codes: tf.Tensor,
    rows: tf.Tensor,
    protected: _Trie,  # int32 [C], int64 [C]
) -> tuple[tf.Tensor, tf.Tensor]:  # the same, with fewer C
    """Replaces each protected token with its single code, from left to right, longest first."""
    all_positions = tf.range(tf.size(codes))
    tokens, lengths = protected.longest(codes, all_positions, tf.zeros_like(codes))
    starts = _indices(lengths > 0)
    ends = starts + tf.gather(lengths, starts)
    following = tf.searchsorted(starts, ends)  # the next match that does not overlap

    def step(match, is_chosen):
        return following[match], _scatter(is_chosen, match[None], True)

    _, is_chosen = tf.while_loop(
        lambda match, _: match < tf.size(starts), step, (0, tf.zeros_like(starts, tf.bool))
    )
    starts, ends = tf.boolean_mask(starts, is_chosen), tf.boolean_mask(ends, is_chosen)
    joined = _scatter(codes, starts, tf.gather(tokens, starts))
    # The first character of a match now holds its code; the others are 1 in ``inside`` and go.
    edges = tf.concat([starts + 1, ends], 0)
    signs = tf.concat([tf.ones_like(starts), -tf.ones_like(ends)], 0)
    inside = tf.cumsum(tf.tensor_scatter_nd_add(tf.zeros_like(codes), edges[:, None], signs))
    return tf.boolean_mask(joined, inside == 0), tf.boolean_mask(rows, inside == 0)


def _lookup(keys: tf.Variable, queries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """The index of each query [N] among the sorted keys [K], int32 [N]; and bool [N]: is it one."""
    index = tf.minimum(tf.searchsorted(keys, queries), tf.size(keys) - 1)
    return index, tf.gather(keys, index) == queries


def _indices(condition: tf.Tensor) -> tf.Tensor:  # bool [C] -> int32 [number of True]
    return tf.cast(tf.where(condition)[:, 0], tf.int32)


def _scatter(values: tf.Tensor, positions: tf.Tensor, new: Any) -> tf.Tensor:
    """``values`` [N] with ``new``, a scalar or [M], at ``positions``, int32 [M]."""
    new = tf.broadcast_to(tf.cast(new, values.dtype), tf.shape(positions))
    return tf.tensor_scatter_nd_update(values, positions[:, None], new)
