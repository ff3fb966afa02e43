"""run_classifier.py with unusual or wrong tables, flags and processors, by its command line."""

from __future__ import annotations

import json
import re

import numpy as np
import pytest

import run_classifier
import tiny_glue
from tasks.classifier import glue_tasks

TABLE = "text\tlabel\n" + "good red\ta\nbad blue\tb\n" * 4


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    """The flags of a model and of a short training."""
    flags = tiny_glue.write_model(tmp_path_factory.mktemp("model"))
    return [*flags, "--max_seq_length=16", "--train_batch_size=4", "--num_train_epochs=1"]


@pytest.fixture
def run(model, tmp_path, capsys):
    """Runs a task in tmp_path/run; returns its exit status and its error line."""

    def run(*flags, task="custom"):
        task_flags = [f"--task_name={task}", f"--output_dir={tmp_path / 'run'}"]
        if task == "custom":
            task_flags += ["--text_a_column=text", "--label_column=label"]
        else:
            task_flags += [f"--data_dir={tmp_path}"]
        capsys.readouterr()
        status = run_classifier.main(["run_classifier.py", *model, *task_flags, *flags])
        lines = [line for line in capsys.readouterr().err.splitlines() if "error:" in line]
        assert len(lines) == (status != 0)
        return status, "".join(lines)

    return run


@pytest.fixture
def write(tmp_path):
    def write(name, text):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
        return str(tmp_path / name)

    return write


def _json_lines(*rows):
    return "".join(json.dumps({"text": text, "label": label}) + "\n" for text, label in rows)


# --------------------------------------------------------------------------------------------------
# Tables and flags
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, text, flags, status, message",
    [
        ("a.tsv", "text\tlabel\nx\t1\ny\t1e39\n", ["--regression"], 1,
         r"a.tsv:3: label '1e39' is beyond 3.4e\+38, the largest .* \(column 'label'\)"),
        ("a.jsonl", _json_lines(("x", ["a"]), ("y", ["b", None])), ["--multi_label"], 1,
         r"a.jsonl:2: the list of labels has 'null', which is not a label \(key 'label'\)"),
        ("a.tsv", TABLE, ["--text_a_column=label"], 2,
         "--label_column=label is also the --text_a_column; give the column of the labels"),
        ("a.tsv", TABLE, ["--has_header=false"], 2,
         "--has_header=false contradicts --text_a_column=text, which is the name of a column"),
    ],
)  # fmt: skip
def test_tables_and_flags_that_do_not_fit(run, write, tmp_path, name, text, flags, status, message):
    found, line = run(f"--train_file={write(name, text)}", "--do_train", *flags)
    assert found == status and re.search(message, line), line
    assert not (tmp_path / "run").exists()


def test_long_cells_and_surrogates_are_trained_on(run, write, tmp_path, caplog):
    texts = ["bad " * 40_000, "bad, " * 40_000, "good"]
    rows = "".join(f'"{text}",{label}\n' for text, label in zip(texts, "bba", strict=True))
    table = write("a.csv", f"text,label\n{texts[0]},b\n{rows}")
    objects = write("b.jsonl", _json_lines(("good \ud83d", "a"), ("\ude00bad", "b")))
    tests = write("c.jsonl", _json_lines(("good", None), ("good \ud83d", None), ("bad", None)))
    flags = [f"--train_file={table},{objects}", f"--test_file={tests}", "--learning_rate=1e-2"]
    assert run(*flags, "--do_train", "--do_predict", "--num_train_epochs=20")[0] == 0
    assert "b.jsonl: 2 rows have half of a surrogate pair" in caplog.text
    assert "c.jsonl: 1 rows have half of a surrogate pair" in caplog.text
    found = np.loadtxt(tmp_path / "run/test_results.tsv")
    np.testing.assert_array_equal(found.argmax(1), [0, 0, 1])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)  # a surrogate is not a token


# --------------------------------------------------------------------------------------------------
# Processors of the user
# --------------------------------------------------------------------------------------------------


class _Own(run_classifier.DataProcessor):
    labels: object = ("a", "b")
    given: object = ("a", "b")  # labels of the examples, in turn

    def get_labels(self):
        return self.labels

    def get_train_examples(self, data_dir):
        texts = ("good red", "bad blue")
        return [
            run_classifier.InputExample(f"own-{i}", texts[i % 2], None, self.given[i % 2])
            for i in range(8)
        ]

    get_dev_examples = get_test_examples = get_train_examples


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"given": (None, "a")}, "example own-0 has no label; only test sets may have none"),
        ({"metrics": ("acc",)}, r"_Mine.metrics is \('acc',\); expected a tuple with some of ac"),
    ],
)
def test_processors_that_cannot_be_trained(run, monkeypatch, tmp_path, attributes, message):
    monkeypatch.setitem(glue_tasks.PROCESSORS, "own", type("_Mine", (_Own,), attributes))
    found, line = run("--do_train", "--do_eval", task="own")
    assert found == 1 and re.search(message, line), line
    assert not (tmp_path / "run").exists()
