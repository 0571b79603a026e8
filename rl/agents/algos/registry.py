"""Algorithms: one class a file, made from the hparams, the spaces and the seed of the run."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path

from rl.registry import Registry

registry = Registry(
    "algos", "rl.agents.algos", parameters=("hparams", "observation_space", "action_space", "seed")
)
register = registry.register
get_algo = registry.get


def action_spaces_of(name: str) -> tuple[type, ...]:
    """Returns the kinds of action space that an algorithm acts in, read from the source of its class or its
    base classes: importing them would import TensorFlow. `Space`, the base of all spaces, where no source
    lists any.

    Raises:
        UsageError: no such algorithm.
    """
    from gymnasium import spaces

    entry = registry.entry(name)
    if entry.value is not None:
        return getattr(entry.value, "action_spaces", (spaces.Space,))
    kinds = _listed(entry.path, entry.qualname)
    return tuple(vars(spaces)[kind] for kind in kinds) if kinds else (spaces.Space,)


def _listed(path: str, qualname: str) -> list[str]:
    """The names that a class, or the first of its bases that does, gives for `action_spaces`."""
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    imported = {
        alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}
    for each in classes[qualname].body:
        to = each.targets[0] if isinstance(each, ast.Assign) else getattr(each, "target", None)
        value = getattr(each, "value", None)
        if isinstance(to, ast.Name) and to.id == "action_spaces" and isinstance(value, ast.Tuple):
            return [ast.unparse(kind).replace("spaces.", "") for kind in value.elts]
    for base in (ast.unparse(each).partition("[")[0] for each in classes[qualname].bases):
        if base in classes:
            return _listed(path, base)
        spec = importlib.util.find_spec(imported[base]) if base in imported and base != "Agent" else None
        if spec is not None and spec.origin:
            return _listed(spec.origin, base)
    return []
