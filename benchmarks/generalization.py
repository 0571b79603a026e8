"""How well what was learned on a number of Procgen's levels does on levels that were not trained on.

    python benchmarks/generalization.py --run build/learning/ppo_coinrun_small/seed_0/run_0

Of a finished run of train.py with `train_env_kwargs.num_levels`: its curves, and its last checkpoint on
`--episodes` episodes of the levels that it was trained on, and of all levels, of which it has seen next to
none.
Writes generalization.md and .png in benchmarks/results.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

import numpy as np
import report
import shared

CURVES = {
    "episode/return_mean": "training, as it acts there",
    "eval/train_levels_return_mean": "the training levels, greedy",
    "eval/return_mean": "all levels, greedy",
}


def returns(run_dir: Path, episodes: int) -> dict[str, np.ndarray]:
    """Returns of the last checkpoint on the levels trained on, and on all."""
    import rl
    from rl.envs.host import Purpose, purpose_seed
    from rl.runners.evaluate import Evaluator

    policy = rl.load(run_dir, "last")
    hparams = policy.agent.hparams
    levels = hparams.env_kwargs | hparams.train_env_kwargs
    found = {}
    for name, options in (("levels trained on", levels), ("all levels", hparams.env_kwargs)):
        evaluator = Evaluator(policy.agent, episodes, options)
        try:
            found[name] = evaluator.run(purpose_seed(Purpose.USER)).returns
        finally:
            evaluator.close()
    return found


def plot(rows: list[dict[str, str]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6, 3.5))
    for column, label in CURVES.items():
        points = [(float(row["step"]) / 1e6, float(row[column])) for row in rows if row.get(column)]
        axes.plot(*zip(*points, strict=True), label=label, marker="." if "eval" in column else None)
    axes.set_xlabel("million steps")
    axes.set_ylabel("return")
    axes.legend()
    axes.grid(alpha=0.3)
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    pyplot.close(figure)


def main() -> int:
    parser = shared.parser(__doc__)
    parser.add_argument("--run", type=shared.run_folder, required=True, help="folder of the run")
    text = "of each evaluation (default 200)"
    parser.add_argument("--episodes", type=shared.integer(2), default=200, help=text)
    args = parser.parse_args()
    rows = report.read_table(args.run / "metrics.csv")
    found = returns(args.run, args.episodes)
    own = [float(row["episode/return_mean"]) for row in rows if row.get("episode/return_mean")][-10:]
    plot(rows, report.RESULTS / "generalization.png")
    lines = [
        "# Levels trained on, and all levels",
        "",
        f"Written by `python {shlex.join(['benchmarks/generalization.py', *sys.argv[1:]])}`, of a run of "
        f"{int(float(rows[-1]['step'])):,} steps and the hparams of its hparams.json.",
        "",
        f"Return of the last {len(own)} lines of metrics in training: {np.mean(own):.2f}.",
        "",
        f"| last checkpoint, greedy, {args.episodes} episodes | mean return | standard error |",
        "| --- | --- | --- |",
    ]
    for name, values in found.items():
        lines.append(f"| {name} | {values.mean():.2f} | {values.std(ddof=1) / len(values) ** 0.5:.2f} |")
    lines += ["", "![curves](generalization.png)", ""]
    shared.write(report.RESULTS / "generalization.md", "\n".join(lines))
    print("\n".join(lines))
    return 0


if __name__ == "__main__":
    shared.answer(main)
