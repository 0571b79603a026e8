"""Algorithms: one class a file, made from the hparams, the spaces and the seed of the run."""

from __future__ import annotations

import ast
from pathlib import Path

from rl.registry import Registry

registry = Registry(
    "algos", "rl.agents.algos", parameters=("hparams", "observation_space", "action_space", "seed")
)
register = registry.register
get_algo = registry.get


def action_spaces_of(name: str) -> tuple[type, ...]:
    """The kinds of action space that an algorithm acts in, without importing its file, which takes
    TensorFlow: read from there. `Space`, which all are, where the file does not list them.

    Raises:
        UsageError: no such algorithm.
    """
    from gymnasium import spaces

    entry = registry.entry(name)
    if entry.value is not None:
        return getattr(entry.value, "action_spaces", (spaces.Space,))
    tree = ast.parse(Path(entry.path).read_text(encoding="utf-8"))
    classes = (node for node in tree.body if isinstance(node, ast.ClassDef) and node.name == entry.qualname)
    for each in (each for node in classes for each in node.body):
        if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "action_spaces":
            listed = [getattr(node, "attr", "") for node in getattr(each.value, "elts", [])]
            if listed and all(hasattr(spaces, kind) for kind in listed):
                return tuple(getattr(spaces, kind) for kind in listed)
    return (spaces.Space,)
