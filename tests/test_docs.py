"""Tables in docs/ say what the code says."""

import importlib
import re

import documented
from command_line import original_names
from training import fine_tuning, protocols

ORIGINAL = "coming_from_the_original_release"


def _rows(page: str, heading: str) -> list[list[str]]:
    """The cells of the tables below a heading."""
    text = (documented.ROOT / f"docs/{page}.md").read_text(encoding="utf-8")
    section = text.split(f"## {heading}\n")[1].split("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in section.split("\n") if line[:3] == "| `"]
    assert rows
    return rows


def test_names_that_work():
    listed = set()
    for module, names in _rows(ORIGINAL, "Python names that work as they did"):
        for name in re.findall(r"`(\w+)`", names):
            listed.add((module.strip("`"), name))
            assert callable(getattr(importlib.import_module(module.strip("`")), name))
    for module, aliases in original_names.ALIASES.items():
        assert {(module, name) for name in aliases} <= listed


def test_names_that_are_gone():
    rows = _rows(ORIGINAL, "Python names that are gone")
    listed = {name.strip("`"): today for name, today in rows}
    assert listed == {
        f"{module}.{name}": replacement
        for module, names in original_names.REPLACEMENTS.items()
        for name, replacement in names.items()
    }


def test_adding_a_task_names_all_that_a_task_gives():
    rows = _rows("adding_a_task", "What a task gives")
    listed = {name for row in rows for name in re.findall(r"`(\w+)[`(]", row[0])}
    task = {*protocols.Task.__annotations__, "weights", "sums"}
    driver = fine_tuning.FineTuning
    assert listed == task | driver.__abstractmethods__ | {"head_scopes"}
    assert all(hasattr(protocols.Task, name) for name in ("weights", "sums"))
    assert hasattr(driver, "head_scopes")
