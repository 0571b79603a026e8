"""Finds circles among imports, and imports from a room above: `python tools/check_imports.py`.

Imports inside functions count as those at the top do; those for type checkers alone do not.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# From top to bottom: a room imports from those below it, and from itself.
# A file that is named itself is used by rooms below the one that it stands in.
ROOMS = (
    (
        "k8s",
        "rl.data.__main__",
        "rl.estimate.__main__",
        "rl.export.__main__",
        "rl.tune",
        "rl.plot.__main__",
        "rl.publish",
    ),
    ("rl.cli", "rl.flags", "rl.listing", "rl.suggest", "rl.envs.checks"),
    ("rl", "rl.api", "rl.policy", "rl.experiment"),
    (
        "rl.runners",
        "rl.workers",
        "rl.estimate",
        "rl.export",
        "rl.plot",
    ),  # a runner's rollouts may come from workers, who play as a runner does
    ("rl.saved_run", "rl.systems", "rl.request", "rl.workers.plan"),
    ("rl.agents",),
    ("rl.memory", "rl.envs", "rl.models"),
    ("rl.parallel",),
    ("rl.hparams",),
    ("rl.ops", "rl.parallel.replicas"),
    ("rl.data",),
    ("rl.report",),
    ("rl.storage",),
    (
        *("rl.registry", "rl.types", "rl.errors", "rl.spaces", "rl.signals", "rl.imports", "rl.heartbeat"),
        *("rl.cores", "rl.other_names", "rl.programs", "rl.version"),
    ),
)


def modules() -> dict[str, Path]:
    """Returns the files of the packages by the names of their modules."""
    paths = [path for package in ("rl", "k8s") for path in (ROOT / package).rglob("*.py")]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path
        for path in paths
    }


def imported(node: ast.AST, known: dict[str, Path]) -> Iterator[tuple[str, int]]:
    """Yields what is imported anywhere below a node: (module, line)."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        if isinstance(child, ast.Import):
            yield from ((alias.name, child.lineno) for alias in child.names if alias.name in known)
        elif isinstance(child, ast.ImportFrom):
            for alias in child.names:
                name = f"{child.module}.{alias.name}"
                if name in known or child.module in known:
                    yield name if name in known else str(child.module), child.lineno
        yield from imported(child, known)


def level(module: str) -> int:
    """Returns the place of a module's room, 0 at the top."""
    places = {name: i for i, names in enumerate(ROOMS) for name in names}
    parts = module.split(".")
    return next(places[name] for i in range(len(parts), 0, -1) if (name := ".".join(parts[:i])) in places)


def reached(graph: dict[str, set[str]], start: str) -> set[str]:
    """Returns all modules that importing one may import."""
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        new = graph[waiting.pop()] - seen
        seen |= new
        waiting += new
    return seen


def main() -> int:
    """Prints what is wrong; returns the exit code."""
    known, graph, wrong = modules(), {}, []
    for module, path in sorted(known.items()):
        edges = list(imported(ast.parse(path.read_text(encoding="utf-8")), known))
        graph[module] = {name for name, _ in edges} - {module}
        for name, line in edges:
            if level(name) < level(module):
                wrong.append(f"{path.relative_to(ROOT)}:{line}: imports {name}, of a room above")
    reach = {module: reached(graph, module) for module in graph}
    circles = {frozenset(other for other in reach[module] if module in reach[other]) for module in graph}
    wrong += [f"circle of imports: {', '.join(sorted(circle))}" for circle in circles if circle]
    print("\n".join(wrong) or f"{len(known)} modules, no circle, none imports from a room above")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
