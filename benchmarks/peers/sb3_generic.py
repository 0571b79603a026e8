"""Stable-Baselines3's default of an algorithm on one environment, to set beside our generic sets.

    PEER_PYTHON benchmarks/peers/sb3_generic.py --algo dqn --env Taxi-v4 --seed 100 --steps 100000

Nothing is chosen but the algorithm: "MlpPolicy" ("MultiInputPolicy" for Dict observations) with every default
of the library; qrdqn, ars and trpo are sb3-contrib's. `--algo random` plays at random. After training the
policy plays `--episodes` episodes without exploration; prints one line of JSON with the mean return.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from benchmarks import generic_envs

CONTRIB = ("qrdqn", "ars", "trpo")


def trained(algo: str, env_id: str, seed: int, steps: int) -> Any:
    """The library's model, trained with all its defaults; None for random play."""
    if algo == "random":
        return None
    if algo in CONTRIB:
        import sb3_contrib as library
    else:
        import stable_baselines3 as library
    import torch

    torch.set_num_threads(1)
    env = gymnasium.make(env_id)
    dictionary = isinstance(env.observation_space, gymnasium.spaces.Dict)
    model = getattr(library, algo.upper())(
        "MultiInputPolicy" if dictionary else "MlpPolicy", env, seed=seed, device="cpu"
    )
    return model.learn(steps)


def evaluated(model: Any, env_id: str, seed: int, episodes: int) -> np.ndarray:
    """The return of each of `episodes` episodes, float [episodes]."""
    space = gymnasium.make(env_id).action_space
    if model is None:
        space.seed(seed)
        return generic_envs.play(env_id, lambda observation, _: space.sample(), episodes)
    discrete = isinstance(space, gymnasium.spaces.Discrete)

    def act(observation: Any, _: Any) -> Any:
        action, _ = model.predict(observation, deterministic=True)
        return int(action) if discrete else action

    return generic_envs.play(env_id, act, episodes)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--algo", required=True)
    add("--env", required=True)
    add("--seed", type=int, required=True)
    add("--steps", type=int, required=True)
    add("--episodes", type=int, default=100)
    args = parser.parse_args()
    begun = time.perf_counter()
    model = trained(args.algo, args.env, args.seed, args.steps)
    seconds = time.perf_counter() - begun
    returns = evaluated(model, args.env, args.seed, args.episodes)
    print(json.dumps({"mean_return": round(float(returns.mean()), 2), "seconds": round(seconds, 1)}))


if __name__ == "__main__":
    main()
