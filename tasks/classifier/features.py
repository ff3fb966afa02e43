"""Features of a sentence classifier: [CLS] A [SEP], or [CLS] A [SEP] B [SEP]."""

import array
import logging
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np

import tokenization
from command_line import errors
from tasks.classifier import examples as task_examples
from tasks.classifier import options as classifier_options
from training import ragged

_log = logging.getLogger(__name__)

_PROGRESS_ROWS = 10_000


class Features(NamedTuple):
    """N examples in memory, without padding.

    Attributes:
      input_ids: int32, N rows of at most max_seq_length.
      segment_ids: int32, of the same lengths: 0 through the first [SEP], then 1.
      label_ids: int32 [N]; float32 [N] for regression; float32 [N, L], 0 or 1, for multi_label.
        All 0 if the labels are ignored.
    """

    input_ids: ragged.Ragged
    segment_ids: ragged.Ragged
    label_ids: np.ndarray


def encode(
    examples: Sequence[task_examples.InputExample],
    labels: Sequence[str],
    options: classifier_options.ClassifierOptions,
    tokenizer: tokenization.FullTokenizer,
    kind: str = task_examples.CLASSIFICATION,
    *,
    labelled: bool = True,
) -> Features:
    """Makes the features of a set, in its order.

    Args:
      examples: N of them.
      labels: in the order of the model's outputs; unused for regression.
      options: max_seq_length, to which longer examples are truncated by ``cut`` and counted in a
        warning, and log_examples.
      tokenizer: of the model.
      kind: "classification", "regression" or "multi_label".
      labelled: False: labels are ignored, and all label ids are 0. For prediction, where processors
        may set any dummy label.

    Raises:
      errors.UserError: a text is missing; a label is missing, not in ``labels`` or not a number.
    """
    label_ids = _label_ids(examples, labels, kind, labelled)
    ids = array.array("i")
    lengths = np.zeros([len(examples), 2], np.int64)  # of segments 0 and 1
    num_cut = 0
    for index, example in enumerate(examples):
        if index and index % _PROGRESS_ROWS == 0:
            _log.info("encoded %d of %d examples", index, len(examples))
        row, boundary, was_cut = _encode_example(example, options.max_seq_length, tokenizer)
        ids.fromlist(row)
        lengths[index] = boundary, len(row) - boundary
        num_cut += was_cut
        if index < options.log_examples:
            _log_example(example, row, boundary, tokenizer)
            if labelled:
                _log.info("label: %s (id = %s)", example.label, label_ids[index])
    if num_cut:
        warning = "%d of %d examples were cut to --max_seq_length=%d"
        _log.warning(warning, num_cut, len(examples), options.max_seq_length)
    offsets = np.concatenate([[0], np.cumsum(lengths.sum(1))])
    segments = np.repeat(np.tile(np.array([0, 1], np.int32), len(examples)), lengths.reshape(-1))
    values = np.array(ids, np.int32)
    name = examples[0].guid if examples else ""
    source = f"{len(examples)} examples, {name} and so on"
    tokenizer.warn_about_unknown(source, np.bincount(values))
    return Features(ragged.Ragged(values, offsets), ragged.Ragged(segments, offsets), label_ids)


def check(
    examples: Sequence[task_examples.InputExample],
    labels: Sequence[str],
    kind: str = task_examples.CLASSIFICATION,
    *,
    labelled: bool = True,
) -> None:
    """Raises the errors that ``encode`` would raise, without encoding; same arguments."""
    for example in examples:
        _check_texts(example)
    _label_ids(examples, labels, kind, labelled)


def _check_texts(example: task_examples.InputExample) -> None:
    for text in (example.text_a, example.text_b or ""):
        if not isinstance(text, str | bytes):
            raise errors.UserError(
                f"example {example.guid}: {type(text).__name__} {text!r} where a text was expected"
            )


