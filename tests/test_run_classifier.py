"""run_classifier.py from the command line to its files."""

import json
import logging
import math
import os
import re
import shutil
import signal
import string
import subprocess
import sys
import time
import types

import numpy as np
import pytest

import modeling
import run_classifier
import scripts
import tiny
import tiny_checkpoints
from checkpoints import manager
from serving import export
from system import locks
from tasks.classifier import glue_tasks

PROGRAM = run_classifier.__file__
ROOT = os.path.dirname(PROGRAM)
LETTERS = string.ascii_lowercase
VOCAB = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "good", "bad", "film", *LETTERS,
         *(f"##{letter}" for letter in LETTERS)]  # fmt: skip
MRPC = "Quality\t#1 ID\t#2 ID\t#1 String\t#2 String\n"
_main = scripts.Command(run_classifier)
CUSTOM = ["--text_a_column=text", "--label_column=label"]


def _word(row):
    """What decides a row's label: odd rows are good."""
    return ("bad", "good")[row % 2]


def _mrpc(rows):
    texts = (f"{_word(i)} film {LETTERS[i % 26] * (i % 5)}\tfilm {_word(i)}" for i in rows)
    return MRPC + "".join(
        f"{i % 2}\t{i}\t{i}\t{text}\n" for i, text in zip(rows, texts, strict=True)
    )


def _table(count, labels=("neg", "pos")):
    lines = (f"{_word(i)} {LETTERS[i % 26] * (i % 7)}\t{labels[i % 2]}\n" for i in range(count))
    return "text\tlabel\n" + "".join(lines)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("classifier")
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in VOCAB))
    assert len(VOCAB) == tiny.VOCAB
    tiny.write_config(folder / "config.json")
    tiny.write_config(
        folder / "still.json", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    (folder / "MRPC").mkdir()
    (folder / "MRPC/train.tsv").write_text("\ufeff" + _mrpc(range(40)))
    (folder / "MRPC/dev.tsv").write_text("\ufeff" + _mrpc(range(13)))
    (folder / "MRPC/test.tsv").write_text(_mrpc(range(3, 12)))
    (folder / "table.tsv").write_text(_table(40))
    return folder


def _flags(folder, output, *more, task="MRPC", data=None):
    return [
        f"--task_name={task}",
        f"--data_dir={data or folder / 'MRPC'}",
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'config.json'}",
        f"--output_dir={output}",
        "--max_seq_length=16",
        "--train_batch_size=8",
        "--learning_rate=5e-3",
        *more,
    ]


def _custom(folder, output, *more):
    return _flags(folder, output, *CUSTOM, *more, task="custom", data="")


def _rows(path):
    """Lines of test_results.tsv as numbers, float64 [N, L]."""
    lines = path.read_text().splitlines()
    return np.array([[float(cell) for cell in line.split("\t")] for line in lines])


def _metrics(output):
    return [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]


@pytest.fixture(scope="module")
def trained(folder, tmp_path_factory):
    """A model of the training command of the README, and what the run logged."""
    output = tmp_path_factory.mktemp("trained")
    lines = _main.log(
        "--task_name=MRPC", "--do_train=true", "--do_eval=true",
        f"--data_dir={folder / 'MRPC'}", f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'config.json'}", "--max_seq_length=16",
        "--train_batch_size=8", "--learning_rate=5e-3", "--num_train_epochs=3.0",
        "--do_lower_case=True", "--use_tpu=false", "--tpu_name=", "--num_tpu_cores=8",
        f"--output_dir={output}/",
    )  # fmt: skip
    return types.SimpleNamespace(output=output, log=lines, prefix=output / "model.ckpt-15")


@pytest.fixture(scope="module")
def of_table(folder, tmp_path_factory):
    """The directory of a model of the custom task, with labels found in the table."""
    output = tmp_path_factory.mktemp("of_table")
    flags = [f"--train_file={folder / 'table.tsv'}", "--num_train_epochs=4"]
    assert _main(*_custom(folder, output, "--do_train", *flags)) == 0
    assert (output / "labels.txt").read_text() == "neg\npos\n"
    return output


# --------------------------------------------------------------------------------------------------
# The original's commands and files
# --------------------------------------------------------------------------------------------------


def test_training_leaves_these_files_and_no_others(trained):
    names = scripts.names(trained.output)
    events = {name for name in names if name.startswith("events.out.tfevents.")}
    assert len(events) == 1
    assert names - events == {
        "checkpoint", *scripts.checkpoint_files(0, 15), "eval_results.txt", "labels.txt",
        "metrics.jsonl", "run.json", "bert_config.json", "evaluation.json",
    }  # fmt: skip
    made = json.loads((trained.output / "evaluation.json").read_text())["eval_results"]
    assert made["checkpoint"] == str(trained.prefix) and made["flags"]["max_seq_length"] == 16
    results = scripts.results(trained.output / "eval_results.txt")
    assert list(results) == ["eval_accuracy", "eval_f1", "eval_loss", "global_step", "loss"]
    assert results["global_step"] == "15" and results["eval_accuracy"] == "1.0"
    assert results["loss"] == results["eval_loss"]
    assert (trained.output / "labels.txt").read_text() == "0\n1\n"
    flags = json.loads((trained.output / "run.json").read_text())["flags"]
    assert flags["task_name"] == "MRPC" and flags["num_train_epochs"] == 3.0


def test_names_in_the_checkpoint_are_those_of_the_original(trained):
    values = tiny.read_checkpoint(trained.prefix)
    pooler = {f"bert/pooler/dense/{part}" for part in ("kernel", "bias")}
    weights = {*scripts.encoder_variables(), *pooler, "output_weights", "output_bias"}
    slots = {f"{name}/{slot}" for name in weights for slot in ("adam_m", "adam_v")}
    assert set(values) == weights | slots | {"global_step"}
    assert values["output_weights"].shape == (2, 16) and values["output_bias"].shape == (2,)
    assert values["global_step"] == 15 and values["global_step"].dtype == np.int64


def test_five_examples_of_each_set_are_logged(trained):
    names = [line for line in trained.log if line.startswith("guid: ")]
    assert names == [f"guid: {part}-{row}" for part in ("train", "dev") for row in range(1, 6)]
    assert trained.log.count("*** Example ***") == 10
    tokens = "tokens: [CLS] good film b [SEP] film good [SEP]"
    first = trained.log.index("guid: train-2")
    ids = [2, 5, 7, 9, 3, 7, 5, 3]
    assert trained.log[first + 1 : first + 6] == [
        tokens,
        f"input_ids: {' '.join(map(str, ids))}",
        f"input_mask: {' '.join(['1'] * 8)}",
        f"segment_ids: {' '.join(['0'] * 5 + ['1'] * 3)}",
        "label: 1 (id = 1)",
    ]
    assert "training: 40 examples, batches of 8, 15 steps" in trained.log
    assert any("skipped 1 header" in line for line in trained.log)


