"""Every command and snippet of the README and of docs/ runs as it is written, on tiny contents."""

import importlib
import json
import os
import pathlib
import re
import runpy
import shlex
import sys

import pytest

import documented
import modeling
from nn import functions
from tasks.classifier import glue_tasks
from tasks.glue import commands

# What is added to a command so that it ends soon.
SHORTENED = {"run_pretraining.py": "--num_train_steps=4", "run_glue.py": "--learning_rates=2e-5"}
# Commands that set up the machine. The make targets are those of the Makefile.
SETUP = re.compile(r"python3 -m venv |pip install |\. \.venv/bin/activate$|make (\w[\w-]*)$")
FAKE_CLASSIFIER = documented.ROOT / "tests/fixtures/fake_classifier.py"
RUNNABLE = [
    page
    for page in documented.PAGES
    if any(block.language in ("sh", "python") for block in documented.blocks(page))
]


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    documented.write_workspace(tmp_path)
    monkeypatch.chdir(tmp_path)
    # The runs of a GLUE search; test_recipes.py has real ones.
    monkeypatch.setattr(commands, "CLASSIFIER", [sys.executable, str(FAKE_CLASSIFIER)])
    monkeypatch.setenv("FAKE_STARTS", str(tmp_path / "starts"))
    # What snippets register.
    monkeypatch.setattr(functions, "ACTIVATIONS", dict(functions.ACTIVATIONS))
    monkeypatch.setattr(glue_tasks, "PROCESSORS", dict(glue_tasks.PROCESSORS))
    environment = dict(os.environ)
    yield tmp_path
    os.environ.clear()
    os.environ.update(environment)


@pytest.mark.parametrize("page", RUNNABLE, ids=lambda page: page.stem)
def test_a_page_runs_from_its_first_block_to_its_last(page, workspace, monkeypatch, capfd):
    names: dict = {}
    for block in documented.blocks(page):
        at = f"{page.name}:{block.line}"
        if block.language == "python":
            _run_snippet(block, at, names)
        elif block.language == "sh":
            for command in documented.commands(block):
                status = _run_command(command, monkeypatch)
                assert status == 0, f"{at}: {command}\n{capfd.readouterr().err[-1000:]}"


def _run_snippet(block: documented.Block, at: str, names: dict) -> None:
    """Runs a snippet after those before it; one that begins with ``# name.py`` becomes a file."""
    first = block.text.split("\n", 1)[0]
    if match := re.fullmatch(r"# (\w+\.py)", first):
        pathlib.Path(match[1]).write_text(block.text)
    else:
        exec(compile(block.text, at, "exec"), names)


def _run_command(command: str, monkeypatch: pytest.MonkeyPatch) -> int:
    """Runs a line of a shell block in this process; returns its exit status."""
    if setup := SETUP.match(command):
        makefile = (documented.ROOT / "Makefile").read_text()
        return int(bool(setup[1]) and f"\n{setup[1]}: " not in makefile)
    words = shlex.split(os.path.expandvars(command))
    if words[0] == "export":
        name, value = words[1].split("=")
        os.environ[name] = value
        return 0
    assert words[0] == "python", f"unknown kind of command: {command}"
    name, *flags = words[1:]
    flags += [SHORTENED[name]] if name in SHORTENED else []
    if pathlib.Path(name).exists():  # written by a snippet
        monkeypatch.setattr("sys.argv", [name, *flags])
        with pytest.raises(SystemExit) as end:
            runpy.run_path(name, run_name="__main__")
        return end.value.code
    assert (documented.ROOT / name).is_file()
    return importlib.import_module(name.removesuffix(".py")).main([name, *flags])


def test_the_config_to_copy_is_that_of_bert_base():
    page = documented.ROOT / "docs/pretraining.md"
    (block,) = [block for block in documented.blocks(page) if block.language == "json"]
    config = modeling.BertConfig.from_dict(json.loads(block.text))
    assert config == modeling.BertConfig(vocab_size=30522, type_vocab_size=2)


@pytest.mark.parametrize("page", documented.PAGES, ids=lambda page: page.stem)
def test_links_lead_to_files_and_headings(page):
    prose = re.sub(r"^```.*?^```$", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    for target in re.findall(r"\]\(([^)]+)\)", prose):
        if target.startswith("https://"):
            continue
        path, _, heading = target.partition("#")
        linked = (page.parent / path) if path else page
        assert linked.is_file(), target
        headings = re.findall(r"^#+ (.*)$", linked.read_text(encoding="utf-8"), re.MULTILINE)
        anchors = [re.sub(r"[^\w\- ]", "", text.lower()).replace(" ", "-") for text in headings]
        assert not heading or heading in anchors, target


def test_paths_in_the_map_exist():
    readme = documented.ROOT / "README.md"
    (tree,) = [b.text for b in documented.blocks(readme) if "command_line/ " in b.text]
    for path in re.findall(r"^[\w/]+(?:\.py|/)|(?<=  )\w+\.py", tree, re.MULTILINE):
        assert (documented.ROOT / path).exists(), path
