"""Logits over windows to answers: candidates, their texts, the n-best lists.

Each question's windows give pairs (start, end) of positions. All pairs of all questions are made,
checked and sorted in NumPy; only those that reach the n-best list become text. Sums are taken in
float64 and ties keep the order (window, rank of the start, rank of the end), as in the original
release.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tokenization
from command_line import errors
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import logits as squad_logits
from tasks.squad import texts as squad_texts
from training import ragged

# The odds of "no answer" where a question has no other candidate: finite, and above any threshold.
ONLY_NULL = 1e6
_PAIRS = 1 << 20  # pairs that are looked at at a time


@dataclasses.dataclass(frozen=True, kw_only=True)
class Options:
    """How answers are chosen; the fields are the flags of the same names.

    Attributes:
      n_best_size: starts and ends to pair in each window, and entries of an n-best list.
      max_answer_length: most pieces of an answer.
      version_2_with_negative: a question may have no answer, which is the text "".
      null_score_diff_threshold: "" is the answer where the score of ``[CLS]`` exceeds that of the
        best text by more than this.
      exact_texts: see ``squad_texts.Passages``.
      verbose_logging: log texts that are not found in the context, and stand for whole words.
    """

    n_best_size: int = 20
    max_answer_length: int = 30
    version_2_with_negative: bool = False
    null_score_diff_threshold: float = 0.0
    exact_texts: bool = False
    verbose_logging: bool = False

    def __post_init__(self) -> None:
        # The flags have these bounds, too; here they guard callers that come without flags: lists
        # of nothing have no softmax, and answers of no pieces would all be "empty".
        for name in ("n_best_size", "max_answer_length"):
            if getattr(self, name) < 1:
                raise errors.FlagError(f"--{name}={getattr(self, name)}: expected at least 1")


class Entry(NamedTuple):
    """A line of an n-best list.

    Attributes:
      text: the answer; "" for no answer.
      probability: softmax of start_logit + end_logit over the list.
      start_logit, end_logit: of its first and its last piece.
      start, end: the words of ``context[start:end]``, joined by spaces, are the text; both -1 where
        there is none.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int = -1
    end: int = -1


class Answers(NamedTuple):
    """What is predicted, by question id in the order of the questions.

    Attributes:
      predictions: the answers.
      nbest: the best candidates.
      null_odds: score of ``[CLS]`` less that of the best text; empty in version 1.
    """

    predictions: dict[str, str]
    nbest: dict[str, list[Entry]]
    null_odds: dict[str, float]

    def best_texts(self) -> dict[str, str]:
        """The best text of each question, whatever the odds of none; "" where there is none."""
        return {
            qas_id: next((entry.text for entry in entries if entry.text), "")
            for qas_id, entries in self.nbest.items()
        }

    def with_threshold(self, threshold: float) -> Answers:
        """The same with another ``null_score_diff_threshold`` (version 2)."""
        predictions = {
            qas_id: "" if self.null_odds[qas_id] > threshold else text
            for qas_id, text in self.best_texts().items()
        }
        return self._replace(predictions=predictions)


# --------------------------------------------------------------------------------------------------
# Candidates
# --------------------------------------------------------------------------------------------------


class _Candidates(NamedTuple):
    """Spans that may be answers, by question, the best first.

    Attributes:
      offsets: int64 [Q + 1]; the spans of question k are offsets[k] up to offsets[k + 1].
      first, last: int32, pieces of the context.
      start_logits, end_logits: float64.
    """

    offsets: np.ndarray
    first: np.ndarray
    last: np.ndarray
    start_logits: np.ndarray
    end_logits: np.ndarray


