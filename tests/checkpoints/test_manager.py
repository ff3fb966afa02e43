"""Directories of checkpoints: what is saved, listed, found, refused and restored."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import pathlib
import resource
import shutil
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf

from checkpoints import manager, restore
from command_line import errors

ROOT = pathlib.Path(__file__).resolve().parents[2]


def values(step: int = 0) -> dict[str, np.ndarray]:
    """A model of one layer with two weights, and its training state."""
    rng = np.random.default_rng(step)
    names = {
        "bert/embeddings/word_embeddings": (11, 4),
        "bert/encoder/layer_0/output/dense/kernel": (6, 4),
        "bert/pooler/dense/kernel": (4, 4),
        "output_bias": (3,),
    }
    found = {name: rng.normal(size=shape).astype(np.float32) for name, shape in names.items()}
    slots = {
        f"{name}/adam_{slot}": rng.normal(size=shape).astype(np.float32)
        for name, shape in names.items()
        for slot in "mv"
    }
    return {**found, **slots, "global_step": np.int64(step)}


def weights(step: int = 0) -> dict[str, np.ndarray]:
    return {name: value for name, value in values(step).items() if "adam" not in name}


def variables(like: dict[str, np.ndarray]) -> dict[str, tf.Variable]:
    return {
        name: tf.Variable(np.zeros_like(value), trainable=not name.startswith("global"))
        for name, value in like.items()
    }


def files(directory) -> set[str]:
    return set(os.listdir(directory))


def error(call, *arguments, **options) -> str:
    """The message of the user error, which must be one line."""
    with pytest.raises(errors.UserError) as caught:
        call(*arguments, **options)
    message = str(caught.value)
    assert "\n" not in message
    return message


def flip(path, position: int) -> None:
    data = bytearray(pathlib.Path(path).read_bytes())
    data[position] ^= 0x10
    pathlib.Path(path).write_bytes(bytes(data))


def cut(path, size: int) -> None:
    with open(path, "r+b") as file:
        file.truncate(size)


# --------------------------------------------------------------------------------------------------
# Save and list
# --------------------------------------------------------------------------------------------------


def test_tensorflow_reads_what_was_saved(tmp_path):
    tensors = {
        "a/kernel": tf.Variable([[1.5, -2.0]]),
        "a/bias": tf.constant([3.0], tf.bfloat16),
        "b": np.arange(6, dtype=np.int32).reshape(2, 3),
        "global_step": 1234567890123,
    }
    prefix = manager.save(str(tmp_path), 7, tensors)
    assert prefix == str(tmp_path / "model.ckpt-7")
    reader = tf.train.load_checkpoint(str(tmp_path))
    assert reader.get_variable_to_shape_map() == {
        "a/kernel": [1, 2],
        "a/bias": [1],
        "b": [2, 3],
        "global_step": [],
    }
    assert reader.get_variable_to_dtype_map() == {
        "a/kernel": tf.float32,
        "a/bias": tf.bfloat16,
        "b": tf.int32,
        "global_step": tf.int64,
    }
    np.testing.assert_array_equal(reader.get_tensor("a/kernel"), [[1.5, -2.0]])
    assert float(reader.get_tensor("a/bias")[0]) == 3.0
    np.testing.assert_array_equal(reader.get_tensor("b"), [[0, 1, 2], [3, 4, 5]])
    assert reader.get_tensor("global_step") == 1234567890123


def test_the_saver_of_tf1_restores_it(tmp_path):
    prefix = manager.save(str(tmp_path), 3, values(3))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = {
            name: tf.compat.v1.get_variable(name, np.shape(value), np.asarray(value).dtype)
            for name, value in values().items()
        }
        tf.compat.v1.train.Saver(made).restore(session, prefix)
        for name, value in session.run(made).items():
            np.testing.assert_array_equal(value, values(3)[name])


def test_the_listing_is_relative_and_moves_with_the_directory(tmp_path):
    old, new = tmp_path / "old*?", tmp_path / "new"
    for step in (10, 20):
        manager.save(str(old), step, values(step))
    lines = (old / "checkpoint").read_text().splitlines()
    assert lines[:3] == [
        'model_checkpoint_path: "model.ckpt-20"',
        'all_model_checkpoint_paths: "model.ckpt-10"',
        'all_model_checkpoint_paths: "model.ckpt-20"',
    ]
    stamps = [line.split(": ") for line in lines[3:]]
    assert [stamp[0] for stamp in stamps] == ["all_model_checkpoint_timestamps"] * 2
    assert float(stamps[0][1]) < float(stamps[1][1])
    old.rename(new)
    assert tf.train.latest_checkpoint(str(new)) == str(new / "model.ckpt-20")
    assert manager.latest(str(new)) == str(new / "model.ckpt-20")


def test_absolute_listings_of_tf1_follow_a_copied_directory(tmp_path):
    manager.save(str(tmp_path / "old"), 5, values())
    listing = 'model_checkpoint_path: "{0}"\nall_model_checkpoint_paths: "{0}"\n'
    (tmp_path / "old" / "checkpoint").write_text(listing.format(tmp_path / "old" / "model.ckpt-5"))
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    # The copy is meant even while the original is still there.
    assert manager.latest(str(tmp_path / "new")) == str(tmp_path / "new" / "model.ckpt-5")


def test_names_that_need_quoting_survive(tmp_path):
    manager.save(str(tmp_path), 1, values())
    for suffix in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.ckpt-1.{suffix}").rename(tmp_path / f'Größe".{suffix}')
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "Gr\\303\\266\\303\\237e\\""\n')
    assert manager.latest(str(tmp_path)) == str(tmp_path / 'Größe"')
    manager.save(str(tmp_path), 2, values())
    assert tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths == [
        str(tmp_path / 'Größe"'),
        str(tmp_path / "model.ckpt-2"),
    ]


def test_the_oldest_go(tmp_path):
    (tmp_path / "model.ckpt-2-notes.txt").write_text("mine")
    for step in (0, 2, 4, 10, 100, 200, 300):
        manager.save(str(tmp_path), step, values(step), state={"at": step})
    kept = [4, 10, 100, 200, 300]
    endings = ("data-00000-of-00001", "index", "state.json")
    assert files(tmp_path) == {f"model.ckpt-{step}.{end}" for step in kept for end in endings} | {
        "checkpoint",
        "model.ckpt-2-notes.txt",
    }
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [path.rsplit("-")[-1] for path in state.all_model_checkpoint_paths] == [
        str(step) for step in kept
    ]
    manager.save(str(tmp_path), 400, values(400), keep=1)
    assert {name for name in files(tmp_path) if name.endswith(".index")} == {"model.ckpt-400.index"}


def test_keep_zero_keeps_all(tmp_path):
    for step in range(7):
        manager.save(str(tmp_path), step, values(step), keep=0)
    assert sum(name.endswith(".index") for name in files(tmp_path)) == 7
    assert len(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths) == 7


def test_a_listed_checkpoint_elsewhere_is_not_deleted(tmp_path):
    other = manager.save(str(tmp_path / "other"), 1, values())
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "checkpoint").write_text(f'model_checkpoint_path: "{other}"\n')
    manager.save(str(mine), 2, values(), keep=1)
    assert manager.latest(str(tmp_path / "other")) == other


def test_a_step_can_be_saved_again(tmp_path):
    for seed in (1, 2, 3):
        prefix = manager.save(str(tmp_path), 5, values(seed), state={"seed": seed})
    assert manager.latest(str(tmp_path)) == prefix
    assert tf.train.load_checkpoint(prefix).get_tensor("global_step") == 3
    assert manager.read_state(prefix) == {"seed": 3}
    assert files(tmp_path) == {
        "checkpoint",
        "model.ckpt-5.index",
        "model.ckpt-5.data-00000-of-00001",
        "model.ckpt-5.state.json",
    }


def test_a_step_saved_again_is_safe_when_the_new_write_fails(tmp_path, monkeypatch):
    manager.save(str(tmp_path), 5, values(1), state={"seed": 1})
    with out_of_space():
        error(manager.save, str(tmp_path), 5, big(), state={"seed": 2})
    newest = manager.latest(str(tmp_path))
    assert tf.train.load_checkpoint(newest).get_tensor("global_step") == 1
    assert manager.read_state(newest) == {"seed": 1}
    prefix = manager.save(str(tmp_path), 5, values(4))
    assert manager.latest(str(tmp_path)) == prefix
    assert not [name for name in files(tmp_path) if "replaced" in name]


@contextlib.contextmanager
def out_of_space():
    """No file may grow past 64 KiB: writing more fails as on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 16, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def big() -> dict[str, np.ndarray]:
    return {"w": np.zeros(1 << 20, np.float32)}