def test_prediction_with_the_trained_model_and_a_fresh_directory(folder, trained, tmp_path, caplog):
    caplog.set_level("INFO")
    flags = [
        "--task_name=MRPC", "--do_predict=true", f"--data_dir={folder / 'MRPC'}",
        f"--vocab_file={folder / 'vocab.txt'}", f"--bert_config_file={folder / 'config.json'}",
        f"--init_checkpoint={trained.prefix}", "--max_seq_length=16",
        f"--output_dir={tmp_path}/new/",
    ]  # fmt: skip
    assert _main(*flags) == 0
    assert scripts.names(tmp_path / "new") == {
        "test_results.tsv", "labels.txt", "run.json", "bert_config.json"
    }  # fmt: skip
    rows = _rows(tmp_path / "new/test_results.tsv")
    assert rows.shape == (9, 2)
    np.testing.assert_allclose(rows.sum(1), 1, atol=1e-6)
    np.testing.assert_array_equal(rows.argmax(1), [i % 2 for i in range(3, 12)])
    assert "no trained model" in caplog.text
    assert "guid: test-1" in caplog.text and "label:" not in caplog.text  # of test rows: none
    caplog.clear()
    assert _main(*flags, "--log_examples=0") == 0
    assert "guid:" not in caplog.text
    # In the directory of the model itself the same comes out, and --init_checkpoint is not used.
    copy = tmp_path / "copy"
    shutil.copytree(trained.output, copy)
    init = f"--init_checkpoint={trained.output / 'model.ckpt-0'}"
    assert _main(*_flags(folder, copy, "--do_predict", init)) == 0
    assert (copy / "test_results.tsv").read_bytes() == (
        tmp_path / "new/test_results.tsv"
    ).read_bytes()
    assert "model.ckpt-15; --init_checkpoint is ignored" in caplog.text


