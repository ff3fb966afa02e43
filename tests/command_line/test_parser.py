"""Command lines: what they mean, and what a mistake says."""

import dataclasses
import logging
import pathlib
import signal
import subprocess
import sys

import pytest
import tensorflow as tf

from command_line import app, errors, options, parser
from tasks.pretraining import options as pretraining_options

GROUPS = [
    pretraining_options.PretrainingOptions,
    options.ModelOptions,
    options.OptimizerOptions,
    options.RunOptions,
    options.DeviceOptions,
]
NEEDED = ["--input_file=a", "--bert_config_file=c", "--output_dir=o", "--do_train"]
ORIGINAL_DEFAULTS = {
    "max_seq_length": 128,
    "max_predictions_per_seq": 20,
    "do_eval": False,
    "train_batch_size": 32,
    "eval_batch_size": 8,
    "num_train_steps": 100000,
    "num_warmup_steps": 10000,
    "max_eval_steps": 100,
    "learning_rate": 5e-5,
    "save_checkpoints_steps": 1000,
    "iterations_per_loop": 1000,
    "use_tpu": False,
    "num_tpu_cores": 8,
}


def _flat(argv):
    instances, _ = parser.parse(argv, GROUPS)
    return {name: value for group in instances for name, value in vars(group).items()}


def test_defaults_are_those_of_the_original_commands():
    flat = _flat(NEEDED)
    assert {name: flat[name] for name in ORIGINAL_DEFAULTS} == ORIGINAL_DEFAULTS
    data, text = parser.parse(
        ["--input_file=a", "--output_file=b", "--vocab_file=v"],
        [pretraining_options.PretrainingDataOptions, options.TokenizerOptions],
    )[0]
    assert (data.dupe_factor, data.random_seed, data.masked_lm_prob) == (10, 12345, 0.15)
    assert (data.short_seq_prob, data.do_whole_word_mask, text.do_lower_case) == (0.1, False, True)


@pytest.mark.parametrize(
    "group", [g for g in vars(options).values() if dataclasses.is_dataclass(g)]
)
def test_every_flag_has_help_and_no_group_can_be_changed(group):
    for field in dataclasses.fields(group):
        assert field.metadata["help"].endswith("."), field.name
    assert group.__dataclass_params__.frozen


@pytest.mark.parametrize(
    "arguments, value",
    [
        (["--do_eval"], True),
        (["--do_eval=true"], True),
        (["--do_eval=True"], True),
        (["--do_eval", "--nodo_eval"], False),
        (["-do_eval=1"], True),
        (["--do_eval=f"], False),
    ],
)
def test_spellings_of_a_switch(arguments, value):
    assert _flat([*NEEDED, *arguments])["do_eval"] is value


def test_values_after_a_space_and_flag_files(tmp_path):
    file = tmp_path / "flags"
    file.write_text("--learning_rate=1e-4\n# a comment\n--num_train_steps=7\n")
    flat = _flat([*NEEDED, f"--flagfile={file}", "--train_batch_size", "16"])
    assert flat["learning_rate"] == 1e-4
    assert (flat["num_train_steps"], flat["train_batch_size"]) == (7, 16)


def test_a_flag_file_that_cannot_be_read(tmp_path):
    missing = tmp_path / "missing"
    with pytest.raises(errors.FlagError) as raised:
        parser.parse([*NEEDED, f"--flagfile={missing}"], GROUPS)
    expected = (
        f"--flagfile={missing}: No such file or directory; expected a file with one flag per line"
    )
    assert str(raised.value) == expected
    (tmp_path / "latin").write_bytes("--output_dir=café".encode("latin-1"))
    with pytest.raises(errors.FlagError, match="--flagfile: the file is not UTF-8 text"):
        parser.parse([*NEEDED, f"--flagfile={tmp_path / 'latin'}"], GROUPS)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (NEEDED[1:], "--input_file is missing: TFRecord files"),
        ([*NEEDED, "--lerning_rate=1"], "unknown flag --lerning_rate; did you mean learning_rate"),
        (
            [*NEEDED, "--model_dir=x"],
            "flag --model_dir; use --init_checkpoint, --bert_config_file, ",
        ),
        ([*NEEDED, "--per_device_train_batch_size=x"], "; use --train_batch_size (--help"),
        ([*NEEDED, "--train_batch_size=many"], "--train_batch_size=many: expected a whole number"),
        ([*NEEDED, "--train_batch_size=1.5"], "--train_batch_size=1.5: expected a whole number"),
        ([*NEEDED, "--train_batch_size=0"], "--train_batch_size=0: expected at least 1"),
        (
            [*NEEDED, "--train_batch_size=99999999999"],
            "expected between -2147483647 and 2147483647",
        ),
        ([*NEEDED, "--output_dir=\udce9"], "the value is not UTF-8 text"),
        ([*NEEDED, "--learning_rate=x"], "--learning_rate=x: expected a number"),
        ([*NEEDED, "--learning_rate=nan"], "--learning_rate=nan: expected a finite number"),
        ([*NEEDED, "--learning_rate=-1"], "--learning_rate=-1.0: expected at least 0"),
        ([*NEEDED, "--do_eval=maybe"], "--do_eval=maybe: expected true or false"),
        ([*NEEDED, "--do_eval", "true"], "unexpected argument 'true'"),
        ([*NEEDED, "--precision=int8"], "--precision=int8: expected one of float32, bfloat16"),
        ([*NEEDED, "--flagfile=/"], "--flagfile=/: Is a directory"),
        (NEEDED[:3], "nothing to do: give --do_train, --do_eval or both"),
    ],
)
def test_mistakes_are_flag_errors_that_name_the_flag(arguments, message):
    with pytest.raises(errors.FlagError) as raised:
        parser.parse(arguments, GROUPS)
    assert message in str(raised.value)


