"""Directories of checkpoints: what is saved, listed, found newest and cleaned up."""

import contextlib
import logging
import os
import resource
import shutil

import numpy as np
import pytest
import tensorflow as tf

import scripts
import tiny_checkpoints as tiny
from checkpoints import manager, restore


def files(directory) -> set[str]:
    return set(os.listdir(directory))


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
    prefix = manager.save(str(tmp_path), 3, tiny.values(3))
    with tf.Graph().as_default(), tf.compat.v1.Session() as session:
        made = {
            name: tf.compat.v1.get_variable(name, np.shape(value), np.asarray(value).dtype)
            for name, value in tiny.values().items()
        }
        tf.compat.v1.train.Saver(made).restore(session, prefix)
        for name, value in session.run(made).items():
            np.testing.assert_array_equal(value, tiny.values(3)[name])


def test_the_listing_is_relative_and_moves_with_the_directory(tmp_path):
    old, new = tmp_path / "old*?", tmp_path / "new"
    for step in (10, 20):
        manager.save(str(old), step, tiny.values(step))
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
    manager.save(str(tmp_path / "old"), 5, tiny.values())
    listing = 'model_checkpoint_path: "{0}"\nall_model_checkpoint_paths: "{0}"\n'
    (tmp_path / "old" / "checkpoint").write_text(listing.format(tmp_path / "old" / "model.ckpt-5"))
    shutil.copytree(tmp_path / "old", tmp_path / "new")
    # The copy is meant even while the original is still there.
    assert manager.latest(str(tmp_path / "new")) == str(tmp_path / "new" / "model.ckpt-5")


def test_names_that_need_quoting_survive(tmp_path):
    manager.save(str(tmp_path), 1, tiny.values())
    for suffix in ("index", "data-00000-of-00001"):
        (tmp_path / f"model.ckpt-1.{suffix}").rename(tmp_path / f'Größe".{suffix}')
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "Gr\\303\\266\\303\\237e\\""\n')
    assert manager.latest(str(tmp_path)) == str(tmp_path / 'Größe"')
    manager.save(str(tmp_path), 2, tiny.values())
    assert tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths == [
        str(tmp_path / 'Größe"'),
        str(tmp_path / "model.ckpt-2"),
    ]


def test_the_oldest_are_deleted(tmp_path):
    (tmp_path / "model.ckpt-2-notes.txt").write_text("mine")
    for step in (0, 2, 4, 10, 100, 200, 300):
        manager.save(str(tmp_path), step, tiny.values(step), state={"at": step})
    kept = [4, 10, 100, 200, 300]
    others = {"checkpoint", "model.ckpt-2-notes.txt"}
    assert files(tmp_path) == scripts.checkpoint_files(*kept) | others
    state = tf.train.get_checkpoint_state(str(tmp_path))
    assert [path.rsplit("-")[-1] for path in state.all_model_checkpoint_paths] == [
        str(step) for step in kept
    ]
    manager.save(str(tmp_path), 400, tiny.values(400), keep=1)
    assert {name for name in files(tmp_path) if name.endswith(".index")} == {"model.ckpt-400.index"}


def test_keep_zero_keeps_all(tmp_path):
    for step in range(7):
        manager.save(str(tmp_path), step, tiny.values(step), keep=0)
    assert sum(name.endswith(".index") for name in files(tmp_path)) == 7
    assert len(tf.train.get_checkpoint_state(str(tmp_path)).all_model_checkpoint_paths) == 7


def test_a_listed_checkpoint_elsewhere_is_not_deleted(tmp_path):
    other = manager.save(str(tmp_path / "other"), 1, tiny.values())
    mine = tmp_path / "mine"
    mine.mkdir()
    (mine / "checkpoint").write_text(f'model_checkpoint_path: "{other}"\n')
    manager.save(str(mine), 2, tiny.values(), keep=1)
    assert manager.latest(str(tmp_path / "other")) == other


def test_a_step_can_be_saved_again(tmp_path):
    for seed in (1, 2, 3):
        prefix = manager.save(str(tmp_path), 5, tiny.values(seed), state={"seed": seed})
    assert manager.latest(str(tmp_path)) == prefix
    assert tf.train.load_checkpoint(prefix).get_tensor("global_step") == 3
    assert manager.read_state(prefix) == {"seed": 3}
    assert files(tmp_path) == scripts.checkpoint_files(5) | {"checkpoint"}


def test_a_step_saved_again_is_safe_when_the_new_write_fails(tmp_path, monkeypatch):
    manager.save(str(tmp_path), 5, tiny.values(1), state={"seed": 1})
    with out_of_space():
        tiny.error(manager.save, str(tmp_path), 5, big(), state={"seed": 2})
    newest = manager.latest(str(tmp_path))
    assert tf.train.load_checkpoint(newest).get_tensor("global_step") == 1
    assert manager.read_state(newest) == {"seed": 1}
    prefix = manager.save(str(tmp_path), 5, tiny.values(4))
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
        message = tiny.error(manager.save, str(directory), 10, big())
    assert "model.ckpt-10" in message and "no older one" in message
    assert files(directory) == set()
    last = manager.save(str(directory), 10, tiny.values(10))
    before = {name: (directory / name).read_bytes() for name in files(directory)}
    with out_of_space():
        message = tiny.error(manager.save, str(directory), 20, big(), state={"x": 1})
    assert f"the last good one is {last}" in message
    assert {name: (directory / name).read_bytes() for name in files(directory)} == before
    assert manager.latest(str(directory)) == last


