"""SavedModels: what a fresh process with TensorFlow alone computes from them."""

import json
import os
import subprocess
import sys
import types

import numpy as np
import pytest
import tensorflow as tf

import modeling
import tiny
import tokenization
from command_line import errors, options
from serving import export
from tasks.classifier import examples
from tasks.classifier import features as classifier_features

WORDS = ["the", "cat", "dog", "##s", "run", "##ning", "sleep", "résumé", "resume", "今", "!", ","]
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS]
ROWS = [
    ("The cats, running!", "Dogs sleep"),
    ("résumé 今今 \u00ad the", ""),
    ("the cat the cat the cat the cat", "dogs dogs dogs dogs dogs dogs dogs"),
    ("unknowable", "!"),
    ("", ""),
]
LENGTH = 16

# Loads a SavedModel and writes the outputs of the three signatures for the inputs it is given.
CLIENT = """
import json, sys
import tensorflow as tf
path, inputs, results = sys.argv[1:]
assert "tensorflow_text" not in sys.modules
loaded = tf.saved_model.load(path)
given = json.load(open(inputs))
results_by_name = {
    "assets": {k: open(v.asset_path.numpy()).read() for k, v in loaded.assets.items()}
}
for name, signature in loaded.signatures.items():
    dtype = {"from_text": tf.string, "int64": tf.int64}.get(name, tf.int32)
    rows = given["texts" if name == "from_text" else "ids"]
    values = {key: tf.constant(row, dtype) for key, row in rows.items()}
    results_by_name[name] = {k: v.numpy().tolist() for k, v in signature(**values).items()}
    if "labels" in results_by_name[name]:
        rows = results_by_name[name]["labels"]
        results_by_name[name]["labels"] = [[label.decode() for label in row] for row in rows]
json.dump(results_by_name, open(results, "w"))
"""


