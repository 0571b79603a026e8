"""In-graph environments as models of themselves: what a search asks about positions that are not played.

A position is what a search keeps of a state; `rl.ops.search.Model` says what is asked of these.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv
from rl.envs.graph.multi_agent import AgentRows, AgentsState, AgentsView, TurnGame, seen_by
from rl.envs.graph.wrappers import PreviousActionReward
from rl.errors import UsageError
from rl.ops.search import Model, Moved
from rl.types import Nest, Tensor


class Place(NamedTuple):
    """Where B environments of one agent are."""

    state: Nest  # [B, ...]
    observation: Nest  # [B, ...]
    score: Tensor  # [B] the episode's return so far


class OfOne:
    """An environment of one agent. Seeds are the search's own: of what is random it learns one outcome."""

    sign = 1.0

    def __init__(self, env: GraphEnv):
        self._env = env
        assert isinstance(env.action_space, spaces.Discrete)  # of its algorithms
        self.moves = int(env.action_space.n)

    def position(self, state: Nest, observation: Nest, score: Tensor) -> Place:
        """Returns the positions of B environments: their states, observations and returns so far, as
        given."""
        return Place(state, observation, score)

    def observe(self, position: Place) -> Nest:
        """Returns the observation at each position, [B, ...]."""
        return position.observation

    def score(self, position: Place) -> Tensor:
        """Returns the episodes' returns so far, [B]."""
        return position.score

    def step(self, position: Place, move: Tensor, seed: Tensor) -> Moved:
        """Returns the outcome of moves int32 [B], by a step of the environment. Positions after an episode's
        end are meaningless."""
        action = tf.cast(move, self._env.action_space.dtype)
        state, step = self._env.step(position.state, action, seed)
        after = Place(state, step.observation, position.score + step.reward)
        return Moved(after, step.reward, step.terminated, step.truncated)

    def rows(self, position: Place, weights: Tensor) -> Tensor:
        """Returns the move probabilities [B, A] as they are: an environment is one row."""
        return weights


class OfTwo:
    """A game by turns, both players of which are rows: a search is of who is on turn."""

    sign = -1.0

    def __init__(self, env: AgentRows):
        assert isinstance(env.env, TurnGame)  # or there would be no `OfTwo`
        self._game, self._sees_state = env.env, env.sees_state
        assert isinstance(env.action_space, spaces.Discrete)  # of its algorithms
        self._actions = int(env.action_space.n)
        self.moves = int(self._game.moves)

    def position(self, state: AgentsState, observation: Nest, score: Tensor) -> Nest:
        """Returns the games' physics [B, ...], which says all of a position."""
        return state.physics

    def observe(self, position: Nest) -> Nest:
        """Returns the observation of the player on turn, [B, ...]."""
        return seen_by(self._game, position, self._game.turn(position), self._sees_state)

    def score(self, position: Nest) -> Tensor:
        """Raises UsageError always: returns so far are ranked for one player alone."""
        raise UsageError("rank_percentile: ranks are for one player, leave it out of games for two")

    def step(self, position: Nest, move: Tensor, seed: Tensor) -> Moved:
        """Returns the outcome of moves int32 [B] by the game's rules; nothing is ever truncated. Positions
        after a game's end are meaningless."""
        after, paid, over = self._game.play(position, move)
        return Moved(after, paid, over, tf.zeros_like(over))

    def rows(self, position: Nest, weights: Tensor) -> Tensor:
        """Returns the action probabilities of both players' rows, [2 B, moves + 1], from the move
        probabilities [B, moves] of the player on turn: the other one passes, which is the last action."""
        moves = tf.pad(weights, [[0, 0], [0, self._actions - self.moves]])[:, None]  # [B, 1, A]
        on_turn = tf.one_hot(self._game.turn(position), 2, True, False)[..., None]  # [B, 2, 1]
        both = tf.where(on_turn, moves, tf.one_hot(self._actions - 1, self._actions))
        return tf.reshape(both, [-1, self._actions])


def model_of(env: GraphEnv) -> Model:
    """Returns an environment as a model of itself.

    Raises:
        UsageError: it is of several agents, and no game of two by turns; or what its agents did before is
            told, too, which a game's positions do not say.
    """
    if isinstance(env, PreviousActionReward) and env.agents > 1:
        model_of(env.env)
        raise UsageError("a search sees positions of a game alone: leave previous_action_reward out")
    if isinstance(env, AgentRows) and isinstance(env.env, TurnGame):
        return OfTwo(env)
    if isinstance(env, AgentsView):
        raise UsageError(f"{type(env.env).__name__}: a search is for one agent, or for games of two by turns")
    return OfOne(env)
