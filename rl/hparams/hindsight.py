"""Named sets that learn in hindsight (`rl/memory/hindsight.py`) to reach goals that chance hardly meets.

Without it: `--hparam_override memory=uniform`.
"""

from __future__ import annotations

from rl.hparams.dqn import DENSE, DQNHParams
from rl.hparams.registry import register


@register
def dqn_bitflip_her() -> DQNHParams:
    """Double DQN with goals in hindsight on BitFlip-v0: 15 bits, of which random flips find no goal."""
    return DQNHParams.of(
        DENSE,
        env="BitFlip-v0",
        memory="hindsight",
        double=True,
        train_steps=40_000,
        eval_period=10_000,
        log_period=5_000,
        gamma=0.98,
        num_envs=8,
        rollout_length=16,
        updates_per_iteration=64,
        lr=1e-3,
        replay_capacity=40_000,
        min_replay_size=1_000,
        batch_size=128,
        target_update_period=1,
        tau=0.05,
        exploration_steps=10_000,
        exploration_epsilon_end=0.1,
        model=dict(hidden=(256,)),
    )
