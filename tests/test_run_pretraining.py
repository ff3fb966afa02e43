"""run_pretraining.py from the command line to its files."""

import json
import math
import os
import random
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import tensorflow as tf

import run_pretraining
import scripts
import tiny
from checkpoints import manager
from tasks.pretraining import record_files, records

ROOT = os.path.dirname(run_pretraining.__file__)
_main = scripts.Command(run_pretraining)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pretraining")
    tiny.write_config(folder / "config.json")
    tiny.write_config(
        folder / "still.json", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )
    tiny.write_records(folder / "train.tfrecord", 70)
    tiny.write_records(folder / "heldout.tfrecord", 21, seed=1)
    return folder


def _flags(folder, output, *more, config="config.json"):
    return [
        f"--bert_config_file={folder / config}",
        f"--input_file={folder / 'train.tfrecord'}",
        f"--output_dir={output}",
        *tiny.FLAGS,
        "--train_batch_size=8",
        "--num_warmup_steps=2",
        "--learning_rate=1e-2",
        *more,
    ]


def test_train_and_evaluate(folder, tmp_path):
    flags = _flags(folder, tmp_path, "--do_train", "--do_eval", "--num_train_steps=5")
    assert _main(*flags, f"--eval_file={folder / 'heldout.tfrecord'}", "--save_weights_only") == 0
    results = scripts.results(tmp_path / "eval_results.txt")
    assert list(results) == [
        "global_step",
        "loss",
        "masked_lm_accuracy",
        "masked_lm_loss",
        "next_sentence_accuracy",
        "next_sentence_loss",
        "perplexity",
    ]
    assert results["global_step"] == "5"
    loss = float(results["masked_lm_loss"])
    assert float(results["perplexity"]) == pytest.approx(math.exp(loss), rel=1e-4)
    assert round(float(results["next_sentence_accuracy"]) * 21, 3).is_integer()
    run = json.loads((tmp_path / "run.json").read_text())
    assert run["flags"]["num_train_steps"] == 5 and run["tensorflow"] == tf.__version__
    assert json.loads((tmp_path / "bert_config.json").read_text())["hidden_size"] == 16
    weights = tiny.read_checkpoint(tmp_path / "weights/model.ckpt-5")
    assert not any("adam" in name for name in weights)
    whole = tiny.read_checkpoint(tmp_path / "model.ckpt-5")
    for name, value in weights.items():
        np.testing.assert_array_equal(value, whole[name])

    # Evaluation alone gives the same, of the newest checkpoint or of each.
    flags = _flags(folder, tmp_path, "--do_eval", f"--eval_file={folder / 'heldout.tfrecord'}")
    before = (tmp_path / "eval_results.txt").read_text()
    assert _main(*flags, "--eval_batch_size=21") == 0
    again = scripts.results(tmp_path / "eval_results.txt")
    assert float(again["loss"]) == pytest.approx(float(results["loss"]), abs=1e-5)
    assert _main(*flags, "--eval_checkpoint=all") == 0
    assert (tmp_path / "eval_results-5.txt").read_text() == before
    # eval_results.txt stays that of the newest checkpoint.
    newest = (tmp_path / "eval_results.txt").read_text()
    (tmp_path / "eval_results-5.txt").unlink()
    assert _main(*flags, f"--eval_checkpoint={tmp_path / 'weights'}") == 0
    assert (tmp_path / "eval_results-5.txt").read_text() == before
    assert _main(*flags, f"--eval_checkpoint={tmp_path / 'model.ckpt-0'}") == 0
    assert (tmp_path / "eval_results.txt").read_text() == newest
    assert scripts.results(tmp_path / "eval_results-0.txt")["global_step"] == "0"


@pytest.mark.parametrize("warmup, warns", [(2, False), (3, True), (4, True)])
def test_a_warmup_as_long_as_the_run_is_warned_about(folder, tmp_path, caplog, warmup, warns):
    flags = _flags(folder, tmp_path, "--do_train", "--num_train_steps=3")
    assert _main(*flags, f"--num_warmup_steps={warmup}") == 0
    said = f"--num_warmup_steps={warmup} is not below --num_train_steps=3: training ends before"
    assert (said in caplog.text) is warns


