"""Random sequences for agents that learn from them, of the spaces of tests/agents/conftest.py."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.types import SequenceBatch, Trajectory


def drawn(generator, space, length, count):
    """Random actions [length, count, ...] of a space."""
    if isinstance(space, spaces.Discrete):
        return tf.constant(generator.integers(0, space.n, (length, count)), tf.int32)
    return tf.constant(generator.uniform(space.low, space.high, (length, count, *space.shape)), tf.float32)


def sequences(agent, seed=0, count=5):
    """Random sequences [7, N] in the agent's spaces, with episode ends and autoreset steps."""
    generator, length = np.random.default_rng(seed), 7
    mask, terminated, truncated = np.ones((length, count)), *(np.zeros((length, count), bool) for _ in "tt")
    terminated[[1, 4], [0, 1]] = truncated[[0, 5], [2, 3]] = True
    mask[1:][(terminated | truncated)[:-1]] = 0.0
    state = agent.starting_state(count)
    state = tf.nest.map_structure(lambda x: tf.constant(generator.normal(size=x.shape), tf.float32), state)
    trajectory = Trajectory(
        tf.constant(generator.normal(size=(length + 1, count, 3)), tf.float32),
        drawn(generator, agent.action_space, length, count),
        tf.constant(generator.normal(size=(length, count)) * 3.0 * mask, tf.float32),
        tf.constant(terminated),
        tf.constant(truncated),
        tf.constant(mask, tf.float32),
        {},
        state,
    )
    weight = tf.constant(generator.random(count) + 0.1, tf.float32)
    valid = tf.constant([1.0, 1, 1, 1, 0][:count])
    return SequenceBatch(trajectory, weight * valid, tf.range(count), valid)
