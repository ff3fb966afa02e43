"""The table of tasks against real files, and the spellings of task names."""

import subprocess
import sys

import pytest

from command_line import errors
from tasks.classifier import examples, glue_tasks
from tasks.classifier import options as classifier_options

# Rows of the official sets; of qqp, qnli and mnli the shared data have only a part.
COUNTS = {
    "cola": (8551, 1043, 1063),
    "sst-2": (67349, 872, 1821),
    "mrpc": (3668, 408, 1725),
    "sts-b": (5749, 1500, 1379),
    "rte": (2490, 277, 3000),
    "wnli": (635, 71, 146),
    "qqp": (7999, 1000, None),
    "qnli": (8999, 5463, None),
    "mnli": (8999, 9815, None),
    "ax": (None, None, 1104),
}


def _flags(language):
    return classifier_options.ClassifierOptions(xnli_language=language)


@pytest.mark.parametrize("name", COUNTS)
def test_real_files_are_read_completely_and_without_warnings(shared, name, caplog):
    processor = glue_tasks.create_processor(name)
    folder = str(shared / "data/glue" / glue_tasks.TASKS[name].directory)
    labels = set()
    for part, count in zip(("train", "dev", "test"), COUNTS[name], strict=True):
        if count is None:
            continue
        found = getattr(processor, f"get_{part}_examples")(folder)
        assert len(found) == count
        assert len({example.guid for example in found}) == count
        is_pair = name not in ("cola", "sst-2")
        assert all((example.text_b is not None) == is_pair for example in found)
        assert all((example.label is None) == (part == "test") for example in found)
        labels |= {example.label for example in found if part != "test"}
    if processor.kind == examples.CLASSIFICATION and name != "ax":
        assert labels == set(processor.get_labels())
    assert not caplog.records


def test_official_rows_agree_with_real_test_sets():
    for name, (*_, count) in COUNTS.items():
        assert count in (None, glue_tasks.TASKS[name].test_rows)


def test_rows_picked_by_eye(shared):
    def first(task, part, folder):
        read = getattr(glue_tasks.create_processor(task), f"get_{part}_examples")
        return read(str(shared / "data/glue" / folder))[0]

    assert first("cola", "train", "CoLA") == examples.InputExample(
        "train-0",
        "Our friends won't buy this analysis, let alone the next one we propose.",
        None,
        "1",
    )
    assert first("sst-2", "test", "SST-2").text_a == "uneasy mishmash of styles and genres ."
    assert first("sts-b", "dev", "STS-B") == examples.InputExample(
        "dev-1",
        "A man with a hard hat is dancing.",
        "A man wearing a hard hat is dancing.",
        "5.000",
    )
    # Quotes are data, and the id of a row is its name.
    assert first("qqp", "dev", "QQP") == examples.InputExample(
        "dev-7999",
        "What do Quora Top Writers actually think of other users?",
        '"What is the difference between Quora ""Top Writers"" and Quora ""Power Users""?"',
        "0",
    )
    assert first("rte", "train", "RTE").label == "not_entailment"


def test_all_files_of_mnli(shared):
    folder = str(shared / "data/glue/tiny_mnli")
    matched, mismatched = (
        glue_tasks.create_processor("mnli"),
        glue_tasks.create_processor("MNLI-mm"),
    )
    train = matched.get_train_examples(folder)
    assert [example.label for example in train] == ["neutral", "entailment", "entailment"]
    assert train == mismatched.get_train_examples(folder)
    dev = matched.get_dev_examples(folder)
    assert [(example.guid, example.label) for example in dev] == [
        ("dev_matched-0", "neutral"),
        ("dev_matched-1", "contradiction"),
    ]
    other = mismatched.get_dev_examples(folder)
    assert [example.guid for example in other] == ["dev_mismatched-0", "dev_mismatched-1"]
    assert other[0].text_a != dev[0].text_a
    test, other = matched.get_test_examples(folder), mismatched.get_test_examples(folder)
    assert [example.guid for example in (*test, *other)] == ["test-0", "test-0"]
    assert test[0].text_a.startswith("Hierbas") and other[0].text_a != test[0].text_a
    assert test[0].label is None


