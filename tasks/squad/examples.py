"""Questions over paragraphs: reading files in the layout of SQuAD 1.1 and 2.0.

A context is stored once for all its questions, as text. An answer is a place in that text, found
and checked here; the words and pieces of a context are made later, in other processes.
"""

from __future__ import annotations

import collections
import dataclasses
import logging
import random
import re
import unicodedata
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from command_line import errors
from tasks.squad import json_layout

_log = logging.getLogger(__name__)

ANSWER_POLICIES = ("error", "first", "shortest", "all")

# What separates the words of a context in the original release: less than str.split's white space.
_WORD_SPACE = " \t\r\n\u202f"
_WORD = re.compile(f"[^{_WORD_SPACE}]+")
_NEAR = 5  # characters by which a wrong answer_start may be off and still be corrected
_SHUFFLE_SEED = 12345
_WARNINGS = 10  # lines a reason; the summary counts all


class Question(NamedTuple):
    """A question and, in training, the place of its answer.

    Attributes:
      qas_id: its id in the file.
      text: the question.
      paragraph: index of its context.
      start, end: ``context[start:end]`` is the answer; both -1 where there is none to learn.
      is_impossible: the context does not answer it (version 2 training).
      number: its place in the file, from 0. With ``answer_policy=all`` several have the same.
    """

    qas_id: str
    text: str
    paragraph: int
    start: int = -1
    end: int = -1
    is_impossible: bool = False
    number: int = -1


class Examples(NamedTuple):
    """What a file asks.

    Attributes:
      contexts: texts of the paragraphs.
      questions: in the order in which they are worked on; several share a context.
      summary: what became of the file's questions.
    """

    contexts: Sequence[str]
    questions: Sequence[Question]
    summary: Summary


@dataclasses.dataclass(kw_only=True)
class Summary:
    """What was read, and what became of it; logged at the end of reading training data.

    Attributes:
      questions: in the file.
      examples: made of them.
      impossible: questions that their context does not answer.
      moved: answers that stand a few characters away from their answer_start.
      dropped: reason → ids of the questions left out.
      windows: made of the examples; set by ``squad_features.summarize``, as the three below.
      windows_with_answer: those that hold the whole answer.
      narrowed: answers that are a part of their first or last word, found by their pieces.
      in_no_window: ids of the examples whose answer no window has whole.
    """

    questions: int = 0
    examples: int = 0
    impossible: int = 0
    moved: int = 0
    dropped: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    windows: int = 0
    windows_with_answer: int = 0
    narrowed: int = 0
    in_no_window: list[str] = dataclasses.field(default_factory=list)

    def lines(self) -> Iterator[str]:
        """The summary, ready for the log."""
        lost = sum(map(len, self.dropped.values()))
        yield (
            f"{self.questions} questions, {self.impossible} of them without an answer: kept "
            f"{self.questions - lost} of {self.questions}, skipped {lost}"
        )
        yield (
            f"{self.examples} examples, {self.windows} windows, {self.windows_with_answer} of "
            f"them with the answer; {self.narrowed} answers narrowed to a part of a word, "
            f"{self.moved} moved to where their text stands"
        )
        for reason, ids in self.dropped.items():
            yield f"skipped {len(ids)}, {reason}: {errors.some(ids)}"
        if self.in_no_window:
            ids = self.in_no_window
            yield f"{len(ids)} answers are in no window whole: {errors.some(ids)}"


def words(context: str) -> list[str]:
    """The words of a context: what stands between space, tab, line ends and U+202F."""
    return _WORD.findall(context)


def word_starts(context: str) -> list[int]:
    """Where each of the ``words`` starts in the context."""
    return [match.start() for match in _WORD.finditer(context)]


def shuffled(examples: Examples) -> Examples:
    """The questions in the training order of the original release, which depends only on their
    number."""
    questions = list(examples.questions)
    random.Random(_SHUFFLE_SEED).shuffle(questions)
    return examples._replace(questions=questions)


# --------------------------------------------------------------------------------------------------
# The file
# --------------------------------------------------------------------------------------------------


