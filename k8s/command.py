"""The `train.py` command that the Pods run."""

from __future__ import annotations

import argparse
from collections.abc import Collection

from rl.cli import build_parser


def train_command(args: argparse.Namespace, without: Collection[str] = ()) -> list[str]:
    """`python train.py` with the flags whose values are not the defaults, in the order of --help.

    args: what `rl.cli.parse` made of what was typed.
    without: names of values that are left out.
    """
    command = ["python", "train.py"]
    for action in build_parser()._actions:
        if action.dest in ("help", *without):
            continue
        value = getattr(args, action.dest)
        if value != action.default:
            command += [action.option_strings[0], str(value)]
    return command
