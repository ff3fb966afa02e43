"""Features against those of the original release, truncation token by token, and labels."""

import itertools
import json
import logging

import numpy as np
import pytest

import tokenization
from command_line import errors
from tasks.classifier import examples as task_examples
from tasks.classifier import features as classifier_features
from tasks.classifier import glue_tasks
from tasks.classifier import options as classifier_options

OPTIONS = classifier_options.ClassifierOptions(max_seq_length=8)
SETS = ("CoLA_train", "CoLA_test", "MRPC_dev", "MRPC_test", "MNLI_dev")


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory):
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghijklmnop"]
    path = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    path.write_text("\n".join(words) + "\n")
    return tokenization.FullTokenizer(str(path))


@pytest.mark.parametrize("name", SETS)
def test_features_are_those_of_the_original(shared, name):
    expected = json.loads((shared / f"golden/classifier/{name}.json").read_text())
    with np.load(shared / f"golden/classifier/{name}.npz") as file:
        golden = dict(file)
    task, part = name.split("_")
    tokenizer = tokenization.FullTokenizer(str(shared / "data/vocab/uncased/vocab.txt"))
    processor = glue_tasks.create_processor(task)
    read = getattr(processor, f"get_{part}_examples")
    examples = read(str(shared / "data/glue" / task))[: expected["n"]]
    assert [example.guid for example in examples] == expected["guids"]
    assert processor.get_labels() == expected["labels"]
    length = expected["max_seq_length"]
    flags = classifier_options.ClassifierOptions(max_seq_length=length)
    features = classifier_features.encode(
        examples, processor.get_labels(), flags, tokenizer, processor.kind, labelled=part != "test"
    )
    rows = np.arange(len(examples))
    np.testing.assert_array_equal(features.input_ids.padded(rows, length), golden["input_ids"])
    np.testing.assert_array_equal(features.segment_ids.padded(rows, length), golden["segment_ids"])
    mask = np.arange(length) < features.input_ids.lengths[:, None]
    np.testing.assert_array_equal(mask, golden["input_mask"])
    np.testing.assert_array_equal(features.label_ids, golden["label_ids"])
    assert features.input_ids.values.dtype == features.segment_ids.values.dtype == np.int32
    padded = classifier_features.convert_examples_to_features(
        examples[:50], expected["labels"], length, tokenizer
    )
    for index, one in enumerate(padded):
        assert one.input_ids == golden["input_ids"][index].tolist()
        assert one.input_mask == golden["input_mask"][index].tolist()
        assert one.segment_ids == golden["segment_ids"][index].tolist()
        assert (one.label_id, one.is_real_example) == (golden["label_ids"][index], True)


def _cut_token_by_token(length_a: int, length_b: int, room: int) -> tuple[int, int]:
    while length_a + length_b > room:
        if length_a > length_b:
            length_a -= 1
        else:
            length_b -= 1
    return length_a, length_b


def test_no_room_for_special_tokens(tokenizer):
    example = task_examples.InputExample("1", "a")
    with pytest.raises(errors.FlagError, match="--max_seq_length=2: expected at least 3"):
        classifier_features.convert_single_example(9, example, ["0"], 2, tokenizer)


def test_truncation_equals_dropping_tokens_one_by_one():
    assert classifier_features.cut(9, 3, 10) == (4, 3)
    for length_a in range(12):
        assert classifier_features.cut(length_a, 0, 7) == (min(length_a, 5), 0)
        for length_b in range(1, 12):
            for size in range(3, 28):
                expected = _cut_token_by_token(length_a, length_b, size - 3)
                assert classifier_features.cut(length_a, length_b, size) == expected


def test_truncation_of_a_pair_in_place():
    for length_a, length_b, room in itertools.product(range(7), range(7), range(14)):
        a, b = list("abcdefg"[:length_a]), list("hijklmn"[:length_b])
        classifier_features._truncate_seq_pair(a, b, room)
        kept_a, kept_b = _cut_token_by_token(length_a, length_b, room)
        assert (a, b) == (list("abcdefg"[:kept_a]), list("hijklmn"[:kept_b]))


