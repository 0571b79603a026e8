"""MinAtar's Space Invaders in tensors; source and conventions in `rl/envs/graph/minatar.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.envs.graph.minatar import INDEX, SIZE, MinAtarGame, at, move, on
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "MinAtar/SpaceInvaders-v1"

BOTTOM = SIZE - 1  # the cannon's row
RELOAD = 5  # frames from one shot of the player to the next
SHOT_INTERVAL = 10  # frames between shots of the aliens
MOVE_INTERVAL = 12  # frames between moves of the aliens, at first and with many of them
FASTEST = 6  # what waves of more aliens than that come down to
WAVE = np.zeros((SIZE, SIZE), bool)
WAVE[0:4, 2:8] = True


class SpaceInvadersBoard(NamedTuple):
    """Aliens and both sides' bullets as boards."""

    cannon: Tensor  # [B] int32 column
    reload: Tensor  # [B] int32 frames until the player can shoot
    bullets: Tensor  # [B, 10, 10] bool, the player's
    bombs: Tensor  # [B, 10, 10] bool, the aliens'
    aliens: Tensor  # [B, 10, 10] bool
    rightward: Tensor  # [B] bool, where the aliens are going
    move_interval: Tensor  # [B] int32 frames
    until_move: Tensor  # [B] int32 frames
    until_shot: Tensor  # [B] int32 frames


@register
class SpaceInvaders(MinAtarGame):
    """MinAtar Space Invaders: shoot aliens, 1 each; an alien or a bomb on the player ends the episode.

    Actions: nothing, left, right, shoot (every fifth frame at most). Channels: cannon, alien, alien going
    left, alien going right, the player's bullets, the aliens' bombs. Aliens go sideways, and down by a row
    and back at the edge; in the bottom row that ends the episode. They are faster the fewer they are, and
    with each new wave. The nearest column's lowest alien shoots every tenth frame. Only sticky actions are
    random.
    """

    actions = ("nothing", "left", "right", "shoot")
    channels = ("cannon", "aliens", "going_left", "going_right", "bullets", "bombs")

    def start(self, chance: tuple[()]) -> SpaceInvadersBoard:
        """Returns a full wave, going left."""
        none = tf.zeros([self.num_envs, SIZE, SIZE], tf.bool)
        return SpaceInvadersBoard(
            cannon=self.constant(5),
            reload=self.constant(0),
            bullets=none,
            bombs=none,
            aliens=tf.tile(WAVE[None], [self.num_envs, 1, 1]),
            rightward=self.constant(False),
            move_interval=self.constant(MOVE_INTERVAL),
            until_move=self.constant(MOVE_INTERVAL),
            until_shot=self.constant(SHOT_INTERVAL),
        )

    def play(
        self, game: SpaceInvadersBoard, action: Tensor, events: tuple[()]
    ) -> tuple[SpaceInvadersBoard, Tensor, Tensor]:
        """Moves player, bullets, bombs and aliens, then come their shot, hits and a new wave, in this
        order."""
        shoots = tf.equal(action, 3) & tf.equal(game.reload, 0)
        cannon = move(game.cannon, tf.equal(action, 2), tf.equal(action, 1))
        player = at(self.constant(BOTTOM), cannon)  # [B, 10, 10]
        bullets = game.bullets | on(shoots, player)
        bullets = tf.pad(bullets[:, 1:], [[0, 0], [0, 1], [0, 0]])  # up
        bombs = tf.pad(game.bombs[:, :-1], [[0, 0], [1, 0], [0, 0]])  # down
        hit = tf.reduce_any((bombs | game.aliens) & player, [1, 2])

        aliens, rightward, moves, landed = _march(game)
        until_move = tf.where(moves, tf.minimum(_count(game.aliens), game.move_interval), game.until_move)
        terminated = hit | landed | tf.reduce_any(aliens & player, [1, 2])
        drops = tf.equal(game.until_shot, 0)
        bombs |= on(drops, _shooter(aliens, cannon))  # it falls from the next frame on

        killed = aliens & bullets
        aliens, bullets = aliens & ~killed, bullets & ~killed
        cleared = ~tf.reduce_any(aliens, [1, 2])
        aliens |= on(cleared, tf.constant(WAVE))
        move_interval = game.move_interval
        if self.difficulty_ramping:
            faster = cleared & (move_interval > FASTEST)
            move_interval -= tf.cast(faster, tf.int32)
        board = SpaceInvadersBoard(
            cannon=cannon,
            reload=tf.maximum(tf.where(shoots, RELOAD, game.reload) - 1, 0),
            bullets=bullets,
            bombs=bombs,
            aliens=aliens,
            rightward=rightward,
            move_interval=move_interval,
            until_move=until_move - 1,
            until_shot=tf.where(drops, SHOT_INTERVAL, game.until_shot) - 1,
        )
        return board, tf.cast(_count(killed), tf.float32), terminated

    def picture(self, game: SpaceInvadersBoard) -> tuple[Tensor, ...]:
        """Returns boards, bool [B, 10, 10], in the order of `channels`."""
        return (
            at(self.constant(BOTTOM), game.cannon),
            game.aliens,
            on(~game.rightward, game.aliens),
            on(game.rightward, game.aliens),
            game.bullets,
            game.bombs,
        )


def _march(game: SpaceInvadersBoard) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Returns the aliens after their move, where they are going, whether they moved, whether they landed [B].

    Landing is to go down from the bottom row; the original shows those aliens in the top row then.
    """
    aliens = game.aliens
    moves = tf.equal(game.until_move, 0)
    ahead = tf.where(game.rightward, tf.reduce_any(aliens[:, :, -1], 1), tf.reduce_any(aliens[:, :, 0], 1))
    turns = moves & ahead
    landed = turns & tf.reduce_any(aliens[:, -1], 1)
    down = tf.concat([aliens[:, -1:], aliens[:, :-1]], 1)
    right = tf.pad(aliens[:, :, :-1], [[0, 0], [0, 0], [1, 0]])  # nobody is at the edge that they go to
    left = tf.pad(aliens[:, :, 1:], [[0, 0], [0, 0], [0, 1]])
    sideways = tf.where(game.rightward[:, None, None], right, left)
    moved = tf.where(ahead[:, None, None], down, sideways)
    return tf.where(moves[:, None, None], moved, aliens), game.rightward ^ turns, moves, landed


def _shooter(aliens: Tensor, cannon: Tensor) -> Tensor:
    """Returns bool [B, 10, 10]: the lowest alien of the column nearest to the cannon, the left one of two."""
    offset = INDEX - cannon[:, None]  # [B, 10]
    distance = 2 * tf.abs(offset) + tf.cast(offset > 0, tf.int32)  # all different
    order = distance[:, None, :] * SIZE + (BOTTOM - INDEX)[:, None]  # [B, row, column], all different
    order = tf.where(aliens, order, 2**30)
    return aliens & tf.equal(order, tf.reduce_min(order, [1, 2], keepdims=True))


def _count(boards: Tensor) -> Tensor:
    """Returns int32 [B]."""
    return tf.reduce_sum(tf.cast(boards, tf.int32), [1, 2])
