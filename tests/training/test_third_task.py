"""A new task is one class over the driver: it trains, resumes, evaluates, predicts and exports."""

import pathlib

import numpy as np
import pytest
import tensorflow as tf

import length_task
import tiny

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefgh"]
TEXTS = [" ".join("abcdefgh"[row % 8 :]) for row in range(40)]  # the first word tells


@pytest.fixture
def flags(tmp_path):
    (tmp_path / "vocab.txt").write_text("".join(f"{word}\n" for word in WORDS))
    (tmp_path / "texts.txt").write_text("".join(f"{text}\n" for text in TEXTS))
    sizes = {"vocab_size": len(WORDS), "hidden_dropout_prob": 0.0}
    tiny.write_config(tmp_path / "config.json", **sizes, attention_probs_dropout_prob=0.0)
    return [
        f"--text_file={tmp_path / 'texts.txt'}", f"--vocab_file={tmp_path / 'vocab.txt'}",
        f"--bert_config_file={tmp_path / 'config.json'}", f"--output_dir={tmp_path / 'out'}",
        "--learning_rate=2e-3",
    ]  # fmt: skip


def test_it_is_short():
    lines = pathlib.Path(length_task.__file__).read_text().splitlines()
    assert sum(bool(line.strip()) for line in lines) < 80


def test_it_trains_resumes_evaluates_predicts_and_exports(flags, tmp_path, caplog):
    train = [*flags, "--do_train", "--eval_steps=60", "--train_batch_size=8"]
    assert length_task.main(*train, "--num_train_epochs=8") == 0
    with caplog.at_level("INFO"):
        assert length_task.main(*train, "--num_train_epochs=60", "--log_steps=50") == 0
    assert "back at step 40" in caplog.text
    use = [*flags, "--do_eval", "--do_predict", "--do_export"]
    assert length_task.main(*use, "--eval_checkpoint=best") == 0
    out = tmp_path / "out"
    (results,) = out.glob("eval_results-*.txt")
    loss = float(dict(line.split(" = ") for line in results.read_text().splitlines())["loss"])
    right = np.array([8 - row % 8 for row in range(40)])
    lengths = np.loadtxt(out / "lengths.txt")
    assert np.mean(np.square(lengths - right)) == pytest.approx(loss, rel=1e-3)
    assert loss < 1 < np.var(right)
    served = tf.saved_model.load(str(out / "export")).signatures["serving_default"]
    ids = tf.constant([[10, 11, 12]])
    found = served(input_ids=ids, input_mask=tf.ones_like(ids), segment_ids=0 * ids)["length"]
    np.testing.assert_allclose(found, lengths[5], rtol=1e-4)


@pytest.mark.parametrize(
    "more, status, message",
    [
        ([], 2, "nothing to do: give --do_train"),
        (["--do_eval"], 1, "nothing to evaluate: no checkpoint in --output_dir"),
        (["--do_train", "--freeze_layers=9"], 2, "--freeze_layers=9: the model has"),
        (["--do_train", "--max_seq_length=99"], 2, "Cannot use sequence length"),
        (["--do_predict", "--eval_checkpoint=best"], 1, "no checkpoint in"),
    ],
)
def test_the_checks_of_the_driver_come_with_it(flags, more, status, message, capsys):
    assert length_task.main(*flags, *more) == status
    assert message in capsys.readouterr().err
