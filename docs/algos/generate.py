"""Writes docs/algos/README.md, a table of the algorithms and how many lines lie between siblings; and
docs/hparams.md, what every hyperparameter means.

python docs/algos/generate.py
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rl.agents.algos.registry import registry  # noqa: E402
from rl.hparams.describe import Described, described  # noqa: E402
from rl.hparams.hparams import HParams  # noqa: E402
from rl.hparams.registry import get_hparams  # noqa: E402

PAGE = ROOT / "docs" / "algos" / "README.md"
HPARAMS = ROOT / "docs" / "hparams.md"
FAMILIES = {  # siblings, each written as a change of one before it; algorithms not named here come last
    "Action values": ("dqn", "c51", "qrdqn", "iqn", "rainbow", "r2d2"),
    "Policy gradient": ("vpg", "a2c", "ppo", "impala", "appo"),
    "Policy gradient through action values": ("ddpg", "td3", "sac", "sac_discrete"),
    "Evolution": ("es", "ars"),
}
HEADER = "| algorithm | | actions | learns from | memory models | lines |"
EXPERIENCE = {
    "rollout": "each rollout as it comes",
    "transition": "replayed transitions",
    "sequence": "replayed sequences",
    "parameters": "episodes of perturbed parameters",
}

INTRODUCTION = """\
# Algorithms

One file each in `rl/agents/algos`, one page each here: the paper, numbered deviations, the meaning of every
metric. All of them run in-graph and on host environments, take any observations, resume exactly, and where
actions are discrete honour action masks. Returns that they reach:
[benchmarks/results](../../benchmarks/results/README.md). Hyperparameters: `train.py --list hparams`.

Below each table: the lines that `diff` shows between two siblings, removed and added ones counted alike; in
italics the length of a file. Written by `python docs/algos/generate.py`."""


HPARAMS_INTRODUCTION = """\
# Hyperparameters

All of them are given by `--hparam_override "NAME=VALUE,..."`; `python train.py --list hparams SET` shows what
a set has. Defaults are those of the algorithms' classes; a named set (`--list hparams`) has its own values.
The meanings are the comments in `rl/hparams`. Written by `python docs/algos/generate.py`."""


def names() -> list[str]:
    """The algorithms of this repository; user modules may have registered others."""
    folder = str(ROOT / "rl" / "agents" / "algos")
    return [entry.name for entry in registry.entries() if entry.path.startswith(folder)]


def source(name: str) -> list[str]:
    """The lines of an algorithm's file."""
    return Path(registry.entry(name).path).read_text(encoding="utf-8").splitlines()


def difference(one: list[str], other: list[str]) -> int:
    """Lines that `diff --minimal` shows: those of either file outside their longest common subsequence."""
    previous = [0] * (len(other) + 1)
    for mine in one:
        row = [0]
        for j, theirs in enumerate(other):
            row.append(previous[j] + 1 if mine == theirs else max(previous[j + 1], row[j]))
        previous = row
    return len(one) + len(other) - 2 * previous[-1]


def line(name: str) -> str:
    """An algorithm's line of the table."""
    entry, algo = registry.entry(name), registry.get(name)
    shown = f"[{name}]({name}.md)" if (PAGE.parent / f"{name}.md").exists() else name
    actions = ", ".join(sorted(kind.__name__ for kind in algo.action_spaces))
    models = "lstm, gru" if algo.recurrent else "-"
    cells = [shown, entry.description, actions, EXPERIENCE.get(algo.experience, algo.experience), models]
    return f"| {' | '.join(cells)} | {len(source(name))} |"


def matrix(siblings: list[str]) -> list[str]:
    """Differing lines of each pair; a file's own length on the diagonal."""
    sources = {name: source(name) for name in siblings}
    lines = [f"| | {' | '.join(siblings)} |", "|" + " --- |" * (len(siblings) + 1)]
    for i, row in enumerate(siblings):
        cells = [f"*{len(sources[row])}*"]
        cells += [str(difference(sources[row], sources[each])) for each in siblings[i + 1 :]]
        lines.append(f"| {row} | {' | '.join([''] * i + cells)} |")
    return lines


def page() -> str:
    """The text of docs/algos/README.md."""
    known = names()
    families: dict[str, Any] = {
        title: [name for name in siblings if name in known] for title, siblings in FAMILIES.items()
    }
    placed = {name for siblings in families.values() for name in siblings}
    families["Others"] = [name for name in known if name not in placed]
    lines = [INTRODUCTION]
    for title, siblings in families.items():
        if not siblings:
            continue
        lines += ["", f"## {title}", "", HEADER, "|" + " --- |" * (HEADER.count("|") - 1)]
        lines += [line(name) for name in siblings]
        if title != "Others" and len(siblings) > 1:
            lines += ["", *matrix(siblings)]
    return "\n".join(lines) + "\n"


def hparams_page() -> str:
    """The text of docs/hparams.md: those of all algorithms, then what each has of its own."""
    common = described(HParams())
    known = {row.name for row in common}
    lines = [HPARAMS_INTRODUCTION, "", "## All algorithms", "", *_rows(common)]
    for name in names():
        own = [row for row in described(get_hparams(name)()) if row.name not in known]
        if own:
            lines += ["", f"## [{name}](algos/{name}.md)", "", *_rows(own)]
    return "\n".join(lines) + "\n"


def _rows(rows: list[Described]) -> list[str]:
    table = ["| name | default | takes | meaning |", "|" + " --- |" * 4]
    for row in rows:
        cells = f"`{row.name}`", f"`{row.default}`", row.takes, row.meaning
        table.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return table


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
    HPARAMS.write_text(hparams_page(), encoding="utf-8")
