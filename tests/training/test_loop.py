"""The loop: what it saves, how it resumes, stops, accumulates and evaluates."""

import contextlib
import dataclasses
import json
import logging
import os
import signal

import numpy as np
import pytest
import tensorflow as tf

import modeling
import optimization
import scripts
import tiny
from checkpoints import manager
from command_line import errors, options
from tasks.pretraining import objectives, record_batches, record_files, records
from training import loop, run_state

CONFIG = modeling.BertConfig.from_dict(tiny.CONFIG)
STILL = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
FEATURES = records.pretraining_features(tiny.LENGTH, tiny.PREDICTIONS)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return tiny.write_records(tmp_path_factory.mktemp("records") / "tiny.tfrecord", 70)


def _batches(data, size=8, seed=1, **more):
    return record_batches.RecordBatches([data], FEATURES, batch_size=size, seed=seed, **more)


def _trainer(directory, config=CONFIG, objective="mlm_nsp", device=None, init="", **run):
    device = device or options.DeviceOptions()
    run = {"save_checkpoints_steps": 100, "log_steps": 1, "random_seed": 3, **run}
    task = objectives.create_objective(
        objective,
        config,
        compute_dtype=getattr(tf, device.precision),
        static_shapes=device.static_shapes,
        seed=run["random_seed"],
    )
    run = options.RunOptions(output_dir=str(directory), **run)
    state = run_state.RunState(task, run=run, initial=run_state.InitialWeights(init))
    return loop.Trainer(task, state, strategy=tf.distribute.get_strategy(), run=run, device=device)


def _train(trainer, batches, schedule, accumulation=1, evaluate=None):
    trainer.prepare_training(schedule, batches.batch_size, accumulation)
    trainer.train(batches, evaluate)


def _schedule(steps, peak=1e-2, warmup=2):
    return optimization.Schedule(peak, steps, warmup)


def _metrics(directory):
    return [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]


def test_files_of_a_run(data, tmp_path):
    trainer = _trainer(tmp_path, save_checkpoints_steps=2, keep_checkpoint_max=3)
    _train(trainer, _batches(data), _schedule(7))
    assert trainer.step == 7
    names = {name.split(".v2")[0] for name in os.listdir(tmp_path) if "tfevents" not in name}
    assert names == scripts.checkpoint_files(4, 6, 7) | {"checkpoint", "metrics.jsonl"}
    saved = tiny.read_checkpoint(tmp_path / "model.ckpt-7")
    variables = modeling.named_variables(trainer.task.model)
    slots = {f"{name}/adam_{kind}" for name in variables for kind in "mv"}
    assert set(saved) == set(variables) | slots | {"global_step"}
    assert saved["global_step"] == 7 and saved["global_step"].dtype == np.int64
    assert {a.dtype for n, a in saved.items() if n != "global_step"} == {np.dtype("float32")}


def test_learning_rates_and_steps_of_the_log(data, tmp_path):
    _train(_trainer(tmp_path), _batches(data), _schedule(6, peak=1e-3, warmup=2))
    rows = _metrics(tmp_path)
    assert [row["step"] for row in rows] == [1, 2, 3, 4, 5, 6]
    wanted = [0, 0.5e-3, 1e-3 * 4 / 6, 0.5e-3, 1e-3 * 2 / 6, 1e-3 / 6]
    np.testing.assert_allclose([row["learning_rate"] for row in rows], wanted, rtol=1e-5)
    for row in rows:
        total = row["masked_lm_loss"] + row["next_sentence_loss"]
        assert row["loss"] == pytest.approx(total, rel=1e-6)


def test_loss_goes_down(data, tmp_path):
    _train(_trainer(tmp_path, config=STILL, log_steps=20), _batches(data, 16), _schedule(200))
    rows = _metrics(tmp_path)
    assert rows[0]["masked_lm_loss"] == pytest.approx(np.log(tiny.VOCAB), abs=0.5)
    assert rows[-1]["masked_lm_loss"] < 0.8 * rows[0]["masked_lm_loss"]


