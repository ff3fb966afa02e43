"""Rules of the source that nothing else would notice: what it imports, and in which direction."""

from __future__ import annotations

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
SOURCES = sorted([*ROOT.glob("*.py"), *ROOT.glob("tasks/*.py")])

# A module imports only from rows above its own, or from its own row what stands before it.
ROWS = (
    ("errors",),
    ("options", "workers", "processes", "inputs", "outputs", "masking", "records", "ragged"),
    ("command_line", "tokenization", "safetensors_weights", "weight_matching"),
    ("checkpoint_files", "checkpoints", "modeling", "optimization", "devices"),
    ("batching", "record_batches"),
    (
        "pretraining_instances",
        "pretraining_shards",
        "results_files",
        "progress",
        "steps",
        "trained_runs",
    ),
    (
        "heads",
        "tasks",
        "training",
        "evaluation",
        "fine_tuning",
        "trained_heads",
        "answering",
    ),
    ("graph_tokenizer", "export"),
    (
        "create_vocab",
        "create_pretraining_data",
        "run_pretraining",
        "run_classifier",
        "glue_runs",
        "glue_files",
        "glue_commands",
        "glue_states",
        "glue_summary",
        "glue_search",
        "run_glue",
        "run_squad",
        "convert_to_squad",
    ),
)
ORDER = {name: index for index, name in enumerate(name for row in ROWS for name in row)}


def _imports(tree: ast.Module) -> set[str]:
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found.add(node.module.split(".")[0])
    return found


def _name(path: pathlib.Path) -> str:
    return "tasks" if path.parent.name == "tasks" else path.stem


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_imports_point_one_way(path):
    name = _name(path)
    assert name in ORDER, f"{name} has no place in ROWS"
    for other in _imports(ast.parse(path.read_text())) & ORDER.keys() - {name}:
        assert ORDER[other] < ORDER[name], f"{name} imports {other}"


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: path.stem)
def test_no_keras_no_tf1_and_no_script_that_reads_tensorflow_early(path):
    tree = ast.parse(path.read_text())
    assert not _imports(tree) & {"keras", "tf_keras", "tensorflow_estimator"}
    banned = {"keras", "estimator", "compat"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert not (node.value.id == "tf" and node.attr in banned), f"line {node.lineno}"
    if path.stem in ROWS[-1]:
        top = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
        assert "tensorflow" not in _imports(top)
