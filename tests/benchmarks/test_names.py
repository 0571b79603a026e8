"""What the scripts import is there, and in the order of train.py: most of them no test runs."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@cache
def names(module):
    """Returns what a module of the package has, by its source; None where there is no such module."""
    place = ROOT.joinpath(*module.split("."))
    path = place / "__init__.py" if place.is_dir() else place.with_suffix(".py")
    if not path.exists():
        return None
    found = {each.stem for each in place.glob("*")} if place.is_dir() else set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.add(node.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {each.asname or each.name for each in node.names}
        elif isinstance(node, ast.AsyncFunctionDef):
            found.add(node.name)
    return found


def missing(source):
    """Returns what a source imports of the package that is not there."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "rl":
            known = names(node.module) or ()
            found += [f"{node.module}.{each.name}" for each in node.names if each.name not in known]
        elif isinstance(node, ast.Import):
            mine = [each.name for each in node.names if each.name.split(".")[0] == "rl"]
            found += [name for name in mine if names(name) is None]
    return found


SCRIPTS = sorted((ROOT / "benchmarks").rglob("*.py"))


def short(path):
    return str(path.relative_to(ROOT / "benchmarks"))


@pytest.mark.parametrize("path", SCRIPTS, ids=short)
def test_what_a_script_imports_of_the_package_is_there(path):
    assert missing(path.read_text()) == []


def test_what_has_moved_is_found():
    assert missing("from rl.runners.trainer import Trainer, no_such_name") == [
        "rl.runners.trainer.no_such_name"
    ]
    assert missing("from rl.no_such import x") == ["rl.no_such.x"]
    assert missing("import rl.no_such, rl.runners.build") == ["rl.no_such"]


def places(source):
    """Returns where a source imports TensorFlow, and where it has the package do it: (column, line) each."""
    imports, calls = [], []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            own = [each for each in node.names if each.name.split(".")[0] == "tensorflow"]
            imports += [(node.col_offset, node.lineno)] * len(own)
        elif isinstance(node, ast.Call) and getattr(node.func, "id", "") == "import_tensorflow":
            calls.append((node.col_offset, node.lineno))
    return imports, calls


@pytest.mark.parametrize("path", [path for path in SCRIPTS if path.parent.name == "benchmarks"], ids=short)
def test_tensorflow_is_imported_as_the_command_line_does(path):
    imports, calls = places(path.read_text())
    assert not imports or calls
    assert not imports or min(imports)[0] > 0 or min(calls) < min(imports)  # with the module: after the call