HALF = pytest.param("float16", marks=[pytest.mark.slow, tiny.needs_half_precision])


@pytest.mark.parametrize("precision", ["float32", HALF])
def test_a_resumed_run_equals_an_unbroken_one_bit_for_bit(data, tmp_path, precision):
    device = options.DeviceOptions(precision=precision)
    schedule = _schedule(7)
    whole = _trainer(tmp_path / "whole", device=device)
    _train(whole, _batches(data), schedule)
    for stop in (2, 5, 7):  # each with a trainer of its own, as after a restart
        part = _trainer(tmp_path / "parts", device=device)
        assert part.step == 0
        _train_until(part, _batches(data), schedule, stop)
    runs = (tmp_path / name / "model.ckpt-7" for name in ("whole", "parts"))
    scripts.assert_same_checkpoints(*runs)


def _train_until(trainer, batches, schedule, stop):
    """Trains and sends this process SIGTERM when a step is reached."""
    advance = trainer._advance

    def watch(*arguments):
        advance(*arguments)
        if trainer.step == stop < schedule.total_steps:
            os.kill(os.getpid(), signal.SIGTERM)

    trainer._advance = watch
    stops = stop < schedule.total_steps
    with pytest.raises(errors.Stopped, match="15") if stops else contextlib.nullcontext():
        _train(trainer, batches, schedule)


def test_a_signal_saves_and_says_how_to_go_on(data, tmp_path, caplog, capfd):
    caplog.set_level(logging.INFO)
    trainer = _trainer(tmp_path)
    _train_until(trainer, _batches(data), _schedule(9), stop=4)
    assert trainer.step == 4
    assert manager.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-4")
    assert "SIGTERM: stopping after this step" in capfd.readouterr().err
    assert "the same command goes on from there" in caplog.text
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL


class _SignalInside(logging.Handler):
    """Gets a signal in the middle of a line, and like a buffered stream cannot be entered twice."""

    busy = False

    def emit(self, record):
        if self.busy:
            raise RuntimeError("reentrant call")
        self.busy = True
        if record.getMessage().startswith("step 3/"):
            os.kill(os.getpid(), signal.SIGTERM)
        self.busy = False


def test_a_signal_inside_a_log_line_is_not_lost(data, tmp_path, caplog):
    handler = _SignalInside()
    caplog.set_level(logging.INFO)
    loggers = [logging.getLogger(name) for name in ("progress", "training")]
    for logger in loggers:
        logger.addHandler(handler)
    try:
        with pytest.raises(errors.Stopped):
            _train(_trainer(tmp_path), _batches(data), _schedule(9))
    finally:
        for logger in loggers:
            logger.removeHandler(handler)
    assert manager.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-3")


@pytest.mark.slow
def test_accumulated_parts_equal_the_whole_batch(data, tmp_path):
    for parts in (1, 2, 4):
        trainer = _trainer(tmp_path / str(parts), config=STILL)
        _train(trainer, _batches(data), _schedule(4), accumulation=parts)
    for parts in (2, 4):
        runs = (tmp_path / f"{n}/model.ckpt-4" for n in (1, parts))
        scripts.assert_same_checkpoints(*runs, tolerance=1e-5)
        losses = [[row["loss"] for row in _metrics(tmp_path / str(n))] for n in (1, parts)]
        np.testing.assert_allclose(*losses, rtol=1e-5)


def test_a_loss_that_is_not_finite_ends_the_run_and_keeps_the_last_checkpoint(data, tmp_path):
    trainer = _trainer(tmp_path, save_checkpoints_steps=3)
    _train(trainer, _batches(data), _schedule(3))
    again = _trainer(tmp_path)
    again.prepare_training(_schedule(9), 8)
    again.state.variables["bert/pooler/dense/bias"].assign(tf.fill([16], np.nan))
    with pytest.raises(errors.UserError, match=r"step 4: not finite .*model\.ckpt-3$"):
        again.train(_batches(data))
    assert again.step == 3
    assert manager.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-3")
    saved = tiny.read_checkpoint(tmp_path / "model.ckpt-3")
    assert all(np.isfinite(value).all() for value in saved.values())


