"""What the five MinAtar games share: 10 x 10 boards, sticky actions, chance apart from rules, drawing.

Source: Young and Tian, "MinAtar: An Atari-Inspired Testbed for Thorough and Reproducible Reinforcement
Learning Experiments", 2019, https://arxiv.org/abs/1903.03176. The rules, down to the order of events within a
frame, are those of the authors' package `minatar` 1.0.15 (ids "MinAtar/...-v1": minimal action sets);
`tests/envs/test_minatar.py` holds every frame against it. The code is this project's own.

Rows count from the top, columns from the left, both from 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.envs.graph.base import GraphEnv, GraphState
from rl.errors import UsageError
from rl.ops import random
from rl.types import Nest, Tensor, TimeStep

SIZE = 10  # rows and columns of every board
LANES = 8  # rows 1 to 8, in which cars, enemies and divers travel
OFF = -SIZE  # a column that is off the board, and stays so a step away
INDEX = np.arange(SIZE, dtype=np.int32)  # a constant, not tf.range: shapes stay static


class MinAtarPhysics(NamedTuple):
    """The state of B games."""

    last_action: Tensor  # [B] int32, what was done in the frame before, sticky or not
    game: Nest  # [B, ...] the board


class MinAtarChance(NamedTuple):
    """All that is random in one frame, drawn whether the frame needs it or not."""

    repeats: Tensor  # [B] bool: the action sticks, the last one is repeated
    events: Nest  # [B, ...] the game's own outcomes


class MinAtarGame(GraphEnv):
    """B copies of one game. Actions are indices into `actions`, observations bool [B, 10, 10, channels].

    A game says its `actions` and `channels` and writes `start`, `play` and `picture`, which are
    deterministic, and `events` and `draw_start`, which turn random numbers into what those are given.

    Args:
        num_envs: B.
        max_episode_steps: steps after which an episode is truncated; by default there is no limit.
        sticky_action_prob: probability that the last action is repeated instead of the given one. As in the
            original the last action outlives a reset; before the very first frame it is "nothing".
        difficulty_ramping: whether the game becomes faster; Breakout and Freeway never do.
    """

    actions: tuple[str, ...]
    channels: tuple[str, ...]
    num_draws = 0  # uniform numbers that `events` needs in a frame
    merges = False  # whether channels are merged, not stacked: faster where much computing is behind a board

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        sticky_action_prob: float = 0.1,
        difficulty_ramping: bool = True,
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        if not 0.0 <= sticky_action_prob <= 1.0:
            raise UsageError(f"sticky_action_prob must be in [0, 1], not {sticky_action_prob}")
        self.sticky_action_prob = sticky_action_prob
        self.difficulty_ramping = difficulty_ramping
        self.observation_space = spaces.Box(0.0, 1.0, (SIZE, SIZE, len(self.channels)), bool)
        self.action_space = spaces.Discrete(len(self.actions))

    def draw_start(self, seed: Tensor) -> Nest:
        """Returns what is random in the start of an episode, [B, ...]; most games always start alike."""
        return ()

    def events(self, uniforms: Tensor) -> Nest:
        """Returns what is random in one frame, [B, ...], from uniform numbers [num_draws, B] in [0, 1)."""
        return ()

    def start(self, chance: Nest) -> Nest:
        """Returns the game at the start of an episode, given what `draw_start` drew."""
        raise NotImplementedError

    def play(self, game: Nest, action: Tensor, events: Nest) -> tuple[Nest, Tensor, Tensor]:
        """Returns the game one frame later, the reward [B] float32, and terminated [B] bool."""
        raise NotImplementedError

    def picture(self, game: Nest) -> tuple[Tensor, ...]:
        """Returns one board [B, 10, 10] bool for each channel."""
        raise NotImplementedError

    def draw(self, seed: Tensor) -> MinAtarChance:
        """Draws all that is random in one frame: one call, since each costs as much as many numbers."""
        uniforms = random.uniform(seed, [1 + self.num_draws, self.num_envs])
        return MinAtarChance(uniforms[0] < self.sticky_action_prob, self.events(uniforms[1:]))

    def advance(
        self, physics: MinAtarPhysics, action: Tensor, chance: MinAtarChance
    ) -> tuple[MinAtarPhysics, Tensor, Tensor]:
        """Moves the game by one frame, whose chance is given."""
        action = tf.where(chance.repeats, physics.last_action, tf.cast(action, tf.int32))
        game, reward, terminated = self.play(physics.game, action, chance.events)
        return MinAtarPhysics(action, game), reward, terminated

    def initial(self, seed: Tensor) -> MinAtarPhysics:
        """Returns the start of an episode."""
        return MinAtarPhysics(tf.zeros([self.num_envs], tf.int32), self.start(self.draw_start(seed)))

    def dynamics(
        self, physics: MinAtarPhysics, action: Tensor, seed: Tensor
    ) -> tuple[MinAtarPhysics, Tensor, Tensor]:
        """Draws what is random and moves the game by one frame."""
        return self.advance(physics, action, self.draw(seed))

    def step(self, state: GraphState, action: Tensor, seed: Tensor) -> tuple[GraphState, TimeStep]:
        """Does what `GraphEnv.step` does; a reset leaves the last action, which may stick to the first
        frame after it."""
        next_state, time_step = super().step(state, action, seed)
        last = tf.where(state.episode_end, state.physics.last_action, next_state.physics.last_action)
        return next_state._replace(physics=next_state.physics._replace(last_action=last)), time_step

    def observe(self, physics: MinAtarPhysics) -> Tensor:
        """Returns bool [B, 10, 10, channels]."""
        boards = self.picture(physics.game)
        return _merge(boards) if self.merges else tf.stack(boards, axis=-1)

    def constant(self, value: int | bool) -> Tensor:
        """Returns `value` for each of the B games, int32 or bool [B]."""
        return tf.fill([self.num_envs], value)


def one_hot(index: Tensor) -> Tensor:
    """Returns bool [..., 10]; all False where the index is off the board."""
    return tf.equal(index[..., None], INDEX)


def at(row: Tensor, column: Tensor) -> Tensor:
    """Returns boards with one object each, bool [..., 10, 10], from its row and column, int32 [...]; empty
    where it is off the board."""
    return one_hot(row)[..., :, None] & one_hot(column)[..., None, :]


def on(present: Tensor, boards: Tensor) -> Tensor:
    """Returns the boards [..., 10, 10] where `present` [...], empty ones elsewhere."""
    return present[..., None, None] & boards


def in_lanes(place: Tensor, present: Tensor) -> Tensor:
    """Returns boards, bool [B, 10, 10], with one object in each lane: its column int32 [B, 8], and whether it
    is there, bool [B, 8].

    What is padded is the columns, since padded boards cost XLA much more.
    """
    place = tf.where(present, place, OFF)
    return one_hot(tf.pad(place, [[0, 0], [1, 1]], constant_values=OFF))


def _merge(boards: tuple[Tensor, ...]) -> Tensor:
    """Stacks as `tf.stack(boards, axis=-1)` does, of bool, in one elementwise expression.

    XLA on a CPU computes what is behind the parts of a stack once more for each element, and cannot vectorise
    that: 5 times slower in Asterix. Boards that are simple are faster stacked.
    """
    channels = np.eye(len(boards), dtype=bool)
    merged = boards[0][..., None] & channels[0]
    for board, channel in zip(boards[1:], channels[1:], strict=True):
        merged |= board[..., None] & channel
    return merged


def move(position: Tensor, forward: Tensor, back: Tensor, low: int = 0, high: int = SIZE - 1) -> Tensor:
    """Returns `position`, int32 [B], a step forward or back where those say so (bool [B]), not beyond low
    .. high."""
    step = tf.cast(forward, tf.int32) - tf.cast(back, tf.int32)
    return tf.clip_by_value(position + step, low, high)


def heading(rightward: Tensor) -> Tensor:
    """Returns int32 columns per move: 1 to the right, -1 to the left."""
    return tf.where(rightward, 1, -1)


def which(uniform: Tensor, count: Tensor | int) -> Tensor:
    """Returns int32 in 0 .. count - 1 from a number in [0, 1)."""
    return tf.cast(uniform * tf.cast(count, tf.float32), tf.int32)
