"""Questions and contexts to the windows a model reads: ``[CLS] question [SEP] context [SEP]``.

Glossary: a *word* is what white space separates in a context, a *piece* is a WordPiece of one, a
*window* is a run of pieces of a context behind its question, a *position* counts the tokens of a
window from 0. N windows, Q questions, P paragraphs.

A context that does not fit is cut into overlapping windows. A context is tokenized once for all its
questions. Windows lie in flat arrays; nothing is padded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

import tokenization
from system import worker_pool
from tasks.squad import examples as squad_examples
from tasks.squad import windows as squad_windows
from training import progress, ragged

FIRST_UNIQUE_ID = 1000000000
# Workers start in about a second, in which a process makes the windows of this much text.
_WORTH_A_WORKER = 4_000_000
_CHUNK = 100_000  # characters of questions and contexts that go to a worker at a time


class Features(NamedTuple):
    """N windows in the order of their questions, and the contexts they were cut from.

    Attributes:
      input_ids: N rows, int32.
      segment_ids: N rows, int32: 0 through the first ``[SEP]``, then 1.
      start_positions, end_positions: int32 [N]. Position of the first and the last piece of the
        answer; both 0, which is ``[CLS]``, where the window has not all of it.
      is_impossible: bool [N], of the question.
      example_index: int32 [N], index of the question; ascending.
      doc_span_index: int32 [N], number of the window among those of its question.
      doc_offset: int32 [N], position of the first piece of context.
      doc_start: int32 [N], index of that piece in its context.
      best_start, best_end: int32 [N]. The positions from the one up to the other, exclusive, have
        more context on both sides here than in other windows (see ``squad_windows.best_windows``).
      paragraph: int32 [N], index of the context.
      pieces: P rows, int32: ids of the contexts.
      words: P rows, int32: the index of the word each piece belongs to.
      narrowed: number of answers that are a part of their first or last word.
      without_pieces: indexes of questions left out, as nothing of their answer is left in tokens.
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
        found = np.full(length, -1, np.int32)
        words = self.words.row(int(self.paragraph[row]))
        found[first : length - 1] = words[start : start + length - 1 - first]
        return found

    def token_is_max_context(self, row: int) -> np.ndarray:
        """bool [length of the window]: no other window has more context around the position."""
        positions = np.arange(int(self.input_ids.lengths[row]))
        return (self.best_start[row] <= positions) & (positions < self.best_end[row])


def build(
    examples: squad_examples.Examples,
    tokenizer: tokenization.FullTokenizer,
    sizes: squad_windows.Sizes,
    num_workers: int = 0,
) -> Features:
    """Makes the windows of all questions.

    Args:
      examples: ``squad_examples.read``; for training ``squad_examples.shuffled``.
      tokenizer: of the model.
      sizes: see there.
      num_workers: processes; 0 takes one a core where the text is long enough to gain by it, 1
        works in this one. The features do not depend on it.

    Returns:
      See ``Features``. A question with an empty context has no window.

    Raises:
      errors.UserError: a worker process died.
    """
    chunks = _chunks(examples)
    count = min(num_workers, len(chunks)) or _worthwhile_workers(examples)
    shown = progress.Pass("made windows of", len(examples.questions))
    parts = []
    results = _parts(squad_windows.WindowMaker(tokenizer, sizes), chunks, count)
    for chunk, part in zip(chunks, results, strict=True):
        parts.append(part)
        asked = sum(len(item.questions) for item in chunk)
        if asked:  # before the first there is no rate to tell
            shown.add(asked)
    return _joined(parts, examples)


def summarize(examples: squad_examples.Examples, features: Features) -> squad_examples.Summary:
    """The summary of reading, with what became of it in windows.

    A question is left out when no example of it is left; ids stand in the order of the file.
    """
    order = sorted(range(len(examples.questions)), key=lambda k: examples.questions[k].number)
    lost = set(features.without_pieces)
    whole = set(features.example_index[features.start_positions > 0].tolist())
    kept = {examples.questions[index].number for index in order if index not in lost}
    dropped: dict[int, str] = {}  # question of the file, of which no example is left → id
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
    """Without the windows that have not all of their answer; those of questions without one stay.

    The original release trains these windows to ``[CLS]``, in version 1 too.
    """
    return _take(features, np.flatnonzero((features.start_positions > 0) | features.is_impossible))


# --------------------------------------------------------------------------------------------------
# All paragraphs
# --------------------------------------------------------------------------------------------------


def _chunks(examples: squad_examples.Examples) -> list[list[squad_windows.Paragraph]]:
    """Paragraphs that have questions, in their order, in portions of about equal work."""
    items = [squad_windows.Paragraph(context, []) for context in examples.contexts]
    for index, question in enumerate(examples.questions):
        items[question.paragraph].questions.append(
            (index, question.text, question.start, question.end)
        )
    chunks: list[list[squad_windows.Paragraph]] = [[]]
    size = 0
    for item in items:
        chunks[-1].append(item if item.questions else squad_windows.Paragraph("", []))
        size += len(item.context) + 200 * len(item.questions)
        if size >= _CHUNK:
            chunks.append([])
            size = 0
    return chunks


def _worthwhile_workers(examples: squad_examples.Examples) -> int:
    characters = sum(map(len, examples.contexts)) + 200 * len(examples.questions)
    return max(1, min(worker_pool.available_cores(), characters // _WORTH_A_WORKER))


def _parts(
    work: squad_windows.WindowMaker, chunks: Sequence[list[squad_windows.Paragraph]], count: int
) -> Iterator[squad_windows.Windows]:
    """What is made of each chunk, in their order."""
    if count == 1:
        yield from map(work, chunks)
        return
    with worker_pool.Pool(count, work, f"a smaller --num_workers (now {count})") as pool:
        yield from pool.map(chunks)


def _joined(parts: Sequence[squad_windows.Windows], examples: squad_examples.Examples) -> Features:
    """One set of features from the parts, in the order of the questions."""
    lengths, table, counts = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("lengths", "table", "counts")
    )
    columns = dict(zip(squad_windows.COLUMNS, np.ascontiguousarray(table.T), strict=True))
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


def _ragged(values: Sequence[np.ndarray], lengths: np.ndarray) -> ragged.Ragged:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return ragged.Ragged(np.concatenate(values), offsets)


def _take(features: Features, rows: np.ndarray) -> Features:
    """Some windows, in the order of ``rows``."""
    ids = features.input_ids
    lengths = ids.lengths[rows]
    offsets = np.zeros(len(rows) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    source = np.arange(offsets[-1]) + np.repeat(ids.offsets[rows] - offsets[:-1], lengths)
    by_window = {
        name: value[rows] for name, value in features._asdict().items() if type(value) is np.ndarray
    }
    return features._replace(
        **by_window,
        input_ids=ragged.Ragged(ids.values[source], offsets),
        segment_ids=ragged.Ragged(features.segment_ids.values[source], offsets),
    )
