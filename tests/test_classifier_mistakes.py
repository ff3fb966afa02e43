"""What run_classifier.py makes of odd tables, odd flags and odd processors, by its command line."""

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
    """Runs a task in tmp_path/run; returns its exit status and its line about an error."""

    def run(*flags, task="custom"):
        about = [f"--task_name={task}", f"--output_dir={tmp_path / 'run'}"]
        if task == "custom":
            about += ["--text_a_column=text", "--label_column=label"]
        else:
            about += [f"--data_dir={tmp_path}"]
        capsys.readouterr()
        status = run_classifier.main(["run_classifier.py", *model, *about, *flags])
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


def _results(path):
    return dict(line.split(" = ") for line in path.read_text().splitlines())


# --------------------------------------------------------------------------------------------------
# Tables and flags
# --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name, text, flags, status, message",
    [
        ("a.tsv", "text\tlabel\nx\t1\ny\t1e39\n", ["--regression"], 1,
         r"a.tsv:3: label '1e39' is beyond 3.4e\+38, the largest .* \(column 'label'\)"),
        ("a.tsv", "text\tlabel\nx\t1\ny\t1_0\n", ["--regression"], 1,
         r"a.tsv:3: label '1_0' is not a finite number \(column 'label'\)"),
        ("a.tsv", "text\tlabel\nx\ta\ny\tz\n", ["--labels=a,b"], 1,
         r"a.tsv:3: label 'z' is not one of 'a', 'b' \(column 'label'\); is this a header"),
        ("a.tsv", "x\ta\ny\tz\n", ["--labels=a,b", "--text_a_column=0", "--label_column=1"], 1,
         r"a.tsv:2: label 'z' is not one of 'a', 'b' \(column 1, from 0\); is this a header"),
        ("a.csv", 'text,label\nx,"a\nb"\ny,b\n', [], 1,
         r"a.csv:2: label 'a\\nb' has a line break, .* \(column 'label'\)"),
        ("a.csv", "text,label\nx,a\ny,\n", [], 1,
         r"a.csv:3: the label is empty \(column 'label'\)"),
        ("a.csv", "text,label\nx,a\n\"y,b\n" + "bad,b\n" * 40_000, [], 1,
         r'a.csv:3: a quote \("\) is opened in this row and not closed'),
        ("a.jsonl", _json_lines(("x", "a"), ("y", "a\ud83d")), [], 1,
         r"a.jsonl:2: label 'a\\ud83d' has half of a surrogate pair, which is no .* \(key 'label'"),
        ("a.jsonl", _json_lines(("x", ["a"]), ("y", ["b", None])), ["--multi_label"], 1,
         r"a.jsonl:2: the list of labels has 'null', which is not a label \(key 'label'\)"),
        ("a.jsonl", _json_lines(("x", ["a"]), ("y", ["b", " "])), ["--multi_label"], 1,
         r"a.jsonl:2: the list of labels has an empty label \(key 'label'\)"),
        ("a.jsonl", _json_lines(("x", ["a"]), ("y", [["b"]])), ["--multi_label"], 1,
         r"a.jsonl:2: the list of labels has '\[\"b\"\]', which is not a label \(key 'label'\)"),
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


def test_files_to_predict_that_would_share_a_file_of_results(run, write):
    paths = [write(name, "text\nx\n") for name in ("a.tsv", "q/a.tsv", "b.tsv")]
    found, line = run("--do_predict", "--labels=a,b", f"--test_file={','.join(paths)}")
    assert found == 2 and f"--test_file: the results of {paths[0]}, {paths[1]} would all" in line
    assert paths[2] not in line


@pytest.mark.parametrize(
    "flags, message",
    [
        (["--also_tasks=custom"], "--also_tasks=custom: a table of your own cannot be among them"),
        (["--xnli_language=de"], "--xnli_language=de belongs to --task_name=xnli, not to mnli"),
    ],
)
def test_flags_of_other_tasks(run, tmp_path, flags, message):
    assert run("--do_eval", *flags, task="mnli")[0] == 2
    assert message in run("--do_eval", *flags, task="mnli")[1]


def test_a_row_that_is_left_out_makes_no_class(run, write, tmp_path, caplog):
    rows = "label\ttext\n" + "a\tgood red\nb\tbad blue\n" * 4 + "a line without tab\n"
    table = f"--train_file={write('a.tsv', rows)}"
    found, line = run(table, "--do_train")
    assert found == 1 and "a.tsv:10: 1 column found, 2 needed: 'a line without tab'" in line
    assert run(table, "--do_train", "--skip_bad_rows")[0] == 0
    assert "left out 1 rows with too few columns (line 10)" in caplog.text
    assert (tmp_path / "run/labels.txt").read_text() == "a\nb\n"


def test_a_header_that_was_learned_is_pointed_at(run, write, caplog):
    numbers = ["--text_a_column=0", "--label_column=1"]
    table = f"--train_file={write('a.tsv', TABLE)}"
    found, line = run(table, "--do_train", "--init_checkpoint=nowhere.ckpt", *numbers)
    assert found == 1 and "nowhere.ckpt" in line  # the table is looked at before
    assert "label 'label' is in line 1 only; if that is a header, give" in caplog.text


def test_labels_with_spaces_come_back_from_their_file(run, write, tmp_path):
    rows = [("good red", ["a ", "b c"]), ("bad blue", [" a"]), ("green", [])] * 3
    path = write("a.jsonl", _json_lines(*rows))
    assert run(f"--train_file={path}", "--do_train", "--multi_label")[0] == 0
    assert (tmp_path / "run/labels.txt").read_text() == "a\nb c\n"
    assert run(f"--dev_file={path}", "--do_eval", "--multi_label")[0] == 0
    results = _results(tmp_path / "run/eval_results.txt")
    assert 0 <= float(results["eval_micro_f1"]) <= 1


def test_long_cells_and_halves_of_characters_are_trained_on(run, write, tmp_path, caplog):
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
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)  # the half is no token