def test_a_full_disk_leaves_the_old_state(tmp_path):
    directory = tmp_path / "run"
    with out_of_space():
        message = error(manager.save, str(directory), 10, big())
    assert "model.ckpt-10" in message and "no older one" in message
    assert files(directory) == set()
    last = manager.save(str(directory), 10, values(10))
    before = {name: (directory / name).read_bytes() for name in files(directory)}
    with out_of_space():
        message = error(manager.save, str(directory), 20, big(), state={"x": 1})
    assert f"the last good one is {last}" in message
    assert {name: (directory / name).read_bytes() for name in files(directory)} == before
    assert manager.latest(str(directory)) == last


def test_a_path_that_is_no_directory(tmp_path):
    (tmp_path / "file").write_text("")
    assert str(tmp_path / "file") in error(manager.save, str(tmp_path / "file"), 1, values())


def test_a_path_that_tensorflow_cannot_read_back(tmp_path):
    directory = str(tmp_path / "run[1]")
    for call in (manager.latest, lambda path: manager.save(path, 1, values())):
        assert "path has a [" in error(call, directory)
    assert files(tmp_path) == set()
    assert manager.latest(str(tmp_path / "run*?]")) is None
    prefix = manager.save(str(tmp_path / "run*?]"), 1, values())
    assert manager.latest(str(tmp_path / "run*?]")) == prefix


