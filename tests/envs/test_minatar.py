"""In-graph MinAtar frame by frame against the authors' package `minatar`, and what else they promise.

How the two are given the same luck: the package plays first and its luck is noted (`minatar_original.py`).
Then our games play the same actions in one compiled loop, with `draw` and `draw_start` replaced by what was
noted; everything else, autoreset included, is as in training.
"""

from __future__ import annotations

import importlib
import importlib.util
import subprocess
import sys
import warnings
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.utils.env_checker import check_env
from marked import rest
from minatar_original import play

from rl.envs import make_gym_env, minatar_gym
from rl.envs.board import CELL
from rl.envs.graph.minatar import MinAtarGame
from rl.envs.graph_gym import BACKGROUND, GraphEnvGym
from rl.envs.host import HostEnv
from rl.envs.make import make_eval_envs
from rl.envs.registry import registry
from rl.errors import UsageError
from rl.ops import random

GAMES = ("Asterix", "Breakout", "Freeway", "Seaquest", "SpaceInvaders")
LONG = ("Seaquest", "SpaceInvaders")  # to play
FRAMES = 1500
FREEWAY_FRAMES = 2510  # an episode has 2501
REACHED = {  # what the skilled games must have come to, so that the comparison is one of the whole game
    "Asterix": {"level": 9, "episodes": 10},  # 9: everything is as fast as it becomes
    "Breakout": {"cleared": 1, "episodes": 10},
    "Freeway": {"reward": 8, "episodes": 1},
    "Seaquest": {"level": 19, "episodes": 10, "crew": 6, "overdrawn": 20},  # 19: an enemy every frame
    "SpaceInvaders": {"level": 1, "episodes": 10},
}


def _graph(game: str, num_envs: int = 1, **kwargs: Any) -> MinAtarGame:
    env = registry.get(f"MinAtar/{game}-v1")(num_envs, **kwargs)
    assert isinstance(env, MinAtarGame)
    return env


def _stacked(games: list[list[Any]]) -> Any:
    """[time, B, ...] from B lists of nests."""
    by_time = [
        tf.nest.map_structure(lambda *each: np.stack(each), *frame) for frame in zip(*games, strict=True)
    ]
    return tf.nest.map_structure(lambda *each: tf.constant(np.stack(each)), *by_time)


def _give_luck(env: MinAtarGame, chance: Any, start: Any, t: Any) -> None:
    """Makes the game draw `chance[t]` and `start[t + 1]` from now on."""
    env.draw = lambda seed: tf.nest.map_structure(lambda each: each[t], chance)
    env.draw_start = lambda seed: tf.nest.map_structure(lambda each: each[t + 1], start)


def _ours(env: MinAtarGame, action: Any, chance: Any, start: Any, immortal: bool = False) -> list[np.ndarray]:
    """Observation [T+1, B, ...], reward, terminated, truncated [T, B] of our games with that luck."""
    frames = len(action)

    @tf.function(jit_compile=True, autograph=False)
    def run(action: Any, chance: Any, start: Any) -> Any:
        _give_luck(env, chance, start, -1)
        state, first = env.reset(random.key(0))
        written = [tf.TensorArray(each.dtype, frames, element_shape=each.shape) for each in first]

        def body(t: Any, state: Any, written: Any) -> Any:
            _give_luck(env, chance, start, t)
            state, time_step = env.step(state, action[t], random.key(0))
            if immortal:
                state = state._replace(episode_end=tf.zeros_like(state.episode_end))
            return (
                t + 1,
                state,
                [array.write(t, each) for array, each in zip(written, time_step, strict=True)],
            )

        *_, written = tf.while_loop(lambda t, *_: t < frames, body, (tf.constant(0), state, written))
        observation, *rest = (each.stack() for each in written)
        return tf.concat([first.observation[None], observation], 0), *rest

    return [each.numpy() for each in run(action, chance, start)]


PLAIN = {"sticky_action_prob": 0.0, "difficulty_ramping": False}


@pytest.mark.parametrize(
    ("game", "env_kwargs"),
    [
        *[(game, {}) for game in GAMES if game not in LONG],
        *rest(*[(game, {}) for game in LONG]),
        ("Asterix", PLAIN),  # of the games that grow harder, the quickest to play
        *[pytest.param(game, PLAIN, marks=pytest.mark.slow) for game in GAMES if game != "Asterix"],
    ],
)
def test_every_frame_is_the_originals(game: str, env_kwargs: dict[str, Any]) -> None:
    pytest.importorskip("minatar", reason="the original games are the extra `minatar`")
    _compare(game, env_kwargs, REACHED[game])


