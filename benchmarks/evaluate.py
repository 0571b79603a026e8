"""Plays the last and the best checkpoint of runs: a process of its own, which takes its memory with it.

    python benchmarks/evaluate.py 100 build/learning/ppo_cartpole/seed_100/run_0 101 [RUN_DIR SEED ...]

Prints for each run, in their order, `JSON {"last": ..., "best": ...}`: mean returns over so many episodes,
drawn by its seed. Of runs that adapt to tasks: over so many tasks, after they have adapted.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import numpy as np
import shared

from rl.imports import import_tensorflow


def returns(run_dir: Path, which: str, episodes: int, seed: int) -> np.ndarray:
    """Returns what the policy "last" or "best" of a run returns, [episodes]."""
    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    import rl
    from rl.runners.adapted import adapted_returns
    from rl.saved_run import saved_hparams

    if saved_hparams(run_dir)[0].adapts:
        return adapted_returns(run_dir, which, episodes, seed=seed)[-1]
    return rl.load(run_dir, which).evaluate(episodes, seed=seed).returns


def main() -> int:
    parser, seed_of = shared.parser(__doc__), shared.integer(0)
    parser.add_argument("episodes", type=shared.integer(1), metavar="EPISODES", help="of each checkpoint")
    parser.add_argument("pairs", nargs="+", metavar="RUN_DIR SEED", help="runs, each with a seed of its own")
    args = parser.parse_args()
    if len(args.pairs) % 2:
        raise shared.UsageError(f"{args.pairs[-1]}: each RUN_DIR is followed by a SEED")
    runs = [shared.run_folder(each) for each in args.pairs[::2]]
    try:
        seeds = [seed_of(each) for each in args.pairs[1::2]]
    except argparse.ArgumentTypeError as error:
        raise shared.UsageError(f"SEED {error}") from error
    for run_dir, seed in zip(runs, seeds, strict=True):
        means = {which: returns(run_dir, which, args.episodes, seed).mean() for which in ("last", "best")}
        print("JSON " + json.dumps({which: float(mean) for which, mean in means.items()}), flush=True)
    return 0


if __name__ == "__main__":
    shared.answer(main)
