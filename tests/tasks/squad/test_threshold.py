"""The file of a threshold, and which model it is of."""

import json

import numpy as np
import pytest

from command_line import errors
from tasks.squad import threshold


def _weights(seed):
    random = np.random.default_rng(seed)
    shapes = {"cls/squad/output_weights": (2, 4), "cls/squad/output_bias": (2,)}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _write(path, model, value=-1.25):
    threshold.write(str(path), value, f1=76.3, dev_file="dev.json", step=42, model=model)


def test_a_digest_tells_models_apart():
    one, two = _weights(1), _weights(2)
    assert threshold.digest([one]) == threshold.digest([dict(one)])
    assert threshold.digest([one]) != threshold.digest([two])
    both = threshold.digest([one, two])
    assert both == threshold.digest(iter([two, one]))
    assert both not in (threshold.digest([one]), threshold.digest([two]))
    changed = {**one, "cls/squad/output_bias": one["cls/squad/output_bias"] + 1e-6}
    assert threshold.digest([changed]) != threshold.digest([one])


def test_the_threshold_of_the_model_is_found(tmp_path):
    places = [str(tmp_path / "nowhere"), str(tmp_path), f"file://{tmp_path}"]
    assert threshold.find(places, "a") is None
    first, second = tmp_path / "null_threshold.json", tmp_path / "null_threshold-4.json"
    _write(first, "a")
    _write(second, "b", 3.0)
    (tmp_path / "null_threshold-x.json").write_text("{")
    assert json.loads(first.read_text()) == {
        "null_score_diff_threshold": -1.25, "f1": 76.3, "dev_file": "dev.json", "global_step": 42,
        "model": "a",
    }  # fmt: skip
    assert threshold.find(places, "a") == (-1.25, str(first))
    assert threshold.find(places, "b") == (3.0, str(second))
    remote = threshold.find(places[2:], "b")
    assert remote and remote[0] == 3.0
    with pytest.raises(errors.UserError, match="null_threshold-4.json was tuned for another model"):
        threshold.find(places, "c")


@pytest.mark.parametrize(
    "text",
    ["{", "[]", "{}", '"x"', "[" * 100_000]
    + ['{"value": -1.25, "model": "a"}']  # other names
    + [
        f'{{"null_score_diff_threshold": {value}, "f1": 1, "dev_file": "d", "global_step": 1, '
        '"model": "a"}'
        for value in ('"1"', "NaN", "true")
    ],
)
def test_a_damaged_file_is_named(tmp_path, text):
    (tmp_path / "null_threshold.json").write_text(text)
    with pytest.raises(errors.UserError, match="null_threshold.json: damaged"):
        threshold.find([str(tmp_path)], "a")
