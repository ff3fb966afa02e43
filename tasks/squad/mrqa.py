"""The MRQA 2019 collection of question sets, brought into the layout of SQuAD."""

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
    if questions.elsewhere:
        _log.warning(
            "%s: the places of %d questions' answers have another text than the answer says; what "
            "stands at the place is taken: %s",
            path,
            len(questions.elsewhere),
            errors.some(questions.elsewhere),
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
    """Converts questions, and keeps what must be known of all of them.

    Attributes:
      elsewhere: ids of those with an answer whose text is not that of its place.
    """

    def __init__(self) -> None:
        self.elsewhere: list[str] = []
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
        if any(_plain(place["text"]) != _plain(text) for place, text in answers):
            self.elsewhere.append(qas_id)
        return {
            "id": qas_id,
            "question": question.take("question", str),
            "answers": [place for place, _ in answers],
        }


def _answers(context: str, question: json_layout.Node) -> Iterator[tuple[dict[str, Any], str]]:
    """The first place of each answer, and the text that the answer says is there."""
    for answer in question.objects("detected_answers"):
        for span in answer.take("char_spans", list)[:1]:
            if not _is_place(span, len(context)):
                raise errors.UserError(
                    f"{answer.source}: {answer.path('char_spans')}[0] is {span}; expected first "
                    f"and last character in a context of {len(context)}"
                )
            first, last = span  # the last character belongs to the answer
            found = context[first : last + 1]
            yield {"text": found, "answer_start": first}, answer.take("text", str)


def _plain(text: str) -> str:
    """A text without what answer and context may differ in: case, white space, punctuation."""
    return "".join(filter(str.isalnum, text.casefold()))


def _is_place(span: Any, length: int) -> bool:
    if type(span) is not list or list(map(type, span)) != [int, int]:
        return False
    first, last = span
    return 0 <= first <= last < length
