"""Which head a checkpoint has."""

import contextlib
import dataclasses
import json
import re

import pytest

import modeling
import tiny
from checkpoints import manager, restore
from command_line import errors, options
from training import compatibility, run_files

CONFIG = modeling.BertConfig.from_dict({**tiny.CONFIG, "num_hidden_layers": 3})

HEAD = compatibility.Head("mrpc", "labels 0, 1", 2, "linear", "bidirectional")


@pytest.mark.parametrize(
    "state, bilstm, changes, message",
    [
        ({}, False, {}, ""),
        ({"kind": "labels 0, 1", "attention": "bidirectional", "task": "rte"}, False, {}, ""),
        ({"kind": "labels 1, 0"}, False, {}, "was trained with labels 1, 0, not labels 0, 1; give"),
        (
            {},
            False,
            {"num_outputs": 3},
            "has a head of 2 outputs, and the task 3 (labels 0, 1); give the",
        ),
        ({}, True, {}, "was trained with --head=bilstm, not --head=linear; give --head=bilstm"),
        ({}, False, {"kind": "bilstm"}, "was trained with --head=linear, not --head=bilstm"),
        ({"attention": "left_to_right"}, False, {}, "with attention left_to_right, not bidirec"),
        ({"kind": f"labels {'x, ' * 99}"}, False, {}, "x…, not labels 0, 1"),
    ],
)
def test_what_sets_the_head_of_a_checkpoint_apart(tmp_path, state, bilstm, changes, message):
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 2, bilstm=bilstm)
    prefix = manager.save(str(tmp_path), 1, modeling.named_variables(model), state=state)
    found = dataclasses.replace(HEAD, **changes).mismatch(
        restore.open_checkpoint(prefix), compatibility.Origin.read(prefix)
    )
    assert message in found and bool(found) == bool(message)


@pytest.mark.parametrize(
    "outputs, lines, fits",
    [
        ("labels 0, 1", "0\n1\n", True),
        ("labels 1, 0", "0\n1\n", False),
        ("multi-label labels 0, 1", "0\n1\n", True),
        ("regression", "0\n1\n", True),
        ("labels 1, 0", None, True),
    ],
)
def test_labels_beside_a_checkpoint_without_notes_are_compared(tmp_path, outputs, lines, fits):
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 2)
    prefix = manager.save(str(tmp_path), 1, modeling.named_variables(model))
    if lines:
        (tmp_path / "labels.txt").write_text(lines)
    labels = tuple(outputs.partition("labels ")[2].split(", ")) if "labels" in outputs else ()
    head = dataclasses.replace(HEAD, signature=outputs, labels=labels)
    found = head.mismatch(restore.open_checkpoint(prefix), compatibility.Origin.read(prefix))
    told = "was trained with labels 0, 1, not labels 1, 0; give the task and the labels ("
    assert found == "" if fits else found.startswith(f"{told}{tmp_path}")


@pytest.mark.parametrize(
    "config, message",
    [
        ({"id2label": {"0": "POSITIVE", "1": "negative"}}, ""),  # in another order, and case
        ({"id2label": {"1": "positive", "0": "negative"}}, ""),
        ({"id2label": {"0": "LABEL_0", "1": "LABEL_1"}}, ""),
        ({"id2label": ["a", "b"]}, ""),  # damaged: nothing told
        ({"id2label": {"0": "a", "2": "b"}}, ""),
        ({"problem_type": "single_label_classification"}, ""),
        ({"id2label": {"0": "good", "1": "bad"}}, r"with labels good, bad, not .*id2label in /"),
        ({"id2label": {"0": "negative", "1": "positive"},
          "problem_type": "multi_label_classification"}, "with multi-label labels .*--multi_label"),
    ],
)  # fmt: skip
def test_labels_that_hugging_face_weights_tell(tmp_path, config, message, caplog):
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 2)
    prefix = manager.save(str(tmp_path), 1, modeling.named_variables(model))
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    labels = ("negative", "positive")
    head = dataclasses.replace(HEAD, signature="labels negative, positive", labels=labels)
    origin = compatibility.Origin.read(prefix)
    found = head.mismatch(restore.open_checkpoint(prefix), origin)
    assert re.search(message, found) and bool(found) == bool(message)
    head.warn_if_labels_are_unknown(prefix, origin)
    is_told = "negative" in str(config).lower() or "good" in str(config)
    assert ("taken to be negative, positive, in this order" in caplog.text) is not is_told


