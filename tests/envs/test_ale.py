"""Atari through ale-py, where the extra `atari` is installed."""

from __future__ import annotations

import numpy as np
import pytest

from rl.envs import make_env, make_eval_envs
from rl.errors import UsageError

pytest.importorskip("ale_py", reason="the extra atari is missing")
pytest.importorskip("cv2", reason="the extra atari is missing")

PLAIN = {"repeat_action_probability": 0.0, "noop_max": 0, "use_fire_reset": False}


def test_games_for_training_and_for_films_show_the_same_pictures():
    fast = make_env("ALE/Pong-v5", "auto", 1, PLAIN)
    drawn = make_eval_envs("ALE/Pong-v5", 1, PLAIN, render_mode="rgb_array")
    assert fast.backend == drawn.backend == "gym" and fast.frame_stack == 4
    assert fast.observation_space == drawn.observation_space and fast.action_space == drawn.action_space
    assert fast.observation_space.shape == (84, 84, 4)
    one, two = fast.reset(0), drawn.reset(0)
    rng = np.random.default_rng(0)
    for _ in range(60):
        np.testing.assert_array_equal(one, two)
        action = rng.integers(0, 6, 1)
        one, two = fast.step(action)[0], drawn.step(action)[0]
    assert drawn.render().shape == (210, 160, 3)


def test_the_loss_of_a_life_is_an_end_in_training_but_not_of_the_game():
    env = make_env("ALE/Breakout-v5", "gym", 4, {**PLAIN, "use_fire_reset": True, "episodic_life": True})
    env.reset(0)
    rng, ended, lost = np.random.default_rng(0), [], []
    for _ in range(700):
        _, _, terminated, truncated = env.step(rng.integers(0, 4, 4))
        ended.append(terminated | truncated)
        lost.append(env.life_lost)
    ended, lost = np.array(ended), np.array(lost)
    assert lost.any() and not (lost & ~ended).any()
    for b in range(4):  # of five lives, four are lost before the game is over
        over = np.flatnonzero(~lost[np.flatnonzero(ended[:, b]), b])
        assert len(over) and all(np.diff(np.r_[-1, over]) == 5)


def test_a_game_that_goes_on_after_a_lost_life_tells_of_it_a_step_later():
    """The autoreset contract, for one game scripted by hand: what `AtariVectorEnv` would return."""
    env = make_env("ALE/Breakout-v5", "gym", 1, {**PLAIN, "episodic_life": True}).env
    env.reset(0)
    told, script = (
        [],
        [  # reward, terminated, lives after it
            *[(1.0, False, 5), (2.0, False, 4)],  # a life is lost
            *[(4.0, True, 0), (0.0, False, 5)],  # idle, and the game ends in it; ale-py resets
            *[(8.0, False, 5), (16.0, False, 5)],  # idle again: it follows an end that was told
        ],
    )
    for reward, terminated, lives in script:
        result = np.array([reward], np.float32), np.array([terminated]), np.array([False]), np.array([lives])
        reward, terminated, truncated = env._with_lives(*result)
        told.append((float(reward[0]), bool(terminated[0]), bool(env.life_lost[0])))
        assert not truncated[0]
    assert told == [
        *[(1.0, False, False), (2.0, True, True)],
        *[(0.0, False, False), (4.0, True, False)],
        *[(0.0, False, False), (24.0, False, False)],
    ]


def test_evaluation_is_of_whole_games():
    env = make_eval_envs("ALE/Breakout-v5", 2)
    assert env.life_lost is None and env.observation_space.shape == (84, 84, 4)
    env.close()


def test_other_observations_are_gymnasiums_own():
    assert make_eval_envs("ALE/Pong-v5", 1, {"obs_type": "ram"}).observation_space.shape == (128,)


@pytest.mark.parametrize(
    ("kwargs", "words"),
    [
        (
            {"reward_clipping": True},
            "give reward_augmentation=clip_sign in place of",
        ),
        ({"stack_num": 2}, "give frame_stack in place of the option stack_num"),
        ({"frame_rate": 2}, "ale-py cannot make ALE/Pong-v5 with {'frame_rate': 2}"),
        ({"frameskip": 0}, "ale-py cannot make ALE/Pong-v5 with {'frameskip': 0}"),
        ({"autoreset_mode": "SameStep"}, "the option autoreset_mode is not to be changed"),
        ({"repeat_action_probability": -3.0}, "repeat_action_probability must be in [0, 1]"),
    ],
)
def test_options_that_are_not_to_be_given_are_one_clear_line(kwargs, words):
    with pytest.raises(UsageError) as error:
        make_env("ALE/Pong-v5", "auto", 1, kwargs)
    assert words in str(error.value) and "\n" not in str(error.value)