def read(
    path: str,
    *,
    is_training: bool,
    version_2_with_negative: bool = False,
    answer_policy: str = "error",
) -> Examples:
    """Reads a file; ``parse`` has the rules."""
    return parse(
        json_layout.load(path),
        path,
        is_training=is_training,
        version_2_with_negative=version_2_with_negative,
        answer_policy=answer_policy,
    )


def parse(
    data: Any,
    source: str,
    *,
    is_training: bool,
    version_2_with_negative: bool = False,
    answer_policy: str = "error",
) -> Examples:
    """Makes examples of a parsed file.

    Args:
      data: what the JSON says.
      source: the file, for messages.
      is_training: read the answers too. Otherwise nothing about answers is looked at.
      version_2_with_negative: questions may have no answer (SQuAD 2.0): those with
        ``is_impossible``, and those with neither that key nor answers.
      answer_policy: training takes one answer a question. Where there are more: ``error``; take the
        ``first`` or the ``shortest`` that stands in the context; or make ``all`` distinct ones
        examples.

    Returns:
      The examples in the order of the file. Questions whose answer is not where it should be are
      left out, with a warning and an entry in the summary.

    Raises:
      errors.UserError: with the file and the JSON path: another layout, a missing key, a wrong
        type, answers that do not fit the flags, two questions of one id to predict.
    """
    reader = _Reader(source, is_training, version_2_with_negative, answer_policy)
    contexts: list[str] = []
    questions: list[Question] = []
    for paragraph in json_layout.paragraphs(data, source):
        context = paragraph.take("context", str)
        for qa in paragraph.objects("qas"):
            questions += reader.examples(qa, len(contexts), context)
        contexts.append(context)
    if not reader.summary.questions:
        raise errors.UserError(f"{source}: there is no question in it")
    reader.summary.examples = len(questions)
    reader.report(contexts, questions)
    if not questions:
        raise errors.UserError(
            f"{source}: none of its answers is where answer_start says, so there is nothing to "
            "learn; are the offsets counted in characters?"
        )
    return Examples(contexts, questions, reader.summary)


# --------------------------------------------------------------------------------------------------
# Questions and answers
# --------------------------------------------------------------------------------------------------


