"""Questions and contexts to the windows a model reads: ``[CLS] question [SEP] context [SEP]``.

Glossary: the *words* of a context are separated by white space, a *piece* is a WordPiece of a word,
a *window* is a question and consecutive pieces of its context, a *position* counts the tokens of a
window from 0. N windows, Q questions, P paragraphs.

A context that does not fit is split into overlapping windows. It is tokenized once for all of its
questions. Windows are stored in flat arrays without padding.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

import tokenization
from system import worker_pool
from tasks.squad import examples as squad_examples
from tasks.squad import options as squad_options
from tasks.squad import windows as squad_windows
from training import progress, ragged

FIRST_UNIQUE_ID = 1000000000
# A worker takes about a second to start; a process makes windows of this many characters in it.
_WORTH_A_WORKER = 4_000_000
_CHUNK = 100_000  # characters of questions and contexts that are sent to a worker at a time


class Features(NamedTuple):
    """N windows in the order of their questions, and the contexts they were cut from.

    Attributes:
      input_ids: N rows, int32.
      segment_ids: N rows, int32: 0 through the first ``[SEP]``, then 1.
      start_positions, end_positions: int32 [N]. Position of the first and the last piece of the
        answer; both 0, which is ``[CLS]``, if the window does not contain all of it.
      is_impossible: bool [N], of the question.
      example_index: int32 [N], index of the question; ascending.
      doc_span_index: int32 [N], number of the window among those of its question.
      doc_offset: int32 [N], position of the first piece of context.
      doc_start: int32 [N], index of that piece in its context.
      best_start, best_end: int32 [N]. The positions best_start up to best_end (exclusive) have more
        context here than in other windows (see ``squad_windows.best_windows``).
      paragraph: int32 [N], index of the context.
      pieces: P rows, int32: ids of the contexts.
      words: P rows, int32: the index of the word each piece belongs to.
      narrowed: number of answers that are a part of their first or last word.
      without_pieces: indexes of the questions left out because their answer has no pieces.
    """

    input_ids: ragged.Ragged
    segment_ids: ragged.Ragged
    start_positions: np.ndarray
    end_positions: np.ndarray
    is_impossible: np.ndarray
    example_index: np.ndarray
    doc_span_index: np.ndarray
    doc_offset: np.ndarray
    doc_start: np.ndarray
    best_start: np.ndarray
    best_end: np.ndarray
    paragraph: np.ndarray
    pieces: ragged.Ragged
    words: ragged.Ragged
    narrowed: int
    without_pieces: Sequence[int]

    @property
    def unique_ids(self) -> np.ndarray:
        """int64 [N], the numbers the original release gave to windows."""
        return FIRST_UNIQUE_ID + np.arange(len(self.example_index))

    def token_to_orig_map(self, row: int) -> np.ndarray:
        """int32 [length of the window]: index of the word at a position; -1 outside the context."""
        length = int(self.input_ids.lengths[row])
        first, start = int(self.doc_offset[row]), int(self.doc_start[row])
        word_of = np.full(length, -1, np.int32)
        words = self.words.row(int(self.paragraph[row]))
        word_of[first : length - 1] = words[start : start + length - 1 - first]
        return word_of

    def token_is_max_context(self, row: int) -> np.ndarray:
        """bool [length of the window]: no other window has more context around the position."""
        positions = np.arange(int(self.input_ids.lengths[row]))
        return (self.best_start[row] <= positions) & (positions < self.best_end[row])


def build(
    examples: squad_examples.Examples,
    tokenizer: tokenization.FullTokenizer,
    options: squad_options.SquadOptions,
) -> Features:
    """Makes the windows of all questions.

    Args:
      examples: ``squad_examples.read``; for training ``squad_examples.shuffled``.
      tokenizer: of the model.
      options: sizes of the windows, and num_workers: 0 is one per core if the text is long enough
        to gain from it, 1 only this process. The features do not depend on it.

    Returns:
      The windows. A question with an empty context has none.

    Raises:
      errors.UserError: a worker process died.
    """
    chunks = _chunks(examples)
    characters = sum(map(len, examples.contexts)) + 200 * len(examples.questions)
    worthwhile = max(1, min(worker_pool.available_cores(), characters // _WORTH_A_WORKER))
    count = min(options.num_workers, len(chunks)) or worthwhile
    display = progress.Pass("made windows of", len(examples.questions))
    parts = []
    results = _make_parts(squad_windows.WindowMaker(tokenizer, options), chunks, count)
    for chunk, part in zip(chunks, results, strict=True):
        parts.append(part)
        questions = sum(len(paragraph.questions) for paragraph in chunk)
        if questions:  # before the first one there is no rate to display
            display.add(questions)
    features = _join(parts, examples)
    tokenizer.warn_about_unknown("the contexts", np.bincount(features.pieces.values))
    return features


def summarize(examples: squad_examples.Examples, features: Features) -> squad_examples.Summary:
    """The summary of reading, completed with what the windows tell.

    A question counts as skipped if none of its examples is left; ids are in the file's order.
    """
    order = sorted(range(len(examples.questions)), key=lambda k: examples.questions[k].number)
    lost = set(features.without_pieces)
    whole = set(features.example_index[features.start_positions > 0].tolist())
    kept = {examples.questions[index].number for index in order if index not in lost}
    dropped: dict[int, str] = {}  # number of a question without any example left → id
    in_no_window = []
    for index in order:
        question = examples.questions[index]
        if index in lost:
            if question.number not in kept:
                dropped[question.number] = question.qas_id
        elif question.start >= 0 and index not in whole:
            in_no_window.append(question.qas_id)
    reasons = {"no token is left of the answer": list(dropped.values())} if dropped else {}
    return dataclasses.replace(
        examples.summary,
        examples=len(order) - len(lost),
        dropped={**examples.summary.dropped, **reasons},
        windows=len(features.example_index),
        windows_with_answer=int(np.count_nonzero(features.start_positions)),
        narrowed=features.narrowed,
        in_no_window=in_no_window,
    )


def with_whole_answer(features: Features) -> Features:
    """Removes the windows that lack a part of their answer; unanswerable questions keep theirs.

    The original release trains such windows to predict ``[CLS]``, in version 1 too.
    """
    return _take(features, np.flatnonzero((features.start_positions > 0) | features.is_impossible))


def _chunks(examples: squad_examples.Examples) -> list[list[squad_windows.Paragraph]]:
    """The paragraphs in order, in portions of about equal work; empty if they have no questions."""
    paragraphs = [squad_windows.Paragraph(context, []) for context in examples.contexts]
    for index, question in enumerate(examples.questions):
        paragraphs[question.paragraph].questions.append(
            (index, question.text, question.start, question.end)
        )
    chunks: list[list[squad_windows.Paragraph]] = [[]]
    size = 0
    for paragraph in paragraphs:
        chunks[-1].append(paragraph if paragraph.questions else squad_windows.Paragraph("", []))
        size += len(paragraph.context) + 200 * len(paragraph.questions)
        if size >= _CHUNK:
            chunks.append([])
            size = 0
    return chunks


def _make_parts(
    maker: squad_windows.WindowMaker, chunks: Sequence[list[squad_windows.Paragraph]], count: int
) -> Iterator[squad_windows.Windows]:
    """The windows of each chunk, in order."""
    if count == 1:
        yield from map(maker, chunks)
        return
    with worker_pool.Pool(count, maker, f"a smaller --num_workers (now {count})") as pool:
        yield from pool.map(chunks)


def _join(parts: Sequence[squad_windows.Windows], examples: squad_examples.Examples) -> Features:
    """Joins the parts to features in the order of the questions."""
    lengths, table, counts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("lengths", "table", "counts")
    )
    by_window = table.reshape(-1, len(squad_windows.COLUMNS))
    columns = dict(zip(squad_windows.COLUMNS, np.ascontiguousarray(by_window.T), strict=True))
    input_ids = _ragged([part.ids for part in parts], lengths)
    positions = np.arange(len(input_ids.values)) - np.repeat(input_ids.offsets[:-1], lengths)
    segments = (positions >= np.repeat(columns["doc_offset"], lengths)).astype(np.int32)
    questions = examples.questions
    impossible = np.array([question.is_impossible for question in questions], bool)
    paragraph = np.array([question.paragraph for question in questions], np.int32)
    features = Features(
        input_ids=input_ids,
        segment_ids=ragged.Ragged(segments, input_ids.offsets),
        is_impossible=impossible[columns["example_index"]],
        paragraph=paragraph[columns["example_index"]],
        pieces=_ragged([part.pieces for part in parts], counts),
        words=_ragged([part.words for part in parts], counts),
        narrowed=sum(part.narrowed for part in parts),
        without_pieces=[index for part in parts for index in part.without_pieces],
        **columns,
    )
    if np.all(np.diff(features.example_index) >= 0):
        return features
    return _take(features, np.argsort(features.example_index, kind="stable"))


def _offsets(lengths: np.ndarray) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])


def _ragged(values: Sequence[Any], lengths: np.ndarray) -> ragged.Ragged:
    return ragged.Ragged(np.concatenate(values), _offsets(lengths))


def _take(features: Features, rows: np.ndarray) -> Features:
    """Some windows, in the order of ``rows``."""
    ids = features.input_ids
    lengths = ids.lengths[rows]
    offsets = _offsets(lengths)
    source = np.arange(offsets[-1]) + np.repeat(ids.offsets[rows] - offsets[:-1], lengths)
    by_window = {
        name: value[rows] for name, value in features._asdict().items() if type(value) is np.ndarray
    }
    return features._replace(
        **by_window,
        input_ids=ragged.Ragged(ids.values[source], offsets),
        segment_ids=ragged.Ragged(features.segment_ids.values[source], offsets),
    )
