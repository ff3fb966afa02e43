"""Questions over paragraphs: reading files in the layout of SQuAD 1.1 and 2.0.

A context is stored once for all of its questions, as text. An answer is a range of characters in
it, found and checked here; contexts are split into words and pieces later, in other processes.
"""

import collections
import dataclasses
import logging
import random
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import tokenization
from command_line import errors
from tasks.squad import json_layout
from tasks.squad import options as squad_options

_log = logging.getLogger(__name__)

# The only characters that separate words in the original release; str.split knows more.
_WORD_SPACE = " \t\r\n\u202f"
_WORD = re.compile(f"[^{_WORD_SPACE}]+")
_MAX_START_ERROR = 5  # an answer_start that is off by at most this many characters is corrected
_SHUFFLE_SEED = 12345
_MAX_WARNINGS = 10  # lines per reason; the summary counts all cases


class Question(NamedTuple):
    """A question and, in training, its answer.

    Attributes:
      qas_id: its id in the file.
      text: the question.
      paragraph: index of its context.
      start, end: ``context[start:end]`` is the answer; both -1 if there is none to learn.
      is_impossible: the context does not answer it (version 2 training).
      number: its index in the file. With ``answer_policy=all`` several examples share it.
    """

    qas_id: str
    text: str
    paragraph: int
    start: int = -1
    end: int = -1
    is_impossible: bool = False
    number: int = -1


class Examples(NamedTuple):
    """The contents of a file.

    Attributes:
      contexts: texts of the paragraphs.
      questions: in the order of training or prediction; several share a context.
      summary: what became of the file's questions.
    """

    contexts: Sequence[str]
    questions: Sequence[Question]
    summary: "Summary"


@dataclasses.dataclass(kw_only=True)
class Summary:
    """Numbers of questions, examples and windows; logged once training data is read.

    Attributes:
      questions: in the file.
      examples: made of them.
      impossible: questions that their context does not answer.
      moved: answers that were found a few characters away from their answer_start.
      dropped: reason → ids of the questions left out.
      windows: made of the examples; this and what follows is set by ``squad_features.summarize``.
      windows_with_answer: windows that contain the whole answer.
      narrowed: answers that are a part of their first or last word, found by their pieces.
      in_no_window: ids of the examples whose answer no window contains whole.
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
            f"{self.moved} moved to where their text is"
        )
        for reason, ids in self.dropped.items():
            yield f"skipped {len(ids)}, {reason}: {errors.some(ids)}"
        if self.in_no_window:
            ids = self.in_no_window
            yield f"{len(ids)} answers are in no window whole: {errors.some(ids)}"


def words(context: str) -> list[str]:
    """The words of a context, separated by space, tab, line ends and U+202F."""
    return _WORD.findall(context)


def word_starts(context: str) -> list[int]:
    """The position of each of the ``words`` in the context."""
    return [match.start() for match in _WORD.finditer(context)]


def shuffled(examples: Examples) -> Examples:
    """The questions in the training order of the original release, which depends only on their
    number."""
    questions = list(examples.questions)
    random.Random(_SHUFFLE_SEED).shuffle(questions)
    return examples._replace(questions=questions)


def read(path: str, **flags: Any) -> Examples:
    """Reads a file; ``flags`` are those of ``parse``."""
    return parse(json_layout.load_questions(path), path, **flags)


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
      data: the parsed JSON.
      source: the file, for messages.
      is_training: read the answers too. Otherwise everything about answers is ignored.
      version_2_with_negative: questions may have no answer (SQuAD 2.0): those with
        ``is_impossible``, and those with neither that key nor answers.
      answer_policy: training takes one answer per question. If there are more: ``error``; take the
        ``first`` or the ``shortest`` of those in the context; or make examples of ``all`` distinct
        ones.

    Returns:
      The examples in the order of the file. Questions whose answer is not found in the context are
      left out, with a warning and an entry in the summary.

    Raises:
      errors.UserError: with the file and the JSON path: another layout, a missing key, a wrong
        type, answers that do not fit the flags.
    """
    if answer_policy not in squad_options.ANSWER_POLICIES:
        policies = ", ".join(squad_options.ANSWER_POLICIES)
        raise errors.FlagError(f"--answer_policy={answer_policy}: expected one of {policies}")
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


