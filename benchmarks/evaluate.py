"""Plays a run's last and best checkpoint: a process of its own, which takes its memory with it.

    python benchmarks/evaluate.py build/learning/ppo_cartpole/seed_100/run_0 100 101

Prints `JSON {"last": ..., "best": ...}`, mean returns over so many episodes, drawn by that seed.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import rl


def main() -> int:
    run_dir, episodes, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    means = {
        which: rl.load(run_dir, which).evaluate(episodes, seed=seed).returns.mean()
        for which in ("last", "best")
    }
    print("JSON " + json.dumps({which: float(mean) for which, mean in means.items()}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
