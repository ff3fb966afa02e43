"""Text to WordPiece ids, by the rules of the original release, with offsets into the text.

A text becomes chunks (separated by white space) → words (cleaned, lower-cased, split at punctuation
and around ideographs) → pieces (greedy longest match in the vocabulary) → ids. No rule looks beyond
its chunk, so ``FullTokenizer`` caches the ids of whole chunks: its speed comes from that.

Character categories are those of Python's ``unicodedata`` and change with the Python version.
TensorFlow is imported only to read a vocabulary from a path with ``://``.
"""

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

# Characters of a word; a longer one is [UNK].
MAX_WORD_LENGTH = 200

SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")


def load_vocab(vocab_file: str) -> collections.OrderedDict[str, int]:
    r"""Reads a vocabulary: one token per line, id = line number from 0.

    Args:
      vocab_file: UTF-8 text, whatever the locale. Lines end at ``\n`` only: multilingual
        vocabularies have other line separators as tokens. White space around a token is removed.

    Returns:
      Token → id in the order of first occurrence. The last of several equal lines gives the id.

    Raises:
      errors.UserError: there is no such file, or it is not text.
    """
    return _assign_ids(_read_tokens(vocab_file), vocab_file)


def _read_tokens(vocab_file: str) -> list[str]:
    flag = f"--vocab_file={vocab_file}"
    expected = "expected a WordPiece vocabulary (vocab.txt), UTF-8 text with one token a line"
    data = _read_bytes(vocab_file, expected)
    if data.startswith(b"\x1f\x8b"):
        raise errors.UserError(f"{flag}: gzip-compressed; unpack it with gunzip")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise errors.UserError(f"{flag}, line {line}: not UTF-8 text; {expected}") from None
    if "\0" in text:
        raise errors.UserError(f"{flag}: a binary file; {expected}")
    return [line.strip() for line in text.removesuffix("\n").split("\n")] if text else []


def _read_bytes(vocab_file: str, expected: str) -> bytes:
    if "://" in vocab_file:
        import tensorflow as tf

        if tf.io.gfile.exists(vocab_file):
            with tf.io.gfile.GFile(vocab_file, "rb") as file:
                return file.read()
    elif os.path.isfile(vocab_file):
        with open(vocab_file, "rb") as file:
            return file.read()
    reason = "a directory" if os.path.isdir(vocab_file) else "no such file"
    raise errors.UserError(f"--vocab_file={vocab_file}: {reason}; {expected}")


def _assign_ids(tokens: Sequence[str], vocab_file: str) -> collections.OrderedDict[str, int]:
    vocab: collections.OrderedDict[str, int] = collections.OrderedDict()
    repeated = []
    for index, token in enumerate(tokens):
        if token in vocab:
            repeated.append(f"{token!r} on lines {vocab[token] + 1} and {index + 1}")
        vocab[token] = index
    if repeated:
        more = f" and {len(repeated) - 5} more" if len(repeated) > 5 else ""
        _log.warning(
            "%s repeats %s%s; the last line gives the id", vocab_file, ", ".join(repeated[:5]), more
        )
    return vocab