@pytest.mark.slow
def test_evaluation_of_an_initial_checkpoint_in_a_fresh_directory(folder, tmp_path, caplog):
    assert _main(*_flags(folder, tmp_path / "one", "--do_train", "--num_train_steps=3")) == 0
    init = tmp_path / "one/model.ckpt-3.index"
    caplog.set_level("INFO")
    assert _main(*_flags(folder, tmp_path / "two", "--do_eval", f"--init_checkpoint={init}")) == 0
    assert "no trained model" in caplog.text
    assert (tmp_path / "two/eval_results.txt").exists()
    # A directory with a checkpoint of its own wins, and says so.
    caplog.clear()
    assert _main(*_flags(folder, tmp_path / "one", "--do_eval", f"--init_checkpoint={init}")) == 0
    assert "with the weights of" in caplog.text
    assert "model.ckpt-3; --init_checkpoint is ignored" in caplog.text


@pytest.mark.parametrize("objective", ["mlm", "ltr"])
def test_other_objectives(folder, tmp_path, objective):
    flags = _flags(folder, tmp_path, "--do_train", "--do_eval", "--num_train_steps=2")
    assert _main(*flags, f"--objective={objective}") == 0
    results = scripts.results(tmp_path / "eval_results.txt")
    assert "next_sentence_loss" not in results and "perplexity" in results
    config = json.loads((tmp_path / "bert_config.json").read_text())
    assert config.get("attention") == ("left_to_right" if objective == "ltr" else None)
    saved = tiny.read_checkpoint(tmp_path / "model.ckpt-2")
    assert "cls/seq_relationship/output_weights" in saved
    if objective == "ltr":  # the saved config says what the weights are
        flags[0] = f"--bert_config_file={tmp_path / 'bert_config.json'}"
        assert _main(*flags, "--objective=mlm") == 2


def test_mistakes_end_in_one_line_before_anything_is_written(folder, tmp_path, capsys):
    output = tmp_path / "run"

    def fails(status, message, *more, config="config.json"):
        flags = _flags(folder, output, "--do_train", *more, config=config)
        line = _main.error(capsys, status, *flags)
        assert re.search(message, line), line
        assert not output.exists()

    fails(1, "--bert_config_file=.*no.json: cannot be read", f"--bert_config_file={folder}/no.json")
    fails(1, "input_file.*no_such.*create_pretraining_data", f"--input_file={folder}/no_such*")
    fails(1, "16 input_ids, --max_seq_length is 12.*--max_seq_length=16", "--max_seq_length=12")
    fails(1, "3 masked_lm_positions, --max_predictions_per_seq is 5", "--max_predictions_per_seq=5")
    fails(2, "--max_seq_length=99: .*max_position_embeddings 24", "--max_seq_length=99")
    fails(2, "--train_batch_size=8 is not a multiple of 3", "--gradient_accumulation_steps=3")
    nowhere = f"--eval_checkpoint={folder}/nowhere"
    fails(1, "--eval_checkpoint.*nowhere", nowhere, "--do_eval")
    fails(2, "--eval_checkpoint does nothing without --do_eval", nowhere)
    fails(2, "is not a directory", f"--output_dir={folder / 'config.json'}")
    fails(2, "config.json is not a directory", f"--output_dir={folder / 'config.json'}/run")
    fails(1, "--init_checkpoint.*nowhere", f"--init_checkpoint={folder}/nowhere.ckpt")
    fails(2, "--num_gpus=3", "--num_gpus=3")
    (folder / "text.tfrecord").write_bytes(b"Call me Ishmael. Some years ago.")
    fails(1, "text.tfrecord: not a TFRecord", f"--input_file={folder}/text.tfrecord")


def test_contradicting_flags_are_found_without_tensorflow(tmp_path):
    flags = ["--bert_config_file=c", "--input_file=i", f"--output_dir={tmp_path}", "--do_train"]
    code = (
        "import sys, run_pretraining\n"
        f"assert run_pretraining.main(['x.py', *{flags}, '--eval_checkpoint=best']) == 2\n"
        "assert 'tensorflow' not in sys.modules and 'numpy' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_records_of_a_larger_vocabulary(folder, tmp_path, capsys):
    tiny.write_config(folder / "fewer.json", vocab_size=40)
    flags = _flags(folder, tmp_path, "--do_train", "--num_train_steps=5", config="fewer.json")
    line = _main.error(capsys, 1, *flags)
    assert "train.tfrecord: record 1: input_ids 40, but vocab_size is 40" in line
    # Found before the first save, so the directory is free for the right config.
    assert not list(tmp_path.glob("model.ckpt*"))


def test_a_record_that_is_no_number_is_named_and_the_steps_before_are_saved(
    folder, tmp_path, capsys
):
    features = records.pretraining_features(tiny.LENGTH, tiny.PREDICTIONS)
    whole = list(tf.data.TFRecordDataset(str(folder / "train.tfrecord")).as_numpy_iterator())
    values = record_files.decode_example(features, whole[0])
    values["masked_lm_weights"] = [1.0, math.nan, 0.0]
    bad = tmp_path / "bad.tfrecord"
    with tf.io.TFRecordWriter(str(bad)) as writer:
        for record in [*whole[:30], records.encode_example(features, values), *whole[30:]]:
            writer.write(record)
    flags = ["--do_train", "--num_train_steps=50", f"--input_file={bad}", "--train_batch_size=1"]
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "run", *flags))
    step = int(re.search(r"bad.tfrecord: record 31: masked_lm_weights nan.*-(\d+)$", line)[1])
    metrics = (tmp_path / "run/metrics.jsonl").read_text() if step else ""
    assert "NaN" not in metrics
    assert manager.latest(str(tmp_path / "run")).endswith(f"model.ckpt-{step}")


