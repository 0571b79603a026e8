"""Command-line options that the peer drivers share."""

from __future__ import annotations

import argparse


def parse(doc: str | None, steps: int, **extra: object) -> argparse.Namespace:
    """--steps (default `steps`), --seed, and one option for each of `extra` with its default.

    An `extra` whose default is a type instead of a value is a positional argument of that type.
    """
    parser = argparse.ArgumentParser(description=doc)
    for name, default in extra.items():
        if isinstance(default, type):
            parser.add_argument(name, type=default)
        else:
            parser.add_argument("--" + name, type=type(default), default=default)
    parser.add_argument("--steps", type=int, default=steps)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()
