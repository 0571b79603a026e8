"""Whether estimates from data rank five policies of CartPole as playing does.

    python benchmarks/estimation.py --output_dir build/estimation

Trains `ppo_cartpole` for eight numbers of steps. Three of these policies play the data, 60 episodes each,
drawn from their distributions; the other five are estimated from the data by `python -m rl.estimate`, and
played for `--episodes` episodes to know what their return is. What `--output_dir` has already is not made
again. Writes estimation.md in `--results`.
"""

from __future__ import annotations

import argparse
import json
import os
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT))

PLAYED = (4_096, 49_152, 16_384)  # steps of training of those who play the data
ESTIMATED = (2_048, 24_576, 8_192, 65_536, 98_304)  # and of those who are estimated
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


def estimated(run: Path, data: Path) -> dict[str, Any]:
    """Returns what the command says of a run, read from its JSON."""
    words = ["--which", "last", "--eval_policy", "sample", "--gamma", str(GAMMA), "--json"]
    command = [sys.executable, "-m", "rl.estimate", "--run", str(run), "--data", str(data), *words]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, cwd=ROOT)
    return dict(json.loads(done.stdout))


def rank_correlation(one: list[float], other: list[float]) -> float:
    """Returns Spearman's, of two lists without ties."""
    ranks = [np.argsort(np.argsort(each)) for each in (one, other)]
    return float(np.corrcoef(*ranks)[0, 1])


def page(played: dict[int, np.ndarray], found: dict[int, dict[str, Any]], episodes: int) -> list[str]:
    """Returns the lines of estimation.md."""
    any_of = next(iter(found.values()))
    names, how = list(any_of["estimates"])[1:], any_of["behaviour"]
    true = {steps: float(discounted_lengths(played[steps]).mean()) for steps in ESTIMATED}
    lines = [
        "# Estimates of five policies of CartPole",
        "",
        f"Written by `python {shlex.join(['benchmarks/estimation.py', *sys.argv[1:]])}`. Returns are "
        f"discounted by {GAMMA}; policies are `ppo_cartpole` after so many steps, drawn from their "
        f"distributions. The data: {EACH} episodes each of three other policies "
        f"({', '.join(f'{each:,}' for each in PLAYED)} steps). How likely their actions were is "
        f"{how.partition(',')[0]}.",
        "",
        f"| steps | length | return, {episodes} episodes | {' | '.join(names)} | effective sample size |",
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
    return [
        *lines,
        f"| rank correlation | | | {' | '.join(ranks)} | |",
        "",
        "In brackets: 95 % intervals.",
        "",
    ]


def _cell(row: dict[str, Any]) -> str:
    if row["estimate"] is None:
        return "-"
    return f"{row['estimate']:.3g} ({row['low']:.3g} to {row['high']:.3g})"


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--output_dir", type=Path, default=ROOT / "build" / "estimation")
    parser.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results")
    parser.add_argument("--episodes", type=int, default=200, help="that each policy plays (default 200)")
    args = parser.parse_args()
    import rl

    folder = args.output_dir.resolve()
    runs = {steps: trained(folder, steps) for steps in (*PLAYED, *ESTIMATED)}
    data = folder / "data_of_three"
    if not data.exists():
        for steps in PLAYED:
            rl.load(runs[steps], "last", "sample").evaluate(EACH, record_data=data)
    played, found = {}, {}
    for steps in ESTIMATED:
        played[steps] = rl.load(runs[steps], "last", "sample").evaluate(args.episodes, seed=1).lengths
        found[steps] = estimated(runs[steps], data)
        print(f"{steps:,}: {discounted_lengths(played[steps]).mean():.1f}", found[steps], file=sys.stderr)
    lines = page(played, found, args.episodes)
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "estimation.md").write_text("\n".join(lines))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
