"""Rules of the source that nothing else would notice: what it imports, and in which direction."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]
COMMANDS = (
    "create_vocab",
    "create_pretraining_data",
    "run_pretraining",
    "run_classifier",
    "run_glue",
    "run_squad",
    "convert_to_squad",
)
# A room imports only from rows above its own, and from itself. command_line.app joins flags and
# signals, for the commands alone, so it has a row of its own.
ROWS = (
    ("command_line",),
    ("system", "tokenization", "optimization", "nn"),
    ("checkpoints", "command_line.app"),
    ("modeling",),
    ("serving",),
    ("training",),
    ("tasks/pretraining", "tasks/classifier", "tasks/squad"),
    ("tasks/glue",),
    COMMANDS,
)
ROW = {room: index for index, row in enumerate(ROWS) for room in row}
FOLDERS = [room for room in ROW if (ROOT / room).is_dir()]
SOURCES = sorted([*ROOT.glob("*.py"), *(p for room in FOLDERS for p in (ROOT / room).glob("*.py"))])


def _room(module: str) -> str:
    """The room of a dotted name: a folder, of tasks the one below it, or a module at the root."""
    parts = module.split(".")
    if parts[:2] == ["command_line", "app"]:
        return "command_line.app"
    return "/".join(parts[:2]) if parts[0] == "tasks" else parts[0]


def _imports(tree: ast.AST) -> set[str]:
    """Dotted names of everything that is imported, at the top or inside functions."""
    found = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def _name(path: pathlib.Path) -> str:
    return ".".join(path.relative_to(ROOT).with_suffix("").parts)


def test_every_room_has_a_row():
    roots = {path.stem for path in ROOT.glob("*.py")}
    assert roots == {room for room in ROW if room not in FOLDERS} - {"command_line.app"}
    folders = {path.parent for path in ROOT.glob("*/__init__.py")} - {ROOT / "tasks"}
    folders |= {path.parent for path in ROOT.glob("tasks/*/__init__.py")}
    assert {str(folder.relative_to(ROOT)) for folder in folders} == set(FOLDERS)


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_imports_point_one_way(path):
    room = _room(_name(path))
    for other in _imports(ast.parse(path.read_text())):
        if (theirs := _room(other)) in ROW and theirs != room:
            assert ROW[theirs] < ROW[room], f"{room} imports {other}"


def test_modules_import_each_other_without_a_circle():
    names = {_name(path): path for path in SOURCES}
    imports = {}
    for name, path in names.items():
        tree = ast.parse(path.read_text())
        imports[name] = {other for other in _imports(tree) if other in names}
    done: set[str] = set()

    def visit(name: str, way: tuple[str, ...]) -> None:
        assert name not in way, " -> ".join([*way, name])
        if name not in done:
            for other in sorted(imports[name]):
                visit(other, (*way, name))
            done.add(name)

    for name in names:
        visit(name, ())


@pytest.mark.parametrize("path", SOURCES, ids=_name)
def test_no_keras_no_tf1_and_no_command_that_needs_tensorflow_early(path):
    tree = ast.parse(path.read_text())
    packages = {name.split(".")[0] for name in _imports(tree)}
    assert not packages & {"keras", "tf_keras", "tensorflow_estimator"}
    banned = {"keras", "estimator", "compat"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            assert not (node.value.id == "tf" and node.attr in banned), f"line {node.lineno}"
    if path.stem in COMMANDS:
        top = ast.Module([n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)], [])
        assert "tensorflow" not in _imports(top)