def test_export_gets_the_trained_model(folder, trained, tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(export, "save_classifier", lambda *arguments: calls.append(arguments))
    flags = _flags(folder, tmp_path, "--do_export", f"--init_checkpoint={trained.prefix}")
    assert _main(*flags) == 0
    path, task, labels, text, length = calls[0]
    assert path == str(tmp_path / "export") and labels == ["0", "1"] and length == 16
    assert text.vocab_file == str(folder / "vocab.txt")
    saved = tiny.read_checkpoint(trained.prefix)["output_weights"]
    np.testing.assert_array_equal(task.model.output_weights, saved)


# --------------------------------------------------------------------------------------------------
# Predictions and scores
# --------------------------------------------------------------------------------------------------


def test_a_line_for_each_row_in_order_whatever_the_batch_size(folder, of_table, tmp_path):
    counts = (1, 7, 8, 9, 1000)
    for count in counts:
        (tmp_path / f"rows{count}.tsv").write_text(_table(count))
    files = ",".join(str(tmp_path / f"rows{count}.tsv") for count in counts)
    init = f"--init_checkpoint={of_table}"
    found = {}
    for size in (1, 8, 32):
        flags = ["--do_predict", f"--test_file={files}", f"--predict_batch_size={size}", init]
        assert _main(*_custom(folder, tmp_path / "run", *flags)) == 0
        for count in counts:
            rows = _rows(tmp_path / f"run/test_results-rows{count}.tsv")
            assert rows.shape == (count, 2)
            # Nearly all are right, which they would be in no other order.
            assert np.mean(rows.argmax(1) == np.arange(count) % 2) > 0.9
            found.setdefault("first", _rows(tmp_path / "run/test_results-rows1000.tsv"))
            np.testing.assert_allclose(rows, found["first"][:count], atol=1e-6)
    # Rows of the same label differ, so that the order is seen.
    assert len(np.unique(found["first"][:, 0])) > 20


def _half_trained(folder, output, *more):
    """A model that is wrong on some rows, evaluated and predicted on the same ones."""
    rows = [f"{_word(i)} film\t{('neg', 'pos')[(i + (i % 5 == 0)) % 2]}\n" for i in range(30)]
    path = folder / "noisy.tsv"
    path.write_text("text\tlabel\n" + "".join(rows))
    files = [f"--{part}_file={path}" for part in ("train", "dev", "test")]
    assert _main(*_custom(folder, output, "--do_eval", "--do_predict", *files, *more)) == 0
    return np.array([int(row.endswith("pos\n")) for row in rows])


def _same_whatever(folder, output, ways, tolerance):
    found = []
    for way in ways:
        _half_trained(folder, output, *way)
        results = scripts.results(output / "eval_results.txt")
        found.append((results, _rows(output / "test_results.tsv")))
    for results, rows in found[1:]:
        np.testing.assert_allclose(rows, found[0][1], atol=tolerance)
        for key, value in found[0][0].items():
            if key == "eval_f1_label":
                assert results[key] == value
                continue
            assert float(results[key]) == pytest.approx(float(value), abs=tolerance), key


def test_results_depend_neither_on_the_batch_size_nor_on_padding(folder, tmp_path):
    ways = [
        ["--do_train", "--eval_batch_size=30", "--predict_batch_size=30"],
        ["--eval_batch_size=1", "--predict_batch_size=7"],
        ["--eval_batch_size=8", "--static_shapes"],
        ["--eval_batch_size=7", "--predict_batch_size=1", "--max_seq_length=24"],
    ]
    _same_whatever(folder, tmp_path, ways, 1e-6)


@pytest.mark.slow
def test_results_with_xla(folder, tmp_path):
    _same_whatever(folder, tmp_path, [["--do_train"], ["--xla"]], 1e-5)


STSB = "\t".join(
    ["index", "genre", "filename", "year", "old_index", "source1", "source2", "sentence1",
     "sentence2", "score"]
)  # fmt: skip


def test_regression(folder, tmp_path):
    scores = [3.8 if i % 2 else 0.2 * (i % 3) for i in range(40)]
    rows = [f"{i}\tg\tf\ty\t0\tn\tn\t{_word(i)} film\t{_word(i)}" for i in range(40)]
    labelled = f"{STSB}\n" + "".join(f"{r}\t{s}\n" for r, s in zip(rows, scores, strict=True))
    plain = STSB.removesuffix("\tscore") + "\n" + "".join(f"{row}\n" for row in rows)
    for name, text in (("train", labelled), ("dev", labelled), ("test", plain)):
        (tmp_path / f"{name}.tsv").write_text(text)
    flags = ["--do_train", "--do_eval", "--do_predict", "--num_train_epochs=8"]
    assert _main(*_flags(folder, tmp_path / "run", *flags, task="STS-B", data=tmp_path)) == 0
    found = _rows(tmp_path / "run/test_results.tsv")
    assert found.shape == (40, 1)
    results = scripts.results(tmp_path / "run/eval_results.txt")
    assert list(results) == ["eval_loss", "eval_pearson", "eval_spearman", "global_step", "loss"]
    loss = np.mean((found[:, 0] - scores) ** 2)
    assert float(results["eval_loss"]) == pytest.approx(loss, rel=1e-5)
    correlation = np.corrcoef(found[:, 0], scores)[0, 1]
    assert (
        float(results["eval_pearson"]) == pytest.approx(correlation, abs=1e-6) and correlation > 0.9
    )
    assert not (tmp_path / "run/labels.txt").exists()
    assert tiny.read_checkpoint(tmp_path / "run/model.ckpt-40")["output_weights"].shape == (1, 16)


def test_multi_label(folder, tmp_path):
    kinds = [("good", ["g"]), ("bad", ["b"]), ("good bad", ["b", "g"]), ("film", [])] * 10
    path = tmp_path / "rows.jsonl"
    path.write_text("".join(json.dumps({"text": a, "label": b}) + "\n" for a, b in kinds))
    files = [f"--{part}_file={path}" for part in ("train", "dev", "test")]
    do = ["--do_train", "--do_eval", "--do_predict", "--multi_label", "--num_train_epochs=12"]
    assert _main(*_custom(folder, tmp_path / "run", *files, *do)) == 0
    found = _rows(tmp_path / "run/test_results.tsv")
    labels = np.array([[name in held for name in "bg"] for _, held in kinds])
    loss = -np.where(labels, np.log(found), np.log(1 - found)).mean()
    results = scripts.results(tmp_path / "run/eval_results.txt")
    assert float(results["eval_loss"]) == pytest.approx(loss, rel=1e-5)
    exact = np.mean(np.all((found >= 0.5) == labels, 1))
    assert float(results["eval_exact_match"]) == pytest.approx(exact) and exact > 0.4
    assert np.ptp(found.sum(1)) > 0.1  # no softmax


@pytest.mark.slow
def test_labels_of_a_hugging_face_folder_in_another_order(folder, of_table, tmp_path, capsys):
    """The head's rows are put in order, in evaluation, prediction and further training."""
    own = manager.latest(str(of_table))
    values = tiny.read_checkpoint(own)
    swapped = {name: values[name][::-1] for name in ("output_weights", "output_bias")}
    prefix = _copy_with(own, tmp_path, **swapped)
    config = {**tiny.CONFIG, "model_type": "bert", "hidden_act": "gelu_new"}

    def export(name, id2label):
        out = tmp_path / name
        tiny_checkpoints.write_hugging_face(out, prefix, {**config, "id2label": id2label})
        return [f"--init_checkpoint={out}", f"--bert_config_file={out / 'config.json'}"]

    test = ["--do_eval", f"--dev_file={folder / 'table.tsv'}", "--labels=neg,pos"]
    there = export("there", {"0": "POS", "1": "NEG"})
    assert _main(*_custom(folder, tmp_path / "a", *test, *there)) == 0
    assert _main(*_custom(folder, tmp_path / "b", *test, f"--init_checkpoint={of_table}")) == 0
    first, second = (scripts.results(tmp_path / run / "eval_results.txt") for run in "ab")
    assert first.pop("global_step") == "0" and second.pop("global_step") == "0"
    assert first == second and float(first["eval_accuracy"]) > 0.9
    # Without --labels, those of the folder are taken.
    predict = ["--do_predict", f"--test_file={folder / 'table.tsv'}"]
    assert _main(*_custom(folder, tmp_path / "c", *predict, *there)) == 0
    assert (tmp_path / "c/labels.txt").read_text() == "POS\nNEG\n"

    train = [f"--train_file={folder / 'table.tsv'}", "--do_train", "--num_train_epochs=0.2"]
    assert _main(*_custom(folder, tmp_path / "d", *train, *there)) == 0
    begun = tiny.read_checkpoint(tmp_path / "d/model.ckpt-0")
    np.testing.assert_array_equal(begun["output_weights"], values["output_weights"])

    other = export("other", {"0": "good", "1": "bad"})
    for flags in (test, train):
        line = _main.error(capsys, 1, *_custom(folder, tmp_path / "e", *flags, *other))
        assert "trained with labels good, bad, not labels neg, pos" in line and "id2label" in line
    assert "--new_head to start with random outputs" in line
    assert _main(*_custom(folder, tmp_path / "f", *train, *other, "--new_head")) == 0


def test_lengths_beyond_the_model_show_before_data_are_read(folder, tmp_path, capsys):
    wrong = tmp_path / "wrong.tsv"
    wrong.write_text("no table")
    flags = ["--do_train", f"--train_file={wrong}", "--max_seq_length=25"]
    line = _main.error(capsys, 2, *_custom(folder, tmp_path / "run", *flags))
    assert "--max_seq_length=25: the model has max_position_embeddings 24" in line


@pytest.mark.parametrize(
    "example", ["7", "None", "types.SimpleNamespace(text_a='x', text_b=None)", "('a', 'b')"]
)
def test_a_processor_that_gives_other_things(folder, tmp_path, capsys, monkeypatch, example):
    class Odd(run_classifier.DataProcessor):
        def get_labels(self):
            return ["a", "b"]

        def get_train_examples(self, data_dir):
            return [eval(example)]

    monkeypatch.setitem(glue_tasks.PROCESSORS, "odd", Odd)
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "run", "--do_train", task="odd"))
    assert "is among the examples for train; expected InputExample" in line


def test_f1_says_which_label_it_is_about(folder, of_table, tmp_path, capsys):
    """On rows of which the rare label is never found, one of the two is 0."""
    dev = tmp_path / "dev.tsv"
    dev.write_text("text\tlabel\n" + "good film\tpos\n" * 9 + "good film\tneg\n")
    flags = ["--do_eval", f"--dev_file={dev}", f"--init_checkpoint={of_table}"]
    found = {}
    for label in ("", "pos", "neg"):
        more = [f"--positive_label={label}"] if label else []
        assert _main(*_custom(folder, tmp_path / "run", *flags, *more)) == 0
        results = scripts.results(tmp_path / "run/eval_results.txt")
        assert results["eval_f1_label"] == (label or "pos")
        found[label] = float(results["eval_f1"])
    assert found == pytest.approx({"": 18 / 19, "pos": 18 / 19, "neg": 0.0})
    for label, message in (("po", "the labels are neg, pos; did you mean pos"),):
        line = _main.error(
            capsys, 2, *_custom(folder, tmp_path, *flags, f"--positive_label={label}")
        )
        assert message in line
    three = ["--labels=neg,pos,x", "--positive_label=pos", "--do_eval", f"--dev_file={dev}"]
    line = _main.error(capsys, 2, *_custom(folder, tmp_path, *three))
    assert (
        "--positive_label=pos does nothing: it is about eval_f1 of a task with two labels" in line
    )


