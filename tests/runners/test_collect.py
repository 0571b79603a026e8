"""Blocks of several rollouts as one."""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rl.runners.collect import Block, Collector, Window


class Env:
    """The spaces of two environments."""

    num_envs = 2
    observation_space = spaces.Box(-1.0, 100.0, (1,), np.float32)
    action_space = spaces.Discrete(3)


def test_a_window_joins_rollouts_in_time_with_the_state_of_the_first():
    block, window = Block(Env, 2, ("value",)), Window(2)
    for rollout in range(3):
        for t in range(2):
            now = 2 * rollout + t
            block.write(t, np.full((2, 1), now), np.full(2, now % 3), np.zeros(2, bool), [np.full(2, -now)])
            block.write_result(t, np.full(2, 10 * now), np.zeros(2, bool), np.zeros(2, bool))
        block.write_observation(2, np.full((2, 1), 2 * rollout + 2))
        block.write_state([np.full((2, 4), rollout)])
        assert window.add(block) == (rollout > 0)
    observation, action, state, numbers = window.arrays()
    np.testing.assert_array_equal(observation[:, 0, 0], [2, 3, 4, 5, 6])
    np.testing.assert_array_equal(action[:, 1], [2, 0, 1, 2])
    np.testing.assert_array_equal(state, np.full((2, 4), 1))
    np.testing.assert_array_equal(numbers[0, :, 0], [20, 30, 40, 50])
    np.testing.assert_array_equal(numbers[-1, :, 1], [-2, -3, -4, -5])


class Team(Env):
    """One environment of two agents, who are always at the same place."""

    agents, life_lost = 2, None

    def reset(self, seed):
        return np.zeros((2, 1))

    def step(self, action):
        return np.zeros((2, 1)), np.zeros(2), np.zeros(2, bool), np.zeros(2, bool)


class Actor:
    """Notes which environment steps it is told of."""

    extras, network_state = (), ()

    def __init__(self):
        self.told = []

    def begin(self, iteration, length): ...

    def forget(self, ended=None): ...

    def __call__(self, observation, t, step):
        self.told.append(step)
        return np.zeros(2, int), []


def test_steps_are_those_of_environments_however_many_agents_are_in_them():
    actor = Actor()
    collector = Collector(Team(), actor, 4, fresh=False, seed=0)
    collector.reset(0)
    for rollout in range(2):
        collector.collect(collector.block(), rollout, 4 * rollout)
    assert actor.told == list(range(8))
