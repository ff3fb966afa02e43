"""run_squad.py from the command line to its files."""

import json
import random
import re
import shutil
import signal
import types

import numpy as np
import pytest
import tensorflow as tf

import modeling
import run_squad
import scripts
import squad_files
import tiny
import tiny_squad
from checkpoints import manager
from command_line import errors
from system import outputs
from tasks.squad import options as squad_options
from training import loop

BASE = ["--max_seq_length=40", "--max_query_length=8", "--train_batch_size=8"]
_main = scripts.Command(run_squad)


def _json(output, name):
    return json.loads((output / name).read_text("utf-8"))


def _predictions(output):
    return _json(output, "predictions.json")


TEXT = """rome is old the bridge m long 120 1895 - 1943 ( ) . , japan ##ese japanese cafe zoe
kravitz istanbul ' da steve smith s passport port pass five 北 京 天 津"""
WORDS = TEXT.split()
LETTERS = tiny_squad.LETTERS


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("squad")
    tiny_squad.write_model(folder, WORDS)
    (folder / "still.json").write_text(
        json.dumps(
            json.loads((folder / "config.json").read_text())
            | {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
        )
    )
    tiny_squad.write_json(folder / "train.json", *tiny_squad.colour_paragraphs(40))
    tiny_squad.write_json(folder / "dev.json", *tiny_squad.colour_paragraphs(13))
    tiny_squad.write_json(folder / "train2.json", *tiny_squad.colour_paragraphs(40, True))
    tiny_squad.write_json(folder / "dev2.json", *tiny_squad.colour_paragraphs(13, True))
    config = modeling.BertConfig.from_json_file(str(folder / "config.json"))
    encoder = modeling.named_variables(modeling.BertModel(config))
    state = {"kind": "--objective=mlm_nsp"}
    manager.save(str(folder / "bert"), 7, encoder, keep=1, state=state)
    return folder


def _model(folder):
    return [
        f"--vocab_file={folder / 'vocab.txt'}",
        f"--bert_config_file={folder / 'config.json'}",
    ]


def _flags(folder, output, *more):
    return [*_model(folder), f"--output_dir={output}", *BASE, *more]


def _predict(folder, output, checkpoint, file, *more):
    init = f"--init_checkpoint={checkpoint}"
    return _flags(folder, output, "--do_predict", f"--predict_file={file}", init, *more)


# --------------------------------------------------------------------------------------------------
# The original's commands and files
# --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def first(folder, tmp_path_factory):
    """The SQuAD 1.1 command of the original's README, and what it logged."""
    output = tmp_path_factory.mktemp("first")
    flags = [
        *_model(folder), f"--init_checkpoint={folder / 'bert/model.ckpt-7'}",
        "--do_train=True", f"--train_file={folder / 'train.json'}", "--do_predict=True",
        f"--predict_file={folder / 'dev.json'}", "--train_batch_size=12", "--learning_rate=3e-5",
        "--num_train_epochs=2.0", "--max_seq_length=384", "--doc_stride=128",
        f"--output_dir={output}/",
    ]  # fmt: skip
    return types.SimpleNamespace(output=output, log=_main.log(*flags))


def test_the_command_of_version_1_leaves_these_files_and_no_others(first):
    names = scripts.names(first.output)
    events = {name for name in names if name.startswith("events.out.tfevents.")}
    assert len(events) == 1
    assert names - events == {
        "checkpoint", *scripts.checkpoint_files(0, 6), "predictions.json",
        "nbest_predictions.json", "metrics.jsonl", "run.json", "bert_config.json",
    }  # fmt: skip
    predictions, nbest = (_json(first.output, f"{name}predictions.json") for name in ("", "nbest_"))
    assert list(predictions) == list(nbest) == [f"q{k}" for k in range(13)]
    for name, values in (("predictions.json", predictions), ("nbest_predictions.json", nbest)):
        assert (first.output / name).read_text() == json.dumps(values, indent=4) + "\n"
    keys = ["text", "probability", "start_logit", "end_logit"]
    for qas_id, entries in nbest.items():
        assert 1 <= len(entries) <= 20 and list(entries[0]) == keys
        assert predictions[qas_id] == entries[0]["text"]
        assert sum(entry["probability"] for entry in entries) == pytest.approx(1)
        sums = [entry["start_logit"] + entry["end_logit"] for entry in entries]
        assert sums == sorted(sums, reverse=True)
    flags = _json(first.output, "run.json")["flags"]
    assert flags["doc_stride"] == 128 and flags["num_train_epochs"] == 2.0
    for name in (
        names - events - scripts.checkpoint_files(0, 6)
    ):  # none of them may be taken for data
        with pytest.raises(errors.FlagError, match=name):
            paths = [str(first.output / name)]
            outputs.check_data(str(first.output), "train_file", paths, squad_options.OUTPUT_FILES)


def test_names_in_the_checkpoint_are_those_of_the_original(first, folder):
    values = tiny.read_checkpoint(first.output / "model.ckpt-6")
    trained = {*scripts.encoder_variables(), "cls/squad/output_weights", "cls/squad/output_bias"}
    pooler = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    slots = {f"{name}/{slot}" for name in trained for slot in ("adam_m", "adam_v")}
    # The loss does not reach the pooler: it stays what it was, and has no optimizer state.
    assert set(values) == trained | pooler | slots | {"global_step"}
    before = tiny.read_checkpoint(folder / "bert/model.ckpt-7")
    for name in pooler:
        np.testing.assert_array_equal(values[name], before[name])
    assert values["cls/squad/output_weights"].shape == (2, 16)
    assert values["global_step"] == 6
    key = "bert/encoder/layer_0/attention/self/key/kernel"
    assert np.abs(values[key] - before[key]).max() > 1e-6


def test_examples_are_logged_as_many_as_asked_for(folder, flat, tmp_path):
    more = [folder / "dev.json", "--log_examples=2"]
    log = _main.log(*_predict(folder, tmp_path, flat, *more))
    assert log.count("*** Example ***") == 2


def test_twenty_examples_of_each_set_are_logged(first, folder):
    assert first.log.count("*** Example ***") == 20 + 13
    order = list(range(40))
    random.Random(12345).shuffle(order)
    data = json.loads((folder / "train.json").read_text())["data"][0]["paragraphs"]
    question = data[order[0]]
    context, answer = question["context"].split(), question["qas"][0]["answers"][0]["text"]
    tokens = ["[CLS]", "what", "?", "[SEP]", *context, "[SEP]"]
    at, end = 4 + context.index(answer), 4 + len(context)
    start = first.log.index("*** Example ***")
    lines = first.log[start + 1 : start + 13]
    vocab = (folder / "vocab.txt").read_text("utf-8").split("\n")
    ids = [vocab.index(token) for token in tokens]
    joined = {
        "input_ids": ids,
        "input_mask": [1] * len(ids),
        "segment_ids": [*[0] * 4, *[1] * (len(context) + 1)],
    }
    assert lines == [
        "unique_id: 1000000000", "example_index: 0", "doc_span_index: 0",
        f"tokens: {' '.join(tokens)}",
        "token_to_orig_map: " + " ".join(f"{k}:{k - 4}" for k in range(4, end)),
        "token_is_max_context: " + " ".join(f"{k}:True" for k in range(4, end)),
        *(f"{name}: {' '.join(map(str, values))}" for name, values in joined.items()),
        f"start_position: {at}", f"end_position: {at}", f"answer: {answer}",
    ]  # fmt: skip
    summary = "40 questions, 0 of them without an answer: kept 40 of 40, skipped 0"
    assert summary in first.log
    assert any(line.startswith("40 examples, 40 windows, 40 of them with") for line in first.log)
    assert "training: 40 examples, batches of 12, 6 steps" in first.log


def test_the_commands_of_version_2(folder, tmp_path):
    flags = [
        *_model(folder), f"--init_checkpoint={folder / 'bert/model.ckpt-7'}",
        f"--train_file={folder / 'train2.json'}", "--do_predict=True",
        f"--predict_file={folder / 'dev2.json'}", "--train_batch_size=24", "--learning_rate=3e-5",
        "--num_train_epochs=2.0", "--max_seq_length=384", "--doc_stride=128",
        f"--output_dir={tmp_path}/squad/", "--use_tpu=False", "--tpu_name=x",
        "--version_2_with_negative=True",
    ]  # fmt: skip
    assert "impossible example" in _main.log(*flags, "--do_train=True")
    output = tmp_path / "squad"
    assert scripts.checkpoint_files(3) < scripts.names(output)
    odds, nbest = _json(output, "null_odds.json"), _json(output, "nbest_predictions.json")
    assert (output / "null_odds.json").read_text() == json.dumps(odds, indent=4) + "\n"
    assert list(odds) == list(_predictions(output)) == [f"q{k}" for k in range(13)]
    for qas_id, entries in nbest.items():
        null = next(entry for entry in entries if not entry["text"])
        best = next(entry for entry in entries if entry["text"])
        sums = [entry["start_logit"] + entry["end_logit"] for entry in (null, best)]
        assert odds[qas_id] == pytest.approx(sums[0] - sums[1], abs=1e-6)
    # The threshold that a script found for the first predictions.
    middle = sorted(odds.values())[6]
    again = ["--do_train=False", f"--null_score_diff_threshold={middle}"]
    assert _main(*flags, *again) == 0
    for qas_id, text in _predictions(output).items():
        assert (text == "") == (odds[qas_id] > middle)
    assert sum(text != "" for text in _predictions(output).values()) >= 1


# --------------------------------------------------------------------------------------------------
# Training
# --------------------------------------------------------------------------------------------------


LEARNING = ["--learning_rate=2e-2", "--num_train_epochs=8"]


@pytest.fixture(scope="module")
def learned(folder, tmp_path_factory):
    """A model of version 2 that has learned its task; evaluated on the way."""
    output = tmp_path_factory.mktemp("learned")
    files = [f"--train_file={folder / 'train2.json'}", f"--predict_file={folder / 'dev2.json'}"]
    do = ["--do_train", "--do_predict", "--do_eval", "--version_2_with_negative"]
    more = [f"--dev_file={folder / 'dev2.json'}", "--eval_steps=20", "--save_weights_only"]
    log = _main.log(*_flags(folder, output, *files, *do, *more, *LEARNING))
    return types.SimpleNamespace(output=output, log=log, prefix=output / "model.ckpt-40")


def test_it_learns_and_scores(learned, folder):
    gold = json.loads((folder / "dev2.json").read_text())["data"][0]["paragraphs"]
    predictions = _predictions(learned.output)
    right = [
        predictions[qa["id"]] == (qa["answers"][0]["text"] if qa["answers"] else "")
        for paragraph in gold
        for qa in paragraph["qas"]
    ]
    results = _json(learned.output, "eval_results.json")
    assert results["exact"] == pytest.approx(100 * np.mean(right)) and np.mean(right) > 0.7
    assert results["total"] == 13 and results["NoAns_total"] == 4 and results["HasAns_total"] == 9
    assert results["global_step"] == 40
    assert results["best_f1"] >= results["f1"] - 1e-9
    text = scripts.results(learned.output / "eval_results.txt")
    assert set(text) == set(results) == {
        "exact", "f1", "total", "HasAns_exact", "HasAns_f1", "HasAns_total", "NoAns_exact",
        "NoAns_f1", "NoAns_total", "best_exact", "best_exact_thresh", "best_f1", "best_f1_thresh",
        "global_step",
    }  # fmt: skip
    for name, value in results.items():
        assert float(text[name]) == pytest.approx(value, rel=1e-6)


def test_the_best_checkpoint_is_that_of_the_best_f1(learned, folder, tmp_path):
    lines = (learned.output / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    found = {row["step"]: row["eval_f1"] for row in rows if "eval_f1" in row}
    assert set(found) == {20, 40}
    best = manager.latest(str(learned.output / "best"))
    step = max(found, key=lambda step: (found[step], -step))
    assert best is not None and best.endswith(f"model.ckpt-{step}")
    shutil.copytree(learned.output, tmp_path / "run")
    flags = ["--do_eval", "--eval_checkpoint=best", "--version_2_with_negative"]
    more = f"--predict_file={folder / 'dev2.json'}"
    assert _main(*_flags(folder, tmp_path / "run", *flags, more)) == 0
    results = _json(tmp_path / "run", f"eval_results-{step}.json")
    assert results["f1"] == pytest.approx(found[step]) and results["global_step"] == step
    assert (tmp_path / "run/eval_results.txt").read_bytes() == (
        learned.output / "eval_results.txt"
    ).read_bytes()


@pytest.mark.slow
def test_a_stopped_run_goes_on_to_the_same_weights(folder, tmp_path, monkeypatch):
    flags = ["--do_train", f"--train_file={folder / 'train.json'}", "--learning_rate=1e-2"]
    whole = ["--num_train_epochs=2", "--save_checkpoints_steps=4"]
    assert _main(*_flags(folder, tmp_path / "whole", *flags, *whole)) == 0
    part = tmp_path / "part"
    saves = []
    save = manager.save

    def counted(directory, step, *more, **others):
        saves.append(step)
        if step == 4:
            signal.raise_signal(signal.SIGTERM)
        return save(directory, step, *more, **others)

    monkeypatch.setattr(manager, "save", counted)
    assert _main(*_flags(folder, part, *flags, *whole, "--do_predict",
                         f"--predict_file={folder / 'dev.json'}")) == 143  # fmt: skip
    assert not (part / "predictions.json").exists() and not (part / "model.ckpt-10.index").exists()
    monkeypatch.undo()
    assert _main(*_flags(folder, part, *flags, *whole)) == 0
    scripts.assert_same_checkpoints(
        *(tmp_path / run / "model.ckpt-10" for run in ("whole", "part"))
    )
    assert saves[:2] == [0, 4]


@pytest.mark.slow
def test_two_devices_predict_as_one(folder, learned, script, tmp_path):
    flags = ["--version_2_with_negative", "--predict_batch_size=5"]
    ways = [
        _predict(folder, tmp_path / name, learned.output, folder / "dev2.json", *flags)
        for name in ("one", "two")
    ]
    assert _main(*ways[0]) == 0
    done = script("run_squad.py", *ways[1], "--num_cpu_devices=2")
    assert done.returncode == 0, done.stderr
    assert len(_json(tmp_path / "two", "run.json")["devices"]) == 2
    _same_nbest(tmp_path / "two", tmp_path / "one")


@pytest.mark.slow
def test_two_devices_train_as_one(folder, script, tmp_path):
    still = [f"--bert_config_file={folder / 'still.json'}"]
    flags = [*still, "--do_train", f"--train_file={folder / 'train.json'}", "--num_train_epochs=2"]
    assert _main(*_flags(folder, tmp_path / "one", *flags)) == 0
    done = script("run_squad.py", *_flags(folder, tmp_path / "two", *flags), "--num_cpu_devices=2")
    assert done.returncode == 0, done.stderr
    runs = (tmp_path / name / "model.ckpt-10" for name in ("one", "two"))
    scripts.assert_same_checkpoints(*runs, tolerance=1e-5)


def _same_nbest(output, other):
    assert _predictions(output) == _predictions(other)
    found, wanted = (_json(path, "nbest_predictions.json") for path in (output, other))
    for qas_id, entries in wanted.items():
        assert [entry["text"] for entry in found[qas_id]] == [entry["text"] for entry in entries]
        for name in ("probability", "start_logit", "end_logit"):
            np.testing.assert_allclose(
                [entry[name] for entry in found[qas_id]],
                [entry[name] for entry in entries],
                atol=1e-5,
            )


@pytest.mark.slow
def test_one_part_of_the_batch_after_the_other_with_all_kinds_of_heads(folder, tmp_path):
    files = [f"--train_file={folder / 'train2.json'}", f"--predict_file={folder / 'dev2.json'}"]
    do = ["--do_train", "--do_eval", "--version_2_with_negative", *LEARNING]
    for name, more in (
        ("bilstm", ["--head=bilstm", "--gradient_accumulation_steps=2"]),
        ("static", ["--static_shapes"]),
        ("xla", ["--xla", "--num_train_epochs=4"]),
        ("frozen", ["--freeze_layers=1"]),
    ):
        assert _main(*_flags(folder, tmp_path / name, *files, *do, *more)) == 0
        found = _json(tmp_path / name, "eval_results.json")["HasAns_f1"]
        assert found > 50 or name == "frozen", name
    names = set(tiny.read_checkpoint(manager.latest(str(tmp_path / "bilstm"))))
    assert "bilstm/forward/kernel/adam_m" in names
    frozen = tiny.read_checkpoint(manager.latest(str(tmp_path / "frozen")))
    assert {name for name in frozen if name.endswith("adam_m")} == {
        "cls/squad/output_weights/adam_m",
        "cls/squad/output_bias/adam_m",
    }


# --------------------------------------------------------------------------------------------------
# Reading training data
# --------------------------------------------------------------------------------------------------


@pytest.fixture
def without_steps(monkeypatch):
    """Training ends before its first step, when all has been read."""
    monkeypatch.setattr(loop.Trainer, "train", lambda *_: False)


def _trained_on(log):
    """(tokens, start, end, answer) of the windows in the log, by the first word of the context."""
    found: dict[str, list] = {}
    for index, line in enumerate(log):
        if line.startswith("tokens: "):
            tokens = line.removeprefix("tokens: ").split()
            rest = [
                row for row in log[index : index + 10] if row.startswith(("start", "end_", "ans"))
            ]
            start, end, answer = (row.split(": ", 1)[1] for row in rest)
            found.setdefault(tokens[4], []).append((int(start), int(end), answer))
    return found


def test_answers_that_are_kept_narrowed_moved_and_dropped(folder, tmp_path):
    paragraphs = [
        ("h 北京\u3000天津", [squad_files.question("narrowed", ("天津", 5))]),
        ("k is old.", [squad_files.question("moved", ("old", 4), ("is", 2))]),  # it begins at 5
    ]
    for name, text, start in (("outside", "old", 40), ("none", "new", 8), ("empty", "", 0)):
        paragraphs.append(("Rome is old.", [squad_files.question(name, (text, start))]))
    path = tiny_squad.write_json(tmp_path / "train.json", *paragraphs)
    flags = ["--do_train", f"--train_file={path}", "--answer_policy=first", "--num_train_epochs=8"]
    log = _main.log(*_flags(folder, tmp_path / "run", *flags))
    assert _trained_on(log) == {"h": [(7, 8, "天 津")], "k": [(6, 6, "old")]}
    text = "\n".join(log)
    assert "5 questions, 0 of them without an answer: kept 2 of 5, skipped 3" in text
    assert "2 answers narrowed to a part of a word, 1 moved to where" in text
    for reason, qas_id in (("answer_start is outside the context", "outside"),
                           ("the answer is not at its answer_start", "none"),
                           ("the answer is empty", "empty")):  # fmt: skip
        assert f"skipped 1, {reason}: {qas_id}" in text
    # Steps are counted of the questions that are left: int(8 * 2 / 8).
    assert "training: 2 examples, batches of 8, 2 steps" in text


def test_answers_that_do_not_fit_a_window(folder, tmp_path, capsys, without_steps):
    context = " ".join(LETTERS[:14])
    cut = squad_files.question("cut", ("j k l", context.index("j")))
    whole = squad_files.question("whole", (context, 0))
    path = tiny_squad.write_json(tmp_path / "train.json", (context, [cut, whole]))
    flags = ["--do_train", f"--train_file={path}", "--max_seq_length=16", "--doc_stride=4"]
    log = _main.log(*_flags(folder, tmp_path / "run", *flags))
    assert any(line.startswith("2 examples, 4 windows, 1 of them with") for line in log)
    flags.append("--whole_answer_windows_only")
    log = _main.log(*_flags(folder, tmp_path / "some", *flags))
    assert "training on the 1 windows with a whole answer or none to find" in log
    tiny_squad.write_json(tmp_path / "train.json", (context, [whole]))
    line = _main.error(capsys, 1, *_flags(folder, tmp_path / "no", *flags))
    assert "no window is left to train on; expected contexts with text" in line


# --------------------------------------------------------------------------------------------------
# Prediction
# --------------------------------------------------------------------------------------------------


def test_texts_of_answers(folder, tmp_path):
    """Punctuation, accents, invisible characters and scripts without spaces."""
    # Context, first and last token, the answer's text.
    cases = [
        ("a cafe\u0301, b", "cafe", "cafe", "cafe\u0301"),
        ("a pass\u200bport, b", "passport", "passport", "pass\u200bport"),
        ("a (1895-1943). b", "1895", "1895", "1895"),
        ("a Steve Smith's b", "steve", "smith", "Steve Smith"),
        ("a 北京\u3000天津 b", "天", "津", "天津"),
        ("a  Rome\t is\nold b", "rome", "old", "Rome is old"),
    ]
    starts, ends = ({case[at]: 9.0 for case in cases} for at in (1, 2))
    speaker = tiny_squad.write_speaker(folder, "texts", starts, ends)
    qas = [{"id": str(index), "question": "What?"} for index in range(len(cases))]
    # Nothing about answers is needed.
    paragraphs = [(case[0], [qa]) for case, qa in zip(cases, qas, strict=True)]
    path = tiny_squad.write_json(tmp_path / "dev.json", *paragraphs)
    assert _main(*_predict(folder, tmp_path, speaker, path, "--nbest_offsets")) == 0
    assert list(_predictions(tmp_path).values()) == [case[3] for case in cases]
    nbest = _json(tmp_path, "nbest_predictions.json")
    for (context, _, _, text), entries in zip(cases, nbest.values(), strict=True):
        found = context[entries[0]["start"] : entries[0]["end"]]
        assert " ".join(re.split("[ \t\n]+", found)) == text


def test_exact_texts_and_readable_json(folder, tmp_path):
    """A word with an unknown character: all of it is the answer, unless its place is asked for."""
    speaker = tiny_squad.write_speaker(folder, "thai", {"京": 9}, {"京": 9})
    context = "ก北京ข天"
    path = tiny_squad.write_json(tmp_path / "dev.json", (context, [squad_files.question("q")]))
    plain, exact, readable = (
        _predict(folder, tmp_path / name, speaker, path, *more)
        for name, more in (
            ("plain", []),
            ("exact", ["--exact_answer_texts"]),
            ("readable", ["--noensure_ascii", "--null_score_diff_threshold=3"]),
        )
    )
    for flags in (plain, exact):
        assert _main(*flags) == 0
    log = "\n".join(_main.log(*readable))
    assert "which is taken whole" not in log
    assert "--null_score_diff_threshold=3 does nothing without --version_2" in log
    assert any("which is taken whole" in line for line in _main.log(*readable, "--verbose_logging"))
    assert _predictions(tmp_path / "exact") == {"q": "京"}
    assert _predictions(tmp_path / "plain") == _predictions(tmp_path / "readable")
    text = (tmp_path / "exact/predictions.json").read_bytes()
    assert text == b'{\n    "q": "\\u4eac"\n}\n'
    text = (tmp_path / "readable/nbest_predictions.json").read_text("utf-8")
    assert "京" in text and "\\u" not in text


@pytest.fixture(scope="module")
def flat(folder):
    """A model that says the same of all tokens, so that the best ones are the first ones."""
    return tiny_squad.write_speaker(folder, "flat", {}, {})


def test_a_window_without_a_result_writes_nothing(folder, flat, tmp_path, capsys, monkeypatch):
    predict = loop.Trainer.predict

    def lossy(self, *arguments):
        for index, found in enumerate(predict(self, *arguments)):
            if index != 1:
                yield found

    monkeypatch.setattr(loop.Trainer, "predict", lossy)
    flags = _predict(folder, tmp_path / "run", flat, folder / "dev.json")
    line = _main.error(capsys, 1, *flags)
    assert re.search(r"5 of 13 windows have no prediction \(unique ids 10000000\d\d", line)
    assert not [name for name in scripts.names(tmp_path / "run") if "predictions" in name]


def test_answers_depend_on_nothing_but_the_model(learned, folder, tmp_path):
    data = json.loads((folder / "dev2.json").read_text())
    for qas_id, context in (("long", " ".join([*LETTERS, "gold", *LETTERS])), ("empty", "\u200b")):
        paragraph = {"context": context, "qas": [squad_files.question(qas_id)]}
        data["data"][0]["paragraphs"].append(paragraph)
    path, reversed_path = tmp_path / "dev.json", tmp_path / "reversed.json"
    path.write_text(json.dumps(data))
    data["data"][0]["paragraphs"].reverse()
    reversed_path.write_text(json.dumps(data))
    flags = ["--version_2_with_negative", "--doc_stride=16"]
    ways = [
        ["--predict_batch_size=1"],
        ["--predict_batch_size=32"],
        ["--predict_batch_size=4", "--static_shapes"],
        ["--predict_batch_size=5", f"--predict_file={reversed_path}", "--num_workers=2"],
    ]
    for index, way in enumerate(ways):
        output = tmp_path / f"way{index}"
        assert _main(*_predict(folder, output, learned.output, path, *flags, *way)) == 0
        _same_nbest(output, tmp_path / "way0")
        odds = [_json(tmp_path / name, "null_odds.json") for name in ("way0", f"way{index}")]
        for qas_id, value in odds[0].items():
            assert odds[1][qas_id] == pytest.approx(value, abs=1e-5)
    predictions = _predictions(tmp_path / "way0")
    assert (predictions["long"], predictions["empty"]) == ("gold", "")
    assert list(_predictions(tmp_path / "way3")) == list(_predictions(tmp_path / "way0"))[::-1]


def test_an_ensemble_answers_with_the_mean_of_its_logits(folder, tmp_path, capsys):
    context = "a b c d"
    gold = squad_files.question("q", ("c", 4))
    path = tiny_squad.write_json(tmp_path / "dev.json", (context, [gold]))
    members = [
        tiny_squad.write_speaker(folder, name, {a: 9, b: 8}, {a: 9, b: 8})
        for name, a, b in (("ens1", "a", "c"), ("ens2", "b", "c"), ("ens3", "d", "c"))
    ]
    flags = [_predict(folder, tmp_path / name, init, path, "--do_eval")
             for name, init in zip("123", members, strict=True)]  # fmt: skip
    logits = []
    for name, one in zip("123", flags, strict=True):
        assert _main(*one, "--n_best_size=40") == 0
        nbest = _json(tmp_path / name, "nbest_predictions.json")["q"]
        logits.append({entry["text"]: entry["start_logit"] for entry in nbest})
        assert _predictions(tmp_path / name) != {"q": "c"}
    together = _predict(folder, tmp_path / "all", ",".join(members), path, "--do_eval")
    assert _main(*together) == 0
    assert _predictions(tmp_path / "all") == {"q": "c"}
    best = _json(tmp_path / "all", "nbest_predictions.json")["q"][0]
    assert best["start_logit"] == pytest.approx(np.mean([side["c"] for side in logits]), abs=1e-5)
    results = scripts.results(tmp_path / "all/eval_results.txt")
    assert results == {"exact_match": "100.0", "f1": "100.0"}
    assert not list(tmp_path.glob("all/model.ckpt*"))

    train = [f"--train_file={folder / 'train.json'}", "--do_train"]
    for more, flag in ((train, "do_train"), (["--do_export"], "do_export"),
                       (["--eval_checkpoint=x"], "eval_checkpoint")):  # fmt: skip
        line = _main.error(capsys, 2, *together, *more)
        assert "names 3 models" in line and f"can only predict together; --{flag} takes" in line
    for init, message in ((",", "no name before or after a comma"),
                          (f"{members[0]},", "no name before or after a comma"),
                          (f"{members[0]},{members[0]}", "more than once")):  # fmt: skip
        assert message in _main.error(capsys, 2, *together, f"--init_checkpoint={init}")
    shutil.copytree(folder / "ens1", tmp_path / "taken")
    line = _main.error(capsys, 1, *together, f"--output_dir={tmp_path / 'taken'}")
    assert "names 3 models, but" in line and "give another --output_dir" in line


def test_members_that_one_model_cannot_run(folder, tmp_path, capsys):
    path = tiny_squad.write_json(tmp_path / "dev.json", ("a b", [squad_files.question("q")]))
    one = tiny_squad.write_speaker(folder, "shallow", {"a": 9}, {"a": 9})
    left = tiny_squad.write_speaker(folder, "left", {}, {}, attention="left_to_right")
    for member in (f"{one},{left}", f"{left},{one}"):
        line = _main.error(capsys, 1, *_predict(folder, tmp_path / "run", member, path))
        assert "--init_checkpoint names models that differ in attention (" in line
        assert f"{left}: left_to_right" in line and f"{one}: bidirectional" in line
    other = tmp_path / "other"
    other.mkdir()
    tiny_squad.write_model(other, WORDS, num_hidden_layers=2)
    two = tiny_squad.write_speaker(other, "deep", {"a": 9}, {"a": 9})
    deep = f"--bert_config_file={other / 'config.json'}"
    for member in (f"{one},{two}", f"{two},{one}", two):
        line = _main.error(capsys, 1, *_predict(folder, tmp_path / "run", member, path))
        assert f"--init_checkpoint={two}: it also has bert/encoder/layer_1" in line
        assert "look at num_hidden_layers in --bert_config_file" in line
    for member in (f"{two},{one}", one):
        line = _main.error(capsys, 1, *_predict(folder, tmp_path / "run", member, path, deep))
        assert f"--init_checkpoint={one}: it lacks bert/encoder/layer_1" in line
    headless = f"{one},{folder / 'bert'}"
    line = _main.error(capsys, 1, *_predict(folder, tmp_path / "run", headless, path))
    assert "has no cls/squad/output_weights: the results would be those of an" in line
    shutil.copytree(folder / "shallow", tmp_path / "heads")
    config = json.loads((folder / "config.json").read_text()) | {"num_attention_heads": 1}
    (tmp_path / "heads/bert_config.json").write_text(json.dumps(config))
    member = f"{one},{tmp_path / 'heads'}"
    line = _main.error(capsys, 1, *_predict(folder, tmp_path / "run", member, path))
    assert f"num_attention_heads 2, but {tmp_path / 'heads/model.ckpt-1'} was trained" in line
    line = _main.error(capsys, 2, *_predict(folder, tmp_path / "run", f"{one},{one}.index", path))
    assert f"names one model twice, as {one} and as {one}.index" in line
    assert not (tmp_path / "run").exists()


# --------------------------------------------------------------------------------------------------
# Scores and the threshold of "no answer"
# --------------------------------------------------------------------------------------------------


def test_scores_of_version_1_by_hand(folder, tmp_path):
    speaker = tiny_squad.write_speaker(folder, "hand", {"b": 9}, {"c": 9})
    qas = [
        squad_files.question("exact", ("b c", 2)),
        squad_files.question("half", ("b c d e", 2), ("e", 8)),
        squad_files.question("wrong", ("d", 6)),
    ]
    path = tiny_squad.write_json(tmp_path / "dev.json", ("a b c d e", qas))
    flags = _flags(folder, tmp_path / "run", "--do_eval", f"--predict_file={path}")
    assert _main(*flags, f"--init_checkpoint={speaker}") == 0
    results = _json(tmp_path / "run", "eval_results.json")
    f1 = 100 * (1 + 2 / 3) / 3
    wanted = {"exact_match": 100 / 3, "f1": f1, "global_step": 0}
    assert results == pytest.approx(wanted)
    assert {"predictions.json", "nbest_predictions.json"}.isdisjoint(
        scripts.names(tmp_path / "run")
    )


def _odds_file(path):
    """Questions whose odds of no answer rise with the number of their letters s."""
    found = []
    for name, word, has_answer in (("one", "rome", True), ("two", "old", True),
                                   ("three", "japan", False), ("four", "cafe", False)):  # fmt: skip
        qa = squad_files.question(name, *[(word, 2)] * has_answer, is_impossible=not has_answer)
        found.append((f"a {word} b", [qa]))
    return tiny_squad.write_json(path, *found)


def test_the_threshold_is_tuned_kept_and_used_again(folder, tmp_path, capsys, caplog):
    caplog.set_level("INFO")
    scores = {"rome": 8, "old": 6, "japan": 4, "cafe": 2, "[CLS]": 1}
    speaker = tiny_squad.write_speaker(folder, "tuned", scores, scores)
    path = _odds_file(tmp_path / "dev2.json")
    auto = ["--version_2_with_negative", "--null_score_diff_threshold=auto"]
    flags = _predict(folder, tmp_path / "run", speaker, path, "--do_eval", *auto)
    line = _main.error(capsys, 1, *flags)
    assert f"no null_threshold.json in {folder / 'tuned'} or {tmp_path / 'run'}; give a --d" in line
    assert _main(*flags, f"--dev_file={path}") == 0
    odds = _json(tmp_path / "run", "null_odds.json")
    assert list(odds) == sorted(odds, key=lambda name: odds[name])
    kept = _json(tmp_path / "run", "null_threshold.json")
    threshold = kept["null_score_diff_threshold"]
    assert odds["two"] < threshold < odds["three"]
    assert re.fullmatch("[0-9a-f]{16}", kept.pop("model"))
    assert kept == {"null_score_diff_threshold": threshold, "f1": 100.0, "dev_file": path,
                    "global_step": 0}  # fmt: skip
    wanted = {"one": "Rome", "two": "old", "three": "", "four": ""}
    assert {k: v.lower() for k, v in _predictions(tmp_path / "run").items()} == {
        k: v.lower() for k, v in wanted.items()
    }
    assert _json(tmp_path / "run", "eval_results.json")["exact"] == 100

    # A later prediction takes it from the file, here or beside the model; only if that is asked.
    assert _main(*flags) == 0
    assert _predictions(tmp_path / "run")["three"] == ""
    shutil.copy(tmp_path / "run/null_threshold.json", folder / "tuned")
    other = f"--output_dir={tmp_path / 'other'}"
    assert _main(*flags, other) == 0
    assert _predictions(tmp_path / "other")["three"] == ""
    assert _main(*flags, other, "--null_score_diff_threshold=0.0") == 0
    assert _predictions(tmp_path / "other")["three"] == "japan"
    (folder / "tuned/null_threshold.json").write_text('{"null_score_diff_threshold": "x"}')
    line = _main.error(capsys, 1, *flags, other)
    assert "null_threshold.json: damaged; expected null_score_diff_threshold, a number" in line
    # Another file to tune on than to predict, and no scores.
    again = [f"--dev_file={path}", f"--predict_file={folder / 'dev2.json'}", "--nodo_eval", other]
    assert _main(*flags, *again) == 0
    assert _json(tmp_path / "other", "null_threshold.json")["null_score_diff_threshold"] == (
        pytest.approx(threshold)
    )
    assert len(_predictions(tmp_path / "other")) == 13


def test_training_can_end_with_the_threshold(folder, tmp_path, caplog):
    auto = ["--version_2_with_negative", "--null_score_diff_threshold=auto"]
    files = [f"--train_file={folder / 'train2.json'}", f"--dev_file={folder / 'dev2.json'}"]
    flags = _flags(folder, tmp_path, *auto, *files)
    assert _main(*flags, "--do_train", "--num_train_epochs=1") == 0
    kept = _json(tmp_path, "null_threshold.json")
    assert kept["global_step"] == 5 and 0 <= kept["f1"] <= 100
    predict = ["--do_predict", f"--predict_file={folder / 'dev2.json'}"]
    assert _main(*_flags(folder, tmp_path, *auto, *predict)) == 0
    # One of an earlier step goes beside it, and each serves its own model.
    step = [f"--eval_checkpoint={tmp_path / 'model.ckpt-0'}", predict[1]]
    assert _main(*_flags(folder, tmp_path, *auto, files[1], *step, "--do_eval")) == 0
    assert _json(tmp_path, "null_threshold.json") == kept
    earlier = _json(tmp_path, "null_threshold-0.json")
    assert earlier["global_step"] == 0 and earlier["model"] != kept["model"]
    caplog.clear()
    caplog.set_level("INFO")
    assert _main(*_flags(folder, tmp_path, *auto, *step, "--do_predict")) == 0
    assert f"{earlier['null_score_diff_threshold']} of {tmp_path}" in caplog.text


def test_a_threshold_serves_no_other_model(folder, tmp_path, capsys):
    scores = {"rome": 8, "old": 6, "japan": 4, "cafe": 2, "[CLS]": 1}
    one = tiny_squad.write_speaker(folder, "one", scores, scores)
    two = tiny_squad.write_speaker(folder, "two", scores, scores, bias=1.0)
    path = _odds_file(tmp_path / "dev2.json")
    auto = ["--version_2_with_negative", "--null_score_diff_threshold=auto"]
    run = tmp_path / "run"
    assert _main(*_predict(folder, run, one, path, *auto, f"--dev_file={path}")) == 0
    shutil.copy(run / "null_threshold.json", folder / "one")
    (run / "predictions.json").unlink()
    for models in (two, f"{one},{two}"):
        line = _main.error(capsys, 1, *_predict(folder, run, models, path, *auto))
        assert "null_threshold.json was tuned for another model than the one that" in line
        assert "give a --dev_file" in line and not (run / "predictions.json").exists()
    both = [f"{two},{one}", path, *auto]
    assert _main(*_predict(folder, tmp_path / "both", *both, f"--dev_file={path}")) == 0
    assert _main(*_predict(folder, tmp_path / "both", f"{one},{two}", path, *auto)) == 0


# --------------------------------------------------------------------------------------------------
# Export
# --------------------------------------------------------------------------------------------------


def test_export_says_what_prediction_says(folder, learned, tmp_path, capsys):
    path = tiny_squad.write_json(tmp_path / "dev.json", ("a b gold c", [squad_files.question("q")]))
    flags = _predict(folder, tmp_path / "run", learned.output, path, "--version_2_with_negative")
    (tmp_path / "run/export").mkdir(parents=True)
    (tmp_path / "run/export/mine").touch()
    line = _main.error(capsys, 1, *flags, "--do_export")
    assert "export holds mine and is not a SavedModel; move it" in line
    assert scripts.names(tmp_path / "run") == {"export"}
    (tmp_path / "run/export/mine").unlink()
    assert _main(*flags, "--do_export") == 0
    with_export = (tmp_path / "run/nbest_predictions.json").read_bytes()
    assert _main(*flags) == 0  # an export changes nothing
    assert (tmp_path / "run/nbest_predictions.json").read_bytes() == with_export
    loaded = tf.saved_model.load(str(tmp_path / "run/export"))
    assert set(loaded.signatures) == {"serving_default", "int64", "with_unique_ids"}
    vocab = (folder / "vocab.txt").read_text("utf-8").split("\n")
    tokens = ["[CLS]", "what", "?", "[SEP]", "a", "b", "gold", "c", "[SEP]"]
    ids = np.array([[vocab.index(token) for token in tokens] + [0] * 3] * 2)
    mask = np.array([[1] * 9 + [0] * 3] * 2)
    segments = np.array([[0] * 4 + [1] * 5 + [0] * 3] * 2)
    inputs = {"input_ids": ids, "input_mask": mask, "segment_ids": segments}
    null, gold = (
        next(e for e in json.loads(with_export)["q"] if e["text"] == text) for text in ("", "gold")
    )
    for name, dtype in (("serving_default", tf.int32), ("int64", tf.int64),
                        ("with_unique_ids", tf.int32)):  # fmt: skip
        fed = {key: tf.constant(value, dtype) for key, value in inputs.items()}
        if name == "with_unique_ids":
            fed["unique_ids"] = tf.constant([1000000007, 3])
        found = loaded.signatures[name](**fed)
        for entry, position in ((null, 0), (gold, 6)):
            for side in ("start", "end"):
                values = found[f"{side}_logits"][:, position]
                np.testing.assert_allclose(values, entry[f"{side}_logit"], atol=1e-5)
        assert int(tf.argmax(found["start_logits"][0])) == 6
        assert ("unique_ids" in found) == (name == "with_unique_ids")
    np.testing.assert_array_equal(found["unique_ids"], [1000000007, 3])
    assert set(found) == {"start_logits", "end_logits", "unique_ids"}


# --------------------------------------------------------------------------------------------------
# Mistakes
# --------------------------------------------------------------------------------------------------


AUTO = "--null_score_diff_threshold=auto"
TWO = "--version_2_with_negative"


@pytest.mark.parametrize(
    "status, message, flags",
    [
        (2, "--train_file is missing; --do_train needs it", ["--do_train", "--train_file="]),
        (2, "--predict_file is missing; --do_predict needs", ["--do_predict", "--predict_file="]),
        (2, "--predict_file is missing; --do_eval needs it", ["--do_eval", "--predict_file="]),
        (2, "--max_seq_length=67 leaves no room.*--max_query_length . 3 = 67",
         ["--do_predict", "--max_seq_length=67", "--max_query_length=64"]),
        (2, "--doc_stride=0: expected at least 1", ["--do_train", "--doc_stride=0"]),
        (2, "--n_best_size=0: expected at least 1", ["--do_predict", "--n_best_size=0"]),
        (2, "--max_answer_length=0", ["--do_predict", "--max_answer_length=0"]),
        (2, "--answer_policy=last: expected one of error, first, shortest, all",
         ["--do_train", "--answer_policy=last"]),
        (2, "sequence length --max_seq_length=401: .* 400", ["--do_train", "--max_seq_length=401"]),
        *((2, f"threshold={value}: expected a finite number or auto",
           ["--do_predict", f"--null_score_diff_threshold={value}"])
          for value in ("high", "nan", "inf", "")),
        (2, "=auto does nothing without --version_2_with_negative", ["--do_predict", AUTO]),
        (2, "--dev_file is missing; .*=auto needs it with", ["--do_train", AUTO, TWO]),
        (2, "=auto does nothing without --do_predict or --do_eval", ["--do_export", AUTO, TWO]),
        (2, "--dev_file does nothing without --eval_steps or", ["--do_predict", "--dev_file=d"]),
        (2, "--dev_file is missing; --eval_steps needs it, or",
         ["--do_train", "--eval_steps=3", "--predict_file="]),
        (1, "--train_file: no file matches nowhere.json; check the path",
         ["--do_train", "--train_file=nowhere.json"]),
        (1, "--predict_file: .* is a directory", ["--do_predict", "--predict_file=/"]),
        (2, "--train_file names 2 files; give one",
         ["--do_train", f"--train_file={__file__},{tiny.__file__}"]),
        (1, "nothing to evaluate: no checkpoint in --output_dir", ["--do_predict"]),
        (1, r"test_run_squad.py:1: not JSON in the layout of SQuAD",
         ["--do_train", f"--train_file={__file__}"]),
    ],
)  # fmt: skip
def test_flags_that_do_not_fit(folder, tmp_path, capsys, status, message, flags):
    """More flags, of all fine-tuning commands, in test_run_classifier.py."""
    files = [f"--train_file={folder / 'train.json'}", f"--predict_file={folder / 'dev.json'}"]
    line = _main.error(capsys, status, *_flags(folder, tmp_path / "run", *files, *flags))
    assert re.search(message, line), line
    assert not (tmp_path / "run").exists()


def test_two_questions_of_one_id_and_files_of_other_kinds(folder, flat, tmp_path, caplog):
    path = tmp_path / "file.json"
    paragraphs = [(context, [squad_files.question("q")]) for context in ("a b", "c d")]
    tiny_squad.write_json(path, *paragraphs)
    assert _main(*_predict(folder, tmp_path / "run", flat, path)) == 0
    assert "2 questions, 1 ids; the last question of an id gives its answer" in caplog.text
    assert set(_predictions(tmp_path / "run")["q"].split()) <= {"c", "d"}
    # Numbered questions, a byte order mark, keys that nobody asked for.
    good = {"context": "a b", "x": 1, "qas": [{"id": 7, "question": "what ?", "answers": []}]}
    path.write_text("\ufeff" + json.dumps({"data": [{"paragraphs": [good]}]}), "utf-8")
    assert _main(*_predict(folder, tmp_path / "run", flat, path)) == 0
    assert list(_predictions(tmp_path / "run")) == ["7"]


def test_checkpoints_that_do_not_fit(folder, learned, tmp_path, capsys):
    dev = ["--do_predict", f"--predict_file={folder / 'dev.json'}"]
    train = ["--do_train", f"--train_file={folder / 'train.json'}"]
    for output, more, message in (
        ("new", [*dev, f"--init_checkpoint={folder / 'bert'}"],
         "has no cls/squad/output_weights: the results would be those of an untrained head"),
        (folder / "bert", train, "has no cls/squad/output_weights: training cannot go on from it"),
        ("new", [*dev, "--head=bilstm", f"--init_checkpoint={learned.prefix}"],
         "was trained with --head=linear, not --head=bilstm; give --head=linear"),
    ):  # fmt: skip
        assert message in _main.error(capsys, 1, *_flags(folder, tmp_path / output, *more))
    assert not (tmp_path / "new").exists()


def test_what_shapes_do_not_tell(folder, learned, tmp_path, capsys, caplog):
    """The config and the case that a model was trained with."""
    tiny_squad.write_model(tmp_path, WORDS, hidden_act="relu")
    relu = f"--bert_config_file={tmp_path / 'config.json'}"
    flags = _predict(folder, tmp_path / "run", learned.prefix, folder / "dev.json")
    line = _main.error(capsys, 1, *flags, relu)
    assert re.search("hidden_act relu, but .* was trained with gelu .*/bert_config.json", line)
    copy = tmp_path / "copy"
    shutil.copytree(learned.output, copy)
    more = ["--do_train", f"--train_file={folder / 'train.json'}", "--num_train_epochs=99"]
    assert "hidden_act relu, but" in _main.error(capsys, 1, *_flags(folder, copy, *more), relu)
    assert json.loads((copy / "bert_config.json").read_text())["hidden_act"] == "gelu"
    assert _main(*flags, "--do_lower_case=false") == 0
    for name in ("do_lower_case", "strip_accents"):
        assert f"--{name}=false, but {learned.prefix} was trained with true" in caplog.text


def test_data_that_a_run_would_replace_or_remove(folder, flat, tmp_path, capsys):
    dev = folder / "dev.json"
    for name, read in (("predictions", dev), ("null_odds", tmp_path / "null_odds.json")):
        path = tmp_path / f"{name}.json"
        path.symlink_to(dev)
        train = ["--do_train", f"--train_file={read}"]
        for flag, file, more in (("predict", read, []), ("train", folder / "dev2.json", train)):
            line = _main.error(capsys, 2, *_predict(folder, tmp_path, flat, file, *more))
            assert f"--{flag}_file={read} is {path}, which a run with this --output_dir" in line
        path.unlink()


def test_files_without_answers_are_not_scored(folder, flat, tmp_path, capsys, caplog):
    asked = [squad_files.question("q"), squad_files.question("r")]
    path = tiny_squad.write_json(tmp_path / "test.json", ("a b", asked))
    flags = _predict(folder, tmp_path / "run", flat, path, "--do_eval")
    assert "none of its questions has an answer to compare" in _main.error(capsys, 1, *flags)
    asked[0] = squad_files.question("q", ("a", 0))
    tiny_squad.write_json(tmp_path / "test.json", ("a b", asked))
    assert _main(*flags) == 0
    assert "1 of 2 questions have no answer to compare with" in caplog.text
    assert "they count 0: r" in caplog.text


def test_chained_fine_tuning(folder, learned, tmp_path, caplog):
    """TriviaQA first, then SQuAD: the head comes along, unless a new one is asked for."""
    caplog.set_level("INFO")
    flags = ["--do_train", f"--train_file={folder / 'train.json'}", "--num_train_epochs=1"]
    init = f"--init_checkpoint={learned.prefix}"
    assert _main(*_flags(folder, tmp_path / "on", *flags, init)) == 0
    old = tiny.read_checkpoint(learned.prefix)["cls/squad/output_weights"]
    start = tiny.read_checkpoint(tmp_path / "on/model.ckpt-0")
    np.testing.assert_array_equal(start["cls/squad/output_weights"], old)
    assert start["global_step"] == 0 and not np.any(start["cls/squad/output_weights/adam_m"])


def test_case_that_does_not_fit_the_model(folder, flat, tmp_path, capsys):
    cased = tmp_path / "cased_L-12_H-768_A-12"
    cased.mkdir()
    for path in (folder / "flat").glob("model.ckpt-1.*"):
        shutil.copy(path, cased / path.name.replace("model.ckpt-1", "bert_model.ckpt"))
    model = cased / "bert_model.ckpt"
    flags = _predict(folder, tmp_path / "run", model, folder / "dev.json")
    line = _main.error(capsys, 2, *flags, "--do_lower_case=true")
    assert "give --do_lower_case=false" in line
    line = _main.error(capsys, 2, *flags, f"--init_checkpoint={flat},{model}")
    assert "--do_lower_case=false" in line
    assert _main(*flags, "--do_lower_case=false") == 0


def test_heads_are_saved_with_a_note(learned):
    state = manager.read_state(str(learned.prefix))
    assert state["kind"] == "start and end of an answer" and state["task"] == "squad"
    weights = manager.latest(str(learned.output / "weights"))
    assert weights is not None and set(tiny.read_checkpoint(weights)) == {
        *(name for name in tiny.read_checkpoint(learned.prefix) if "/adam_" not in name)
    }