def test_state(tmp_path):
    state = {"examples": 3200, "loss_scale": 32768.0, "data": {"epoch": 1, "row": 17}, "x": None}
    prefix = manager.save(str(tmp_path), 1, values(), state=state)
    assert manager.read_state(prefix) == state
    assert manager.read_state(manager.save(str(tmp_path), 2, values())) == {}
    path = tmp_path / "model.ckpt-1.state.json"
    for damaged in (path.read_text()[:-9], "[1]", ""):
        path.write_text(damaged)
        assert str(path) in error(manager.read_state, prefix)


@pytest.mark.parametrize("scheme", ["ram://run", "file://"])
def test_remote_paths(tmp_path, scheme):
    directory = f"{scheme}{tmp_path}/out"
    for step in (1, 2, 3, 3):
        prefix = manager.save(directory, step, values(step), keep=2, state={"at": step})
    names = {name for name in tf.io.gfile.listdir(directory) if name.endswith(".index")}
    assert names == {"model.ckpt-2.index", "model.ckpt-3.index"}
    assert manager.latest(directory) == prefix
    assert manager.read_state(prefix) == {"at": 3}
    assert manager.clean_leftovers(directory) == []
    made = variables(values())
    restore.restore_all(made, prefix)
    np.testing.assert_array_equal(made["output_bias"], values(3)["output_bias"])
    assert restore.resolve(directory).path == restore.resolve(prefix).path == prefix
    tf.io.gfile.remove(f"{prefix}.data-00000-of-00001")  # ram:// would append
    with tf.io.gfile.GFile(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(b"short")
    assert "model.ckpt-2" in error(manager.latest, directory).split("intact")[1]


# --------------------------------------------------------------------------------------------------
# Find the newest, clean up
# --------------------------------------------------------------------------------------------------


def test_listed_are_those_that_exist_oldest_first(tmp_path):
    made = [manager.save(str(tmp_path), step, values()) for step in (5, 40, 300)]
    assert manager.listed(str(tmp_path)) == made
    remove_index(made[1])
    assert manager.listed(str(tmp_path)) == [made[0], made[2]]


def test_nothing_listed(tmp_path):
    assert manager.listed(str(tmp_path)) == []
    assert manager.latest(str(tmp_path / "absent")) is None
    assert manager.latest(str(tmp_path)) is None
    assert manager.clean_leftovers(str(tmp_path / "absent")) == []


def damage_index(prefix):
    flip(f"{prefix}.index", 20)


def damage_index_length(prefix):
    cut(f"{prefix}.index", 30)


def empty_index(prefix):
    cut(f"{prefix}.index", 0)


def remove_index(prefix):
    os.remove(f"{prefix}.index")


def remove_data(prefix):
    os.remove(f"{prefix}.data-00000-of-00001")


def damage_data_length(prefix):
    path = f"{prefix}.data-00000-of-00001"
    cut(path, os.path.getsize(path) - 1)


@pytest.mark.parametrize(
    ("damage", "part"),
    [
        (damage_index, ".index"),
        (damage_index_length, ".index"),
        (empty_index, ".index"),
        (remove_index, ".index"),
        (remove_data, ".data-"),
        (damage_data_length, ".data-00000-of-00001"),
    ],
)
def test_a_damaged_newest_is_named_with_the_way_out(tmp_path, damage, part):
    for step in (10, 20, 30):
        manager.save(str(tmp_path), step, values(step))
    flip(tmp_path / "model.ckpt-20.data-00000-of-00001", 50)  # not intact, though complete
    damage(str(tmp_path / "model.ckpt-30"))
    message = error(manager.latest, str(tmp_path))
    assert message.startswith(f"{tmp_path}/model.ckpt-30{part}")
    assert f"newest intact checkpoint is {tmp_path}/model.ckpt-10" in message
    # The cure in the message works, and the next save of the step mends the damage.
    cure = 'model_checkpoint_path: "model.ckpt-10"'
    assert cure in message
    listing = tmp_path / "checkpoint"
    listing.write_text(listing.read_text().replace('model_checkpoint_path: "model.ckpt-30"', cure))
    assert manager.latest(str(tmp_path)) == f"{tmp_path}/model.ckpt-10"
    manager.save(str(tmp_path), 30, values(31))
    assert manager.latest(str(tmp_path)) == f"{tmp_path}/model.ckpt-30"
    assert tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step") == 31


def test_no_intact_checkpoint(tmp_path):
    manager.save(str(tmp_path), 10, values())
    remove_data(str(tmp_path / "model.ckpt-10"))
    assert "no other listed checkpoint is intact" in error(manager.latest, str(tmp_path))


@pytest.mark.parametrize("text", ["", "model_checkpoint_path: ", "\x00\x00", "all_model: 3\n"])
def test_a_damaged_listing_is_no_fresh_start(tmp_path, text):
    manager.save(str(tmp_path), 10, values())
    (tmp_path / "checkpoint").write_text(text)
    message = error(manager.latest, str(tmp_path))
    assert message.startswith(f"{tmp_path}/checkpoint: damaged")


def test_leftovers_of_a_killed_save(tmp_path, caplog):
    manager.save(str(tmp_path), 10, values(), state={"a": 1})
    stay = files(tmp_path) | {
        "model.ckpt-30.index",  # complete but not listed: somebody's copy, perhaps
        "model.ckpt-30.data-00000-of-00001",
        "bert_model.ckpt.data-00000-of-00001",
        "model.ckpt-40.meta",
        "my_temp_files",
        "eval_results.txt.tempstate",
        "model.ckpt-notes",
    }
    go = {
        "model.ckpt-20.data-00000-of-00001",
        "model.ckpt-20.state.json",
        "model.ckpt-20.index.tempstate123456",
        "model.ckpt-10-replaced.data-00000-of-00001",
        "model.ckpt-30.state.json.tempstate77",
        "checkpoint.tempstate77",
        "checkpoint.tmp0af",
        "model.ckpt-20_temp_ab12",
    }
    for name in go | stay - files(tmp_path):
        if "_temp_" in name:
            (tmp_path / name).mkdir()
            (tmp_path / name / "part-00000-of-00001.data").write_text("x")
        else:
            (tmp_path / name).write_text("x")
    with caplog.at_level(logging.INFO):
        assert set(manager.clean_leftovers(str(tmp_path))) == go
    assert files(tmp_path) == stay
    assert "does not list it: model.ckpt-30" in caplog.text
    assert manager.clean_leftovers(str(tmp_path)) == []


_KILLED = """
import os, random, signal, sys, time
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
import numpy as np, tensorflow
from checkpoints import manager, tf_checkpoint
directory, rounds = sys.argv[1], 0

def train(pipe):
    manager.clean_leftovers(directory)
    newest = manager.latest(directory)
    step = int(manager.read_state(newest)["step"]) if newest else 0
    while True:
        for again in (False, True):  # every step twice: a listed checkpoint is written over
            numbers = {f"w{i}": np.full(300_000, step + i, np.float32) for i in range(3)}
            manager.save(directory, step, numbers, keep=2, state={"step": step})
            os.write(pipe, b".")
        step += 1

random.seed(5)
saves = interrupted = 0  # kills shall fall between saves and into them, however slow they are
while rounds < 30 or saves <= 5 or interrupted <= 5:
    rounds += 1
    ours, theirs = os.pipe()
    child = os.fork()  # before TensorFlow starts its threads, which it does at the first op
    if not child:
        train(theirs)
    os.close(theirs)
    os.read(ours, 1)
    time.sleep(random.random() * 0.25)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    while more := os.read(ours, 4096):
        saves += len(more)
    os.close(ours)
    listed = manager.listed(directory)
    whole = {os.path.basename(path) for prefix in listed for path in tf_checkpoint.parts(prefix)}
    interrupted += bool(set(os.listdir(directory)) - whole - {"checkpoint"})
    assert manager.latest(directory) == listed[-1]
    for prefix in listed:
        found = tf_checkpoint.Checkpoint(prefix)
        step = manager.read_state(prefix)["step"]
        assert f"model.ckpt-{step}" in prefix
        for i in range(3):
            assert (found.read([f"w{i}"])[f"w{i}"] == step + i).all(), prefix
print(saves, interrupted)
"""


@pytest.mark.slow
def test_kill_at_any_moment(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _KILLED, str(tmp_path / "out")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]


# --------------------------------------------------------------------------------------------------
# Open what a flag names
# --------------------------------------------------------------------------------------------------


def release(directory: pathlib.Path, name: str = "bert_model.ckpt") -> pathlib.Path:
    """Files as in a downloaded model: no ``checkpoint``, a .meta beside them."""
    prefix = manager.save(str(directory), 1, weights(1))
    (directory / "checkpoint").unlink()
    for suffix in (".index", ".data-00000-of-00001"):
        os.rename(prefix + suffix, directory / f"{name}{suffix}")
    (directory / f"{name}.meta").write_bytes(b"graph")
    (directory / "vocab.txt").write_text("[PAD]\n")
    return directory / name


@pytest.mark.parametrize("ending", ["", ".index", ".data-00000-of-00001", ".meta"])
def test_any_file_names_the_checkpoint(tmp_path, ending):
    prefix = release(tmp_path)
    found = restore.resolve(f"{prefix}{ending}")
    assert found.path == str(prefix)
    assert found.shapes == {name: np.shape(value) for name, value in weights().items()}
    assert found.dtypes["output_bias"] == np.float32
    assert found.dtypes["global_step"] == np.int64
    for name, value in found.read(weights()).items():
        np.testing.assert_array_equal(value, weights(1)[name])


def test_directories(tmp_path):
    prefix = release(tmp_path)
    assert restore.resolve(str(tmp_path)).path == str(prefix)
    assert restore.resolve(f"{tmp_path}/").path == str(prefix)
    for step in (8, 9):
        manager.save(str(tmp_path), step, values())
    assert restore.resolve(str(tmp_path)).path == f"{tmp_path}/model.ckpt-9"
    (tmp_path / "checkpoint").unlink()
    message = error(restore.resolve, str(tmp_path))
    assert message.startswith(f"--init_checkpoint={tmp_path}: the directory has 3 checkpoints")
    for name in ("bert_model.ckpt", "model.ckpt-8", "model.ckpt-9"):
        assert f"{tmp_path}/{name}" in message


def test_a_prefix_wins_over_a_directory_of_its_name(tmp_path):
    prefix = release(tmp_path)
    prefix.mkdir()
    assert restore.resolve(str(prefix)).path == str(prefix)


def test_the_listing_stands_for_the_newest_checkpoint(tmp_path, monkeypatch):
    for step in (3, 8):
        manager.save(str(tmp_path), step, weights(step))
    assert restore.resolve(f"{tmp_path}/checkpoint").path == f"{tmp_path}/model.ckpt-8"
    monkeypatch.chdir(tmp_path)
    assert restore.resolve("checkpoint").read(["global_step"])["global_step"] == 8
    (tmp_path / "checkpoint").write_text("nonsense\n")
    message = error(restore.resolve, f"{tmp_path}/checkpoint")
    assert message.startswith(f"--init_checkpoint={tmp_path}/checkpoint: ") and "damaged" in message


def test_nothing_there(tmp_path):
    prefix = release(tmp_path)
    message = error(restore.resolve, f"{tmp_path}/bert-model.ckpt")
    assert "not found; did you mean bert_model.ckpt" in message
    message = error(restore.resolve, f"{tmp_path}/xyz", "--eval_checkpoint")
    assert message.startswith(f"--eval_checkpoint={tmp_path}/xyz: not found")
    assert "bert_model.ckpt" in message
    assert f"no directory {tmp_path}/nowhere" in error(
        restore.resolve, f"{tmp_path}/nowhere/bert_model.ckpt"
    )
    (tmp_path / "empty").mkdir()
    assert "found nothing" in error(restore.resolve, f"{tmp_path}/empty")
    (tmp_path / "empty" / "pytorch_model.bin").write_bytes(b"x")
    message = error(restore.resolve, f"{tmp_path}/empty")
    assert "found pytorch_model.bin" in message and "*.safetensors" in message
    assert "no checkpoint is in" in error(restore.resolve, f"{tmp_path}/empty/model")
    os.remove(f"{prefix}.index")
    message = error(restore.resolve, f"{prefix}.data-00000-of-00001")
    assert f"{prefix}.index is missing" in message


def test_files_that_are_no_checkpoint(tmp_path):
    (tmp_path / "vocab.txt").write_text("[PAD]\n[UNK]\n" * 100)
    message = error(restore.resolve, f"{tmp_path}/vocab.txt")
    assert f"{tmp_path}/vocab.txt: not a TensorFlow checkpoint" in message


def test_the_older_format_of_tf1(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = tf.compat.v1.get_variable("bert/x", initializer=tf.constant([[1.0, 2.0]]))
        session.run(made.initializer)
        saver = tf.compat.v1.train.Saver(write_version=1)
        prefix = saver.save(session, str(tmp_path / "model.ckpt"), global_step=7)
    assert not os.path.exists(f"{prefix}.index")
    for path in (prefix, f"{prefix}.meta", str(tmp_path)):
        found = restore.resolve(path)
        assert found.shapes == {"bert/x": (1, 2)}
        np.testing.assert_array_equal(found.read(["bert/x"])["bert/x"], [[1.0, 2.0]])
    cut(prefix, 40)
    assert prefix in error(restore.resolve, prefix)


def test_variables_that_tf1_partitioned_and_sharded_files(tmp_path):
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        split = tf.compat.v1.fixed_size_partitioner(2)
        start = tf.constant(np.arange(12, dtype=np.float32).reshape(4, 3))
        made = tf.compat.v1.get_variable("bert/x", initializer=start, partitioner=split)
        session.run(tf.compat.v1.global_variables_initializer())
        prefix = tf.compat.v1.train.Saver().save(session, str(tmp_path / "part"))
        del made
    found = restore.resolve(prefix)
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
    assert restore.resolve(f"{whole}.data-00001-of-00002").read(["w1"])["w1"].sum() == 5.0
    os.remove(f"{whole}.data-00000-of-00002")
    message = error(restore.resolve, whole)
    assert "data file missing" in message and "whole.data-00001-of-00002" in message


def test_every_flipped_byte_is_noticed_or_harmless(tmp_path):
    prefix = release(tmp_path)
    index, data = f"{prefix}.index", f"{prefix}.data-00000-of-00001"
    noticed = 0
    for path in (index, data):
        whole = pathlib.Path(path).read_bytes()
        for position in range(0, len(whole), 1 if path == index else 7):
            flip(path, position)
            try:
                found = restore.resolve(str(prefix)).read(weights())
            except errors.UserError as problem:
                noticed += 1
                assert path in str(problem) or path == index, (position, str(problem))
            else:  # a byte without meaning, such as padding of the footer
                assert path == index, position
                for name, value in found.items():
                    np.testing.assert_array_equal(value, weights(1)[name])
            pathlib.Path(path).write_bytes(whole)
    assert noticed > 150


# --------------------------------------------------------------------------------------------------
# Restore
# --------------------------------------------------------------------------------------------------


def test_restore_reports(tmp_path, caplog):
    manager.save(str(tmp_path), 1, {**values(1), "cls/squad/output_bias": np.zeros(2, "f4")})
    made = variables(weights())
    del made["global_step"]
    made["output_weights"] = tf.Variable(tf.fill([3, 4], 7.0))
    with caplog.at_level(logging.INFO):
        report = restore.restore(made, restore.resolve(str(tmp_path)))
    assert set(report.loaded) == set(weights()) - {"global_step"}
    assert report.missing == ("output_weights",)
    assert set(report.ignored) == {
        "cls/squad/output_bias",
        "global_step",
        *(name for name in values() if "adam" in name),
    }
    for name in report.loaded:
        np.testing.assert_array_equal(made[name], values(1)[name])
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
        restore.restore(made, restore.resolve(str(tmp_path)), each_variable=False)
    assert [record.getMessage() for record in caplog.records] == lines[-1:]


def test_slots_and_step_are_read_when_asked_for(tmp_path):
    manager.save(str(tmp_path), 3, values(3))
    made = variables(values())
    report = restore.restore(made, restore.resolve(str(tmp_path)))
    assert set(report.loaded) == set(values()) and not report.ignored
    assert int(made["global_step"]) == 3
    np.testing.assert_array_equal(made["output_bias/adam_m"], values(3)["output_bias/adam_m"])


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
    manager.save(str(tmp_path), 1, values(1))
    for call, where in (
        (lambda made: restore.restore(made, restore.resolve(str(tmp_path))), "--init"),
        (lambda made: restore.restore_all(made, f"{tmp_path}/model.ckpt-1"), "--output_dir"),
    ):
        made = variables(values())
        made[name] = tf.Variable(tf.zeros(shape))
        message = error(call, made)
        was = values()[name].shape
        assert f"{name} has shape {was} in the checkpoint and {shape} in the model" in message
        assert flag in message and where in message
        assert all(np.all(variable.numpy() == 0) for variable in made.values())


def test_more_shape_flags(tmp_path):
    sizes = {
        "bert/embeddings/position_embeddings": ((512, 4), (128, 4), "max_position_embeddings"),
        "bert/embeddings/token_type_embeddings": ((2, 4), (3, 4), "type_vocab_size"),
        "cls/predictions/output_bias": ((11,), (12,), "vocab_size in --bert_config_file"),
    }
    for name, (there, here, flag) in sizes.items():
        tensors = {name: np.zeros(there, "f4"), "bert/x": np.zeros(1, "f4")}
        manager.save(str(tmp_path), 1, tensors)
        made = {"bert/x": tf.Variable([0.0]), name: tf.Variable(tf.zeros(here))}
        assert flag in error(restore.restore, made, restore.resolve(str(tmp_path)))


def test_a_checkpoint_of_something_else(tmp_path):
    made = variables(weights())
    cases = {
        "resnet/kernel": "it holds output_bias, resnet/kernel;",
        "module/bert/embeddings/word_embeddings": "its names begin with 'module/'",
        "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE": "object-based TF2 checkpoint",
    }
    for name, hint in cases.items():
        manager.save(str(tmp_path), 1, {"output_bias": np.ones(3), name: np.zeros((11, 4), "f4")})
        found = restore.resolve(str(tmp_path))
        message = error(restore.restore, made, found)
        assert "none of the model's 3 bert/ variables" in message and hint in message
        assert message.startswith(f"--init_checkpoint={tmp_path}/model.ckpt-1: ")
        np.testing.assert_array_equal(made["output_bias"], np.zeros(3))
    head = {"output_bias": made["output_bias"]}
    assert restore.restore(head, found).loaded == ("output_bias",)
    np.testing.assert_array_equal(made["output_bias"], np.ones(3))  # float64 in the file


def test_missing_and_superfluous_parts_of_the_encoder_are_warned_about(tmp_path, caplog):
    tensors = weights(1)
    del tensors["bert/pooler/dense/kernel"]
    del tensors["bert/encoder/layer_0/output/dense/kernel"]
    tensors["bert/encoder/layer_1/output/dense/kernel"] = np.zeros((6, 4), "f4")
    tensors["bert/encoder/layer_2/output/dense/kernel/adam_m"] = np.zeros((6, 4), "f4")
    manager.save(str(tmp_path), 1, tensors)
    with caplog.at_level(logging.WARNING):
        restore.restore(variables(weights()), restore.resolve(str(tmp_path)))
    pooler, lacking, unused = (record.getMessage() for record in caplog.records)
    assert "no pooler (bert/pooler/dense/kernel), which stays random" in pooler
    assert "1 encoder variables are missing" in lacking
    assert lacking.endswith("bert/encoder/layer_0/output/dense/kernel")
    assert "1 of its encoder variables have no place" in unused and "layer_1" in unused


def test_values_take_the_type_of_the_variable(tmp_path):
    manager.save(str(tmp_path), 1, {"bert/x": tf.constant([1.0, 2.5], tf.bfloat16)})
    made = {"bert/x": tf.Variable([0.0, 0.0])}
    restore.restore(made, restore.resolve(str(tmp_path)))
    np.testing.assert_array_equal(made["bert/x"], [1.0, 2.5])


def test_restore_all_to_resume_and_to_evaluate(tmp_path):
    prefix = manager.save(str(tmp_path), 9, values(9))
    for like in (values(), weights()):
        made = variables(like)
        restore.restore_all(made, prefix)
        for name, variable in made.items():
            np.testing.assert_array_equal(variable, values(9)[name])


def test_restore_all_is_strict(tmp_path):
    prefix = manager.save(str(tmp_path), 9, values(9))
    smaller, larger = variables(values()), variables(values())
    for name in [name for name in smaller if "layer_0" in name]:
        del smaller[name]
        larger[name.replace("layer_0", "layer_1")] = tf.Variable(tf.zeros([6, 4]))
    message = error(restore.restore_all, smaller, prefix)
    assert "another model: it also has bert/encoder/layer_0/output/dense/kernel;" in message
    message = error(restore.restore_all, larger, prefix)
    assert "another model: it lacks bert/encoder/layer_1/output/dense/kernel;" in message
    assert "--output_dir" in message and prefix in message

    prefix = manager.save(str(tmp_path), 10, weights(10))
    message = error(restore.restore_all, variables(values()), prefix)
    assert "no optimizer state" in message and "--init_checkpoint" in message


def test_restore_all_names_damage_and_the_way_out(tmp_path):
    for step in (1, 2):
        prefix = manager.save(str(tmp_path), step, values(step))
    flip(f"{prefix}.data-00000-of-00001", 300)
    assert manager.latest(str(tmp_path)) == prefix  # shows only when the values are read
    message = error(restore.restore_all, variables(values()), prefix)
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
restore.restore(made, restore.resolve(sys.argv[1]))
copies = [value.numpy().tolist() for value in strategy.experimental_local_results(made["bert/x"])]
prefix = manager.save(sys.argv[1], 5, made)
print(json.dumps([type(made["bert/x"]).__name__, copies, prefix]))
"""


@pytest.mark.slow
def test_every_replica_gets_the_values(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", _MIRRORED, str(tmp_path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    kind, copies, prefix = json.loads(done.stdout.splitlines()[-1])
    assert kind == "MirroredVariable" and copies == [[3.0, 5.0], [3.0, 5.0]]
    reader = tf.train.load_checkpoint(prefix)
    np.testing.assert_array_equal(reader.get_tensor("bert/x"), [3.0, 5.0])
    assert reader.get_tensor("global_step") == 4


# --------------------------------------------------------------------------------------------------
# A checkpoint of the original release
# --------------------------------------------------------------------------------------------------


def test_a_training_checkpoint_written_by_tf_1_15(shared):
    folder = shared / "golden" / "model"
    with np.load(folder / "golden.npz") as golden:
        expected = {
            name.removeprefix("step8/"): golden[name]
            for name in golden
            if name.startswith("step8/")
        }
    found = restore.resolve(str(folder / "trained"))
    assert found.path == str(folder / "trained" / "model.ckpt-8")
    made = {name: tf.Variable(tf.zeros(shape)) for name, shape in found.shapes.items()}
    made["global_step"] = tf.Variable(0, dtype=tf.int64)
    restore.restore_all(made, found.path)
    assert int(made["global_step"]) == 8
    assert len(expected) == 62  # 5 + 16 layers * 3 + 2 of the encoder, 7 of the heads
    assert set(made) == {"global_step"} | {
        name + slot for name in expected for slot in ("", "/adam_m", "/adam_v")
    }
    for name, value in expected.items():
        np.testing.assert_array_equal(made[name], value)
        assert np.abs(made[f"{name}/adam_m"]).max() > 0
        assert np.min(made[f"{name}/adam_v"]) >= 0

    without = restore.resolve(str(folder))  # the initial weights: a single *.index
    assert set(without.shapes) == set(expected)
