"""Which sets and labels a classifier run has."""

import gzip
import json

import numpy as np
import pytest

from command_line import errors
from tasks.classifier import data as classifier_data
from tasks.classifier import examples as task_examples
from tasks.classifier import glue_tasks
from tasks.classifier import options as classifier_options
from training import label_files


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
        return classifier_data.ClassifierData(
            classifier_options.ClassifierOptions(**flags), trained
        )

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
    assert make(train=TRAIN).signature == "labels neg, pos"
    assert make(train=TRAIN, multi_label=True).signature == "multi-label labels neg, pos"
    assert make(train=TRAIN, regression=True).signature == "regression"


def test_sets(make, tmp_path):
    data = make(train=TRAIN, dev=TRAIN, test="text\na\nb\nc\n")
    data.read(do_train=True, eval_steps=False)
    sizes = {name: len(examples) for name, examples in data.examples.items()}
    assert sizes == {"train": 2, "eval_results": 2, "test_results": 3}
    assert data.devs == ["eval_results"] and data.tests == ["test_results"]
    label_files.write_labels(str(tmp_path), data.labels)
    assert (tmp_path / "labels.txt").read_text() == "neg\npos\n"
    # Evaluation during the training alone.
    data = make(train=TRAIN, dev=TRAIN, do_eval=False)
    data.read(do_train=True, eval_steps=True)
    assert set(data.examples) == {"train", "eval_results"}


def test_several_files_to_predict(make, tmp_path):
    def read(*names):
        for name in names:
            (tmp_path / name).parent.mkdir(exist_ok=True)
            text = '{"text": "x"}\n' if "json" in name else "text\nx\n"
            data = gzip.compress(text.encode()) if name.endswith(".gz") else text.encode()
            (tmp_path / name).write_bytes(data)
        files = ",".join(str(tmp_path / name) for name in names)
        data = make(test_file=files, labels="n,p", do_predict=True)
        data.read(False, False)
        return [name.removeprefix("test_results-") for name in data.tests]

    assert read("v1.0.tsv", "v1.1.tsv", "c.csv") == ["v1.0", "v1.1", "c"]
    assert read("a.jsonl.gz", "b.TXT", "d.json", "e", "g.2024") == ["a", "b", "d", "e", "g.2024"]
    with pytest.raises(errors.FlagError) as found:
        read("a.tsv", "q/a.tsv", "b.tsv")
    assert str(found.value) == (
        f"--test_file: the results of {tmp_path}/a.tsv, {tmp_path}/q/a.tsv would all be in "
        "test_results-a.tsv; give the files different names"
    )


def test_results_names_that_clash_or_are_too_long(make, tmp_path):
    (tmp_path / "MNLI").mkdir()
    text = "index\tsentence1\tsentence2\n0\ta\tb\n"
    (tmp_path / "MNLI/diagnostic.tsv").write_text(text)
    for name in ("ax.tsv", "b.tsv", f"{'x' * 190}.tsv"):
        (tmp_path / name).write_text("text\nx\n")
    labels = "contradiction,entailment,neutral"
    own = {"labels": labels, "do_predict": True, "data_dir": str(tmp_path / "MNLI")}
    data = make(test_file=f"{tmp_path}/ax.tsv,{tmp_path}/b.tsv", also_tasks="ax", **own)
    with pytest.raises(errors.FlagError, match="both results would be in test_results-ax.tsv"):
        data.read(False, False)
    data = make(test_file=f"{tmp_path}/b.tsv,{tmp_path}/{'x' * 190}.tsv", **own)
    with pytest.raises(errors.FlagError, match="--test_file: the name is longer than 200 bytes"):
        data.read(False, False)


def test_labels_with_spaces_are_found_again(make, tmp_path):
    """What labels.txt keeps of the labels is what training saw."""
    labels = [["a ", "b  c"], ["\ta", "\u3000d"], ["e\x85"]]
    lines = "".join(json.dumps({"text": "x", "label": label}) + "\n" for label in labels)
    (tmp_path / "rows.jsonl").write_text(lines)
    rows = {"multi_label": True, "do_eval": True, "dev_file": str(tmp_path / "rows.jsonl")}
    trained = make(train_file=rows["dev_file"], **rows)
    assert trained.labels == ["a", "b  c", "d", "e"]
    label_files.write_labels(str(tmp_path), trained.labels)
    again = make([str(tmp_path)], **rows)
    assert again.labels == trained.labels
    again.read(False, False)
    labels = [example.label for example in again.examples["eval_results"]]
    assert labels == [["a", "b  c"], ["a", "d"], ["e"]]


@pytest.mark.parametrize(
    "flags, message",
    [
        ({"also_tasks": "mnli-mm,custom"}, "--also_tasks=custom: a table of your own cannot be"),
        ({"also_tasks": "mnlii"}, "Task not found: --also_tasks=mnlii; did you mean mnli"),
        ({"also_tasks": "rte"}, r"=rte: its labels \(entailment, not_entailment\) are not those"),
        ({"also_tasks": "sts-b"}, r"=sts-b: its labels \(regression\) are not those of"),
        ({"xnli_language": "de"}, "--xnli_language=de belongs to --task_name=xnli, not to MNLI"),
        ({"xnli_language": "xx"}, "--xnli_language=xx belongs to --task_name=xnli, not to MNLI"),
        ({"xnli_language": "xx", "also_tasks": "XNLI"}, "--xnli_language=xx: expected one of ar"),
    ],
)
def test_flags_that_do_not_fit_the_task(flags, message, tmp_path):
    flags = {"task_name": "MNLI", "data_dir": str(tmp_path), **flags}
    with pytest.raises(errors.FlagError, match=message):
        classifier_data.ClassifierData(classifier_options.ClassifierOptions(**flags)).read(
            False, False
        )


