"""Which runs the flags ask for, which ones a directory has, and their directories."""

import pytest

from tasks.glue import options as glue_options
from tasks.glue import runs as glue_runs


def _glue(**flags):
    return glue_options.GlueOptions(data_dir="data", output_dir="out", **flags)


def test_the_plan_goes_task_by_task_in_the_order_given():
    flags = _glue(tasks="SST2, mrpc", learning_rates="2e-5,0.00005", seeds="3,1")
    planned = [(run.task, run.rate, run.seed) for run in glue_runs.plan(flags)]
    assert planned[:4] == [
        ("sst-2", 2e-5, 3),
        ("sst-2", 2e-5, 1),
        ("sst-2", 5e-5, 3),
        ("sst-2", 5e-5, 1),
    ]
    assert [task for task, *_ in planned[4:]] == ["mrpc"] * 4
    assert glue_runs.plan(flags)[3].directory == "out/sst-2/lr5e-5-seed1"
    assert glue_runs.plan(flags)[3].name == "lr=5e-5 seed=1"


def test_the_default_plan_is_that_of_the_paper():
    plan = glue_runs.plan(_glue())
    assert len(plan) == 32 and {run.seed for run in plan} == {1}
    assert [glue_runs.rate_text(run.rate) for run in plan[:4]] == ["5e-5", "4e-5", "3e-5", "2e-5"]
    assert {run.task for run in plan} == set(glue_runs.TASKS) - {"wnli"}


@pytest.mark.parametrize(
    "text", ["2e-5", "3.5e-5", "0.0001", "0.001", "1e-10", "0.1", "1.0", "1.2345678e-5"]
)
def test_a_rate_can_be_read_back_from_its_directory(tmp_path, text):
    assert glue_runs.rate_text(float(text)) == text
    (tmp_path / f"rte/lr{text}-seed5").mkdir(parents=True)
    (run,) = glue_runs.existing(str(tmp_path), "rte")
    assert (run.rate, run.seed) == (float(text), 5)
    assert run.directory == str(tmp_path / f"rte/lr{text}-seed5")


def test_existing_runs(tmp_path):
    assert glue_runs.existing(str(tmp_path), "rte") == []
    names = ["lr2e-5-seed10", "lr2e-5-seed9", "lr5e-5-seed1", "test", "lr2e--seed1", "notes"]
    names += ["lr2e-05-seed9", "lr2e-5-seed07"]  # not as rate_text writes them
    for name in names:
        (tmp_path / "rte" / name).mkdir(parents=True)
    found = {(run.rate, run.seed) for run in glue_runs.existing(str(tmp_path), "rte")}
    assert found == {(5e-5, 1), (2e-5, 9), (2e-5, 10)}