def test_xnli_in_two_layouts(shared):
    old = str(shared / "data/xnli/tiny_original_layout")
    processor = glue_tasks.create_processor("xnli")
    train = processor.get_train_examples(old)
    # The third row says "contradictory" in some of the files; none is left under that name.
    assert {example.label for example in train} <= set(processor.get_labels())
    assert [example.guid for example in train] == [f"train-{i}" for i in range(1, len(train) + 1)]
    dev = processor.get_dev_examples(old)
    assert [example.guid for example in dev] == ["dev-15"]  # the row in the file, of 15 languages
    test = glue_tasks.create_processor("xnli", _flags("de")).get_test_examples(old)
    assert [example.guid for example in test] == ["test-3"]
    assert test[0].text_a.startswith("Nun, daran dachte ich nicht einmal")
    assert test[0].label == "contradiction"  # this test set has labels
    real = str(shared / "data/xnli")
    for language in ("en", "sw", "ur", "zh"):
        processor = glue_tasks.create_processor("xnli", _flags(language))
        assert len(processor.get_dev_examples(real)) == 2490
    with pytest.raises(errors.UserError, match="has no rows of language 'de' for the dev set"):
        glue_tasks.create_processor("xnli", _flags("de")).get_dev_examples(real)
    with pytest.raises(errors.FlagError, match="--xnli_language=jp: expected one of ar, bg"):
        glue_tasks.create_processor("xnli", _flags("jp"))


def test_xnli_contradictory(tmp_path):
    folder = tmp_path / "multinli"
    folder.mkdir()
    (folder / "multinli.train.fr.tsv").write_text("premise\thypo\tlabel\na\tb\tcontradictory\n")
    found = glue_tasks.create_processor("xnli", _flags("fr")).get_train_examples(str(tmp_path))
    assert found == [examples.InputExample("train-1", "a", "b", "contradiction")]


@pytest.mark.parametrize(
    "header, row",
    [
        ("gold_label\tsentence1\tsentence2\tpairID", "{}\ta\tb\t7"),
        ("index\tsentence1\tsentence2\tlabel1\tgold_label", "7\ta\tb\tneutral\t{}"),
    ],
)
def test_snli_leaves_out_rows_without_gold_label(tmp_path, header, row, caplog):
    lines = [header, row.format("neutral"), row.format("-"), row.format("entailment")]
    for name in ("snli_1.0_train.txt", "snli_1.0_test.txt"):
        (tmp_path / name).write_text("\n".join(lines) + "\n")
    processor = glue_tasks.create_processor("snli")
    train = processor.get_train_examples(str(tmp_path))
    assert [(example.guid, example.label) for example in train] == [
        ("train-1", "neutral"),
        ("train-3", "entailment"),
    ]
    assert "left out 1 row labelled '-' (line 3)" in caplog.text
    test = processor.get_test_examples(str(tmp_path))
    assert [example.label for example in test] == ["neutral", None, "entailment"]


def test_the_table_follows_the_benchmark():
    nli = ("contradiction", "entailment", "neutral")
    entailment = ("entailment", "not_entailment")
    labels = {name: spec.labels for name, spec in glue_tasks.TASKS.items()}
    assert labels == {
        **dict.fromkeys(("cola", "sst-2", "mrpc", "qqp", "wnli"), ("0", "1")),
        **dict.fromkeys(("mnli", "mnli-mm", "ax", "xnli", "snli"), nli),
        **dict.fromkeys(("qnli", "rte"), entailment),
        "sts-b": (),
    }
    first = {name: spec.metrics[0] for name, spec in glue_tasks.TASKS.items()}
    assert {name: metric for name, metric in first.items() if metric != "accuracy"} == {
        "cola": "matthews",
        "ax": "matthews",
        "mrpc": "f1",
        "qqp": "f1",
        "sts-b": "spearman",
    }


@pytest.mark.parametrize(
    "given, name",
    [
        ("CoLA", "cola"),
        ("sst2", "sst-2"),
        ("SST_2", "sst-2"),
        ("stsb", "sts-b"),
        ("MNLI_mismatched", "mnli-mm"),
        ("mnlimm", "mnli-mm"),
        ("mnli-m", "mnli"),
        ("diagnostic", "ax"),
    ],
)
def test_other_spellings(given, name):
    assert glue_tasks.canonical_name(given) == name
    assert glue_tasks.create_processor(given).spec is glue_tasks.TASKS[name]


