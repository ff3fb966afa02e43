"""Weights of a Hugging Face BERT: its names and layout in a ``.safetensors`` file, and ours.

A kernel is stored ``[out, in]`` there and ``[in, out]`` here; everything else has the same layout.
An encoder saved alone (BertModel) has the same names without the leading ``bert.``.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np

from command_line import errors

# There -> here; # stands for the number of a layer. Dense layers have a weight (kernel) and a bias,
# norms a weight (gamma) and a bias (beta), which old files call gamma and beta too.
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
    # The same vector once more; the only one in some files.
    "cls.predictions.decoder.bias": "cls/predictions/output_bias",
}
_NAMES = (
    {f"{there}.weight": f"{here}/kernel" for there, here in _DENSE.items()}
    | {f"{there}.bias": f"{here}/bias" for there, here in _DENSE.items()}
    | {f"{there}.weight": f"{here}/gamma" for there, here in _NORMS.items()}
    | {f"{there}.bias": f"{here}/beta" for there, here in _NORMS.items()}
    | {f"{there}.gamma": f"{here}/gamma" for there, here in _NORMS.items()}
    | {f"{there}.beta": f"{here}/beta" for there, here in _NORMS.items()}
    | _OTHERS
)
_BACK: dict[str, str] = {}
for _there, _here in _NAMES.items():
    _BACK.setdefault(_here, _there)  # the first is the current name

_DECODER = "cls.predictions.decoder.weight"
_FLOATS = ("F64", "F32", "F16", "BF16")


def our_name(name: str) -> str | None:
    """The checkpoint name for a Hugging Face name, None for one that is not standard."""
    number = re.search(r"encoder\.layer\.(\d+)\.", name)
    general = re.sub(r"encoder\.layer\.\d+\.", "encoder.layer.#.", name.removeprefix("bert."))
    here = _NAMES.get(general)
    return here.replace("#", number[1]) if here and number else here


class HuggingFaceWeights:
    """A ``.safetensors`` file of a Hugging Face BERT, seen under checkpoint names.

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
        self._local = self._fetch()
        self._there: dict[str, str] = {}
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.dtypes: dict[str, np.dtype] = {}
        ignored = []
        with self._open() as file:
            for name in sorted(file.keys()):
                here = our_name(name)
                if here is None or here in self._there:
                    ignored.append(name)
                    continue
                part = file.get_slice(name)
                if part.get_dtype() not in _FLOATS:
                    raise errors.UserError(
                        f"{path}: {name} has type {part.get_dtype()}, expected one of "
                        f"{', '.join(_FLOATS)}; take the file that is not quantized"
                    )
                shape = tuple(part.get_shape())
                self._there[here] = name
                self.shapes[here] = shape[::-1] if here.endswith("/kernel") else shape
                self.dtypes[here] = np.dtype("f8" if part.get_dtype() == "F64" else "f4")
        self._decoder = next((name for name in ignored if name == _DECODER), None)
        self.ignored = tuple(name for name in ignored if our_name(name) is None)

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
                value = file.get_tensor(self._there[name]).astype(self.dtypes[name])
                values[name] = np.ascontiguousarray(value.T) if name.endswith("/kernel") else value
            if self._decoder and "cls/predictions/output_bias" in values:
                self._check_tied(file)
        return values

    def _check_tied(self, file: Any) -> None:
        words = self._there.get("bert/embeddings/word_embeddings")
        if words and not np.array_equal(file.get_tensor(self._decoder), file.get_tensor(words)):
            raise errors.UserError(
                f"{self.path}: {self._decoder} differs from {words}; the masked-LM head here "
                "shares the word embeddings, so this one cannot be loaded"
            )

    def _fetch(self) -> str:
        """The library maps local files only."""
        if "://" not in self.path:
            return self.path
        import tensorflow as tf

        folder = tempfile.mkdtemp()
        weakref.finalize(self, shutil.rmtree, folder)
        local = os.path.join(folder, "model.safetensors")
        tf.io.gfile.copy(self.path, local)
        return local

    def _open(self) -> Any:
        library = _library()
        try:
            return library.safe_open(self._local, "numpy")
        except library.SafetensorError as error:
            raise errors.UserError(
                f"{self.path}: damaged, or not a safetensors file: {error}"
            ) from None


def _library() -> Any:
    try:
        import ml_dtypes  # noqa: F401 - teaches NumPy bfloat16
        import safetensors
    except ImportError as error:
        raise errors.UserError(
            f"{error.name} is not installed; .safetensors files need it: pip install {error.name}"
        ) from None
    return safetensors
