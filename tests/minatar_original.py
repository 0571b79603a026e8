"""The authors' package `minatar`, played with noted luck: what `tests/envs/test_minatar.py` compares with.

The package plays with a random source that notes every number it hands out. From these notes and the order
in which the package asks, `_events` and `_start` make what our `draw` and `draw_start` would have drawn.
Where the package asked for nothing there is a random filler, which must not matter.
"""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from rl.envs import make_gym_env
from rl.envs.graph.minatar import MinAtarChance
from rl.envs.graph.minatar_asterix import AsterixEvents
from rl.envs.graph.minatar_freeway import FreewayEvents
from rl.envs.graph.minatar_seaquest import SeaquestEvents

SPARE = np.random.RandomState(0)  # for what-if games: to make one costs more than to play a frame


class Noted:
    """A source of random numbers that notes what it hands out; `notes` [(largest + 1, number)]."""

    def __init__(self, seed: int, crowded: bool = False) -> None:
        self.source = np.random.RandomState(seed)
        self.scale = 0.52 if crowded else 1.0
        self.notes: list[tuple[int, Any]] = []

    def rand(self, *shape: int) -> Any:
        self.notes.append((1, self.source.rand(*shape) * self.scale))
        return self.notes[-1][1]

    def randint(self, low: int, high: int | None = None, size: int | None = None) -> Any:
        number = self.source.randint(low, high, size)
        self.notes.append((low if high is None else high, np.copy(number)))  # the package writes into arrays
        return number

    def take(self) -> list[tuple[int, Any]]:
        notes, self.notes = self.notes, []
        return notes


def _events(game: str, notes: list[tuple[int, Any]], rng: np.random.Generator) -> Any:
    """The events of one frame from what the package drew in it."""
    numbers = [number for _, number in notes]
    if game == "Asterix":  # side, kind, and which of the free lanes if there are any
        side, kind = numbers[:2] if notes else rng.random(2)
        lane = (numbers[2] + 0.5) / notes[2][0] if len(notes) > 2 else rng.random()
        return AsterixEvents(side < 1 / 2, kind < 1 / 3, np.float32(lane))
    if game == "Freeway":
        speed, side = numbers if notes else (rng.integers(1, 6, 8), rng.random(8))
        return FreewayEvents(speed.astype(np.int32), side > 0.5)
    if game == "Seaquest":  # of an enemy side, kind, row; of a diver side, row
        assert [largest for largest, _ in notes] in ([], [1, 1, 9], [1, 9], [1, 1, 9, 1, 9])
        enemy = numbers[:3] if len(notes) in (3, 5) else [*rng.random(2), rng.integers(1, 9)]
        diver = numbers[-2:] if len(notes) in (2, 5) else [rng.random(), rng.integers(1, 9)]
        rows = np.int32(enemy[2]), np.int32(diver[1])
        return SeaquestEvents(enemy[0] < 1 / 2, enemy[1] < 1 / 3, rows[0], diver[0] < 1 / 2, rows[1])
    assert not notes
    return ()


def _start(game: str, notes: list[tuple[int, Any]], rng: np.random.Generator) -> Any:
    """What is random in an episode's start from what the package drew in its reset."""
    if game == "Breakout":
        return notes[0][1] == 1 if notes else rng.random() < 0.5
    return _events(game, notes, rng) if game == "Freeway" else ()


def _survives(board: Any, action: int, frames: int) -> bool:
    """Whether the package's game goes on after that action and some frames of doing nothing."""
    board = copy.copy(board)
    board.random = SPARE
    for name, value in vars(board).items():
        if isinstance(value, list):
            setattr(board, name, [copy.copy(each) for each in value])
        elif isinstance(value, np.ndarray):
            setattr(board, name, value.copy())
    return not (board.act(action)[1] or any(board.act(0)[1] for _ in range(frames)))


def _toward(place: int, goal: int, less: int, more: int) -> list[int]:
    """The action that brings `place` nearer to `goal`, if there is one to take."""
    return [less] if goal < place else [more] if goal > place else []


