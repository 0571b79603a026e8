"""Finds files and functions that are too long to be read at once: `python tools/check_files.py`."""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDERS = ("rl", "k8s", "docs", "examples", "tools", "tests", "benchmarks")
FILE, FUNCTION = 400, 60  # most lines of a file, and of a function below its docstring


def too_long(path: Path) -> Iterator[str]:
    """Yields what is too long in a file, one line each."""
    text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT)
    lines = len(text.splitlines())
    if lines > FILE:
        yield f"{name}: {lines} lines, {FILE} at most"
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.FunctionDef):
            first = node.body[1] if ast.get_docstring(node) and len(node.body) > 1 else node.body[0]
            lines = int(node.end_lineno or 0) - first.lineno + 1
            if lines > FUNCTION:
                yield f"{name}:{node.lineno}: {node.name} has {lines} lines, {FUNCTION} at most"


def main() -> int:
    """Prints what is too long; returns the exit code."""
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).rglob("*.py"))]
    wrong = [line for path in paths for line in too_long(path)]
    print("\n".join(wrong) or f"{len(paths)} files, none too long")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
