"""Logits of windows to answers: candidates, their texts, the n-best lists.

Candidates are pairs (start, end) of positions in a window. The pairs of all questions are built,
checked and sorted in NumPy; only those that reach an n-best list become text. Sums are taken in
float64 and ties keep the order (window, rank of the start, rank of the end), as in the original
release.

Axes: N windows, Q questions, B windows of a block, S best starts or ends of a window.
"""

import functools
import itertools
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

import tokenization
from tasks.squad import examples as squad_examples
from tasks.squad import features as squad_features
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import texts as squad_texts
from training import ragged

# The null odds of a question without any other candidate: finite, and above any threshold.
ONLY_NULL = 1e6
_BLOCK_PAIRS = 1 << 20  # pairs that are checked at a time


class Entry(NamedTuple):
    """An entry of an n-best list.

    Attributes:
      text: the answer; "" for no answer.
      probability: softmax of start_logit + end_logit over the list.
      start_logit, end_logit: of its first and its last piece.
      start, end: the words of ``context[start:end]``, joined by spaces, are the text; both -1 if
        there is none.
    """

    text: str
    probability: float
    start_logit: float
    end_logit: float
    start: int = -1
    end: int = -1


class Answers(NamedTuple):
    """Predictions by question id, in the order of the questions.

    Attributes:
      predictions: the answers.
      nbest: the best candidates.
      null_odds: the score of ``[CLS]`` minus that of the best text; empty in version 1.
    """

    predictions: dict[str, str]
    nbest: dict[str, list[Entry]]
    null_odds: dict[str, float]

    def best_texts(self) -> dict[str, str]:
        """The best text of each question, ignoring its null odds; "" if there is none."""
        return {
            qas_id: next((entry.text for entry in entries if entry.text), "")
            for qas_id, entries in self.nbest.items()
        }

    def with_threshold(self, threshold: float) -> "Answers":
        """The same candidates with another ``null_score_diff_threshold`` (version 2)."""
        predictions = {
            qas_id: "" if self.null_odds[qas_id] > threshold else text
            for qas_id, text in self.best_texts().items()
        }
        return self._replace(predictions=predictions)


