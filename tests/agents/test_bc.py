"""Behaviour cloning: likelihoods by hand, and the policy that data are fitted by."""

from __future__ import annotations

import math

import numpy as np
import own_data
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch

from rl.errors import UsageError
from rl.ops import random
from rl.runners.evaluate import Evaluator
from rl.types import SequenceBatch, Trajectory

SEED = random.key(0)
LSTM = {"model.name": "lstm", "model.recurrent_units": 8}


def constant(network, parameters):
    """Makes the policy's parameters the same everywhere."""
    network.policy.kernel.assign(tf.zeros_like(network.policy.kernel))
    network.policy.bias.assign(tf.constant(parameters, tf.float32))


def test_the_loss_of_discrete_actions_is_the_cross_entropy(make_agent, make_batch):
    agent = make_agent("bc")
    constant(agent.network, np.log([0.5, 0.3, 0.2]))
    batch = make_batch(count=3, action=np.array([0, 1, 2]), mask=np.array([1.0, 1.0, 0.0]))
    loss, metrics, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(loss, [-math.log(0.5), -math.log(0.3), 0.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["log_prob"], (math.log(0.5) + math.log(0.3)) / 2.0, rtol=1e-5)
    assert priorities is None


def test_the_loss_of_bounded_actions_is_the_density_of_a_normal_within_the_bounds(make_agent, make_batch):
    """Within -2 and 4 the mean is 1 + 3 tanh(0.5) = 2.386351, the deviation 3 exp(-1) = 1.103638."""
    agent = make_agent("bc", action_space=BOX)
    constant(agent.network, [0.5])
    agent.network.log_std.assign([-1.0])
    batch = box_batch(make_batch, [[2.5]])
    log_prob = -0.5 * ((2.5 - 2.386351) / 1.103638) ** 2 - math.log(1.103638) - 0.918939
    np.testing.assert_allclose(agent.loss(batch, SEED)[0], [-log_prob], rtol=1e-5)


def test_means_of_actions_without_bounds_are_anywhere(make_agent, make_batch):
    agent = make_agent("bc", action_space=spaces.Box(-np.inf, np.inf, (1,), np.float32))
    constant(agent.network, [7.0])
    found = agent.network(make_batch(count=1).observation)
    np.testing.assert_allclose(found.mode(), [[7.0]])
    np.testing.assert_allclose(found.log_prob(tf.constant([[8.0]])), [-0.5 - 0.918939], rtol=1e-5)


def test_deviations_stay_where_data_agree(make_agent, make_batch):
    agent = make_agent("bc", action_space=BOX)
    agent.network.log_std.assign([-50.0])
    found = agent.network(box_batch(make_batch, [[2.5]]).observation)
    np.testing.assert_allclose(found.log_std, [[math.log(3.0) - 5.0]], rtol=1e-5)


def test_it_does_what_most_of_the_data_do(build, tmp_path):
    """They push the cart to where the pole falls in nine of ten steps."""
    right = own_data.mostly(lambda seen: int(seen[2] + 0.5 * seen[3] > 0.0), spaces.Discrete(2), 0.8)
    data = own_data.play(tmp_path / "data", "CartPole-v1", right, episodes=10)
    runner = build("bc_cartpole", data=str(tmp_path / "data"))
    assert runner.run(20)["updates"] == 1000.0
    evaluator = Evaluator(runner.agent, 5)
    assert evaluator.run(0).returns.mean() > max(data.returns.mean(), 400.0)
    evaluator.close()


def sequences(observation, action, mask, state):
    """A `SequenceBatch` of all that is given, time first."""
    flags = tf.zeros(mask.shape, tf.bool)
    steps = Trajectory(observation, action, tf.zeros(mask.shape), flags, flags, mask, {}, state)
    ones = tf.ones([mask.shape[1]])
    return SequenceBatch(steps, ones, tf.range(mask.shape[1]), ones)


def test_with_memory_its_loss_is_that_of_playing_the_sequence_from_where_its_burn_in_begins(make_agent):
    """Three steps of burn-in and two to learn from: the first sequence begins with its episode, after two
    steps that are none; of the second one the last step is none."""
    agent = make_agent("bc", **LSTM, burn_in=3, unroll_length=2)
    assert agent.experience == "sequence"
    rng = np.random.default_rng(0)
    agent.network.policy.kernel.assign(rng.normal(size=agent.network.policy.kernel.shape))
    seen = tf.constant(rng.normal(size=(6, 2, 3)), tf.float32)
    action = tf.constant(rng.integers(0, 3, (5, 2)), tf.int32)
    mask = tf.constant([[0, 1], [0, 1], [1, 1], [1, 1], [1, 0]], tf.float32)
    batch = sequences(seen, action, mask, agent.network.initial_state(2))
    loss, metrics, _ = agent.loss(batch, SEED)

    def played(column, begin):
        state, log_probs = agent.network.initial_state(1), []
        for t in range(begin, 5):
            output = agent.policy(seen[t, column : column + 1], state, SEED, True)
            state = output.recurrent_state
            log_probs.append(float(output.distribution.log_prob(action[t, column : column + 1])[0]))
        return log_probs

    first, second = played(0, 2)[1:], played(1, 0)[3:4]
    np.testing.assert_allclose(loss, [-sum(first) / 2.0, -second[0] / 2.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["log_prob"], (sum(first) + second[0]) / 3.0, rtol=1e-5)


class Balance:
    """Pushes the cart to where the pole falls, by velocities that it has to remember positions for."""

    def __init__(self):
        self.last = None

    def __call__(self, seen, rng):
        angle = float(seen[1])
        speed = 0.0 if self.last is None or abs(angle - self.last) > 0.08 else (angle - self.last) / 0.02
        self.last = angle
        return int(angle + 0.5 * speed > 0.0)


@pytest.mark.slow
def test_a_clone_with_memory_does_what_needs_memory(build, tmp_path):
    """Pushing to where the pole leans, which needs none, falls within 60 steps."""
    data = own_data.play(tmp_path / "data", "CartPoleNoVel-v1", Balance(), episodes=10)
    assert data.returns.mean() > 150.0
    runner = build("bc_cartpole_no_velocity", data=str(tmp_path / "data"), **{"model.recurrent_units": 32})
    assert runner.run(12)["updates"] == 600.0
    evaluator = Evaluator(runner.agent, 5)
    assert evaluator.run(0).returns.mean() > 120.0
    evaluator.close()


def test_others_that_learn_from_data_refuse_models_with_memory_in_one_line(make_agent):
    with pytest.raises(UsageError, match="marwil cannot learn with model lstm, which keeps state"):
        make_agent("marwil", **LSTM)
