"""docs/coming_from_the_original_release.md says of each original name what the code says."""

from __future__ import annotations

import importlib
import re

import documented
from command_line import original_names

PAGE = documented.ROOT / "docs/coming_from_the_original_release.md"


def _rows(heading: str) -> list[list[str]]:
    """The cells of the table below a heading."""
    section = PAGE.read_text().split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.split("\n") if line[:3] == "| `"]
    assert rows
    return rows


def test_names_that_work():
    listed = set()
    for module, names in _rows("Python names that work as they did"):
        for name in re.findall(r"`(\w+)`", names):
            listed.add((module.strip("`"), name))
            assert callable(getattr(importlib.import_module(module.strip("`")), name))
    for module, aliases in original_names.ALIASES.items():
        assert {(module, name) for name in aliases} <= listed


def test_names_that_are_gone():
    listed = {name.strip("`"): today for name, today in _rows("Python names that are gone")}
    assert listed == {
        f"{module}.{name}": replacement
        for module, names in original_names.REPLACEMENTS.items()
        for name, replacement in names.items()
    }
