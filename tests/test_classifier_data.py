"""Which sets and labels a classifier run has."""

from __future__ import annotations

import pytest

import errors
import options
from tasks import classifier_data


@pytest.fixture
def make(tmp_path):
    """Makes the data of a custom task; of each set the file is written first."""

    def make(trained=(), **flags):
        for part in ("train", "dev", "test"):
            text = flags.pop(part, None)
            if text is not None:
                path = tmp_path / f"{part}.tsv"
                path.write_text(text)
                flags[f"{part}_file"] = str(path)
        flags = {
            "task_name": "custom",
            "text_a_column": "text",
            "label_column": "label",
            "do_predict": "test_file" in flags,
            "do_eval": "dev_file" in flags,
            **flags,
        }
        return classifier_data.ClassifierData(options.ClassifierOptions(**flags), trained)

    return make


TRAIN = "text\tlabel\na\tpos\nb\tneg\n"


def test_where_labels_come_from(make, tmp_path):
    (tmp_path / "model").mkdir()
    (tmp_path / "model/labels.txt").write_text("pos\nneg\nboth\n")
    (tmp_path / "mine.txt").write_bytes(b"\xef\xbb\xbfx y\r\n\r\nz\r\n")
    trained = [str(tmp_path / "nothing"), str(tmp_path / "model")]
    test = "text\na\n"
    assert make(trained, test=test).labels == ["pos", "neg", "both"]
    assert make(trained, train=TRAIN).labels == ["neg", "pos"]
    assert make(trained, test=test, labels=" b, a ").labels == ["b", "a"]
    assert make(trained, test=test, labels=str(tmp_path / "mine.txt")).labels == ["x y", "z"]
    assert make(trained, test=test, regression=True).labels == []
    with pytest.raises(errors.FlagError, match="--labels is missing"):
        make(trained[:1], test=test)
    (tmp_path / "mine.txt").write_bytes(b"caf\xe9\nb\n")
    with pytest.raises(errors.UserError, match="mine.txt: not UTF-8 text"):
        make(test=test, labels=str(tmp_path / "mine.txt"))


def test_what_outputs_mean(make):
    assert make(train=TRAIN).outputs == "labels neg, pos"
    assert make(train=TRAIN, multi_label=True).outputs == "multi-label labels neg, pos"
    assert make(train=TRAIN, regression=True).outputs == "regression"


def test_sets(make, tmp_path):
    data = make(train=TRAIN, dev=TRAIN, test="text\na\nb\nc\n")
    data.read(do_train=True, eval_steps=False)
    sizes = {name: len(examples) for name, examples in data.examples.items()}
    assert sizes == {"train": 2, "eval_results": 2, "test_results": 3}
    assert data.devs == ["eval_results"] and data.tests == ["test_results"]
    data.write_labels(str(tmp_path))
    assert (tmp_path / "labels.txt").read_text() == "neg\npos\n"
    # Evaluation during the training alone.
    data = make(train=TRAIN, dev=TRAIN, do_eval=False)
    data.read(do_train=True, eval_steps=True)
    assert set(data.examples) == {"train", "eval_results"}


def test_several_files_to_predict(make, tmp_path):
    for name in ("a.b.tsv", "c.csv"):
        (tmp_path / name).write_text("text\nx\n")
    files = f"{tmp_path / 'a.b.tsv'},{tmp_path / 'c.csv'}"
    data = make(test_file=files, labels="n,p", do_predict=True)
    data.read(False, False)
    assert data.tests == ["test_results-a", "test_results-c"]
    (tmp_path / "c.tsv").write_text("text\nx\n")
    files += f",{tmp_path / 'c.tsv'}"
    data = make(test_file=files, labels="n,p", do_predict=True)
    with pytest.raises(errors.FlagError, match="several files called a, c, c; the results"):
        data.read(False, False)
