"""Text to WordPiece ids, by the rules of the original release, with offsets into the text.

The way of a text: chunks (what stands between white space) → words (cleaned, lower-cased, cut at
punctuation and around ideographs) → pieces (greedy longest match in the vocabulary) → ids. No rule
looks beyond its chunk, so ``FullTokenizer`` remembers whole chunks: its speed comes from that.

Character categories are those of Python's ``unicodedata`` and move with the Python version.
TensorFlow is imported only to read a vocabulary from a path with ``://``.
"""

from __future__ import annotations

import collections
import logging
import os
import re
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import six

from command_line import errors, options

_log = logging.getLogger(__name__)

# --------------------------------------------------------------------------------------------------
# Vocabulary
# --------------------------------------------------------------------------------------------------

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def load_vocab(vocab_file: str) -> collections.OrderedDict[str, int]:
    r"""Reads a vocabulary: one token a line, id = line number from 0.

    Args:
      vocab_file: UTF-8 text, whatever the locale. Lines end at ``\n`` only: multilingual
        vocabularies have other line separators as tokens. White space around a token is removed.

    Returns:
      Token → id in the order of first occurrence. The last of several equal lines gives the id.

    Raises:
      errors.UserError: there is no such file, or it is not text.
    """
    return _number(_read_tokens(vocab_file), vocab_file)


def _read_tokens(vocab_file: str) -> list[str]:
    what = f"--vocab_file={vocab_file}"
    expected = "expected a WordPiece vocabulary (vocab.txt), UTF-8 text with one token a line"
    data = _read_bytes(vocab_file, what, expected)
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise errors.UserError(f"{what}, line {line}: not UTF-8 text; {expected}") from None
    if "\0" in text:
        raise errors.UserError(f"{what}: a binary file; {expected}")
    lines = text.split("\n")
    if not lines[-1]:  # what follows the last line's end
        lines.pop()
    return [line.strip() for line in lines]


def _read_bytes(vocab_file: str, what: str, expected: str) -> bytes:
    if "://" in vocab_file:
        import tensorflow as tf

        if not tf.io.gfile.exists(vocab_file):
            raise errors.UserError(f"{what}: no such file; {expected}")
        with tf.io.gfile.GFile(vocab_file, "rb") as file:
            return file.read()
    if not os.path.isfile(vocab_file):
        found = "a directory" if os.path.isdir(vocab_file) else "no such file"
        raise errors.UserError(f"{what}: {found}; {expected}")
    with open(vocab_file, "rb") as file:
        return file.read()


def _number(tokens: Sequence[str], vocab_file: str) -> collections.OrderedDict[str, int]:
    vocab: collections.OrderedDict[str, int] = collections.OrderedDict()
    repeated = []
    for index, token in enumerate(tokens):
        if token in vocab:
            repeated.append(f"{token!r} on lines {vocab[token] + 1} and {index + 1}")
        vocab[token] = index
    if repeated:
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        _log.warning(
            "%s repeats %s%s; the last line gives the id",
            vocab_file,
            ", ".join(repeated[:5]),
            more,
        )
    return vocab


def check_vocab(
    vocab: FullTokenizer | Mapping[str, int],
    vocab_file: str,
    required: Sequence[str] = SPECIAL_TOKENS,
    vocab_size: int | None = None,
) -> None:
    """Checks at start what would fail, or quietly go wrong, hours later.

    Args:
      vocab: a tokenizer, or token → id. Whether the case fits is checked for a tokenizer only.
      vocab_file: where it was read from, for messages.
      required: tokens that the caller needs.
      vocab_size: rows of the model's embedding table (bert_config.json). More rows than tokens are
        fine.

    Raises:
      errors.UserError: tokens are missing, or there are more tokens than ``vocab_size``.
    """
    if isinstance(vocab, FullTokenizer):
        _warn_about_case(vocab, vocab_file)
        vocab = vocab.vocab
    missing = [token for token in required if token not in vocab]
    if missing:
        raise errors.UserError(
            f"--vocab_file={vocab_file} has no {', '.join(missing)}; expected a BERT vocabulary "
            "(create_vocab.py makes one)"
        )
    if "[PAD]" in required and vocab["[PAD]"] != 0:
        _log.warning(
            "%s: [PAD] is on line %d, but inputs are padded with id 0, the first line",
            vocab_file,
            vocab["[PAD]"] + 1,
        )
    size = 1 + max((index for token, index in vocab.items() if token), default=-1)
    if vocab_size is not None and size > vocab_size:
        raise errors.UserError(
            f"--vocab_file={vocab_file} has {size} entries, but vocab_size in the model's "
            f"configuration is {vocab_size}; use the vocabulary the model was trained with"
        )