def _encode_example(
    example: task_examples.InputExample,
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> tuple[list[int], int, bool]:
    """The ids of an example, the length of segment 0, and whether tokens were cut off."""
    _check_texts(example)
    ids_a = tokenizer.encode(example.text_a)
    ids_b = tokenizer.encode(example.text_b) if example.text_b else []
    kept_a, kept_b = cut(len(ids_a), len(ids_b), max_seq_length)
    was_cut = kept_a + kept_b < len(ids_a) + len(ids_b)
    sep_id = tokenizer.vocab["[SEP]"]
    row = [tokenizer.vocab["[CLS]"], *ids_a[:kept_a], sep_id]
    if ids_b:
        row += [*ids_b[:kept_b], sep_id]
    return row, kept_a + 2, was_cut


def cut(length_a: int, length_b: int, max_seq_length: int) -> tuple[int, int]:
    """How many tokens of A and of B remain beside [CLS] and one [SEP] after each text.

    Returns:
      Numbers of tokens; e.g. 9 and 3 at length 10: 4 and 3.

    Raises:
      errors.FlagError: there is no room for the special tokens.
    """
    if max_seq_length < 3:
        raise errors.FlagError(
            f"--max_seq_length={max_seq_length}: expected at least 3, for [CLS] and two [SEP]"
        )
    return _cut_pair(length_a, length_b, max_seq_length - (3 if length_b else 2))


def _cut_pair(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    """Lengths after dropping tokens one by one, from the longer text, or from B if they are equal.

    While both are long they shrink together, to half the room each; A gets the larger half.
    """
    kept_a = min(length_a, max(room - length_b, (room + 1) // 2))
    return kept_a, min(length_b, room - kept_a)


def _truncate_seq_pair(tokens_a: list[Any], tokens_b: list[Any], max_length: int) -> None:
    """Truncates a pair of token lists in place to a total length, as the original release does."""
    kept_a, kept_b = _cut_pair(len(tokens_a), len(tokens_b), max_length)
    del tokens_a[kept_a:], tokens_b[kept_b:]


def _label_ids(
    examples: Sequence[task_examples.InputExample],
    labels: Sequence[str],
    kind: str,
    labelled: bool = True,
) -> np.ndarray:
    """As ``Features.label_ids``; all 0 unless ``labelled``."""
    shape = [len(examples), len(labels)] if kind == task_examples.MULTI_LABEL else [len(examples)]
    dtype = np.int32 if kind == task_examples.CLASSIFICATION else np.float32
    label_ids = np.zeros(shape, dtype)
    # Compared as text, so that the labels of a task may be numbers.
    ids = {str(label): index for index, label in enumerate(labels)}
    for index, example in enumerate(examples if labelled else ()):
        if example.label is None:
            raise errors.UserError(
                f"example {example.guid} has no label; only test sets may have none"
            )
        if kind == task_examples.REGRESSION:
            label_ids[index] = _regression_value(example)
        elif kind == task_examples.MULTI_LABEL:
            for label in _label_set(example):
                label_ids[index, _label_id(ids, label, example)] = 1
        else:
            label_ids[index] = _label_id(ids, example.label, example)
    return label_ids


def _label_id(ids: dict[str, int], label: object, example: task_examples.InputExample) -> int:
    if str(label) not in ids:
        raise errors.UserError(
            f"example {example.guid}: label {label!r} is not one of "
            f"{', '.join(map(repr, list(ids)[:10]))}; does get_labels() of the task name it?"
        )
    return ids[str(label)]


def _label_set(example: task_examples.InputExample) -> Collection[object]:
    # A string is a collection too, and its letters may be labels.
    if isinstance(example.label, str | bytes) or not isinstance(example.label, Collection):
        raise errors.UserError(
            f"example {example.guid}: label {example.label!r} of a multi_label task; expected a "
            "list of labels"
        )
    return example.label


def _regression_value(example: task_examples.InputExample) -> float:
    try:
        return task_examples.regression_value(example.label)
    except ValueError as error:
        raise errors.UserError(f"example {example.guid}: {error}") from None


def _log_example(
    example: task_examples.InputExample,
    ids: Sequence[int],
    boundary: int,
    tokenizer: tokenization.FullTokenizer,
) -> None:
    """Logs the features of an example without padding; ``boundary`` ends segment 0."""
    rows = _padded(ids, boundary, len(ids))
    _log.info("*** Example ***")
    _log.info("guid: %s", example.guid)
    _log.info("tokens: %s", " ".join(tokenizer.convert_ids_to_tokens(ids)))
    for name, row in zip(("input_ids", "input_mask", "segment_ids"), rows, strict=True):
        _log.info("%s: %s", name, " ".join(map(str, row)))


def _padded(
    ids: Sequence[int], boundary: int, max_seq_length: int
) -> tuple[list[int], list[int], list[int]]:
    """Ids, mask and segments, padded with zeros."""
    padding = [0] * (max_seq_length - len(ids))
    mask = [1] * len(ids)
    segments = [0] * boundary + [1] * (len(ids) - boundary)
    return [*ids, *padding], mask + padding, segments + padding


def convert_single_example(
    ex_index: int,
    example: task_examples.InputExample | task_examples.PaddingInputExample,
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> task_examples.InputFeatures:
    """The padded features of one example of classification; the first five are logged.

    Args:
      ex_index: its index in the set.
      example: its label id is 0 if its label is None; a PaddingInputExample gives zeros.
      label_list: in the order of the model's outputs.
      max_seq_length: length of the returned lists.
      tokenizer: of the model.

    Raises:
      errors.UserError: as ``encode``.
    """
    if isinstance(example, task_examples.PaddingInputExample):
        zeros = [0] * max_seq_length
        return task_examples.InputFeatures(zeros, list(zeros), list(zeros), 0, False)
    ids, boundary, _ = _encode_example(example, max_seq_length, tokenizer)
    label_id = 0
    if example.label is not None:
        label_id = int(_label_ids([example], label_list, task_examples.CLASSIFICATION)[0])
    if ex_index < classifier_options.ClassifierOptions.log_examples:
        _log_example(example, ids, boundary, tokenizer)
        _log.info("label: %s (id = %s)", example.label, label_id)
    return task_examples.InputFeatures(*_padded(ids, boundary, max_seq_length), label_id)


def convert_examples_to_features(
    examples: Sequence[task_examples.InputExample | task_examples.PaddingInputExample],
    label_list: Sequence[str],
    max_seq_length: int,
    tokenizer: tokenization.FullTokenizer,
) -> list[task_examples.InputFeatures]:
    """The padded features of a set; see ``convert_single_example``."""
    return [
        convert_single_example(index, example, label_list, max_seq_length, tokenizer)
        for index, example in enumerate(examples)
    ]
