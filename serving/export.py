"""Trained models → SavedModels, for TensorFlow Serving or any program with TensorFlow.

A SavedModel holds only operations of TensorFlow itself, so nothing else needs to be installed where
it is loaded. Its signatures:

  serving_default  input_ids, input_mask, segment_ids: int32 [B, F]
  int64            the same in int64, as a signature takes only one type
  from_text        classifiers: text_a: string [B]; text_b: string [B], or [1] for all; an empty
                   text_b, which is the default: no second text
  with_unique_ids  span models: serving_default with unique_ids, int32 [B], copied to the outputs

Each is also a function of the loaded model, as in ``loaded.from_text(["a text"])``. Batch size B
and length F are free, and padding does not change the results. Files that clients need, vocab.txt
and labels.txt, are in its ``assets/``.
"""

import contextlib
import logging
import os
import re
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import tensorflow as tf

from command_line import errors, options
from serving import graph_tokenizer
from system import atomic_files, inputs, temporaries

Outputs = dict[str, tf.Tensor]
Signatures = dict[str, tf.types.experimental.Callable]
_IDS = ("input_ids", "input_mask", "segment_ids")


def save_classifier(
    path: str,
    task: Any,
    labels: Sequence[str],
    text: options.TokenizerOptions,
    max_seq_length: int,
) -> None:
    """Writes a classifier with the signatures serving_default, int64 and from_text.

    The outputs are ``probabilities``, float32 [B, L], in the order of labels.txt, as in the lines
    of test_results.tsv, and ``labels``, string [B, L], the names of their columns. A regression
    returns its number as ``probabilities`` too, so that clients need not know the task, and as
    ``value``; both are [B, 1].

    Args:
      path: directory to write; an older SavedModel there is replaced.
      task: the trained model.
      labels: names of the outputs; empty for regression.
      text: vocabulary and tokenization rules of from_text.
      max_seq_length: from_text truncates longer inputs, as in training. The signatures of ids take
        any length that the model has positions for.

    Raises:
      errors.UserError: as ``save``; or the vocabulary cannot be read.
    """

    def outputs(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> Outputs:
        probabilities = task.probabilities(input_ids, input_mask, segment_ids)
        named = {"probabilities": probabilities}
        if not labels:
            return {**named, "value": probabilities}
        names = tf.tile([list(labels)], [tf.shape(probabilities)[0], 1])
        return {**named, "labels": names}

    tokenizer = graph_tokenizer.GraphTokenizer(text)
    signatures = {
        **ids_signatures(outputs, task.model.encoder.config.max_position_embeddings),
        "from_text": _text_signature(outputs, tokenizer, max_seq_length),
    }
    assets = {"vocab.txt": inputs.read_bytes(text.vocab_file)}
    if labels:
        assets["labels.txt"] = "".join(f"{label}\n" for label in labels).encode()
    save(path, [task, tokenizer], signatures, assets)


def save_span_model(path: str, task: Any, text: options.TokenizerOptions) -> None:
    """Writes a question-answering model: serving_default, int64 and with_unique_ids.

    The outputs are ``start_logits`` and ``end_logits``, float32 [B, F]. with_unique_ids is the
    serving input of the original release, which returns the number of each window with its logits.

    Args:
      path: directory to write; an older SavedModel there is replaced.
      task: the trained model.
      text: its vocabulary goes into the assets.

    Raises:
      errors.UserError: as ``save``.
    """
    signatures = ids_signatures(task.logits, task.model.encoder.config.max_position_embeddings)
    serve = signatures["serving_default"]
    specs = [tf.TensorSpec([None], tf.int32, "unique_ids")]
    specs += [tf.TensorSpec([None, None], tf.int32, name) for name in _IDS]

    @tf.function(input_signature=specs, autograph=False)
    def with_unique_ids(
        unique_ids: tf.Tensor, input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor
    ) -> Outputs:
        logits = serve(input_ids, input_mask, segment_ids)
        return {**logits, "unique_ids": tf.identity(unique_ids)}

    signatures["with_unique_ids"] = with_unique_ids
    save(path, [task], signatures, {"vocab.txt": inputs.read_bytes(text.vocab_file)})


def ids_signatures(function: Callable[..., Outputs], max_length: int) -> Signatures:
    """The signatures ``serving_default`` and ``int64`` of a function of ids.

    Args:
      function: input_ids, input_mask, segment_ids, int32 [B, F] each → outputs by name.
      max_length: the largest F for which the model has positions.
    """

    def signature(dtype: tf.DType) -> tf.types.experimental.Callable:
        specs = [tf.TensorSpec([None, None], dtype, name) for name in _IDS]

        @tf.function(input_signature=specs, autograph=False)
        def serve(input_ids: tf.Tensor, input_mask: tf.Tensor, segment_ids: tf.Tensor) -> Outputs:
            # Without this check a GPU would silently read zeros for positions beyond the table.
            fits = tf.debugging.assert_less_equal(
                tf.shape(input_ids)[1], max_length, f"the model takes at most {max_length} tokens"
            )
            with tf.control_dependencies([fits]):
                inputs = [tf.cast(x, tf.int32) for x in (input_ids, input_mask, segment_ids)]
            return function(*inputs)

        return serve

    return {"serving_default": signature(tf.int32), "int64": signature(tf.int64)}


def _text_signature(
    function: Callable[..., Outputs], tokenizer: graph_tokenizer.GraphTokenizer, max_seq_length: int
) -> tf.types.experimental.Callable:
    vocab = tokenizer.tokenizer.vocab
    cls_id, sep_id = vocab["[CLS]"], vocab["[SEP]"]
    specs = [tf.TensorSpec([None], tf.string, name) for name in ("text_a", "text_b")]
    no_text = tf.constant([""])

    @tf.function(input_signature=specs, autograph=False)
    def serve(text_a: tf.Tensor, text_b: tf.Tensor = no_text) -> Outputs:
        count_a, count_b = tf.size(text_a), tf.size(text_b)
        equal = tf.debugging.Assert(
            (count_a == count_b) | (count_b == 1),
            ["text_b must be as many as text_a, or one for all", count_a, count_b],
        )
        with tf.control_dependencies([equal]):
            text_b = tf.tile(text_b, [tf.where(count_b == count_a, 1, count_a)])
        ids_a, ids_b = tokenizer(text_a), tokenizer(text_b)
        return function(*graph_tokenizer.pack(ids_a, ids_b, cls_id, sep_id, max_seq_length))

    return serve


def save(
    path: str,
    modules: Sequence[Any],
    signatures: Mapping[str, tf.types.experimental.Callable],
    assets: Mapping[str, bytes],
) -> None:
    """Writes a SavedModel, either completely or not at all.

    Args:
      path: directory; an existing SavedModel is replaced once the new one is complete.
      modules: the tf.Modules that hold the variables of the signatures.
      signatures: name → tf.function with an input_signature and named outputs.
      assets: file name → contents; clients find them by ``loaded.assets[name].asset_path``.

    Raises:
      errors.UserError: ``path`` is not a SavedModel, or it cannot be written.
    """
    path = path.rstrip("/")
    check_place(path)
    new, old = path + temporaries.suffix(), f"{path}.tempstate-former"
    try:
        tf.io.gfile.makedirs(os.path.dirname(path) or ".")
        _remove_leftovers(path)
        _write(new, modules, signatures, assets)
        # A directory cannot be replaced in one step. If the process is killed between these two
        # renames, the former export is left under its temporary name.
        if tf.io.gfile.exists(path):
            tf.io.gfile.rename(path, old)
        tf.io.gfile.rename(new, path)
        _remove_leftovers(path)
    except (tf.errors.OpError, OSError) as error:
        reason = errors.reason(error)
        raise errors.UserError(
            f"--do_export: {path} cannot be written: {reason}; check its permissions and the disk "
            "space, then run with --do_export again"
        ) from None
    finally:
        if tf.io.gfile.exists(new):
            tf.io.gfile.rmtree(new)


def check_place(path: str) -> None:
    """Checks before any work that an export can be written there: only a SavedModel is replaced.

    Raises:
      errors.UserError: there is a file, or a directory that is not a SavedModel; or it would be
        inside of one, and replaced together with that.
    """
    parent = os.path.dirname(path.rstrip("/"))
    if tf.io.gfile.exists(os.path.join(parent, "saved_model.pb")):
        raise errors.UserError(
            f"--do_export: {parent} is a SavedModel, and {path} would be inside of it; move it away"
        )
    if not tf.io.gfile.exists(path):
        return
    if not tf.io.gfile.isdir(path):
        raise errors.UserError(f"--do_export: {path} is a file; expected a directory, move it away")
    names = tf.io.gfile.listdir(path)
    if names and "saved_model.pb" not in names:
        raise errors.UserError(
            f"--do_export: {path} holds {names[0]} and is not a SavedModel; move it away"
        )


def _write(
    path: str,
    modules: Sequence[Any],
    signatures: Mapping[str, tf.types.experimental.Callable],
    assets: Mapping[str, bytes],
) -> None:
    temporaries.remove_abandoned(tempfile.gettempdir(), "bert_export_\\w+")
    with tempfile.TemporaryDirectory(prefix="bert_export_", suffix=temporaries.suffix()) as folder:
        root = tf.Module()
        root.modules = list(modules)
        root.assets = {}
        for name, contents in assets.items():
            source = os.path.join(folder, name)
            with open(source, "wb") as file:
                file.write(contents)
            root.assets[name] = tf.saved_model.Asset(source)
        for name, function in signatures.items():  # in Python, only functions know defaults
            setattr(root, name, function)
        with _without_chatter(), _temporary_files_in(folder):
            tf.saved_model.save(root, path, signatures=dict(signatures))
    for directory, _, names in tf.io.gfile.walk(path):
        for name in names:
            atomic_files.sync(os.path.join(directory, name))


@contextlib.contextmanager
def _temporary_files_in(folder: str) -> Iterator[None]:
    """Keeps what AutoGraph writes for TensorFlow's own functions where the next run cleans up."""
    before, tempfile.tempdir = tempfile.tempdir, folder
    try:
        yield
    finally:
        tempfile.tempdir = before


@contextlib.contextmanager
def _without_chatter() -> Iterator[None]:
    """Hides the names that TensorFlow gives the inputs of a graph; errors are exceptions."""
    logger = logging.getLogger("absl")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        yield
    finally:
        logger.setLevel(level)


def _remove_leftovers(path: str) -> None:
    """Deletes the leftovers of killed exports; the former export only if there is a new one."""
    directory, base = os.path.split(path)
    temporary = re.compile(re.escape(base) + r"\.tempstate(?:\w+|-former)/?")
    for name in tf.io.gfile.listdir(directory or "."):
        is_former = name.rstrip("/") == f"{base}.tempstate-former"
        is_only_copy = is_former and not tf.io.gfile.exists(path)
        if temporary.fullmatch(name) and not is_only_copy:
            tf.io.gfile.rmtree(os.path.join(directory, name))