def test_empty_record_files_among_full_ones(folder, tmp_path, capsys, caplog):
    for name in ("a", "b"):
        (tmp_path / name).touch()
    flags = ["--do_train", "--num_train_steps=1"]
    files = f"--input_file={tmp_path}/a,{folder / 'train.tfrecord'},{tmp_path}/b"
    assert _main(*_flags(folder, tmp_path / "run", *flags, files)) == 0
    assert f"no records in {tmp_path}/a, {tmp_path}/b" in caplog.text
    for flag, more in (("input_file", []), ("eval_file", ["--do_eval"])):
        files = f"--{flag}={tmp_path}/a,{tmp_path}/b"
        line = _main.error(capsys, 1, *_flags(folder, tmp_path / "run", *flags, files, *more))
        assert f"--{flag}: no records in {tmp_path}/a, {tmp_path}/b; make them again" in line


@pytest.mark.parametrize(
    "closed",
    ["<&- >&- 2>&-", *(pytest.param(c, marks=pytest.mark.slow) for c in ("2>&-", ">&- 2>&-"))],
)
def test_closed_streams(folder, tmp_path, closed):
    flags = _flags(folder, tmp_path, "--do_train", "--num_train_steps=2")
    command = shlex.join([sys.executable, os.path.join(ROOT, "run_pretraining.py"), *flags])
    assert subprocess.run(["sh", "-c", f"{command} {closed}"]).returncode == 0
    assert manager.latest(str(tmp_path)).endswith("model.ckpt-2")
    wrong = f"{command} --learning_rate=x {closed}"
    assert subprocess.run(["sh", "-c", wrong]).returncode == 2


def test_a_checkpoint_goes_on_only_with_its_objective(folder, tmp_path, capsys):
    assert _main(*_flags(folder, tmp_path, "--do_train", "--num_train_steps=1")) == 0
    before = (tmp_path / "bert_config.json").read_text()
    for do in ("--do_train", "--do_eval"):
        line = _main.error(capsys, 1, *_flags(folder, tmp_path, do, "--objective=ltr"))
        assert "was trained with --objective=mlm_nsp, not --objective=ltr" in line
    assert (tmp_path / "bert_config.json").read_text() == before


def test_checkpoints_without_their_listing_are_not_overwritten(folder, tmp_path, capsys):
    flags = _flags(folder, tmp_path, "--do_train", "--num_train_steps=2")
    assert _main(*flags) == 0
    listing = tmp_path / "checkpoint"
    listing.unlink()
    line = _main.error(capsys, 1, *flags)
    assert 'write this line into that file: model_checkpoint_path: "model.ckpt-2"' in line
    listing.write_text('model_checkpoint_path: "model.ckpt-2"\n')
    assert _main(*flags) == 0


@pytest.mark.parametrize(
    "text",
    ['{"examples_seen": "x"}', '{"examples_seen": null}', '{"examples_seen": -8}', "\0",
     '{"kind": 7}', '{"attention": "up"}'],
)  # fmt: skip
def test_a_damaged_state_file(folder, tmp_path, capsys, text):
    assert _main(*_flags(folder, tmp_path, "--do_train", "--num_train_steps=1")) == 0
    (tmp_path / "model.ckpt-1.state.json").write_text(text)
    line = _main.error(capsys, 1, *_flags(folder, tmp_path, "--do_train", "--num_train_steps=2"))
    assert "model.ckpt-1.state.json: damaged" in line