@pytest.mark.slow
def test_crowded_seaquest_is_the_originals() -> None:
    """With an enemy every frame, nearly all from one side, and a player that cannot die."""
    pytest.importorskip("minatar", reason="the original games are the extra `minatar`")
    _compare("Seaquest", {}, {"level": 19, "enemies": 29}, crowded=True)


def _compare(game: str, env_kwargs: dict[str, Any], reached: dict[str, int], crowded: bool = False) -> None:
    frames = FREEWAY_FRAMES if game == "Freeway" else FRAMES
    played = [play(game, env_kwargs, seed, frames, crowded or seed >= 2, crowded) for seed in range(4)]
    seen = {name: [each[name] for each, _ in played] for name in played[0][0]}
    env = _graph(game, len(played), **env_kwargs)
    action, chance, start = (_stacked(seen[name]) for name in ("action", "chance", "start"))
    observation, reward, terminated, truncated = _ours(env, action, chance, start, crowded)
    for name, ours in (("observation", observation), ("reward", reward), ("terminated", terminated)):
        theirs = np.stack([np.stack(each) for each in seen[name]], 1)
        different = np.argwhere(ours != theirs)
        assert not len(different), (
            f"{name} differs first at {different[0]} (frame, game, ...) of {len(different)}"
        )
    assert not truncated.any()
    for name, least in reached.items():
        most = max(each[name] for _, each in played)
        assert most >= least or (name == "level" and not env.difficulty_ramping), (name, most)


@pytest.mark.parametrize("game", GAMES)
def test_spaces_and_actions_are_the_originals(game: str) -> None:
    pytest.importorskip("minatar", reason="the original games are the extra `minatar`")
    env, original = _graph(game), make_gym_env(f"MinAtar/{game}-v1")
    assert env.observation_space == original.observation_space
    assert env.action_space == original.action_space
    assert original.spec is not None
    assert env.max_episode_steps == original.spec.max_episode_steps is None
    letters = {"n": "nothing", "l": "left", "u": "up", "r": "right", "d": "down", "f": "shoot"}
    game_map, minimal = original.unwrapped.game.env.action_map, original.unwrapped.action_set
    assert env.actions == tuple(letters[game_map[each]] for each in minimal)


@pytest.mark.parametrize(
    "game", [pytest.param(each, marks=() if each == "Breakout" else pytest.mark.slow) for each in GAMES]
)
def test_one_of_many_compiled_games_plays_as_one_alone_and_eager(game: str) -> None:
    frames, count, which = 40, 3, 1
    env = _graph(game, count)
    rng = np.random.default_rng(0)
    action = tf.constant(rng.integers(env.action_space.n, size=(frames, count)), tf.int64)
    seeds = random.split(random.key(5), frames + 1)
    start = tf.nest.map_structure(lambda *each: tf.stack(each), *(env.draw_start(each) for each in seeds))
    chance = tf.nest.map_structure(lambda *each: tf.stack(each), *(env.draw(each) for each in seeds[1:]))
    many = [each[:, which : which + 1] for each in _ours(env, action, chance, start)]

    alone = _graph(game)
    mine = tf.nest.map_structure(lambda each: each[:, which : which + 1], (action, chance, start))
    action, chance, start = mine
    _give_luck(alone, chance, start, -1)
    state, time_step = alone.reset(random.key(0))
    for t in range(frames):
        np.testing.assert_array_equal(time_step.observation, many[0][t])
        _give_luck(alone, chance, start, t)
        state, time_step = alone.step(state, action[t], random.key(0))
        for name, compiled in zip(("reward", "terminated", "truncated"), many[1:], strict=True):
            np.testing.assert_array_equal(getattr(time_step, name), compiled[t])


def test_luck_has_the_probabilities_of_the_original() -> None:
    count, seed = 40000, random.key(1)
    margin = 4 * 0.5 / np.sqrt(count)  # 4 standard deviations at most
    asterix, seaquest = (_graph(game, count).draw(seed) for game in ("Asterix", "Seaquest"))
    shares = [
        (asterix.repeats, 0.1),
        (asterix.events.rightward, 1 / 2),
        (asterix.events.gold, 1 / 3),
        (asterix.events.lane < 0.25, 1 / 4),
        (seaquest.events.enemy_rightward, 1 / 2),
        (seaquest.events.enemy_submarine, 1 / 3),
        (seaquest.events.diver_rightward, 1 / 2),
        (_graph("Breakout", count).draw_start(seed), 1 / 2),
        (_graph("Breakout", count, sticky_action_prob=1.0).draw(seed).repeats, 1.0),
        (_graph("Breakout", count, sticky_action_prob=0.0).draw(seed).repeats, 0.0),
    ]
    for happens, share in shares:
        assert abs(happens.numpy().mean() - share) <= margin
    for row in (seaquest.events.enemy_row, seaquest.events.diver_row):
        counts = np.bincount(row, minlength=9)
        assert counts[0] == 0 and len(counts) == 9
        assert abs(counts[1:] / count - 1 / 8).max() < margin
    freeway = _graph("Freeway", count)
    for events in (freeway.draw(seed).events, freeway.draw_start(seed)):
        pairs = np.where(events.rightward, 1, -1) * events.speed
        for lane in range(8):
            values, counts = np.unique(pairs[:, lane], return_counts=True)
            assert values.tolist() == [-5, -4, -3, -2, -1, 1, 2, 3, 4, 5]
            assert abs(counts / count - 1 / 10).max() < margin


