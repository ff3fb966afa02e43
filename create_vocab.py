"""Learns a WordPiece vocabulary from text.

Words are counted by the rules that models read text with (tokenization.py), tensorflow_text's
learner finds the pieces, and the file holds exactly --vocab_size lines where the text has that
many: the special tokens, every character that is not rare, then pieces from the most frequent down.

  python create_vocab.py --input_file='corpus/*.txt' --output_file=vocab.txt --vocab_size=8000
"""

import collections
import dataclasses
import logging
import math
import os
import sys
import time
import unicodedata
import zlib
from collections.abc import Callable, Iterator, Sequence

import tokenization
from command_line import app, errors, options
from system import atomic_files, inputs, outputs
from tasks.pretraining import corpus
from tasks.pretraining import options as pretraining_options

_log = logging.getLogger(__name__)

# A character rarer than this share of all is left out: otherwise the thousands of characters that
# large corpora have a few times would take the room of pieces.
_RARE_CHARACTER = 1e-6
# The learner keeps all substrings of all its words in memory: about 6 kB a word.
_MOST_LEARNED_WORDS = 200_000
_MOST_COUNTED_WORDS = 5_000_000
# In scripts without spaces a "word" is a clause. The learner passes over more than 50 characters,
# so those are cut into parts; a part has many more substrings than a usual word.
_LONGEST_LEARNED_WORD = 50
_PART = 20
_MOST_LEARNED_PARTS = 30_000
_MOST_WAITING_CHUNKS = 200_000
# A threshold is accepted when it gives at most this many times the requested pieces.
_SLACK = 1.02
_SECONDS_BETWEEN_LINES = 5.0


