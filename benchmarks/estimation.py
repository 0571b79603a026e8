"""Whether estimates from data rank five policies of CartPole as playing does.

    python benchmarks/estimation.py --output_dir build/estimation

Trains `ppo_cartpole` for eight numbers of steps. Five of these policies are estimated from data by
`python -m rl.estimate`, and played for `--episodes` episodes to know what their return is. Three policies
play the data, 60 episodes each, drawn from their distributions: in one data set three of the five, in the
other one the three that are left. What `--output_dir` has already is not made again.
Writes estimation.md in `--results`.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import shared
from shared import ROOT

ESTIMATED = (2_048, 24_576, 8_192, 65_536, 98_304)  # steps of training of the policies that are estimated
PLAYED = {"own": (2_048, 24_576, 98_304), "others": (4_096, 49_152, 16_384)}  # and of those who play the data
TITLES = {"own": "Data of three of the five", "others": "Data of three other policies"}
GAMMA = 0.995  # with the set's own, 0.98, all that live for 200 steps have nearly the same return
EACH = 60  # episodes that each policy has in the data


def trained(folder: Path, steps: int) -> Path:
    """Returns the output folder of a run of so many steps, which is trained where it is not there."""
    path = folder / f"ppo_{steps}"
    if not (path / "run_0" / "checkpoints").exists():
        words = ["--hparams", "ppo_cartpole", "--train_steps", str(steps), "--eval_policy", "sample"]
        command = [sys.executable, str(ROOT / "train.py"), *words, "--output_dir", str(path)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return path


def discounted_lengths(lengths: np.ndarray) -> np.ndarray:
    """Returns the discounted return of episodes with a reward of 1 in each step."""
    return (1.0 - GAMMA**lengths) / (1.0 - GAMMA)


def estimated(folder: Path, name: str, steps: int) -> dict[str, Any]:
    """Returns what the command says of a run by the data of that name, read from its JSON."""
    kept = folder / f"data_of_{name}_{steps}.json"
    if not kept.exists():
        words = ["--which", "last", "--eval_policy", "sample", "--gamma", str(GAMMA), "--json"]
        places = ["--run", str(folder / f"ppo_{steps}"), "--data", str(folder / f"data_of_{name}")]
        command = [sys.executable, "-m", "rl.estimate", *places, *words]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        shared.write(kept, done.stdout)
    return dict(json.loads(kept.read_text()))


def rank_correlation(one: list[float], other: list[float]) -> float:
    """Returns Spearman's, of two lists without ties."""
    ranks = [np.argsort(np.argsort(each)) for each in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def table(played: dict[int, np.ndarray], found: dict[int, dict[str, Any]]) -> list[str]:
    """Returns the lines of a table, of one data set."""
    names = list(next(iter(found.values()))["estimates"])[1:]
    true = {steps: float(discounted_lengths(played[steps]).mean()) for steps in ESTIMATED}
    lines = [
        f"| steps | length | return | {' | '.join(names)} | effective sample size |",
        "| --- |" + " --- |" * (len(names) + 3),
    ]
    for steps in sorted(ESTIMATED, key=lambda each: true[each]):
        rows = found[steps]["estimates"]
        cells = [f"{steps:,}", f"{played[steps].mean():.0f}", f"{true[steps]:.1f}"]
        cells += [_cell(rows[name]) for name in names]
        lines.append(f"| {' | '.join(cells)} | {rows['wis']['effective_sample_size']:.1f} |")
    ranks = []
    for name in names:
        values = [found[steps]["estimates"][name]["estimate"] for steps in ESTIMATED]
        known = None not in values
        ranks.append(f"{rank_correlation(values, list(true.values())):.1f}" if known else "-")
    return [*lines, f"| rank correlation | | | {' | '.join(ranks)} | |"]


def _cell(row: dict[str, Any]) -> str:
    if row["estimate"] is None:
        return "-"
    return f"{row['estimate']:.3g} ({row['low']:.3g} to {row['high']:.3g})"


def main() -> int:
    parser = shared.parser(__doc__)
    parser.add_argument("--output_dir", type=Path, default=ROOT / "build" / "estimation")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    text = "that each policy plays (default 200)"
    parser.add_argument("--episodes", type=shared.integer(1), default=200, help=text)
    args = parser.parse_args()
    import rl

    folder = args.output_dir.resolve()
    everyone = sorted({*ESTIMATED, *PLAYED["own"], *PLAYED["others"]})
    runs = {steps: trained(folder, steps) for steps in everyone}
    played = {
        steps: rl.load(runs[steps], "last", "sample").evaluate(args.episodes, seed=1).lengths
        for steps in ESTIMATED
    }
    lines = [
        "# Estimates of five policies of CartPole",
        "",
        f"Written by `python {shlex.join(['benchmarks/estimation.py', *sys.argv[1:]])}`. Policies are "
        "`ppo_cartpole` after so many steps, drawn from their distributions. Returns, of "
        f"{args.episodes} episodes, are discounted by {GAMMA}; in brackets are 95 % intervals. Data have "
        f"{EACH} episodes of each policy that plays, and say how likely its actions were.",
    ]
    for name, players in PLAYED.items():
        if not (folder / f"data_of_{name}").exists():
            for steps in players:
                policy = rl.load(runs[steps], "last", "sample")
                policy.evaluate(EACH, record_data=folder / f"data_of_{name}")
        found = {steps: estimated(folder, name, steps) for steps in ESTIMATED}
        who = ", ".join(f"{steps:,}" for steps in players)
        lines += ["", f"## {TITLES[name]}", "", f"Of {who} steps.", "", *table(played, found)]
    lines.append("")
    shared.write(args.results / "estimation.md", "\n".join(lines))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    shared.answer(main)