# --------------------------------------------------------------------------------------------------
# A processor of one's own
# --------------------------------------------------------------------------------------------------


class _Own(run_classifier.DataProcessor):
    labels: object = ("a", "b")
    given: object = ("a", "b")  # to the examples, in turn

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
        ({"given": ("1", None), "kind": "regression"}, "example own-1 has no label; only test"),
        ({"given": (["a"], None), "kind": "multi_label"}, "example own-1 has no label; only test"),
        ({"given": (["a"], "ab"), "kind": "multi_label"},
         "example own-1: label 'ab' of a multi_label task; expected a list of labels"),
        ({"given": ("1", "1e39"), "kind": "regression"}, "example own-1: label '1e39' is beyond"),
        ({"metrics": ("acc",)}, r"_Mine.metrics is \('acc',\); expected a tuple with some of ac"),
        ({"kind": "multilabel"}, "_Mine.kind is 'multilabel'; expected one of classification, r"),
        ({"labels": ["a", "b", "a"]}, r"_Mine.get_labels\(\) gives 'a' twice; give each label"),
    ],
)  # fmt: skip
def test_processors_that_cannot_be_trained(run, monkeypatch, tmp_path, attributes, message):
    monkeypatch.setitem(glue_tasks.PROCESSORS, "own", type("_Mine", (_Own,), attributes))
    found, line = run("--do_train", "--do_eval", task="own")
    assert found == 1 and re.search(message, line), line
    assert not (tmp_path / "run").exists()


def test_labels_may_be_numbers(run, monkeypatch, tmp_path):
    mine = type("_Mine", (_Own,), {"labels": [0, 1], "given": (0, 1)})
    monkeypatch.setitem(glue_tasks.PROCESSORS, "own", mine)
    flags = ["--num_train_epochs=10", "--learning_rate=1e-2"]
    assert run("--do_train", "--do_eval", "--do_predict", *flags, task="own")[0] == 0
    assert (tmp_path / "run/labels.txt").read_text() == "0\n1\n"
    results = _results(tmp_path / "run/eval_results.txt")
    assert float(results["eval_accuracy"]) == 1.0
    found = np.loadtxt(tmp_path / "run/test_results.tsv")
    np.testing.assert_array_equal(found.argmax(1), [0, 1] * 4)
