"""A model and records so small that a training step takes milliseconds."""

from __future__ import annotations

import json
import pathlib

import numpy as np
import tensorflow as tf

import records

LENGTH = 16
PREDICTIONS = 3
VOCAB = 60
CONFIG = {
    "vocab_size": VOCAB,
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
    "intermediate_size": 32,
    "max_position_embeddings": 24,
    "type_vocab_size": 2,
    "hidden_dropout_prob": 0.1,
    "attention_probs_dropout_prob": 0.1,
    "initializer_range": 0.1,
}
FLAGS = [f"--max_seq_length={LENGTH}", f"--max_predictions_per_seq={PREDICTIONS}"]


def write_config(path: pathlib.Path, **changes) -> str:
    path.write_text(json.dumps({**CONFIG, **changes}))
    return str(path)


def write_records(path: pathlib.Path, count: int, seed: int = 0) -> str:
    """Random examples in which a token is followed by its successor: a rule to learn."""
    rng = np.random.default_rng(seed)
    features = records.pretraining_features(LENGTH, PREDICTIONS)
    with tf.io.TFRecordWriter(str(path)) as writer:
        for _ in range(count):
            length = int(rng.integers(6, LENGTH + 1))
            split = int(rng.integers(2, length - 2))
            ids = (5 + (rng.integers(0, VOCAB) + np.arange(length)) % (VOCAB - 5)).tolist()
            ids[0], ids[split], ids[-1] = 2, 3, 3
            inside = [i for i in range(1, length - 1) if i != split]
            count_masked = int(rng.integers(1, PREDICTIONS + 1))
            places = sorted(rng.choice(inside, min(count_masked, len(inside)), False).tolist())
            labels = [ids[place] for place in places]
            for place in places:
                ids[place] = 4
            values = {
                "input_ids": ids,
                "input_mask": [1] * length,
                "segment_ids": [0] * (split + 1) + [1] * (length - split - 1),
                "masked_lm_positions": places,
                "masked_lm_ids": labels,
                "masked_lm_weights": [1.0] * len(places),
                "next_sentence_labels": [int(rng.integers(2))],
            }
            writer.write(records.encode_example(features, values))
    return str(path)


def read_checkpoint(prefix: str | pathlib.Path) -> dict[str, np.ndarray]:
    reader = tf.train.load_checkpoint(str(prefix))
    return {name: reader.get_tensor(name) for name in reader.get_variable_to_shape_map()}