def _warn_about_case(tokenizer: FullTokenizer, vocab_file: str) -> None:
    words = [token for token in tokenizer.vocab if token[:1].isalpha()]
    upper = sum(token != token.lower() for token in words)
    cased = sum(token.lower() != token.upper() for token in words)
    lower_case = tokenizer.basic_tokenizer.do_lower_case
    # The released uncased vocabularies have no upper-case word, the cased ones 30 % and more.
    if lower_case and upper > 0.05 * cased:
        _log.warning(
            "--do_lower_case=true, but %d of %d words in %s have upper-case letters and can never "
            "match; a cased model needs --do_lower_case=false",
            upper,
            cased,
            vocab_file,
        )
    if not lower_case and cased and not upper:
        _log.warning(
            "--do_lower_case=false, but no word in %s has an upper-case letter: such words become "
            "[UNK]; an uncased model needs --do_lower_case=true",
            vocab_file,
        )


def validate_case_matches_checkpoint(do_lower_case: bool, init_checkpoint: str | None) -> None:
    r"""Checks ``do_lower_case`` against the folder name of a released checkpoint.

    Args:
      do_lower_case: the flag.
      init_checkpoint: path of a checkpoint (``/`` or ``\``) or of its folder. Only the names of
        released models are judged.

    Raises:
      errors.FlagError: the two contradict each other.
    """
    for name in re.split(r"[/\\]", init_checkpoint or "")[-2:]:
        match = _RELEASED.fullmatch(name)
        if match is None:
            continue
        right = match["kind"] in ("uncased", "multilingual", "chinese")
        if right != bool(do_lower_case):
            raise errors.FlagError(
                f"--do_lower_case={str(bool(do_lower_case)).lower()} does not fit "
                f"--init_checkpoint={init_checkpoint}: {name} is "
                f"{'an uncased' if right else 'a cased'} model; "
                f"give --do_lower_case={str(right).lower()}"
            )


_RELEASED = re.compile(
    r"(wwm_)?(?P<kind>uncased|cased|multi_cased|multilingual|chinese)_L-\d+_H-\d+_A-\d+"
)


def convert_by_vocab(vocab: Mapping[Any, Any], items: Iterable[Any]) -> list[Any]:
    """Looks every item up; a KeyError names one that is missing."""
    return [vocab[item] for item in items]


def convert_tokens_to_ids(vocab: Mapping[str, int], tokens: Iterable[str]) -> list[int]:
    """Ids of tokens."""
    return convert_by_vocab(vocab, tokens)


def convert_ids_to_tokens(inv_vocab: Mapping[int, str], ids: Iterable[int]) -> list[str]:
    """Tokens of ids."""
    return convert_by_vocab(inv_vocab, ids)


# --------------------------------------------------------------------------------------------------
# Text
# --------------------------------------------------------------------------------------------------


def convert_to_unicode(text: str | bytes) -> str:
    """Text as ``str``: bytes are read as UTF-8 without those that are not.

    Raises:
      errors.UserError: ``text`` is neither ``str`` nor ``bytes`` (a missing value, a number).
    """
    if not isinstance(text, (str, bytes)):
        raise errors.UserError(f"expected text, found {text!r} of type {type(text).__name__}")
    return six.ensure_text(text, "utf-8", "ignore")


def printable_text(text: str | bytes) -> str:
    """Text in the form ``print`` takes: the same as ``convert_to_unicode``."""
    return convert_to_unicode(text)


def whitespace_tokenize(text: str) -> list[str]:
    """Splits at any white space, ``str.split``'s kind."""
    return text.split()


