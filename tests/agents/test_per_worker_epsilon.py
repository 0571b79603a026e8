"""Exploration of Ape-X: an epsilon for each environment, of all workers together."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.agents.algos.act_select.per_worker_epsilon import PerWorkerEpsilon
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import PolicyOutput

# 0.4^(1 + 7 i / 3), Horgan et al. 2018, section 4.1 with N = 4, worked by hand
FOUR = [0.4, 0.047156, 0.0055591, 0.00065536]


def test_environments_explore_from_much_to_little():
    select = PerWorkerEpsilon(resolve("apex_dqn_cartpole", {"num_envs": 4}))
    np.testing.assert_allclose(select.epsilon(tf.constant(0)), FOUR, rtol=1e-4)
    np.testing.assert_allclose(select.epsilon(tf.constant(10**6)), FOUR, rtol=1e-4)


def test_workers_share_one_sequence():
    select = PerWorkerEpsilon(resolve("apex_dqn_cartpole", {"num_envs": 2}))
    select.act_for(2, 2, 4)
    np.testing.assert_allclose(select.epsilon(tf.constant(0)), FOUR[2:], rtol=1e-4)
    np.testing.assert_allclose(select.variables["act_select/epsilon"].numpy(), FOUR[2:], rtol=1e-4)


def test_the_first_environment_takes_random_actions_as_often_as_it_should():
    select = PerWorkerEpsilon(resolve("apex_dqn_cartpole", {"num_envs": 2}))
    values = PolicyOutput(q_values=tf.constant([[0.0, 1.0], [0.0, 1.0]]))
    choose = tf.function(lambda seed: select(values, seed, tf.constant(0), True)[0], autograph=False)
    wrong = np.zeros(2)
    for i in range(400):
        wrong += choose(random.key(i)).numpy() == 0
    assert 50 < wrong[0] < 115  # half of 0.4 * 400 = 80, within 4 standard deviations
    assert wrong[1] <= 3  # half of 0.00066 * 400