def check_vocab(
    vocab: "FullTokenizer | Mapping[str, int]",
    vocab_file: str,
    required: Sequence[str] = SPECIAL_TOKENS,
    vocab_size: int | None = None,
) -> None:
    """Checks at the start what would fail, or silently go wrong, hours later.

    Args:
      vocab: a tokenizer, or token → id. Only for a tokenizer, the letter case is checked too.
      vocab_file: the file it was read from, for messages.
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


def warn_about_unknown(source: str, unknown: int, words: int) -> None:
    """Warns if much of a text becomes [UNK].

    Args:
      source: what was read, for the message.
      unknown: number of its words that are [UNK].
      words: number of its words.
    """
    if 20 * unknown > words > 0:
        _log.warning(
            "%s: %.0f%% of the words are [UNK]: does --vocab_file fit the language, and "
            "--do_lower_case the vocabulary?",
            source,
            100 * unknown / words,
        )


def _warn_about_case(tokenizer: "FullTokenizer", vocab_file: str) -> None:
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
    with_marks = sum(_has_marks(token) for token in words if not token.isascii())
    if tokenizer.basic_tokenizer.strip_accents and with_marks > 0.05 * len(words):
        _log.warning(
            "accents and marks are stripped, but %d of %d words in %s have some and can never "
            "match; give --strip_accents=false",
            with_marks,
            len(words),
            vocab_file,
        )
    if not lower_case and cased and not upper:
        _log.warning(
            "--do_lower_case=false, but no word in %s has an upper-case letter: such words become "
            "[UNK]; an uncased model needs --do_lower_case=true",
            vocab_file,
        )


def _has_marks(token: str) -> bool:
    return any(unicodedata.category(char) == "Mn" for char in unicodedata.normalize("NFD", token))


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
        expected = match["model"] in ("uncased", "multilingual", "chinese")
        if expected != bool(do_lower_case):
            raise errors.FlagError(
                f"--do_lower_case={str(bool(do_lower_case)).lower()} does not fit "
                f"--init_checkpoint={init_checkpoint}: {name} is "
                f"{'an uncased' if expected else 'a cased'} model; "
                f"give --do_lower_case={str(expected).lower()}"
            )


_RELEASED = re.compile(
    r"(wwm_)?(?P<model>uncased|cased|multi_cased|multilingual|chinese)_L-\d+_H-\d+_A-\d+"
)


def convert_by_vocab(vocab: Mapping[Any, Any], items: Iterable[Any]) -> list[Any]:
    """Looks up every item; a KeyError names one that is missing."""
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
    """Text as ``str``; bytes are decoded as UTF-8, and invalid ones are dropped.

    Raises:
      errors.UserError: ``text`` is neither ``str`` nor ``bytes`` (a missing value, a number).
    """
    if not isinstance(text, (str, bytes)):
        raise errors.UserError(f"expected text, found {text!r} of type {type(text).__name__}")
    return six.ensure_text(text, "utf-8", "ignore")


def printable_text(text: str | bytes) -> str:
    """Text for ``print``: the same as ``convert_to_unicode``."""
    return convert_to_unicode(text)


def whitespace_tokenize(text: str) -> list[str]:
    """Splits at white space as ``str.split`` defines it."""
    return text.split()


# str.split treats these control characters as white space, but BERT deletes them: this is the only
# difference between chunks and what str.split returns.
_DELETED_SPACE = "\x0b\x0c\x1c\x1d\x1e\x1f\x85"
_has_deleted_space = re.compile(f"[{_DELETED_SPACE}]").search
_CHUNK = re.compile(rf"[\S{_DELETED_SPACE}]+")


def _chunks(text: str) -> list[str]:
    """The parts of a text that white space separates, before any cleaning."""
    # Most text is printable and so has no control characters; isprintable is the cheapest test.
    if text.isprintable() or not _has_deleted_space(text):
        return text.split()
    return _CHUNK.findall(text)


def _is_whitespace(char: str) -> bool:
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def _is_control(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") and char not in "\t\n\r"


# Characters without a glyph that have the categories of letters and marks: joiners, fillers and
# variation selectors.
_INVISIBLE = re.compile(
    "[\0\ufffd\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u3164\ufe00-\ufe0f\uffa0"
    "\U000e0100-\U000e01ef]"
)


def has_text(text: str) -> bool:
    """Whether a text has a character that can be seen and that cleaning keeps."""
    return any(  # usually the first character decides
        unicodedata.category(char) not in ("Cc", "Cf", "Zs", "Zl", "Zp")
        and not _INVISIBLE.match(char)
        for char in text
    )


def _is_punctuation(char: str) -> bool:
    # All ASCII symbols count as punctuation ("$", "^"), whatever Unicode calls them.
    return ("!" <= char <= "~" and not char.isalnum()) or unicodedata.category(char)[0] == "P"


# Blocks of ideographs, each of which becomes a word; kana and hangul are treated like letters.
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


def _is_ideograph(char: str) -> bool:
    return any(first <= ord(char) <= last for first, last in _IDEOGRAPHS)


# Both tables are filled as characters occur, so that each is classified once per tokenizer.
class _CleaningTable(dict[int, str]):
    """Table for ``str.translate``: deletes control characters, puts spaces around ideographs."""

    def __init__(self, space_symbols: bool) -> None:
        super().__init__()
        self.space_symbols = space_symbols

    def __missing__(self, code: int) -> str:
        new = char = chr(code)
        if _is_whitespace(char):
            new = " "
        elif _is_control(char) or char == "\N{REPLACEMENT CHARACTER}":
            new = ""
        elif _is_ideograph(char) or (self.space_symbols and unicodedata.category(char) == "So"):
            new = f" {char} "
        self[code] = new
        return new


class _PunctuationTable(dict[int, str]):
    """Table for ``str.translate``: spaces around punctuation; optionally deletes accents."""

    def __init__(self, strip_marks: bool) -> None:
        super().__init__()
        self._strip_marks = strip_marks

    def __missing__(self, code: int) -> str:
        new = char = chr(code)
        if _is_punctuation(char):
            new = f" {char} "
        elif self._strip_marks and unicodedata.category(char) == "Mn":
            new = ""
        self[code] = new
        return new


class BasicTokenizer:
    """Text to words: cleaning, ideographs, lower case and accents, punctuation.

    Args:
      do_lower_case: lower-case the text.
      strip_accents: decompose (NFD) and remove combining marks; None: follow ``do_lower_case``.
      protected_tokens: strings that stay one word wherever they occur; the longest match wins.
      space_symbols: make each symbol of category So, such as an emoji, a word.

    Raises:
      errors.UserError: a protected token is empty or contains white space.
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
        self._cleaning = _CleaningTable(space_symbols)
        self._punctuation = _PunctuationTable(self.strip_accents)

    def tokenize(self, text: str | bytes) -> list[str]:
        """The words of a text."""
        if type(text) is not str:
            text = convert_to_unicode(text)
        words = []
        for part, is_protected in self._parts(text):
            words += [part] if is_protected else self._words(part)
        return words

    def _words(self, text: str) -> list[str]:
        if text.isascii() and text.isalnum():  # frequent, and only the case can change
            return [text.lower() if self.do_lower_case else text]
        words = []
        for word in text.translate(self._cleaning).split():
            # Before punctuation is split off: the form of a Greek sigma depends on its neighbours.
            if self.do_lower_case:
                word = word.lower()
            if self.strip_accents:
                word = unicodedata.normalize("NFD", word)
            words += word.translate(self._punctuation).split()
        return words

    def _parts(self, text: str) -> list[tuple[str, bool]]:
        """The text split around protected tokens, and whether each part is one."""
        if self._protected is None:
            return [(text, False)]
        return [(part, k % 2 == 1) for k, part in enumerate(self._protected.split(text)) if part]

    def align(self, text: str) -> tuple[list[int], list[int]]:
        """Maps the characters of the words back to the text.

        Args:
          text: the text that ``tokenize`` was given.

        Returns:
          For every character of ``"".join(tokenize(text))``, start and end of the characters of
          ``text`` that it was made of. Removed accents belong to the letter before them. When a
          character becomes several, they all have its offsets.
        """
        starts: list[int] = []
        ends: list[int] = []
        offset = 0
        for part, is_protected in self._parts(text):
            for index, char in enumerate(part, offset):
                # A character's neighbours can change which characters it becomes (sigma, order of
                # combining marks), but never how many.
                count = 1 if is_protected else len("".join(self._words(char)))
                starts += [index] * count
                ends += [index + 1] * count
                if not count and ends and unicodedata.category(char) == "Mn":
                    ends[-1] = index + 1
            offset += len(part)
        return starts, ends