def test_a_result_that_is_not_finite_is_no_result(folder, tmp_path, capsys):
    flags = ["--do_train", "--num_train_steps=1", "--num_warmup_steps=0"]
    assert _main(*_flags(folder, tmp_path, *flags)) == 0
    values = tiny.read_checkpoint(tmp_path / "model.ckpt-1")
    values["cls/predictions/output_bias"] += np.float32(np.nan)
    manager.save(str(tmp_path), 1, values)
    line = _main.error(capsys, 1, *_flags(folder, tmp_path, "--do_eval"))
    assert "the loss at step 1 is nan" in line
    assert not (tmp_path / "eval_results.txt").exists()


def test_a_corrupt_record_in_the_middle_of_a_file(folder, tmp_path, capsys):
    data = bytearray((folder / "train.tfrecord").read_bytes())
    data[data.rindex(b"input_ids")] ^= 1
    (folder / "flipped.tfrecord").write_bytes(data)
    assert _main(*_flags(folder, tmp_path / "good", "--do_train", "--num_train_steps=1")) == 0
    flipped = f"--input_file={folder / 'flipped.tfrecord'}"
    for output, do in (("new", "--do_train"), ("good", "--do_eval")):
        line = _main.error(capsys, 1, *_flags(folder, tmp_path / output, flipped, do))
        assert "flipped.tfrecord: corrupt record at byte" in line
    assert not list((tmp_path / "new").glob("model.ckpt*"))


def test_checkpoint_of_another_size(folder, tmp_path, capsys):
    assert _main(*_flags(folder, tmp_path / "a", "--do_train", "--num_train_steps=1")) == 0
    tiny.write_config(folder / "wide.json", hidden_size=32)
    flags = ["--do_train", "--num_train_steps=2"]
    before = (tmp_path / "a/bert_config.json").read_text(), (tmp_path / "a/run.json").read_text()
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "a", *flags, config="wide.json"))
    after = (tmp_path / "a/bert_config.json").read_text(), (tmp_path / "a/run.json").read_text()
    assert before == after
    assert "bert/" in line and "16" in line and "32" in line and "--output_dir" in line
    init = f"--init_checkpoint={tmp_path / 'a/model.ckpt-1'}"
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "b", *flags, init, config="wide.json"))
    assert "bert/" in line and "16" in line and "32" in line and "--bert_config_file" in line
    tiny.write_config(folder / "tanh.json", hidden_act="tanh")  # of the same shapes
    for output, do in (("a", "--do_train"), ("a", "--do_eval"), ("b", "--do_train")):
        more = [do, "--num_train_steps=2", init]
        line = _main.error(capsys, 1, *_flags(folder, tmp_path / output, *more, config="tanh.json"))
        assert "tanh.json has hidden_act tanh, but" in line and "trained with gelu" in line
    assert (tmp_path / "a/bert_config.json").read_text() == before[0]


def test_records_without_a_masked_token_have_a_finite_loss(folder, tmp_path):
    features = records.pretraining_features(tiny.LENGTH, tiny.PREDICTIONS)
    with tf.io.TFRecordWriter(str(folder / "unmasked.tfrecord")) as writer:
        values = {f.name: [] for f in features} | {"input_ids": [2, 9, 3], "input_mask": [1, 1, 1]}
        for _ in range(8):
            writer.write(records.encode_example(features, values))
    flags = _flags(folder, tmp_path, "--do_train", "--num_train_steps=2")
    assert _main(*flags, f"--input_file={folder / 'unmasked.tfrecord'}") == 0
    rows = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    assert all(row["masked_lm_loss"] == 0 and math.isfinite(row["loss"]) for row in rows)


@pytest.mark.slow
def test_two_devices_equal_one(folder, tmp_path, script):
    """Weights after ten steps, padding-free, with one shared step counter."""
    losses = []
    for count in (1, 2):
        output = tmp_path / str(count)
        more = ("--do_train", "--do_eval", "--num_train_steps=10")
        flags = _flags(folder, output, *more, config="still.json")
        done = script("run_pretraining.py", *flags, f"--num_cpu_devices={count}")
        assert done.returncode == 0, done.stderr
        losses.append(float(scripts.results(output / "eval_results.txt")["loss"]))
    runs = (tmp_path / count / "model.ckpt-10" for count in "12")
    scripts.assert_same_checkpoints(*runs, tolerance=1e-5)
    assert losses[0] == pytest.approx(losses[1], abs=1e-5)
    assert len(json.loads((tmp_path / "2/run.json").read_text())["devices"]) == 2


