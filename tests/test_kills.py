"""Commands that are killed at random moments; see fixtures/kills.py, which can do more."""

import pytest

import kills


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("inputs")
    kills.write_inputs(folder)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", kills.SITUATIONS)
def test_nothing_is_lost_or_left(data, tmp_path, name):
    kills.kill_again_and_again(kills.SITUATIONS[name], data, tmp_path, kills=2, seed=7)