def test_texts_of_any_length(folder, of_table, tmp_path, caplog):
    rows = ["", " ", "good", "bad " * 10_000, "\u200b", "[SEP] good", '"']
    test = tmp_path / "test.tsv"
    test.write_text("text\n" + "".join(f"{row}\n" for row in rows))
    flags = ["--do_predict", f"--test_file={test}", f"--init_checkpoint={of_table}"]
    assert _main(*_custom(folder, tmp_path / "run", *flags, "--max_seq_length=3")) == 0
    found = _rows(tmp_path / "run/test_results.tsv")
    assert found.shape == (7, 2) and np.isfinite(found).all()
    # One token is left: none, none, good, bad, none, "[" (unknown), unknown.
    np.testing.assert_allclose(found[[1, 4]], found[[0, 0]], atol=1e-6)
    np.testing.assert_allclose(found[5], found[6], atol=1e-6)
    np.testing.assert_array_equal(found[2:4].argmax(1), [1, 0])
    assert "2 of 7 examples were cut to --max_seq_length=3" in caplog.text


# --------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def without_dropout(monkeypatch):
    """Flags of a model without any dropout."""
    monkeypatch.setattr(modeling, "CLASSIFIER_DROPOUT", 0.0)
    return lambda folder: f"--bert_config_file={folder / 'still.json'}"


def _copy_with(prefix, directory, **changes):
    """A copy of a checkpoint with some values changed, as model.ckpt-0."""
    values = {k: v for k, v in tiny.read_checkpoint(prefix).items() if "adam" not in k}
    state = {k: changes.pop(k) for k in list(changes) if k not in values}
    state = {**manager.read_state(str(prefix)), **state}
    values |= {k: np.full_like(values[k], v) for k, v in changes.items()}
    return manager.save(str(directory), 0, values, state=state)


def test_a_sorted_training_set_is_shuffled_anew_in_each_epoch(folder, trained, tmp_path):
    rows = _table(40).splitlines()[1:]
    path = tmp_path / "sorted.tsv"
    path.write_text("text\tlabel\n" + "\n".join(sorted(rows, key=lambda row: row[-3:])) + "\n")
    # A model that always says "neg" and learns nothing: its accuracy is the share of "neg".
    init = _copy_with(
        trained.prefix, tmp_path / "init", kind="labels neg, pos",
        output_weights=0.0, output_bias=np.array([1.0, 0.0]),
    )  # fmt: skip
    flags = [f"--train_file={path}", f"--init_checkpoint={init}", "--do_train", "--log_steps=1",
             "--learning_rate=0"]  # fmt: skip
    assert _main(*_custom(folder, tmp_path / "run", *flags)) == 0
    shares = np.array([row["accuracy"] for row in _metrics(tmp_path / "run")]).reshape(3, 5)
    np.testing.assert_allclose(shares.mean(1), 0.5, atol=1e-6)  # each row once an epoch
    assert np.all((shares > 0) & (shares < 1)), shares
    assert len({tuple(epoch) for epoch in shares}) == 3


def test_frozen_layers_and_a_new_head(folder, trained, tmp_path):
    init = f"--init_checkpoint={trained.output}"
    flags = ["--do_train", init, "--freeze_layers=1", "--new_head", "--save_weights_only"]
    assert _main(*_flags(folder, tmp_path, *flags)) == 0
    old = tiny.read_checkpoint(trained.prefix)
    first, last = (tiny.read_checkpoint(tmp_path / f"model.ckpt-{step}") for step in (0, 15))
    trains = {name for name in first if name.startswith(("bert/pooler/dense/", "output_"))}
    weights = {name for name in first if "adam" not in name and name != "global_step"}
    for name in weights:
        same = np.array_equal(last[name], first[name])
        assert same == (name not in trains), name
        assert np.array_equal(first[name], old[name]) == (not name.startswith("output_")), name
    assert {name.removesuffix("/adam_m") for name in last if "adam_m" in name} == trains & weights
    assert len(trains & weights) == 4
    # Without optimizer state.
    kept = tiny.read_checkpoint(tmp_path / "weights/model.ckpt-15")
    assert set(kept) == weights | {"global_step"}
    for name in weights:
        np.testing.assert_array_equal(kept[name], last[name])


def test_a_bilstm_learns(folder, trained, tmp_path, capsys):
    flags = ["--do_train", "--do_eval", "--head=bilstm", "--num_train_epochs=4"]
    assert _main(*_flags(folder, tmp_path, *flags)) == 0
    assert scripts.results(tmp_path / "eval_results.txt")["eval_accuracy"] == "1.0"
    first, last = (tiny.read_checkpoint(tmp_path / f"model.ckpt-{step}") for step in (0, 20))
    own = {name for name in last if name.startswith("bilstm/") and "adam" not in name}
    sides, parts = ("forward", "backward"), ("kernel", "recurrent_kernel", "bias")
    assert own == {f"bilstm/{side}/{part}" for side in sides for part in parts}
    assert all(np.abs(last[name] - first[name]).max() > 1e-4 for name in own)
    assert not any(name.startswith("bert/pooler/") and "adam" in name for name in last)
    # A head is not taken for another.
    other = ("--head=linear", "--head=bilstm")
    for output, init, own, wrong in (
        (tmp_path, "", *reversed(other)),
        (tmp_path / "new", f"--init_checkpoint={tmp_path}", *reversed(other)),
        (trained.output, "", *other),
    ):
        line = _main.error(capsys, 1, *_flags(folder, output, "--do_predict", init or own, wrong))
        assert f"was trained with {own}, not {wrong}; give {own}, or another --" in line


def test_left_to_right_checkpoints_stay_left_to_right(folder, trained, tmp_path, capsys):
    init = _copy_with(trained.prefix, tmp_path / "left", attention="left_to_right")
    found = []
    for name, flag in (
        ("init", f"--init_checkpoint={init}"),
        ("named", f"--eval_checkpoint={init}"),
        ("left", "--do_lower_case"),  # its own directory
    ):
        assert _main(*_flags(folder, tmp_path / name, "--do_predict", flag)) == 0
        found.append(_rows(tmp_path / name / "test_results.tsv"))
    for name in ("init", "named"):
        config = json.loads((tmp_path / name / "bert_config.json").read_text())
        assert config["attention"] == "left_to_right"
    np.testing.assert_array_equal(found[0], found[1])
    np.testing.assert_array_equal(found[0], found[2])
    both = f"--init_checkpoint={trained.prefix}"
    assert _main(*_flags(folder, tmp_path / "both", "--do_predict", both)) == 0
    assert np.abs(_rows(tmp_path / "both/test_results.tsv") - found[0]).max() > 1e-3
    flags = ["--do_train", "--do_eval", f"--eval_checkpoint={init}"]
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "new", *flags))
    assert "was trained with attention left_to_right, not bidirectional" in line


