"""Corpora for the tests of create_pretraining_data.py, and what its records must be like."""

from __future__ import annotations

import hashlib
import logging
import math
import pathlib
import random
import string

import create_pretraining_data
import records

LETTERS = string.ascii_lowercase
PUNCTUATION = [chr(code) for code in range(33, 127) if not chr(code).isalnum()]
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
CHARACTERS = [
    *SPECIAL,
    *LETTERS,
    *("##" + letter for letter in LETTERS),
    *string.digits,
    *("##" + digit for digit in string.digits),
    *PUNCTUATION,
]
NAMES = [feature.name for feature in records.pretraining_features(5, 1)]


class Run:
    """A folder with a vocabulary and a corpus, and the script run in it."""

    def __init__(self, folder: pathlib.Path, capsys, caplog):
        self.folder = folder
        self._capsys, self._caplog = capsys, caplog
        caplog.set_level(logging.INFO)
        self.write_vocab(CHARACTERS)

    def write_vocab(self, tokens: list[str]) -> None:
        (self.folder / "vocab.txt").write_text("".join(token + "\n" for token in tokens))

    def write(self, text: str | bytes, name: str = "corpus.txt") -> str:
        path = self.folder / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return str(path)

    def arguments(self, output: str, flags: dict) -> list[str]:
        values = {
            "input_file": self.folder / "corpus.txt",
            "vocab_file": self.folder / "vocab.txt",
            "output_file": ",".join(str(self.folder / name) for name in output.split(",")),
            "num_workers": 1,
            "log_examples": 0,
            **flags,
        }
        return [f"--{name}={value}" for name, value in values.items()]

    def __call__(self, output: str = "out", **flags) -> list[dict]:
        """Runs the script; it must succeed. Returns the records in round-robin order."""
        self._caplog.clear()
        status = create_pretraining_data.main(["x.py", *self.arguments(output, flags)])
        assert (status, self._capsys.readouterr().err) == (0, "")
        return read([self.folder / name for name in output.split(",")])

    def fail(self, status: int = 1, output: str = "out", **flags) -> str:
        """Runs the script; it must fail, with one line and without files. Returns the line."""
        before = sorted(self.folder.iterdir())
        found = create_pretraining_data.main(["x.py", *self.arguments(output, flags)])
        message = self._capsys.readouterr().err
        assert (found, message.count("\n")) == (status, 1), message
        assert sorted(self.folder.iterdir()) == before
        return message

    @property
    def log(self) -> list[str]:
        return [record.getMessage() for record in self._caplog.records]

    def warnings(self, about: str) -> list[str]:
        return [
            record.getMessage()
            for record in self._caplog.records
            if record.levelno == logging.WARNING and about in record.getMessage()
        ]


def read(paths) -> list[dict]:
    import tensorflow as tf

    files = [list(tf.data.TFRecordDataset(str(path)).as_numpy_iterator()) for path in paths]
    found = []
    for k in range(sum(map(len, files))):
        serialized = files[k % len(files)][k // len(files)]
        feature = tf.train.Example.FromString(serialized).features.feature
        found.append(
            {
                name: list(feature[name].int64_list.value or feature[name].float_list.value)
                for name in NAMES
            }
        )
    return found


def digest(rows: list[dict]) -> str:
    sha = hashlib.sha256()
    for row in rows:
        for name in NAMES:
            sha.update(f"{name}: {' '.join(str(int(value)) for value in row[name])}\n".encode())
    return sha.hexdigest()


def segments(row: dict) -> tuple[list[int], list[int]]:
    """The two segments with the masked tokens put back."""
    ids = list(row["input_ids"])
    for at, label, weight in zip(
        row["masked_lm_positions"], row["masked_lm_ids"], row["masked_lm_weights"], strict=True
    ):
        if weight:
            ids[at] = label
    length = sum(row["input_mask"])
    boundary = length - sum(row["segment_ids"])
    return ids[1 : boundary - 1], ids[boundary : length - 1]


def spell(ids: list[int]) -> str:
    """The tokens of ids, one after the other."""
    return "".join(CHARACTERS[token] for token in ids)


def check(row: dict, length: int, predictions: int, single: bool = False) -> None:
    """What holds for every record."""
    real = sum(row["input_mask"])
    assert row["input_mask"] == [1] * real + [0] * (length - real)
    assert len(row["input_ids"]) == len(row["segment_ids"]) == length
    assert not any(row["input_ids"][real:]) and not any(row["segment_ids"][real:])
    ids = row["input_ids"]
    assert (ids[0], ids[real - 1]) == (CHARACTERS.index("[CLS]"), CHARACTERS.index("[SEP]"))
    boundary = real - sum(row["segment_ids"])
    assert row["segment_ids"][:real] == [0] * boundary + [1] * (real - boundary)
    assert ids[boundary - 1] == CHARACTERS.index("[SEP]")
    assert single == (boundary == real)
    weights = row["masked_lm_weights"]
    masked = int(sum(weights))
    assert weights == [1.0] * masked + [0.0] * (predictions - masked)
    positions = row["masked_lm_positions"][:masked]
    assert positions == sorted(set(positions)) and masked >= 1
    assert not any(row["masked_lm_positions"][masked:]) and not any(row["masked_lm_ids"][masked:])
    assert not {0, boundary - 1, real - 1} & set(positions) and positions[-1] < real
    assert row["next_sentence_labels"] in ([0], [1])


def golden_corpus() -> str:
    lines = []
    k = 0
    for document in range(12):
        for _ in range(10 + document):
            words = (
                LETTERS[(k + j) % 26]
                + LETTERS[(2 * k + 3 * j) % 26]
                + LETTERS[(3 * k + 5 * j) % 26]
                for j in range(4 + k % 9)
            )
            lines.append(" ".join(words))
            k += 1
        lines.append("")
    return "".join(line + "\n" for line in lines)


def random_corpus(
    seed: int, documents: int, most_sentences: int, most_words: int, least_sentences: int = 1
) -> str:
    draws = random.Random(seed)

    def sentence() -> str:
        words = ("".join(draws.choices(LETTERS, k=draws.randint(1, 4))) for _ in range(99))
        return " ".join(
            word for word, _ in zip(words, range(draws.randint(1, most_words)), strict=False)
        )

    return "\n".join(
        "".join(sentence() + "\n" for _ in range(draws.randint(least_sentences, most_sentences)))
        for _ in range(documents)
    )


def within(hits: int, trials: int, share: float) -> bool:
    """Whether a binomial count is within five standard deviations (wrong once in 1.7 million)."""
    return abs(hits - trials * share) < 5 * math.sqrt(trials * share * (1 - share))


def pieces(text: str) -> list[list[list[str]]]:
    """The tokens of a text of lower-case letters under the vocabulary of characters."""
    return [
        [
            [
                letter if k == 0 else "##" + letter
                for word in line.split()
                for k, letter in enumerate(word)
            ]
            for line in document.splitlines()
            if line
        ]
        for document in text.split("\n\n")
    ]