def _candidates(
    features: squad_features.Features,
    logits: squad_logits.Logits,
    options: squad_options.SquadOptions,
    questions: int,
) -> tuple[np.ndarray, list[np.ndarray]]:
    """Possible answers, by question, the best first.

    Returns:
      Offsets, int64 [Q + 1]: question k has the candidates offsets[k] up to offsets[k + 1]; and of
      each candidate first and last piece of the context, start and end logit in float64.
    """
    block = max(1, _BLOCK_PAIRS // options.n_best_size**2)
    count = len(features.example_index)
    parts = [
        _valid_pairs(features, logits, np.arange(first, min(first + block, count)), options)
        for first in range(0, max(count, 1), block)
    ]
    rows, starts, ends, start_logits, end_logits = map(np.concatenate, zip(*parts, strict=True))
    example = features.example_index[rows]
    # lexsort is stable, so equal scores keep the order of windows and ranks.
    order = np.lexsort((-(start_logits + end_logits), example))
    shift = (features.doc_start - features.doc_offset)[rows]
    columns = (starts + shift, ends + shift, start_logits, end_logits)
    offsets = np.searchsorted(example[order], np.arange(questions + 1))
    return offsets, [column[order] for column in columns]


def _valid_pairs(
    features: squad_features.Features,
    logits: squad_logits.Logits,
    rows: np.ndarray,  # int [B]
    options: squad_options.SquadOptions,
) -> tuple[np.ndarray, ...]:
    """The valid pairs of some windows, in the order (window, rank of start, rank of end).

    Returns:
      Rows, starts, ends, start logits, end logits; of equal length.
    """
    starts, start_logits = _largest(logits.start, rows, options.n_best_size)  # [B, S]
    ends, end_logits = _largest(logits.end, rows, options.n_best_size)
    last = features.input_ids.lengths[rows, None] - 1  # position of the final [SEP]
    # The start must have its best context in this window, so that a span is taken from only one
    # window. The end may be any position of the context.
    start_fits = (features.best_start[rows, None] <= starts) & (
        starts < features.best_end[rows, None]
    )
    end_fits = (features.doc_offset[rows, None] <= ends) & (ends < last)
    length = ends[:, None, :] - starts[:, :, None] + 1  # [B, S, S]
    fits = (length >= 1) & (length <= options.max_answer_length)
    fits &= start_fits[:, :, None] & end_fits[:, None, :]
    row, i, j = np.nonzero(fits)
    return rows[row], starts[row, i], ends[row, j], start_logits[row, i], end_logits[row, j]


def _largest(logits: ragged.Ragged, rows: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    """The largest logits of each row in descending order; among equal ones, in row order.

    Returns:
      Positions int64 [B, size or less] and logits float64. A row of fewer logits is filled up with
      positions beyond its end, which the caller must reject.
    """
    lengths = logits.lengths[rows]
    columns = np.arange(lengths.max(initial=0))
    real = columns < lengths[:, None]
    table = np.full(real.shape, np.inf, np.float32)
    source = (logits.offsets[rows][:, None] + columns)[real]
    table[real] = -logits.values[source]
    order = np.argsort(table, axis=1, kind="stable")[:, :size]
    return order, -np.take_along_axis(table, order, axis=1).astype(np.float64)


def _nulls(
    features: squad_features.Features, logits: squad_logits.Logits, questions: int
) -> tuple[np.ndarray, np.ndarray]:
    """Start and end logit of ``[CLS]``, float64 [Q] each, from the first window with their least
    sum; zeros if a question has no window."""
    start = logits.start.values[logits.start.offsets[:-1]].astype(np.float64)
    end = logits.end.values[logits.end.offsets[:-1]].astype(np.float64)
    order = np.lexsort((start + end, features.example_index))
    example, first = np.unique(features.example_index[order], return_index=True)
    nulls = np.zeros([2, questions])
    nulls[:, example] = start[order[first]], end[order[first]]
    return nulls[0], nulls[1]


def answer(
    examples: squad_examples.Examples,
    features: squad_features.Features,
    logits: squad_logits.Logits,
    tokenizer: tokenization.FullTokenizer,
    options: squad_options.SquadOptions,
) -> Answers:
    """Chooses the answers.

    Args:
      examples: the questions.
      features: all of their windows, as ``squad_features.build`` returns them.
      logits: of the windows; see ``squad_logits.collect`` and ``average``.
      tokenizer: the windows were made with it.
      options: n_best_size starts and ends are paired in each window. A null_score_diff_threshold of
        "auto", which is yet to be found, counts as 0; see ``Answers.with_threshold``.

    Returns:
      An entry for every question. A question without any candidate has the text "empty" in
      version 1, as in the original release, and "" with ``ONLY_NULL`` as odds in version 2.

    Raises:
      errors.UserError: the logits do not belong to the windows, or are not finite.
    """
    squad_logits.check(features, logits)
    questions = examples.questions
    offsets, columns = _candidates(features, logits, options, len(questions))
    null_logits = np.stack(_nulls(features, logits, len(questions)), axis=1).tolist()
    passages = squad_texts.Passages(examples.contexts, features, tokenizer, options)
    entries: list[list[Entry]] = [[]] * len(questions)
    # Grouped by context, so that its words and texts are computed once and need not be kept.
    order = sorted(range(len(questions)), key=lambda index: questions[index].paragraph)
    for paragraph, indexes in itertools.groupby(order, lambda index: questions[index].paragraph):
        text_of = functools.cache(squad_texts.Passage(passages, paragraph).text)
        for index in indexes:
            part = slice(offsets[index], offsets[index + 1])
            ranked = zip(*(values[part].tolist() for values in columns), strict=True)
            null = null_logits[index] if options.version_2_with_negative else None
            entries[index] = _nbest(ranked, null, text_of, options.n_best_size)
    return _answers(questions, entries, null_logits, options)


def _answers(
    questions: Sequence[squad_examples.Question],
    entries: Sequence[list[Entry]],
    null_logits: Sequence[Sequence[float]],
    options: squad_options.SquadOptions,
) -> Answers:
    ids = [question.qas_id for question in questions]
    nbest = dict(zip(ids, entries, strict=True))
    if not options.version_2_with_negative:
        return Answers({qas_id: ranked[0].text for qas_id, ranked in nbest.items()}, nbest, {})
    odds = {}
    for qas_id, ranked, null in zip(ids, entries, null_logits, strict=True):
        gaps = (sum(null) - x.start_logit - x.end_logit for x in ranked if x.text)
        odds[qas_id] = next(gaps, ONLY_NULL)
    threshold = 0.0 if options.tunes_threshold else float(options.null_score_diff_threshold)
    return Answers({}, nbest, odds).with_threshold(threshold)


def _nbest(
    ranked: Iterable[tuple[int, int, float, float]],
    null: Sequence[float] | None,
    text_of: Callable[[int, int], squad_texts.Text],
    size: int,
) -> list[Entry]:
    """The n-best list of a question, of candidates as ``_candidates`` gives them.

    ``null``, in version 2 the start and end logit of "no answer", competes with the candidates; the
    list may then have one entry more than ``size``.
    """
    no_answer = (*null, -1, -1) if null else None
    entries: dict[str, tuple[Any, ...]] = {}
    for first, last, start_logit, end_logit in ranked:
        if null and no_answer and null[0] + null[1] > start_logit + end_logit:
            entries.setdefault("", no_answer)
        if len(entries) >= size:
            break
        text, start, end = text_of(first, last)
        entries.setdefault(text, (start_logit, end_logit, start, end))
    if no_answer:
        entries.setdefault("", no_answer)
    elif not entries:
        entries["empty"] = (0.0, 0.0, -1, -1)
    probabilities = _softmax([start + end for start, end, _, _ in entries.values()])
    return [
        Entry(text, probability, *rest)
        for (text, rest), probability in zip(entries.items(), probabilities, strict=True)
    ]


def _softmax(scores: Sequence[float]) -> list[float]:
    highest = max(scores)
    exponentials = [math.exp(score - highest) for score in scores]
    total = sum(exponentials)
    return [value / total for value in exponentials]
