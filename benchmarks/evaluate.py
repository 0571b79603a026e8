"""Plays the last and the best checkpoint of runs: a process of its own, which takes its memory with it.

    python benchmarks/evaluate.py 100 build/learning/ppo_cartpole/seed_100/run_0 101 [RUN_DIR SEED ...]

Prints for each run, in their order, `JSON {"last": ..., "best": ...}`: mean returns over so many episodes,
drawn by its seed. Of runs that adapt to tasks: over so many tasks, after they have adapted.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np

import rl
from rl.runners.adapted import adapted_returns
from rl.saved_run import saved_hparams


def returns(run_dir: Path, which: str, episodes: int, seed: int) -> np.ndarray:
    """Returns what the policy "last" or "best" of a run returns, [episodes]."""
    if saved_hparams(run_dir)[0].adapts:
        return adapted_returns(run_dir, which, episodes, seed=seed)[-1]
    return rl.load(run_dir, which).evaluate(episodes, seed=seed).returns


def main() -> int:
    episodes, *pairs = sys.argv[1:]
    for run_dir, seed in zip(pairs[::2], pairs[1::2], strict=True):
        means = {
            which: returns(Path(run_dir), which, int(episodes), int(seed)).mean()
            for which in ("last", "best")
        }
        print("JSON " + json.dumps({which: float(mean) for which, mean in means.items()}), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