def test_shares_of_the_masking_mix_must_make_one():
    with pytest.raises(errors.FlagError, match="the sum is 1.1, not 1"):
        pretraining_options.PretrainingDataOptions(keep_token_share=0.2)


def test_xla_and_tpu_imply_static_shapes():
    for flags in ({"xla": True}, {"use_tpu": True}, {"static_shapes": True}):
        assert options.resolve_device(options.DeviceOptions(**flags)).static_shapes
    assert not options.resolve_device(options.DeviceOptions()).static_shapes


def _run(work, *arguments):
    return app.run(work, GROUPS, "What it does.", ["run_x.py", *arguments])


def test_exit_status_and_one_line(capsys):
    def fails_with(error):
        def work(*_):
            raise error

        status = _run(work, *NEEDED)
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1 and captured.err.startswith("run_x.py: error: ")
        return status, captured.err

    assert fails_with(errors.FlagError("bad\nflag"))[0] == 2
    status, line = fails_with(errors.UserError("bad data"))
    assert status == 1 and "bad data" in line
    status, line = fails_with(FileNotFoundError(2, "No such file", "x.txt"))
    assert status == 1 and "x.txt: No such file" in line
    full = "{{node a}} b.txt; No space left on device\nFailed to flush\n"
    status, line = fails_with(tf.errors.ResourceExhaustedError(None, None, full))
    expected = "the disk is full: b.txt; No space left on device; make room and run again\n"
    assert status == 1 and line.endswith(expected)
    assert fails_with(KeyboardInterrupt())[0] == 130
    assert _run(lambda *_: None, *NEEDED) == 0
    with pytest.raises(ZeroDivisionError):  # a bug keeps its traceback
        _run(lambda *_: 1 / 0, *NEEDED)
    with pytest.raises(errors.UserError):

        def work(*_):
            raise errors.UserError("bad data")

        _run(work, *NEEDED, "--debug")


def test_an_interrupt_that_comes_out_as_another_error(capsys):
    def work(*_):
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise SystemError("bad argument to internal function") from None

    assert _run(work, *NEEDED) == 130
    assert capsys.readouterr().err == "run_x.py: error: interrupted\n"
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_tensorflow_talks_of_its_devices_only_where_its_logger_was_set_to():
    logger = logging.getLogger("tensorflow")
    before = logger.level
    try:
        for level, wanted in ((logging.NOTSET, logging.WARNING), (logging.DEBUG, logging.DEBUG)):
            logger.setLevel(level)
            assert _run(lambda *_: None, *NEEDED) == 0
            assert logger.level == wanted
    finally:
        logger.setLevel(before)


def test_help_lists_every_flag(capsys):
    for spelling in ("--help", "-h", "--helpfull"):
        assert _run(lambda *_: None, spelling) == 0
        text = capsys.readouterr().out
        for group in GROUPS:
            for field in dataclasses.fields(group):
                assert f"--{field.name}" in text
    assert "--learning_rate (5e-05)" in text and "--output_dir (required)" in text


COMMANDS = ["create_vocab.py", "create_pretraining_data.py", "convert_to_squad.py"]
COMMANDS += ["run_pretraining.py", "run_classifier.py", "run_glue.py", "run_squad.py"]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_and_flag_errors_do_not_import_tensorflow(name):
    probe = (
        "import runpy, sys\n"
        "for flags, status in ((['--help'], 0), ([], 2), (['--no_such_flag'], 2)):\n"
        f"    sys.argv = [{name!r}, *flags]\n"
        "    try:\n"
        f"        runpy.run_path({name!r}, run_name='__main__')\n"
        "    except SystemExit as end:\n"
        "        assert (end.code or 0) == status, end.code\n"
        "    assert 'tensorflow' not in sys.modules\n"
    )
    root = pathlib.Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", probe], capture_output=True, text=True, cwd=root)
    assert done.returncode == 0, done.stderr
    assert "usage: python " + name in done.stdout and done.stderr.count("\n") == 2
