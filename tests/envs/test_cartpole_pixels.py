"""CartPolePixels-v0: CartPole's physics, step by step beside Gymnasium's, and the picture of them."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium.utils.env_checker import check_env

from rl.envs import make_env, make_gym_env
from rl.ops import random

ENV_ID = "CartPolePixels-v0"


def pictures(*physics):
    env = make_env(ENV_ID, "graph", len(physics))
    return env.observe(tf.constant(physics, tf.float32)).numpy()[..., 0]


def test_its_steps_are_those_of_gymnasiums_cartpole():
    count, steps, rng = 3, 250, np.random.default_rng(0)
    env, originals = make_env(ENV_ID, "graph", count), [gymnasium.make("CartPole-v1") for _ in range(3)]
    step = tf.function(env.step, autograph=False)
    state, _ = env.reset(random.key(1))
    for original in originals:
        original.reset(seed=0)
    ends = 0
    for t in range(steps):
        physics, over = state.physics.numpy(), state.episode_end.numpy()
        lean = physics[:, 2] + physics[:, 3] > 0
        action = np.where(np.arange(count) == 0, rng.integers(0, 2, count), lean).astype(np.int64)
        state, after = step(state, tf.constant(action), random.fold_in(random.key(2), t))
        moved, paid, fallen = (each.numpy() for each in (state.physics, after.reward, after.terminated))
        for i, original in enumerate(originals):
            if over[i]:
                original.reset()
                ends += 1
                continue
            original.unwrapped.state = physics[i].astype(np.float64)
            original.unwrapped.steps_beyond_terminated = None
            _, reward, terminated, _, _ = original.step(action[i])
            np.testing.assert_allclose(moved[i], original.unwrapped.state, rtol=2e-6, atol=3e-6)
            assert (reward, terminated) == (paid[i], fallen[i])
        assert after.observation.shape == (count, 24, 24, 1) and after.observation.dtype == tf.uint8
    assert ends > 5


def test_a_pole_upright_in_the_middle_is_two_pixels_wide_on_a_cart_of_five():
    picture = pictures([0.0, 1.0, 0.0, -1.0])[0]
    pole = np.zeros(24)
    pole[11:13] = 255
    # The end is round: sqrt(0.5) pixels from its middle, 0.793 of the pixel is covered.
    np.testing.assert_array_equal(picture[1], np.round(pole * (1.5 - 0.5**0.5)))
    for row in range(2, 20):
        np.testing.assert_array_equal(picture[row], pole)
    cart = np.zeros(24)
    cart[9:15], cart[[9, 14]] = 255, 128  # 2.5 pixels to either side: half of the last ones
    for row in (20, 21):
        np.testing.assert_array_equal(picture[row], cart)
    assert not picture[0].any() and not picture[22:].any()


def test_the_angle_is_drawn_four_times_as_large():
    """The pole's middle, 9 pixels from its axle, of 0.1 rad: 9 sin(0.4) to the right, 9 cos(0.4) above."""
    picture = pictures([0.0, 0.0, 0.1, 0.0])[0].astype(np.float64)
    column, row = 12.0 + 9.0 * np.sin(0.4), 20.0 - 9.0 * np.cos(0.4)
    line = picture[int(row)]
    found = (line * (np.arange(24) + 0.5)).sum() / line.sum()
    # That row of pixels is cut by the pole at its own middle, not at `row` itself.
    assert abs(found - (column - (int(row) + 0.5 - row) * np.tan(0.4))) < 0.05
    np.testing.assert_array_equal(pictures([0.0, 0.0, -0.1, 0.0])[0][:, ::-1], picture)


def test_the_cart_moves_by_ten_pixels_to_the_end_of_its_track():
    rows = pictures([-2.4, 0, 0, 0], [0, 0, 0, 0], [1.2, 0, 0, 0], [0.12, 0, 0, 0])[:, 20].astype(np.float64)
    centres = (rows * (np.arange(24) + 0.5)).sum(1) / rows.sum(1)
    np.testing.assert_allclose(centres[1:], [12.0, 17.0, 12.5], atol=0.05)
    assert rows[0, :4].all() and not rows[0, 5:].any()  # half of the cart is still seen


def test_velocities_are_not_seen():
    one, other = pictures([0.3, 2.0, 0.05, 1.0], [0.3, -2.0, 0.05, -1.0])
    np.testing.assert_array_equal(one, other)


@pytest.mark.filterwarnings("ignore")
def test_gymnasium_has_it_with_the_same_spaces_and_limit():
    env, graph = make_gym_env(ENV_ID), make_env(ENV_ID, "graph", 1)
    check_env(env.unwrapped, skip_render_check=True)
    assert env.observation_space == graph.observation_space and env.action_space == graph.action_space
    first, _ = env.reset(seed=3)
    np.testing.assert_array_equal(first, graph.reset(random.key(3))[1].observation[0])
    rows = [env.step(1)]  # pushed to one side, it falls
    while not rows[-1][2]:
        rows.append(env.step(1))
    assert len(rows) < 15 and all(reward == 1.0 for _, reward, *_ in rows)
