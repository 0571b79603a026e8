"""Atari and Procgen through EnvPool: pictures the right way round, lives, levels, scores as they are."""

from __future__ import annotations

import envpool
import numpy as np
import pytest

from rl.envs import envpool_tasks, make_env, make_eval_envs
from rl.envs.envpool_tasks import find_task, has_task, task_ids
from rl.envs.host import env_seeds
from rl.envs.make import check_window
from rl.errors import UsageError
from rl.hparams.merge import resolve

GAMES = [
    *("bigfish", "bossfight", "caveflyer", "chaser", "climber", "coinrun", "dodgeball", "fruitbot"),
    *("heist", "jumper", "leaper", "maze", "miner", "ninja", "plunder", "starpilot"),
]
ATARI = {"frame_skip": 4, "noop_max": 30, "repeat_action_probability": 0.0}


def play(env, steps, actions=4):
    """What `steps` random steps return: observations, rewards, ends, lives lost."""
    rng, found = np.random.default_rng(0), []
    for _ in range(steps):
        observation, reward, terminated, truncated = env.step(rng.integers(0, actions, env.num_envs))
        lost = np.zeros(env.num_envs, bool) if env.life_lost is None else env.life_lost
        found.append((observation, reward, terminated | truncated, lost))
    return [np.array(each) for each in zip(*found, strict=True)]


def test_ataris_pictures_are_envpools_with_channels_last_and_four_in_a_stack():
    env = make_env("Pong-v5", "auto", 2, ATARI)
    pool = envpool.make("Pong-v5", "gymnasium", num_envs=2, seed=env_seeds(3, 2), stack_num=1, **ATARI)
    assert env.backend == "envpool" and env.observation_space.shape == (84, 84, 4)
    pictures = [pool.reset()[0]]
    stack = env.reset(3)
    rng = np.random.default_rng(0)
    for _ in range(6):
        action = rng.integers(0, 6, 2)
        pictures.append(pool.step(action)[0])
        stack = env.step(action)[0]
    assert stack.dtype == np.uint8 and pictures[-1].shape == (2, 1, 84, 84)
    for back in range(4):
        np.testing.assert_array_equal(stack[..., 3 - back], pictures[-1 - back][:, 0])
    assert not np.array_equal(stack[0, ..., 3], stack[0, ..., 3].T), "a turned picture would be noticed"


@pytest.mark.parametrize(
    "kwargs", [{"img_height": 42, "img_width": 42}, {"img_height": 42, "img_width": 42, "stack_num": 4}]
)
def test_small_pictures_as_in_easyrl(kwargs):
    env = make_eval_envs("Pong-v5", 1, kwargs)
    assert env.observation_space.shape == env.reset(0).shape[1:] == (42, 42, 4)


def test_a_lost_life_is_an_end_in_training_but_not_of_the_episode():
    options = {"noop_max": 1, "use_fire_reset": True}
    env = make_env("Breakout-v5", "auto", 2, {**options, "episodic_life": True})
    env.reset(0)
    _, _, ended, lost = play(env, 600)
    whole = make_env("Breakout-v5", "auto", 2, options)
    whole.reset(0)
    assert whole.life_lost is None
    _, _, games, _ = play(whole, 600)
    assert lost.any() and not (lost & ~ended).any()
    assert (ended & ~lost).any() and games.any()
    for b in range(2):  # five lives: four are lost before the game is over
        ends = np.flatnonzero(ended[:, b])
        kinds = lost[ends, b]
        over = np.flatnonzero(~kinds)
        assert len(over) and all(np.diff(np.r_[-1, over]) == 5)


def test_memory_in_place_of_pictures_is_the_consoles():
    env = make_env("Pong-ram-v5", "auto", 2, {"noop_max": 1})
    pool = envpool.make("Pong-v5", "gymnasium", num_envs=2, seed=env_seeds(5, 2), noop_max=1)
    assert env.observation_space.shape == (128,) and env.frame_stack == 1
    np.testing.assert_array_equal(env.reset(5), pool.reset()[1]["ram"])
    for action in (2, 3, 2):
        found = env.step(np.full(2, action))[0]
        np.testing.assert_array_equal(found, pool.step(np.full(2, action))[4]["ram"])


