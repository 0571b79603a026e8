"""The smallest environment with goals and continuous actions, for Gymnasium alone."""

from __future__ import annotations

import gymnasium
import numpy as np
from gymnasium import spaces

ENV_ID = "Reach-v0"  # the name under which tests register it
STEP, NEAR = 0.3, 0.1


class Reach(gymnasium.Env):
    """Go to a place of a square, by 0.3 a step along each side: reward -1, but 0 within 0.1 of it.

    The square is [-1, 1] x [-1, 1], so that chance is within it in one of 130 steps.

    Its goals are as in `GoalEnv` of Gymnasium-Robotics. `pays`: "sparse"; "dense", minus the distance; "one",
    1 at the goal and 0 elsewhere; "effort", sparse, minus what is not told to `compute_reward`. `ends`:
    whether the goal is an end; `without`: a part of the observations that is left out.
    """

    def __init__(self, render_mode=None, pays="sparse", ends=False, without=""):
        self.render_mode, self.pays, self.ends, self.without = render_mode, pays, ends, without
        place = spaces.Box(-np.inf, np.inf, (2,), np.float64)
        parts = {"observation": place, "achieved_goal": place, "desired_goal": place}
        self.observation_space = spaces.Dict({key: x for key, x in parts.items() if key != without})
        self.action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place, self.goal = self.np_random.uniform(-1.0, 1.0, (2, 2))
        return self._shown(), {}

    def step(self, action):
        self.place = np.clip(self.place + STEP * action, -1.0, 1.0)
        told = self.place, self.goal, {}
        reward = self.compute_reward(*told) - (0.1 if self.pays == "effort" else 0.0)
        return self._shown(), reward, self.compute_terminated(*told), False, {}

    def compute_reward(self, achieved_goal, desired_goal, info):
        distance = float(np.linalg.norm(achieved_goal - desired_goal))
        return {"dense": -distance, "one": float(distance < NEAR)}.get(self.pays, -float(distance >= NEAR))

    def compute_terminated(self, achieved_goal, desired_goal, info):
        return self.ends and bool(np.linalg.norm(achieved_goal - desired_goal) < NEAR)

    def _shown(self):
        parts = {"observation": self.place, "achieved_goal": self.place, "desired_goal": self.goal}
        return {key: x.copy() for key, x in parts.items() if key != self.without}