def test_the_language_of_xnli_is_that_of_the_other_task(tmp_path):
    row = "{}\tneutral\t\t\t\t\t{}\tb\n"
    (tmp_path / "xnli.dev.tsv").write_text(
        "language\tgold_label\t\t\t\t\tsentence1\tsentence2\n"
        + row.format("de", "ja")
        + row.format("zh", "shi")
    )
    (tmp_path / "dev_matched.tsv").write_text(
        "\t".join("abcdefghijk") + "\n" + "x\t" * 10 + "neutral"
    )
    flags = {"task_name": "MNLI", "data_dir": str(tmp_path), "do_eval": True, "also_tasks": "xnli"}
    data = classifier_data.ClassifierData(
        classifier_options.ClassifierOptions(**flags, xnli_language="de")
    )
    data.read(False, False)
    assert [example.text_a for example in data.examples["eval_results-xnli"]] == ["ja"]


class _Own(task_examples.DataProcessor):
    labels: object = ("a", "b")

    def get_labels(self):
        return self.labels

    def get_dev_examples(self, data_dir):
        return [task_examples.InputExample(str(i), "x", None, x) for i, x in enumerate(self.labels)]


@pytest.fixture
def own(tmp_path, monkeypatch):
    """Makes the data of a processor with some attributes of one's own."""

    def own(name="own", positive_label="", **attributes):
        monkeypatch.setitem(glue_tasks.PROCESSORS, name, type("_Mine", (_Own,), attributes))
        flags = classifier_options.ClassifierOptions(
            task_name=name, data_dir=str(tmp_path), do_eval=True, positive_label=positive_label
        )
        return classifier_data.ClassifierData(flags)

    return own


@pytest.mark.parametrize(
    "attributes, message",
    [
        ({"kind": "multilabel"}, r"\.kind is 'multilabel'; expected one of classification, regr"),
        ({"metrics": ("acc",)}, r"\.metrics is \('acc',\); expected a tuple with some of accura"),
        ({"metrics": ("accuracy", "micro_f1")}, "'micro_f1'.*; expected .* of accuracy, f1, matth"),
        (
            {"metrics": ("accuracy",), "kind": "multi_label"},
            "of micro_f1, macro_f1, exact_match, f",
        ),
        ({"metrics": "accuracy"}, r"\.metrics is 'accuracy'; expected a tuple with some of"),
        ({"labels": ["a", "b", "a"]}, r"\.get_labels\(\) gives 'a' twice; give each label once"),
        ({"labels": [1, "1"]}, r"\.get_labels\(\) gives '1' twice"),
        ({"labels": []}, r"\.get_labels\(\) gives no labels; only a processor of kind regression"),
        ({"labels": None}, r"\.get_labels\(\) gives None; expected a list of labels"),
        ({"labels": "ab"}, r"\.get_labels\(\) gives 'ab'; expected a list of labels"),
        ({"labels": ["a", "b\nc"]}, r"gives 'b\\nc', which has a line break"),
        ({"labels": ["a", "b\ud83d"]}, r"gives 'b\\ud83d', which has half of a surrogate pair"),
    ],
)
def test_a_processor_with_invalid_attributes(own, attributes, message):
    with pytest.raises(errors.UserError, match=f"^--task_name=own: _Mine.*{message}") as found:
        own(**attributes)
    assert "\n" not in str(found.value)


def test_the_label_of_f1(own, tmp_path, caplog):
    """A processor of one's own has one, also in place of a task of GLUE; GLUE has defined its."""
    caplog.set_level("INFO")
    for name in ("own", "mrpc"):
        assert (own(name).f1_label, own(name, positive_label="a").f1_label) == ("b", "a")
    assert own(labels=["only"], metrics=("f1",)).f1_label == "only"
    assert own(labels=["a", "b", "c"]).f1_label == ""  # has no F1
    own(positive_label="a").read(False, False)
    assert caplog.text.count("eval_f1 is that of the label 'a' (--positive_label)") == 1
    flags = {"task_name": "qqp", "data_dir": str(tmp_path), "positive_label": "0"}
    with pytest.raises(errors.FlagError, match="eval_f1 of qqp is about '1', as GLUE defines it"):
        classifier_data.ClassifierData(classifier_options.ClassifierOptions(**flags))


@pytest.mark.parametrize(
    "given, message",
    [
        (None, "the examples for eval_results are None; expected a list of InputExample"),
        (["x"], "'x' is among the examples for eval_results; expected InputExample"),
        (
            [task_examples.PaddingInputExample()],
            "PaddingInputExample object at .* expected InputExample",
        ),
    ],
)
def test_a_processor_that_gives_no_examples(own, given, message):
    data = own(get_dev_examples=lambda self, folder: given)
    with pytest.raises(errors.UserError, match=message):
        data.read(False, False)


def test_labels_with_commas_are_told_apart(own):
    found = {own(labels=labels).signature for labels in (["a", "b, c"], ["a, b", "c"])}
    assert found == {'labels ["a", "b, c"]', 'labels ["a, b", "c"]'}


@pytest.mark.parametrize("labels", [[0, 1], range(3), np.arange(2), [True, False]])
def test_labels_may_be_numbers(own, labels, tmp_path):
    data = own(labels=labels)
    assert data.labels == [str(label) for label in labels]
    data.read(False, False)
    assert data.signature == f"labels {', '.join(map(str, labels))}"
    label_files.write_labels(str(tmp_path), data.labels)
    assert (tmp_path / "labels.txt").read_text().split() == data.labels


def test_labels_of_a_regression_are_not_asked_for(own):
    data = own(kind="regression", labels=[None])  # as in many a processor for STS-B
    assert data.labels == [] and data.signature == "regression"
    assert data.metrics == ("pearson", "spearman")
