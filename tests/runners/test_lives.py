"""Games with several lives: learning takes a lost life for an end, the episode's return goes on."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few

from rl.agents.algos.registry import get_algo
from rl.envs.host import HostEnv
from rl.hparams.merge import resolve
from rl.memory.rollout import Rollout
from rl.parallel.devices import Devices
from rl.runners.iteration import Iteration
from rl.runners.sync import SyncRunner

# What each step returns; "L" loses a life, "G" ends the game, "r" is the step after either. Rewards in order.
STEPS = ".Lr.GrLrG"
REWARDS = [1, 2, 0, 4, 8, 0, 16, 0, 32]


class Scripted(HostEnv):
    """One environment that does what `STEPS` says, then begins again."""

    backend, num_envs, fps, step_limit, frame_stack = "gym", 1, 30.0, math.inf, 1
    agents, team_share = 1, 1.0
    observation_space, action_space = spaces.Box(-1.0, 1.0, (2,), np.float32), spaces.Discrete(2)

    def __init__(self, lives):
        self.lives, self.t = lives, 0
        self.life_lost = np.zeros(1, bool) if lives else None

    def reset(self, seed):
        return np.zeros((1, 2), np.float32)

    def step(self, action):
        kind, reward = STEPS[self.t % len(STEPS)], REWARDS[self.t % len(REWARDS)]
        self.t += 1
        if self.lives:
            self.life_lost = np.array([kind == "L"])
        ended = np.array([kind in "LG"])
        return np.zeros((1, 2), np.float32), np.array([reward], np.float32), ended, np.zeros(1, bool)

    def close(self):
        pass


@pytest.mark.parametrize(
    ("lives", "returns", "lengths"),
    [
        # games: 1 + 2 + 4 + 8 in 4 steps, 16 + 32 in 2; the steps after a lost life are none
        (True, [15, 48], [4, 2]),
        # without lives four ends: 3 in 2 steps, 12 in 2, 16 in 1, 32 in 1
        (False, [3, 12, 16, 32], [2, 2, 1, 1]),
    ],
)
@pytest.mark.parametrize(
    "length", few([9, 3, 1], [3, 1])
)  # a rollout of all steps, and borders at every place
def test_returns_and_lengths_are_those_of_whole_games(lives, returns, lengths, length):
    settings = {"num_envs": 1, "rollout_length": length, "minibatches": 1, "epochs": 1}
    hparams = resolve("ppo", {"env": "Scripted-v0", "act_backend": "compiled", **settings})
    tf.config.run_functions_eagerly(True)  # a few iterations: compiling takes longer
    env = Scripted(lives)
    agent = get_algo("ppo")(hparams, env.observation_space, env.action_space, 0)
    runner = SyncRunner(env, Iteration(agent, Rollout(None, hparams)), False, Devices())
    sums = runner.run(len(STEPS) // length)
    assert (sums["episodes"], sums["episode_return"]) == (len(returns), sum(returns))
    assert sums["episode_length"] == sum(lengths) and sums["transitions"] == 6
    runner.close()