def test_gymnasium_form_plays_the_in_graph_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rl.envs.graph_gym.BY_XLA", True)
    env = GraphEnvGym("MinAtar/Breakout-v1", render_mode="rgb_array", max_episode_steps=40)
    graph = _graph("Breakout", max_episode_steps=40)
    observation, _ = env.reset(seed=7)
    state, time_step = graph.reset(random.key(7))
    step, ends = tf.function(graph.step, autograph=False), 0
    rng = np.random.default_rng(3)
    for t in range(200):
        np.testing.assert_array_equal(observation, time_step.observation[0])
        assert env.observation_space.contains(observation)
        over = bool(state.episode_end[0])
        action = int(rng.integers(env.action_space.n))
        state, time_step = step(state, tf.constant([action], tf.int64), random.fold_in(random.key(7), t))
        if over:
            (observation, _), ends = env.reset(), ends + 1
            continue
        observation, reward, *flags, _ = env.step(action)
        assert type(reward) is float
        assert (reward, *flags) == tuple(each.numpy()[0] for each in time_step[1:])
    assert ends > 3
    picture = env.render()
    assert picture.dtype == np.uint8
    assert picture.shape == (320, 320, 3)
    empty = ~observation.any(-1).repeat(CELL, 0).repeat(CELL, 1)
    assert (picture[empty] <= BACKGROUND).all() and picture[~empty].max() == 255


@pytest.mark.filterwarnings("ignore::UserWarning")  # that it was not made by gymnasium.make
def test_gymnasium_form_is_what_gymnasium_expects_and_refuses_the_impossible() -> None:
    check_env(GraphEnvGym("MinAtar/Asterix-v1", render_mode="rgb_array"))
    check_env(GraphEnvGym("CartPole-v1"))  # it is for any in-graph environment
    with pytest.raises(UsageError, match="sticky_action_prob must be in"):
        GraphEnvGym("MinAtar/Asterix-v1", sticky_action_prob=1.5)
    with pytest.raises(UsageError, match="has no render mode 'human'"):
        GraphEnvGym("MinAtar/Asterix-v1", render_mode="human")
    with pytest.raises(gymnasium.error.ResetNeeded):
        GraphEnvGym("Catch-v0").step(0)


@pytest.mark.parametrize("installed", [True, False])
def test_evaluation_is_on_the_original_where_that_is_installed(
    installed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    if installed:
        pytest.importorskip("minatar", reason="the original games are the extra `minatar`")
    find, registered = importlib.util.find_spec, dict(gymnasium.registry)
    monkeypatch.setattr(
        "importlib.util.find_spec", lambda name: find(name) if installed or name != "minatar" else None
    )
    try:
        for env_id in registered:
            if env_id.startswith("MinAtar/"):
                del gymnasium.registry[env_id]
        importlib.reload(minatar_gym)
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # Gymnasium warns of an id that is registered twice
            for _ in range(2):
                env = make_gym_env("MinAtar/Freeway-v1", {"sticky_action_prob": 0.0})
        assert isinstance(env.unwrapped, GraphEnvGym) == (not installed)
        assert env.observation_space == _graph("Freeway").observation_space
    finally:
        gymnasium.registry.clear()
        gymnasium.registry.update(registered)


@pytest.mark.parametrize("game", ["SpaceInvaders", "Asterix"])
def test_a_seed_is_the_same_episode_on_an_environment_that_was_played_before(game: str) -> None:
    """The last action of before, which may stick in the first frame, is none."""
    used, new = (make_eval_envs(f"MinAtar/{game}-v1", 4) for _ in range(2))
    actions = np.random.default_rng(0).integers(0, 4, (40, 4))

    def played(host: HostEnv) -> list[np.ndarray]:
        return [host.reset(7), *(host.step(action)[0] for action in actions)]

    for first, again, other in zip(played(used), played(used), played(new), strict=True):
        np.testing.assert_array_equal(first, again)
        np.testing.assert_array_equal(first, other)


def test_gymnasium_ids_are_known_without_tensorflow() -> None:
    code = "import sys, rl.envs.minatar_gym, rl.envs.graph_gym; assert 'tensorflow' not in sys.modules"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
