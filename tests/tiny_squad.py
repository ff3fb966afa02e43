"""Small question sets, and a model whose answers can be told beforehand."""

from __future__ import annotations

import json
import pathlib
import string
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import squad_files

import checkpoints
import heads
import modeling

LETTERS = list(string.ascii_lowercase)
COLOURS = ("red", "blue", "green", "gold")
CONFIG = {
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 400,
    "type_vocab_size": 2,
    "initializer_range": 0.1,
}
_SPREAD = 8.0  # of the axes that have no meaning


def write_model(folder: pathlib.Path, words: Sequence[str] = (), **changes: Any) -> list[str]:
    """Writes vocab.txt and config.json; returns the flags.

    The vocabulary has "what", "?", the letters, the colours and ``words``.
    """
    tokens = dict.fromkeys(["what", "?", *LETTERS, *COLOURS, *words])
    squad_files.tokenizer(folder, " ".join(tokens))
    config = {**CONFIG, "vocab_size": 5 + len(tokens), **changes}
    (folder / "config.json").write_text(json.dumps(config))
    return [
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'config.json'}",
    ]


def write_speaker(
    folder: pathlib.Path,
    name: str,
    starts: Mapping[str, float],
    ends: Mapping[str, float],
    bias: float = 0.0,
    **state: str,
) -> str:
    """Writes a model whose scores depend on a token alone; returns the checkpoint.

    Args:
      folder: that of ``write_model``.
      name: directory of the checkpoint in it.
      starts, ends: token → its score as start or end, nearly; others have about 0.
      bias: added to all scores.
      **state: what stands beside the checkpoint.
    """
    config = modeling.BertConfig.from_json_file(str(folder / "config.json"))
    model = heads.SpanModel(config)
    variables = modeling.named_variables(model)
    for variable_name, variable in variables.items():
        if "LayerNorm" not in variable_name:
            variable.assign(np.zeros(variable.shape))
    vocab = (folder / "vocab.txt").read_text(encoding="utf-8").split("\n")
    words = np.tile([0.0, 0.0] + 7 * [_SPREAD, -_SPREAD], [config.vocab_size, 1])
    for axis, scores in enumerate((starts, ends)):
        for token, score in scores.items():
            words[vocab.index(token), axis] = score
    variables["bert/embeddings/word_embeddings"].assign(words)
    # Layers of zeros leave the normalized embedding as it is.
    head = np.zeros([2, 16])
    head[0, 0] = head[1, 1] = _SPREAD * np.sqrt(14 / 16)
    variables["cls/squad/output_weights"].assign(head)
    variables["cls/squad/output_bias"].assign([bias, bias])
    kind = {"kind": "start and end of an answer", **state}
    return checkpoints.save(str(folder / name), 1, variables, keep=1, state=kind)


def write_json(path: pathlib.Path, *paragraphs: tuple[str, Sequence[dict[str, Any]]]) -> str:
    path.write_text(json.dumps(squad_files.data(*paragraphs)), encoding="utf-8")
    return str(path)


def colour_paragraphs(count: int, impossible: bool = False) -> list[tuple[str, list[dict]]]:
    """Letters with a colour among them, which is the answer.

    With ``impossible`` every third context has no colour; then there is no answer.
    """
    found = []
    for index in range(count):
        before = LETTERS[index % 26 :][: 1 + index % 5]
        after = LETTERS[: 1 + index % 7]
        colour = COLOURS[index % 4]
        more: dict[str, Any] = {"is_impossible": False} if impossible else {}
        if impossible and index % 3 == 2:
            context = " ".join(before + after)
            qa = squad_files.question(f"q{index}", is_impossible=True)
        else:
            context = " ".join([*before, colour, *after])
            start = len(" ".join(before)) + 1
            qa = squad_files.question(f"q{index}", (colour, start), **more)
        found.append((context, [qa]))
    return found
