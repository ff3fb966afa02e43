"""The official SQuAD scores, versions 1.1 and 2.0, and the threshold of "no answer".

An answer is compared with each gold answer after both are normalized: lower case, no ASCII
punctuation, no articles, single spaces. *Exact* is 1 if they are equal, *F1* is the harmonic mean
of precision and recall over their words; the best gold answer counts. Scores are percentages.
"""

import collections
import functools
import logging
import re
import string
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from command_line import errors
from tasks.squad import json_layout

_log = logging.getLogger(__name__)

_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation)

References = Mapping[str, Sequence[str]]


def references(
    data: Any, source: str, *, version_2_with_negative: bool = False
) -> dict[str, list[str]]:
    """The gold answers of a parsed file.

    Args:
      data: the parsed JSON.
      source: the file, for messages.
      version_2_with_negative: questions without the key ``is_impossible`` may have no answer.

    Returns:
      Question id → texts; none for an unanswerable question. One with ``is_impossible`` need not
      have the key ``answers``.

    Raises:
      errors.UserError: with the file and the JSON path: another layout, or no question has any
        answer, as in a test set.
    """
    gold: dict[str, list[str]] = {}
    unanswered = []  # questions that should have an answer
    for paragraph in json_layout.paragraphs(data, source):
        for qa in paragraph.objects("qas"):
            qas_id, is_impossible = json_layout.take_id(qa), qa.value.get("is_impossible") is True
            if is_impossible and qa.value.get("answers") is None:  # training accepts it, too
                gold[qas_id] = []
                continue
            gold[qas_id] = [answer.take("text", str) for answer in qa.objects("answers")]
            may_have_none = version_2_with_negative and "is_impossible" not in qa.value
            if not (gold[qas_id] or may_have_none or is_impossible):
                unanswered.append(qas_id)
    if unanswered and len(unanswered) == len(gold):
        raise errors.UserError(
            f"{source}: none of its questions has an answer to compare with; expected some, or no "
            "--do_eval"
        )
    if unanswered:
        line = (
            "%s: %d of %d questions have no answer to compare with, but are not marked "
            "is_impossible; they count %s: %s"
        )
        effect = "as unanswerable" if version_2_with_negative else "0"
        counts = len(unanswered), len(gold)
        _log.warning(line, source, *counts, effect, errors.some(unanswered))
    return gold


@functools.lru_cache(maxsize=1 << 16)
def normalize(text: str) -> str:
    """The normal form in which answers are compared."""
    plain = text.lower().translate(_NO_PUNCTUATION)
    return " ".join(_ARTICLE.sub(" ", plain).split())


def exact(gold: str, predicted: str) -> float:
    """1.0 if the two are equal once normalized, else 0.0."""
    return float(normalize(gold) == normalize(predicted))


def f1(gold: str, predicted: str) -> float:
    """Harmonic mean of precision and recall over words; without words, whether both have none."""
    gold_words, words = normalize(gold).split(), normalize(predicted).split()
    if not gold_words or not words:
        return float(gold_words == words)
    common = (collections.Counter(gold_words) & collections.Counter(words)).total()
    if not common:
        return 0.0
    precision, recall = common / len(words), common / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _best(score: Callable[[str, str], float], golds: Sequence[str], predicted: str) -> float:
    return max((score(gold, predicted) for gold in golds), default=0.0)


def _percent(total: float, count: int) -> float:
    return 100.0 * total / max(count, 1)


def _warn_about_missing(gold: References, predictions: Mapping[str, str], effect: str) -> None:
    missing = [qas_id for qas_id in gold if qas_id not in predictions]
    if missing:
        line = "%d of %d questions have no prediction and %s: %s"
        _log.warning(line, len(missing), len(gold), effect, errors.some(missing))


def score_v1(gold: References, predictions: Mapping[str, str]) -> dict[str, float]:
    """Scores by the rules of version 1.1.

    Args:
      gold: ``references``.
      predictions: question id → text. A question without one counts 0.

    Returns:
      ``exact_match`` and ``f1``.
    """
    _warn_about_missing(gold, predictions, "count 0")
    pairs = [(golds, predictions[key]) for key, golds in gold.items() if key in predictions]
    # In this version a text without words matches nothing, not even another one without words.
    return {
        name: _percent(sum(_best(score, *pair) for pair in pairs), len(gold))
        for name, score in (("exact_match", exact), ("f1", _f1_v1))
    }


def _f1_v1(gold: str, predicted: str) -> float:
    return f1(gold, predicted) if normalize(gold) else 0.0