def test_the_best_checkpoint_is_kept_and_used(folder, tmp_path):
    flags = ["--do_train", "--do_eval", "--eval_steps=3", "--save_checkpoints_steps=3",
             "--keep_checkpoint_max=0", "--random_seed=3"]  # fmt: skip
    assert _main(*_flags(folder, tmp_path, *flags)) == 0
    scores = {row["step"]: row["eval_f1"] for row in _metrics(tmp_path) if "eval_f1" in row}
    assert list(scores) == [3, 6, 9, 12, 15]
    best = max(scores, key=lambda step: scores[step])  # the first of the highest
    assert best < 15 and min(scores.values()) < scores[best]
    assert manager.latest(str(tmp_path / "best")).endswith(f"model.ckpt-{best}")
    kept, same = (
        tiny.read_checkpoint(path / f"model.ckpt-{best}") for path in (tmp_path / "best", tmp_path)
    )
    for name, value in kept.items():
        np.testing.assert_array_equal(value, same[name])
    newest = (tmp_path / "eval_results.txt").read_text()

    do = ["--do_eval", "--do_predict"]
    assert _main(*_flags(folder, tmp_path, *do, "--eval_checkpoint=best")) == 0
    results = scripts.results(tmp_path / f"eval_results-{best}.txt")
    assert results["global_step"] == str(best)
    assert float(results["eval_f1"]) == pytest.approx(scores[best], abs=1e-6)
    of_best = _rows(tmp_path / "test_results.tsv")
    named = f"--eval_checkpoint={tmp_path / f'model.ckpt-{best}'}"
    assert _main(*_flags(folder, tmp_path / "other", "--do_predict", named)) == 0
    np.testing.assert_array_equal(_rows(tmp_path / "other/test_results.tsv"), of_best)

    (tmp_path / f"eval_results-{best}.txt").unlink()
    assert _main(*_flags(folder, tmp_path, *do, "--eval_checkpoint=all")) == 0
    for step, score in scores.items():
        found = float(scripts.results(tmp_path / f"eval_results-{step}.txt")["eval_f1"])
        assert found == pytest.approx(score, abs=1e-6)
    assert (tmp_path / "eval_results-0.txt").exists()
    assert (tmp_path / "eval_results.txt").read_text() == newest
    assert np.abs(_rows(tmp_path / "test_results.tsv") - of_best).max() > 1e-3  # of the newest


def test_stopped_by_a_signal_it_goes_on_to_the_last_bit(folder, trained, tmp_path, caplog):
    """SIGTERM in the middle of an epoch, dropout on."""
    caplog.set_level("INFO")

    class Stop(logging.Handler):
        def emit(self, record):
            if record.getMessage().startswith("step 7/"):
                os.kill(os.getpid(), signal.SIGTERM)

    stop = Stop()
    flags = _flags(folder, tmp_path, "--do_train", "--do_eval", "--log_steps=1")
    logging.getLogger().addHandler(stop)
    try:
        assert _main(*flags) == 143
    finally:
        logging.getLogger().removeHandler(stop)
    step = int(re.search(r"stopped at step (\d+); the same command goes on", caplog.text).group(1))
    assert 7 <= step < 15 and not (tmp_path / "eval_results.txt").exists()
    assert manager.latest(str(tmp_path)).endswith(f"model.ckpt-{step}")
    assert _main(*flags) == 0
    scripts.assert_same_checkpoints(tmp_path / "model.ckpt-15", trained.prefix)
    # A third time there is nothing to train, but to evaluate.
    assert _main(*flags) == 0
    assert "nothing to train" in caplog.text and "--num_train_epochs" in caplog.text
    assert scripts.results(tmp_path / "eval_results.txt")["global_step"] == "15"


def _start(flags, **options):
    command = [sys.executable, os.path.join(ROOT, "run_classifier.py"), *map(str, flags)]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, **options)


@pytest.mark.slow
def test_killed_it_ends_where_an_unbroken_run_ends(folder, tmp_path):
    flags = ["--do_train", "--do_eval", "--do_predict", "--num_train_epochs=60",
             "--save_checkpoints_steps=25", "--log_steps=5"]  # fmt: skip
    whole = _start(_flags(folder, tmp_path / "whole", *flags))
    assert whole.wait(timeout=600) == 0, whole.stdout.read()
    whole.stdout.close()
    for kill in range(3):
        process = _start(_flags(folder, tmp_path / "killed", *flags))
        for line in process.stdout:
            if re.search(r"step \d*[05]/300", line):
                time.sleep(0.1 * kill)
                break
        process.send_signal(signal.SIGKILL)
        process.communicate()
    last = _start(_flags(folder, tmp_path / "killed", *flags))
    assert last.wait(timeout=600) == 0, last.stdout.read()
    last.stdout.close()
    scripts.assert_same_checkpoints(
        tmp_path / "killed/model.ckpt-300", tmp_path / "whole/model.ckpt-300"
    )
    for name in ("eval_results.txt", "test_results.tsv"):
        one, other = ((tmp_path / run / name).read_text() for run in ("killed", "whole"))
        assert one == other


