"""The files of a prediction, whole or as they were."""

import json

import pytest

from command_line import errors
from system import atomic_files
from tasks.squad import answers as squad_answers
from tasks.squad import options as squad_options
from tasks.squad import prediction_files

OPTIONS = squad_options.SquadOptions()

ENTRIES = {
    'q"1': [
        squad_answers.Entry('Zoë "K"\n', 0.75, 1.0, -2.5e-8, 3, 10),
        squad_answers.Entry("", 0.25, 0.1, 1e16),
    ],
    "ü2": [squad_answers.Entry("東京", 1.0, 0.0, 0.0, 0, 2)],
}


def _names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("ensure_ascii", [True, False])
@pytest.mark.parametrize("offsets", [True, False])
def test_json_is_that_of_the_standard_writer(offsets, ensure_ascii):
    plain = {
        key: [dict(list(entry._asdict().items())[: 6 if offsets else 4]) for entry in entries]
        for key, entries in ENTRIES.items()
    }
    expected = json.dumps(plain, indent=4, ensure_ascii=ensure_ascii) + "\n"
    assert prediction_files.nbest_json(ENTRIES, offsets, ensure_ascii) == expected
    assert prediction_files.nbest_json({}) == prediction_files.map_json({}) == "{}\n"
    assert prediction_files.map_json({"q": "東京"}, ensure_ascii) == (
        '{\n    "q": "\\u6771\\u4eac"\n}\n' if ensure_ascii else '{\n    "q": "東京"\n}\n'
    )


def test_half_a_surrogate_pair(tmp_path):
    entries = [squad_answers.Entry("é\ud83d", 1.0, 0.0, 0.0)]
    answers = squad_answers.Answers({"q": "é\ud83d"}, {"q": entries}, {})
    prediction_files.write(str(tmp_path), answers, squad_options.SquadOptions(ensure_ascii=False))
    text = (tmp_path / "predictions.json").read_text("utf-8")
    assert text == '{\n    "q": "é\\ud83d"\n}\n'
    nbest = json.loads((tmp_path / "nbest_predictions.json").read_text("utf-8"))
    assert nbest["q"][0]["text"] == "é\ud83d"


def test_files(tmp_path):
    answers = squad_answers.Answers({"q": "é"}, {"q": ENTRIES["ü2"]}, {})
    prediction_files.write(str(tmp_path), answers, OPTIONS)
    assert (tmp_path / "predictions.json").read_bytes() == b'{\n    "q": "\\u00e9"\n}\n'
    assert _names(tmp_path) == ["nbest_predictions.json", "predictions.json"]
    options = squad_options.SquadOptions(nbest_offsets=True, ensure_ascii=False)
    prediction_files.write(str(tmp_path), answers._replace(null_odds={"q": 1.5}), options)
    assert (tmp_path / "predictions.json").read_text("utf-8") == '{\n    "q": "é"\n}\n'
    assert (tmp_path / "null_odds.json").read_text() == '{\n    "q": 1.5\n}\n'
    nbest = json.loads((tmp_path / "nbest_predictions.json").read_text("utf-8"))
    assert tuple(nbest["q"][0]) == squad_answers.Entry._fields


def test_version_1_removes_the_odds_of_an_earlier_run(tmp_path):
    answers = squad_answers.Answers({"q": "a"}, {"q": ENTRIES["ü2"]}, {"q": 1.5})
    prediction_files.write(str(tmp_path), answers, OPTIONS)
    assert (tmp_path / "null_odds.json").exists()
    prediction_files.write(str(tmp_path), answers._replace(null_odds={}), OPTIONS)
    assert _names(tmp_path) == ["nbest_predictions.json", "predictions.json"]


@pytest.mark.parametrize("failing", [0, 1, 2])
def test_a_full_disk_leaves_all_files_as_they_were(tmp_path, monkeypatch, failing):
    answers = squad_answers.Answers({"q": "old"}, {"q": ENTRIES["ü2"]}, {"q": 1.5})
    prediction_files.write(str(tmp_path), answers, OPTIONS)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert len(before) == 3
    calls = []
    sync = atomic_files.sync

    def full(path):
        calls.append(path)
        if len(calls) > failing:
            raise OSError(28, "No space left on device", path)
        sync(path)

    monkeypatch.setattr(atomic_files, "sync", full)
    with pytest.raises(OSError, match="No space left"):
        new = squad_answers.Answers({"q": "new"}, {"q": ENTRIES['q"1']}, {"q": 2.5})
        prediction_files.write(str(tmp_path), new, OPTIONS)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_places_are_checked_before_the_work(tmp_path):
    for version_2 in (False, True):
        prediction_files.check_places(str(tmp_path), version_2)
        prediction_files.check_places(str(tmp_path / "later"), version_2)
    (tmp_path / "null_odds.json").mkdir()
    prediction_files.check_places(str(tmp_path), False)
    with pytest.raises(errors.UserError, match="null_odds.json is a directory; expected a file"):
        prediction_files.check_places(str(tmp_path), True)
    answers = squad_answers.Answers({"q": "a"}, {"q": ENTRIES["ü2"]}, {})
    prediction_files.write(str(tmp_path), answers, OPTIONS)  # what no run wrote stays
    assert (tmp_path / "null_odds.json").is_dir()
    (tmp_path / "other" / "nbest_predictions.json").mkdir(parents=True)
    for version_2 in (False, True):
        with pytest.raises(errors.UserError, match="nbest_predictions.json is a directory"):
            prediction_files.check_places(str(tmp_path / "other"), version_2)
