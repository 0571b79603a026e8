"""MinAtar's Asterix in tensors; source and conventions in `rl/envs/graph/minatar.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.envs.graph.minatar import LANES, SIZE, MinAtarGame, at, heading, in_lanes, move, which
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "MinAtar/Asterix-v1"

SPAWN_INTERVAL = 10  # frames, at first
MOVE_INTERVAL = 5  # frames, at first
RAMP_INTERVAL = 100  # frames; counting it down to below 0 takes 2 more
LANE_ROWS = np.arange(1, LANES + 1, dtype=np.int32)
EARLIER = np.triu(np.ones((LANES, LANES), np.float32), 1)  # 1 at [earlier lane, lane]


class AsterixEvents(NamedTuple):
    """What comes next, if something is due."""

    rightward: Tensor  # [B] bool: it comes from the left
    gold: Tensor  # [B] bool: treasure, not an enemy
    lane: Tensor  # [B] float32 in [0, 1): which of the free lanes, of however many there are


class AsterixBoard(NamedTuple):
    """Each lane has room for one thing, an enemy or treasure; `present` says whether there is one."""

    row: Tensor  # [B] int32, of the player
    column: Tensor  # [B] int32
    present: Tensor  # [B, 8] bool
    gold: Tensor  # [B, 8] bool
    rightward: Tensor  # [B, 8] bool
    place: Tensor  # [B, 8] int32 column
    spawn_interval: Tensor  # [B] int32 frames
    move_interval: Tensor  # [B] int32 frames
    until_spawn: Tensor  # [B] int32 frames
    until_move: Tensor  # [B] int32 frames
    until_ramp: Tensor  # [B] int32 frames
    level: Tensor  # [B] int32: how often difficulty has risen


@register
class Asterix(MinAtarGame):
    """MinAtar Asterix: collect treasure in 8 lanes, 1 each; touching an enemy ends the episode.

    Actions: nothing, left, up, right, down. Channels: player, enemies, trails (behind enemies and treasure),
    treasure. One thing in three is treasure. Things come every 10 frames and move every 5; about every 100
    frames they come more often, and every other time they move faster too.
    """

    actions = ("nothing", "left", "up", "right", "down")
    channels = ("player", "enemies", "trails", "treasure")
    num_draws = 3
    merges = True

    def events(self, uniforms: Tensor) -> AsterixEvents:
        """Draws what comes: from the left with probability 1/2, treasure with probability 1/3, each free
        lane alike."""
        return AsterixEvents(uniforms[0] < 1 / 2, uniforms[1] < 1 / 3, uniforms[2])

    def start(self, chance: tuple[()]) -> AsterixBoard:
        """Returns the player in the middle, nothing else."""
        none = tf.zeros([self.num_envs, LANES], tf.bool)
        return AsterixBoard(
            row=self.constant(5),
            column=self.constant(5),
            present=none,
            gold=none,
            rightward=none,
            place=tf.zeros([self.num_envs, LANES], tf.int32),
            spawn_interval=self.constant(SPAWN_INTERVAL),
            move_interval=self.constant(MOVE_INTERVAL),
            until_spawn=self.constant(SPAWN_INTERVAL),
            until_move=self.constant(MOVE_INTERVAL),
            until_ramp=self.constant(RAMP_INTERVAL),
            level=self.constant(0),
        )

    def play(
        self, game: AsterixBoard, action: Tensor, events: AsterixEvents
    ) -> tuple[AsterixBoard, Tensor, Tensor]:
        """Moves the player after something came, then everything else; contact counts before and after
        that."""
        due = tf.equal(game.until_spawn, 0)
        game = _spawn(game, due, events)
        row = move(game.row, tf.equal(action, 4), tf.equal(action, 2), 1, LANES)
        column = move(game.column, tf.equal(action, 3), tf.equal(action, 1))
        moves = tf.equal(game.until_move, 0)  # [B]
        in_lane = tf.equal(row[:, None], LANE_ROWS)  # [B, 8]

        met = in_lane & game.present & tf.equal(game.place, column[:, None])
        present = game.present & ~(met & game.gold)
        place = game.place + tf.where(moves[:, None], heading(game.rightward), 0)
        present &= (place >= 0) & (place < SIZE)
        met_again = in_lane & present & tf.equal(place, column[:, None]) & moves[:, None]
        present &= ~(met_again & game.gold)

        found = tf.reduce_any((met | met_again) & game.gold, 1)  # one lane holds one thing: never two
        terminated = tf.reduce_any((met | met_again) & ~game.gold, 1)
        game = game._replace(
            row=row,
            column=column,
            present=present,
            place=place,
            until_spawn=tf.where(due, game.spawn_interval, game.until_spawn) - 1,
            until_move=tf.where(moves, game.move_interval, game.until_move) - 1,
        )
        if self.difficulty_ramping:
            game = _ramp(game)
        return game, tf.cast(found, tf.float32), terminated

    def picture(self, game: AsterixBoard) -> tuple[Tensor, ...]:
        """Returns boards, bool [B, 10, 10], in the order of `channels`."""
        return (
            at(game.row, game.column),
            in_lanes(game.place, game.present & ~game.gold),
            in_lanes(game.place - heading(game.rightward), game.present),
            in_lanes(game.place, game.present & game.gold),
        )


def _spawn(game: AsterixBoard, due: Tensor, events: AsterixEvents) -> AsterixBoard:
    """Puts something new in one of the free lanes; nothing where all are taken."""
    free = ~game.present
    before = tf.linalg.matmul(tf.cast(free, tf.float32), EARLIER)  # [B, 8] free lanes above: a cumulative sum
    count = tf.reduce_sum(tf.cast(free, tf.int32), 1)  # [B]
    new = (
        due[:, None] & free & tf.equal(tf.cast(before, tf.int32), which(events.lane, count)[:, None])
    )  # [B, 8]
    return game._replace(
        present=game.present | new,
        gold=tf.where(new, events.gold[:, None], game.gold),
        rightward=tf.where(new, events.rightward[:, None], game.rightward),
        place=tf.where(new, tf.where(events.rightward, 0, SIZE - 1)[:, None], game.place),
    )


def _ramp(game: AsterixBoard) -> AsterixBoard:
    """Shortens the intervals when the time has come, until both are 1."""
    active = (game.spawn_interval > 1) | (game.move_interval > 1)
    rises = active & (game.until_ramp < 0)
    faster = rises & (game.move_interval > 1) & tf.equal(game.level % 2, 1)
    more = rises & (game.spawn_interval > 1)
    waits = tf.cast(active & ~rises, tf.int32)
    return game._replace(
        move_interval=game.move_interval - tf.cast(faster, tf.int32),
        spawn_interval=game.spawn_interval - tf.cast(more, tf.int32),
        until_ramp=tf.where(rises, RAMP_INTERVAL, game.until_ramp - waits),
        level=game.level + tf.cast(rises, tf.int32),
    )
