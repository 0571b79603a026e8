"""What there is by name: the registries, and what `--list` prints of them."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence

from rl.errors import Unavailable, UsageError, nearest
from rl.registry import Registry
from rl.report.tables import plain_table, terminal_table

FAMILIES = {  # name of the registry -> its package
    "hparams": "rl.hparams",
    "envs": "rl.envs",
    "models": "rl.models",
    "memory": "rl.memory",
    "algos": "rl.agents.algos",
    "act_select": "rl.agents.algos.act_select",
    "grad_comp": "rl.agents.algos.grad_comp",
}


def registry_of(family: str) -> Registry:
    """Returns the registry of a family; UsageError if there is no such family."""
    if family not in FAMILIES:
        raise UsageError(f"unknown registry {family!r}: {nearest(family, FAMILIES)}")
    registry: Registry = importlib.import_module(f"{FAMILIES[family]}.registry").registry
    return registry


def list_names(words: Sequence[str]) -> int:
    """Prints all registries, the one named, or the hyperparameters of `hparams SET`; returns 0."""
    header: tuple[str, ...] = ("name", "what it is")
    tables: dict[str, list[tuple[str, ...]]] = {}
    if len(words) == 2 and words[0] == "hparams":
        from rl.hparams.describe import Described, described
        from rl.hparams.merge import named

        header, tables = Described._fields, {words[1]: [tuple(row) for row in described(named(words[1]))]}
    elif len(words) > 1:
        raise UsageError(f"--list {' '.join(words)}: name one registry, or hparams and one set")
    else:
        for name in words or FAMILIES:
            tables[name] = [(entry.name, entry.description) for entry in registry_of(name).entries()]
    print_tables(tables, header, titled=not words)
    return 0


def print_tables(
    tables: Mapping[str, Sequence[tuple[str, ...]]], header: tuple[str, ...], titled: bool
) -> None:
    """Prints tables by their titles: drawn on a terminal, else columns of text, which have a header where
    there are more than two, and titles if `titled`.

    Raises:
        Unavailable: the standard output cannot be written.
    """
    try:
        for name, rows in tables.items():
            if sys.stdout.isatty():
                terminal_table(rows, header, name, sys.stdout)
                continue
            if titled:
                print(f"{name}:")
            plain_table([header, *rows] if len(header) > 2 else rows, sys.stdout)
        sys.stdout.flush()
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what is left is not tried again
        if not isinstance(error, BrokenPipeError):  # the reader (head, less) had enough
            raise Unavailable(f"cannot write the list: {error.strerror}") from None
