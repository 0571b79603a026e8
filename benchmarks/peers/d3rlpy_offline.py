"""d3rlpy's offline algorithms on a file of D4RL's columns, as `python -m rl.data convert` writes it.

    VENV/bin/python d3rlpy_offline.py --algo td3_bc --data hopper-medium-v0.npz --env Hopper-v5 --seed 100

Networks, batches and rates are those of our named sets, which are the papers'; rates stay constant. Prints
one line `JSON {...}`: the mean return of the last policy over `--episodes` episodes, and updates/s, the
median over twentieths of the training but for the first.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from typing import Any

import d3rlpy
import gymnasium
import mujoco
import numpy as np
import torch
from d3rlpy.algos import CQLConfig, IQLConfig, ReBRACConfig, TD3PlusBCConfig
from d3rlpy.models.encoders import VectorEncoderFactory
from d3rlpy.preprocessing import ReturnBasedRewardScaler, StandardObservationScaler


def config(algo: str, policy_penalty: float, critic_penalty: float) -> Any:
    """The algorithm's settings; d3rlpy's defaults are left out."""
    deep = VectorEncoderFactory([256, 256, 256])
    if algo == "iql":
        return IQLConfig(reward_scaler=ReturnBasedRewardScaler(multiplier=1000.0))
    if algo == "td3_bc":
        return TD3PlusBCConfig(observation_scaler=StandardObservationScaler())
    if algo == "cql":
        return CQLConfig(alpha_learning_rate=0.0, actor_encoder_factory=deep, critic_encoder_factory=deep)
    return ReBRACConfig(
        actor_encoder_factory=deep,
        critic_encoder_factory=VectorEncoderFactory([256, 256, 256], use_layer_norm=True),
        actor_beta=policy_penalty,
        critic_beta=critic_penalty,
    )


def play(algo: Any, env_id: str, episodes: int, seed: int) -> float:
    """The mean return of the greedy policy."""
    env = gymnasium.make(env_id)
    total = 0.0
    for episode in range(episodes):
        observation, _ = env.reset(seed=1_000 * seed + episode)
        over = False
        while not over:
            action = algo.predict(np.asarray(observation, np.float32)[None])[0]
            observation, reward, terminated, truncated, _ = env.step(action)
            total, over = total + float(reward), terminated or truncated
    return total / episodes


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    add = parser.add_argument
    add("--algo", choices=("iql", "td3_bc", "cql", "rebrac"), required=True)
    add("--data", required=True)
    add("--env", required=True)
    add("--seed", type=int, required=True)
    add("--steps", type=int, default=100_000)
    add("--episodes", type=int, default=100)
    add("--threads", type=int, default=1)
    add("--policy_penalty", type=float, default=0.01, help="ReBRAC's")
    add("--critic_penalty", type=float, default=0.01, help="ReBRAC's")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    d3rlpy.seed(args.seed)
    names = ("observations", "actions", "rewards", "terminals", "timeouts")
    with np.load(args.data) as file:
        columns = {name: file[name] for name in names}
    dataset = d3rlpy.dataset.MDPDataset(**columns)
    algo = config(args.algo, args.policy_penalty, args.critic_penalty).create(device="cpu:0")
    part = max(args.steps // 20, 1)
    times: list[float] = []
    algo.fit(
        dataset,
        n_steps=args.steps,
        n_steps_per_epoch=part,
        logger_adapter=d3rlpy.logging.NoopAdapterFactory(),
        show_progress=False,
        epoch_callback=lambda *_: times.append(time.perf_counter()),
    )
    rates = [part / (later - earlier) for earlier, later in itertools.pairwise(times)]
    line = {
        "return_mean": play(algo, args.env, args.episodes, args.seed),
        "updates_per_s": round(statistics.median(rates), 1),
        "versions": f"d3rlpy {d3rlpy.__version__}, torch {torch.__version__}, "
        f"gymnasium {gymnasium.__version__}, mujoco {mujoco.__version__}",
    }
    print("JSON " + json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
