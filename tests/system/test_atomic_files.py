"""Files that appear whole or not at all."""

import errno
import os

import pytest

from system import atomic_files


def test_a_text_appears_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "summary.txt"
    atomic_files.write_text(str(path), "é\n")
    assert path.read_bytes() == b"\xc3\xa9\n"
    monkeypatch.setattr(os, "replace", lambda *_: (_ for _ in ()).throw(OSError("disk")))
    with pytest.raises(OSError, match="disk"):
        atomic_files.write_text(str(path), "new")
    full = OSError(errno.ENOSPC, "No space left on device")
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(full))
    with pytest.raises(OSError, match=f"No space left on device: '{path}'"):
        atomic_files.write_text(str(path), "new")
    assert path.read_bytes() == b"\xc3\xa9\n" and list(tmp_path.iterdir()) == [path]
