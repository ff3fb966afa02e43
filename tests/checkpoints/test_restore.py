"""Opening what a flag names, and loading it into variables."""

import gzip
import json
import logging
import os
import pathlib
import shutil

import numpy as np
import pytest
import tensorflow as tf

import tiny_checkpoints as tiny
from checkpoints import manager, restore
from command_line import errors


def release(directory: pathlib.Path, name: str = "bert_model.ckpt") -> pathlib.Path:
    """Files as in a downloaded model: no ``checkpoint``, a .meta beside them."""
    prefix = manager.save(str(directory), 1, tiny.weights(1))
    (directory / "checkpoint").unlink()
    for suffix in (".index", ".data-00000-of-00001"):
        os.rename(prefix + suffix, directory / f"{name}{suffix}")
    (directory / f"{name}.meta").write_bytes(b"graph")
    (directory / "vocab.txt").write_text("[PAD]\n")
    return directory / name


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001", ".meta"])
def test_any_file_names_the_checkpoint(tmp_path, ending):
    prefix = release(tmp_path)
    found = restore.open_checkpoint(f"{prefix}{ending}")
    assert found.path == str(prefix)
    assert found.shapes == {name: np.shape(value) for name, value in tiny.weights().items()}
    assert found.dtypes["output_bias"] == np.float32
    assert found.dtypes["global_step"] == np.int64
    for name, value in found.read(tiny.weights()).items():
        np.testing.assert_array_equal(value, tiny.weights(1)[name])


def test_directories(tmp_path):
    prefix = release(tmp_path)
    assert restore.open_checkpoint(str(tmp_path)).path == str(prefix)
    assert restore.open_checkpoint(f"{tmp_path}/").path == str(prefix)
    for step in (8, 9):
        manager.save(str(tmp_path), step, tiny.values())
    assert restore.open_checkpoint(str(tmp_path)).path == f"{tmp_path}/model.ckpt-9"
    (tmp_path / "checkpoint").unlink()
    message = tiny.error(restore.open_checkpoint, str(tmp_path))
    assert message.startswith(f"--init_checkpoint={tmp_path}: the directory has 3 checkpoints")
    for name in ("bert_model.ckpt", "model.ckpt-8", "model.ckpt-9"):
        assert f"{tmp_path}/{name}" in message


@pytest.mark.parametrize("listed", ["/old/machine/model.ckpt-100", "model.ckpt-100"])
def test_a_listing_of_another_machine(tmp_path, listed, caplog):
    prefix = release(tmp_path)
    (tmp_path / "checkpoint").write_text(f'model_checkpoint_path: "{listed}"\n')
    for path in (tmp_path, tmp_path / "checkpoint"):
        assert restore.open_checkpoint(str(path)).path == str(prefix)
        assert "names no checkpoint that exists" in caplog.text
    # Not with two to choose from, and not where the listed one is damaged.
    for ending in (".index", ".data-00000-of-00001"):
        shutil.copy(f"{prefix}{ending}", tmp_path / f"other.ckpt{ending}")
    assert "has 2 checkpoints, name one" in tiny.error(restore.open_checkpoint, str(tmp_path))
    os.remove(tmp_path / "other.ckpt.index")
    shutil.copy(f"{prefix}.index", tmp_path / "model.ckpt-100.index")
    assert "model.ckpt-100" in tiny.error(restore.open_checkpoint, str(tmp_path))


def test_a_prefix_wins_over_a_directory_of_its_name(tmp_path):
    prefix = release(tmp_path)
    prefix.mkdir()
    assert restore.open_checkpoint(str(prefix)).path == str(prefix)


def test_the_listing_names_the_newest_checkpoint(tmp_path, monkeypatch):
    for step in (3, 8):
        manager.save(str(tmp_path), step, tiny.weights(step))
    assert restore.open_checkpoint(f"{tmp_path}/checkpoint").path == f"{tmp_path}/model.ckpt-8"
    monkeypatch.chdir(tmp_path)
    assert restore.open_checkpoint("checkpoint").read(["global_step"])["global_step"] == 8
    (tmp_path / "checkpoint").write_text("nonsense\n")
    message = tiny.error(restore.open_checkpoint, f"{tmp_path}/checkpoint")
    assert message.startswith(f"--init_checkpoint={tmp_path}/checkpoint: ") and "damaged" in message


