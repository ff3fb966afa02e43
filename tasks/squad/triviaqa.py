"""The Wikipedia part of TriviaQA, converted to the layout of SQuAD.

BERT's best SQuAD model was first fine-tuned on TriviaQA: on the first 400 tokens of the Wikipedia
documents that contain one of the answers (paper, section 4.2).
"""

import itertools
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from command_line import errors
from system import inputs
from tasks.squad import json_layout

_log = logging.getLogger(__name__)

_LAYOUT = "TriviaQA"
_TOKEN = re.compile(r"\S+")


def read(path: str, evidence_dir: str, max_tokens: int, output: str = "") -> dict[str, Any]:
    """Converts a question file to the contents of a SQuAD file.

    Args:
      path: such as ``qa/wikipedia-train.json``.
      evidence_dir: folder of the documents, such as ``evidence/wikipedia``.
      max_tokens: how many white-space tokens of a document to take.
      output: real path of the file that will be written, which must not be a document.

    Returns:
      A paragraph and a question for each document with an answer among its first tokens. The answer
      is the first occurrence of one of its names as whole words, in any case; the id consists of
      the question's id and the document's name.

    Raises:
      errors.UserError: there is no such folder, the file has another layout, or no question could
        be made of it.
      errors.FlagError: ``output`` is a document.
    """
    if "://" not in evidence_dir and not os.path.isdir(evidence_dir):
        raise errors.UserError(
            f"--evidence_dir={evidence_dir} is not a directory; expected the folder of the "
            "unpacked evidence, such as evidence/wikipedia"
        )
    questions = _Questions(path, evidence_dir, max_tokens, output)
    paragraphs = list(questions.paragraphs())
    questions.report(len(paragraphs))
    return {"version": "1.1", "data": [{"title": "TriviaQA", "paragraphs": paragraphs}]}


class _Questions:
    """Reads a question file and its documents, and counts them."""

    def __init__(self, path: str, evidence_dir: str, max_tokens: int, output: str):
        self._path = path
        self._output = output
        self._evidence_dir = evidence_dir
        self._max_tokens = max_tokens
        self._count = self._documents = self._repeated = self._of_the_web = 0
        self._missing: list[str] = []
        self._ids: set[str] = set()

    def paragraphs(self) -> Iterator[dict[str, Any]]:
        data = json_layout.load(self._path, _LAYOUT)
        for item in json_layout.top_level(data, self._path, "Data", _LAYOUT).objects("Data"):
            self._count += 1
            question_id = item.take("QuestionId", str)
            question = item.take("Question", str)
            names = _names(item.child("Answer"))
            for page in self._pages(item):
                context = self._document(page)
                match = names.search(context) if context else None
                if match:
                    qas_id = self._check_id(f"{question_id}--{page}", item)
                    answer = {"text": match.group(), "answer_start": match.start()}
                    qa = {"id": qas_id, "question": question, "answers": [answer]}
                    yield {"context": context, "qas": [qa]}

    def _pages(self, item: json_layout.Node) -> list[str]:
        """The documents of a question, each once."""
        if "SearchResults" in item.value and "EntityPages" not in item.value:
            raise errors.UserError(
                f"{item.where} has SearchResults, but no EntityPages; of TriviaQA the Wikipedia "
                "part is read, such as qa/wikipedia-train.json, not the web part"
            )
        self._of_the_web += bool(item.value.get("SearchResults"))
        pages = [page.take("Filename", str) for page in item.objects("EntityPages")]
        unique = list(dict.fromkeys(pages))
        self._repeated += len(pages) - len(unique)
        return unique

    def _check_id(self, qas_id: str, item: json_layout.Node) -> str:
        if qas_id in self._ids:
            raise errors.UserError(
                f"{item.where} has the QuestionId and a document of an earlier question, which "
                f"makes two of the id {qas_id}; give each question an id of its own"
            )
        self._ids.add(qas_id)
        return qas_id

    def _document(self, name: str) -> str:
        """The beginning of a document; "" if there is none."""
        self._documents += 1
        path = os.path.join(self._evidence_dir, name)
        if "://" not in path and not os.path.isfile(path):
            self._missing.append(path)
            return ""
        if os.path.realpath(path) == self._output:
            raise errors.FlagError(f"--output_file: {path} is also read; give another name")
        text = b"\n".join(inputs.read_lines(path)).decode("utf-8", "ignore")
        ends = [token.end() for token in itertools.islice(_TOKEN.finditer(text), self._max_tokens)]
        return text[: max(ends, default=0)]

    def report(self, made: int) -> None:
        """Logs how many documents were read, and how many questions were made of them.

        Raises:
          errors.UserError: none was made.
        """
        if not self._count:
            raise errors.UserError(f"{self._path}: there is no question in it")
        line = (
            "%s: %d documents of %d questions; %d with an answer in their first %d tokens, %d "
            "missing, %d listed again"
        )
        counts = (self._documents, self._count, made, self._max_tokens, len(self._missing))
        _log.info(line, self._path, *counts, self._repeated)
        if self._missing:
            _log.warning("no such document: %s", errors.some(self._missing))
        if self._of_the_web:
            line = (
                "%s: %d questions have SearchResults, documents of the web, which are not read; "
                "only EntityPages are"
            )
            _log.warning(line, self._path, self._of_the_web)
        if not made:
            raise errors.UserError(
                f"{self._path}: none of its {self._documents} documents is in {self._evidence_dir} "
                "and has an answer; expected the folder of the unpacked evidence, such as "
                "evidence/wikipedia"
            )


def _names(answer: json_layout.Node) -> re.Pattern[str]:
    """Matches any name of an answer as whole words; the longest of those that start together."""
    names = [answer.take("Value", str)]
    for key in ("Aliases", "NormalizedAliases"):
        if key == "Aliases" or key in answer.value:
            names += [name for _, name in answer.items(key, str)]
    patterns = {r"\s+".join(map(re.escape, words)) for words in map(str.split, names) if words}
    longest_first = sorted(patterns, key=lambda pattern: (-len(pattern), pattern))
    return re.compile(rf"(?<!\w)(?:{'|'.join(longest_first) or '(?!)'})(?!\w)", re.IGNORECASE)
