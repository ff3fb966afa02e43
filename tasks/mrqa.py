"""The MRQA 2019 collection of question sets, brought into the layout of SQuAD."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import errors
import inputs
from tasks import squad_json

_log = logging.getLogger(__name__)

_LAYOUT = "MRQA"


def read(path: str) -> dict[str, Any]:
    """Makes a SQuAD file's content of a file of the collection.

    Args:
      path: JSON lines, perhaps ``.gz``: a header, then a context with its questions each.

    Returns:
      The questions with a detected answer, and each of their answers with its first place, so that
      training needs ``answer_policy`` where there are several. The other questions are counted.

    Raises:
      errors.UserError: with the line: it is no JSON, or has another layout; or no question has an
        answer.
    """
    paragraphs = []
    unanswered: list[str] = []
    count = 0
    for node in _contexts(path):
        context = node.take("context", str)
        qas = [_question(context, question) for question in node.each("qas")]
        count += len(qas)
        unanswered += [qa["id"] for qa in qas if not qa["answers"]]
        qas = [qa for qa in qas if qa["answers"]]
        if qas:
            paragraphs.append({"context": context, "qas": qas})
    if not count:
        raise errors.UserError(f"{path}: there is no question in it")
    if unanswered:
        _log.warning(
            "%s: %d of %d questions have no detected answer and are left out: %s",
            path,
            len(unanswered),
            count,
            errors.some(unanswered),
        )
    if not paragraphs:
        raise errors.UserError(
            f"{path}: none of its {count} questions has a detected answer, so nothing is left"
        )
    return {"version": "1.1", "data": [{"title": "MRQA", "paragraphs": paragraphs}]}


def _contexts(path: str) -> Iterator[squad_json.Node]:
    """The contexts of a file, one a line."""
    for number, line in enumerate(inputs.read_lines(path), start=1):
        if not line.strip():
            continue
        item = squad_json.parse(line, path, _LAYOUT, number)
        node = squad_json.top(item, f"{path}:{number}", "context", _LAYOUT)
        if number == 1 and "header" in node.value:
            continue
        yield node


def _question(context: str, question: squad_json.Node) -> dict[str, Any]:
    return {
        "id": question.take("qid", str),
        "question": question.take("question", str),
        "answers": list(_answers(context, question)),
    }


def _answers(context: str, question: squad_json.Node) -> Iterator[dict[str, Any]]:
    """The first place of each answer."""
    for answer in question.each("detected_answers"):
        for span in answer.take("char_spans", list)[:1]:
            if not _is_place(span, len(context)):
                raise errors.UserError(
                    f"{answer.source}: {answer.path('char_spans')}[0] is {span}; expected first "
                    f"and last character in a context of {len(context)}"
                )
            first, last = span  # the last character belongs to the answer
            yield {"text": context[first : last + 1], "answer_start": first}


def _is_place(span: Any, length: int) -> bool:
    if type(span) is not list or list(map(type, span)) != [int, int]:
        return False
    first, last = span
    return 0 <= first <= last < length
