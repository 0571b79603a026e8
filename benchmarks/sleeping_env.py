"""CartPole whose step takes 5 ms more, asleep: a simulator that leaves the cores alone, as a robot's would.

    python train.py --user_modules benchmarks.sleeping_env --hparams impala_cartpole \
        --env SleepingCartPole-v1 --num_workers 4 --hparam_override num_envs=1

With more workers than cores it is the workers' way to the learner that such a run measures, not the cores.
Several environments of one process sleep one after another (Gymnasium's host steps them in a row), so a
worker of B such environments makes as many steps a second as a worker of one. Imports Gymnasium alone: other
libraries' drivers take it as well.
"""

from __future__ import annotations

import time
from typing import Any

import gymnasium
from gymnasium.envs.classic_control.cartpole import CartPoleEnv

ENV_ID = "SleepingCartPole-v1"
SLEEP_S = 0.005


class SleepingCartPole(CartPoleEnv):
    """CartPole's dynamics; every step first sleeps `SLEEP_S` seconds, resets do not."""

    def step(self, action: Any) -> tuple:
        time.sleep(SLEEP_S)
        return super().step(action)


def register_sleeping() -> None:
    """Registers the environment with CartPole-v1's limit of 500 steps; again is no harm."""
    if ENV_ID not in gymnasium.registry:
        gymnasium.register(ENV_ID, SleepingCartPole, max_episode_steps=500, reward_threshold=475.0)


register_sleeping()