def test_a_path_that_is_not_a_directory(tmp_path):
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file")
    assert path in tiny.error(manager.save, path, 1, tiny.values())


def test_a_path_that_tensorflow_cannot_read_back(tmp_path):
    directory = str(tmp_path / "run[1]")
    for call in (manager.latest, lambda path: manager.save(path, 1, tiny.values())):
        assert "path has a [" in tiny.error(call, directory)
    assert files(tmp_path) == set()
    assert manager.latest(str(tmp_path / "run*?]")) is None
    prefix = manager.save(str(tmp_path / "run*?]"), 1, tiny.values())
    assert manager.latest(str(tmp_path / "run*?]")) == prefix


def test_state(tmp_path):
    state = {"examples": 3200, "loss_scale": 32768.0, "data": {"epoch": 1, "row": 17}, "x": None}
    prefix = manager.save(str(tmp_path), 1, tiny.values(), state=state)
    assert manager.read_state(prefix) == state
    assert manager.read_state(manager.save(str(tmp_path), 2, tiny.values())) == {}
    path = tmp_path / "model.ckpt-1.state.json"
    for damaged in (path.read_text()[:-9], "[1]", ""):
        path.write_text(damaged)
        assert str(path) in tiny.error(manager.read_state, prefix)


@pytest.mark.parametrize("scheme", ["ram://run", "file://"])
def test_remote_paths(tmp_path, scheme):
    directory = f"{scheme}{tmp_path}/out"
    for step in (1, 2, 3, 3):
        prefix = manager.save(directory, step, tiny.values(step), keep=2, state={"at": step})
    names = {name for name in tf.io.gfile.listdir(directory) if name.endswith(".index")}
    assert names == {"model.ckpt-2.index", "model.ckpt-3.index"}
    assert manager.latest(directory) == prefix
    assert manager.read_state(prefix) == {"at": 3}
    assert manager.clean_leftovers(directory) == []
    made = tiny.variables(tiny.values())
    restore.load_all(made, prefix)
    np.testing.assert_array_equal(made["output_bias"], tiny.values(3)["output_bias"])
    assert restore.open_checkpoint(directory).path == restore.open_checkpoint(prefix).path == prefix
    tf.io.gfile.remove(f"{prefix}.data-00000-of-00001")  # ram:// would append
    with tf.io.gfile.GFile(f"{prefix}.data-00000-of-00001", "wb") as file:
        file.write(b"short")
    assert "model.ckpt-2" in tiny.error(manager.latest, directory).split("intact")[1]


def test_listed_are_those_that_exist_oldest_first(tmp_path):
    made = [manager.save(str(tmp_path), step, tiny.values()) for step in (5, 40, 300)]
    assert manager.listed(str(tmp_path)) == made
    os.remove(f"{made[1]}.index")
    assert manager.listed(str(tmp_path)) == [made[0], made[2]]


def test_nothing_listed(tmp_path):
    assert manager.listed(str(tmp_path)) == []
    assert manager.latest(str(tmp_path / "absent")) is None
    assert manager.latest(str(tmp_path)) is None
    assert manager.clean_leftovers(str(tmp_path / "absent")) == []


def cut_last_byte(path):
    tiny.cut(path, os.path.getsize(path) - 1)


@pytest.mark.parametrize(
    ("damage", "suffix", "named"),
    [
        (lambda path: tiny.flip(path, 20), ".index", ".index"),
        (lambda path: tiny.cut(path, 30), ".index", ".index"),
        (lambda path: tiny.cut(path, 0), ".index", ".index"),
        (os.remove, ".index", ".index"),
        (os.remove, ".data-00000-of-00001", ".data-"),
        (cut_last_byte, ".data-00000-of-00001", ".data-00000-of-00001"),
    ],
)
def test_a_damaged_newest_is_named_with_the_cure(tmp_path, damage, suffix, named):
    for step in (10, 20, 30):
        manager.save(str(tmp_path), step, tiny.values(step))
    tiny.flip(tmp_path / "model.ckpt-20.data-00000-of-00001", 50)  # not intact, though complete
    damage(str(tmp_path / f"model.ckpt-30{suffix}"))
    message = tiny.error(manager.latest, str(tmp_path))
    assert message.startswith(f"{tmp_path}/model.ckpt-30{named}")
    assert f"newest intact checkpoint is {tmp_path}/model.ckpt-10" in message
    # The cure in the message works, and the next save of the step mends the damage.
    cure = 'model_checkpoint_path: "model.ckpt-10"'
    assert cure in message
    listing = tmp_path / "checkpoint"
    listing.write_text(listing.read_text().replace('model_checkpoint_path: "model.ckpt-30"', cure))
    assert manager.latest(str(tmp_path)) == f"{tmp_path}/model.ckpt-10"
    manager.save(str(tmp_path), 30, tiny.values(31))
    assert manager.latest(str(tmp_path)) == f"{tmp_path}/model.ckpt-30"
    assert tf.train.load_checkpoint(str(tmp_path)).get_tensor("global_step") == 31


