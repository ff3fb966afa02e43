"""The optimizer against hand-worked values, the published table and NumPy."""

import numpy as np
import pytest
import tensorflow as tf

import optimization


def _optimizer(values: dict[str, list[float]]):
    variables = {name: tf.Variable(value, name=name) for name, value in values.items()}
    return variables, optimization.AdamWeightDecay(variables)


def test_schedule_of_twenty_steps_with_four_of_warm_up():
    schedule = optimization.Schedule(5e-5, total_steps=20, warmup_steps=4)
    found = [float(schedule.rate(tf.constant(step, tf.int64))) for step in (*range(7), 19, 20, 25)]
    # At step 4 the rate is 4.0e-5, not 5e-5: decay has counted from step 0.
    wanted = [0, 1.25e-5, 2.5e-5, 3.75e-5, 4.0e-5, 3.75e-5, 3.5e-5, 0.25e-5, 0, 0]
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-12)


def test_schedule_without_warm_up_starts_at_the_peak():
    schedule = optimization.Schedule(0.1, total_steps=10)
    assert float(schedule.rate(tf.constant(0))) == pytest.approx(0.1)
    assert float(schedule.rate(tf.constant(5))) == pytest.approx(0.05)


def test_first_step_has_no_bias_correction():
    variables, optimizer = _optimizer({"bias": [0.0]})
    optimizer.apply([tf.constant([1.0])], tf.constant(0.1))
    step = 0.1 * (0.1 / (np.sqrt(0.001) + 1e-6))
    assert step == pytest.approx(0.31622, abs=1e-5)
    assert float(variables["bias"][0]) == pytest.approx(-step, rel=1e-6)


def test_first_step_with_decay():
    variables, optimizer = _optimizer({"kernel": [1.0]})
    optimizer.apply([tf.constant([0.5])], tf.constant(0.1))
    # u = 0.05 / (sqrt(0.00025) + 1e-6) + 0.01 = 3.17208
    assert float(variables["kernel"][0]) == pytest.approx(0.68279, abs=1e-5)


def test_which_names_are_decayed():
    decayed = ("output_weights", "bert/encoder/layer_0/output/dense/kernel", "word_embeddings")
    kept = ("a/LayerNorm/gamma", "a/LayerNorm/beta", "a/bias", "output_bias", "x/layer_norm/scale")
    assert all(map(optimization.is_decayed, decayed))
    assert not any(map(optimization.is_decayed, kept))
    variables, optimizer = _optimizer({name: [1.0] for name in (*decayed, *kept)})
    optimizer.apply([tf.zeros([1])] * len(variables), tf.constant(0.5))
    for name, variable in variables.items():
        wanted = 1 - 0.01 * 0.5 if name in decayed else 1.0
        assert float(variable[0]) == pytest.approx(wanted, abs=1e-7), name


def test_a_hundred_steps_in_lock_step_with_numpy():
    rng = np.random.default_rng(0)
    start = {"kernel": rng.normal(size=(5, 3)), "bias": rng.normal(size=3)}
    variables, optimizer = _optimizer({k: v.astype("float32") for k, v in start.items()})
    numbers = {name: value.copy() for name, value in start.items()}
    m = {name: np.zeros_like(value) for name, value in start.items()}
    v = {name: np.zeros_like(value) for name, value in start.items()}
    for step in range(100):
        gradients = {name: rng.normal(size=value.shape) * 3 for name, value in start.items()}
        rate = 0.01 * rng.random()
        norm = np.sqrt(sum((g**2).sum() for g in gradients.values()))
        clipped, found_norm = optimization.clip(
            [tf.constant(g, tf.float32) for g in gradients.values()]
        )
        optimizer.apply(clipped, tf.constant(rate, tf.float32))
        assert float(found_norm) == pytest.approx(norm, rel=1e-5)
        for name, gradient in gradients.items():
            gradient = gradient / max(norm, 1.0)
            m[name] = 0.9 * m[name] + 0.1 * gradient
            v[name] = 0.999 * v[name] + 0.001 * gradient**2
            update = m[name] / (np.sqrt(v[name]) + 1e-6)
            update += 0.01 * numbers[name] if name == "kernel" else 0
            numbers[name] = numbers[name] - rate * update
            np.testing.assert_allclose(
                variables[name], numbers[name], atol=2e-6, err_msg=f"step {step}"
            )
    slots = optimizer.slots()
    assert sorted(slots) == ["bias/adam_m", "bias/adam_v", "kernel/adam_m", "kernel/adam_v"]
    np.testing.assert_allclose(slots["kernel/adam_v"], v["kernel"], rtol=1e-4)


def test_it_minimises():
    target = tf.constant([0.4, 0.2, -0.5])
    variables, optimizer = _optimizer({"bias": [0.1, -0.2, -0.1]})
    for _ in range(100):
        with tf.GradientTape() as tape:
            loss = tf.reduce_mean(tf.square(target - variables["bias"]))
        gradients, _ = optimization.clip(tape.gradient(loss, [variables["bias"]]))
        optimizer.apply(gradients, tf.constant(0.2))
    np.testing.assert_allclose(variables["bias"], target, atol=1e-2)


def test_clipping():
    gradients = [tf.constant([3.0]), tf.constant([[4.0]])]
    clipped, norm = optimization.clip(gradients)
    assert float(norm) == 5
    np.testing.assert_allclose([clipped[0][0], clipped[1][0, 0]], [0.6, 0.8], rtol=1e-6)
    small, _ = optimization.clip([tf.constant([0.3])])
    assert float(small[0][0]) == pytest.approx(0.3)
    for bad in (np.nan, np.inf, 3e38):
        _, norm = optimization.clip([tf.constant([bad, bad]), tf.constant([1.0])])
        assert not np.isfinite(norm)


def test_loss_scale_halves_on_overflow_and_doubles_after_good_steps():
    scale = optimization.LossScale(initial=8.0, growth_interval=3)
    seen = []
    for finite in (True, True, True, True, False, True, True, False, False, False, False, False):
        scale.update(tf.constant(finite))
        seen.append(float(scale.scale.numpy()))
    assert seen == [8, 8, 16, 16, 8, 8, 8, 4, 2, 1, 1, 1]
    top = optimization.LossScale(initial=2.0**24, growth_interval=1)
    top.update(tf.constant(True))
    assert float(top.scale.numpy()) == 2.0**24
