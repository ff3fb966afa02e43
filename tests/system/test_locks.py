"""Exclusive use of a directory."""

import logging
import os

import pytest

from command_line import errors
from system import locks


def test_a_second_holder_is_refused_until_the_first_ends(tmp_path):
    with locks.exclusive(str(tmp_path), "the first works there; wait for it") as held:
        inherited = os.dup(held[0])  # as by a child process
        with pytest.raises(errors.UserError) as caught, locks.exclusive(str(tmp_path), "one is"):
            pass
    assert str(caught.value) == f"--output_dir={tmp_path}: one is, or take another directory"
    with pytest.raises(errors.UserError), locks.exclusive(str(tmp_path), "a child"):
        pass
    os.close(inherited)
    with locks.exclusive(str(tmp_path), "nobody"), locks.exclusive("ram://x", "nobody") as remote:
        assert remote == ()


def test_waiting_ends_with_the_lock_or_by_request(tmp_path, caplog):
    def stop():
        raise errors.Stopped(15)

    caplog.set_level(logging.INFO)
    with locks.exclusive(str(tmp_path), "-") as (descriptor,):
        with (
            pytest.raises(errors.Stopped),
            locks.exclusive(str(tmp_path), "one is", 60.0, while_waiting=stop),
        ):
            pass
        assert not caplog.records

        def release():
            locks.fcntl.flock(descriptor, locks.fcntl.LOCK_UN)

        with locks.exclusive(str(tmp_path), "one is", 60.0, while_waiting=release):
            pass
    assert "waiting up to 60 s: one is" in caplog.text
