"""The MRQA 2019 collection of question sets, converted to the layout of SQuAD."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

from command_line import errors
from system import inputs
from tasks.squad import json_layout

_log = logging.getLogger(__name__)

_LAYOUT = "MRQA"


def read(path: str) -> dict[str, Any]:
    """Converts a file of the collection to the contents of a SQuAD file.

    Args:
      path: JSON lines, perhaps ``.gz``: a header, then a context with its questions each.

    Returns:
      The questions with a detected answer; each of their answers has the first of its places.
      Training needs ``answer_policy`` if a question has several answers. The other questions are
      counted.

    Raises:
      errors.UserError: with the line: it is not JSON, or has another layout; or no question has an
        answer.
    """
    paragraphs = []
    unanswered: list[str] = []
    questions = _Questions()
    count = 0
    for node in _contexts(path):
        context = node.take("context", str)
        qas = [questions.convert(context, question) for question in node.objects("qas")]
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
    if questions.mismatched:
        _log.warning(
            "%s: the places of %d questions' answers have another text than the answer says; what "
            "stands at the place is taken: %s",
            path,
            len(questions.mismatched),
            errors.some(questions.mismatched),
        )
    if not paragraphs:
        raise errors.UserError(
            f"{path}: none of its {count} questions has a detected answer, so nothing is left"
        )
    return {"version": "1.1", "data": [{"title": "MRQA", "paragraphs": paragraphs}]}


def _contexts(path: str) -> Iterator[json_layout.Node]:
    """The contexts of a file, one a line."""
    for number, line in enumerate(inputs.read_lines(path), start=1):
        if not line.strip():
            continue
        item = json_layout.parse(line, path, _LAYOUT, number)
        node = json_layout.top_level(item, f"{path}:{number}", "context", _LAYOUT)
        if number == 1 and "header" in node.value:
            continue
        yield node


class _Questions:
    """Converts questions and checks them against earlier ones.

    Attributes:
      mismatched: ids of questions with an answer that differs from the text at its place.
    """

    def __init__(self) -> None:
        self.mismatched: list[str] = []
        self._ids: set[str] = set()

    def convert(self, context: str, question: json_layout.Node) -> dict[str, Any]:
        """A question in the layout of SQuAD, with the first place of each answer."""
        qas_id = question.take("qid", str)
        if qas_id in self._ids:
            raise errors.UserError(
                f"{question.source}: {question.path('qid')} {qas_id!r} is that of an earlier "
                "question; give each question an id of its own"
            )
        self._ids.add(qas_id)
        answers = list(_answers(context, question))
        if any(_letters(answer["text"]) != _letters(text) for answer, text in answers):
            self.mismatched.append(qas_id)
        return {
            "id": qas_id,
            "question": question.take("question", str),
            "answers": [answer for answer, _ in answers],
        }


def _answers(context: str, question: json_layout.Node) -> Iterator[tuple[dict[str, Any], str]]:
    """Each answer at the first of its places, and the text that the file gives for it."""
    for answer in question.objects("detected_answers"):
        for span in answer.take("char_spans", list)[:1]:
            if not _is_span(span, len(context)):
                raise errors.UserError(
                    f"{answer.source}: {answer.path('char_spans')}[0] is {span}; expected first "
                    f"and last character in a context of {len(context)}"
                )
            first, last = span  # the last character belongs to the answer
            text = context[first : last + 1]
            yield {"text": text, "answer_start": first}, answer.take("text", str)


def _letters(text: str) -> str:
    """Letters and digits in one case: answer and context may differ in everything else."""
    return "".join(filter(str.isalnum, text.casefold()))


def _is_span(span: Any, length: int) -> bool:
    if type(span) is not list or list(map(type, span)) != [int, int]:
        return False
    first, last = span
    return 0 <= first <= last < length