class WordpieceTokenizer:
    """Words to pieces: from left to right, always the longest piece in the vocabulary.

    Args:
      vocab: piece → id; pieces that continue a word start with ``##``. It must not change later.
      unk_token: replaces a whole word that cannot be built from pieces.
      max_input_chars_per_word: words of more code points become ``unk_token``.
    """

    def __init__(
        self,
        vocab: Mapping[str, int],
        unk_token: str = "[UNK]",
        max_input_chars_per_word: int = MAX_WORD_LENGTH,
    ) -> None:
        self.max_input_chars_per_word = max_input_chars_per_word
        # Longer candidates are not looked up, which keeps the cost linear in the word's length.
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


# 100,000 English chunks cover all but rare ones; a cache stays below about 30 MB.
_CACHE_ENTRIES = 1 << 17
_LONGEST_KEY = 64  # longer chunks, such as unspaced Chinese sentences, are hardly ever repeated


class _Cache(dict[str, Any]):
    """Caches ``compute(text)``; emptied when full, as frequent texts soon come back."""

    def __init__(self, compute: Callable[[str], Any]) -> None:
        super().__init__()
        self._compute = compute

    def __missing__(self, text: str) -> Any:
        value = self._compute(text)
        if len(text) <= _LONGEST_KEY:
            if len(self) >= _CACHE_ENTRIES:
                self.clear()
            self[text] = value
        return value


