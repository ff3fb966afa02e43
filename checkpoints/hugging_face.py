"""Weights of a Hugging Face BERT: names and layout in its ``.safetensors`` file and in checkpoints.

A kernel is ``[out, in]`` in the file and ``[in, out]`` in a checkpoint; all other layouts agree.
An encoder saved alone (BertModel) has the same names without the leading ``bert.``.
"""

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from command_line import errors

# Hugging Face name -> checkpoint name; # is the number of a layer. Dense layers have a weight
# (kernel) and a bias, norms a weight (gamma) and a bias (beta), called gamma and beta in old files.
_DENSE = {
    "encoder.layer.#.attention.self.query": "bert/encoder/layer_#/attention/self/query",
    "encoder.layer.#.attention.self.key": "bert/encoder/layer_#/attention/self/key",
    "encoder.layer.#.attention.self.value": "bert/encoder/layer_#/attention/self/value",
    "encoder.layer.#.attention.output.dense": "bert/encoder/layer_#/attention/output/dense",
    "encoder.layer.#.intermediate.dense": "bert/encoder/layer_#/intermediate/dense",
    "encoder.layer.#.output.dense": "bert/encoder/layer_#/output/dense",
    "pooler.dense": "bert/pooler/dense",
    "cls.predictions.transform.dense": "cls/predictions/transform/dense",
}
_NORMS = {
    "embeddings.LayerNorm": "bert/embeddings/LayerNorm",
    "encoder.layer.#.attention.output.LayerNorm": (
        "bert/encoder/layer_#/attention/output/LayerNorm"
    ),
    "encoder.layer.#.output.LayerNorm": "bert/encoder/layer_#/output/LayerNorm",
    "cls.predictions.transform.LayerNorm": "cls/predictions/transform/LayerNorm",
}
_OTHERS = {
    "embeddings.word_embeddings.weight": "bert/embeddings/word_embeddings",
    "embeddings.position_embeddings.weight": "bert/embeddings/position_embeddings",
    "embeddings.token_type_embeddings.weight": "bert/embeddings/token_type_embeddings",
    "cls.predictions.bias": "cls/predictions/output_bias",
    "cls.seq_relationship.weight": "cls/seq_relationship/output_weights",
    "cls.seq_relationship.bias": "cls/seq_relationship/output_bias",
    "classifier.weight": "output_weights",
    "classifier.bias": "output_bias",
    "qa_outputs.weight": "cls/squad/output_weights",
    "qa_outputs.bias": "cls/squad/output_bias",
    # The same vector again; some files have only this one.
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}
_CHECKPOINT_NAMES = (
    {f"{name}.weight": f"{ours}/kernel" for name, ours in _DENSE.items()}
    | {f"{name}.bias": f"{ours}/bias" for name, ours in _DENSE.items()}
    | {f"{name}.weight": f"{ours}/gamma" for name, ours in _NORMS.items()}
    | {f"{name}.bias": f"{ours}/beta" for name, ours in _NORMS.items()}
    | {f"{name}.gamma": f"{ours}/gamma" for name, ours in _NORMS.items()}
    | {f"{name}.beta": f"{ours}/beta" for name, ours in _NORMS.items()}
    | _OTHERS
)
_DECODER = "cls.predictions.decoder.weight"
_FLOATS = ("F64", "F32", "F16", "BF16")


def checkpoint_name(name: str) -> str | None:
    """The checkpoint name for a Hugging Face name, None for one that is not standard."""
    number = re.search(r"encoder\.layer\.(\d+)\.", name)
    general = re.sub(r"encoder\.layer\.\d+\.", "encoder.layer.#.", name.removeprefix("bert."))
    ours = _CHECKPOINT_NAMES.get(general)
    return ours.replace("#", number[1]) if ours and number else ours


class HuggingFaceWeights:
    """A ``.safetensors`` file of a Hugging Face BERT, read under checkpoint names.

    Attributes:
      path: the file.
      shapes: checkpoint name -> shape, kernels as ``[in, out]``.
      dtypes: checkpoint name -> float32, or float64 where the file has that.
      ignored: names of the file that are not standard names of a BERT.
    """

    def __init__(self, path: str) -> None:
        """Reads the header.

        Raises:
          errors.UserError: damaged file, or weights that are not floating point (quantized).
        """
        self.path = path
        self._local_path = self._download()
        self._file_names: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype] = {}
        ignored = []
        with self._open() as file:
            for name in sorted(file.keys()):
                ours = checkpoint_name(name)
                if ours is None or ours in self._file_names:
                    ignored.append(name)
                    continue
                tensor = file.get_slice(name)
                if tensor.get_dtype() not in _FLOATS:
                    raise errors.UserError(
                        f"{path}: {name} has type {tensor.get_dtype()}, expected one of "
                        f"{', '.join(_FLOATS)}; take the file that is not quantized"
                    )
                shape = tuple(tensor.get_shape())
                self._file_names[ours] = name
                self.shapes[ours] = shape[::-1] if ours.endswith("/kernel") else shape
                self.dtypes[ours] = np.dtype("f8" if tensor.get_dtype() == "F64" else "f4")
        self._decoder = next((name for name in ignored if name == _DECODER), None)
        self.ignored = tuple(name for name in ignored if checkpoint_name(name) is None)

    def read(self, names: Iterable[str]) -> dict[str, np.ndarray]:
        """Values by checkpoint name, kernels as ``[in, out]``; half precision becomes float32.

        Raises:
          KeyError: a name that is not in ``shapes``.
          errors.UserError: damaged file; or the masked-LM head is read and its output matrix is not
            the word embedding table.
        """
        values = {}
        with self._open() as file:
            for name in names:
                value = file.get_tensor(self._file_names[name]).astype(self.dtypes[name])
                values[name] = np.ascontiguousarray(value.T) if name.endswith("/kernel") else value
            if self._decoder and "cls/predictions/output_bias" in values:
                self._check_tied(file)
        return values

    def _check_tied(self, file: Any) -> None:
        words = self._file_names.get("bert/embeddings/word_embeddings")
        if words and not np.array_equal(file.get_tensor(self._decoder), file.get_tensor(words)):
            raise errors.UserError(
                f"{self.path}: {self._decoder} differs from {words}; the masked-LM head "
                "shares the word embeddings, so this file cannot be loaded"
            )

    def _download(self) -> str:
        """A local path of the file: the library maps local files only."""
        if "://" not in self.path:
            return self.path
        import tensorflow as tf

        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        local = os.path.join(folder, "model.safetensors")
        tf.io.gfile.copy(self.path, local)
        return local

    def _open(self) -> Any:
        library = _import_library()
        try:
            return library.safe_open(self._local_path, "numpy")
        except library.SafetensorError as error:
            raise errors.UserError(
                f"{self.path}: damaged, or not a safetensors file: {error}"
            ) from None


def _import_library() -> Any:
    try:
        import ml_dtypes  # noqa: F401 - teaches NumPy bfloat16
        import safetensors
    except ImportError as error:
        raise errors.UserError(
            f"{error.name} is not installed; .safetensors files need it: pip install {error.name}"
        ) from None
    return safetensors
