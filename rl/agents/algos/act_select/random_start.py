"""Uniformly random actions for the first steps of training, whatever the policy says."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.act_select.epsilon_greedy import uniform_action
from rl.ops import random
from rl.types import PolicyOutput, Tensor


def random_start(
    action: Tensor, action_space: Any, action_mask: Tensor | None, seed: Tensor, step: Tensor, steps: int
) -> Tensor:
    """Returns a uniformly random action of a bounded Box or Discrete space while `step < steps`, else
    `action`.

    action [N, ...]; action_mask: bool [N, A], which discrete actions are legal, None: all. A MultiDiscrete
    action has one entry per agent, each with A values: [N, agents], the mask [N, agents * A].
    """
    if isinstance(action_space, spaces.Discrete | spaces.MultiDiscrete):
        one = isinstance(action_space, spaces.Discrete)
        count = int(action_space.n) if one else int(action_space.nvec[0])
        values = tf.zeros([*action.shape, count])
        anything, _ = uniform_action(PolicyOutput(q_values=values, action_mask=action_mask), seed)
    else:
        low, high = (np.asarray(bound, np.float32) for bound in (action_space.low, action_space.high))
        anything = low + random.uniform(seed, action.shape) * (high - low)
    return tf.where(tf.cast(step, tf.float32) < float(steps), anything, action)
