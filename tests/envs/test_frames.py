"""Stacks of pictures on the host: as Gymnasium stacks them, anew for each episode."""

from __future__ import annotations

from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl.envs.frames import FrameStackHost
from rl.envs.gym_host import GymHost
from rl.errors import UsageError

LENGTHS = (3, 5, 2)  # of the episodes, in turn


class Pictures(gymnasium.Env):
    """Every picture has a number of its own in channel 0 and its negative in channel 1."""

    observation_space = spaces.Box(0, 255, (2, 3, 2), np.uint8)
    action_space = spaces.Discrete(2)

    def __init__(self, first: int = 0) -> None:
        self.number, self.episode, self.t = first, -1, 0

    def reset(self, *, seed=None, options=None):
        self.episode, self.t = self.episode + 1, 0
        return self._picture(), {}

    def step(self, action):
        self.t += 1
        return self._picture(), 1.0, self.t == LENGTHS[self.episode % len(LENGTHS)], False, {}

    def _picture(self):
        self.number += 1
        return np.stack([np.full((2, 3), self.number), np.full((2, 3), 255 - self.number)], -1).astype(
            np.uint8
        )


class Lives:
    """A host environment that says of every second end that only a life was lost."""

    def __init__(self, env):
        self.env, self.ends, self.life_lost = env, 0, np.zeros(1, bool)

    def __getattr__(self, name):
        return getattr(self.env, name)

    def step(self, action):
        result = self.env.step(action)
        self.ends += int(result[2][0])
        self.life_lost = result[2] & (self.ends % 2 == 1)
        return result


def test_stacks_are_those_of_gymnasiums_wrapper():
    host = FrameStackHost(GymHost([Pictures(0), Pictures(100)]), 3)
    wrapped = [gymnasium.wrappers.FrameStackObservation(Pictures(first), 3) for first in (0, 100)]

    def joined(stack):  # Gymnasium's stacks have an axis of their own in front
        return np.concatenate(list(stack), -1)

    expected = [joined(env.reset()[0]) for env in wrapped]
    np.testing.assert_array_equal(host.reset(0), expected)
    ended, ends = False, 0
    for _ in range(20):
        observation, _, terminated, _ = host.step(np.zeros(2, int))
        expected = [joined(env.reset()[0] if ended else env.step(0)[0]) for env in wrapped]
        np.testing.assert_array_equal(observation, expected)
        ended = bool(terminated[0])
        ends += ended
    assert ends > 3 and host.observation_space.shape == (2, 3, 6) and host.frame_stack == 3


def test_the_oldest_picture_comes_first():
    host = FrameStackHost(GymHost([Pictures()]), 3)
    seen = [host.reset(0)] + [host.step(np.zeros(1, int))[0] for _ in range(4)]
    # The third step ends an episode of three, the fourth begins the next.
    assert [each[0, 0, 0, ::2].tolist() for each in seen] == [
        [1, 1, 1],
        [1, 1, 2],
        [1, 2, 3],
        [2, 3, 4],
        [5, 5, 5],
    ]
    assert seen[1][0, 0, 0].tolist() == [1, 254, 1, 254, 2, 253]


def test_arrays_that_were_returned_stay_as_they_were():
    host = FrameStackHost(GymHost([Pictures()]), 2)
    first = host.reset(0)
    before = first.copy()
    host.step(np.zeros(1, int))
    np.testing.assert_array_equal(first, before)


def test_the_loss_of_a_life_starts_a_stack_anew():
    host = FrameStackHost(Lives(GymHost([Pictures()])), 2)
    host.reset(0)
    lost = []
    for _ in range(6):
        stack = host.step(np.zeros(1, int))[0][0, 0, 0, ::2].tolist()
        if lost and lost[-1]:
            assert stack[0] == stack[1]
        lost.append(bool(host.life_lost[0]))
    assert sum(lost) == 1


def test_what_is_no_picture_is_refused():
    with pytest.raises(UsageError, match=r"frame_stack=4 is for pictures .*FrameStackObservation"):
        FrameStackHost(GymHost([gymnasium.make("CartPole-v1")]), 4)


def test_pictures_whose_channels_come_first_are_refused():
    env = SimpleNamespace(observation_space=spaces.Box(0, 255, (3, 64, 64), np.uint8))
    with pytest.raises(UsageError, match=r"these are \[3, 64, 64\]: turn them round by a wrapper"):
        FrameStackHost(env, 4)
