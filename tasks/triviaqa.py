"""Question sets of other layouts, brought into that of SQuAD: TriviaQA, and the MRQA collection.

BERT's best SQuAD results were first fine-tuned on TriviaQA: on the first 400 tokens of those
Wikipedia documents that have one of the answers (paper, section 4.2).
"""

from __future__ import annotations

import json
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import errors
import inputs
from tasks import squad_json

_log = logging.getLogger(__name__)

MAX_TOKENS = 400
_TOKEN = re.compile(r"\S+")


def convert_triviaqa(path: str, evidence_dir: str, max_tokens: int = MAX_TOKENS) -> dict[str, Any]:
    """Makes a SQuAD file's content of TriviaQA's Wikipedia part.

    Args:
      path: the question file, such as ``qa/wikipedia-train.json``.
      evidence_dir: where the documents are, such as ``evidence/wikipedia``.
      max_tokens: how many white-space tokens of a document to take.

    Returns:
      A paragraph and a question for each document that has an answer in its beginning. The answer
      is the first place where one of its names stands as whole words, in any case; the id is that
      of the question and the name of the document.

    Raises:
      errors.UserError: the file has another layout, or nothing could be made of it.
    """
    questions = _Questions(path, evidence_dir, max_tokens)
    paragraphs = list(questions.paragraphs())
    _log.info(
        "%s: %d documents of %d questions; %d with an answer in their first %d tokens, %d missing",
        path,
        questions.documents,
        questions.count,
        len(paragraphs),
        max_tokens,
        len(questions.missing),
    )
    if questions.missing:
        _log.warning("no such document: %s", ", ".join(questions.missing[:5]))
    if not paragraphs:
        raise errors.UserError(
            f"{path}: none of its {questions.documents} documents is in {evidence_dir} and has an "
            "answer; expected the folder of the unpacked evidence, such as evidence/wikipedia"
        )
    return {"version": "1.1", "data": [{"title": "TriviaQA", "paragraphs": paragraphs}]}


class _Questions:
    """Walks through a question file and keeps count."""

    def __init__(self, path: str, evidence_dir: str, max_tokens: int):
        self._path = path
        self._evidence_dir = evidence_dir
        self._max_tokens = max_tokens
        self.count = self.documents = 0
        self.missing: list[str] = []

    def paragraphs(self) -> Iterator[dict[str, Any]]:
        source = self._path
        data = squad_json.load(source)
        if not isinstance(data, dict):
            raise errors.UserError(f"{source}: expected an object with the key 'Data' (TriviaQA)")
        for at, item in squad_json.each(data, "Data", "", source):
            self.count += 1
            qas_id = squad_json.take(item, "QuestionId", str, at, source)
            question = squad_json.take(item, "Question", str, at, source)
            answer = squad_json.take(item, "Answer", dict, at, source)
            names = _names(answer, f"{at}.Answer", source)
            for page_at, page in squad_json.each(item, "EntityPages", at, source):
                name = squad_json.take(page, "Filename", str, page_at, source)
                context = self._document(name)
                found = names.search(context) if context else None
                if found:
                    place = {"text": found.group(), "answer_start": found.start()}
                    qa = {"id": f"{qas_id}--{name}", "question": question, "answers": [place]}
                    yield {"context": context, "qas": [qa]}

    def _document(self, name: str) -> str:
        """The beginning of a document; "" if there is none."""
        self.documents += 1
        path = os.path.join(self._evidence_dir, name)
        if "://" not in path and not os.path.isfile(path):
            self.missing.append(path)
            return ""
        text = b"\n".join(inputs.read_lines(path)).decode("utf-8", "ignore")
        end = 0
        for count, token in enumerate(_TOKEN.finditer(text), start=1):
            end = token.end()
            if count == self._max_tokens:
                break
        return text[:end]


def _names(answer: Mapping[str, Any], at: str, source: str) -> re.Pattern[str]:
    """Finds any name of an answer as whole words; of those that begin together, the longest."""
    names = [
        squad_json.take(answer, "Value", str, at, source),
        *squad_json.take(answer, "Aliases", list, at, source),
        *answer.get("NormalizedAliases", []),
    ]
    parts = (str(name).split() for name in names)
    patterns = {r"\s+".join(map(re.escape, words)) for words in parts if words}
    longest_first = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest_first) or '(?!)'})(?!\w)", re.IGNORECASE)


def read_mrqa(path: str) -> dict[str, Any]:
    """Makes a SQuAD file's content of a file of the MRQA 2019 collection.

    Args:
      path: JSON lines, perhaps ``.gz``: a header, then a context with its questions each.

    Returns:
      All questions; each detected answer with its first place, so that training needs
      ``answer_policy`` where there are several.

    Raises:
      errors.UserError: with the line: it is no JSON, or has another layout.
    """
    paragraphs = []
    for number, line in enumerate(inputs.read_lines(path), start=1):
        source = f"{path}:{number}"
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except ValueError as error:
            raise errors.UserError(f"{source}: not JSON: {error}") from None
        if not isinstance(item, dict):
            raise errors.UserError(f"{source}: expected an object with a context and qas (MRQA)")
        if number == 1 and "header" in item:
            continue
        context = squad_json.take(item, "context", str, "", source)
        qas = [
            {
                "id": squad_json.take(qa, "qid", str, at, source),
                "question": squad_json.take(qa, "question", str, at, source),
                "answers": list(_spans(context, qa, at, source)),
            }
            for at, qa in squad_json.each(item, "qas", "", source)
        ]
        paragraphs.append({"context": context, "qas": qas})
    if not paragraphs:
        raise errors.UserError(f"{path}: there is no context in it")
    return {"version": "1.1", "data": [{"title": "MRQA", "paragraphs": paragraphs}]}


def _spans(context: str, qa: Mapping[str, Any], at: str, source: str) -> Iterator[dict[str, Any]]:
    """The first place of each answer."""
    for answer_at, answer in squad_json.each(qa, "detected_answers", at, source):
        for span in squad_json.take(answer, "char_spans", list, answer_at, source)[:1]:
            first, last = span if isinstance(span, list) and len(span) == 2 else (-1, -1)
            if not (isinstance(first, int) and 0 <= first <= last < len(context)):
                raise errors.UserError(
                    f"{source}: {answer_at}.char_spans[0] is {span}; expected first and last "
                    f"character in a context of {len(context)}"
                )
            # The last character belongs to the answer.
            yield {"text": context[first : last + 1], "answer_start": first}
