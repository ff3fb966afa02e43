"""What the tests of the SQuAD modules share: small files, vocabularies, and the golden sets."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

import tokenization
from tasks import squad_examples, squad_features, squad_windows

GOLDEN = ("xquad_en_v1", "xquad_en_v2", "xquad_zh", "train_v11", "xquad_de_train")
PREDICTED = GOLDEN[:3]


def question(qas_id: str, *answers: tuple[str, int], **more: Any) -> dict[str, Any]:
    """A question; its answers are (text, answer_start)."""
    texts = [{"text": text, "answer_start": start} for text, start in answers]
    return {"id": qas_id, "question": "what ?", "answers": texts, **more}


def data(*paragraphs: tuple[str, Sequence[dict[str, Any]]]) -> dict[str, Any]:
    """A parsed file of (context, questions)."""
    found = [{"context": context, "qas": list(qas)} for context, qas in paragraphs]
    return {"version": "1.1", "data": [{"title": "t", "paragraphs": found}]}


def tokenizer(
    folder: pathlib.Path, text: str, do_lower_case: bool = True
) -> tokenization.FullTokenizer:
    """A tokenizer whose vocabulary has the tokens of a text."""
    tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *dict.fromkeys(text.split())]
    path = folder / "vocab.txt"
    path.write_text("".join(f"{token}\n" for token in tokens), encoding="utf-8")
    return tokenization.FullTokenizer(str(path), do_lower_case)


class Golden(NamedTuple):
    """One set of what the original release made."""

    folder: pathlib.Path
    meta: dict[str, Any]
    tokenizer: tokenization.FullTokenizer
    examples: squad_examples.Examples
    features: squad_features.Features

    def logits(self) -> list[tuple[int, np.ndarray, np.ndarray]]:
        """The seeded logits the original was given: (row, start, end)."""
        generator = np.random.RandomState(self.meta["logits_seed"])
        shape = 2, self.meta["max_seq_length"]
        rows = range(self.meta["num_features"])
        return [(row, *(generator.randn(*shape) * 3).astype(np.float32)) for row in rows]


def golden(shared: pathlib.Path, name: str, num_workers: int = 1) -> Golden:
    """Reads a golden set and builds our features of the same questions."""
    folder = shared / "golden" / "squad" / name
    meta = json.loads((folder / "meta.json").read_text())
    squad = shared / "data" / "squad"
    path = squad / meta["file"] if "xquad" not in meta["file"] else squad / "xquad" / meta["file"]
    examples = squad_examples.read(
        str(path),
        is_training=meta["is_training"],
        version_2_with_negative=meta["version_2_with_negative"],
    )
    examples = examples._replace(questions=examples.questions[: meta["limit"]])
    vocab = shared / "data" / "vocab" / meta["vocab"] / "vocab.txt"
    words = tokenization.FullTokenizer(str(vocab), meta["do_lower_case"])
    sizes = squad_windows.Sizes(
        max_seq_length=meta["max_seq_length"],
        doc_stride=meta["doc_stride"],
        max_query_length=meta["max_query_length"],
    )
    features = squad_features.build(examples, words, sizes, num_workers)
    return Golden(folder, meta, words, examples, features)
