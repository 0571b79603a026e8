"""tianshou's prioritized replay memory: CartPole's transitions, batches of 256 of a million places.

The memory takes up to 100,000 transitions one at a time, then serves batches with new priorities written back
after each. env_steps_per_s are additions, updates_per_s are rounds of sample and update.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import time
from collections.abc import Callable

import numpy as np
from meter import peak_rss_mb, process_age
from tianshou.data import Batch, PrioritizedVectorReplayBuffer


def rate(action: Callable[[int], None], count: int, warmup: int, seconds: float) -> float:
    """Calls per second of `action`, over `count` calls or as many as fit in `seconds`."""
    for i in range(warmup):
        action(i)
    begun = time.perf_counter()
    for i in range(count):
        action(i)
        if i % 100 == 99 and time.perf_counter() - begun > seconds:
            break
    return (i + 1) / (time.perf_counter() - begun)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--capacity", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=256)
    parser.add_argument("--seconds", type=float, default=5.0, help="limit of each of the two timed loops")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    np.random.seed(args.seed)
    buffer = PrioritizedVectorReplayBuffer(args.capacity, 1, alpha=0.6, beta=0.4)
    observation = np.ones((1, 4), np.float32)
    action, reward, done = np.array([1]), np.ones(1, np.float32), np.array([False])

    def add(_: int) -> None:
        row = Batch(
            obs=observation,
            act=action,
            rew=reward,
            obs_next=observation,
            terminated=done,
            truncated=done,
            done=done,
            info=Batch(),
        )
        buffer.add(row, buffer_ids=[0])

    priorities = np.random.default_rng(args.seed).random((64, args.batch)).astype(np.float32) + 0.1

    def round_trip(i: int) -> None:
        _, indices = buffer.sample(args.batch)
        buffer.update_weight(indices, priorities[i % 64])

    startup = process_age()
    adds = rate(add, 100_000, 2_000, args.seconds)
    rounds = rate(round_trip, 20_000, 200, args.seconds)
    line = {
        "library": "tianshou",
        "version": importlib.metadata.version("tianshou"),
        "workload": "prioritized_replay",
        "env_steps_per_s": round(adds, 1),
        "updates_per_s": round(rounds, 1),
        "startup_s": round(startup, 2),
        "peak_rss_mb": peak_rss_mb(),
        "return_mean": None,
    }
    print("JSON " + json.dumps(line))


main()
