"""MinAtar's Seaquest in tensors; source and conventions in `rl/envs/graph/minatar.py`.

The original keeps lists of any length. Here each thing has a fixed number of slots, enough for all that can
be there at once (`BULLETS`, `DIVERS`, `ENEMIES`), and the enemies' bullets, which nothing tells apart, are
boards. The original also walks its lists in order. That order only matters where `_shoot_enemies` and
`_divers` say so: from the spawning intervals and speeds it follows that

* two bullets of the player are never in one cell: it follows its own bullets at most as fast as they go;
* two enemies never enter one cell in one frame. A row holds one direction at a time. Of two enemies in a row
  the later one is `delay` frames behind in entering each cell; at equal intervals that stays, and at least 14
  frames lie between spawns until enemies are as fast as they become. Each shortening of the move interval, of
  which there are 3, 4 frames apart or more, takes from the delay one frame for each cell between the two:
  of 14 at least 6 are left.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.envs.graph.minatar import INDEX, LANES, SIZE, MinAtarGame, at, heading, move, which
from rl.envs.registry import register
from rl.types import Tensor

ENV_ID = "MinAtar/Seaquest-v1"

AIR = 200  # frames under water
GAUGE = AIR // SIZE  # frames per cell of the gauge
CREW = 6  # divers that the submarine has room for
RELOAD = 5  # frames from one shot of the player to the next
SPAWN_INTERVAL = 20  # frames from one enemy to the next, at first
MOVE_INTERVAL = 5  # frames that an enemy waits between moves, at first
FASTEST = 2  # frames that an enemy waits between moves, at last
SHOT_INTERVAL = 10  # frames that an enemy submarine waits between shots
DIVER_SPAWN_INTERVAL = 30  # frames from one diver to the next
DIVER_MOVE_INTERVAL = 5  # frames that a diver waits between moves

# A bullet moves from the frame on in which it is fired. Looking right the submarine is in column 1 or further
# right, looking left in column 8 or further left: the ninth move, 8 frames later, takes it off the board.
BULLETS = 2  # 1 + 8 // RELOAD
# Waiting w frames between moves, something that appears in frame t moves in t+w, t+w+(w+1), ... and is off
# the board with its tenth move, in frame t + 10 w + 9. What comes in that frame comes before that move.
DIVERS = 2  # 1 + (10 * DIVER_MOVE_INTERVAL + 9) // DIVER_SPAWN_INTERVAL
# At full speed with an enemy every frame. Slower ones live up to 59 frames, but come 14 frames apart.
ENEMIES = 30  # 1 + (10 * FASTEST + 9) // 1
# Bits per column in `_boards`, to count up to 7 objects. Enemies in one cell entered it in different frames
# and leave it FASTEST + 1 frames later, so that there are 3 at most; slower ones come less often than they
# move.
BITS = 3
SLOTS = np.arange(ENEMIES, dtype=np.int32)


class SeaquestEvents(NamedTuple):
    """The enemy and the diver that come next, if they are due."""

    enemy_rightward: Tensor  # [B] bool: it comes from the left
    enemy_submarine: Tensor  # [B] bool: no fish
    enemy_row: Tensor  # [B] int32 in 1 .. 8
    diver_rightward: Tensor  # [B] bool
    diver_row: Tensor  # [B] int32 in 1 .. 8


class Enemies(NamedTuple):
    """Fish and submarines, each [B, 30]; the slots are taken in turn."""

    present: Tensor  # bool
    submarine: Tensor  # bool
    row: Tensor  # int32
    column: Tensor  # int32
    rightward: Tensor  # bool
    until_move: Tensor  # int32 frames
    until_shot: Tensor  # int32 frames, of submarines


class Divers(NamedTuple):
    """Divers, each [B, 2], the latest first."""

    present: Tensor  # bool
    row: Tensor  # int32
    column: Tensor  # int32
    rightward: Tensor  # bool
    until_move: Tensor  # int32 frames


class Bullets(NamedTuple):
    """The player's bullets, each [B, 2], the latest first."""

    present: Tensor  # bool
    row: Tensor  # int32
    column: Tensor  # int32
    rightward: Tensor  # bool