def test_no_intact_checkpoint(tmp_path):
    manager.save(str(tmp_path), 10, tiny.values())
    os.remove(tmp_path / "model.ckpt-10.data-00000-of-00001")
    assert "no other listed checkpoint is intact" in tiny.error(manager.latest, str(tmp_path))


@pytest.mark.parametrize("text", ["", "model_checkpoint_path: ", "\x00\x00", "all_model: 3\n"])
def test_a_damaged_listing_does_not_start_over(tmp_path, text):
    manager.save(str(tmp_path), 10, tiny.values())
    (tmp_path / "checkpoint").write_text(text)
    message = tiny.error(manager.latest, str(tmp_path))
    assert message.startswith(f"{tmp_path}/checkpoint: damaged")


def test_leftovers_of_a_killed_save(tmp_path, caplog):
    manager.save(str(tmp_path), 10, tiny.values(), state={"a": 1})
    kept = files(tmp_path) | {
        "model.ckpt-30.index",  # complete but not listed: somebody's copy, perhaps
        "model.ckpt-30.data-00000-of-00001",
        "bert_model.ckpt.data-00000-of-00001",
        "model.ckpt-40.meta",
        "my_temp_files",
        "eval_results.txt.tempstate",
        "model.ckpt-notes",
    }
    deleted = {
        "model.ckpt-20.data-00000-of-00001",
        "model.ckpt-20.state.json",
        "model.ckpt-20.index.tempstate123456",
        "model.ckpt-10-replaced.data-00000-of-00001",
        "model.ckpt-30.state.json.tempstate77",
        "checkpoint.tempstate77",
        "checkpoint.tmp0af",
        "model.ckpt-20_temp_ab12",
    }
    for name in deleted | kept - files(tmp_path):
        if "_temp_" in name:
            (tmp_path / name).mkdir()
            (tmp_path / name / "part-00000-of-00001.data").write_text("x")
        else:
            (tmp_path / name).write_text("x")
    with caplog.at_level(logging.INFO):
        assert set(manager.clean_leftovers(str(tmp_path))) == deleted
    assert files(tmp_path) == kept
    assert "does not list it: model.ckpt-30" in caplog.text
    assert manager.clean_leftovers(str(tmp_path)) == []


@pytest.mark.parametrize("step", [0, 7])
@pytest.mark.parametrize("suffix", [".index", ".data-00000-of-00001", ".meta"])
def test_a_checkpoint_of_others_is_not_written_over(tmp_path, step, suffix):
    manager.save(str(tmp_path), 3, tiny.values(), state={"a": 1})
    (tmp_path / f"model.ckpt-{step}{suffix}").write_text("precious")
    message = tiny.error(manager.check_unlisted, str(tmp_path), 0, 10)
    assert f"model.ckpt-{step} would be written over" in message and "move it away" in message
    assert "would be written over" in tiny.error(
        manager.save, str(tmp_path), step, tiny.values(), state={"a": 1}
    )
    assert (tmp_path / f"model.ckpt-{step}{suffix}").read_text() == "precious"
    manager.check_unlisted(str(tmp_path), step + 1, 10)
    manager.check_unlisted(str(tmp_path / "absent"), 0, 10)
    (tmp_path / f"model.ckpt-{step}.state.json").write_text("{}")  # what a killed save left
    manager.check_unlisted(str(tmp_path), 0, 10)


@pytest.mark.parametrize(
    ("file", "shown"),
    [
        ("bert_model.ckpt.index", "bert_model.ckpt"),
        ("model.safetensors", "model.safetensors"),
        ("model-00001-of-00002.safetensors", "model-00001-of-00002.safetensors"),
    ],
)
def test_weights_in_the_directory_are_not_passed_over(tmp_path, file, shown):
    manager.check_no_weights(str(tmp_path / "absent"))
    manager.check_no_weights(str(tmp_path))
    (tmp_path / "model.ckpt-0.index").touch()  # of a run that was killed in its first save
    manager.check_no_weights(str(tmp_path))
    (tmp_path / file).touch()
    message = tiny.error(manager.check_no_weights, str(tmp_path))
    assert f"give --init_checkpoint={tmp_path}/{shown}" in message


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
    whole = {os.path.basename(path) for prefix in listed for path in tf_checkpoint.files(prefix)}
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
    tiny.run_code(_KILLED, str(tmp_path / "out"))
