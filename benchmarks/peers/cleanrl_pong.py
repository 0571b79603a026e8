"""CleanRL's ppo_atari_envpool.py on Pong; argument: a CleanRL checkout.

Its defaults are this workload's settings, but for annealing and the clipped value loss.
"""

from __future__ import annotations

import arguments
import cleanrl_script

args = arguments.parse(__doc__, 8_192, checkout=str)
flags = f"--env-id Pong-v5 --total-timesteps {args.steps} --seed {args.seed} --no-anneal-lr --no-clip-vloss"
cleanrl_script.run(
    args.checkout,
    "ppo_atari_envpool.py",
    flags,
    "ppo_pong",
    warmup=2_048,
    lines=cleanrl_script.Lines(first=1_024, steps=1_024, updates=16),
    envs=8,
)
