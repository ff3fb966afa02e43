"""Question sets cut into windows: batches, answers, scores; more in test_run_squad.py."""

import numpy as np
import pytest
import tensorflow as tf

import squad_files
import tiny_squad
from command_line import errors
from tasks.squad import data as squad_data
from tasks.squad import logits as squad_logits
from tasks.squad import options as squad_options
from tasks.squad import windowed_data


def _data(tmp_path, part="predict", paragraphs=None, scored=False, **flags):
    path = tmp_path / "file.json"
    tiny_squad.write_json(path, *(paragraphs or tiny_squad.colour_paragraphs(5)))
    flags = {"max_seq_length": 20, "max_query_length": 4, "num_workers": 1, **flags}
    task = squad_options.SquadOptions(**{f"{part}_file": str(path)}, **flags)
    data = squad_data.SquadData(task)
    data.read(part, scored=scored)
    return windowed_data.WindowedData(task, data, _tokenizer(tmp_path))


def _tokenizer(tmp_path):
    words = ["what", "?", *tiny_squad.LETTERS, *tiny_squad.COLOURS]
    return squad_files.tokenizer(tmp_path, " ".join(words))


def test_batches_of_training_have_the_positions(tmp_path):
    data = _data(tmp_path, "train", tiny_squad.colour_paragraphs(40))
    rows = {}
    for batch in data.batches("train", 7).dataset(tf.distribute.InputContext()):
        for row, start, end in zip(
            batch["example_index"].numpy(), batch["start_positions"].numpy(),
            batch["end_positions"].numpy(), strict=True,
        ):  # fmt: skip
            rows[row] = (start, end)
    features = data.features("train")
    del rows[-1]
    assert rows == {
        row: (features.start_positions[row], features.end_positions[row]) for row in range(40)
    }
    assert data.features("train") is features  # made once
    names = set(_data(tmp_path).batches("predict", 4)._features)
    assert names == {"input_ids", "segment_ids"}


def _peaks(data, height):
    """Logits with a peak at the answer of each question's only window."""
    features = data.features("predict")
    vocab = data._tokenizer.vocab
    colours = [vocab[colour] for colour in tiny_squad.COLOURS]
    sides = [
        np.isin(features.input_ids.row(row), colours) * height
        for row in range(len(features.example_index))
    ]
    return squad_logits.collect(features, ((row, side, side) for row, side in enumerate(sides)))


def test_scores_are_those_of_the_version(tmp_path):
    data = _data(tmp_path, scored=True)
    answers = data.answers("predict", _peaks(data, 5.0))
    assert data.scores("predict", answers) == {"exact_match": 100.0, "f1": 100.0}
    two = {"version_2_with_negative": True, "null_score_diff_threshold": "auto"}
    paragraphs = tiny_squad.colour_paragraphs(6, impossible=True)
    data = _data(tmp_path, scored=True, paragraphs=paragraphs, **two)
    answers = data.answers("predict", _peaks(data, 5.0))
    scores = data.scores("predict", answers)
    # Without a colour all scores are 0, and at a threshold of 0 the best text is given.
    assert scores["HasAns_exact"] == 100 and scores["NoAns_exact"] == 0
    threshold, f1 = data.tune("predict", answers)
    assert f1 == 100 and -10 < threshold < 0
    tuned = data.scores("predict", answers.with_threshold(threshold))
    assert tuned["exact"] == tuned["f1"] == 100


def test_a_fixed_threshold_and_sizes_reach_the_answers(tmp_path):
    flags = {"version_2_with_negative": True, "null_score_diff_threshold": "-11"}
    data = _data(tmp_path, n_best_size=3, **flags)
    answers = data.answers("predict", _peaks(data, 5.0))
    assert set(answers.predictions.values()) == {""}
    sizes = [len(entries) for entries in answers.nbest.values()]
    data = _data(tmp_path, **flags)
    answers = data.answers("predict", _peaks(data, 5.0))
    assert max(sizes) <= 4 < min(len(entries) for entries in answers.nbest.values())
    with pytest.raises(errors.FlagError, match="--max_seq_length=20 leaves no room"):
        _data(tmp_path, max_query_length=17)


def test_answers_of_a_set_without_windows(tmp_path):
    data = _data(tmp_path, paragraphs=[("", [squad_files.question("q")])])
    features = data.features("predict")
    logits = squad_logits.collect(features, ())
    assert data.answers("predict", logits).predictions == {"q": "empty"}
