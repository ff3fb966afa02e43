"""Trained models → SavedModels, for TensorFlow Serving or any program with TensorFlow.

A SavedModel holds only operations of TensorFlow itself, so nothing else needs to be installed where
it is loaded. Its signatures:

  serving_default  input_ids, input_mask, segment_ids: int32 [B, F]
  int64            the same in int64; a signature takes one type only
  from_text        text_a, text_b: string [B]; an empty text_b says that there is no second text

Batch size B and length F are free, padding changes nothing. Files for people and programs around
the model, such as vocab.txt and labels.txt, lie in its ``assets/``.
"""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf

from checkpoints import tf_checkpoint
from command_line import errors, options
from serving import graph_tokenizer
from system import atomic_files

Outputs = dict[str, tf.Tensor]


def save_classifier(
    path: str,
    task: Any,
    labels: Sequence[str],
    text: options.TokenizerOptions,
    max_seq_length: int,
) -> None:
    """Writes a classifier with all three signatures.

    The output is ``probabilities``, float32 [B, L], in the order of labels.txt: what the lines of
    test_results.tsv hold. A regression has the number under that name too, so that clients need not
    tell tasks apart, and as ``value``; both are [B, 1].

    Args:
      path: directory to write; an older SavedModel there is replaced.
      task: the trained model.
      labels: names of the outputs; none for regression.
      text: vocabulary and rules of from_text.
      max_seq_length: from_text cuts longer inputs, as in training. The signatures of ids take any
        length that the model has positions for.

    Raises:
      errors.UserError: as ``save``; or the vocabulary cannot be read.
    """

    def outputs(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> Outputs:
        found = {"probabilities": task.probabilities(input_ids, input_mask, segment_ids)}
        return found if labels else {**found, "value": found["probabilities"]}

    tokenizer = graph_tokenizer.GraphTokenizer(text)
    signatures = {
        **ids_signatures(outputs, task.model.encoder.config.max_position_embeddings),
        "from_text": _text_signature(outputs, tokenizer, max_seq_length),
    }
    with tf.io.gfile.GFile(text.vocab_file, "rb") as file:
        assets = {"vocab.txt": file.read()}
    if labels:
        assets["labels.txt"] = "".join(f"{label}\n" for label in labels).encode()
    save(path, [task, tokenizer], signatures, assets)


def save_span_model(path: str, task: Any, text: options.TokenizerOptions) -> None:
    """Writes a model of start and end logits: signatures of ids, and one that keeps unique_ids."""
    longest = task.model.encoder.config.max_position_embeddings
    signatures = ids_signatures(task.logits, longest)
    plain = signatures["serving_default"]
    specs = [
        tf.TensorSpec([None], tf.int32, "unique_ids"),
        *(
            tf.TensorSpec([None, None], tf.int32, name)
            for name in ("input_ids", "input_mask", "segment_ids")
        ),
    ]

    @tf.function(input_signature=specs, autograph=False)
    def with_unique_ids(
        unique_ids: tf.Tensor, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> Outputs:
        return {
            **plain(input_ids, input_mask, segment_ids),
            "unique_ids": tf.identity(unique_ids),
        }

    with tf.io.gfile.GFile(text.vocab_file, "rb") as file:
        assets = {"vocab.txt": file.read()}
    save(path, [task], {**signatures, "with_unique_ids": with_unique_ids}, assets)


def ids_signatures(
    function: Callable[..., Outputs], longest: int
) -> dict[str, tf.types.experimental.Callable]:
    """The signatures ``serving_default`` and ``int64`` of a function of ids.

    Args:
      function: input_ids, input_mask, segment_ids, int32 [B, F] each → outputs by name.
      longest: the most F for which the model has positions.
    """

    def signature(dtype: tf.DType) -> tf.types.experimental.Callable:
        names = ("input_ids", "input_mask", "segment_ids")
        specs = [tf.TensorSpec([None, None], dtype, name) for name in names]

        @tf.function(input_signature=specs, autograph=False)
        def serve(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> Outputs:
            # Said here, because a GPU would read zeros for positions that there are not.
            fits = tf.debugging.assert_less_equal(
                tf.shape(input_ids)[1], longest, f"the model takes at most {longest} tokens"
            )
            with tf.control_dependencies([fits]):
                inputs = [tf.cast(x, tf.int32) for x in (input_ids, input_mask, segment_ids)]
            return function(*inputs)

        return serve

    return {"serving_default": signature(tf.int32), "int64": signature(tf.int64)}


def _text_signature(
    function: Callable[..., Outputs],
    tokenizer: graph_tokenizer.GraphTokenizer,
    max_seq_length: int,
) -> tf.types.experimental.Callable:
    vocab = tokenizer.tokenizer.vocab
    cls_id, sep_id = vocab["[CLS]"], vocab["[SEP]"]
    specs = [tf.TensorSpec([None], tf.string, name) for name in ("text_a", "text_b")]

    @tf.function(input_signature=specs)
    def serve(text_a: tf.Tensor, text_b: tf.Tensor) -> Outputs:
        same = tf.debugging.assert_equal(
            tf.size(text_a), tf.size(text_b), "text_a and text_b must be equally many"
        )
        with tf.control_dependencies([same]):
            ids_a = tokenizer(text_a)
        packed = graph_tokenizer.pack(ids_a, tokenizer(text_b), cls_id, sep_id, max_seq_length)
        return function(*packed)

    return serve


def save(
    path: str,
    modules: Sequence[Any],
    signatures: Mapping[str, tf.types.experimental.Callable],
    assets: Mapping[str, bytes],
) -> None:
    """Writes a SavedModel, which appears whole or not at all.

    Args:
      path: directory; a SavedModel that stands there is replaced when the new one is whole.
      modules: the tf.Modules that hold the variables the signatures use.
      signatures: name → tf.function with an input_signature, whose outputs have names.
      assets: file name → contents; ``loaded.assets[name].asset_path`` finds them.

    Raises:
      errors.UserError: something else stands at ``path``, or it cannot be written.
    """
    path = path.rstrip("/")
    check_place(path)
    new, old = f"{path}.tempstate{os.getpid()}", f"{path}.tempstate-former"
    try:
        _remove_leftovers(path)
        _write(new, modules, signatures, assets)
        # A directory cannot be replaced in one move. Whoever is killed between these two finds the
        # former export under its other name.
        if tf.io.gfile.exists(path):
            tf.io.gfile.rename(path, old)
        tf.io.gfile.rename(new, path)
        _remove_leftovers(path)
    except (tf.errors.OpError, OSError) as error:
        reason = tf_checkpoint.reason(error)
        raise errors.UserError(
            f"--do_export: {path} cannot be written: {reason}; free the place or its rights and "
            "run with --do_export again"
        ) from None
    finally:
        if tf.io.gfile.exists(new):
            tf.io.gfile.rmtree(new)


def check_place(path: str) -> None:
    """Finds out, before any work, whether an export may go there: only a SavedModel is replaced.

    Raises:
      errors.UserError: a file, or a directory of something else.
    """
    if not tf.io.gfile.exists(path):
        return
    if not tf.io.gfile.isdir(path):
        raise errors.UserError(f"--do_export: {path} is a file; a directory goes there, move it")
    names = tf.io.gfile.listdir(path)
    if names and "saved_model.pb" not in names:
        raise errors.UserError(
            f"--do_export: {path} holds {names[0]} and is no SavedModel; move it out of the way"
        )


def _write(
    path: str,
    modules: Sequence[Any],
    signatures: Mapping[str, tf.types.experimental.Callable],
    assets: Mapping[str, bytes],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = tf.Module()
        root.modules = list(modules)
        root.assets = {}
        for name, contents in assets.items():
            source = os.path.join(folder, name)
            with open(source, "wb") as file:
                file.write(contents)
            root.assets[name] = tf.saved_model.Asset(source)
        tf.saved_model.save(root, path, signatures=dict(signatures))
    for directory, _, names in tf.io.gfile.walk(path):
        for name in names:
            atomic_files.sync(os.path.join(directory, name))


def _remove_leftovers(path: str) -> None:
    """Deletes what killed exports left, and the former export once there is a new one."""
    directory, base = os.path.split(path)
    ours = re.compile(re.escape(base) + r"\.tempstate(?:\d+|-former)/?")
    for name in tf.io.gfile.listdir(directory or "."):
        is_spare = name.rstrip("/") == f"{base}.tempstate-former" and not tf.io.gfile.exists(path)
        if ours.fullmatch(name) and not is_spare:
            tf.io.gfile.rmtree(os.path.join(directory, name))