@pytest.mark.parametrize(
    "name, task, folder, count",
    [
        ("MrpcProcessor", "mrpc", "glue/MRPC", 408),
        ("ColaProcessor", "cola", "glue/CoLA", 1043),
        ("MnliProcessor", "mnli", "glue/tiny_mnli", 2),
        ("XnliProcessor", "xnli", "xnli", 2490),
    ],
)
def test_processors_of_the_original_release(shared, name, task, folder, count):
    processor = getattr(glue_tasks, name)()
    found = processor.get_dev_examples(str(shared / "data" / folder))
    assert len(found) == count
    assert found == glue_tasks.create_processor(task).get_dev_examples(
        str(shared / "data" / folder)
    )
    assert processor.get_labels() == list(glue_tasks.TASKS[task].labels)


def test_unknown_task():
    with pytest.raises(errors.FlagError) as found:
        glue_tasks.create_processor("mnlii")
    message = str(found.value)
    assert message.startswith("Task not found: --task_name=mnlii; did you mean mnli")
    assert "custom" in message and "wnli" in message


class _PetProcessor(examples.DataProcessor):
    def get_train_examples(self, data_dir):
        rows = self._read_tsv(f"{data_dir}/pets.tsv")
        return [
            examples.InputExample(f"train-{i}", row[0], None, row[1]) for i, row in enumerate(rows)
        ]

    def get_labels(self):
        return ["cat", "dog"]


def test_a_processor_of_the_user(tmp_path, monkeypatch):
    monkeypatch.setitem(glue_tasks.PROCESSORS, "My_Pets", _PetProcessor)
    (tmp_path / "pets.tsv").write_text('\ufeff"meow\tcat\nwoof\tdog\n')
    processor = glue_tasks.create_processor("my_pets")
    found = processor.get_train_examples(str(tmp_path))
    assert found == [
        examples.InputExample("train-0", '"meow', None, "cat"),
        examples.InputExample("train-1", "woof", None, "dog"),
    ]
    assert processor.kind == examples.CLASSIFICATION
    assert examples.metrics_of(processor) == ("accuracy", "f1", "matthews")
    with pytest.raises(errors.UserError, match=r"_PetProcessor has no get_test_examples\(\)"):
        processor.get_test_examples(str(tmp_path))
    assert "My_Pets" in str(
        pytest.raises(errors.FlagError, glue_tasks.create_processor, "pets?").value
    )


def test_a_processor_may_replace_a_task(monkeypatch):
    monkeypatch.setitem(glue_tasks.PROCESSORS, "mrpc", _PetProcessor)
    assert glue_tasks.create_processor("MRPC").get_labels() == ["cat", "dog"]


@pytest.mark.parametrize(
    "flag",
    [{"train_file": "x.tsv"}, {"text_a_column": "0"}, {"labels": "a"}, {"has_header": False}],
)
def test_flags_of_custom_do_not_fit_other_tasks(flag):
    with pytest.raises(errors.FlagError, match=f"--{next(iter(flag))} belongs to .*=custom, not"):
        glue_tasks.create_processor("mrpc", classifier_options.ClassifierOptions(**flag))


def test_missing_files_and_sets(tmp_path):
    (tmp_path / "MRPC").mkdir()
    with pytest.raises(errors.UserError, match="no train.tsv or .*did you mean --data_dir=.*/MRPC"):
        glue_tasks.create_processor("mrpc").get_train_examples(str(tmp_path))
    with pytest.raises(errors.UserError, match="ax has no train set; train on mnli"):
        glue_tasks.create_processor("ax").get_train_examples(str(tmp_path))


def test_folders_of_a_download(tmp_path):
    (tmp_path / "diagnostic").mkdir()
    found = glue_tasks.find_directory(str(tmp_path), glue_tasks.TASKS["ax"])
    assert found == str(tmp_path / "diagnostic")
    for task, name in (("sst-2", "sst2"), ("mnli-mm", "mnli")):  # as on the hub
        (tmp_path / name).mkdir()
        found = glue_tasks.find_directory(str(tmp_path), glue_tasks.TASKS[task])
        assert found == str(tmp_path / name)
    with pytest.raises(errors.UserError, match="no folder CoLA or cola in"):
        glue_tasks.find_directory(str(tmp_path), glue_tasks.TASKS["cola"])


def test_tensorflow_is_not_needed():
    code = (
        "import sys; from tasks.classifier import features, glue_tasks; "
        "from tasks.glue import submission; "
        "assert 'tensorflow' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
