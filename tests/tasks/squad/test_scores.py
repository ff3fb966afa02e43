"""Scores by the official rules, against published ones and worked by hand."""

import json
import random

import pytest

import squad_files
from command_line import errors
from tasks.squad import json_layout
from tasks.squad import scores as squad_scores


@pytest.mark.parametrize(
    ("name", "exact_match", "f1"),
    [
        ("rnet_ensemble", 82.46925260170293, 88.47785965423249),
        ("logreg_baseline", 40.14191106906339, 50.98153647324461),
    ],
)
def test_published_scores_of_version_1(shared, name, exact_match, f1):
    data = json_layout.load(str(shared / "data" / "squad" / "dev-v1.1.json"))
    predictions = json.loads((shared / "data" / "scoring" / f"v1.1_{name}.json").read_text())
    results = squad_scores.score_v1(squad_scores.references(data, "dev"), predictions)
    assert results == {
        "exact_match": pytest.approx(exact_match, abs=1e-9),
        "f1": pytest.approx(f1, abs=1e-9),
    }


def test_published_scores_of_version_2(shared):
    data = json_layout.load(str(shared / "data" / "squad" / "dev-v2.0.json"))
    path = shared / "data" / "scoring" / "v2.0_BiDAF_SA_ELMo.json"
    gold, predictions = squad_scores.references(data, "dev"), json.loads(path.read_text())
    results = squad_scores.score_v2(gold, predictions)
    assert results["exact"] == pytest.approx(65.70369746483618, abs=1e-9)
    assert results["f1"] == pytest.approx(67.87648921451334, abs=1e-9)
    assert results["total"] == len(gold) == 11873
    assert results["HasAns_total"] + results["NoAns_total"] == 11873
    for name in ("exact", "f1"):
        parts = sum(
            results[f"{part}_{name}"] * results[f"{part}_total"] for part in ("HasAns", "NoAns")
        )
        assert parts / 11873 == pytest.approx(results[name], abs=1e-9)


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("The  Cat's a-Hat.", "cats ahat"),
        ("an apple, THE pear", "apple pear"),
        ("theatre a1 banana", "theatre a1 banana"),
        ("“Zoë”", "“zoë”"),  # only ASCII punctuation goes
        ("the", ""),
        (" x\u00a0y\n", "x y"),
    ],
)
def test_normal_form(text, normal):
    assert squad_scores.normalize(text) == normal


def test_f1_by_hand():
    assert squad_scores.f1("in the old town", "old town hall") == pytest.approx(2 / 3)
    assert squad_scores.f1("b b c", "b d") == pytest.approx(2 * (1 / 2) * (1 / 3) / (1 / 2 + 1 / 3))
    assert squad_scores.f1("x", "y") == 0.0
    assert squad_scores.f1("", "the") == 1.0
    assert squad_scores.f1("", "x") == squad_scores.f1("x", "") == 0.0


def test_version_1_by_hand(caplog):
    gold = {"a": ["Rome", "the city of Rome"], "b": ["old"], "c": ["x"], "d": ["the"]}
    predictions = {"a": "City of Rome!", "b": "very old", "d": "a", "extra": "?"}
    results = squad_scores.score_v1(gold, predictions)
    # a 1, b 0, c missing 0; d is equal once normalized, yet without a word in common.
    assert results["exact_match"] == pytest.approx(50.0)
    assert results["f1"] == pytest.approx(100 * (1 + 2 / 3 + 0 + 0) / 4)
    assert "1 of 4 questions have no prediction and count 0: c" in caplog.text
    assert squad_scores.score_v1({}, {}) == {"exact_match": 0.0, "f1": 0.0}


def test_version_2_by_hand(caplog):
    gold = {"a": ["Rome"], "b": [], "c": [], "d": ["the", "old town"], "e": ["x"], "f": ["the"]}
    predictions = {"a": "Rome", "b": "", "c": "town", "d": "town", "f": ""}
    results = squad_scores.score_v2(gold, predictions)
    groups = ("", "HasAns_", "NoAns_")
    assert list(results) == [f"{g}{name}" for g in groups for name in ("exact", "f1", "total")]
    assert results["total"] == 5
    assert results["exact"] == pytest.approx(60.0)  # a, b and f
    assert results["f1"] == pytest.approx(100 * (3 + 2 / 3) / 5)
    assert results["HasAns_f1"] == pytest.approx(100 * (2 + 2 / 3) / 3)
    assert results["NoAns_exact"] == results["NoAns_f1"] == pytest.approx(50.0)
    assert "1 of 6 questions have no prediction and are left out: e" in caplog.text
    only = squad_scores.score_v2({"a": ["Rome"]}, {"a": "Rome"})
    assert "NoAns_total" not in only and only["HasAns_total"] == 1