@dataclasses.dataclass(frozen=True, kw_only=True)
class VocabOptions(options.TextRules):
    """Vocabulary to learn"""

    input_file: str = options.flag(
        "", "Text files, comma separated; each item may be a pattern; .gz is read.", required=True
    )
    text_key: str = options.same_flag(pretraining_options.PretrainingDataOptions, "text_key")
    output_file: str = options.flag("", "The vocab.txt to write.", required=True)
    vocab_size: int = options.flag(30522, "Number of entries, special tokens included.", minimum=10)
    min_count: int = options.flag(
        2, "A word must occur this often in the corpus to shape the vocabulary.", minimum=1
    )
    unused_tokens: int = options.flag(
        0, "Number of [unusedN] entries kept free for words that are added later.", minimum=0
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.unused_tokens + 5 >= self.vocab_size:
            raise errors.FlagError(
                f"--vocab_size={self.vocab_size} leaves no room beside 5 special tokens and "
                f"--unused_tokens={self.unused_tokens}; expected more than {self.unused_tokens + 5}"
            )


def work(vocab_options: VocabOptions) -> None:
    """Reads the corpus, learns and writes the vocabulary."""
    files = inputs.expand("input_file", vocab_options.input_file)
    (output,) = outputs.check_files("output_file", [vocab_options.output_file], files)
    tokenizer = tokenization.BasicTokenizer(
        vocab_options.do_lower_case, strip_accents=vocab_options.strip_accents
    )
    words = count_words(files, tokenizer, vocab_options.text_key)
    if not words:
        raise errors.UserError(f"--input_file={vocab_options.input_file}: no text in it")
    unused = [f"[unused{index}]" for index in range(vocab_options.unused_tokens)]
    special = [*tokenization.SPECIAL_TOKENS, *unused]
    room = vocab_options.vocab_size - len(special)
    alphabet = choose_alphabet(words, tokenizer, room, vocab_options.min_count)
    pieces = learn_pieces(words, set(alphabet), room - len(alphabet), vocab_options.min_count)
    vocab = [*special, *alphabet, *pieces]
    if len(vocab) < vocab_options.vocab_size:
        # With a lower --min_count every word that was too rare becomes an entry.
        lower_count_helps = any(
            count < vocab_options.min_count and word not in vocab for word, count in words.items()
        )
        _log.warning(
            "the text gives %d entries, --vocab_size=%d was requested; give more text%s",
            len(vocab),
            vocab_options.vocab_size,
            " or --min_count=1" if lower_count_helps else "",
        )
    app.import_tensorflow()
    import tensorflow as tf

    tf.io.gfile.makedirs(os.path.dirname(output))
    atomic_files.write_text(output, "".join(f"{token}\n" for token in vocab))
    _log.info("wrote %d entries to %s", len(vocab), vocab_options.output_file)


# --------------------------------------------------------------------------------------------------
# Counting
# --------------------------------------------------------------------------------------------------


def count_words(
    files: Sequence[str], tokenizer: tokenization.BasicTokenizer, text_key: str = ""
) -> collections.Counter[str]:
    """Counts the words of text files.

    Beyond five million different words, the rarest are forgotten.

    Args:
      files: paths; bytes that are not UTF-8 are dropped with a warning.
      tokenizer: says what a word is.
      text_key: of files with a JSON object a line, the key of the text.
    """
    words: collections.Counter[str] = collections.Counter()
    chunks: collections.Counter[str] = collections.Counter()
    floor = characters = marks = 0
    for line in _read_all(files, text_key):
        # Words never reach across a space, so equal chunks are tokenized once.
        chunks.update(line.split(" "))
        if len(chunks) >= _MOST_WAITING_CHUNKS:
            marks += _count_marks(chunks)
            characters += _count_characters(chunks)
            _move(chunks, words, tokenizer)
            while len(words) > _MOST_COUNTED_WORDS:
                floor += 1
                words = collections.Counter({w: n for w, n in words.items() if n > floor})
    marks += _count_marks(chunks)
    characters += _count_characters(chunks)
    _move(chunks, words, tokenizer)
    _log.info("%d words, %d different ones", words.total(), len(words))
    if tokenizer.strip_accents and marks > 0.05 * characters:
        _log.warning(
            "%.0f%% of the characters are accents, vowel or tone marks, which are stripped; "
            "--strip_accents=false keeps them, here and in every command that uses the vocabulary",
            100 * marks / characters,
        )
    return words


def _count_characters(chunks: collections.Counter[str]) -> int:
    return sum(len(chunk) * count for chunk, count in chunks.items())


def _count_marks(chunks: collections.Counter[str]) -> int:
    """Combining marks, also those that are a part of a character such as é."""
    return sum(
        count * sum(map(_is_mark, unicodedata.normalize("NFD", chunk)))
        for chunk, count in chunks.items()
        if not chunk.isascii()
    )


def _is_mark(char: str) -> bool:
    return unicodedata.category(char) == "Mn"


def _move(
    chunks: collections.Counter[str],
    words: collections.Counter[str],
    tokenizer: tokenization.BasicTokenizer,
) -> None:
    """Empties ``chunks`` into ``words``."""
    for chunk, count in chunks.items():
        for word in tokenizer.tokenize(chunk):
            words[word] += count
    chunks.clear()


def _read_all(files: Sequence[str], text_key: str) -> Iterator[str]:
    """Yields the lines of all files and logs progress by bytes."""
    sizes = [inputs.size(path) for path in files]
    start = last = time.monotonic()
    before = 0
    for path, size in zip(files, sizes, strict=True):
        read = 0
        for line, length in corpus.read_lines(path, text_key):
            read += length
            yield line
            now = time.monotonic()
            if now - last >= _SECONDS_BETWEEN_LINES:
                last = now
                # A compressed file holds more than its size: it counts as done early.
                _log.info("%s", _progress(before + min(read, size), sum(sizes), now - start))
        before += size


def _progress(done: int, total: int, seconds: float) -> str:
    rate = max(done, 1) / seconds
    return (
        f"counting words: {done / 1e6:.0f} of {total / 1e6:.0f} MB, {rate / 1e6:.1f} MB/s, "
        f"{(total - done) / rate:.0f} s left"
    )


# --------------------------------------------------------------------------------------------------
# Choosing
# --------------------------------------------------------------------------------------------------


def choose_alphabet(
    words: collections.Counter[str],
    tokenizer: tokenization.BasicTokenizer,
    room: int,
    min_count: int,
) -> list[str]:
    """The entries with which any word can be spelled: ``c`` and ``##c`` for each character.

    Args:
      words: how often each word occurs.
      tokenizer: a character that it always makes a word of its own (punctuation, ideographs) needs
        no ``##c``.
      room: most entries.
      min_count: least occurrences of a character.

    Returns:
      Entries in code point order, those with ``##`` last.
    """
    counts: collections.Counter[str] = collections.Counter()
    for word, count in words.items():
        for char in word:
            counts[char] += count
    least = max(min_count, counts.total() * _RARE_CHARACTER)
    plain: list[str] = []
    joined: list[str] = []
    left_out = 0
    for char, count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        forms = 1 if len(tokenizer.tokenize(f"a{char}a")) > 1 else 2
        if count < least:
            break
        if len(plain) + len(joined) + forms > room:
            left_out += 1
            continue
        plain.append(char)
        joined += [f"##{char}"] * (forms - 1)
    if left_out:
        _log.warning(
            "--vocab_size has no room for %d of %d characters; words with them become [UNK]",
            left_out,
            left_out + len(plain),
        )
    return sorted(plain) + sorted(joined)


def learn_pieces(
    words: collections.Counter[str], alphabet: set[str], num_pieces: int, min_count: int
) -> list[str]:
    """Pieces of two and more characters, the most frequent first.

    Args:
      words: how often each word occurs.
      alphabet: single-character entries; words with other characters are left aside.
      num_pieces: number of pieces.
      min_count: least occurrences of a word to learn from.

    Returns:
      ``num_pieces`` pieces, or all there are.
    """
    spelled = [
        (word, count)
        for word, count in words.items()
        if count >= min_count and alphabet.issuperset(word)
    ]
    unknown = words.total() - sum(n for word, n in words.items() if alphabet.issuperset(word))
    _log.info("%.4f %% of the words have a rare character", 100 * unknown / words.total())
    spelled.sort(key=lambda item: (-item[1], item[0]))
    spelled = spelled[: max(_MOST_LEARNED_WORDS, 4 * num_pieces)]
    spelled = [item for item in spelled if len(item[0]) <= _LONGEST_LEARNED_WORD]
    spelled += _parts_of_long_words(words, alphabet)
    spelled.sort(key=lambda item: (-item[1], item[0]))
    if num_pieces <= 0 or not spelled:
        return []
    app.import_tensorflow()
    from tensorflow_text.tools.wordpiece_vocab import wordpiece_tokenizer_learner_lib as learner

    def learn(threshold: int) -> list[str]:
        # Equal bounds make it a single pass: its own search ends anywhere within its slack.
        vocab = learner.learn(
            spelled,
            vocab_size=num_pieces,
            reserved_tokens=[],
            lower_thresh=threshold,
            upper_thresh=threshold,
            max_unique_chars=len(alphabet),
        )
        return [piece for piece in vocab if len(piece.removeprefix("##")) > 1]

    guess = spelled[min(num_pieces, len(spelled)) - 1][1]
    return trim(search(learn, num_pieces, guess), num_pieces)


def _parts_of_long_words(
    words: collections.Counter[str], alphabet: set[str]
) -> list[tuple[str, int]]:
    """What is learned of the words that are too long for the learner, and how often it occurs.

    They are hardly ever equal, so a least number of occurrences says nothing of their parts.
    """
    longest = tokenization.MAX_WORD_LENGTH
    parts: collections.Counter[str] = collections.Counter()
    long = beyond = 0
    for word, count in words.items():
        if len(word) > longest:
            beyond += len(word) * count
        elif len(word) > _LONGEST_LEARNED_WORD and alphabet.issuperset(word):
            long += len(word) * count
            for start in range(0, len(word), _PART):
                parts[word[start : start + _PART]] += count
    total = sum(len(word) * count for word, count in words.items())
    if long:
        _log.info(
            "%.0f%% of the characters are in words of more than %d characters, which are learned "
            "in parts",
            100 * long / total,
            _LONGEST_LEARNED_WORD,
        )
    if beyond:
        _log.warning(
            "%.1f%% of the characters are in words of more than %d characters, which become [UNK]; "
            "put spaces between the words of the text",
            100 * beyond / total,
            longest,
        )
    # By a hash, where they occur equally often: by the alphabet, its end would be left out.
    by_count = sorted(parts.items(), key=lambda item: (-item[1], zlib.crc32(item[0].encode())))
    return by_count[:_MOST_LEARNED_PARTS]


def trim(pieces: list[str], num_pieces: int) -> list[str]:
    """Keeps the first ``num_pieces`` pieces; of equally frequent ones at the cut, the shortest.

    Args:
      pieces: the most frequent first, equally frequent ones in alphabetical order: this is how ties
        are recognised, and why a plain cut would keep words in a and lose those in z. Short pieces
        occur in more words, so they serve other text better.
      num_pieces: number of pieces.
    """
    if len(pieces) <= num_pieces:
        return pieces
    start = end = num_pieces
    while start > 0 and pieces[start - 1] < pieces[start]:
        start -= 1
    while end < len(pieces) and pieces[end - 1] < pieces[end]:
        end += 1
    shortest = sorted(pieces[start:end], key=lambda piece: (len(piece.removeprefix("##")), piece))
    return pieces[:start] + sorted(shortest[: num_pieces - start])


def search(learn: Callable[[int], list[str]], num_pieces: int, guess: int) -> list[str]:
    """Finds the threshold that gives ``num_pieces`` pieces or a little more.

    Args:
      learn: threshold → pieces; the higher the threshold, the fewer pieces.
      num_pieces: number of pieces.
      guess: threshold to begin with, at least 1.

    Returns:
      The pieces at the highest threshold with at least ``num_pieces``, or at a lower one with a few
      more, or at threshold 1 if even that gives fewer.
    """
    enough: list[str] | None = None
    low, high = 0, sys.maxsize  # thresholds: enough pieces at low (if above 0), too few at high
    threshold = guess
    while True:
        start = time.monotonic()
        pieces = learn(threshold)
        _log.info(
            "learning: %d pieces occur at least %d times, %d wanted (%.1f s)",
            len(pieces),
            threshold,
            num_pieces,
            time.monotonic() - start,
        )
        if len(pieces) >= num_pieces:
            low, enough = threshold, pieces
        else:
            high = threshold
        if threshold == 1 and enough is None:
            return pieces
        if enough is not None and (len(enough) <= _SLACK * num_pieces or high - low <= 1):
            return enough
        if low and high < sys.maxsize:
            threshold = math.isqrt(low * high)
        else:
            # The number of pieces falls about as one over the threshold. No small steps: where it
            # does not, they would never end.
            ratio = len(pieces) / num_pieces
            threshold = math.ceil(threshold * (max(ratio, 1.25) if low else min(ratio, 0.8)))
        threshold = min(max(threshold, low + 1), high - 1)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit status."""
    return app.run(work, [VocabOptions], __doc__, argv)


if __name__ == "__main__":
    sys.exit(main())
