"""bert_config.json and Hugging Face's config.json: reading, and what their keys mean here.

Needs no TensorFlow for local files.
"""

import logging
import os
from collections.abc import Mapping
from typing import Any

from command_line import errors
from system import inputs, json_files

_log = logging.getLogger(__name__)

NAMES = ("bert_config.json", "config.json")

# Keys that every config of Hugging Face has one of, and none of the original release.
_HUGGING_FACE_KEYS = ("architectures", "model_type", "transformers_version")

# Keys that ask for another computation, with the values under which they do not.
_COMPUTED = {
    "position_embedding_type": "absolute",
    "is_decoder": False,
    "add_cross_attention": False,
    "pruned_heads": {},
    "num_hidden_groups": None,
}

# Keys that do not change what is computed from a text.
_HARMLESS = {
    *_HUGGING_FACE_KEYS, "_attn_implementation", "_name_or_path", "_num_labels",
    "attn_implementation", "bos_token_id", "chunk_size_feed_forward", "cls_token_id",
    "directionality", "dtype", "embedding_size", "eos_token_id", "finetuning_task",
    "gradient_checkpointing", "id2label", "label2id", "language", "mask_token_id", "name",
    "num_labels", "output_attentions", "output_hidden_states", "output_past", "pad_token_id",
    "pooler_fc_size", "pooler_num_attention_heads", "pooler_num_fc_layers",
    "pooler_size_per_head", "pooler_type", "problem_type", "return_dict", "sep_token_id",
    "tie_word_embeddings", "tokenizer_class", "torch_dtype", "torchscript", "use_cache",
    "xla_device",
}  # fmt: skip


def read(path: str) -> dict[str, Any]:
    """Reads a config file.

    Raises:
      errors.UserError: there is no such file, or it is not a JSON object.
    """
    values = json_files.read_object(path)
    if values is not None:
        return values
    if not inputs.is_directory(path):
        raise errors.UserError(f"{path}: cannot be read: no such file")
    inside = [os.path.join(path, name) for name in NAMES]
    found = [file for file in inside if inputs.is_file(file)]
    raise errors.UserError(
        f"{path}: cannot be read: it is a directory; give {(found or inside)[0]}"
    )


def is_hugging_face(values: Mapping[str, Any]) -> bool:
    """Whether a config was written by Hugging Face's library."""
    return any(key in values for key in _HUGGING_FACE_KEYS)


def hidden_act(values: Mapping[str, Any]) -> Any:
    """The activation under the name that it has here: Hugging Face's "gelu" is "gelu_erf"."""
    name = values.get("hidden_act")
    is_erf = is_hugging_face(values) and isinstance(name, str) and name.lower() == "gelu"
    return "gelu_erf" if is_erf else name


def label_names(values: Mapping[str, Any]) -> list[str]:
    """The names of a head's outputs, in their order (id2label); empty if they are not told.

    LABEL_0, LABEL_1 and so on are what the library writes when nobody gave names.
    """
    names = values.get("id2label")
    if not isinstance(names, Mapping) or set(names) != set(map(str, range(len(names)))):
        return []
    ordered = [str(names[str(index)]) for index in range(len(names))]
    return [] if ordered == [f"LABEL_{index}" for index in range(len(names))] else ordered


def check_unused_keys(values: Mapping[str, Any], used: set[str]) -> None:
    """Names keys of a config that the model does not know, unless they are harmless.

    Args:
      values: of the file.
      used: keys that the model knows.

    Raises:
      errors.UserError: a key asks for something that this model does not compute.
    """
    for key, usual in _COMPUTED.items():
        value = values.get(key)
        if value is not None and value != usual:
            expected = "no such key" if usual is None else f"{usual!r}"
            raise errors.UserError(
                f"{key} is {value!r}, which this model does not compute; expected {expected}"
            )
    width, hidden = values.get("embedding_size"), values.get("hidden_size")
    if width is not None and width != hidden:
        raise errors.UserError(
            f"embedding_size {width!r} differs from hidden_size {hidden!r}, which this model does "
            "not compute"
        )
    family = values.get("model_type")
    if family is not None and family != "bert":
        _log.warning("bert config: model_type is %s; it is taken for a BERT", family)
    known = used | _HARMLESS | _COMPUTED.keys()
    unknown = [key for key, value in values.items() if key not in known and value is not None]
    if unknown:
        _log.warning("bert config: keys not used by the model: %s", ", ".join(sorted(unknown)))