def _wishes(game: str, board: Any, rng: np.random.Generator) -> list[int]:
    """What a player who sees the package's insides would do, best first, as the package's six actions."""
    if (
        game == "Breakout"
    ):  # under the ball; at the last moment one of the two bounces, so that its way varies
        bounce = rng.integers(0, 2) if (board.ball_y, board.ball_dir // 2) == (8, 1) else 0
        return _toward(board.pos, board.ball_x + bounce * (1 if board.ball_dir == 2 else -1), 1, 3) or [0]
    if game == "Freeway":
        return [2]
    if game == "Asterix":
        gold = [each for each in board.entities if each is not None and each[3]]
        return [*_toward(board.player_y, gold[0][1], 2, 4), 0] if gold else [0]
    if game == "SpaceInvaders":
        columns = np.flatnonzero(board.alien_map.any(0)) + board.alien_dir * rng.integers(0, 2)
        nearest = min(columns, key=lambda column: abs(column - board.pos))
        return ([5] if board.shot_timer == 0 else []) + _toward(board.pos, nearest, 1, 3)
    ahead = [each for each in board.e_fish + board.e_subs if each[1] == board.sub_y]
    faced = any((each[0] > board.sub_x) == board.sub_or for each in ahead)
    if -25 < board.diver_count < 0 or board.diver_count == 6 or board.oxygen < 30:
        return [2, 4] if board.sub_y else [4]
    wishes = [5] if faced and board.shot_timer == 0 else []
    for diver in board.divers[:1]:
        wishes += _toward(board.sub_y, diver[1], 2, 4) + _toward(board.sub_x, diver[0], 1, 3)
    return wishes or _toward(board.sub_y, 5, 2, 4)


def _skilled(game: str, board: Any, rng: np.random.Generator) -> int:
    wishes = _wishes(game, board, rng)
    if game in ("Breakout", "Freeway"):
        return wishes[0]
    if game == "Seaquest" and board.diver_count == 0:  # to surface alone ends the episode
        wishes = [each for each in wishes if each != 2 or board.sub_y > 1]
    others = [int(each) for each in rng.permutation(6) if game != "Seaquest" or each != 2 or board.sub_y > 1]
    frames = 1 if game == "Asterix" else 2
    return next((each for each in wishes + others if _survives(board, each, frames)), 0)


def _reached(board: Any) -> dict[str, int]:
    crew = getattr(board, "diver_count", 0)
    cleared = not getattr(board, "brick_map", np.ones(1)).any()
    enemies = len(getattr(board, "e_fish", ())) + len(getattr(board, "e_subs", ()))
    level = board.difficulty_ramp() or 0
    return {"level": level, "cleared": cleared, "crew": crew, "overdrawn": -crew, "enemies": enemies}


def play(
    game: str, env_kwargs: dict[str, Any], seed: int, frames: int, skilled: bool, crowded: bool = False
) -> tuple[dict[str, list[Any]], dict[str, int]]:
    """What the package does in `frames` frames, resets among them, and what was seen of its insides.

    crowded: the player cannot die, and nearly everything comes from one side, so that there is no end to it.
    """
    rng, luck, sticky = np.random.default_rng(seed), Noted(seed, crowded), Noted(seed + 1)
    env = make_gym_env(f"MinAtar/{game}-v1", env_kwargs).unwrapped
    env.game.random, env.game.env.random = sticky, luck
    observation, _ = env.reset()
    starts = [_start(game, luck.take(), rng)]
    seen: dict[str, list[Any]] = {
        name: [] for name in ("action", "chance", "observation", "reward", "terminated")
    }
    seen["observation"].append(observation)
    most = dict.fromkeys(("level", "episodes", "reward", "cleared", "crew", "overdrawn", "enemies"), 0)
    ended = False
    for _ in range(frames):
        action = int(rng.integers(len(env.action_set)))
        if skilled and not ended:
            wish = _skilled(game, env.game.env, rng)
            action = env.action_set.index(wish) if wish in env.action_set else action
        if ended:
            (observation, _), reward, terminated, ended = env.reset(), 0.0, False, False
            start, most["episodes"] = _start(game, luck.take(), rng), most["episodes"] + 1
            chance = MinAtarChance(rng.random() < 0.5, _events(game, [], rng))
        else:
            observation, reward, terminated, *_ = env.step(action)
            ended = terminated and not crowded
            env.game.env.terminal = ended
            repeats = sticky.take()[0][1] < env.game.sticky_action_prob
            start = _start(game, [], rng)
            chance = MinAtarChance(repeats, _events(game, luck.take(), rng))
        starts.append(start)
        for name, value in zip(seen, (action, chance, observation, reward, terminated), strict=True):
            seen[name].append(value)
        most["reward"] += int(reward)
        for name, value in _reached(env.game.env).items():
            most[name] = max(most[name], value)
    return {**seen, "start": starts}, most