def test_paths_that_do_not_exist(tmp_path):
    prefix = release(tmp_path)
    message = tiny.error(restore.open_checkpoint, f"{tmp_path}/bert-model.ckpt")
    assert "not found; did you mean bert_model.ckpt" in message
    message = tiny.error(restore.open_checkpoint, f"{tmp_path}/xyz", "--eval_checkpoint")
    assert message.startswith(f"--eval_checkpoint={tmp_path}/xyz: not found")
    assert "bert_model.ckpt" in message
    assert f"no directory {tmp_path}/nowhere" in tiny.error(
        restore.open_checkpoint, f"{tmp_path}/nowhere/bert_model.ckpt"
    )
    (tmp_path / "empty").mkdir()
    assert "found nothing" in tiny.error(restore.open_checkpoint, f"{tmp_path}/empty")
    (tmp_path / "empty" / "pytorch_model.bin").write_bytes(b"x")
    message = tiny.error(restore.open_checkpoint, f"{tmp_path}/empty")
    assert "found pytorch_model.bin" in message and "*.safetensors" in message
    assert "no checkpoint is in" in tiny.error(restore.open_checkpoint, f"{tmp_path}/empty/model")
    os.remove(f"{prefix}.index")
    message = tiny.error(restore.open_checkpoint, f"{prefix}.data-00000-of-00001")
    assert f"{prefix}.index is missing" in message