class _Reader:
    """Makes examples of questions and keeps count."""

    def __init__(self, source: str, is_training: bool, version_2: bool, answer_policy: str):
        if answer_policy not in ANSWER_POLICIES:
            raise errors.FlagError(
                f"--answer_policy={answer_policy}: expected one of {', '.join(ANSWER_POLICIES)}"
            )
        self.summary = Summary()
        self._source = source
        self._is_training = is_training
        self._version_2 = version_2
        self._policy = answer_policy
        self._warned: collections.Counter[str] = collections.Counter()

    def examples(self, qa: json_layout.Node, paragraph: int, context: str) -> list[Question]:
        """The examples of one question: one, or in training also none or several."""
        question = Question(
            json_layout.take_id(qa),
            qa.take("question", str),
            paragraph,
            number=self.summary.questions,
        )
        self.summary.questions += 1
        if not self._is_training:
            self.summary.impossible += qa.value.get("is_impossible") is True
            return [question]
        if self._is_impossible(qa):
            self.summary.impossible += 1
            return [question._replace(is_impossible=True)]
        answers = list(qa.objects("answers"))
        self._check_number(len(answers), f"{qa.where} (id {question.qas_id})")
        return self._answered(question, answers, context)

    def _is_impossible(self, qa: json_layout.Node) -> bool:
        if not self._version_2:
            return False
        if "is_impossible" not in qa.value:
            return qa.value.get("answers") == []
        return qa.take("is_impossible", bool)

    def _check_number(self, count: int, where: str) -> None:
        if not count and self._version_2:
            raise errors.UserError(
                f"{where} has no answer, but is_impossible is false; expected one of the two"
            )
        if not count:
            raise errors.UserError(
                f"{where} has no answer; files with unanswerable questions need "
                "--version_2_with_negative"
            )
        if count > 1 and self._policy == "error":
            raise errors.UserError(
                f"{where} has {count} answers, but training takes one; is this a dev file? "
                "--answer_policy=first takes the first"
            )

    def _answered(
        self, question: Question, answers: Sequence[json_layout.Node], context: str
    ) -> list[Question]:
        found: dict[tuple[int, int], bool] = {}  # place → is it another than answer_start says
        reason = ""
        for answer in answers:
            text = answer.take("text", str)
            start = answer.take("answer_start", int)
            place = locate(context, text, start)
            if isinstance(place, str):
                reason = reason or place
                self._warn(place, question.qas_id, text, start)
            else:
                lead = len(text) - len(text.lstrip())
                found.setdefault(place, not start <= place[0] <= start + lead)
        if not found:
            self.summary.dropped.setdefault(reason, []).append(question.qas_id)
            return []
        places = list(found)
        if self._policy == "shortest":
            places.sort(key=lambda place: place[1] - place[0])
        if self._policy != "all":
            del places[1:]
        self.summary.moved += sum(found[place] for place in places)
        return [question._replace(start=start, end=end) for start, end in places]

    def _warn(self, reason: str, qas_id: str, text: str, start: int) -> None:
        self._warned[reason] += 1
        if self._warned[reason] <= _WARNINGS:
            _log.warning(
                "%s: question %s skips answer %r at %d: %s",
                self._source,
                qas_id,
                text,
                start,
                reason,
            )

    def report(self, contexts: Sequence[str], questions: Sequence[Question]) -> None:
        """Logs what else is odd about the file, at its end."""
        first: dict[str, Question] = {}
        repeated = []
        for question in questions:
            other = first.setdefault(question.qas_id, question)
            if other is question or (self._is_training and self._policy == "all"):
                continue
            repeated.append(question.qas_id)
            same = (contexts[other.paragraph], other.text) == (
                contexts[question.paragraph],
                question.text,
            )
            if not self._is_training and not same:
                raise errors.UserError(
                    f"{self._source}: two different questions have the id {question.qas_id}, so "
                    "one of their answers would be lost; give each an id of its own"
                )
        if repeated:
            _log.warning("%s repeats question ids: %s", self._source, errors.some(repeated))
        empty = [q.qas_id for q in questions if not _has_text(contexts[q.paragraph])]
        if empty:
            _log.warning(
                "%s: the context is empty for questions %s", self._source, errors.some(empty)
            )
        if not self._is_training and not self._version_2 and self.summary.impossible:
            _log.warning(
                "%s has %d unanswerable questions (is_impossible), but each will get an answer; "
                "--version_2_with_negative allows none",
                self._source,
                self.summary.impossible,
            )


def _has_text(context: str) -> bool:
    """Whether the tokenizer leaves something of a context; the first character mostly tells."""
    return any(
        char not in "\0\ufffd" and unicodedata.category(char) not in ("Cc", "Cf", "Zs")
        for char in context
    )


def locate(context: str, text: str, start: int) -> tuple[int, int] | str:
    """Finds an answer in its context.

    Args:
      context: the paragraph.
      text: the answer. White space may differ from the context's in kind and number.
      start: where it should begin. A few characters more or less are corrected where that can mean
        but one place.

    Returns:
      Start and end, without white space around; or why there is no such place.
    """
    parts = text.split()
    if not parts:
        return "the answer is empty"
    if not 0 <= start < len(context):
        return "answer_start is outside the context"
    if context.startswith(text, start):
        # White space that does not separate words stays, being part of a word.
        inner = text.strip(_WORD_SPACE)
        start += len(text) - len(text.lstrip(_WORD_SPACE))
        return start, start + len(inner)
    pattern = re.compile(r"\s+".join(map(re.escape, parts)))
    exact = pattern.match(context, start)  # only the kind of white space differs
    if exact:
        return exact.span()
    around = range(max(start - _NEAR, 0), start + _NEAR + 1)
    places = [match.span() for at in around if (match := pattern.match(context, at))]
    if not places:
        return "the answer is not at its answer_start"
    if len(places) > 1:
        return "the answer is near its answer_start, but more than once"
    return places[0]