@tiny.needs_half_precision
def test_float16_overflow_skips_steps_and_does_not_apply_them(data, tmp_path, monkeypatch):
    scale = optimization.LossScale
    monkeypatch.setattr(optimization, "LossScale", lambda: scale(initial=2.0**24))
    big = dataclasses.replace(STILL, initializer_range=0.3)
    device = options.DeviceOptions(precision="float16")
    trainer = _trainer(tmp_path, config=big, device=device)
    before = {name: v.numpy() for name, v in trainer.state.variables.items()}
    applied, saves = [], []
    advance, save = trainer._advance, trainer.state.save
    trainer.state.save = lambda *a, **k: (saves.append(trainer.step), save(*a, **k))[1]

    def watch(*arguments):
        advance(*arguments)
        if not trainer.step:
            for name, variable in trainer.state.variables.items():
                np.testing.assert_array_equal(variable, before[name])
        applied.append(trainer.step)

    trainer._advance = watch
    _train(trainer, _batches(data), _schedule(3))
    skipped = applied.count(0)
    assert 0 < skipped < 20 and applied[skipped:] == [1, 2, 3]
    assert saves == [0, 3]  # none for a step that was skipped
    state = manager.read_state(str(tmp_path / "model.ckpt-3"))
    assert state["loss_scale"] == 2.0 ** (24 - skipped)
    # The data goes on over skipped steps; the step counter does not.
    assert state["examples_seen"] == 8 * (3 + skipped)


@tiny.needs_half_precision
@pytest.mark.slow
def test_half_precision_trains_like_float32(data, tmp_path):
    final = {}
    for precision in ("float32", "bfloat16", "float16"):
        device = options.DeviceOptions(precision=precision)
        trainer = _trainer(tmp_path / precision, config=STILL, device=device)
        _train(trainer, _batches(data, 16), _schedule(30))
        final[precision] = _metrics(tmp_path / precision)[-1]["loss"]
    assert final["bfloat16"] == pytest.approx(final["float32"], abs=0.1)
    assert final["float16"] == pytest.approx(final["float32"], abs=0.05)


@pytest.mark.slow
def test_static_and_compiled_steps_equal_padding_free_ones(data, tmp_path):
    kinds = {"free": {}, "static": {"static_shapes": True}, "xla": {"xla": True}}
    for name, flags in kinds.items():
        device = options.resolve_device(options.DeviceOptions(**flags))
        trainer = _trainer(tmp_path / name, config=STILL, device=device)
        _train(trainer, _batches(data, static_shapes=device.static_shapes), _schedule(3))
        runs = (tmp_path / run / "model.ckpt-3" for run in ("free", name))
        scripts.assert_same_checkpoints(*runs, tolerance=2e-5)


def test_finished_training_takes_no_step_and_says_why(data, tmp_path, caplog):
    _train(_trainer(tmp_path), _batches(data), _schedule(3))
    files = {path.name: path.read_bytes() for path in tmp_path.glob("model.ckpt-*")}
    trainer = _trainer(tmp_path)
    _train(trainer, _batches(data), _schedule(3))
    assert "nothing to train" in caplog.text and "--num_train_steps" in caplog.text
    assert {path.name: path.read_bytes() for path in tmp_path.glob("model.ckpt-*")} == files


def test_a_changed_batch_size_goes_on_where_the_data_was(data, tmp_path):
    _train(_trainer(tmp_path), _batches(data, 8), _schedule(3))
    _train(_trainer(tmp_path), _batches(data, 10), _schedule(5))
    assert manager.read_state(str(tmp_path / "model.ckpt-5"))["examples_seen"] == 3 * 8 + 2 * 10


