"""CleanRL's dqn.py, or dqn_jax.py with --script, on CartPole-v1; argument: a CleanRL checkout.

Its defaults are this workload's settings.
"""

from __future__ import annotations

import arguments
import cleanrl_script

args = arguments.parse(__doc__, 50_000, checkout=str, script="dqn.py")
cleanrl_script.run(
    args.checkout,
    args.script,
    f"--env-id CartPole-v1 --total-timesteps {args.steps} --seed {args.seed} --learning-starts 10000",
    "dqn_cartpole",
    warmup=11_000,
    lines=cleanrl_script.Lines(first=10_100, steps=100, updates=10),  # once learning has begun
    envs=1,
)
