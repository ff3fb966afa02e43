"""The files of a GLUE submission, byte by byte."""

import os
import zipfile

import numpy as np
import pytest

from command_line import errors
from tasks.classifier import examples, glue_tasks
from tasks.glue import submission

NAMES = (
    "CoLA.tsv SST-2.tsv MRPC.tsv STS-B.tsv MNLI-m.tsv MNLI-mm.tsv QNLI.tsv QQP.tsv RTE.tsv "
    "WNLI.tsv AX.tsv"
)


def _one_hot(*classes: int) -> np.ndarray:
    return np.eye(3, dtype=np.float32)[list(classes)]


def _examples(*guids: str) -> list[examples.InputExample]:
    return [examples.InputExample(guid, "a") for guid in guids]


def test_label_strings_follow_the_order_of_the_labels():
    labels = glue_tasks.TASKS["mnli"].labels
    found = submission.predictions(labels, _one_hot(2, 0, 1), "classification")
    assert found == ["neutral", "contradiction", "entailment"]
    found = submission.predictions(
        glue_tasks.TASKS["rte"].labels, np.array([[0.6, 0.4], [0.2, 0.8]]), "classification"
    )
    assert found == ["entailment", "not_entailment"]


def test_scores_are_clipped_and_have_three_decimals():
    outputs = np.float32([[-0.2], [3.14159], [5.7], [5.0]])
    assert submission.predictions([], outputs, "regression") == ["0.000", "3.142", "5.000", "5.000"]


def test_the_index_counts_rows_but_is_the_id_of_qqp():
    rows = _examples("test-7", "test-3")
    assert submission.indices(glue_tasks.TASKS["qqp"], rows) == ["7", "3"]
    assert submission.indices(glue_tasks.TASKS["mrpc"], rows) == ["0", "1"]


def test_the_text_of_a_file():
    assert submission.table(["0", "1"], ["a", "b"]) == "index\tprediction\n0\ta\n1\tb\n"
    with pytest.raises(ValueError):
        submission.table(["0", "1"], ["a"])
    rows = submission.wnli_without_model().splitlines()[1:]
    assert rows == [f"{i}\t0" for i in range(146)]


def test_invalid_outputs():
    with pytest.raises(errors.UserError, match="prediction 1 of 2 is not a finite number"):
        submission.predictions([], np.array([1.0, np.nan]), "regression")
    with pytest.raises(errors.UserError, match=r"shape \[2, 3\] do not fit 2 labels"):
        submission.predictions(["0", "1"], _one_hot(1, 2), "classification")


def _tables(count: int = 0) -> dict[str, str]:
    return {
        name: submission.table(
            [str(i) for i in range(count or spec.test_rows)], ["0"] * (count or spec.test_rows)
        )
        for name, spec in submission.FILES.items()
    }


def test_the_zip_has_exactly_the_official_files(tmp_path, caplog):
    path = str(tmp_path / "submission.zip")
    tables = _tables()
    submission.write_zip(path, dict(reversed(tables.items())))
    assert not caplog.records
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == NAMES.split()
        for name in archive.namelist():
            assert archive.read(name).decode() == tables[name]
            assert tables[name].count("\n") == submission.FILES[name].test_rows + 1
    with open(path, "rb") as file:
        first = file.read()
    submission.write_zip(path, tables)
    with open(path, "rb") as file:
        assert file.read() == first
    assert os.listdir(tmp_path) == ["submission.zip"]


def test_a_wrong_number_of_rows_is_a_warning(tmp_path, caplog):
    submission.write_zip(str(tmp_path / "a.zip"), _tables(count=2))
    assert "MRPC.tsv: 2 rows, but the official test set has 1725" in caplog.text


def test_a_failed_write_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "a.zip"
    path.write_text("old")
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        submission.write_zip(str(path), _tables(count=1))
    assert path.read_text() == "old" and os.listdir(tmp_path) == ["a.zip"]


@pytest.mark.parametrize("name", ["mrpc", "cola", "sst-2", "sts-b", "rte", "wnli", "ax"])
def test_real_test_sets(shared, name):
    spec = glue_tasks.TASKS[name]
    folder = glue_tasks.find_directory(str(shared / "data/glue"), spec)
    rows = glue_tasks.create_processor(name).get_test_examples(folder)
    outputs = np.random.default_rng(0).normal(2.5, 3, [len(rows), len(spec.labels) or 1])
    values = submission.predictions(spec.labels, outputs, spec.kind)
    lines = submission.table(submission.indices(spec, rows), values).split("\n")
    assert lines[0] == "index\tprediction" and lines[-1] == ""
    cells = [line.split("\t") for line in lines[1:-1]]
    assert [row[0] for row in cells] == [str(i) for i in range(spec.test_rows)]
    if spec.labels:
        assert {row[1] for row in cells} == set(spec.labels)
    else:
        assert all(0 <= float(row[1]) <= 5 and len(row[1]) == 5 for row in cells)
