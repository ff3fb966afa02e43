"""eval_results.txt."""

import math
import warnings

from training import run_files


def test_results_file(tmp_path):
    path = tmp_path / "eval_results.txt"
    run_files.write_results(str(path), {"loss": 0.0979674, "global_step": 20, "accuracy": 1.0})
    assert path.read_text() == "accuracy = 1.0\nglobal_step = 20\nloss = 0.0979674\n"


def test_what_a_float32_cannot_hold_is_inf_without_a_warning():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run_files.format_value(math.exp(700)) == "inf"