def test_init_checkpoint_gives_weights_but_no_step_and_no_moments(data, tmp_path):
    _train(_trainer(tmp_path / "first"), _batches(data), _schedule(3))
    source = str(tmp_path / "first/model.ckpt-3")
    trainer = _trainer(tmp_path / "second", init=source, random_seed=99)
    _train(trainer, _batches(data), _schedule(1, warmup=1))
    assert trainer.step == 1
    first = tiny.read_checkpoint(source)
    begun = tiny.read_checkpoint(tmp_path / "second/model.ckpt-0")
    for name in trainer.state.variables:
        np.testing.assert_array_equal(begun[name], first[name], err_msg=name)
        assert not begun[f"{name}/adam_m"].any()
    assert begun["global_step"] == 0


def test_objective_without_next_sentence_leaves_its_head_alone(data, tmp_path):
    for objective in ("mlm", "ltr"):
        trainer = _trainer(tmp_path / objective, objective=objective)
        before = {name: v.numpy() for name, v in trainer.state.variables.items()}
        _train(trainer, _batches(data), _schedule(3))
        for name, variable in trainer.state.variables.items():
            untouched = name.startswith(("bert/pooler", "cls/seq_relationship"))
            assert np.array_equal(variable.numpy(), before[name]) is untouched, name


def test_a_rule_that_matches_no_variable_is_an_error(tmp_path):
    with pytest.raises(ValueError, match="no variable in bert/pooling/"):
        run_state.outside({"bert/pooler/dense/bias": tf.Variable(0.0)}, ["bert/pooling/"])


def test_a_variable_without_gradient_is_an_error(data, tmp_path):
    trainer = _trainer(tmp_path, objective="mlm")
    trainer.state.trained = dict(trainer.state.variables)  # as if the task excused none
    with pytest.raises(RuntimeError, match="does not depend on bert/pooler/dense/bias"):
        _train(trainer, _batches(data), _schedule(3))


def test_evaluation_equals_a_weighted_mean_by_hand_for_any_batch_size(data, tmp_path):
    trainer = _trainer(tmp_path)
    found = [trainer.evaluate(_batches(data, size, seed=None)) for size in (1, 8, 32, 70, 100)]
    loss = right = predictions = pair_loss = pairs_right = 0.0
    for record in tf.data.TFRecordDataset(data):
        batch = record_files.parse(FEATURES, record[None])
        output = trainer.task.model.encoder(
            batch["input_ids"], batch["input_mask"], batch["segment_ids"], training=False
        )
        states = tf.gather(output.sequence_output[0], batch["masked_lm_positions"][0])
        scores = tf.nn.log_softmax(trainer.task.model.token_logits(states)).numpy()
        for slot, weight in enumerate(batch["masked_lm_weights"].numpy()[0]):
            label = int(batch["masked_lm_ids"][0, slot])
            loss -= weight * scores[slot, label]
            right += weight * (scores[slot].argmax() == label)
            predictions += weight
        pair = tf.nn.log_softmax(trainer.task.model.next_sentence(output.pooled_output)).numpy()[0]
        label = int(batch["next_sentence_labels"][0, 0])
        pair_loss -= pair[label]
        pairs_right += pair.argmax() == label
    wanted = {
        "masked_lm_loss": loss / predictions,
        "masked_lm_accuracy": right / predictions,
        "next_sentence_loss": pair_loss / 70,
        "next_sentence_accuracy": pairs_right / 70,
        "loss": loss / predictions + pair_loss / 70,
        "global_step": 0,
    }
    for results in found:
        assert results == pytest.approx(wanted, abs=1e-5)


