"""Rainbow: six parts, each of which can be taken away, and priorities from the KL divergence."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.hparams.merge import resolve
from rl.memory.prioritized import Prioritized
from rl.models.layers import NoisyDense
from rl.ops import random

SEED = random.key(0)


def test_all_six_parts_are_on(make_agent, build):
    agent = make_agent("rainbow")
    hparams, network = agent.hparams, agent.network
    assert hparams.double and hparams.n_step == 3
    assert network.dueling and network.atoms == 51
    assert all(isinstance(each, NoisyDense) for each in (network.value_hidden, network.advantage_hidden))
    assert all(isinstance(each, NoisyDense) for each in (network.value, network.advantage))
    assert hparams.act_select_name == "greedy"
    assert isinstance(build("rainbow_identity").memory, Prioritized)


def test_the_hyperparameters_are_those_of_table_1():
    hparams = resolve("rainbow", {"env": "Test-v0"})
    assert (hparams.noisy_sigma, hparams.priority_exponent) == (0.5, 0.5)
    assert (hparams.importance_sampling_exponent, hparams.importance_sampling_exponent_end) == (0.4, 1.0)
    assert (hparams.value_min, hparams.value_max, hparams.adam_epsilon) == (-10.0, 10.0, 1.5e-4)


PARTS = ["noisy", "double", "dueling", "prioritized"]


@pytest.mark.parametrize("part", PARTS)
def test_each_part_can_be_taken_away(build, part):
    runner = build("rainbow_identity", **{part: False})
    agent, memory = runner.agent, runner.memory
    assert isinstance(memory, Prioritized) == (part != "prioritized")
    assert agent.network.dueling == (part != "dueling")
    assert isinstance(agent.network.advantage, NoisyDense) == (part != "noisy")
    assert agent.hparams.act_select_name == ("epsilon_greedy" if part == "noisy" else "greedy")


@pytest.mark.slow
@pytest.mark.parametrize("part", PARTS)
def test_it_trains_without_each_part(build, part):
    sums = build("rainbow_identity", **{part: False}).run(8)
    assert sums["updates"] > 0 and np.isfinite(sums["loss"])


def test_priorities_are_the_kl_divergence_worked_by_hand(make_agent, make_batch):
    agent = make_agent("rainbow", noisy=False, dueling=False, atoms=3, value_min=0.0, value_max=2.0)
    first, second = [0.5, 0.25, 0.25], [0.25, 0.25, 0.5]
    for network in (agent.network, agent.target_network):
        for variable in network.trainable_variables:
            variable.assign(tf.zeros_like(variable))
        network.advantage.bias.assign(np.log(first + second + first))
    fields = {"action": [1, 0], "reward": [0.0, 1.0], "discount": [1.0, 0.0], "sample_weight": [1.0, 1.0]}
    zeros, ones = np.zeros((2, 3)), np.ones(2)
    batch = make_batch(count=2, observation=zeros, next_observation=zeros, mask=ones, **fields)
    found, metrics, priorities = agent.loss(batch, SEED)
    # 1: the best next action is 1 and nothing moves: the target is `second` itself, its entropy 1.5 ln 2.
    # 2: terminal, reward 1: [0, 1, 0] against `first`: ln 4, and no entropy.
    np.testing.assert_allclose(found, [1.5 * np.log(2), 2 * np.log(2)], rtol=1e-5)
    np.testing.assert_allclose(priorities, [0.0, 2 * np.log(2)], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(metrics["kl_divergence"], np.log(2), rtol=1e-5)


@pytest.mark.slow
def test_what_is_learned_is_replayed_less_than_what_is_not(build):
    runner = build("rainbow_identity")
    runner.run(40)
    memory = runner.memory
    memory.check_valid()
    leaves = memory.tree.leaves()
    leaves = leaves[leaves > 0]
    assert leaves.max() > 2 * leaves.min()