@dataclasses.dataclass
class _Reader:
    """Makes examples of questions and counts them; the first fields are arguments of ``parse``."""

    source: str
    is_training: bool
    version_2: bool
    policy: str
    summary: Summary = dataclasses.field(default_factory=Summary)
    warned: collections.Counter[str] = dataclasses.field(default_factory=collections.Counter)
    emptied: list[str] = dataclasses.field(default_factory=list)  # ids of those with empty answers

    def examples(self, qa: json_layout.Node, paragraph: int, context: str) -> list[Question]:
        """The examples of one question: one, or in training possibly none or several."""
        qas_id, text = json_layout.take_id(qa), qa.take("question", str)
        question = Question(qas_id, text, paragraph, number=self.summary.questions)
        self.summary.questions += 1
        if not self.is_training:
            self.summary.impossible += qa.value.get("is_impossible") is True
            return [question]
        if self._is_impossible(qa):
            self.summary.impossible += 1
            return [question._replace(is_impossible=True)]
        answers = list(qa.objects("answers"))
        texts = [answer.take("text", str) for answer in answers]
        if self.version_2 and texts and not any(map(tokenization.has_text, texts)):
            self.summary.impossible += 1
            self.emptied.append(qas_id)
            return [question._replace(is_impossible=True)]
        self._check_number(len(answers), f"{qa.where} (id {qas_id})")
        return self._answered(question, answers, context)

    def _is_impossible(self, qa: json_layout.Node) -> bool:
        if not self.version_2:
            return False
        if "is_impossible" not in qa.value:
            return qa.value.get("answers") == []
        return qa.take("is_impossible", bool)

    def _check_number(self, count: int, where: str) -> None:
        if not count:
            hint = "; files with unanswerable questions need --version_2_with_negative"
            if self.version_2:
                hint = ", but is_impossible is false; expected one of the two"
            raise errors.UserError(f"{where} has no answer{hint}")
        if count > 1 and self.policy == "error":
            raise errors.UserError(
                f"{where} has {count} answers, but training takes one; is this a dev file? "
                "--answer_policy=first takes the first"
            )

    def _answered(
        self, question: Question, answers: Sequence[json_layout.Node], context: str
    ) -> list[Question]:
        is_moved: dict[tuple[int, int], bool] = {}  # span → it does not start at answer_start
        reason = ""
        for answer in answers:
            text = answer.take("text", str)
            start = answer.take("answer_start", int)
            span = locate_answer(context, text, start)
            if isinstance(span, str):
                reason = reason or span
                self.warned[span] += 1
                if self.warned[span] <= _MAX_WARNINGS:
                    line = "%s: question %s skips answer %r at %d: %s"
                    _log.warning(line, self.source, question.qas_id, text, start, span)
            else:
                leading_space = len(text) - len(text.lstrip())
                is_moved.setdefault(span, not start <= span[0] <= start + leading_space)
        if not is_moved:
            self.summary.dropped.setdefault(reason, []).append(question.qas_id)
            return []
        spans = list(is_moved)
        if self.policy == "shortest":
            spans.sort(key=lambda span: span[1] - span[0])
        if self.policy != "all":
            del spans[1:]
        self.summary.moved += sum(is_moved[span] for span in spans)
        return [question._replace(start=start, end=end) for start, end in spans]

    def report(self, contexts: Sequence[str], questions: Sequence[Question]) -> None:
        """Logs other irregularities of the file: repeated ids, empty texts, unused answers."""
        first: dict[str, Question] = {}
        repeated = []
        for question in questions:
            other = first.setdefault(question.qas_id, question)
            if other is question or (self.is_training and self.policy == "all"):
                continue
            repeated.append(question.qas_id)
        if repeated:
            effect = "" if self.is_training else "; the last question of an id gives its answer"
            counts = len(questions), len(first)
            line = "%s: %d questions, %d ids%s; repeated: %s"
            _log.warning(line, self.source, *counts, effect, errors.some(repeated))
        self._report_empty("context", [(q.qas_id, contexts[q.paragraph]) for q in questions])
        self._report_empty("question", [(q.qas_id, q.text) for q in questions])
        if ids := self.emptied:
            line = "%s: %d of %d questions have an empty answer and count as unanswerable: %s"
            _log.warning(line, self.source, len(ids), self.summary.questions, errors.some(ids))
        if not self.is_training and not self.version_2 and self.summary.impossible:
            line = (
                "%s has %d unanswerable questions (is_impossible), but each will get an answer; "
                "--version_2_with_negative allows none"
            )
            _log.warning(line, self.source, self.summary.impossible)

    def _report_empty(self, what: str, texts: Iterable[tuple[str, str]]) -> None:
        empty = list(
            dict.fromkeys(qas_id for qas_id, text in texts if not tokenization.has_text(text))
        )
        if empty:
            line = "%s: the %s of %d of %d questions is empty: %s"
            counts = len(empty), self.summary.questions
            _log.warning(line, self.source, what, *counts, errors.some(empty))


def locate_answer(context: str, text: str, start: int) -> tuple[int, int] | str:
    """Finds an answer in its context.

    Args:
      context: the paragraph.
      text: the answer. Its white space may be other characters, or more or fewer, than in context.
      start: its expected start. An error of a few characters is corrected if only one occurrence is
        that close.

    Returns:
      Start and end, without surrounding white space; or the reason why it is not found.
    """
    parts = text.split()
    if not parts or not tokenization.has_text(text):
        return "the answer is empty"
    if not 0 <= start < len(context):
        return "answer_start is outside the context"
    if context.startswith(text, start):
        # Strips only white space that separates words; other white space is part of a word.
        inner = text.strip(_WORD_SPACE)
        start += len(text) - len(text.lstrip(_WORD_SPACE))
        return start, start + len(inner)
    pattern = re.compile(r"\s+".join(map(re.escape, parts)))
    exact = pattern.match(context, start)  # only the kind of white space differs
    if exact:
        return exact.span()
    nearby = range(max(start - _MAX_START_ERROR, 0), start + _MAX_START_ERROR + 1)
    spans = [match.span() for at in nearby if (match := pattern.match(context, at))]
    if not spans:
        return "the answer is not at its answer_start"
    if len(spans) > 1:
        return "the answer is near its answer_start, but more than once"
    return spans[0]