def test_all_sixteen_games_of_procgen_are_known_by_name():
    assert all(has_task(game) and has_task(f"procgen-{game}-v0") for game in GAMES)
    assert set(GAMES) <= set(task_ids())
    assert find_task("coinrun", {}).id == "CoinrunEasy-v0"
    assert find_task("procgen-maze-v0", {"distribution_mode": "hard"}).id == "MazeHard-v0"


def test_coinrun_is_seen_in_colour_with_channels_last():
    env = make_eval_envs("coinrun", 2, {"num_levels": 1}, render_mode="rgb_array")
    first = env.reset(0)
    assert first.shape == (2, 64, 64, 3) and first.dtype == np.uint8 and env.action_space.n == 15
    np.testing.assert_array_equal(first[0], first[1], "one level: the same for everyone")
    frame = env.render()
    assert frame.shape == (512, 512, 3) and frame.dtype == np.uint8
    # What is drawn is what is seen, larger: means of 8 x 8 pixels are near the pixel.
    small = frame.reshape(64, 8, 64, 8, 3).mean((1, 3))
    assert np.abs(small - first[0]).mean() < 12 < np.abs(small - first[0][:, :, ::-1]).mean() + 12


def test_qt_comes_from_its_package_where_the_system_has_none(tmp_path, monkeypatch):
    folder = tmp_path / "PyQt5" / "Qt5" / "lib"
    folder.mkdir(parents=True)
    for name in ("libQt5Core.so.5", "libQt5Gui.so.5"):
        (folder / name).touch()
    loaded = []

    def load(name, mode=None):
        if "/" not in name:
            raise OSError(f"{name}: cannot open shared object file")
        loaded.append((name, mode))

    monkeypatch.setattr(envpool_tasks.ctypes, "CDLL", load)
    monkeypatch.syspath_prepend(tmp_path)
    envpool_tasks.load_qt()
    everywhere = envpool_tasks.ctypes.RTLD_GLOBAL  # or the module that draws would not find them
    names = ("libQt5Core.so.5", "libQt5Gui.so.5")  # the second needs the first
    assert loaded == [(str(folder / name), everywhere) for name in names]
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    envpool_tasks.load_qt()  # EnvPool will say what is missing
    assert len(loaded) == 2


def test_levels_are_those_asked_for():
    def first_pictures(**kwargs):
        env = make_env("coinrun", "auto", 16, kwargs)
        return {picture.tobytes() for picture in env.reset(1)}

    few, all_levels = first_pictures(num_levels=2), first_pictures()
    assert len(few) <= 2 < len(all_levels)
    assert not few & first_pictures(num_levels=2, start_level=1000)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "words"),
    [
        ("coinrun", {"distribution_mode": "memory"}, "has no distribution_mode 'memory': known: easy, "),
        ("coinrum", {}, "unknown environment 'coinrum': did you mean coinrun"),
        ("Pong-v5", {"stak_num": 2}, "EnvPool cannot make Pong-v5 with"),
    ],
)  # fmt: skip
def test_mistakes_are_one_clear_line(env_id, kwargs, words):
    with pytest.raises(UsageError) as error:
        make_env(env_id, "auto", 1, kwargs)
    assert words in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize("option", ["episodic_life", "reward_clip"])
def test_evaluation_refuses_what_is_for_training_alone(option):
    with pytest.raises(UsageError, match=f"option {option} is for training alone: give "):
        make_eval_envs("Pong-v5", 1, {option: True})


def test_what_opens_no_window_says_so():
    with pytest.raises(UsageError, match="coinrun is EnvPool's, which opens no window"):
        check_window(resolve("ppo", {"env": "coinrun"}))
    check_window(resolve("ppo", {"env": "CartPole-v1"}))
    for env_id in ("Foraging-v0", "BitFlip-v0"):  # in-graph alone; of a function, to which nothing is added
        with pytest.raises(UsageError, match=f"{env_id} .*, and opens no window: take --record_video"):
            check_window(resolve("ppo", {"env": env_id}))
    with pytest.raises(UsageError, match="opens no window: take --record_video"):
        make_eval_envs("Pong-v5", 1, render_mode="human")