GOLD = {"a": ["one"], "b": [], "c": ["two three"], "d": [], "e": ["four"]}
TEXTS = {"a": "one", "b": "x", "c": "two", "d": "y", "e": "z"}
ODDS = {"a": -5.0, "b": -1.0, "c": -2.0, "d": 4.0, "e": 2.0}


def test_best_thresholds_by_hand():
    # From "nothing answered", 2 of 5: a +1, c +0 exact or +2/3 F1, b -1, e +0, d -1.
    results = squad_scores.score_v2(GOLD, TEXTS, ODDS)
    assert results["best_exact"] == pytest.approx(60.0)
    assert results["best_exact_thresh"] == -5.0
    assert results["best_f1"] == pytest.approx(100 * (3 + 2 / 3) / 5)
    assert results["best_f1_thresh"] == -2.0
    # Predictions that are "" already cost nothing.
    results = squad_scores.score_v2(GOLD, TEXTS | {"b": "", "e": "four"}, ODDS)
    assert (results["best_exact"], results["best_exact_thresh"]) == (pytest.approx(80.0), 2.0)
    nothing = squad_scores.score_v2({"b": [], "e": ["four"]}, TEXTS, ODDS)
    assert (nothing["best_f1"], nothing["best_f1_thresh"]) == (50.0, 0.0)


def test_threshold_lies_between_the_questions():
    threshold, f1 = squad_scores.tune_threshold(GOLD, TEXTS, ODDS)
    assert threshold == -1.5  # halfway from c to b
    assert f1 == pytest.approx(100 * (3 + 2 / 3) / 5)


def _f1_at(gold, texts, odds, threshold):
    shown = {qas_id: "" if odds[qas_id] > threshold else text for qas_id, text in texts.items()}
    return squad_scores.score_v2(gold, shown)["f1"]


@pytest.mark.parametrize("seed", range(30))
def test_predicting_with_the_threshold_gives_the_best_f1(seed):
    generator = random.Random(seed)
    ids = [str(k) for k in range(generator.randint(1, 25))]
    words = ["one", "two", "three", "one two", "two three four"]
    gold = {k: [generator.choice(words)] if generator.random() < 0.5 else [] for k in ids}
    texts = {k: generator.choice([*words, ""]) for k in ids}
    # Few values, so that many odds are equal; a question without a text has odds above all.
    odds = {k: float(generator.randint(-3, 3)) if texts[k] else 1e6 for k in ids}
    threshold, f1 = squad_scores.tune_threshold(gold, texts, odds)
    assert _f1_at(gold, texts, odds, threshold) == pytest.approx(f1, abs=1e-9)
    tried = [_f1_at(gold, texts, odds, at) for at in (-9.0, *(k + 0.5 for k in range(-4, 4)))]
    assert f1 == pytest.approx(max(tried), abs=1e-9)
    assert abs(threshold) < 10


def test_neighbouring_floats_have_no_middle():
    odds = {"a": 1.0000000000000002, "b": 1.0000000000000004}
    threshold, f1 = squad_scores.tune_threshold({"a": ["x"], "b": []}, {"a": "x", "b": "x"}, odds)
    assert f1 == 100.0
    assert odds["a"] <= threshold < odds["b"]


def test_references():
    data = squad_files.data(
        ("Rome", [squad_files.question("a", ("R", 0), ("Rome", 0)), squad_files.question("b")])
    )
    assert squad_scores.references(data, "f") == {"a": ["R", "Rome"], "b": []}
    second = data["data"][0]["paragraphs"][0]["qas"][1]
    del second["answers"]
    with pytest.raises(errors.UserError, match=r"f: data\[0\].*qas\[1\] has no 'answers'"):
        squad_scores.references(data, "f")
    second["is_impossible"] = True  # training takes it, too
    assert squad_scores.references(data, "f") == {"a": ["R", "Rome"], "b": []}
    second["is_impossible"] = False
    with pytest.raises(errors.UserError, match="has no 'answers'"):
        squad_scores.references(data, "f")
