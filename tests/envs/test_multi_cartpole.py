"""Several CartPoles at once are single ones, and whose pole is down has left."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph.cartpole import CartPole
from rl.envs.graph.multi_cartpole import MultiCartPole, PolesPhysics
from rl.errors import UsageError
from rl.ops import random


def test_each_agent_has_a_cartpole_of_its_own_until_it_falls() -> None:
    env, single, rng = MultiCartPole(2, agents=3), CartPole(6), np.random.default_rng(0)
    assert env.agent_names == ("agent_0", "agent_1", "agent_2")
    assert (env.observation_space, env.action_space) == (single.observation_space, single.action_space)
    physics = env.initial(random.key(1))
    alone, down = tf.reshape(physics.carts, [6, 4]), np.zeros(6, bool)
    for _ in range(60):
        action = rng.integers(2, size=6)
        physics, reward, terminated = env.dynamics(physics, tf.constant(action.reshape(2, 3)), random.key(0))
        moved, _, fallen = single.dynamics(alone, tf.constant(action), random.key(0))
        np.testing.assert_array_equal(
            reward.numpy().ravel(), 1.0 - down
        )  # also of the step in which it falls
        alone = tf.where(down[:, None], alone, moved)  # who has fallen stays as it fell
        down |= fallen.numpy()
        np.testing.assert_array_equal(terminated.numpy().ravel(), down)
        np.testing.assert_array_equal(tf.reshape(env.observe(physics), [6, 4]), alone)
    assert down.sum() > 0


def test_poles_fall_one_by_one() -> None:
    env = MultiCartPole(1, agents=2)
    carts = tf.constant([[[0.0, 0.0, 0.0, 0.0], [0.0, 0.0, 0.209, 1.0]]])
    physics, reward, terminated = env.dynamics(
        PolesPhysics(carts, tf.zeros([1, 2], tf.bool)), tf.constant([[0, 0]]), random.key(0)
    )
    np.testing.assert_array_equal(terminated, [[False, True]])
    np.testing.assert_array_equal(reward, [[1.0, 1.0]])
    _, reward, terminated = env.dynamics(physics, tf.constant([[1, 0]]), random.key(0))
    np.testing.assert_array_equal(terminated, [[False, True]])
    np.testing.assert_array_equal(reward, [[1.0, 0.0]])


def test_no_agents_are_refused() -> None:
    with pytest.raises(UsageError, match="agents must be at least 1"):
        MultiCartPole(1, agents=0)