def test_rows_of_every_shape(tokenizer):
    examples = [
        task_examples.InputExample("0", "a b c", None, "y"),
        task_examples.InputExample("1", "", None, "x"),
        task_examples.InputExample("2", "a", "b c", "x"),
        task_examples.InputExample("3", "", "b", "x"),
        task_examples.InputExample("4", "a", "\u200b", "x"),  # the second text has no tokens
        task_examples.InputExample("5", "a b c d e", "f g h", "y"),
    ]
    features = classifier_features.encode(examples, ["x", "y"], OPTIONS, tokenizer)
    cls, sep, a = 2, 3, 5
    expected = [
        ([cls, a, a + 1, a + 2, sep], 5),
        ([cls, sep], 2),
        ([cls, a, sep, a + 1, a + 2, sep], 3),
        ([cls, sep, a + 1, sep], 2),
        ([cls, a, sep], 3),
        ([cls, a, a + 1, a + 2, sep, a + 5, a + 6, sep], 5),
    ]
    for index, (ids, boundary) in enumerate(expected):
        assert features.input_ids.row(index).tolist() == ids
        segments = [0] * boundary + [1] * (len(ids) - boundary)
        assert features.segment_ids.row(index).tolist() == segments
    assert features.label_ids.tolist() == [1, 0, 0, 0, 0, 1]
    assert features.label_ids.dtype == np.int32


def test_no_examples(tokenizer):
    features = classifier_features.encode([], ["x", "y"], OPTIONS, tokenizer)
    assert features.input_ids.lengths.tolist() == [] and len(features.label_ids) == 0


def test_labels_of_regression_and_multi_label(tokenizer):
    numbers = [
        task_examples.InputExample(str(i), "a", None, v) for i, v in enumerate(["3.8", 0, "-1e1"])
    ]
    found = classifier_features.encode(numbers, [], OPTIONS, tokenizer, "regression").label_ids
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, np.float32([3.8, 0, -10]))
    sets = [
        task_examples.InputExample(str(i), "a", None, v)
        for i, v in enumerate([["z", "x"], [], ("x",)])
    ]
    found = classifier_features.encode(sets, ["x", "y", "z"], OPTIONS, tokenizer, "multi_label")
    assert found.label_ids.dtype == np.float32
    assert found.label_ids.tolist() == [[1, 0, 1], [0, 0, 0], [1, 0, 0]]


@pytest.mark.parametrize(
    "labels, given",
    [([0, 1, 2], 2), (["0", "1", "2"], 2), ([0, 1, 2], "2"), ([0, 1, 2], np.int64(2))],
)
def test_labels_may_be_numbers(tokenizer, labels, given):
    examples = [
        task_examples.InputExample("0", "a", None, given),
        task_examples.InputExample("1", "a", None, 0),
    ]
    found = classifier_features.encode(examples, labels, OPTIONS, tokenizer).label_ids
    assert found.tolist() == [2, 0]
    one = classifier_features.convert_single_example(0, examples[0], labels, 8, tokenizer)
    assert one.label_id == 2
    sets = [task_examples.InputExample("0", "a", None, [given, 0])]
    found = classifier_features.encode(sets, labels, OPTIONS, tokenizer, "multi_label").label_ids
    assert found.tolist() == [[1, 0, 1]]


def test_prediction_ignores_labels(tokenizer):
    # The label is a placeholder, as many processors set.
    examples = [task_examples.InputExample("test-0", "a", None, "0")]
    with pytest.raises(errors.UserError, match="test-0: label '0' is not one of 'cat', 'dog'"):
        classifier_features.encode(examples, ["cat", "dog"], OPTIONS, tokenizer)
    for kind, zeros in (
        (task_examples.CLASSIFICATION, [0]),
        (task_examples.REGRESSION, [0.0]),
        (task_examples.MULTI_LABEL, [[0.0, 0.0]]),
    ):
        features = classifier_features.encode(
            examples, ["cat", "dog"], OPTIONS, tokenizer, kind, labelled=False
        )
        assert features.label_ids.tolist() == zeros
        assert features.label_ids.dtype == (np.int32 if kind == "classification" else np.float32)
    one = classifier_features.convert_single_example(
        0, task_examples.InputExample("test-0", "a"), ["cat", "dog"], 8, tokenizer
    )
    assert one.label_id == 0