def test_the_best_checkpoint_is_kept_apart(data, tmp_path):
    trainer = _trainer(tmp_path, eval_steps=2, keep_checkpoint_max=1)
    losses = iter([3.0, 1.0, 2.0])
    _train(trainer, _batches(data), _schedule(6), evaluate=lambda: {"loss": next(losses)})
    assert manager.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-6")
    best = manager.latest(str(tmp_path / "best"))
    assert best == str(tmp_path / "best/model.ckpt-4")
    assert manager.read_state(best)["loss"] == 1.0
    # A run that goes on does not lose a better one from before.
    again = _trainer(tmp_path, eval_steps=2)
    _train(again, _batches(data), _schedule(8), evaluate=lambda: {"loss": 1.5})
    assert manager.latest(str(tmp_path / "best")) == best


def test_an_evaluation_lost_to_a_kill_is_made_up_for(data, tmp_path):
    class Killed(BaseException):
        pass

    def run(steps, is_killed=False):
        """The steps at which an evaluation was asked for."""
        trainer = _trainer(tmp_path, eval_steps=2, save_checkpoints_steps=2)
        found = []

        def evaluate():
            found.append(trainer.step)
            if is_killed:
                raise Killed
            return {"loss": 9.0 - trainer.step}

        with pytest.raises(Killed) if is_killed else contextlib.nullcontext():
            _train(trainer, _batches(data), _schedule(steps), evaluate=evaluate)
        return found

    assert run(2, is_killed=True) == [2]  # at the last step
    assert manager.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
    assert manager.latest(str(tmp_path / "best")) is None
    assert run(2) == [2]
    assert manager.latest(str(tmp_path / "best")) == str(tmp_path / "best/model.ckpt-2")
    assert run(2) == []
    assert run(6, is_killed=True) == [4]  # at one in between
    assert run(6) == [4, 6]


def test_evaluation_needs_trained_weights(data, tmp_path):
    with pytest.raises(errors.UserError, match="nothing to evaluate"):
        _trainer(tmp_path).state.ensure_loaded()
    _train(_trainer(tmp_path / "first"), _batches(data), _schedule(2))
    first = tiny.read_checkpoint(tmp_path / "first/model.ckpt-2")
    encoder = {n: v for n, v in first.items() if n.startswith("bert/") and "adam" not in n}
    prefix = manager.save(str(tmp_path / "encoder"), 2, encoder)
    with pytest.raises(errors.UserError, match="lacks cls/.*untrained head"):
        _trainer(tmp_path / "none", init=prefix).state.ensure_loaded()
    # Masked words alone need no next-sentence head.
    without = {n: v for n, v in first.items() if "adam" not in n and "seq_rel" not in n}
    prefix = manager.save(str(tmp_path / "mlm"), 2, without)
    _trainer(tmp_path / "none", objective="mlm", init=prefix).state.ensure_loaded()
    with pytest.raises(errors.UserError, match="untrained head"):
        _trainer(tmp_path / "none", init=prefix).state.ensure_loaded()


def test_what_can_be_evaluated(data, tmp_path):
    """A checkpoint of a run, its weights without optimizer, and one without a step."""
    trainer = _trainer(tmp_path)
    _train(trainer, _batches(data), _schedule(2))
    weights = trainer.state.save_weights()
    bare = {n: v for n, v in trainer.state.variables.items()}
    bare = manager.save(str(tmp_path / "bare"), 5, bare)
    wanted = trainer.evaluate(_batches(data, seed=None))
    for checkpoint, step in ((weights, 2), (str(tmp_path / "model.ckpt-2.index"), 2), (bare, 0)):
        other = _trainer(tmp_path / "other", random_seed=4)
        other.state.ensure_loaded(checkpoint)
        found = other.evaluate(_batches(data, seed=None))
        assert found == pytest.approx({**wanted, "global_step": step}, abs=1e-6)


@pytest.mark.slow
def test_several_steps_in_one_call_equal_single_ones(data, tmp_path):
    for calls in (1, 3):
        trainer = _trainer(tmp_path / str(calls), save_checkpoints_steps=4, log_steps=100)
        trainer._steps_per_call = calls
        _train(trainer, _batches(data), _schedule(8))
        assert manager.listed(str(tmp_path / str(calls)))[1].endswith("-4")
    scripts.assert_same_checkpoints(*(tmp_path / name / "model.ckpt-8" for name in "13"))


