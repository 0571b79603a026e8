"""What a policy thinks of observations: scores of its actions, and the value of the state."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.value import ValueAgent
from rl.ops import random
from rl.ops.distributions import Categorical
from rl.spaces import space_spec
from rl.types import Nest, PolicyOutput, Tensor


class Judgement(NamedTuple):
    """Of N observations; None for what the algorithm does not say."""

    scores: np.ndarray | None  # [N, A] of discrete actions, illegal ones -inf
    value: np.ndarray | None  # [N] of the state


class Judge:
    """Judges observations by the network of an agent, without a step of the policy."""

    def __init__(self, agent: Agent[Any]):
        self._agent = agent
        self._function = tf.function(self._says, autograph=False)

    def __call__(self, observation: Nest, state: Nest) -> Judgement:
        """Returns what the network says of arrays [N, ...], with its recurrent state before them."""
        specs = space_spec(self._agent.observation_space, tf.nest.flatten(observation)[0].shape[:1])
        tensors = tf.nest.map_structure(lambda x, spec: tf.cast(x, spec.dtype), observation, specs)
        return Judgement(*(None if each is None else each.numpy() for each in self._function(tensors, state)))

    def _says(self, observation: Nest, state: Nest) -> tuple[Tensor | None, Tensor | None]:
        agent = self._agent
        output = agent.policy(observation, state, random.key(0), False)
        scores, value = action_scores(agent, output), output.value
        legal = agent.encoder.action_mask(observation)
        if scores is not None and legal is not None:
            scores = tf.where(legal, scores, -np.inf)
        if isinstance(agent, ValueAgent) and scores is not None:
            value = tf.reduce_max(scores, -1)
        return scores, value


def action_scores(agent: Agent[Any], output: PolicyOutput) -> Tensor | None:
    """Returns how good each discrete action is, [N, A]: its value, or the logarithm of its probability; None
    of others."""
    if not isinstance(agent.action_space, spaces.Discrete):
        return None
    if output.q_values is not None:
        return output.q_values
    return output.distribution.log_probs if isinstance(output.distribution, Categorical) else None