@pytest.mark.slow
def test_two_devices_start_from_the_initial_checkpoint(folder, tmp_path, script):
    assert _main(*_flags(folder, tmp_path / "a", "--do_train", "--num_train_steps=2")) == 0
    init = f"--init_checkpoint={tmp_path / 'a/model.ckpt-2'}"
    flags = _flags(folder, tmp_path / "b", "--do_eval", init)
    # Three devices do not divide a batch of eight, and XLA compiles each replica by itself.
    done = script("run_pretraining.py", *flags, "--num_cpu_devices=3", "--xla")
    assert done.returncode == 0, done.stderr
    assert _main(*_flags(folder, tmp_path / "a", "--do_eval")) == 0
    one, two = (scripts.results(tmp_path / name / "eval_results.txt") for name in "ab")
    assert float(one["loss"]) == pytest.approx(float(two["loss"]), abs=1e-5)


def _start(flags, **options):
    command = [sys.executable, os.path.join(ROOT, "run_pretraining.py"), *flags]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=subprocess.STDOUT, text=True, **options)


def _wait_for(process, text):
    """Reads the output until a line holds ``text``."""
    lines = []
    for line in process.stdout:
        lines.append(line)
        if text in line:
            return lines
    raise AssertionError(f"no {text!r} in {''.join(lines)}")


def test_sigterm_saves_and_says_how_to_go_on(folder, tmp_path, capsys):
    flags = _flags(folder, tmp_path, "--do_train", "--num_train_steps=100000", "--log_steps=1")
    process = _start(flags)
    try:
        _wait_for(process, "step 3/")
        # Meanwhile no other run gets in.
        assert "another run is training there" in _main.error(capsys, 1, *flags)
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=600)[0]
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143, text
    assert "the same command goes on from there" in text and "Traceback" not in text
    step = int(re.search(r"stopped at step (\d+)", text).group(1))
    assert manager.latest(str(tmp_path)).endswith(f"model.ckpt-{step}")


@pytest.mark.slow
def test_killed_again_and_again_it_ends_where_an_unbroken_run_ends(folder, tmp_path):
    """Dropout on; kill -9 at random moments; equal to the last bit."""
    flags = ["--do_train", "--num_train_steps=400", "--save_checkpoints_steps=20", "--log_steps=5"]
    whole = _start(_flags(folder, tmp_path / "whole", *flags))
    assert whole.wait(timeout=600) == 0, whole.stdout.read()
    whole.stdout.close()
    generator = random.Random(7)
    output = tmp_path / "killed"
    kills = 0
    while kills < 6:
        process = _start(_flags(folder, output, *flags))
        _wait_for(process, "step ")
        time.sleep(generator.random() * 1.5)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        ended = process.returncode == 0
        kills += not ended
        for prefix in manager.listed(str(output)):
            tiny.read_checkpoint(prefix)
        if ended:  # it was faster than the kill: begin again a little earlier
            shutil.rmtree(output)
    last = _start(_flags(folder, output, *flags))
    assert last.wait(timeout=600) == 0, last.stdout.read()
    last.stdout.close()
    runs = (tmp_path / name / "model.ckpt-400" for name in ("whole", "killed"))
    scripts.assert_same_checkpoints(*runs)


def test_the_golden_checkpoint_of_the_original_resumes(shared, folder, tmp_path):
    """Step 8 and the moments that TF 1.15 wrote go on to step 10, and are not started anew."""
    golden = shared / "golden/model"
    config = json.loads((golden / "bert_config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config))
    output = tmp_path / "run"
    shutil.copytree(golden / "trained", output)
    output.chmod(0o755)
    for path in output.iterdir():
        path.chmod(0o644)
    before = tiny.read_checkpoint(output / "model.ckpt-8")
    flags = _flags(folder, output, "--do_train", "--num_train_steps=9", "--learning_rate=1e-9")
    flags[0] = f"--bert_config_file={tmp_path / 'config.json'}"
    assert _main(*flags) == 0
    after = tiny.read_checkpoint(output / "model.ckpt-9")
    assert after.keys() == before.keys() and after["global_step"] == 9
    for name, value in before.items():
        if name.endswith("adam_v"):  # v moves by a thousandth of a clipped gradient's square
            np.testing.assert_allclose(after[name], 0.999 * value, atol=1e-3, err_msg=name)
            assert (after[name] >= 0.9989 * value).all()
        elif name.endswith("adam_m"):  # and m by a tenth of one
            np.testing.assert_allclose(after[name], 0.9 * value, atol=0.1, err_msg=name)
        elif name != "global_step":
            np.testing.assert_allclose(after[name], value, atol=1e-6, err_msg=name)
