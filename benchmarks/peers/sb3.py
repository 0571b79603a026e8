"""Stable-Baselines3's PPO (8 environments) or DQN (1 environment) on CartPole-v1; argument: ppo or dqn."""

from __future__ import annotations

import importlib.metadata

import arguments
import torch
from meter import Meter
from sb3_marks import UPDATES_PER_ROLLOUT, RolloutMarks, StepMarks
from stable_baselines3 import DQN, PPO
from stable_baselines3.common.env_util import make_vec_env

PPO_SETTINGS = {
    "learning_rate": 1e-3,
    "n_steps": 128,
    "batch_size": 256,
    "n_epochs": 4,
    "gamma": 0.99,
    "gae_lambda": 0.95,
    "clip_range": 0.2,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
DQN_SETTINGS = {
    "learning_rate": 2.5e-4,
    "buffer_size": 10_000,
    "learning_starts": 10_000,
    "batch_size": 128,
    "gamma": 0.99,
    "train_freq": 10,
    "gradient_steps": 1,
    "target_update_interval": 500,
    "exploration_fraction": 0.5,
    "exploration_final_eps": 0.05,
    "policy_kwargs": {"net_arch": [120, 84]},
}


def main() -> None:
    args = arguments.parse(__doc__, 0, algo=str)
    version = importlib.metadata.version("stable-baselines3")
    if args.algo == "ppo":
        steps, warmup, envs = args.steps or 200_000, 16_384, 8
        kind, settings, marks = PPO, PPO_SETTINGS, RolloutMarks
    else:
        steps, warmup, envs = args.steps or 50_000, 11_000, 1
        kind, settings, marks = DQN, DQN_SETTINGS, StepMarks
    meter = Meter("sb3", version, f"{args.algo}_cartpole", warmup)
    env = make_vec_env("CartPole-v1", n_envs=envs, seed=args.seed)
    model = kind("MlpPolicy", env, seed=args.seed, device="cpu", **settings)
    meter.start()
    model.learn(steps, callback=marks(meter))
    if kind is PPO:  # no rollout follows the last round of updates
        meter.mark(model.num_timesteps, UPDATES_PER_ROLLOUT * (model.num_timesteps // 1024))
    returns = [info["r"] for info in model.ep_info_buffer]
    meter.report(float(sum(returns) / len(returns)), envs=envs, torch_threads=torch.get_num_threads())


main()
