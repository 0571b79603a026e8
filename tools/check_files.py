"""Finds what makes files hard to read: `python tools/check_files.py`.

Files and functions that are too long to be read at once, and public docstrings that begin with no verb.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rl", "k8s", "docs", "examples", "tools", "tests", "benchmarks")
FILE, FUNCTION = 400, 60  # most lines of a file, and of a function below its docstring

DESCRIBED = ("rl", "k8s", "tools")  # folders whose docstrings are held to it
OTHERS = {"property", "cached_property", "setter", "register"}  # decorators of what is, and does nothing
NO_VERBS = """
    Across Alias Always As Axis Basis Besides Bias Its Minus Perhaps Plus Sometimes This Towards Versus Was
    Actions Arrays Boards Bytes Codes Episodes Features Ids Layers Lines Logits Means Metrics Observations
    Outputs Probabilities Rows States Targets Tensors Tokens Transitions Values Weights Words Zeros
    """  # words that end in s all the same


def too_long(name: str, text: str, tree: ast.AST) -> Iterator[str]:
    """Yields what is too long in a file, one line each."""
    lines = len(text.splitlines())
    if lines > FILE:
        yield f"{name}: {lines} lines, {FILE} at most"
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            lines = int(node.end_lineno or 0) - first.lineno + 1
            if lines > FUNCTION:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines, {FUNCTION} at most"


def without_verb(name: str, tree: ast.AST) -> Iterator[str]:
    """Yields where a public docstring does not begin with a verb in the third person, one line each."""
    for node in _public(tree):
        words = (ast.get_docstring(node) or "").split()
        if words and not is_verb(words[0]):
            told = f'begin its docstring with a verb ("Returns"), not with "{words[0]}"'
            yield f"{name}:{node.lineno}: {node.name}: {told}"


def is_verb(word: str) -> bool:
    """Says whether the first word of a sentence looks like a verb in the third person, by its last letter."""
    found = re.match(r"[A-Z][a-z]+(?![\w'-])", word)
    return (
        found is not None and re.search("[^s]s$", found[0]) is not None and found[0] not in NO_VERBS.split()
    )


def _public(node: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """The public functions and methods in a tree, without those within functions."""
    for each in ast.iter_child_nodes(node):
        if not isinstance(each, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from _public(each)
        elif not each.name.startswith("_") and OTHERS.isdisjoint(map(_last_name, each.decorator_list)):
            yield each


def _last_name(decorator: ast.expr) -> str:
    named = decorator.func if isinstance(decorator, ast.Call) else decorator
    return ast.unparse(named).rpartition(".")[2]


def wrong(path: Path) -> Iterator[str]:
    """Yields what is wrong with a file of this repository, one line each."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    tree = ast.parse(text)
    yield from too_long(str(name), text, tree)
    if name.parts[0] in DESCRIBED:
        yield from without_verb(str(name), tree)


def main() -> int:
    """Prints what is wrong; returns the exit code."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [line for path in paths for line in wrong(path)]
    print("\n".join(found) or f"{len(paths)} files, none too long, each docstring begins with a verb")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