class FullTokenizer:
    """Text to WordPiece tokens and ids.

    Args:
      vocab_file: see ``load_vocab``.
      do_lower_case: lower-case the text and remove accents, as uncased models need.
      strip_accents: see ``BasicTokenizer``.
      protected_tokens: tokens of the vocabulary, such as ``[MASK]``, that are recognized in a text.
        By default there are none, and no text ever becomes a control token.
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
        self.vocab = _assign_ids(self.tokens, vocab_file)
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
        self._chunk_ids = _Cache(self._encode_chunk)
        self._word_ids = _Cache(self._encode_word)  # "tea", "tea," and "Tea" share a word
        self._chunk_offsets = _Cache(self._encode_chunk_with_offsets)

    def tokenize(self, text: str | bytes) -> list[str]:
        """The pieces of a text."""
        split = self.wordpiece_tokenizer.split
        return [piece for word in self.basic_tokenizer.tokenize(text) for piece in split(word)]

    def warn_about_unknown(self, source: str, counts: Iterable[int]) -> None:
        """Warns if much of a text became [UNK].

        Args:
          source: what was encoded, for the message.
          counts: how often each id occurs in it, control tokens included.
        """
        pairs = zip(self.tokens, map(int, counts), strict=False)
        words = {token: count for token, count in pairs if not token.startswith("##")}
        control = sum(words.get(token, 0) for token in SPECIAL_TOKENS if token != "[UNK]")
        warn_about_unknown(source, words.get("[UNK]", 0), sum(words.values()) - control)

    def convert_tokens_to_ids(self, tokens: Iterable[str]) -> list[int]:
        """Ids of tokens; a KeyError names one that is not in the vocabulary."""
        return convert_by_vocab(self.vocab, tokens)

    def convert_ids_to_tokens(self, ids: Iterable[int]) -> list[str]:
        """Tokens of ids; a KeyError names one that is not in the vocabulary."""
        return convert_by_vocab(self.inv_vocab, ids)

    def encode(self, text: str | bytes) -> list[int]:
        """The ids of a text: ``convert_tokens_to_ids(tokenize(text))``, many times faster."""
        cache = self._chunk_ids
        ids: list[int] = []
        for chunk in _chunks(text if type(text) is str else convert_to_unicode(text)):
            ids += cache[chunk]
        return ids

    def encode_batch(self, texts: Iterable[str | bytes]) -> list[list[int]]:
        """The ids of several texts."""
        return [self.encode(text) for text in texts]

    def encode_with_offsets(self, text: str | bytes) -> tuple[list[int], list[int], list[int]]:
        """The ids of a text and the offsets of the characters they were made of.

        Args:
          text: bytes are decoded first; the offsets then refer to the decoded text.

        Returns:
          Ids, starts and ends, of equal length: an id was made of ``text[start:end]``, counted in
          code points of the text before any cleaning. ``[UNK]`` has the offsets of its whole word.
          Neither starts nor ends ever decrease.
        """
        ids: list[int] = []
        starts: list[int] = []
        ends: list[int] = []
        for match in _CHUNK.finditer(convert_to_unicode(text)):
            offset = match.start()
            chunk_ids, chunk_starts, chunk_ends = self._chunk_offsets[match.group()]
            ids += chunk_ids
            starts += [offset + start for start in chunk_starts]
            ends += [offset + end for end in chunk_ends]
        return ids, starts, ends

    def _encode_chunk(self, chunk: str) -> tuple[int, ...]:
        words = self.basic_tokenizer.tokenize(chunk)
        if len(words) == 1:
            return self._word_ids[words[0]]
        ids: list[int] = []
        for word in words:
            ids += self._word_ids[word]
        return tuple(ids)

    def _encode_word(self, word: str) -> tuple[int, ...]:
        return tuple(map(self.vocab.__getitem__, self.wordpiece_tokenizer.split(word)))

    def _encode_chunk_with_offsets(self, chunk: str) -> tuple[tuple[int, ...], ...]:
        starts, ends = self.basic_tokenizer.align(chunk)
        rows = []
        position = 0  # among the characters of all words
        for word in self.basic_tokenizer.tokenize(chunk):
            pieces = self.wordpiece_tokenizer.split(word)
            lengths = [len(pieces[0]), *(len(piece) - len("##") for piece in pieces[1:])]
            if len(pieces) == 1:  # the word itself, or [UNK], whose length is not that of the word
                lengths = [len(word)]
            for piece, length in zip(pieces, lengths, strict=True):
                rows.append((self.vocab[piece], starts[position], ends[position + length - 1]))
                position += length
        return tuple(zip(*rows, strict=True)) or ((), (), ())


def create_tokenizer(text: options.TokenizerOptions) -> FullTokenizer:
    """Creates the tokenizer that the flags describe."""
    return FullTokenizer(
        text.vocab_file,
        text.do_lower_case,
        strip_accents=text.strip_accents,
        protected_tokens=split_protected_tokens(text),
        space_symbols=text.space_symbols,
    )


def split_protected_tokens(text: options.TokenizerOptions) -> list[str]:
    """The tokens that ``--protected_tokens`` lists, separated by commas."""
    return [token for part in text.protected_tokens.split(",") if (token := part.strip())]