def test_a_call_of_several_steps_ends_at_the_first_that_is_not_finite(data, tmp_path):
    trainer = _trainer(tmp_path, log_steps=100)
    trainer._steps_per_call = 10
    # The rate of step 3 is large enough to make the weights overflow.
    with pytest.raises(errors.UserError, match="step 3: not finite"):
        _train(trainer, _batches(data), _schedule(9, peak=1e38))
    assert trainer.step == 2


def _not_finite(trainer, step):
    """Makes the loss of a step NaN, as arithmetic that overflows does."""
    run = trainer.state.train_step.run

    def watch(iterator, count):
        if trainer.step == step - 1:
            outputs = run(iterator, tf.constant(0))
            return (*outputs[:3], tf.constant(1), outputs[4] * np.nan)
        return run(iterator, count)

    trainer.state.train_step.run = watch


def test_the_steps_before_a_loss_that_is_not_finite_are_saved(data, tmp_path):
    trainer = _trainer(tmp_path)
    trainer.prepare_training(_schedule(9), 8)
    _not_finite(trainer, 5)
    with pytest.raises(errors.UserError, match="step 5: not finite.*saved as .*ckpt-4$"):
        trainer.train(_batches(data))
    assert manager.read_state(manager.latest(str(tmp_path)))["examples_seen"] == 4 * 8
    _train(_trainer(tmp_path), _batches(data), _schedule(9))
    whole = _trainer(tmp_path / "whole")
    _train(whole, _batches(data), _schedule(9))
    runs = (path / "model.ckpt-9" for path in (tmp_path, tmp_path / "whole"))
    scripts.assert_same_checkpoints(*runs)


@pytest.mark.parametrize("bad", [np.nan, pytest.param(np.inf, marks=pytest.mark.slow)])
def test_weights_that_are_no_numbers_are_not_saved(data, tmp_path, bad):
    trainer = _trainer(tmp_path)
    trainer.prepare_training(_schedule(9), 8)
    advance = trainer._advance

    def spoil(*arguments):
        if trainer.step == 3:
            beta = trainer.state.variables["bert/embeddings/LayerNorm/beta"]
            beta.assign(tf.fill(beta.shape, bad))
        advance(*arguments)

    trainer._advance = spoil
    with pytest.raises(errors.UserError, match="not finite.*saved as .*ckpt-0$"):
        trainer.train(_batches(data))


def test_steps_before_an_evaluation_that_fails_are_saved(data, tmp_path):
    def evaluate():
        raise errors.UserError("dev.tfrecord: record 3: damaged")

    with pytest.raises(errors.UserError, match="record 3: damaged; .*saved as .*ckpt-2$"):
        _train(_trainer(tmp_path, eval_steps=2), _batches(data), _schedule(9), evaluate=evaluate)


def test_another_run_that_trained_meanwhile_is_gone_on_from(data, tmp_path):
    late = _trainer(tmp_path)
    late.prepare_training(_schedule(6), 8)
    _train(_trainer(tmp_path), _batches(data), _schedule(4))
    late.train(_batches(data))
    assert [path[-1] for path in manager.listed(str(tmp_path))] == ["0", "4", "6"]
    assert manager.read_state(str(tmp_path / "model.ckpt-6"))["examples_seen"] == 6 * 8


