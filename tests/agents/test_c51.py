"""C51: its loss worked by hand and in numpy, its atoms, its switches."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.ops import random

SEED = random.key(0)
THREE_ATOMS = {"atoms": 3, "value_min": 0.0, "value_max": 2.0}
FIRST, SECOND = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]  # means 0.75 and 1.25


def relu(x):
    return np.maximum(x, 0.0)


def softmax(x):
    return np.exp(x) / np.exp(x).sum(-1, keepdims=True)


def set_distributions(network, *rows):
    """Whatever the observation, the actions have these probabilities."""
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable))
    network.advantage.bias.assign(np.log(np.concatenate(rows)))


def test_loss_and_priorities_worked_by_hand(make_agent, make_batch):
    agent = make_agent("c51", **THREE_ATOMS)
    set_distributions(agent.network, FIRST, SECOND, SECOND)
    set_distributions(agent.target_network, FIRST, SECOND, FIRST)
    fields = {"action": [0, 1], "reward": [0.5, 3.0], "discount": [0.5, 0.0], "sample_weight": [1.0, 0.5]}
    zeros = np.zeros((2, 3))
    batch = make_batch(count=2, observation=zeros, next_observation=zeros, mask=np.ones(2), **fields)
    found, metrics, priorities = agent.loss(batch._replace(index=tf.range(2)), SEED)
    # 1: the target's best action is 1; its atoms move to 0.5, 1, 1.5, so that the target is
    #    0.25 / 2 at 0, 0.25 / 2 + 0.25 + 0.5 / 2 at 1, 0.5 / 2 at 2: [0.125, 0.625, 0.25], mean 1.125.
    #    Cross-entropy with FIRST: 0.125 ln 2 + 0.875 ln 4 = 1.875 ln 2. Means differ by 0.375.
    # 2: terminal, reward 3 beyond the atoms: [0, 0, 1]. With SECOND: ln 2, weight 0.5. Means: 2 - 1.25.
    np.testing.assert_allclose(found, [1.875 * np.log(2), 0.5 * np.log(2)], rtol=1e-5)
    np.testing.assert_allclose(priorities, [0.375, 0.75], rtol=1e-5)
    np.testing.assert_allclose(metrics["q_value"], 1.0, rtol=1e-5)
    np.testing.assert_allclose(metrics["td_error"], (0.375 + 0.75) / 2, rtol=1e-5)


@pytest.mark.parametrize("double", [False, True])
def test_loss_and_priorities_equal_numpy(make_agent, make_batch, forward, double):
    agent = make_agent("c51", double=double, atoms=7, value_min=-5.0, value_max=4.0)
    for i, variable in enumerate(agent.target_network.trainable_variables):
        variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)
    batch = make_batch(count=30, mask=np.array([1.0, 1, 0, 1, 1] * 6))
    atoms, rows = np.linspace(-5.0, 4.0, 7), np.arange(30)

    def probabilities(network, observation):
        logits = forward(network.torso, network.advantage, observation, relu)
        return softmax(logits.reshape(30, 3, 7))

    chosen = probabilities(agent.network, batch.observation)[rows, batch.action]
    following = probabilities(agent.target_network, batch.next_observation)
    selector = probabilities(agent.network, batch.next_observation) if double else following
    following = following[rows, (selector * atoms).sum(-1).argmax(-1)]
    place = (np.clip(batch.reward[:, None] + batch.discount[:, None] * atoms, -5.0, 4.0) + 5.0) / 1.5
    target = np.zeros((30, 7))
    for j in range(7):
        lower = np.floor(place[:, j]).astype(int)
        share = place[:, j] - lower
        target[rows, lower] += following[:, j] * (1.0 - share)
        target[rows, np.minimum(lower + 1, 6)] += following[:, j] * share
    each = -(target * np.log(chosen)).sum(-1)
    error = ((target - chosen) * atoms).sum(-1)

    found, metrics, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(found, each * batch.sample_weight * batch.mask, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(priorities, np.abs(error), rtol=1e-3, atol=1e-4)
    counted = np.asarray(batch.mask) > 0
    np.testing.assert_allclose(metrics["td_error"], np.abs(error)[counted].mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["q_value"], (chosen * atoms).sum(-1)[counted].mean(), rtol=1e-4)


def test_action_values_are_the_means(make_agent):
    agent = make_agent("c51", **THREE_ATOMS)
    set_distributions(agent.network, FIRST, SECOND, [0.0001, 0.9998, 0.0001])
    found = agent.policy(tf.zeros([2, 3]), (), SEED, True).q_values
    np.testing.assert_allclose(found, [[0.75, 1.25, 1.0]] * 2, rtol=1e-4)


def test_dueling_streams_have_atoms_each(make_agent):
    network = make_agent("c51", dueling=True, **THREE_ATOMS).network
    assert network.value.kernel.shape[-1] == 3 and network.advantage.kernel.shape[-1] == 9


@pytest.mark.parametrize("overrides", [{"value_min": 1.0, "value_max": 1.0}, {"value_min": 20.0}])
def test_an_empty_range_of_atoms_is_refused(make_agent, overrides):
    with pytest.raises(UsageError, match=r"value_min=.* is not below value_max"):
        make_agent("c51", **overrides)


def test_one_atom_is_refused(make_agent):
    with pytest.raises(UsageError, match=r"atoms=1: needs an integer >= 2"):
        make_agent("c51", atoms=1)