def test_files_that_are_not_checkpoints(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n" * 100)
    message = tiny.error(restore.open_checkpoint, f"{tmp_path}/vocab.txt")
    assert f"{tmp_path}/vocab.txt: not a TensorFlow checkpoint" in message


def test_the_older_format_of_tf1(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = tf.compat.v1.get_variable("bert/x", initializer=tf.constant([[1.0, 2.0]]))
        session.run(made.initializer)
        saver = tf.compat.v1.train.Saver(write_version=1)
        prefix = saver.save(session, str(tmp_path / "model.ckpt"), global_step=7)
    assert not os.path.exists(f"{prefix}.index")
    for path in (prefix, f"{prefix}.meta", str(tmp_path)):
        found = restore.open_checkpoint(path)
        assert found.shapes == {"bert/x": (1, 2)}
        np.testing.assert_array_equal(found.read(["bert/x"])["bert/x"], [[1.0, 2.0]])
    tiny.cut(prefix, 40)
    assert prefix in tiny.error(restore.open_checkpoint, prefix)


def test_variables_that_tf1_partitioned_and_sharded_files(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        split = tf.compat.v1.fixed_size_partitioner(2)
        start = tf.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
        made = tf.compat.v1.get_variable("bert/x", initializer=start, partitioner=split)
        session.run(tf.compat.v1.global_variables_initializer())
        prefix = tf.compat.v1.train.Saver().save(session, str(tmp_path / "part"))
        del made
    found = restore.open_checkpoint(prefix)
    assert found.shapes == {"bert/x": (4, 3)}
    np.testing.assert_array_equal(found.read(["bert/x"])["bert/x"], np.arange(12).reshape(4, 3))

    shards = []
    for shard in range(2):
        shards.append(str(tmp_path / f"shard{shard}"))
        tensor = tf.fill([5], float(shard))
        tf.raw_ops.SaveV2(
            prefix=shards[-1], tensor_names=[f"w{shard}"], shape_and_slices=[""], tensors=[tensor]
        )
    whole = str(tmp_path / "whole")
    tf.raw_ops.MergeV2Checkpoints(
        checkpoint_prefixes=shards, destination_prefix=whole, delete_old_dirs=False
    )
    assert restore.open_checkpoint(f"{whole}.data-00001-of-00002").read(["w1"])["w1"].sum() == 5.0
    os.remove(f"{whole}.data-00000-of-00002")
    message = tiny.error(restore.open_checkpoint, whole)
    assert "data file missing" in message and "whole.data-00001-of-00002" in message


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    prefix = release(tmp_path)
    index, data = f"{prefix}.index", f"{prefix}.data-00000-of-00001"
    noticed = 0
    for path in (index, data):
        whole = pathlib.Path(path).read_bytes()
        for position in range(0, len(whole), 1 if path == index else 7):
            tiny.flip(path, position)
            try:
                found = restore.open_checkpoint(str(prefix)).read(tiny.weights())
            except errors.UserError as problem:
                noticed += 1
                assert path in str(problem) or path == index, (position, str(problem))
            else:  # a byte without meaning, such as padding of the footer
                assert path == index, position
                for name, value in found.items():
                    np.testing.assert_array_equal(value, tiny.weights(1)[name])
            pathlib.Path(path).write_bytes(whole)
    assert noticed > 150


def load(made: dict[str, tf.Variable], path: pathlib.Path, **more) -> restore.Report:
    return restore.load_matching(made, restore.open_checkpoint(str(path)), **more)


def test_loading_reports(tmp_path, caplog):
    manager.save(str(tmp_path), 1, {**tiny.values(1), "cls/squad/output_bias": np.zeros(2, "f4")})
    made = tiny.variables(tiny.weights())
    del made["global_step"]
    made["output_weights"] = tf.Variable(tf.fill([3, 4], 7.0))
    with caplog.at_level(logging.INFO):
        report = load(made, tmp_path)
    assert set(report.loaded) == set(tiny.weights()) - {"global_step"}
    assert report.missing == ("output_weights",)
    assert set(report.ignored) == {
        "cls/squad/output_bias",
        "global_step",
        *(name for name in tiny.values() if "adam" in name),
    }
    for name in report.loaded:
        np.testing.assert_array_equal(made[name], tiny.values(1)[name])
    np.testing.assert_array_equal(made["output_weights"], np.full((3, 4), 7.0))
    lines = [record.getMessage() for record in caplog.records]
    assert "bert/pooler/dense/kernel, shape = (4, 4), *INIT_FROM_CKPT*" in lines
    assert "output_weights, shape = (3, 4)" in lines
    assert lines[-1] == (
        f"--init_checkpoint={tmp_path}/model.ckpt-1: loaded 4, "
        "missing (random) 1 (output_weights), ignored 1 (cls/squad/output_bias) and 9 of the "
        "optimizer"
    )
    assert not [record for record in caplog.records if record.levelno >= logging.WARNING]
    caplog.clear()
    with caplog.at_level(logging.INFO):
        load(made, tmp_path, log_variables=False)
    assert [record.getMessage() for record in caplog.records] == lines[-1:]


def test_slots_and_step_are_read_when_asked_for(tmp_path):
    manager.save(str(tmp_path), 3, tiny.values(3))
    made = tiny.variables(tiny.values())
    report = load(made, tmp_path)
    assert set(report.loaded) == set(tiny.values()) and not report.ignored
    assert int(made["global_step"]) == 3
    np.testing.assert_array_equal(made["output_bias/adam_m"], tiny.values(3)["output_bias/adam_m"])


@pytest.mark.parametrize(
    ("name", "shape", "flag"),
    [
        ("bert/embeddings/word_embeddings", (12, 4), "vocab_size in --bert_config_file"),
        ("bert/embeddings/word_embeddings", (11, 5), "hidden_size in --bert_config_file"),
        ("bert/encoder/layer_0/output/dense/kernel", (7, 4), "intermediate_size"),
        ("output_bias", (2,), "number of labels"),
        ("bert/pooler/dense/kernel", (4,), "hidden_size"),
    ],
)
def test_a_wrong_shape_names_the_flag_before_anything_is_assigned(tmp_path, name, shape, flag):
    manager.save(str(tmp_path), 1, tiny.values(1))
    for call, where in (
        (
            lambda made: load(made, tmp_path),
            "--init",
        ),
        (lambda made: restore.load_all(made, f"{tmp_path}/model.ckpt-1"), "--output_dir"),
    ):
        made = tiny.variables(tiny.values())
        made[name] = tf.Variable(tf.zeros(shape))
        message = tiny.error(call, made)
        was = tiny.values()[name].shape
        assert f"{name} has shape {was} in the checkpoint and {shape} in the model" in message
        assert flag in message and where in message
        assert all(np.all(variable.numpy() == 0) for variable in made.values())


def test_more_shape_flags(tmp_path):
    sizes = {
        "bert/embeddings/position_embeddings": ((512, 4), (128, 4), "max_position_embeddings"),
        "bert/embeddings/token_type_embeddings": ((2, 4), (3, 4), "type_vocab_size"),
        "cls/predictions/output_bias": ((11,), (12,), "vocab_size in --bert_config_file"),
    }
    for name, (in_file, in_model, flag) in sizes.items():
        tensors = {name: np.zeros(in_file, "f4"), "bert/x": np.zeros(1, "f4")}
        manager.save(str(tmp_path), 1, tensors)
        made = {"bert/x": tf.Variable([0.0]), name: tf.Variable(tf.zeros(in_model))}
        assert flag in tiny.error(load, made, tmp_path)


def test_a_checkpoint_of_something_else(tmp_path):
    made = tiny.variables(tiny.weights())
    cases = {
        "resnet/kernel": "it holds output_bias, resnet/kernel;",
        "module/bert/embeddings/word_embeddings": "its names begin with 'module/'",
        "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE": "object-based TF2 checkpoint",
    }
    for name, hint in cases.items():
        manager.save(str(tmp_path), 1, {"output_bias": np.ones(3), name: np.zeros((11, 4), "f4")})
        found = restore.open_checkpoint(str(tmp_path))
        message = tiny.error(restore.load_matching, made, found)
        assert "none of the model's 3 bert/ variables" in message and hint in message
        assert message.startswith(f"--init_checkpoint={tmp_path}/model.ckpt-1: ")
        np.testing.assert_array_equal(made["output_bias"], np.zeros(3))
    head = {"output_bias": made["output_bias"]}
    assert restore.load_matching(head, found).loaded == ("output_bias",)
    np.testing.assert_array_equal(made["output_bias"], np.ones(3))  # float64 in the file


def test_missing_and_superfluous_parts_of_the_encoder_are_warned_about(tmp_path, caplog):
    tensors = tiny.weights(1)
    del tensors["bert/pooler/dense/kernel"]
    del tensors["bert/encoder/layer_0/output/dense/kernel"]
    tensors["bert/encoder/layer_1/output/dense/kernel"] = np.zeros((6, 4), "f4")
    tensors["bert/encoder/layer_2/output/dense/kernel/adam_m"] = np.zeros((6, 4), "f4")
    manager.save(str(tmp_path), 1, tensors)
    with caplog.at_level(logging.WARNING):
        load(tiny.variables(tiny.weights()), tmp_path)
    pooler, lacking, unused = (record.getMessage() for record in caplog.records)
    assert "no pooler (bert/pooler/dense/kernel), which stays random" in pooler
    assert "1 encoder variables are missing" in lacking
    assert lacking.endswith("bert/encoder/layer_0/output/dense/kernel")
    assert "1 of its encoder variables are not in the model" in unused and "layer_1" in unused


def test_values_take_the_type_of_the_variable(tmp_path):
    manager.save(str(tmp_path), 1, {"bert/x": tf.constant([1.0, 2.5], tf.bfloat16)})
    made = {"bert/x": tf.Variable([0.0, 0.0])}
    load(made, tmp_path)
    np.testing.assert_array_equal(made["bert/x"], [1.0, 2.5])


def test_load_all_to_resume_and_to_evaluate(tmp_path):
    prefix = manager.save(str(tmp_path), 9, tiny.values(9))
    for like in (tiny.values(), tiny.weights()):
        made = tiny.variables(like)
        restore.load_all(made, prefix)
        for name, variable in made.items():
            np.testing.assert_array_equal(variable, tiny.values(9)[name])


def test_load_all_is_strict(tmp_path):
    prefix = manager.save(str(tmp_path), 9, tiny.values(9))
    smaller, larger = tiny.variables(tiny.values()), tiny.variables(tiny.values())
    for name in [name for name in smaller if "layer_0" in name]:
        del smaller[name]
        larger[name.replace("layer_0", "layer_1")] = tf.Variable(tf.zeros([6, 4]))
    message = tiny.error(restore.load_all, smaller, prefix)
    assert "another model: it also has bert/encoder/layer_0/output/dense/kernel;" in message
    message = tiny.error(restore.load_all, larger, prefix)
    assert "another model: it lacks bert/encoder/layer_1/output/dense/kernel;" in message
    assert "--output_dir" in message and prefix in message

    prefix = manager.save(str(tmp_path), 10, tiny.weights(10))
    message = tiny.error(restore.load_all, tiny.variables(tiny.values()), prefix)
    assert "no optimizer state" in message and "--init_checkpoint" in message


def test_load_all_names_damage_and_the_cure(tmp_path):
    for step in (1, 2):
        prefix = manager.save(str(tmp_path), step, tiny.values(step))
    tiny.flip(f"{prefix}.data-00000-of-00001", 300)
    assert manager.latest(str(tmp_path)) == prefix  # shows only when the values are read
    message = tiny.error(restore.load_all, tiny.variables(tiny.values()), prefix)
    assert message.startswith(f"{prefix}.data-00000-of-00001: damaged at ")
    assert f"newest intact checkpoint is {tmp_path}/model.ckpt-1" in message


_MIRRORED = """
import json, sys, numpy as np, tensorflow as tf
from checkpoints import manager, restore
cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 2)
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    made = {"bert/x": tf.Variable([0.0, 0.0]), "global_step": tf.Variable(0, dtype=tf.int64)}
manager.save(sys.argv[1], 4, {"bert/x": np.array([3.0, 5.0], "f4"), "global_step": 4})
restore.load_matching(made, restore.open_checkpoint(sys.argv[1]))
copies = [value.numpy().tolist() for value in strategy.experimental_local_results(made["bert/x"])]
prefix = manager.save(sys.argv[1], 5, made)
print(json.dumps([type(made["bert/x"]).__name__, copies, prefix]))
"""


@pytest.mark.slow
def test_every_replica_gets_the_values(tmp_path):
    kind, copies, prefix = json.loads(tiny.run_code(_MIRRORED, str(tmp_path)))
    assert kind == "MirroredVariable" and copies == [[3.0, 5.0], [3.0, 5.0]]
    reader = tf.train.load_checkpoint(prefix)
    np.testing.assert_array_equal(reader.get_tensor("bert/x"), [3.0, 5.0])
    assert reader.get_tensor("global_step") == 4


def test_a_training_checkpoint_written_by_tf_1_15(shared):
    folder = shared / "golden" / "model"
    with np.load(folder / "golden.npz") as golden:
        names = [name for name in golden if name.startswith("step8/")]
        expected = {name.removeprefix("step8/"): golden[name] for name in names}
    found = restore.open_checkpoint(str(folder / "trained"))
    assert found.path == str(folder / "trained" / "model.ckpt-8")
    made = {name: tf.Variable(tf.zeros(shape)) for name, shape in found.shapes.items()}
    made["global_step"] = tf.Variable(0, dtype=tf.int64)
    restore.load_all(made, found.path)
    assert int(made["global_step"]) == 8
    assert len(expected) == 62  # 5 + 16 layers * 3 + 2 of the encoder, 7 of the heads
    assert set(made) == {"global_step"} | {
        name + slot for name in expected for slot in ("", "/adam_m", "/adam_v")
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(made[name], value)
        assert np.abs(made[f"{name}/adam_m"]).max() > 0
        assert np.min(made[f"{name}/adam_v"]) >= 0

    without = restore.open_checkpoint(str(folder))  # the initial weights: a single *.index
    assert set(without.shapes) == set(expected)


@pytest.mark.parametrize("name", ["model.safetensors.gz", "bert_model.ckpt"])
def test_a_compressed_file_is_named(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(gzip.compress(b"weights"))
    assert tiny.error(restore.open_checkpoint, str(path)) == (
        f"--init_checkpoint={path}: compressed with gzip; unpack it with gunzip"
    )
