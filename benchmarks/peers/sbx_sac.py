"""SBX's SAC (JAX) on HalfCheetah-v5 or Pendulum-v1: 256-256 networks, batch 256, as many updates as steps.

`--block 50` makes 50 updates after every 50 steps, in one compiled call; the default alternates.
"""

from __future__ import annotations

import importlib.metadata

import arguments
from meter import Meter
from sb3_marks import StepMarks
from sbx import SAC
from stable_baselines3.common.env_util import make_vec_env

SETTINGS = {
    "learning_rate": 3e-4,
    "buffer_size": 100_000,
    "learning_starts": 1_000,
    "batch_size": 256,
    "gamma": 0.99,
    "tau": 0.005,
    "policy_kwargs": {"net_arch": [256, 256]},
}
WARMUP = 1_500  # environment steps


def main() -> None:
    args = arguments.parse(__doc__, 4_000, env="HalfCheetah-v5", block=1)
    meter = Meter("sbx", importlib.metadata.version("sbx-rl"), f"sac_{args.env}", WARMUP)
    env = make_vec_env(args.env, n_envs=1, seed=args.seed)
    blocks = {"train_freq": args.block, "gradient_steps": args.block}
    model = SAC("MlpPolicy", env, seed=args.seed, device="cpu", **SETTINGS, **blocks)
    meter.start()
    model.learn(args.steps, callback=StepMarks(meter))
    returns = [info["r"] for info in model.ep_info_buffer]
    meter.report(float(sum(returns) / len(returns)) if returns else None, block=args.block)


main()