# str.split takes these control characters for white space, BERT deletes them: the only difference
# between chunks and what str.split returns.
_DELETED_SPACE = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_has_deleted_space = re.compile(f"[{_DELETED_SPACE}]").search
_CHUNK = re.compile(rf"[\S{_DELETED_SPACE}]+")


def _chunks(text: str) -> list[str]:
    """What stands between white space, before any cleaning."""
    # Printable text, the rule, has no control characters; asking so is the cheapest.
    if text.isprintable() or not _has_deleted_space(text):
        return text.split()
    return _CHUNK.findall(text)


# Blocks of ideographs, each of which becomes a word; kana and hangul are written with letters.
_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)


class _Clean(dict[int, str]):
    """Table for ``str.translate``: control characters go, ideographs get spaces around them."""

    def __init__(self, space_symbols: bool) -> None:
        super().__init__()
        self._space_symbols = space_symbols

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        if char in "\t\n\r" or category == "Zs":
            new = " "
        elif char in "\0\N{REPLACEMENT CHARACTER}" or category in ("Cc", "Cf"):
            new = ""
        elif self._space_symbols and category == "So":
            new = f" {char} "
        else:
            is_ideograph = any(first <= code <= last for first, last in _IDEOGRAPHS)
            new = f" {char} " if is_ideograph else char
        self[code] = new
        return new


class _Cut(dict[int, str]):
    """Table for ``str.translate``: spaces around punctuation; combining marks go if asked."""

    def __init__(self, strip_marks: bool) -> None:
        super().__init__()
        self._strip_marks = strip_marks

    def __missing__(self, code: int) -> str:
        char = chr(code)
        category = unicodedata.category(char)
        # Of ASCII, symbols count as punctuation too ("$", "^"), whatever Unicode calls them.
        symbol = 33 <= code <= 126 and not char.isalnum()
        if symbol or category.startswith("P"):
            new = f" {char} "
        else:
            new = "" if self._strip_marks and category == "Mn" else char
        self[code] = new
        return new


class BasicTokenizer:
    """Text to words: cleaning, ideographs, lower case and accents, punctuation.

    Args:
      do_lower_case: lower-case the text.
      strip_accents: decompose (NFD) and remove combining marks; None: follow ``do_lower_case``.
      protected_tokens: words taken as they are wherever they stand in the text, the longest first.
      space_symbols: make each symbol of category So, such as an emoji, a word.

    Raises:
      errors.UserError: a protected token is empty or has white space in it.
    """

    def __init__(
        self,
        do_lower_case: bool = True,
        *,
        strip_accents: bool | None = None,
        protected_tokens: Sequence[str] = (),
        space_symbols: bool = False,
    ) -> None:
        self.do_lower_case = do_lower_case
        self.strip_accents = do_lower_case if strip_accents is None else strip_accents
        for token in protected_tokens:
            if _chunks(token) != [token]:
                raise errors.UserError(f"--protected_tokens: {token!r} is empty or has white space")
        ordered = sorted(protected_tokens, key=len, reverse=True)
        self._protected = re.compile(f"({'|'.join(map(re.escape, ordered))})") if ordered else None
        self._clean = _Clean(space_symbols)
        self._cut = _Cut(self.strip_accents)

    def tokenize(self, text: str | bytes) -> list[str]:
        """The words of a text."""
        if type(text) is not str:
            text = convert_to_unicode(text)
        if self._protected is None:
            return self._words(text)
        words = []
        for part, is_protected in self._parts(text):
            words += [part] if is_protected else self._words(part)
        return words

    def _words(self, text: str) -> list[str]:
        if text.isascii() and text.isalnum():  # frequent, and only the case can change
            return [text.lower() if self.do_lower_case else text]
        words = []
        for run in text.translate(self._clean).split():
            # Lower-casing sees the run whole: a Greek sigma depends on the letters around it.
            if self.do_lower_case:
                run = run.lower()
            if self.strip_accents:
                run = unicodedata.normalize("NFD", run)
            words += run.translate(self._cut).split()
        return words

    def _parts(self, text: str) -> list[tuple[str, bool]]:
        """The text cut around protected tokens, and whether each part is one."""
        if self._protected is None:
            return [(text, False)]
        return [(part, k % 2 == 1) for k, part in enumerate(self._protected.split(text)) if part]

    def align(self, text: str) -> tuple[list[int], list[int]]:
        """Where the characters of the words come from.

        Args:
          text: what ``tokenize`` was given.

        Returns:
          For every character of ``"".join(tokenize(text))``, start and end of the characters of
          ``text`` it was made of. Accents that were removed belong to the letter before them. When
          a character becomes several, they all have its place.
        """
        starts: list[int] = []
        ends: list[int] = []
        offset = 0
        for part, is_protected in self._parts(text):
            for index, char in enumerate(part, offset):
                # Cleaning, lower case and NFD make a number of characters that does not depend on
                # the neighbours, though which ones may (sigma, order of marks).
                count = 1 if is_protected else len("".join(self._words(char)))
                starts += [index] * count
                ends += [index + 1] * count
                if not count and ends and unicodedata.category(char) == "Mn":
                    ends[-1] = index + 1
            offset += len(part)
        return starts, ends


