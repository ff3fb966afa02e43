"""What is predicted how often, and where a threshold is looked for; more in test_run_squad.py."""

import types
from typing import NamedTuple

import numpy as np
import pytest

from command_line import errors, options
from tasks.squad import answers as squad_answers
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import predictor
from training import fine_tuning_flags


class _Data:
    """Two sets, whose answers are known by the model at hand and the set."""

    def __init__(self):
        self.tuned = []

    def features(self, part):
        return types.SimpleNamespace(input_ids=types.SimpleNamespace(lengths=[]), part=part)

    def answers(self, part, logits):
        return squad_answers.Answers({"q": part}, {"q": [_entry(part)]}, {"q": float(logits)})

    def scores(self, part, answers):
        return {"f1": answers.null_odds["q"], "said": answers.predictions["q"]}

    def tune(self, part, answers):
        self.tuned.append((part, answers.null_odds["q"]))
        return answers.null_odds["q"] - 0.5, 50.0


def _entry(text):
    return squad_answers.Entry(text, 1.0, 0.0, 0.0)


class _Scored(NamedTuple):
    """A predictor, and the scores of what it answers."""

    predictor: predictor.Predictor
    data: _Data

    def scores(self, part):
        return self.data.scores(part, self.predictor.answers(part))


class _Trainer:
    is_chief = False
    step = 3
    loaded_checkpoint = "newest"

    @property
    def state(self):
        return self

    def ensure_loaded(self, checkpoint, flag):
        assert flag == "--init_checkpoint"  # which names the members
        self.loaded_checkpoint = checkpoint


@pytest.fixture
def made(monkeypatch):
    """Makes a predictor whose logits are numbers: those of a set are one more than 10."""
    predicted = []
    worth = {"newest": 0.0, "a": 1.0, "b": 4.0}

    def collect(features, _):
        predicted.append((trainer.loaded_checkpoint, features.part))
        if isinstance(worth[trainer.loaded_checkpoint], Exception):
            raise worth[trainer.loaded_checkpoint]
        return worth[trainer.loaded_checkpoint] + (10 if features.part == "dev" else 0)

    monkeypatch.setattr(squad_logits, "collect", collect)
    monkeypatch.setattr(squad_logits, "average", np.mean)
    trainer, data = _Trainer(), _Data()

    def make(members=(), **flags):
        task = squad_options.SquadOptions(version_2_with_negative=True, **flags)
        run = options.RunOptions(output_dir="nowhere")
        flags = fine_tuning_flags.FineTuningFlags(task, None, None, None, None, run, None)
        return _Scored(predictor.Predictor(trainer, data, flags, members), data)

    return types.SimpleNamespace(make=make, predicted=predicted, data=data, worth=worth)


def test_the_threshold_is_tuned_with_the_model_that_predicts(made):
    auto = {"null_score_diff_threshold": "auto", "dev_file": "dev.json"}
    found = made.make(predict_file="p.json", **auto).scores("predict")
    assert made.predicted == [("newest", "predict"), ("newest", "dev")]
    assert made.data.tuned == [("dev", 10.0)]
    assert found == {"f1": 0.0, "said": "predict"}  # 0 is not above 9.5
    made.predicted.clear()
    assert made.make(**auto).scores("dev")["said"] == ""  # 10 is above 9.5
    assert made.predicted == [("newest", "dev")]


def test_one_file_is_not_predicted_twice(made):
    same = {"dev_file": "p.json", "predict_file": "p.json"}
    made.make(null_score_diff_threshold="auto", **same).scores("predict")
    assert made.predicted == [("newest", "predict")]
    assert made.data.tuned == [("dev", 0.0)]


def test_several_models_answer_together_on_both_sets(made):
    auto = {"null_score_diff_threshold": "auto", "dev_file": "dev.json"}
    found = made.make(["a", "b"], predict_file="p.json", **auto).scores("predict")
    assert made.predicted == [
        ("a", "predict"), ("b", "predict"), ("a", "dev"), ("b", "dev")
    ]  # fmt: skip
    assert found["f1"] == 2.5 and made.data.tuned == [("dev", 12.5)]
    made.predicted.clear()
    assert made.make(["a"], predict_file="p.json").scores("predict")["f1"] == 4.0
    assert made.predicted == [("b", "predict")]  # one model is the trainer's matter
    made.worth["a"] = errors.UserError("a logit is nan")
    made.predicted.clear()
    with pytest.raises(errors.UserError, match="^--init_checkpoint=a: a logit is nan"):
        made.make(["a", "b"], predict_file="p.json", **auto).scores("predict")
    assert made.predicted == [("a", "predict")]