class _Scored(NamedTuple):
    """The score of a question under version 2.

    Attributes:
      exact, f1: of its prediction.
      has_answer: it is answerable.
      answered: the prediction is not "".
      odds: of "no answer"; None if unknown.
    """

    exact: float
    f1: float
    has_answer: bool
    answered: bool
    odds: float | None


def _score_questions(
    gold: References, predictions: Mapping[str, str], null_odds: Mapping[str, float] | None
) -> list[_Scored]:
    scored = []
    for qas_id, texts in gold.items():
        if qas_id not in predictions:
            continue
        predicted = predictions[qas_id]
        # Gold answers that are empty once normalized, such as "the", are ignored.
        golds = [text for text in texts if normalize(text)] or [""]
        scores = _best(exact, golds, predicted), _best(f1, golds, predicted)
        odds = null_odds.get(qas_id) if null_odds else None
        scored.append(_Scored(*scores, bool(texts), bool(predicted), odds))
    return scored


def score_v2(
    gold: References, predictions: Mapping[str, str], null_odds: Mapping[str, float] | None = None
) -> dict[str, float]:
    """Scores by the rules of version 2.0.

    Args:
      gold: ``references``; a question without gold answers is unanswerable, and "" is correct.
      predictions: question id → text. A question without one is left out.
      null_odds: question id → odds of "no answer", from which the best thresholds are computed.

    Returns:
      ``exact``, ``f1``, ``total``; the same for the answerable (``HasAns_``) and the unanswerable
      (``NoAns_``) questions, if there are any; with odds also ``best_exact``, ``best_f1`` and the
      thresholds at which these predictions reach them, ``best_exact_thresh``, ``best_f1_thresh``.
    """
    _warn_about_missing(gold, predictions, "are left out")
    scored = _score_questions(gold, predictions, null_odds)
    groups = {
        "": scored,
        "HasAns_": [question for question in scored if question.has_answer],
        "NoAns_": [question for question in scored if not question.has_answer],
    }
    results: dict[str, float] = {}
    for prefix, group in groups.items():
        if group or not prefix:
            for name in ("exact", "f1"):
                total = sum(getattr(question, name) for question in group)
                results[f"{prefix}{name}"] = _percent(total, len(group))
            results[f"{prefix}total"] = len(group)
    if null_odds is not None:
        unanswerable = sum(not texts for texts in gold.values())
        for name in ("exact", "f1"):
            best = _official_best(scored, unanswerable, name)
            results[f"best_{name}"], results[f"best_{name}_thresh"] = best
    return results


def _gains(scored: Sequence[_Scored], name: str) -> list[tuple[float, float]]:
    """(odds, change of the sum of scores by answering) of each question, by increasing odds."""
    gains = [
        (x.odds, getattr(x, name) if x.has_answer else -float(x.answered))
        for x in scored
        if x.odds is not None
    ]
    return sorted(gains, key=lambda gain: gain[0])


def _official_best(scored: Sequence[_Scored], unanswerable: int, name: str) -> tuple[float, float]:
    """The best score and its threshold, 0.0 if answering nothing is best. Like the official script,
    it adds questions one by one, even those of equal odds."""
    best = score = float(unanswerable)
    threshold = 0.0
    for odds, gain in _gains(scored, name):
        score += gain
        if score > best:
            best, threshold = score, odds
    return _percent(best, len(scored)), threshold


def tune_threshold(
    gold: References, best_texts: Mapping[str, str], null_odds: Mapping[str, float]
) -> tuple[float, float]:
    """Finds the ``null_score_diff_threshold`` with the best F1.

    Args:
      gold: ``references``.
      best_texts: question id → best text, "" if there is none (``Answers.best_texts``).
      null_odds: question id → odds of "no answer".

    Returns:
      The threshold and the F1 of answering the questions whose odds are not above it. Predicting
      with this threshold gives exactly that F1: questions of equal odds stay together, and if no
      question should be answered, the threshold is below all odds. It is halfway to the odds of the
      next question, so that differences in the last digits of logits change nothing.
    """
    scored = _score_questions(gold, best_texts, null_odds)
    gains = _gains([question for question in scored if question.answered], "f1")
    best = score = float(sum(not question.has_answer for question in scored))
    threshold = gains[0][0] - 1.0 if gains else 0.0
    for index, (odds, gain) in enumerate(gains):
        score += gain
        following = gains[index + 1][0] if index + 1 < len(gains) else odds + 2.0
        if following > odds and score > best:
            middle = (odds + following) / 2
            best, threshold = score, middle if odds <= middle < following else odds
    return threshold, _percent(best, len(scored))
