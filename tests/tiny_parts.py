"""The smallest environment whose observations have parts of all kinds, and may mask actions."""

from __future__ import annotations

import gymnasium
import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.ops import random

ENV_ID = "Parts-v0"  # the name under which tests register both
NUMBERS = 4  # the numbers from 0 that `Parts` shows
LEGAL = NUMBERS + 1  # actions where some are illegal: the last one always is


def parts_spaces(form, actions):
    """(observation space, action space) of `Parts`."""
    number = spaces.Discrete(NUMBERS)
    rest = {"digits": spaces.MultiDiscrete([2, 2]), "signs": spaces.MultiBinary(2)}
    row = spaces.Box(0.0, 1.0, (NUMBERS,), np.float32)
    if form == "tuple":
        observation_space = spaces.Tuple([row, spaces.Dict({"number": number, **rest})])
    else:
        observation_space = spaces.Dict({"row": row, "rest": spaces.Tuple([number, *rest.values()])})
    if actions == "masked":
        mask = spaces.MultiBinary(LEGAL)
        observation_space = spaces.Dict({**observation_space.spaces, "action_mask": mask})
    box = spaces.Box(-1.0, 1.0, (1,), np.float32)
    return observation_space, {"box": box, "masked": spaces.Discrete(LEGAL), **rest}.get(actions, number)


def parts(form, row, number, digits, signs):
    """The observation, of arrays or tensors."""
    if form == "tuple":
        return row, {"number": number, "digits": digits, "signs": signs}
    return {"row": row, "rest": (number, digits, signs)}


class Parts(GraphEnv):
    """Name the number that is shown in four ways at once, 20 steps.

    `form`: "dict" or "tuple", of the observation. `actions`: "discrete"; "masked", where the right action and
    one wrong one are legal, no other; "box", where -1 .. 1 stand for the numbers; "digits" (MultiDiscrete)
    and "signs" (MultiBinary), of the number in the binary system.
    """

    max_episode_steps = 20

    def __init__(self, num_envs, max_episode_steps=None, form="dict", actions="discrete"):
        super().__init__(num_envs, max_episode_steps)
        self.form, self.actions = form, actions
        self.observation_space, self.action_space = parts_spaces(form, actions)

    def initial(self, seed):
        return random.randint(seed, [self.num_envs, 2], NUMBERS)  # the number; which wrong action is legal

    def dynamics(self, physics, action, seed):
        number = physics[:, 0]
        if self.actions == "box":
            reward = 1.0 - tf.square(action[:, 0] - place(tf.cast(number, tf.float32)))
        elif self.actions in ("digits", "signs"):
            right = tf.equal(tf.cast(action, tf.int32), tf.stack([number // 2, number % 2], 1))
            reward = tf.reduce_mean(tf.cast(right, tf.float32), -1)
        else:
            reward = tf.cast(tf.equal(tf.cast(action, tf.int32), number), tf.float32)
        return self.initial(seed), reward, tf.zeros([self.num_envs], tf.bool)

    def observe(self, physics):
        number = physics[:, 0]
        digits = tf.stack([number // 2, number % 2], 1)
        shown = parts(self.form, tf.one_hot(number, NUMBERS), number, digits, digits)
        if self.actions == "masked":
            mask = tf.one_hot(number, LEGAL) + tf.one_hot(wrong(number, physics[:, 1]), LEGAL)
            shown["action_mask"] = tf.cast(mask, tf.int32)
        return shown


class PartsGym(gymnasium.Env):
    """The same for Gymnasium, where an illegal action is an error."""

    def __init__(self, form="dict", actions="discrete", render_mode=None):
        self.form, self.actions, self.render_mode = form, actions, render_mode
        self.observation_space, self.action_space = parts_spaces(form, actions)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.number, draw = (int(each) for each in self.np_random.integers(NUMBERS, size=2))
        digits = np.array([self.number // 2, self.number % 2])
        row = np.eye(NUMBERS, dtype=np.float32)[self.number]
        shown = parts(self.form, row, self.number, digits, digits.astype(np.int8))
        if self.actions == "masked":
            self.mask = np.zeros(LEGAL, np.int8)
            self.mask[[self.number, wrong(self.number, draw)]] = 1
            shown["action_mask"] = self.mask.copy()
        return shown, {}

    def step(self, action):
        if self.actions == "box":
            reward = 1.0 - float((action[0] - place(self.number)) ** 2)
        elif self.actions in ("digits", "signs"):
            reward = float(np.mean(action == [self.number // 2, self.number % 2]))
        else:
            assert self.actions != "masked" or self.mask[action], f"action {action} is illegal: {self.mask}"
            reward = float(action == self.number)
        return self.reset()[0], reward, False, False, {}


def place(number):
    """Where a number lies in -1 .. 1."""
    return number / 1.5 - 1.0


def wrong(number, draw):
    """Another number than this one, of 0 .. 3."""
    return (number + 1 + draw % (NUMBERS - 1)) % NUMBERS