def _candidates(
    features: squad_features.Features, logits: squad_logits.Logits, options: Options, questions: int
) -> _Candidates:
    size = options.n_best_size
    block = max(1, _PAIRS // size**2)
    count = len(features.example_index)
    parts = [
        _pairs(features, logits, np.arange(at, min(at + block, count)), options)
        for at in range(0, count, block)
    ]
    rows, starts, ends, start_logits, end_logits = (
        np.concatenate(arrays) for arrays in zip(_no_pairs(), *parts, strict=True)
    )
    example = features.example_index[rows]
    # Stable, so equal scores keep the order of the windows and ranks.
    order = np.lexsort((-(start_logits + end_logits), example))
    shift = (features.doc_start - features.doc_offset)[rows]
    offsets = np.searchsorted(example[order], np.arange(questions + 1))
    return _Candidates(
        offsets,
        (starts + shift)[order],
        (ends + shift)[order],
        start_logits[order],
        end_logits[order],
    )


def _no_pairs() -> tuple[np.ndarray, ...]:
    whole, real = np.zeros(0, np.int64), np.zeros(0)
    return whole, whole, whole, real, real


def _pairs(
    features: squad_features.Features,
    logits: squad_logits.Logits,
    rows: np.ndarray,
    options: Options,
) -> tuple[np.ndarray, ...]:
    """The valid pairs of some windows, in the order (window, rank of start, rank of end).

    Args:
      features: of all windows.
      logits: of all windows.
      rows: int [B].
      options: see there.

    Returns:
      Rows, starts, ends, start logits, end logits; of equal length.
    """
    starts, start_logits = _best(logits.start, rows, options.n_best_size)  # [B, S]
    ends, end_logits = _best(logits.end, rows, options.n_best_size)
    last = features.input_ids.lengths[rows, None] - 1  # position of the final [SEP]
    # The start must be in its best window, so that a span is not taken from two windows. The end
    # need only be context.
    start_fits = (features.best_start[rows, None] <= starts) & (
        starts < features.best_end[rows, None]
    )
    end_fits = (features.doc_offset[rows, None] <= ends) & (ends < last)
    length = ends[:, None, :] - starts[:, :, None] + 1  # [B, S, S]
    fits = (length >= 1) & (length <= options.max_answer_length)
    fits &= start_fits[:, :, None] & end_fits[:, None, :]
    row, i, j = np.nonzero(fits)
    return rows[row], starts[row, i], ends[row, j], start_logits[row, i], end_logits[row, j]


def _best(logits: ragged.Ragged, rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest logits of each row, descending, of equal ones the first first.

    Returns:
      Positions int64 [B, size or less] and logits float64; behind the end of a short row stand
      positions beyond it.
    """
    lengths = logits.lengths[rows]
    columns = np.arange(lengths.max())
    real = columns < lengths[:, None]
    table = np.full(real.shape, np.inf, np.float32)
    source = (logits.offsets[rows][:, None] + columns)[real]
    table[real] = -logits.values[source]
    order = np.argsort(table, axis=1, kind="stable")[:, :size]
    return order, -np.take_along_axis(table, order, axis=1).astype(np.float64)


def _nulls(
    features: squad_features.Features, logits: squad_logits.Logits, questions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start and end logit of ``[CLS]``, float64 [Q] each, from the window where their sum is least
    (of equal ones the first); zeros where a question has no window."""
    start = logits.start.values[logits.start.offsets[:-1]].astype(np.float64)
    end = logits.end.values[logits.end.offsets[:-1]].astype(np.float64)
    order = np.lexsort((start + end, features.example_index))
    example, first = np.unique(features.example_index[order], return_index=True)
    found = np.zeros([2, questions])
    found[:, example] = start[order[first]], end[order[first]]
    return found[0], found[1]


# --------------------------------------------------------------------------------------------------
# Answers
# --------------------------------------------------------------------------------------------------


def answer(
    examples: squad_examples.Examples,
    features: squad_features.Features,
    logits: squad_logits.Logits,
    tokenizer: tokenization.FullTokenizer,
    options: Options,
) -> Answers:
    """Chooses the answers.

    Args:
      examples: the questions.
      features: their windows, all of them, as ``squad_features.build`` gave them.
      logits: of the windows; see ``squad_logits.collect`` and ``average``.
      tokenizer: with which the windows were made.
      options: see there.

    Returns:
      An entry for every question. A question without any candidate has the text "empty" in
      version 1, as in the original release, and "" with ``ONLY_NULL`` as odds in version 2.

    Raises:
      errors.UserError: the logits do not belong to the windows, or are no numbers.
    """
    squad_logits.check(features, logits)
    questions = examples.questions
    spans = _candidates(features, logits, options, len(questions))
    borders = spans.offsets.tolist()
    null_logits = np.stack(_nulls(features, logits, len(questions)), axis=1).tolist()
    passages = squad_texts.Passages(
        examples.contexts, features, tokenizer, options.exact_texts, options.verbose_logging
    )
    entries: list[list[Entry]] = [[]] * len(questions)
    # By context, so that what belongs to one is made once and need not be kept.
    order = sorted(range(len(questions)), key=lambda index: questions[index].paragraph)
    for paragraph, indexes in itertools.groupby(order, lambda index: questions[index].paragraph):
        passage = passages.passage(paragraph)
        for index in indexes:
            part = slice(borders[index], borders[index + 1])
            ranked = zip(*(values[part].tolist() for values in spans[1:]), strict=True)
            null = null_logits[index] if options.version_2_with_negative else None
            entries[index] = _nbest(ranked, null, passage.text, options.n_best_size)
    return _answers(questions, entries, null_logits, options)


def _answers(
    questions: Sequence[squad_examples.Question],
    entries: Sequence[list[Entry]],
    null_logits: Sequence[Sequence[float]],
    options: Options,
) -> Answers:
    ids = [question.qas_id for question in questions]
    nbest = dict(zip(ids, entries, strict=True))
    if not options.version_2_with_negative:
        return Answers({qas_id: found[0].text for qas_id, found in nbest.items()}, nbest, {})
    odds = {
        qas_id: _odds(found, start + end)
        for qas_id, found, (start, end) in zip(ids, entries, null_logits, strict=True)
    }
    return Answers({}, nbest, odds).with_threshold(options.null_score_diff_threshold)


def _nbest(
    ranked: Iterable[tuple[int, int, float, float]],
    null: Sequence[float] | None,
    text_of: Callable[[int, int], squad_texts.Text],
    size: int,
) -> list[Entry]:
    """The n-best list of a question.

    Args:
      ranked: first and last piece, start and end logit of its candidates, the best first.
      null: in version 2 the logits of no answer, which competes; then the list may have one entry
        more than ``size``.
      text_of: first and last piece → text, start, end.
      size: most entries.
    """
    no_answer = (*null, -1, -1) if null else None
    found: dict[str, tuple[Any, ...]] = {}
    for first, last, start_logit, end_logit in ranked:
        if null and no_answer and null[0] + null[1] > start_logit + end_logit:
            found.setdefault("", no_answer)
        if len(found) >= size:
            break
        text, start, end = text_of(first, last)
        found.setdefault(text, (start_logit, end_logit, start, end))
    if no_answer:
        found.setdefault("", no_answer)
    elif not found:
        found["empty"] = (0.0, 0.0, -1, -1)
    chances = _softmax([start + end for start, end, _, _ in found.values()])
    return [
        Entry(text, chance, *rest)
        for (text, rest), chance in zip(found.items(), chances, strict=True)
    ]


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores)
    powers = [math.exp(score - highest) for score in scores]
    total = sum(powers)
    return [power / total for power in powers]


def _odds(entries: Sequence[Entry], null_score: float) -> float:
    for entry in entries:
        if entry.text:
            return null_score - entry.start_logit - entry.end_logit
    return ONLY_NULL
