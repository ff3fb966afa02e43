"""The MRQA 2019 collection of question sets, converted to the layout of SQuAD."""

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
    ids: set[str] = set()
    unanswered: list[str] = []
    mismatched: list[str] = []
    for node in _contexts(path):
        context, qas = node.take("context", str), []
        for question in node.objects("qas"):
            qas_id = _new_id(question, ids)
            qa: dict[str, Any] = {"id": qas_id, "question": question.take("question", str)}
            answers = list(_answers(context, question))
            if any(_letters(answer["text"]) != _letters(given) for answer, given in answers):
                mismatched.append(qas_id)
            if answers:
                qas.append({**qa, "answers": [answer for answer, _ in answers]})
            else:
                unanswered.append(qas_id)
        if qas:
            paragraphs.append({"context": context, "qas": qas})
    if not ids:
        raise errors.UserError(f"{path}: there is no question in it")
    _warn(path, len(ids), unanswered, mismatched)
    if not paragraphs:
        raise errors.UserError(
            f"{path}: none of its {len(ids)} questions has a detected answer, so nothing is left"
        )
    return {"version": "1.1", "data": [{"title": "MRQA", "paragraphs": paragraphs}]}


def _warn(path: str, count: int, unanswered: list[str], mismatched: list[str]) -> None:
    if unanswered:
        line = "%s: %d of %d questions have no detected answer and are left out: %s"
        _log.warning(line, path, len(unanswered), count, errors.some(unanswered))
    if mismatched:
        line = (
            "%s: the places of %d questions' answers have another text than the answer says; the "
            "text at that position is used: %s"
        )
        _log.warning(line, path, len(mismatched), errors.some(mismatched))


def _contexts(path: str) -> Iterator[json_layout.Node]:
    """The contexts of a file, one a line, without its header."""
    nodes = json_layout.parse_lines(inputs.read_lines(path), path, "context", _LAYOUT)
    for index, node in enumerate(nodes):
        if index or "header" not in node.value:
            yield node


def _new_id(question: json_layout.Node, ids: set[str]) -> str:
    """The id of a question, which is added to those of earlier ones."""
    qas_id = question.take("qid", str)
    if qas_id in ids:
        raise errors.UserError(
            f"{question.source}: {question.path('qid')} {qas_id!r} is that of an earlier "
            "question; give each question an id of its own"
        )
    ids.add(qas_id)
    return qas_id


def _answers(context: str, question: json_layout.Node) -> Iterator[tuple[dict[str, Any], str]]:
    """Each answer at the first of its places, and the text that the file gives for it."""
    for answer in question.objects("detected_answers"):
        for span in answer.take("char_spans", list)[:1]:
            is_pair = type(span) is list and list(map(type, span)) == [int, int]
            if not is_pair or not 0 <= span[0] <= span[1] < len(context):
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
