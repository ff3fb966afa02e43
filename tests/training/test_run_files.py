"""eval_results.txt."""

from __future__ import annotations

import json
import math
import warnings

from command_line import options
from training import run_files


def test_results_file(tmp_path):
    path = tmp_path / "eval_results.txt"
    run_files.write_results(str(path), {"loss": 0.0979674, "global_step": 20, "accuracy": 1.0})
    assert path.read_text() == "accuracy = 1.0\nglobal_step = 20\nloss = 0.0979674\n"


def test_what_a_float32_cannot_hold_is_inf_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_files.format_value(math.exp(700)) == "inf"


def test_changed_flags_of_a_run_that_goes_on_are_named(tmp_path, caplog):
    def write(do_train=True, **flags):
        caplog.clear()
        tuning = options.FineTuningOptions(do_train=do_train, **flags)
        run = options.RunOptions(output_dir=str(tmp_path), log_steps=1 + len(flags))
        run_files.write_run_description(str(tmp_path), ["CPU"], [tuning, run], "{}")
        return [record.getMessage() for record in caplog.records]

    assert write(do_train=False, num_train_epochs=9.0) == []  # a prediction came before
    assert write(num_train_epochs=3.0) == []
    assert write(num_train_epochs=3.0) == []
    assert write(num_train_epochs=9.0, train_batch_size=8) == [
        "going on with --num_train_epochs=9.0; it was 3.0",
        "going on with --train_batch_size=8; it was 32",
    ]
    (tmp_path / "run.json").write_text('{"flags": ')
    assert write(num_train_epochs=3.0) == []
    assert json.loads((tmp_path / "run.json").read_text())["flags"]["num_train_epochs"] == 3
