"""The in-graph form of the wrappers in `rl/envs/wrappers.py`, which says what they mean."""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv, GraphState
from rl.envs.wrappers import PREVIOUS_ACTION, PREVIOUS_REWARD, joined, with_previous
from rl.spaces import space_spec
from rl.types import Nest, Tensor, TimeStep


class PreviousActionReward(GraphEnv):
    """A `GraphEnv` whose observations tell the action and the reward before them; none at an episode's start.

    The reward is the environment's own, before any augmentation. The state is that of `env`: what is told is
    known when a step is made.
    """

    def __init__(self, env: GraphEnv) -> None:
        super().__init__(env.num_envs, env.max_episode_steps)
        self.env, self.agents, self.team_share = env, env.agents, env.team_share
        self.action_space = env.action_space
        self.observation_space = with_previous(env.observation_space, env.action_space)

    def reset(self, seed: Tensor) -> tuple[GraphState, TimeStep]:
        """Starts an episode in all B environments; the observation tells no action before it (zeros), and
        reward 0."""
        state, first = self.env.reset(seed)
        specs = space_spec(self.observation_space[PREVIOUS_ACTION], (self.num_envs,))
        action = tf.nest.map_structure(lambda spec: tf.zeros(spec.shape, spec.dtype), specs)
        return state, self._told(first, action)

    def step(self, state: GraphState, action: Nest, seed: Tensor) -> tuple[GraphState, TimeStep]:
        """Moves all B environments by one step, as `GraphEnv.step` says; the observation tells `action` and
        the reward, and no action (zeros) where the step was a reset."""
        resets = state.episode_end  # [B], or of environments, each of which has `agents` of the rows [B]
        if self.agents > 1:
            resets = tf.repeat(resets, self.agents)
        state, following = self.env.step(state, action, seed)
        return state, self._told(following, _previous_action(self.action_space, action, resets))

    def regret(self, observation: Nest, action: Nest, reward: Tensor) -> Nest:
        """Returns the regret of `env`, float32 [T, B], from its own part of the observation; () where nobody
        knows."""
        own = self.env.observation_space
        nested = isinstance(own, spaces.Dict)
        inner = {key: observation[key] for key in own.spaces} if nested else observation["observation"]
        return self.env.regret(inner, action, reward)

    def _told(self, time_step: TimeStep, action: Nest) -> TimeStep:
        parts = {PREVIOUS_ACTION: action, PREVIOUS_REWARD: time_step.reward[:, None]}
        return time_step._replace(observation=joined(time_step.observation, parts))


def _previous_action(space: spaces.Space, action: Nest, none: Tensor) -> Nest:
    """Returns actions `[B, ...]` as elements of `previous_action_space(space)`; nothing where `none` [B]."""
    if isinstance(space, spaces.Dict):
        return {key: _previous_action(each, action[key], none) for key, each in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        pairs = zip(space.spaces, action, strict=True)
        return tuple(_previous_action(each, part, none) for each, part in pairs)
    if isinstance(space, (spaces.Discrete, spaces.MultiDiscrete)):
        action = action + 1
    elif isinstance(space, spaces.Box):
        action = tf.clip_by_value(action, space.low, space.high)  # as the environment took it
    none = tf.reshape(none, [-1] + [1] * (action.shape.rank - 1))
    return tf.cast(tf.where(none, tf.zeros_like(action), action), space_spec(space).dtype)
