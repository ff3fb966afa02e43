"""The data of a GLUE folder: rows, label shares and test sets."""

import pytest

import tiny_glue
from command_line import errors
from tasks.classifier import glue_tasks
from tasks.glue import data_sets


def test_the_data_of_a_task(tmp_path):
    tiny_glue.write_all(tmp_path)
    data = data_sets.read("rte", str(tmp_path))
    assert (data.folder, data.train_rows) == (str(tmp_path / "RTE"), 12)
    # Dev rows 0 to 5, of which 2 and 5 have the other label.
    assert data.label_shares == {"entailment": 4 / 6, "not_entailment": 2 / 6}
    assert data.tests == {"rte": str(tmp_path / "RTE")}
    assert data_sets.read("sts-b", str(tmp_path)).label_shares == {}
    data = data_sets.read("mnli", str(tmp_path))
    assert data.label_shares == dict.fromkeys(glue_tasks.TASKS["mnli"].labels, 1 / 3)
    assert data.tests == {
        "mnli": str(tmp_path / "MNLI"),
        "mnli-mm": str(tmp_path / "MNLI"),
        "ax": str(tmp_path / "diagnostic"),
    }


def test_missing_test_sets(tmp_path):
    directory = tiny_glue.write_task(tmp_path, "mnli")
    assert list(data_sets.test_folders("mnli", str(tmp_path))) == ["mnli", "mnli-mm"]
    tiny_glue.write_ax(tmp_path)
    (directory / "test_mismatched.tsv").unlink()
    assert list(data_sets.test_folders("mnli", str(tmp_path))) == ["mnli", "ax"]
    (directory / "test_matched.tsv").unlink()
    assert data_sets.test_folders("mnli", str(tmp_path)) == {}
    assert data_sets.test_folders("rte", str(tmp_path)) == {}


@pytest.mark.parametrize("part, line", [("train", 14), ("dev", 8), ("test", 7)])
def test_an_invalid_row_of_any_set(tmp_path, part, line):
    directory = tiny_glue.write_task(tmp_path, "rte")
    with open(directory / f"{part}.tsv", "a") as file:
        file.write("99\tred\n")
    with pytest.raises(errors.UserError, match=rf"{part}.tsv:{line}: "):
        data_sets.read("rte", str(tmp_path))
    if part == "train":
        assert data_sets.read("rte", str(tmp_path), skip_bad_rows=True).train_rows == 12
