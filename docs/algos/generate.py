"""Writes docs/algos and docs/hparams.md, from what stands in the code and in docs/algos/metrics.toml.

A page of an algorithm is its module's docstring, its hyperparameters with their comments, and its metrics.
docs/algos/README.md is a table of the algorithms, and of the lines that lie between siblings.

    python docs/algos/generate.py            # after a change of docstrings, hparams or metrics.toml
    python docs/algos/generate.py --check    # writes nothing; says what is wrong (`make lint`)
"""

from __future__ import annotations

import ast
import os
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT))

from rl.agents.algos.registry import registry  # noqa: E402
from rl.hparams.describe import Described, described  # noqa: E402
from rl.hparams.hparams import HParams  # noqa: E402
from rl.hparams.registry import get_hparams  # noqa: E402

FOLDER = ROOT / "docs" / "algos"
METRICS = tomllib.loads((FOLDER / "metrics.toml").read_text(encoding="utf-8"))
FAMILIES = {  # siblings, each written as a change of one before it; algorithms not named here come last
    "Action values": ("dqn", "c51", "qrdqn", "iqn", "rainbow", "r2d2", "pqn"),
    "Action values of a team": ("vdn", "qmix"),
    "Action values of slates": ("slateq",),
    "Bandits": ("linucb", "linear_thompson", "neural_linear"),
    "Policy gradient": ("vpg", "trpo", "a2c", "ppo", "mappo", "ppg", "impala", "appo", "vmpo"),
    "Policy gradient through action values": ("ddpg", "maddpg", "td3", "sac", "tqc", "rsac", "sac_discrete"),
    "By a learned model": ("world_models", "dreamer", "mbpo"),
    "By search": ("alphazero", "muzero"),
    "Of many tasks": ("maml", "pearl", "mbmpo"),
    "Evolution": ("es", "ars"),
    "From data, policies": ("bc", "marwil", "awac", "iql", "dt"),
    "From data, action values": ("cql_discrete", "bcq_discrete"),
    "From data, policies through action values": ("td3_bc", "rebrac", "cql", "bcq"),
}
HEADER = "| algorithm | | actions | learns from | memory models | lines |"
EXPERIENCE = {
    "rollout": "each rollout as it comes",
    "transition": "replayed transitions",
    "sequence": "replayed sequences",
    "parameters": "episodes of perturbed parameters",
}

WRITTEN = "Written by `python docs/algos/generate.py`."
INTRODUCTION = f"""\
# Algorithms

One file each in `rl/agents/algos`, one page each here: the paper, numbered deviations, hyperparameters, the
meaning of every metric. All of them run in-graph and, but for what searches or adapts to tasks there, on
host environments, take any observations (`mbmpo`: no pictures; `vdn`, `qmix`, `maddpg` and `mappo`: those
of several agents; `slateq`: slates), resume exactly, and where actions are discrete honour action masks
(`world_models` refuses them). Returns that they reach:
[benchmarks/results](../../benchmarks/results/README.md).

Below each table: the lines that `diff` shows between two siblings, removed and added ones counted alike; in
italics the length of a file. {WRITTEN}"""
COMMON_METRICS = """\
## Metrics of all algorithms

Those under `train/` stand on the algorithms' pages; they are means over the updates since the last row.

| metric | meaning |
| --- | --- |
| `episode/count` | episodes of training that ended since the last row, exploration included |
| `episode/return_mean`, `episode/return_min`, `episode/return_max` | their returns |
| `episode/return_AGENT` | with [many agents](../agents.md): the mean of what that agent was paid in them; \
all other returns are the team's |
| `episode/length_mean` | their lengths in steps |
| `train/intrinsic_reward` | with [`curiosity`](../curiosity.md): the mean bonus for what is new |
| `train/curiosity_loss` | with it: the mean loss of the networks that find out what is new |
| `train/skipped_updates` | updates that [were left out](../debugging.md) for NaN or infinity |
| `eval/*` | whole Gymnasium episodes, by `eval_policy`: without exploration unless that is `sample` |
| `eval/success_rate` | the share of these that reached their goal, where the environment says so \
([how](../environments.md#success-and-other-numbers-of-an-episode)) |
| `eval/NAME`, of `info_keys` | the mean of that number of the last step's `info` |
| `eval/return_AGENT` | as `episode/return_AGENT`, of these episodes |
| `episode/success_rate`, `episode/NAME` | the same of training episodes, \
where training is on Gymnasium |
| `estimate/*` | with `estimate=true`: the discounted return by the data ([how](../offline.md)) |
| `perf/*` | in `perf.csv`: rates and memory |"""
HPARAMS_INTRODUCTION = f"""\
# Hyperparameters

All of them are given by `--hparam_override "NAME=VALUE,..."`; `python train.py --list hparams SET` shows what
a set has. Defaults are those of the classes; a named set (`--list hparams`) has its own values. The meanings
are the comments in `rl/hparams`. {WRITTEN}"""


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
    actions = ", ".join(sorted(kind.__name__ for kind in algo.action_spaces))
    models = "lstm, gru" if algo.recurrent else "-"
    cells = [
        f"[{name}]({name}.md)",
        entry.description,
        actions,
        EXPERIENCE.get(algo.experience, algo.experience),
        models,
    ]
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