@pytest.fixture(scope="module")
def vocab_file(tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("vocab") / "words.txt"
    path.write_text("".join(f"{token}\n" for token in VOCAB), encoding="utf-8")
    return str(path)


def ids_of(vocab_file: str, length: int = LENGTH) -> dict[str, np.ndarray]:
    """What the model is fed for ROWS, padded to ``length``."""
    tokenizer = tokenization.FullTokenizer(vocab_file)
    features = [
        classifier_features.convert_single_example(
            9, examples.InputExample("", *row, "x"), ["x"], LENGTH, tokenizer
        )
        for row in ROWS
    ]
    found = {}
    for name in ("input_ids", "input_mask", "segment_ids"):
        rows = np.array([getattr(feature, name) for feature in features])
        found[name] = np.pad(rows, [(0, 0), (0, length - LENGTH)])
    return found


def load_elsewhere(path, folder, ids) -> dict:
    """Outputs of all signatures in a process of its own."""
    texts = {"text_a": [a for a, _ in ROWS], "text_b": [b for _, b in ROWS]}
    given = {"ids": {name: rows.tolist() for name, rows in ids.items()}, "texts": texts}
    (folder / "given.json").write_text(json.dumps(given))
    command = [sys.executable, "-c", CLIENT, str(path), "given.json", "found.json"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return json.loads((folder / "found.json").read_text())


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "flags"),
    [
        (["yes", "no", "so so"], ["--num_cpu_devices=2", "--static_shapes"]),
        ([], ["--regression"]),
        (["x", "y"], ["--multi_label", "--head=bilstm"]),
    ],
    ids=["classes", "regression", "multi_label"],
)
def test_exported_numbers_are_those_of_test_results(labels, flags, script, tmp_path, vocab_file):
    # Large weights, so that the texts get answers far apart.
    sizes = {"vocab_size": len(VOCAB), "initializer_range": 0.5}
    config = tiny.write_config(tmp_path / "config.json", **sizes)
    for part in ("train", "test"):
        lines = ["a\tb\tlabel"]
        for index, (text_a, text_b) in enumerate(ROWS):
            label = labels[index % len(labels)] if labels else str(index / 2)
            lines.append(f"{text_a or '?'}\t{text_b}\t{label}")
        (tmp_path / f"{part}.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = script(
        "run_classifier.py", "--task_name=custom", "--train_file=train.tsv", "--test_file=test.tsv",
        "--text_a_column=a", "--text_b_column=b", "--label_column=label", "--do_train",
        f"--labels={','.join(labels)}", f"--bert_config_file={config}", "--output_dir=out",
        f"--vocab_file={vocab_file}", "--do_predict", "--do_export", f"--max_seq_length={LENGTH}",
        "--train_batch_size=4", "--num_train_epochs=1", "--learning_rate=0.01", *flags,
        cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "exported out/model.ckpt-1 to out/export" in done.stderr
    assert "input name" not in done.stderr
    lines = (tmp_path / "out" / "test_results.tsv").read_text().splitlines()
    expected = np.array([[float(value) for value in line.split("\t")] for line in lines])
    assert expected.shape == (len(ROWS), len(labels) or 1)
    assert np.ptp(expected, 0).min() > 0.01

    # The table's reader takes no empty text, so "?" stood for it, which is an unknown word.
    ids = ids_of(vocab_file, LENGTH + 3)
    ids["input_ids"][4, :3], ids["input_mask"][4, :3] = (2, 1, 3), 1
    found = load_elsewhere("out/export", tmp_path, ids)
    for name in ("serving_default", "int64"):
        np.testing.assert_allclose(found[name]["probabilities"], expected, atol=1e-5)
    np.testing.assert_allclose(found["from_text"]["probabilities"][:4], expected[:4], atol=1e-5)
    for name in ("serving_default", "int64", "from_text"):
        assert found[name].keys() == {"probabilities", "labels" if labels else "value"}
    if labels:
        assert found["int64"]["labels"] == [labels] * len(ROWS)
    else:
        assert found["from_text"]["value"] == found["from_text"]["probabilities"]
    assert found["assets"].pop("vocab.txt") == "".join(f"{token}\n" for token in VOCAB)
    labels_file = {"labels.txt": "".join(f"{label}\n" for label in labels)}
    assert found["assets"] == (labels_file if labels else {})


class Task(tf.Module):
    """In place of probabilities: a sum that tells ids, mask and segments, and the length."""

    def __init__(self):
        super().__init__()
        config = modeling.BertConfig(vocab_size=len(VOCAB), max_position_embeddings=20)
        self.model = types.SimpleNamespace(encoder=types.SimpleNamespace(config=config))
        self.table = tf.Variable([2.0**k for k in range(len(VOCAB))])

    def probabilities(self, input_ids, input_mask, segment_ids):
        weight = tf.cast(input_mask * (1 + segment_ids), tf.float32)
        total = tf.reduce_sum(tf.gather(self.table, input_ids) * weight, 1)
        return tf.stack([total, tf.cast(tf.reduce_sum(input_mask, 1), tf.float32)], 1)


def test_values_by_hand(vocab_file, tmp_path):
    text = options.TokenizerOptions(vocab_file=vocab_file, protected_tokens="[MASK]")
    export.save_classifier(str(tmp_path / "export"), Task(), ["p", "q"], text, 8)
    loaded = tf.saved_model.load(str(tmp_path / "export"))
    serve = loaded.signatures["from_text"]
    found = serve(text_a=tf.constant(["cats", "The [MASK]"]), text_b=tf.constant(["", "dog"]))
    cls, sep, cat, plural, the, mask, dog = 4, 8, 64, 256, 32, 16, 128
    expected = [[cls + cat + plural + sep, 4], [cls + the + mask + sep + 2 * (dog + sep), 6]]
    np.testing.assert_array_equal(found["probabilities"], expected)
    none = serve(text_a=tf.constant([], tf.string), text_b=tf.constant([], tf.string))
    assert none["probabilities"].shape == (0, 2)

    np.testing.assert_array_equal(none["labels"], np.zeros([0, 2]))
    # One second text for all, and none.
    one = serve(text_a=tf.constant(["cats", "cats"]), text_b=tf.constant(["dog"]))
    pair = cls + cat + plural + sep + 2 * (dog + sep)
    np.testing.assert_array_equal(one["probabilities"], [[pair, 6]] * 2)
    np.testing.assert_array_equal(one["labels"], [[b"p", b"q"]] * 2)
    found = loaded.from_text(["cats", "The [MASK]"])["probabilities"]
    np.testing.assert_array_equal(found, [expected[0], [cls + the + mask + sep, 4]])
    for count in (0, 3):
        with pytest.raises(tf.errors.InvalidArgumentError, match="as many as text_a"):
            serve(text_a=tf.constant(["a", "b"]), text_b=tf.fill([count], "a"))
    for name, dtype in (("serving_default", tf.int32), ("int64", tf.int64)):
        ones = {k: tf.ones([1, 21], dtype) for k in ("input_ids", "input_mask", "segment_ids")}
        with pytest.raises(tf.errors.InvalidArgumentError, match="at most 20 tokens"):
            loaded.signatures[name](**ones)


def save_value(path, value: float) -> None:
    holder = tf.Module()
    holder.value = tf.Variable(value)
    serve = tf.function(lambda: {"value": holder.value + 0.0}, input_signature=[])
    export.save(str(path), [holder], {"serving_default": serve}, {"note.txt": b"n"})


def value_of(path) -> float:
    return float(tf.saved_model.load(str(path)).signatures["serving_default"]()["value"])


def half_written(module, path, **arguments):
    os.makedirs(path)
    with open(f"{path}/saved_model.pb", "w"):
        raise OSError("disk full")


def test_an_export_is_replaced_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "export"
    for leftover in ("export.tempstate123", "export.tempstate-former"):  # of killed exports
        (tmp_path / leftover).mkdir()
    save_value(path, 1.0)
    assert os.listdir(tmp_path) == ["export"]
    with monkeypatch.context() as patch:
        patch.setattr(tf.saved_model, "save", half_written)
        with pytest.raises(errors.UserError, match="export cannot be written: disk full"):
            save_value(path, 2.0)
    assert os.listdir(tmp_path) == ["export"]
    assert value_of(path) == 1.0
    save_value(path, 2.0)
    assert os.listdir(tmp_path) == ["export"]
    assert value_of(path) == 2.0


def test_the_former_export_outlives_a_kill_at_the_worst_moment(tmp_path, monkeypatch):
    path = tmp_path / "export"
    save_value(path, 1.0)
    os.rename(path, tmp_path / "export.tempstate-former")
    with monkeypatch.context() as patch:
        patch.setattr(tf.saved_model, "save", half_written)
        with pytest.raises(errors.UserError, match="disk full"):
            save_value(path, 2.0)
    assert value_of(tmp_path / "export.tempstate-former") == 1.0
    save_value(path, 2.0)
    assert os.listdir(tmp_path) == ["export"]


def test_the_place_must_be_free(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(errors.UserError, match="file is a file"):
        save_value(tmp_path / "file", 1.0)
    with pytest.raises(errors.UserError, match="cannot be written"):
        save_value(tmp_path / "file" / "export", 1.0)
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "thesis.tex").write_text("mine")
    with pytest.raises(errors.UserError, match=r"folder holds thesis\.tex and is not a SavedModel"):
        save_value(tmp_path / "folder", 1.0)
    save_value(tmp_path / "model", 1.0)
    with pytest.raises(errors.UserError, match=r"model is a SavedModel, and .*model/2 would be"):
        save_value(tmp_path / "model/2", 1.0)
    save_value(tmp_path / "versions/2", 2.0)
    assert value_of(tmp_path / "versions/2") == 2.0
    assert (tmp_path / "file").read_text() == "mine"
    assert os.listdir(tmp_path / "folder") == ["thesis.tex"]


class SpanTask(Task):
    """In place of a model's logits: numbers that depend on ids, mask and segments."""

    def logits(self, input_ids, input_mask, segment_ids):
        values = tf.cast(input_ids * input_mask + segment_ids, tf.float32)
        return {"start_logits": values * 0.5 * self.table[0], "end_logits": values * self.table[1]}


def test_span_model(vocab_file, tmp_path):
    path = str(tmp_path / "export")
    export.save_span_model(path, SpanTask(), options.TokenizerOptions(vocab_file=vocab_file))
    loaded = tf.saved_model.load(path)
    ids = {"input_ids": [[6, 8]], "input_mask": [[1, 0]], "segment_ids": [[0, 2]]}
    for name, dtype in (("serving_default", tf.int32), ("int64", tf.int64)):
        inputs = {key: tf.constant(rows, dtype) for key, rows in ids.items()}
        logits = loaded.signatures[name](**inputs)
        np.testing.assert_array_equal(logits["start_logits"], [[3.0, 1.0]])
        np.testing.assert_array_equal(logits["end_logits"], [[12.0, 4.0]])
    inputs = {key: tf.constant(rows) for key, rows in ids.items()}
    numbered = loaded.signatures["with_unique_ids"](unique_ids=tf.constant([7]), **inputs)
    assert numbered["unique_ids"] == [7]
    np.testing.assert_array_equal(numbered["end_logits"], [[12.0, 4.0]])
    with open(loaded.assets["vocab.txt"].asset_path.numpy(), encoding="utf-8") as file:
        assert file.read().split() == VOCAB
