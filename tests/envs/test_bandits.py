"""Contextual bandits: rewards and regret in numpy, and tables that are refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph.classification_bandit import ClassificationBandit
from rl.envs.graph.linear_bandit import LinearBandit
from rl.envs.graph.wheel_bandit import WheelBandit
from rl.envs.graph.wrappers import PreviousActionReward
from rl.errors import UsageError
from rl.ops import random

COUNT = 5_000


def test_an_arm_pays_its_weights_times_the_context_and_noise():
    env = LinearBandit(COUNT, arms=3, features=4, noise=0.5, seed=2)
    state, first = env.reset(random.key(0))
    context = first.observation.numpy()
    np.testing.assert_allclose(np.linalg.norm(context, axis=1), 1.0, rtol=1e-5)
    action = random.randint(random.key(1), [COUNT], 3)
    _, after = env.step(state, action, random.key(2))
    expected = context @ env.weights.T
    chosen = expected[np.arange(COUNT), action.numpy()]
    noise = after.reward.numpy() - chosen
    assert abs(noise.mean()) < 0.03 and abs(noise.std() - 0.5) < 0.02 and after.terminated.numpy().all()
    regret = env.regret(first.observation, action, after.reward)
    np.testing.assert_allclose(regret, expected.max(1) - chosen, rtol=1e-4, atol=1e-6)
    assert (LinearBandit(1, seed=2).weights == LinearBandit(1, seed=2).weights).all()
    assert (LinearBandit(1, seed=2).weights != LinearBandit(1, seed=3).weights).any()


def test_regret_is_known_where_the_arm_before_is_told():
    told = PreviousActionReward(LinearBandit(4, seed=2))
    state, first = told.reset(random.key(0))
    action = tf.constant([0, 1, 2, 3])
    _, after = told.step(state, action, random.key(2))
    own = told.env.regret(first.observation["observation"], action, after.reward)
    np.testing.assert_array_equal(told.regret(first.observation, action, after.reward), own)


def test_naming_the_class_of_a_row_of_a_file_pays_1(tmp_path):
    x, y = np.array([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]), np.array([0, 2, 1])
    np.savez(tmp_path / "table.npz", x=x, y=y)
    env = ClassificationBandit(64, data=str(tmp_path / "table.npz"))
    assert env.action_space.n == 3
    state, first = env.reset(random.key(0))
    rows = state.physics.numpy()
    assert set(rows) == {0, 1, 2}
    np.testing.assert_array_equal(first.observation, x[rows])
    action = tf.constant([i % 3 for i in range(64)])
    _, after = env.step(state, action, random.key(1))
    np.testing.assert_array_equal(after.reward, y[rows] == action.numpy())
    np.testing.assert_array_equal(env.regret(first.observation, action, after.reward), 1.0 - after.reward)


@pytest.mark.parametrize(
    ("point", "best"),
    [((0.6, 0.6), 1), ((0.6, -0.6), 2), ((-0.6, 0.6), 3), ((-0.6, -0.6), 4), ((0.3, 0.3), 0)],
)
def test_a_wheel_pays_50_by_quadrant_beyond_its_radius_and_1_2_for_the_sure_arm(point, best):
    # Riquelme et al. 2018, section 5.3: mu_1 = 1.2, mu_2 = 1.0, mu_3 = 50.0, sigma = 0.01.
    env = WheelBandit(5, delta=0.5)
    state, first = env.reset(random.key(0))
    points, action = tf.tile(tf.constant([point]), [5, 1]), tf.range(5)
    _, after = env.step(state._replace(physics=points), action, random.key(1))
    wanted = np.array([1.2, 1.0, 1.0, 1.0, 1.0])
    wanted[best] = wanted[best] if best == 0 else 50.0
    np.testing.assert_allclose(after.reward, wanted, atol=0.05)
    assert after.terminated.numpy().all() and first.observation.shape == (5, 2)
    np.testing.assert_allclose(env.regret(points, action, after.reward), wanted.max() - wanted, atol=1e-5)


def test_points_of_a_wheel_are_uniform_over_the_disc():
    points = WheelBandit(COUNT).reset(random.key(0))[1].observation.numpy()
    radius = np.linalg.norm(points, axis=1)
    for r in (0.3, 0.5, 0.8):
        assert abs((radius < r).mean() - r * r) < 0.02
    assert radius.max() <= 1.0 + 1e-6 and abs(np.sign(points).mean(0)).max() < 0.05


def test_tables_and_options_that_are_none_are_one_line(tmp_path):
    np.savez(tmp_path / "flat.npz", x=np.zeros(3), y=np.zeros(3, int))
    for name, said in (("flat.npz", "needs numbers x"), ("nothing.npz", "needs an .npz file")):
        with pytest.raises(UsageError, match=said):
            ClassificationBandit(1, data=str(tmp_path / name))
    with pytest.raises(UsageError, match="two arms and a feature"):
        LinearBandit(1, arms=1)
    with pytest.raises(UsageError, match="is no radius"):
        WheelBandit(1, delta=1.0)
