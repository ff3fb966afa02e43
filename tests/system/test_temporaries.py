"""Temporary files of processes that are dead, alive, or on another machine."""

import os
import subprocess
import sys

from system import temporaries


def test_only_what_dead_processes_of_this_machine_left_is_removed(tmp_path, caplog):
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    own = temporaries.suffix()
    of_dead = own.replace(f"p{os.getpid()}", f"p{dead.pid}")
    elsewhere = f".tempstate{'0' * 8}p{dead.pid}"
    for name in ("a", "b"):
        for ending in (own, of_dead, elsewhere, "", ".tempstate7"):
            (tmp_path / f"{name}{ending}").touch()
    (tmp_path / f"a_folder{of_dead}").mkdir()
    (tmp_path / f"a_folder{of_dead}" / "x").touch()
    removed = {f"a{of_dead}", f"a_folder{of_dead}"}
    before = set(os.listdir(tmp_path))
    assert set(temporaries.remove_abandoned(str(tmp_path), r"a\w*")) == removed
    assert set(os.listdir(tmp_path)) == before - removed
    assert "removed what a killed run left" in caplog.text
    assert temporaries.remove_abandoned(str(tmp_path / "absent"), ".*") == []
