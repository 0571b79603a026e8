"""Games for two as environments of one: the learner plays one side, an opponent answers within the step.

`opponent`, an option of every game, says who: `random`, `uct_100` or `perfect` (`rl.envs.graph.opponents`),
or in training `league`, past selves (`rl.agents.league`).
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.agents import row_space
from rl.envs.graph.base import GraphEnv, GraphState, merge_resets
from rl.envs.graph.multi_agent import TurnGame, seen_by
from rl.errors import UsageError
from rl.ops import random
from rl.types import Nest, Tensor


class Opponents(Protocol):
    """Who plays the other side."""

    def start(self, count: int, seed: Tensor) -> Nest:
        """Returns who plays in `count` episodes that begin, and what they remember: [count, ...]."""

    def act(self, physics: Nest, observation: Nest, who: Nest, seed: Tensor) -> tuple[Tensor, Nest]:
        """Returns actions [B] for what the other side observes [B, ...], and `who` afterwards. Those that are
        not on turn are asked as well."""


class Match(NamedTuple):
    """B games under way."""

    physics: Nest  # [B, ...] of the game
    who: Nest  # [B, ...] as `Opponents.start` gave it


class Versus(GraphEnv):
    """A game against an opponent: a step is a move of the learner's and the answer to it.

    In environments of an even number the learner has the first move, in the others the second: their first
    step is to pass, while the opponent opens. Observations are one agent's in the view of rows, so that what
    was learned here plays there too.

    Args:
        game: the game; its `max_episode_steps` counts the learner's moves.
        opponents: who plays the other side; None: to be set before the first reset.
        opening: each game begins after 0 to so many random moves; one that these would end, before that.
        sees_state: whether observations have the game's global state.
    """

    def __init__(
        self, game: TurnGame, opponents: Opponents | None, opening: int = 0, sees_state: bool = False
    ):
        super().__init__(game.num_envs, game.max_episode_steps)
        self.game, self.opponents, self._opening, self._sees_state = game, opponents, opening, sees_state
        self.observation_space, self.action_space = row_space(game, sees_state), game.action_space
        self.side = tf.range(game.num_envs) % 2  # [B] the learner's
        if len(game.agent_names) != 2 or not isinstance(self.action_space, spaces.Discrete):
            raise UsageError(f"{type(game).__name__}: opponent is for games of two with discrete moves")

    def initial(self, seed: Tensor) -> Match:
        """Returns B games that begin, after their random opening moves, and who plays the other side in
        each."""
        assert self.opponents is not None
        who = self.opponents.start(self.num_envs, random.fold_in(seed, 1))
        physics = self.game.initial(seed)
        if self._opening:
            physics = self._opened(physics, random.fold_in(seed, 5))
        return Match(physics, who)

    def dynamics(self, physics: Match, action: Tensor, seed: Tensor) -> tuple[Match, Tensor, Tensor]:
        """Makes the learner's move, where it is on turn, and then the opponent's."""
        assert self.opponents is not None
        nobody, other = tf.zeros([self.num_envs], tf.bool), 1 - self.side
        game, reward, over = self._ply(physics.physics, nobody, action, self.side, random.fold_in(seed, 2))
        answer, who = self.opponents.act(game, self.seen(game, other), physics.who, random.fold_in(seed, 3))
        game, more, over = self._ply(game, over, answer, other, random.fold_in(seed, 4))
        return Match(game, who), reward + more, over

    def observe(self, physics: Match) -> Nest:
        """Returns what the learner's side observes, [B, ...]."""
        return self.seen(physics.physics, self.side)

    def seen(self, physics: Nest, side: Tensor) -> dict[str, Tensor]:
        """Returns what the players of these sides [B] observe."""
        return seen_by(self.game, physics, side, self._sees_state)

    def draw(self, state: GraphState) -> np.ndarray:
        """Returns a picture of the first game, uint8 [H, W, 3]. Eager."""
        return self.game.draw(state.physics.physics)

    def _opened(self, physics: Nest, seed: Tensor) -> Nest:
        """The games after random moves, of a number that is drawn for each."""
        length = random.randint(seed, [self.num_envs], self._opening + 1)

        def body(i: Tensor, physics: Nest, going: Tensor) -> tuple[Tensor, Nest, Tensor]:
            legal = self.game.legal_moves(physics)
            liked = tf.cast(legal, tf.float32) * (1.0 + random.uniform(random.fold_in(seed, i), legal.shape))
            moved, _, over = self.game.play(physics, tf.argmax(liked, -1, tf.int32))
            going &= (i < length) & ~over
            return i + 1, merge_resets(going, moved, physics), going

        start = tf.constant(0), physics, tf.ones([self.num_envs], tf.bool)
        return tf.while_loop(lambda i, *_: i < self._opening, body, start, maximum_iterations=self._opening)[
            1
        ]

    def _ply(
        self, physics: Nest, over: Tensor, action: Tensor, player: Tensor, seed: Tensor
    ) -> tuple[Nest, Tensor, Tensor]:
        """The move of `player` [B] where it is on turn and the game not over; with the learner's reward."""
        moves = (self.game.turn(physics) == player) & ~over
        moved, reward, gone = self.game.dynamics(physics, tf.stack([action, action], 1), seed)
        own = tf.where(moves, tf.gather(reward, self.side, batch_dims=1), 0.0)
        return merge_resets(moves, moved, physics), own, over | (moves & tf.reduce_all(gone, 1))