def test_mistakes_name_the_example(tokenizer):
    def encode(example, kind=task_examples.CLASSIFICATION):
        return classifier_features.encode([example], ["x"], OPTIONS, tokenizer, kind)

    with pytest.raises(errors.UserError, match="dev-3: NoneType None where a text"):
        encode(task_examples.InputExample("dev-3", None, None, "x"))
    with pytest.raises(errors.UserError, match="dev-3: label 'many' is not a finite number"):
        encode(task_examples.InputExample("dev-3", "a", None, "many"), task_examples.REGRESSION)


def test_what_is_logged(tokenizer, caplog):
    caplog.set_level(logging.INFO)
    examples = [task_examples.InputExample(f"train-{i}", "a b c d", None, "y") for i in range(7)]
    options = classifier_options.ClassifierOptions(max_seq_length=5)
    classifier_features.encode(examples, ["x", "y"], options, tokenizer)
    lines = [record.getMessage() for record in caplog.records]
    assert [line for line in lines if line.startswith("guid")] == [
        f"guid: train-{i}" for i in range(5)
    ]
    assert lines[1:7] == [
        "guid: train-0",
        "tokens: [CLS] a b c [SEP]",
        "input_ids: 2 5 6 7 3",
        "input_mask: 1 1 1 1 1",
        "segment_ids: 0 0 0 0 0",
        "label: y (id = 1)",
    ]
    assert "7 of 7 examples were cut to --max_seq_length=5" in lines


def test_padding_example(tokenizer):
    found = classifier_features.convert_single_example(
        0, task_examples.PaddingInputExample(), ["x"], 4, tokenizer
    )
    zeros = [0, 0, 0, 0]
    assert found == task_examples.InputFeatures(zeros, zeros, zeros, 0, False)


def test_check_finds_what_encode_would_refuse():
    def make(text_a="a", text_b=None, label="x"):
        return task_examples.InputExample("dev-7", text_a, text_b, label)

    classifier_features.check([make(), make(b"a", "b")], ["x"])
    classifier_features.check([make(label="y"), make(label=None)], ["x"], labelled=False)
    for example, kind, message in (
        (make(None), "classification", "example dev-7: NoneType None where a text was expected"),
        (make("a", 3.5), "classification", "example dev-7: float 3.5 where a text"),
        (make(label="y"), "classification", "example dev-7: label 'y' is not one of 'x'"),
        (make(label=None), "classification", "example dev-7 has no label; only test sets may"),
        (make(label="y"), "regression", "example dev-7: label 'y' is not a finite number"),
        (make(label=None), "regression", "example dev-7 has no label; only test sets may"),
        (make(label="1e39"), "regression", r"example dev-7: label '1e39' is beyond 3.4e\+38"),
        (
            make(label=10**400),
            "regression",
            "example dev-7: label '1000.*'… is not a finite number",
        ),
        (make(label="1_0"), "regression", "example dev-7: label '1_0' is not a finite number"),
        (make(label=float("nan")), "regression", "example dev-7: label 'nan' is not a finite"),
        (make(label=["x", "y"]), "multi_label", "example dev-7: label 'y' is not one of 'x'"),
        (make(label=None), "multi_label", "example dev-7 has no label; only test sets may"),
        (make(label="x"), "multi_label", "dev-7: label 'x' of a multi_label task; expected a list"),
        (make(label=7), "multi_label", "dev-7: label 7 of a multi_label task; expected a list"),
    ):
        with pytest.raises(errors.UserError, match=message):
            classifier_features.check(
                [make(), example] if kind[0] == "c" else [example], ["x"], kind
            )


@pytest.mark.parametrize(
    "texts, share", [(["a b", "c мир"], 25), (["мир да", "a"], 67), (["a b"] * 12, 0), ([""], 0)]
)
def test_a_table_that_the_vocabulary_does_not_know(tokenizer, texts, share, caplog):
    rows = [task_examples.InputExample(f"dev-{i}", text, None, "x") for i, text in enumerate(texts)]
    classifier_features.encode(rows, ["x"], OPTIONS, tokenizer)
    told = f"{len(texts)} examples, dev-0 and so on: {share}% of the words are [UNK]"
    assert (told in caplog.text) is bool(share) and ("[UNK]" in caplog.text) is bool(share)
