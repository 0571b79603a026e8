"""MinAtar's Breakout in tensors; source and conventions in `rl/envs/graph/minatar.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.envs.graph.minatar import SIZE, MinAtarGame, at, move, on
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "MinAtar/Breakout-v1"

BOTTOM = SIZE - 1  # the paddle's row
WALL = np.zeros((SIZE, SIZE), bool)
WALL[1:4] = True


class BreakoutBoard(NamedTuple):
    """Where everything is; the ball moves one row and one column a frame."""

    paddle: Tensor  # [B] int32 column
    row: Tensor  # [B] int32, of the ball
    column: Tensor  # [B] int32
    row_step: Tensor  # [B] int32, 1 is down
    column_step: Tensor  # [B] int32
    trail_row: Tensor  # [B] int32, of the ball a frame ago
    trail_column: Tensor  # [B] int32
    bricks: Tensor  # [B, 10, 10] bool
    inside: (
        Tensor  # [B] bool: the ball hit bricks in the last frame, and breaks none until it is clear of them
    )


@register
class Breakout(MinAtarGame):
    """MinAtar Breakout: break 3 rows of bricks, 1 each; missing the ball ends the episode.

    Actions: nothing, left, right. Channels: paddle, ball, trail (the ball a frame ago), bricks.
    A ball that comes down on the paddle's column, or would leave it there, bounces: straight back in the
    second case. New bricks come when the ball reaches the bottom with all of them broken. The only chance is
    from which side the ball starts.
    """

    actions = ("nothing", "left", "right")
    channels = ("paddle", "ball", "trail", "bricks")

    def draw_start(self, seed: Tensor) -> Tensor:
        """Returns bool [B]: the ball starts on the right, and goes left."""
        return tf.equal(random.randint(seed, [self.num_envs], 2), 1)

    def start(self, chance: Tensor) -> BreakoutBoard:
        """Returns the ball at one of the sides below the bricks, going down and inwards."""
        row, column = self.constant(3), tf.where(chance, BOTTOM, 0)
        bricks = tf.tile(WALL[None], [self.num_envs, 1, 1])
        return BreakoutBoard(
            paddle=self.constant(4),
            row=row,
            column=column,
            row_step=self.constant(1),
            column_step=tf.where(chance, -1, 1),
            trail_row=row,
            trail_column=column,
            bricks=bricks,
            inside=self.constant(False),
        )

    def play(
        self, game: BreakoutBoard, action: Tensor, events: tuple[()]
    ) -> tuple[BreakoutBoard, Tensor, Tensor]:
        """Moves the paddle first, then the ball: side walls, then ceiling, brick or bottom."""
        paddle = move(game.paddle, tf.equal(action, 2), tf.equal(action, 1))
        column = game.column + game.column_step
        at_side = (column < 0) | (column >= SIZE)
        column = tf.clip_by_value(column, 0, SIZE - 1)
        row = game.row + game.row_step
        at_ceiling = row < 0
        cell = at(row, column)  # empty above the ceiling
        in_brick = tf.reduce_any(game.bricks & cell, [1, 2])
        breaks = in_brick & ~game.inside
        at_bottom = tf.equal(row, BOTTOM)
        rebuilt = at_bottom & ~tf.reduce_any(game.bricks, [1, 2])
        # Against the ball's column before this frame and, failing that, after it.
        reflected = at_bottom & tf.equal(paddle, game.column)
        returned = at_bottom & ~reflected & tf.equal(paddle, column)
        stays = breaks | reflected | returned  # in its row; at the ceiling that is the row it came from too
        turned = stays | at_ceiling
        board = BreakoutBoard(
            paddle=paddle,
            row=tf.where(turned, game.row, row),
            column=column,
            row_step=tf.where(turned, -game.row_step, game.row_step),
            column_step=tf.where(at_side ^ returned, -game.column_step, game.column_step),
            trail_row=game.row,
            trail_column=game.column,
            bricks=(game.bricks & ~on(breaks, cell)) | on(rebuilt, tf.constant(WALL)),
            inside=in_brick,
        )
        return board, tf.cast(breaks, tf.float32), at_bottom & ~reflected & ~returned

    def picture(self, game: BreakoutBoard) -> tuple[Tensor, ...]:
        """Returns boards, bool [B, 10, 10], in the order of `channels`."""
        paddle = at(self.constant(BOTTOM), game.paddle)
        trail = at(game.trail_row, game.trail_column)
        return paddle, at(game.row, game.column), trail, game.bricks