class SeaquestBoard(NamedTuple):
    """All that is in the water, and what is due when."""

    row: Tensor  # [B] int32, of the submarine's front
    column: Tensor  # [B] int32
    rightward: Tensor  # [B] bool, where the submarine looks
    air: Tensor  # [B] int32 frames
    crew: Tensor  # [B] int32 divers on board; may be negative, as in the original
    surfaced: Tensor  # [B] bool
    reload: Tensor  # [B] int32 frames until the player can shoot
    bullets: Bullets
    divers: Divers
    enemies: Enemies
    next_slot: Tensor  # [B] int32, of the next enemy
    torpedoes_left: Tensor  # [B, 10, 10] bool: enemy bullets going left
    torpedoes_right: Tensor  # [B, 10, 10] bool
    spawn_interval: Tensor  # [B] int32 frames
    move_interval: Tensor  # [B] int32 frames
    until_enemy: Tensor  # [B] int32 frames
    until_diver: Tensor  # [B] int32 frames
    level: Tensor  # [B] int32: how often difficulty has risen


@register
class Seaquest(MinAtarGame):
    """MinAtar Seaquest: shoot enemies, 1 each, and bring 6 divers up, 1 for each full cell of air.

    Actions: nothing, left, up, right, down, shoot. Channels: the submarine's front and back, its bullets,
    trails (behind enemies and divers), enemy bullets, fish, enemy submarines, gauges of air and divers,
    divers. The episode ends on contact with an enemy or its bullet, without air, and on surfacing with no
    diver. Surfacing renews the air, costs a diver (with 6: all of them) and makes enemies come more often,
    every other time move faster too. As in the original, bringing up 6 leaves -1 on board, and fewer with
    every surfacing after that, so that only a count of exactly 0 is deadly.
    """

    actions = ("nothing", "left", "up", "right", "down", "shoot")
    channels = (
        *("front", "back", "bullets", "trails", "torpedoes"),
        *("fish", "submarines", "air", "crew", "divers"),
    )
    num_draws = 5
    merges = True

    def events(self, uniforms: Tensor) -> SeaquestEvents:
        """Draws what comes: either side alike, a submarine with probability 1/3, all rows alike."""
        return SeaquestEvents(
            uniforms[0] < 1 / 2,
            uniforms[1] < 1 / 3,
            1 + which(uniforms[2], LANES),
            uniforms[3] < 1 / 2,
            1 + which(uniforms[4], LANES),
        )

    def start(self, chance: tuple[()]) -> SeaquestBoard:
        """Returns the submarine at the surface, nothing else."""

        def slots(count: int) -> tuple[Tensor, Tensor]:
            return tf.zeros([self.num_envs, count], tf.bool), tf.zeros([self.num_envs, count], tf.int32)

        calm = tf.zeros([self.num_envs, SIZE, SIZE], tf.bool)
        no, zero = slots(ENEMIES)
        enemies = Enemies(no, no, zero, zero, no, zero, zero)
        no, zero = slots(DIVERS)
        divers = Divers(no, zero, zero, no, zero)
        no, zero = slots(BULLETS)
        return SeaquestBoard(
            row=self.constant(0),
            column=self.constant(5),
            rightward=self.constant(False),
            air=self.constant(AIR),
            crew=self.constant(0),
            surfaced=self.constant(True),
            reload=self.constant(0),
            bullets=Bullets(no, zero, zero, no),
            divers=divers,
            enemies=enemies,
            next_slot=self.constant(0),
            torpedoes_left=calm,
            torpedoes_right=calm,
            spawn_interval=self.constant(SPAWN_INTERVAL),
            move_interval=self.constant(MOVE_INTERVAL),
            until_enemy=self.constant(SPAWN_INTERVAL),
            until_diver=self.constant(DIVER_SPAWN_INTERVAL),
            level=self.constant(0),
        )

    def play(
        self, game: SeaquestBoard, action: Tensor, events: SeaquestEvents
    ) -> tuple[SeaquestBoard, Tensor, Tensor]:
        """Moves new enemy and diver, player, its bullets, divers, enemies, their bullets, then air and
        surface."""
        game = _spawn_enemy(game, events)
        game = _spawn_diver(game, events)
        game = _steer(game, action)
        game, shot = _shoot_enemies(game)
        game = _divers(game)
        game, met, struck = _enemies(game)
        water = [game.torpedoes_left, game.torpedoes_right]
        player = at(game.row, game.column)
        torpedoed = tf.reduce_any((water[0] | water[1]) & player, [1, 2])
        game = game._replace(
            torpedoes_left=tf.pad(water[0][:, :, 1:], [[0, 0], [0, 0], [0, 1]]),
            torpedoes_right=tf.pad(water[1][:, :, :-1], [[0, 0], [0, 0], [1, 0]]),
        )
        torpedoed |= tf.reduce_any((game.torpedoes_left | game.torpedoes_right) & player, [1, 2])
        terminated = met | torpedoed | (game.air <= 0)
        game = game._replace(reload=tf.maximum(game.reload - 1, 0))
        game, rescued, alone = self._breathe(game)
        return game, tf.cast(shot + struck + rescued, tf.float32), terminated | alone

    def _breathe(self, game: SeaquestBoard) -> tuple[SeaquestBoard, Tensor, Tensor]:
        """Uses air and surfaces; also the reward [B] int32, and whether there was no diver to bring up
        [B]."""
        under_water = game.row > 0
        arrives = ~under_water & ~game.surfaced
        alone = arrives & tf.equal(game.crew, 0)
        surfaces = arrives & ~alone
        full = surfaces & tf.equal(game.crew, CREW)
        reward = tf.where(full, game.air // GAUGE, 0)
        crew = tf.where(full, 0, game.crew) - tf.cast(surfaces, tf.int32)
        air = tf.where(surfaces, AIR, game.air - tf.cast(under_water, tf.int32))
        surfaced = ~under_water & (game.surfaced | surfaces)
        game = game._replace(crew=crew, air=air, surfaced=surfaced)
        return (_ramp(game, surfaces) if self.difficulty_ramping else game), reward, alone

    def picture(self, game: SeaquestBoard) -> tuple[Tensor, ...]:
        """Returns boards, bool [B, 10, 10], in the order of `channels`."""
        bullets, divers, enemies = game.bullets, game.divers, game.enemies
        wake = _boards(enemies.row, enemies.column - heading(enemies.rightward), enemies.present)
        wake |= _boards(divers.row, divers.column - heading(divers.rightward), divers.present)
        gauges = tf.equal(INDEX, SIZE - 1)[:, None]  # the bottom row
        air = (tf.maximum(game.air, 0) // GAUGE)[:, None] > INDEX  # [B, 10]
        crew = ((SIZE - 1 - game.crew)[:, None] <= INDEX) & (INDEX < SIZE - 1)
        return (
            at(game.row, game.column),
            at(game.row, game.column - heading(game.rightward)),
            _boards(bullets.row, bullets.column, bullets.present),
            wake,
            game.torpedoes_left | game.torpedoes_right,
            _boards(enemies.row, enemies.column, enemies.present & ~enemies.submarine),
            _boards(enemies.row, enemies.column, enemies.present & enemies.submarine),
            air[:, None, :] & gauges,
            crew[:, None, :] & gauges,
            _boards(divers.row, divers.column, divers.present),
        )


def _spawn_enemy(game: SeaquestBoard, events: SeaquestEvents) -> SeaquestBoard:
    """Brings an enemy when one is due, unless one of its row goes the other way."""
    due = tf.equal(game.until_enemy, 0)
    side, row, enemies = events.enemy_rightward, events.enemy_row, game.enemies
    against = enemies.present & tf.equal(enemies.row, row[:, None]) & (enemies.rightward ^ side[:, None])
    comes = due & ~tf.reduce_any(against, 1)
    new = comes[:, None] & tf.equal(game.next_slot[:, None], SLOTS)  # [B, 30]
    enemies = Enemies(
        present=enemies.present | new,
        submarine=tf.where(new, events.enemy_submarine[:, None], enemies.submarine),
        row=tf.where(new, row[:, None], enemies.row),
        column=tf.where(new, tf.where(side, 0, SIZE - 1)[:, None], enemies.column),
        rightward=tf.where(new, side[:, None], enemies.rightward),
        until_move=tf.where(new, game.move_interval[:, None], enemies.until_move),
        until_shot=tf.where(new, SHOT_INTERVAL, enemies.until_shot),
    )
    return game._replace(
        enemies=enemies,
        next_slot=tf.where(comes, (game.next_slot + 1) % ENEMIES, game.next_slot),
        until_enemy=tf.maximum(tf.where(due, game.spawn_interval, game.until_enemy) - 1, 0),
    )


def _spawn_diver(game: SeaquestBoard, events: SeaquestEvents) -> SeaquestBoard:
    """Brings a diver when one is due."""
    due = tf.equal(game.until_diver, 0)
    side = events.diver_rightward
    new = Divers(
        due, events.diver_row, tf.where(side, 0, SIZE - 1), side, tf.fill(due.shape, DIVER_MOVE_INTERVAL)
    )
    until_diver = tf.maximum(tf.where(due, DIVER_SPAWN_INTERVAL, game.until_diver) - 1, 0)
    return game._replace(divers=Divers(*_push(game.divers, new, due)), until_diver=until_diver)


def _steer(game: SeaquestBoard, action: Tensor) -> SeaquestBoard:
    """Does the player's action; the last row is not water."""
    left, up, right, down, trigger = (tf.equal(action, index) for index in range(1, 6))
    shoots = trigger & tf.equal(game.reload, 0)
    new = Bullets(shoots, game.row, game.column, game.rightward)
    return game._replace(
        row=move(game.row, down, up, 0, LANES),
        column=move(game.column, right, left),
        rightward=right | (game.rightward & ~left),
        reload=tf.where(shoots, RELOAD, game.reload),
        bullets=Bullets(*_push(game.bullets, new, shoots)),
    )


def _shoot_enemies(game: SeaquestBoard) -> tuple[SeaquestBoard, Tensor]:
    """Moves the player's bullets, each of which hits one enemy in its cell; also how many hit, int32 [B].

    A fish before a submarine, and the one that came first, which is the one that moves on first.
    """
    bullets, enemies = game.bullets, game.enemies
    column = bullets.column + heading(bullets.rightward)  # [B, 2]
    flying = bullets.present & (column >= 0) & (column < SIZE)
    meets = flying[:, :, None] & _meets(bullets.row[:, :, None], column[:, :, None], enemies)  # [B, 2, 30]
    turn = enemies.until_move + tf.where(enemies.submarine, SIZE, 0)  # [B, 30]
    turn = tf.where(meets, turn[:, None, :], 2**30)
    first = tf.reduce_min(turn, 2, keepdims=True)
    hit = meets & tf.equal(turn, first)
    hits = tf.reduce_any(meets, 2)  # [B, 2]
    enemies = enemies._replace(present=enemies.present & ~tf.reduce_any(hit, 1))
    bullets = bullets._replace(present=flying & ~hits, column=column)
    return game._replace(bullets=bullets, enemies=enemies), tf.reduce_sum(tf.cast(hits, tf.int32), 1)


def _divers(game: SeaquestBoard) -> SeaquestBoard:
    """Divers come on board or move; the latest is asked first, which matters when there is room for one."""
    crew, slots = game.crew, []
    for slot in range(DIVERS):
        present, row, column, rightward, until_move = (each[:, slot] for each in game.divers)
        in_row = tf.equal(row, game.row)
        aboard = present & in_row & tf.equal(column, game.column) & (crew < CREW)
        moves = present & ~aboard & tf.equal(until_move, 0)
        column = tf.where(moves, column + heading(rightward), column)
        aboard |= moves & in_row & tf.equal(column, game.column) & (crew < CREW)
        crew += tf.cast(aboard, tf.int32)
        present &= ~aboard & (column >= 0) & (column < SIZE)
        until_move = tf.where(moves, DIVER_MOVE_INTERVAL, until_move - 1)
        slots.append((present, row, column, rightward, until_move))
    divers = Divers(*(tf.stack(each, 1) for each in zip(*slots, strict=True)))
    return game._replace(crew=crew, divers=divers)


def _enemies(game: SeaquestBoard) -> tuple[SeaquestBoard, Tensor, Tensor]:
    """Enemies move and shoot; also whether one met the player [B], and how many met a bullet int32 [B].

    A submarine that a bullet stops still gets its shot, as in the original.
    """
    enemies, bullets = game.enemies, game.bullets
    row, player = game.row[:, None], game.column[:, None]
    moves = enemies.present & tf.equal(enemies.until_move, 0)
    met = tf.reduce_any(_meets(row, player, enemies), 1)
    submarines = enemies.present & enemies.submarine
    shoots = submarines & tf.equal(enemies.until_shot, 0)
    column = tf.where(moves, enemies.column + heading(enemies.rightward), enemies.column)
    present = enemies.present & (column >= 0) & (column < SIZE)
    enemies = enemies._replace(
        present=present,
        column=column,
        until_move=tf.where(moves, game.move_interval[:, None], enemies.until_move - 1),
        until_shot=tf.where(shoots, SHOT_INTERVAL, enemies.until_shot - 1),
    )
    at_player = _meets(row, player, enemies)
    met |= tf.reduce_any(at_player, 1)
    meets = _meets(bullets.row[:, :, None], bullets.column[:, :, None], enemies)  # [B, 2, 30]
    meets &= bullets.present[:, :, None] & (moves & ~at_player)[:, None, :]
    struck = tf.reduce_any(meets, 1)  # [B, 30]
    bullets = bullets._replace(present=bullets.present & ~tf.reduce_any(meets, 2))
    game = game._replace(
        enemies=enemies._replace(present=present & ~struck),
        bullets=bullets,
        torpedoes_left=game.torpedoes_left | _boards(enemies.row, column, shoots & ~enemies.rightward),
        torpedoes_right=game.torpedoes_right | _boards(enemies.row, column, shoots & enemies.rightward),
    )
    return game, met, tf.reduce_sum(tf.cast(struck, tf.int32), 1)


def _ramp(game: SeaquestBoard, surfaces: Tensor) -> SeaquestBoard:
    """Shortens the intervals where the player surfaces, until they are as short as they become."""
    rises = surfaces & ((game.spawn_interval > 1) | (game.move_interval > FASTEST))
    faster = rises & (game.move_interval > FASTEST) & tf.equal(game.level % 2, 1)
    more = rises & (game.spawn_interval > 1)
    return game._replace(
        move_interval=game.move_interval - tf.cast(faster, tf.int32),
        spawn_interval=game.spawn_interval - tf.cast(more, tf.int32),
        level=game.level + tf.cast(rises, tf.int32),
    )


def _push(slots: tuple[Tensor, ...], new: tuple[Tensor, ...], comes: Tensor) -> list[Tensor]:
    """Slots [B, 2] with `new` [B] in front where it comes [B]; the one behind is empty by then."""
    pairs = zip(slots, new, strict=True)
    return [tf.where(comes[:, None], tf.stack([one, old[:, 0]], 1), old) for old, one in pairs]


def _meets(row: Tensor, column: Tensor, enemies: Enemies) -> Tensor:
    """Returns bool [..., 30]: the enemies that are in the cell row, column [..., 1]."""
    present, ours, theirs = enemies.present, enemies.row, enemies.column
    if row.shape.rank == 3:
        present, ours, theirs = present[:, None], ours[:, None], theirs[:, None]
    return present & tf.equal(ours, row) & tf.equal(theirs, column)


def _boards(row: Tensor, column: Tensor, present: Tensor) -> Tensor:
    """Boards with several objects each, bool [B, 10, 10], from [B, slots]; those off the board are left out.

    A row is one integer, in which each column has `BITS` bits to count its objects: a tenth of the work of
    drawing each object on a board of its own.
    """
    inside = present & (column >= 0) & (column < SIZE)
    place = tf.bitwise.left_shift(tf.ones_like(column), BITS * tf.clip_by_value(column, 0, SIZE - 1))
    place = tf.where(inside, place, 0)  # [B, slots]
    rows = tf.reduce_sum(tf.where(tf.equal(row[..., None], INDEX), place[..., None], 0), 1)  # [B, 10]
    counts = tf.bitwise.right_shift(rows[..., None], BITS * INDEX)
    return tf.not_equal(tf.bitwise.bitwise_and(counts, 2**BITS - 1), 0)
