"""The rooms of the package: imports run one way, no circle hides in a function, no module is too long to hold."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from wherelint import docs

PACKAGE = Path(__file__).parents[1] / "wherelint"
#: What is above may import what is below, the other way round nothing does.
ROOMS = """
    __main__ docs.hooks
    cli
    server
    api
    run
    report
    confirm
    fix
    suppress
    findings
    evidence
    search
    interpret
    frontend
    graph
    io
    rules
    ops
    frameworks
    docs finding defects isolated version
    evidence.pieces
""".strip().split("\n")
LEVELS = {room: level for level, rooms in enumerate(reversed(ROOMS)) for room in rooms.split()}
#: The companion runs in the user's process; the linter never imports it.
COMPANION = {"companion", "jax", "torch", "tensorflow", "pytest_plugin", "watcher"}
#: What starts it: the command ``run``, and ``wherelint.watch``, when they are used.
STARTS = {"wherelint.watcher.blocks", "wherelint.cli.running"}
_MOST_LINES = 700


def module(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__")


MODULES = {module(path): path for path in PACKAGE.rglob("*.py")}


def imported(path: Path) -> Iterator[str]:
    """Every module of the package that a file imports, wherever in it, for types as well."""
    for node in ast.walk(ast.parse(path.read_text("utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in MODULES)
        elif isinstance(node, ast.ImportFrom) and node.module in MODULES:
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                yield inner if inner in MODULES else node.module


IMPORTS = {name: {other for other in imported(path) if other != name} for name, path in MODULES.items()}


def room(name: str) -> str:
    """The folder or file right below the package; a module that is listed is a room of its own."""
    inside = name.partition(".")[2]
    return inside if inside in LEVELS else inside.partition(".")[0]


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_run_one_way(name: str) -> None:
    here = room(name)
    if not here:
        # All but the first are imported when they are used.
        assert IMPORTS[name] <= {"wherelint.version", "wherelint.api", "wherelint.watcher.blocks"}
        return
    for other in IMPORTS[name] - {"wherelint"}:
        if here in COMPANION or (name in STARTS and room(other) in COMPANION):
            assert room(other) in COMPANION | LEVELS.keys()
        else:
            assert LEVELS[room(other)] <= LEVELS[here], other


def test_there_is_no_circle() -> None:
    graph = {name: others - {"wherelint"} for name, others in IMPORTS.items() if name != "wherelint"}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" -> ".join(error.args[1]))


@pytest.mark.parametrize("name", sorted(MODULES))
def test_a_module_can_be_held_in_the_head(name: str) -> None:
    assert len(MODULES[name].read_text("utf-8").splitlines()) <= _MOST_LINES


def test_the_page_on_the_architecture_names_every_folder_and_what_it_names_exists() -> None:
    page = docs.page("architecture")
    named = set(re.findall(r"`([a-z][\w./]*)`", page))
    folders = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert folders - named == set()
    paths = {name for name in named if "/" in name or name.endswith(".py")} - {"tests/test_layout.py"}
    assert {name for name in paths if not (PACKAGE / name).exists()} == set()
    order = re.findall(r"`(\w+)`", page[page.index("- A folder imports only folders ") :].partition(" (")[0])
    assert order == [name for rooms in ROOMS for name in rooms.split() if name in {*folders, "api"} - {"docs"}]