def overview() -> str:
    """Returns the text of docs/algos/README.md."""
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
    return "\n".join([*lines, "", COMMON_METRICS]) + "\n"


def hparams_page() -> str:
    """Returns the text of docs/hparams.md: those of all algorithms."""
    links = ", ".join(f"[{name}](algos/{name}.md)" for name in names())
    lines = [HPARAMS_INTRODUCTION, "", f"Those of single algorithms stand on their pages: {links}."]
    return "\n".join([*lines, "", *_rows(described(HParams()))]) + "\n"


def algorithm_page(name: str) -> str:
    """Returns the text of docs/algos/NAME.md."""
    docstring = ast.get_docstring(ast.parse("\n".join(source(name)))) or name
    first, _, text = docstring.partition("\n")
    title, _, what = first.rstrip(".").partition(": ")
    text = re.sub(
        r"^Deviations from ([\w ]*papers?):?\s*", r"## Deviations from \1\n\n", text.strip(), flags=re.M
    )
    text = re.sub(r"`(rl/[\w/]+\.py)`", r"[\1](../../\1)", text)
    files = [f"rl/agents/algos/{name}.py", f"rl/hparams/{name}.py"]
    code, hparams = (f"[{path}](../../{path})" for path in files)
    common = {row.name: row.default for row in described(HParams())}
    rows = described(type(get_hparams(name)())())
    lines = [f"# {title}", ""]
    lines += [f"{what[:1].upper()}{what[1:]}."] if what else []
    lines += [f"Code: {code}, hyperparameters: {hparams}.", "", text, "", "## Hyperparameters", ""]
    lines += ["Its own, and those of [all algorithms](../hparams.md) whose default is another one.", ""]
    lines += _rows([row for row in rows if common.get(row.name) != row.default and row.name != "algo"])
    lines += annealed(type(get_hparams(name)()).anneals)
    lines += ["", "## Metrics", "", "| metric | meaning |", "| --- | --- |"]
    lines += [f"| `train/{metric}` | {meaning} |" for metric, meaning in metrics(name).items()]
    lines += ["", f"And [those of all algorithms](README.md#metrics-of-all-algorithms). {WRITTEN}"]
    return "\n".join(lines) + "\n"


def annealed(names: tuple[str, ...]) -> list[str]:
    """Returns what to say of the hyperparameters that may change in training."""
    if not names:
        return []
    listed = ", ".join(f"`{name}`" for name in names)
    example = f"`anneal={{{names[0]}:0}}`"
    shown = f"{example} ends at 0; `train/{names[0]}` shows it."
    return ["", f"In training may change, by `anneal`: {listed}. {shown}"]


def metrics(name: str) -> dict[str, str]:
    """Returns what an algorithm logs under train/ and what it means."""
    rows = dict(METRICS.get(name, {}))
    parent = rows.pop("like", None)
    return (metrics(parent) if parent else {}) | rows


def pages() -> dict[Path, str]:
    """Returns the text of every page that this script writes, by its path."""
    algorithms = {FOLDER / f"{name}.md": algorithm_page(name) for name in names()}
    return {FOLDER / "README.md": overview(), ROOT / "docs" / "hparams.md": hparams_page(), **algorithms}


def _rows(rows: list[Described]) -> list[str]:
    table = ["| name | default | takes | meaning |", "|" + " --- |" * 4]
    for row in rows:
        cells = f"`{row.name}`", f"`{row.default}`", row.takes, row.meaning
        table.append("| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |")
    return table


def mistakes() -> list[str]:
    """Returns a line for each page that is out of date, and for what an algorithm's page lacks."""
    found = []
    lines = difference(source("dqn"), source("c51"))
    if lines >= 50:  # a file is to show what its algorithm alone does
        found.append(f"rl/agents/algos/c51.py: {lines} lines differ from dqn.py, fewer than 50 are to")
    for path, text in pages().items():
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            found.append(f"{path.relative_to(ROOT)} is out of date: python docs/algos/generate.py")
    for name in names():
        if "https://" not in algorithm_page(name).partition("## Deviations")[0]:
            found.append(f"rl/agents/algos/{name}.py: its docstring links to no paper")
        if not metrics(name):
            found.append(f"docs/algos/metrics.toml: says nothing of {name}")
    return found


if __name__ == "__main__":
    if sys.argv[1:] == ["--check"]:
        sys.exit("\n".join(mistakes()) or None)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
