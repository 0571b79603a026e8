"""An environment that fails in the steps that it is told."""

from __future__ import annotations

import contextlib
import json
import os
import time

import gymnasium
import numpy as np
from gymnasium import spaces


class Faulty(gymnasium.Env):
    """Counts its steps, of an episode and of all environments; does what `wrong` says in those of `at`."""

    observation_space = spaces.Box(-1e6, 1e6, (2,), np.float32)
    action_space = spaces.Discrete(2)
    steps = 0  # of all environments of a process
    wrong, _, _at = os.environ.get("FAULTY", "").partition(":")  # such as raise:20
    at = {int(_at)} if _at else None

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.t = 0
        return np.array([0.0, self.np_random.uniform()], np.float32), {}

    def step(self, action):
        Faulty.steps += 1
        self.t += 1
        observation, reward = np.array([self.t, 0.5], np.float32), 1.0
        if Faulty.at is not None and Faulty.steps in Faulty.at:
            if Faulty.wrong == "raise":
                raise ValueError("the simulator is gone")
            if Faulty.wrong == "library":
                json.loads("")
            if Faulty.wrong == "exit":
                raise SystemExit(0)
            if Faulty.wrong == "hang":
                with contextlib.suppress(Exception):  # as careless code has it
                    time.sleep(60.0)
            if Faulty.wrong == "nan":
                observation[0] = np.nan
            if Faulty.wrong == "infinite":
                reward = np.inf
            if Faulty.wrong == "shape":
                observation = observation[:1]
        return observation, reward, self.t == 5, False, {}