class WordpieceTokenizer:
    """Words to pieces: from the left, each time the longest piece in the vocabulary.

    Args:
      vocab: holds the pieces; those that do not begin a word start with ``##``. It must not change.
      unk_token: stands for a word that cannot be built from pieces, as a whole.
      max_input_chars_per_word: longer words become ``unk_token``, in code points.
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        unk_token: str = "[UNK]",
        max_input_chars_per_word: int = 200,
    ) -> None:
        self.max_input_chars_per_word = max_input_chars_per_word
        # No longer candidate is looked up, so the cost is linear in the length of a word.
        self._longest = max(map(len, vocab), default=0)
        self.vocab = vocab
        self.unk_token = unk_token

    def tokenize(self, text: str | bytes) -> list[str]:
        """The pieces of the words of a text, which white space separates."""
        words = whitespace_tokenize(convert_to_unicode(text))
        return [piece for word in words for piece in self.split(word)]

    def split(self, word: str) -> list[str]:
        """The pieces of a single word."""
        if len(word) > self.max_input_chars_per_word:
            return [self.unk_token]
        vocab = self.vocab
        pieces: list[str] = []
        start = 0
        while start < len(word):
            rest = "##" + word[start:] if start else word
            end = min(len(rest), self._longest)
            shortest = 3 if start else 1
            while end >= shortest and rest[:end] not in vocab:
                end -= 1
            if end < shortest:
                return [self.unk_token]
            pieces.append(rest[:end])
            start += end - 2 if start else end
        return pieces


# Of English, 100,000 chunks cover all but rare ones; a memo stays below some 30 MB.
_MEMO_ENTRIES = 1 << 17
_MEMO_LONGEST = 64  # longer chunks, such as unspaced Chinese sentences, hardly ever come again


class _Memo(dict[str, Any]):
    """Remembers ``compute(text)``; emptied when full, which costs frequent texts little."""

    def __init__(self, compute: Callable[[str], Any]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, text: str) -> Any:
        value = self._compute(text)
        if len(text) <= _MEMO_LONGEST:
            if len(self) >= _MEMO_ENTRIES:
                self.clear()
            self[text] = value
        return value


class FullTokenizer:
    """Text to WordPiece tokens and ids.

    Args:
      vocab_file: see ``load_vocab``.
      do_lower_case: lower-case the text and remove accents; right for uncased models.
      strip_accents: see ``BasicTokenizer``.
      protected_tokens: tokens of the vocabulary, such as ``[MASK]``, that stand for themselves in a
        text. Default none: then no text is ever turned into a control token.
      space_symbols: see ``BasicTokenizer``.

    Attributes:
      vocab: token → id.
      inv_vocab: id → token.
      tokens: the token of each line of the file.

    Raises:
      errors.UserError: the vocabulary cannot be read, or lacks a protected token.
    """

    def __init__(
        self,
        vocab_file: str,
        do_lower_case: bool = True,
        *,
        strip_accents: bool | None = None,
        protected_tokens: Sequence[str] = (),
        space_symbols: bool = False,
    ) -> None:
        self.tokens = _read_tokens(vocab_file)
        self.vocab = _number(self.tokens, vocab_file)
        self.inv_vocab = {index: token for token, index in self.vocab.items()}
        unknown = [token for token in protected_tokens if token not in self.vocab]
        if unknown:
            raise errors.UserError(
                f"--protected_tokens: {', '.join(unknown)} not in --vocab_file={vocab_file}"
            )
        self.basic_tokenizer = BasicTokenizer(
            do_lower_case,
            strip_accents=strip_accents,
            protected_tokens=protected_tokens,
            space_symbols=space_symbols,
        )
        self.wordpiece_tokenizer = WordpieceTokenizer(self.vocab)
        self._ids = _Memo(self._chunk_ids)
        self._word_ids = _Memo(self._ids_of_word)  # "tea", "tea," and "Tea" share a word
        self._placed_ids = _Memo(self._chunk_placed_ids)

    def tokenize(self, text: str | bytes) -> list[str]:
        """The pieces of a text."""
        split = self.wordpiece_tokenizer.split
        return [piece for word in self.basic_tokenizer.tokenize(text) for piece in split(word)]

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Ids of tokens; a KeyError names one that is not in the vocabulary."""
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Tokens of ids; a KeyError names one that is not in the vocabulary."""
        return convert_by_vocab(self.inv_vocab, ids)

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text: ``convert_tokens_to_ids(tokenize(text))``, many times faster."""
        memo = self._ids
        ids: list[int] = []
        for chunk in _chunks(text if type(text) is str else convert_to_unicode(text)):
            ids += memo[chunk]
        return ids

    def encode_batch(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text) for text in texts]

    def encode_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """The ids of a text and where they stand in it.

        Args:
          text: bytes are decoded first; the offsets then belong to the decoded text.

        Returns:
          Ids, starts and ends, of equal length: ``text[start:end]`` is what an id was made of,
          counted in code points of the text before any cleaning. The place of ``[UNK]`` is the
          whole word. Starts never decrease, nor do ends.
        """
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in _CHUNK.finditer(convert_to_unicode(text)):
            offset = match.start()
            chunk_ids, chunk_starts, chunk_ends = self._placed_ids[match.group()]
            ids += chunk_ids
            starts += [offset + start for start in chunk_starts]
            ends += [offset + end for end in chunk_ends]
        return ids, starts, ends

    def _chunk_ids(self, chunk: str) -> tuple[int, ...]:
        words = self.basic_tokenizer.tokenize(chunk)
        if len(words) == 1:
            return self._word_ids[words[0]]
        ids: list[int] = []
        for word in words:
            ids += self._word_ids[word]
        return tuple(ids)

    def _ids_of_word(self, word: str) -> tuple[int, ...]:
        return tuple(map(self.vocab.__getitem__, self.wordpiece_tokenizer.split(word)))

    def _chunk_placed_ids(self, chunk: str) -> tuple[tuple[int, ...], ...]:
        starts, ends = self.basic_tokenizer.align(chunk)
        found = []
        at = 0  # index among the characters of all words
        for word in self.basic_tokenizer.tokenize(chunk):
            pieces = self.wordpiece_tokenizer.split(word)
            lengths = [len(pieces[0]), *(len(piece) - len("##") for piece in pieces[1:])]
            if len(pieces) == 1:  # [UNK], whose own length says nothing, or the word itself
                lengths = [len(word)]
            for piece, length in zip(pieces, lengths, strict=True):
                found.append((self.vocab[piece], starts[at], ends[at + length - 1]))
                at += length
        return tuple(zip(*found, strict=True)) or ((), (), ())


def create_tokenizer(text: options.TokenizerOptions) -> FullTokenizer:
    """The tokenizer that the flags describe."""
    protected = [token.strip() for token in text.protected_tokens.split(",")]
    return FullTokenizer(
        text.vocab_file,
        text.do_lower_case,
        strip_accents=text.strip_accents,
        protected_tokens=[token for token in protected if token],
        space_symbols=text.space_symbols,
    )
