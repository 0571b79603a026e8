"""MinAtar's Freeway in tensors; source and conventions in `rl/envs/graph/minatar.py`."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.envs.graph.minatar import LANES, SIZE, MinAtarGame, at, heading, in_lanes, move, which
from rl.envs.registry import register
from rl.ops import random
from rl.types import Tensor

ENV_ID = "MinAtar/Freeway-v1"

COLUMN = 4  # the chicken's
HOME = SIZE - 1  # the chicken's first row
REST = 3  # frames from one move of the chicken to the next
TIME = 2500  # frames; counting it down to below 0 takes one more
SLOWEST = 5  # speeds are 1 to 5 frames of waiting between two moves of a car
LANE_ROWS = np.arange(1, LANES + 1, dtype=np.int32)


class FreewayEvents(NamedTuple):
    """The traffic that a start or a crossing brings, a car per lane."""

    speed: Tensor  # [B, 8] int32 in 1 .. 5, frames between two moves
    rightward: Tensor  # [B, 8] bool


class FreewayBoard(NamedTuple):
    """The chicken, and one car per lane."""

    row: Tensor  # [B] int32, of the chicken
    rest: Tensor  # [B] int32 frames until it can move
    frames_left: Tensor  # [B] int32
    place: Tensor  # [B, 8] int32 column of each car
    speed: Tensor  # [B, 8] int32
    rightward: Tensor  # [B, 8] bool
    wait: Tensor  # [B, 8] int32 frames until it moves


@register
class Freeway(MinAtarGame):
    """MinAtar Freeway: cross 8 lanes of traffic, 1 each time; the episode ends after 2501 frames.

    Actions: nothing, up, down; the chicken moves every third frame at most. Channels: chicken, car, and a
    trail behind each car in one of five channels, by how many frames the car waits between two moves.
    A car that hits the chicken sends it home; a crossing sends it home too and draws all speeds and
    directions anew. Cars leave on one side and come in on the other.
    """

    actions = ("nothing", "up", "down")
    channels = ("chicken", "cars", *(f"trails_{speed}" for speed in range(1, SLOWEST + 1)))
    num_draws = LANES

    def draw_start(self, seed: Tensor) -> FreewayEvents:
        """Returns the first traffic; the same numbers as `draw`'s, so that a step computes them once."""
        return self.events(random.uniform(seed, [1 + self.num_draws, self.num_envs])[1:])

    def events(self, uniforms: Tensor) -> FreewayEvents:
        """Draws speed and direction of each car, all ten pairs alike."""
        pair = tf.transpose(which(uniforms, 2 * SLOWEST))  # [B, 8]
        return FreewayEvents(1 + pair % SLOWEST, pair >= SLOWEST)

    def start(self, chance: FreewayEvents) -> FreewayBoard:
        """Returns the chicken at home, all cars in the first column."""
        return FreewayBoard(
            row=self.constant(HOME),
            rest=self.constant(REST),
            frames_left=self.constant(TIME),
            place=tf.zeros_like(chance.speed),
            speed=chance.speed,
            rightward=chance.rightward,
            wait=chance.speed,
        )

    def play(
        self, game: FreewayBoard, action: Tensor, events: FreewayEvents
    ) -> tuple[FreewayBoard, Tensor, Tensor]:
        """Moves the chicken first, then the cars, which hit it where they were as well as where they go."""
        rested = tf.equal(game.rest, 0)
        up, down = rested & tf.equal(action, 1), rested & tf.equal(action, 2)
        row = move(game.row, down, up)
        rest = tf.where(up | down, REST, game.rest)
        crossed = tf.equal(row, 0)
        row = tf.where(crossed, HOME, row)

        speed = tf.where(crossed[:, None], events.speed, game.speed)
        rightward = tf.where(crossed[:, None], events.rightward, game.rightward)
        wait = tf.where(crossed[:, None], events.speed, game.wait)
        moves = tf.equal(wait, 0)
        place = (game.place + tf.where(moves, heading(rightward), 0) + SIZE) % SIZE
        touches = tf.equal(game.place, COLUMN) | tf.equal(place, COLUMN)  # [B, 8]
        hit = tf.reduce_any(touches & tf.equal(row[:, None], LANE_ROWS), 1)  # no car is in the row of home

        frames_left = game.frames_left - 1
        board = FreewayBoard(
            row=tf.where(hit, HOME, row),
            rest=tf.maximum(rest - 1, 0),
            frames_left=frames_left,
            place=place,
            speed=speed,
            rightward=rightward,
            wait=tf.where(moves, speed, wait - 1),
        )
        return board, tf.cast(crossed, tf.float32), frames_left < 0

    def picture(self, game: FreewayBoard) -> tuple[Tensor, ...]:
        """Returns boards, bool [B, 10, 10], in the order of `channels`."""
        chicken = at(game.row, self.constant(COLUMN))
        behind = (game.place - heading(game.rightward) + SIZE) % SIZE  # [B, 8]
        trails = (in_lanes(behind, tf.equal(game.speed, speed)) for speed in range(1, SLOWEST + 1))
        return chicken, in_lanes(game.place, game.speed > 0), *trails