def test_another_run_that_finished_meanwhile_leaves_nothing_to_train(data, tmp_path, caplog):
    late = _trainer(tmp_path)
    late.prepare_training(_schedule(4), 8)
    _train(_trainer(tmp_path), _batches(data), _schedule(4))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    late.train(_batches(data))
    assert "nothing to train" in caplog.text and late.step == 4
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_a_signal_ends_an_evaluation_during_training(data, tmp_path):
    trainer = _trainer(tmp_path, eval_steps=2)

    def evaluate():
        signal.raise_signal(signal.SIGHUP)
        trainer.evaluate(_batches(data, 8, seed=None))
        raise AssertionError("the evaluation went on")

    with pytest.raises(errors.Stopped, match="1$"):
        _train(trainer, _batches(data), _schedule(9), evaluate=evaluate)
    assert manager.latest(str(tmp_path)) == str(tmp_path / "model.ckpt-2")
    asked = []
    _train(
        _trainer(tmp_path, eval_steps=2),
        _batches(data),
        _schedule(3),
        evaluate=lambda: asked.append(1) or {"loss": 1.0},
    )
    assert len(asked) == 2  # at steps 2, as it was stopped, and 3


@pytest.mark.parametrize("steps, log_steps, logged", [(10, 100, 10), (60, 100, 21), (60, 2, 31)])
def test_a_short_run_has_a_curve_too(data, tmp_path, steps, log_steps, logged):
    _train(_trainer(tmp_path, log_steps=log_steps), _batches(data, 1), _schedule(steps))
    assert len(_metrics(tmp_path)) == logged


def test_the_log_says_what_it_waits_for(data, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    _train(_trainer(tmp_path), _batches(data), _schedule(2))
    lines = [record.getMessage() for record in caplog.records]
    at = lines.index("building the first step, which takes longer than the others")
    assert lines[at + 1].startswith("step 1/2 ")


def test_evaluation_is_traced_once(data, tmp_path):
    trainer = _trainer(tmp_path)
    trainer.evaluate(_batches(data, 1, seed=None))
    assert trainer._evaluate_batch.experimental_get_tracing_count() == 1


@pytest.mark.slow
def test_figures_after_the_checkpoint_are_dropped_when_a_run_goes_on(data, tmp_path):
    _train(_trainer(tmp_path), _batches(data), _schedule(3))
    with open(tmp_path / "metrics.jsonl", "a") as file:  # as a run killed after step 5 leaves it
        file.write('{"step": 4, "loss": 1}\n{"step": 5, "lo')
    _train(_trainer(tmp_path), _batches(data), _schedule(6))
    assert [row["step"] for row in _metrics(tmp_path)] == [1, 2, 3, 4, 5, 6]


def test_left_to_right_objective_by_hand(data):
    config = dataclasses.replace(STILL, attention="left_to_right")
    task = objectives.LeftToRight(modeling.PretrainingModel(modeling.BertModel(config)))
    batch = next(iter(_batches(data, 9).dataset(tf.distribute.InputContext(1, 0, 1))))
    original = objectives.original_ids(batch).numpy()
    assert not (original == 4).any()  # no [MASK] is left
    mask = batch["input_mask"].numpy()
    for row, line in enumerate(original):  # the rule of the records: each token's successor
        words = line[mask[row] == 1]
        inner = words[1:-1][words[1:-1] != 3]
        assert (np.diff(inner) % (tiny.VOCAB - 5) <= 2).all()
    pairs = task.sums(batch, training=False)
    states = task.model.encoder(
        original, batch["input_mask"], batch["segment_ids"], training=False
    ).sequence_output
    loss = count = 0.0
    for row in range(9):
        length = int(mask[row].sum())
        scores = tf.nn.log_softmax(task.model.token_logits(states[row, : length - 1])).numpy()
        loss -= sum(scores[i, original[row, i + 1]] for i in range(length - 1))
        count += length - 1
    assert float(pairs["masked_lm_loss"][0]) == pytest.approx(loss, rel=1e-5)
    assert (
        float(pairs["masked_lm_loss"][1]) == count == float(task.weights(batch)["masked_lm_loss"])
    )


def test_objective_must_fit_the_attention_of_the_config():
    config = dataclasses.replace(CONFIG, attention="left_to_right")
    with pytest.raises(errors.FlagError, match="--objective=mlm does not fit"):
        objectives.create_objective("mlm", config)