def test_the_order_of_labels_by_others(tmp_path):
    def order(config, labels, state=None):
        prefix = manager.save(str(tmp_path), 1, {"a": 1.0}, state=state)
        (tmp_path / "config.json").write_text(json.dumps(config))
        return compatibility.Origin.read(prefix).label_order(labels)

    three = {"id2label": {"0": "entailment", "1": "neutral", "2": "contradiction"}}
    ours = ["contradiction", "entailment", "neutral"]
    assert order(three, ours, state={"kind": "labels ..."}) is None  # a checkpoint of our own
    assert order(three, ours) == [2, 0, 1]
    assert order(three, ["ENTAILMENT", "Neutral", "contradiction"]) is None
    assert order(three, ["a", "b", "c"]) is None and order({}, ours) is None
    assert order({"id2label": {"0": "A", "1": "a"}}, ["a", "A"]) is None  # not told apart


@pytest.mark.parametrize(
    "config, used, fits",
    [
        ({"hidden_act": "gelu"}, {"hidden_act": "gelu_erf"}, True),
        ({"hidden_act": "gelu"}, {"hidden_act": "gelu"}, False),
        ({"hidden_act": "gelu_new"}, {"hidden_act": "gelu"}, True),
        ({"hidden_act": "gelu_pytorch_tanh"}, {}, True),
        ({"num_attention_heads": 8}, {}, False),
        ({"layer_norm_eps": 1e-5}, {}, False),
        ({"layer_norm_eps": 1e-5}, {"layer_norm_eps": 1e-5}, True),
        ({}, {"layer_norm_eps": 1e-5}, False),
    ],
)
def test_the_config_beside_hugging_face_weights_is_compared(tmp_path, config, used, fits):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert", **config}))
    prefix = manager.save(str(tmp_path), 1, {"a": 1.0})
    check = compatibility.Origin.read(prefix).check_config
    with contextlib.nullcontext() if fits else pytest.raises(errors.UserError, match="config.json"):
        check(dataclasses.replace(CONFIG, **used), "given.json")
    if fits:
        # What lies nearer to the original release decides.
        (tmp_path / "bert_config.json").write_text(json.dumps({"num_attention_heads": 99}))
        with pytest.raises(errors.UserError, match="trained with 99 .*bert_config.json"):
            compatibility.Origin.read(prefix).check_config(CONFIG, "given.json")


def test_damaged_labels_stop_only_runs_with_labels(tmp_path):
    (tmp_path / "labels.txt").write_bytes(b"caf\xe9\nbar\n")
    manager.save(str(tmp_path), 1, {"a": 1})
    origin = compatibility.Origin.read(str(tmp_path / "model.ckpt-1"))
    with pytest.raises(errors.UserError, match="labels.txt: not UTF-8 text"):
        origin.labels  # noqa: B018


def test_changed_flags_of_a_run_that_goes_on_are_named(tmp_path, caplog):
    prefix = manager.save(str(tmp_path), 1, {"bert/x": 1.0})

    def write(do_train=True, trains=True, **flags):
        caplog.clear()
        tuning = options.FineTuningOptions(do_train=do_train, **flags)
        groups = [tuning, options.RunOptions(output_dir="x", log_steps=1 + len(flags))]
        compatibility.Origin.read(prefix).warn_about_changed_flags(groups, trains=trains)
        run_files.write_run_description(str(tmp_path), ["CPU"], groups, "{}")
        return [record.getMessage() for record in caplog.records]

    assert write(do_train=False, num_train_epochs=9.0) == []  # a prediction came before
    assert write(num_train_epochs=3.0) == []
    assert write(num_train_epochs=3.0) == []
    assert write(num_train_epochs=9.0, train_batch_size=8) == [
        f"--num_train_epochs=9.0, but {prefix} was trained with 3.0",
        f"--train_batch_size=8, but {prefix} was trained with 32",
    ]
    assert write(trains=False, num_train_epochs=3.0) == []
    (tmp_path / "run.json").write_text('{"flags": ')
    assert write(num_train_epochs=3.0) == []
    assert json.loads((tmp_path / "run.json").read_text())["flags"]["num_train_epochs"] == 3
