"""Which head a checkpoint has."""

from __future__ import annotations

import dataclasses

import pytest

import modeling
import tiny
from checkpoints import manager, restore
from training import compatibility

CONFIG = modeling.BertConfig.from_dict({**tiny.CONFIG, "num_hidden_layers": 3})

HEAD = compatibility.Head("mrpc", "labels 0, 1", 2, "linear", "bidirectional")


@pytest.mark.parametrize(
    "state, bilstm, changes, message",
    [
        ({}, False, {}, ""),
        ({"kind": "labels 0, 1", "attention": "bidirectional", "task": "rte"}, False, {}, ""),
        ({"kind": "labels 1, 0"}, False, {}, "was trained with labels 1, 0, not labels 0, 1; give"),
        ({}, False, {"size": 3}, "has a head of 2 outputs, and the task 3 (labels 0, 1); give the"),
        ({}, True, {}, "was trained with --head=bilstm, not --head=linear; give --head=bilstm"),
        ({}, False, {"name": "bilstm"}, "was trained with --head=linear, not --head=bilstm"),
        ({"attention": "left_to_right"}, False, {}, "with attention left_to_right, not bidirec"),
        ({"kind": f"labels {'x, ' * 99}"}, False, {}, "x…, not labels 0, 1"),
    ],
)
def test_what_sets_the_head_of_a_checkpoint_apart(tmp_path, state, bilstm, changes, message):
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 2, bilstm=bilstm)
    prefix = manager.save(str(tmp_path), 1, modeling.named_variables(model), state=state)
    found = dataclasses.replace(HEAD, **changes).difference(restore.resolve(prefix))
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
    head = dataclasses.replace(HEAD, outputs=outputs)
    found = head.difference(restore.resolve(prefix))
    told = "was trained with labels 0, 1, not labels 1, 0; give the task and the labels ("
    assert found == "" if fits else found.startswith(f"{told}{tmp_path}")
