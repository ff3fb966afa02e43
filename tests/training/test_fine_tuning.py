"""From flags to schedule, scopes and attention."""

import json
import logging

import pytest
import tensorflow as tf

import modeling
import tiny
from checkpoints import manager, restore
from command_line import errors, options
from training import compatibility, fine_tuning, fine_tuning_flags

CONFIG = modeling.BertConfig.from_dict({**tiny.CONFIG, "num_hidden_layers": 3})


def _schedule(examples, **flags):
    tuning = options.FineTuningOptions(**flags)
    return fine_tuning.create_schedule(options.OptimizerOptions(), tuning, examples)


def _read_config(model, checkpoint="", length=16):
    return fine_tuning.read_config(model, length, compatibility.Origin.read(checkpoint))


def test_steps_and_warmup_are_rounded_down():
    found = _schedule(3668, train_batch_size=32, num_train_epochs=3.0, warmup_proportion=0.1)
    assert (found.total_steps, found.warmup_steps, found.learning_rate) == (343, 34, 5e-5)


def test_less_than_one_step_becomes_one(caplog):
    with caplog.at_level(logging.WARNING):
        assert _schedule(20, num_train_epochs=1.0).total_steps == 1
    assert "20 examples / " in caplog.text
    assert "--num_train_epochs=1 is less than one step" in caplog.text
    assert _schedule(20, num_train_epochs=3.0).total_steps == 1  # int(1.875)


def test_more_steps_than_can_be_counted():
    with pytest.raises(errors.FlagError, match=r"--num_train_epochs=1e\+10: 20 examples"):
        _schedule(20, num_train_epochs=1e10, train_batch_size=1)


def test_frozen_scopes():
    model = modeling.ClassifierModel(modeling.BertModel(CONFIG), 2)
    assert fine_tuning.frozen_scopes(0, model.encoder) == ()
    scopes = fine_tuning.frozen_scopes(2, model.encoder)
    names = modeling.named_variables(model)
    left = {n.split("/")[2] if "layer_" in n else n for n in names if not n.startswith(scopes)}
    assert left == {
        "layer_2", "bert/pooler/dense/kernel", "bert/pooler/dense/bias", "output_weights",
        "output_bias",
    }  # fmt: skip
    with pytest.raises(errors.FlagError, match=r"--freeze_layers=4.*num_hidden_layers 3"):
        fine_tuning.frozen_scopes(4, model.encoder)


def test_scopes_of_a_new_head():
    scopes = fine_tuning._scopes_to_reinitialize
    assert scopes(options.FineTuningOptions(), ("output_",)) == ()
    new = options.FineTuningOptions(new_head=True, head="bilstm")
    assert scopes(new, ("output_",)) == ("output_", "bilstm/")


def test_attention_follows_the_checkpoint(tmp_path):
    path = tiny.write_config(tmp_path / "config.json")
    encoder = modeling.BertModel(modeling.BertConfig.from_json_file(path))
    variables = modeling.named_variables(modeling.ClassifierModel(encoder, 2))
    left = manager.save(str(tmp_path / "l"), 3, variables, state={"attention": "left_to_right"})
    manager.save(str(tmp_path / "run"), 3, variables, state={})
    flags = options.ModelOptions(bert_config_file=path)
    for init, output, evaluated, attention in (
        (left, "no", "", "left_to_right"),
        ("", "l", "", "left_to_right"),
        ("", "run", left, "left_to_right"),
        ("", "run", "", "bidirectional"),
        ("", "no", "", "bidirectional"),
    ):
        source = restore.starting_checkpoint(init, str(tmp_path / output), evaluated)
        assert _read_config(flags, source).attention == attention
    assert source == ""


@pytest.mark.parametrize("before, fits", [("GELU", True), ("gelu_new", True), ("tanh", False)])
def test_the_activation_beside_a_checkpoint(tmp_path, before, fits):
    path = tiny.write_config(tmp_path / "config.json")
    prefix = manager.save(str(tmp_path / "run"), 3, {"a": tf.zeros([2])})
    (tmp_path / "run/bert_config.json").write_text(json.dumps({"hidden_act": before}))
    flags = options.ModelOptions(bert_config_file=path)
    if fits:
        assert _read_config(flags, prefix).hidden_act == "gelu"
        return
    with pytest.raises(errors.UserError, match="has hidden_act gelu, but .* trained with tanh"):
        _read_config(flags, prefix)


def test_sequences_longer_than_the_positions(tmp_path):
    flags = options.ModelOptions(bert_config_file=tiny.write_config(tmp_path / "config.json"))
    assert json.loads((tmp_path / "config.json").read_text())["max_position_embeddings"] == 24
    with pytest.raises(errors.FlagError, match="Cannot use sequence length.*25.* 24"):
        _read_config(flags, length=25)


def test_flags_that_do_nothing_are_named(tmp_path, caplog):
    run = options.RunOptions(output_dir=str(tmp_path), save_weights_only=True)

    def warn(tuning):
        flags = fine_tuning_flags.FineTuningFlags(None, None, None, tuning, None, run, None)
        fine_tuning._warn_about_unused_flags(flags)

    warn(options.FineTuningOptions(new_head=True))
    assert [record.message.split()[0] for record in caplog.records] == [
        "--save_weights_only", "--new_head"
    ]  # fmt: skip
    caplog.clear()
    trains = options.FineTuningOptions(new_head=True, do_train=True)
    warn(trains)
    assert not caplog.records
    manager.save(str(tmp_path), 1, modeling.named_variables(modeling.BertModel(CONFIG)))
    warn(trains)
    assert f"--new_head does nothing: training goes on from {tmp_path}" in caplog.text