@pytest.mark.slow
def test_two_devices_equal_one(folder, tmp_path, without_dropout):
    """Weights after a training, scores and predictions; thirteen rows do not divide."""
    still = without_dropout(folder)
    do = ["--do_train", "--do_eval", "--do_predict", "--num_train_epochs=2", still]
    assert _main(*_flags(folder, tmp_path / "one", *do)) == 0
    program = (
        "import sys, modeling, run_classifier; modeling.CLASSIFIER_DROPOUT = 0.0; "
        "sys.exit(run_classifier.main())"
    )
    flags = _flags(folder, tmp_path / "two", *do, "--num_cpu_devices=2", "--eval_batch_size=6")
    done = subprocess.run(
        [sys.executable, "-c", program, *flags], cwd=ROOT, capture_output=True, text=True,
        timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    runs = (tmp_path / name / "model.ckpt-10" for name in ("one", "two"))
    scripts.assert_same_checkpoints(*runs, tolerance=1e-5)
    rows = [_rows(tmp_path / name / "test_results.tsv") for name in ("one", "two")]
    np.testing.assert_allclose(*rows, atol=1e-5)
    scores = [scripts.results(tmp_path / name / "eval_results.txt") for name in ("one", "two")]
    assert scores[0].keys() == scores[1].keys()
    for key, value in scores[0].items():
        assert float(scores[1][key]) == pytest.approx(float(value), abs=1e-5)
    assert len(json.loads((tmp_path / "two/run.json").read_text())["devices"]) == 2


# --------------------------------------------------------------------------------------------------
# Tasks and labels
# --------------------------------------------------------------------------------------------------

PROCESSOR = """
import sys
sys.path.insert(0, {root!r})
import os
import run_classifier
import tokenization
from tasks.classifier import glue_tasks

class MyProcessor(run_classifier.DataProcessor):
    def get_train_examples(self, data_dir):
        return self._examples(os.path.join(data_dir, "train.tsv"), "train")

    def get_dev_examples(self, data_dir):
        return self._examples(os.path.join(data_dir, "dev.tsv"), "dev")

    def get_test_examples(self, data_dir):
        return self._examples(os.path.join(data_dir, "test.tsv"), "test")

    def get_labels(self):
        return ["dog", "cat"]

    def _examples(self, path, part):
        examples = []
        for i, line in enumerate(self._read_tsv(path)):
            if i == 0:
                continue
            label = "0" if part == "test" else self.get_labels()[int(line[0])]
            text = tokenization.convert_to_unicode(line[3])
            guid = "%s-%s" % (part, i)
            examples.append(
                run_classifier.InputExample(guid=guid, text_a=text, text_b=None, label=label))
        return examples

glue_tasks.PROCESSORS["my_task"] = MyProcessor
sys.exit(run_classifier.main())
"""


def test_a_processor_of_ones_own(folder, tmp_path):
    """Written against the original; its test rows have a label that is none of its labels."""
    program = tmp_path / "my_program.py"
    program.write_text(PROCESSOR.format(root=ROOT))
    do = ["--do_train", "--do_eval", "--do_predict"]
    done = subprocess.run(
        [sys.executable, str(program), *_flags(folder, tmp_path / "run", *do, task="My_Task")],
        capture_output=True, text=True, timeout=300, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/labels.txt").read_text() == "dog\ncat\n"
    assert _rows(tmp_path / "run/test_results.tsv").shape == (9, 2)
    results = scripts.results(tmp_path / "run/eval_results.txt")
    assert "eval_accuracy" in results and results["global_step"] == "15"


def test_what_a_processor_does_wrong_shows_before_the_training(
    folder, tmp_path, capsys, monkeypatch
):
    def make(guid, **fields):
        return run_classifier.InputExample(guid=guid, **fields)

    class Mine(run_classifier.DataProcessor):
        def get_train_examples(self, data_dir):
            return (make(f"train-{i}", text_a="good", label="n") for i in range(4))

        def get_dev_examples(self, data_dir):
            return [make("dev-0", text_a=b"good", label="2")]

        def get_test_examples(self, data_dir):
            return [make("test-0", text_a="good"), make("test-1", text_a=float("nan"))]

        def get_labels(self):
            return ["n", "p"]

    monkeypatch.setitem(glue_tasks.PROCESSORS, "mine", Mine)
    for do, message in (
        ("--do_eval", "example dev-0: label '2' is not one of 'n', 'p'"),
        ("--do_predict", "example test-1: float nan where a text was expected"),
    ):
        flags = _flags(folder, tmp_path / "run", "--do_train", do, task="mine")
        assert message in _main.error(capsys, 1, *flags)
    monkeypatch.setattr(Mine, "get_dev_examples", run_classifier.DataProcessor.get_dev_examples)
    flags = _flags(folder, tmp_path / "run", "--do_eval", task="mine")
    assert "Mine has no get_dev_examples()" in _main.error(capsys, 1, *flags)
    assert not (tmp_path / "run").exists()


def _nli(rows):
    columns = ("index", "promptID", "pairID", "genre", "b1", "b2", "p1", "p2", "sentence1",
               "sentence2", "label1", "gold_label")  # fmt: skip
    labels = ("contradiction", "entailment", "neutral")
    lines = (
        [str(i), *"1234567", ("good", "bad", "film")[i % 3], "film", "x", labels[i % 3]]
        for i in range(rows)
    )
    return "".join("\t".join(line) + "\n" for line in (columns, *lines))


def test_other_tasks_of_the_same_labels(folder, tmp_path):
    """MNLI trained, mismatched and diagnostic sets evaluated and predicted in the same run."""
    (tmp_path / "MNLI").mkdir()
    for name, rows in (("train", 24), ("dev_matched", 5), ("dev_mismatched", 6),
                       ("test_matched", 7), ("test_mismatched", 8)):  # fmt: skip
        (tmp_path / f"MNLI/{name}.tsv").write_text(_nli(rows))
    (tmp_path / "AX").mkdir()
    (tmp_path / "AX/diagnostic.tsv").write_text("index\tsentence1\tsentence2\n0\tgood\tfilm\n")
    do = ["--do_train", "--do_eval", "--do_predict", "--also_tasks=mnli-mm,AX"]
    mnli = {"task": "MNLI", "data": tmp_path / "MNLI"}
    assert _main(*_flags(folder, tmp_path / "run", *do, **mnli)) == 0
    for name, rows in (("", 7), ("-mnli-mm", 8), ("-ax", 1)):
        assert _rows(tmp_path / f"run/test_results{name}.tsv").shape == (rows, 3)
    # test_matched has the first rows of test_mismatched.
    matched, other = (_rows(tmp_path / f"run/test_results{name}.tsv") for name in ("", "-mnli-mm"))
    np.testing.assert_allclose(other[:7], matched, atol=1e-6)
    accuracies = [
        float(scripts.results(tmp_path / f"run/eval_results{name}.txt")["eval_accuracy"]) * rows
        for name, rows in (("", 5), ("-mnli-mm", 6))
    ]
    assert accuracies == [pytest.approx(round(value), abs=1e-5) for value in accuracies]
    assert not (tmp_path / "run/eval_results-ax.txt").exists()


def test_another_task_lies_beside_the_task(folder, trained, tmp_path):
    """SST-2 has files of the same names as MRPC: those in MRPC's folder are not its own."""
    shutil.copytree(folder / "MRPC", tmp_path / "MRPC")
    (tmp_path / "SST-2").mkdir()
    (tmp_path / "SST-2/dev.tsv").write_text("sentence\tlabel\ngood\t1\nbad\t0\nfilm\t1\n")
    flags = ["--do_eval", "--also_tasks=sst-2", f"--init_checkpoint={trained.prefix}"]
    assert _main(*_flags(folder, tmp_path / "run", *flags, data=tmp_path / "MRPC")) == 0
    accuracy = float(scripts.results(tmp_path / "run/eval_results-sst-2.txt")["eval_accuracy"])
    assert 3 * accuracy == pytest.approx(round(3 * accuracy), abs=1e-5)


def test_labels_stay_with_the_model(folder, tmp_path, capsys, caplog):
    caplog.set_level("INFO")
    run = tmp_path / "run"
    table = f"--train_file={folder / 'table.tsv'}"
    flags = ["--do_train", table, "--labels=pos,neg", "--save_weights_only"]
    still = f"--bert_config_file={folder / 'still.json'}"
    assert _main(*_custom(folder, run, *flags, still, "--num_train_epochs=6")) == 0
    assert (run / "labels.txt").read_text() == "pos\nneg\n"
    (tmp_path / "test.tsv").write_text("text\ngood\nbad\n")
    predict = ["--do_predict", f"--test_file={tmp_path / 'test.tsv'}"]
    # They need not be given again, from whatever copy of the model.
    for output, more in (
        (run, []),
        (tmp_path / "a", [f"--init_checkpoint={run / 'model.ckpt-30'}"]),
        (tmp_path / "b", [f"--init_checkpoint={run / 'weights'}"]),
        (tmp_path / "c", [f"--eval_checkpoint={run}"]),
        (tmp_path / "d", [f"--init_checkpoint={run}", f"--labels={run / 'labels.txt'}"]),
    ):
        assert _main(*_custom(folder, output, *predict, *more)) == 0
        np.testing.assert_array_equal(_rows(output / "test_results.tsv").argmax(1), [0, 1])
    assert f"labels of {run / 'labels.txt'}: pos, neg" in caplog.text

    ours = "model.ckpt-30 was trained with labels pos, neg, not labels {}; give the task and "
    cure = f"the labels ({run / 'labels.txt'}) it was trained with, or "
    init = f"--init_checkpoint={run}"
    for output, more, other, otherwise in (
        (run, [*predict, "--labels=neg,pos"], "neg, pos", "another --output_dir"),
        (run, ["--do_train", table], "neg, pos", "another --output_dir"),
        (tmp_path / "n", [*predict, init, "--labels=a,b"], "a, b", "another --init_checkpoint"),
        (tmp_path / "n", ["--do_train", table, init], "neg, pos", "--new_head to start with"),
        (tmp_path / "n", [*predict, f"--eval_checkpoint={run}", "--labels=a,b,c"], "a, b, c",
         "another --eval_checkpoint"),
    ):  # fmt: skip
        line = _main.error(capsys, 1, *_custom(folder, output, *more))
        assert ours.format(other) + cure + otherwise in line
    assert (run / "labels.txt").read_text() == "pos\nneg\n" and not (tmp_path / "n").exists()
    line = _main.error(capsys, 1, *_custom(folder, run, *predict, "--regression"))
    assert "was trained with labels pos, neg, not regression;" in line
    several = [*predict, "--labels=pos,neg", "--multi_label"]
    line = _main.error(capsys, 1, *_custom(folder, run, *several))
    assert "was trained with labels pos, neg, not multi-label labels pos, neg;" in line
    line = _main.error(capsys, 2, *_custom(folder, tmp_path / "n", *predict))
    assert "--labels is missing; only a --train_file, or a labels.txt beside the" in line


def test_labels_are_those_of_the_model_that_is_used(folder, trained, tmp_path, capsys):
    """Not those that lie in the output directory from another."""
    test = f"--test_file={folder / 'table.tsv'}"
    for name, labels in (("a", "x,y"), ("b", "no,yes")):
        (tmp_path / name).mkdir()
        for path in trained.output.glob("model.ckpt-15.[id]*"):  # no note of the labels
            shutil.copy(path, tmp_path / name)
        (tmp_path / name / "labels.txt").write_text(labels.replace(",", "\n") + "\n")
        init = f"--init_checkpoint={tmp_path / name / 'model.ckpt-15'}"
        assert _main(*_custom(folder, tmp_path / "run", "--do_predict", test, init)) == 0
        assert (tmp_path / "run/labels.txt").read_text().split() == labels.split(",")
    other = [init, "--do_predict", test, "--labels=yes,no"]
    line = _main.error(capsys, 1, *_custom(folder, tmp_path / "run", *other))
    assert "model.ckpt-15 was trained with labels no, yes, not labels yes, no; give the" in line
    assert str(tmp_path / "b/labels.txt") in line


def test_only_training_changes_what_lies_beside_checkpoints(folder, trained, tmp_path, capsys):
    run = tmp_path / "run"
    table = f"--train_file={folder / 'table.tsv'}"
    train = ["--do_train", table, "--labels=neg,pos"]
    assert _main(*_custom(folder, run, *train, "--num_train_epochs=1")) == 0
    names = ("run.json", "labels.txt", "bert_config.json")
    before = {name: (run / name).read_bytes() for name in names}
    other = [f"--eval_checkpoint={trained.prefix}", f"--dev_file={folder / 'ones.tsv'}"]
    (folder / "ones.tsv").write_text("text\tlabel\ngood\t1\nbad\t0\n")
    assert _main(*_custom(folder, run, "--do_eval", "--labels=0,1", *other)) == 0
    ended = ["--num_train_epochs=1", "--learning_rate=0.25"]
    assert _main(*_custom(folder, run, *train, *ended)) == 0
    with locks.exclusive(str(run), "this test"):
        line = _main.error(capsys, 1, *_custom(folder, run, *train, "--num_train_epochs=2"))
        assert "another run is training there" in line
    assert {name: (run / name).read_bytes() for name in names} == before
    assert _main(*_custom(folder, run, *train, "--num_train_epochs=2")) == 0
    assert json.loads((run / "run.json").read_text())["flags"]["num_train_epochs"] == 2


def test_a_head_of_another_size_without_a_note(folder, trained, tmp_path, capsys):
    """Checkpoints of the original have no note of their labels."""
    for path in trained.output.glob("model.ckpt-15.[id]*"):
        shutil.copy(path, tmp_path)
    init = f"--init_checkpoint={tmp_path / 'model.ckpt-15'}"
    table, test = (f"--{part}_file={folder / 'table.tsv'}" for part in ("train", "test"))
    flags = _custom(folder, tmp_path / "n", "--labels=neg,pos,x", init)
    for do, cure in ((["--do_train", table], "--new_head"), (["--do_predict", test], "another")):
        line = _main.error(capsys, 1, *flags, *do)
        assert "has a head of 2 outputs, and the task 3 (labels neg, pos, x); give the" in line
        assert cure in line
    assert _main(*_custom(folder, tmp_path / "two", "--do_predict", test, init,
                          "--labels=neg,pos")) == 0  # fmt: skip


# --------------------------------------------------------------------------------------------------
# Mistakes
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "status, message, flags",
    [
        (2, "nothing to do: give --do_train, --do_eval, --do_predict or --do_export", []),
        (2, r"Task not found: --task_name=MRCP; did you mean mrpc\?",
         ["--do_eval", "--task_name=MRCP"]),
        (2, "--data_dir is missing; --task_name=MRPC needs it", ["--do_eval", "--data_dir="]),
        (2, "--eval_steps does nothing without --do_train", ["--do_eval", "--eval_steps=1"]),
        (2, "--also_tasks does nothing without", ["--do_train", "--also_tasks=cola"]),
        (2, "=best does nothing without", ["--do_train", "--eval_checkpoint=best"]),
        (2, "=best: training keeps a best checkpoint with --eval_steps; add it",
         ["--do_train", "--do_eval", "--eval_checkpoint=best"]),
        (2, "=all does nothing without --do_eval", ["--do_predict", "--eval_checkpoint=all"]),
        (2, "unknown flag --do_evall; did you mean do_eval", ["--do_evall"]),
        (2, "--max_seq_length=2: expected at least 3", ["--do_eval", "--max_seq_length=2"]),
        (2, "sequence length --max_seq_length=99: .* 24", ["--do_train", "--max_seq_length=99"]),
        (2, "--freeze_layers=2: .*num_hidden_layers 1", ["--do_train", "--freeze_layers=2"]),
        (2, "=8 is not a multiple of 3", ["--do_train", "--gradient_accumulation_steps=3"]),
        (2, "run_classifier.py is not a directory", ["--do_eval", f"--output_dir={PROGRAM}"]),
        (2, "--use_tpu with --tpu_name=my-tpu: only the TPU of this machine",
         ["--do_train", "--use_tpu", "--tpu_name=my-tpu"]),
        (2, "--num_gpus=3", ["--do_train", "--num_gpus=3"]),
        (1, "--init_checkpoint=nowhere.ckpt: not found",
         ["--do_train", "--init_checkpoint=nowhere.ckpt"]),
        (1, "--eval_checkpoint=nowhere: not found", ["--do_eval", "--eval_checkpoint=nowhere"]),
        (1, "--eval_checkpoint=best: no checkpoint in .*best; --eval_steps",
         ["--do_eval", "--eval_checkpoint=best"]),
        (1, "nothing to evaluate: no checkpoint in --output_dir=.* and no --init_checkpoint",
         ["--do_predict"]),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit(folder, tmp_path, capsys, status, message, flags):
    line = _main.error(capsys, status, *_flags(folder, tmp_path / "run", *flags))
    assert re.search(message, line), line
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    "status, message, text, flags",
    [
        (2, "--train_file is missing; --do_train with", "", ["--train_file="]),
        (2, "--dev_file is missing; --eval_steps with", "", ["--eval_steps=5"]),
        (2, "--test_file is missing; --do_predict with", "", ["--do_predict"]),
        (2, "--labels=no.txt: expected two or more labels, .*no file of this name", "",
         ["--labels=no.txt"]),
        (1, r"a.tsv:3: label '1e39' is beyond 3.4e\+38, the largest .* \(column 'label'\)",
         "text\tlabel\nx\t1\ny\t1e39\n", ["--regression"]),
        (2, "--label_column=label is also the --text_a_column; give the column of the labels",
         _table(4), ["--text_a_column=label"]),
    ],
)  # fmt: skip
def test_tables_and_their_flags_that_do_not_fit(
    folder, tmp_path, capsys, status, message, text, flags
):
    path = tmp_path / "a.tsv"
    path.write_text(text)
    train = ["--do_train", f"--train_file={path}"]
    line = _main.error(capsys, status, *_custom(folder, tmp_path / "run", *train, *flags))
    assert re.search(message, line), line
    assert not (tmp_path / "run").exists()


def test_data_that_a_run_would_replace(folder, tmp_path, capsys):
    for name, flag in (("test_results.tsv", "test"), ("eval_results.txt", "dev")):
        path = tmp_path / name
        path.write_text("0\tgood\n")
        do = {"test": "--do_predict", "dev": "--do_eval"}[flag]
        columns = ["--label_column=0", "--text_a_column=1", "--labels=0,1"]
        flags = _flags(folder, tmp_path, do, f"--{flag}_file={path}", *columns, task="custom")
        line = _main.error(capsys, 2, *flags)
        assert f"--{flag}_file={path} is {path}, which a run" in line
        assert path.read_text() == "0\tgood\n"


def test_checkpoints_that_do_not_fit(folder, trained, tmp_path, capsys, caplog):
    def fails(message, *more, output=tmp_path / "new", task="MRPC", data=None):
        line = _main.error(capsys, 1, *_flags(folder, output, *more, task=task, data=data))
        assert re.search(message, line), line

    tiny.write_config(folder / "wide.json", hidden_size=32)
    wide = f"--bert_config_file={folder / 'wide.json'}"
    init = f"--init_checkpoint={trained.prefix}"
    differs = r"bert/.*\(16,\) in the checkpoint and \(32,\) in the model.*--bert_config_file"
    fails(differs, "--do_train", init, wide)
    fails(differs, "--do_train", wide, output=trained.output)
    tiny.write_config(folder / "fewer.json", vocab_size=50)
    fewer = f"--bert_config_file={folder / 'fewer.json'}"
    fails("vocab.txt has 60 entries, but vocab_size .* is 50", "--do_train", fewer)
    assert not (tmp_path / "new").exists()

    # An encoder alone starts a training, but predicts nothing, and is not gone on from.
    values = tiny.read_checkpoint(trained.prefix)
    encoder = {n: v for n, v in values.items() if n.startswith("bert/") and "adam" not in n}
    state = {"kind": "--objective=mlm"}
    bare = manager.save(str(tmp_path / "bare"), 3, encoder, state=state)
    fails("has no output_weights: the results would be those of an untrained head; train first",
          "--do_predict", f"--init_checkpoint={bare}")  # fmt: skip
    fails("has no output_weights: training cannot go on.*give it as --init_checkpoint",
          "--do_train", output=tmp_path / "bare")  # fmt: skip

    # Another task in the same directory is not taken for the rest of this one.
    (tmp_path / "train.tsv").write_text("x\t1\t\tgood\nx\t0\t\tbad\n")
    fails("was trained with --task_name=mrpc, not cola; give another --output_dir", "--do_train",
          task="cola", output=trained.output, data=tmp_path)  # fmt: skip

    damaged = tmp_path / "damaged"
    shutil.copytree(trained.output, damaged)
    data = damaged / "model.ckpt-15.data-00000-of-00001"
    data.write_bytes(data.read_bytes()[:1000])
    fails("data-00000-of-00001: cut short: .*newest intact .*model.ckpt-0", "--do_eval",
          output=damaged)  # fmt: skip


def test_a_loss_that_is_not_finite_is_no_result(folder, trained, tmp_path, capsys):
    init = _copy_with(trained.prefix, tmp_path, output_bias=math.nan)
    for do, name in (("--do_eval", "eval_results.txt"), ("--do_predict", "test_results.tsv")):
        flags = _flags(folder, tmp_path / "run", do, f"--init_checkpoint={init}")
        assert "examples are not finite: the weights are of no use" in _main.error(
            capsys, 1, *flags
        )
        assert not (tmp_path / "run" / name).exists()
    flags = ["--do_train", "--learning_rate=1e6"]
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "hot", *flags))
    assert re.search(r"step \d+: not finite .*lower --learning_rate", line)


def test_case_that_does_not_fit_the_model(folder, tmp_path, capsys, caplog, trained):
    cased = tmp_path / "cased_L-12_H-768_A-12"
    cased.mkdir()
    for path in trained.output.glob("model.ckpt-15.[id]*"):
        shutil.copy(path, cased / path.name.replace("model.ckpt-15", "bert_model.ckpt"))
    init = f"--init_checkpoint={cased / 'bert_model.ckpt'}"
    flags = _flags(folder, tmp_path / "run", "--do_predict", init)
    line = _main.error(capsys, 2, *flags, "--do_lower_case=true")
    assert "--do_lower_case=true does not fit --init_checkpoint" in line
    assert "give --do_lower_case=false" in line
    assert _main(*flags, "--do_lower_case=false") == 0
    assert "no word in" in caplog.text and "has an upper-case letter" in caplog.text
