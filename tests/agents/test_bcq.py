"""BCQ for continuous actions: candidates, targets and losses by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from known_networks import BOX, box_batch, linear_critic, same, values

from rl.export.program import Program
from rl.ops import random

SEED = random.key(0)


def constant(part, output):
    """A part of the network gives `output` whatever comes in."""
    for variable in part.trainable_variables:
        variable.assign(0.0 * variable)
    part.value.bias.assign(np.reshape(output, part.value.bias.shape))


@pytest.fixture
def known(make_agent):
    """Actions like those of the data are tanh(0.5) = 0.462117, changed by 0.1 tanh(1) = 0.076159, in the
    target by nothing; Q = 2 a + 1 and a + 0.5; Q' = 3 a - 1 and 2 - a."""
    agent = make_agent("bcq", action_space=BOX, perturbation=0.1, minimum_weight=0.75, target_actions=3)
    constant(agent.network.decoder, [0.5])
    constant(agent.network.perturbation, [1.0])
    constant(agent.target_network.perturbation, [0.0])
    linear_critic(agent.network.critic, [2.0, 1.0], [1.0, 0.5])
    linear_critic(agent.target_network.critic, [3.0, -1.0], [-1.0, 2.0])
    return agent


def test_targets_weigh_the_lesser_critic_and_the_greater(known, make_batch):
    batch = box_batch(make_batch, [[2.5]], reward=np.ones(1), discount=np.array([0.9]))
    mixed = 0.75 * (3.0 * 0.462117 - 1.0) + 0.25 * (2.0 - 0.462117)
    np.testing.assert_allclose(known.target(batch, SEED), [1.0 + 0.9 * mixed], rtol=1e-5)
    # Q of the action 0.5 are 2 and 1.
    errors = 1.0 + 0.9 * mixed - np.array([2.0, 1.0])
    loss = known.loss(batch._replace(sample_weight=np.ones(1, np.float32)), SEED)[0]
    np.testing.assert_allclose(loss, [(errors**2).sum()], rtol=1e-4)


def test_actions_are_perturbed_and_brought_to_the_bounds(known, make_batch):
    seen = make_batch(count=2).observation
    np.testing.assert_allclose(known.best_action(seen, SEED), [[0.538276]] * 2, rtol=1e-5)
    found = known.policy(seen, (), SEED, False).distribution.mode()
    np.testing.assert_allclose(found, [[1.0 + 3.0 * 0.538276]] * 2, rtol=1e-5)
    constant(known.network.decoder, [9.0])
    np.testing.assert_allclose(known.best_action(seen, SEED), [[1.0]] * 2)


def test_an_exported_policy_is_given_what_its_candidates_are_drawn_from(make_agent):
    agent = make_agent("bcq", action_space=BOX, sampled_actions=4)
    _, drawn = Program(agent, 3, lambda action: action).inputs  # after the observation
    assert (drawn.kind, drawn.shape) == ("normal", (3, 4 * agent.network.latent))


def test_the_perturbation_climbs_the_first_critic(known, make_batch):
    # 2 * 0.538276 + 1
    batch = box_batch(make_batch, [[2.5], [2.5]], mask=np.array([1.0, 0.0]))
    np.testing.assert_allclose(known.policy_loss(batch, SEED)[0], [-2.076552, 0.0], rtol=1e-5)


@pytest.mark.parametrize("slope", [2.0, -2.0])
def test_of_many_actions_the_best_by_the_first_critic_is_taken(make_agent, make_batch, slope):
    agent = make_agent("bcq", action_space=BOX, sampled_actions=7)
    linear_critic(agent.network.critic, [slope, -slope], [0.0, 0.0])
    seen = make_batch(count=5).observation
    _, action = agent.candidates(agent.network, seen, 7, SEED)
    choose = np.max if slope > 0.0 else np.min
    each = np.reshape(action, [5, 7, 1])
    assert each.std(1).min() > 0.0
    np.testing.assert_allclose(agent.best_action(seen, SEED), choose(each, 1), rtol=1e-5)


def test_the_auto_encoders_loss_by_hand(known, make_batch):
    constant(known.network.recognition, [0.2, 0.2, math.log(0.5), math.log(0.5)])
    batch = box_batch(make_batch, [[2.5], [-2.0]], mask=np.array([1.0, 0.0]))
    loss, metrics, _ = known.generator_loss(batch, SEED)
    # -0.5 (1 + 2 log 0.5 - 0.2^2 - 0.5^2) = 0.338147 for each latent number
    np.testing.assert_allclose(metrics["divergence"], 0.338147, rtol=1e-5)
    np.testing.assert_allclose(metrics["reconstruction_loss"], 0.037883**2, rtol=1e-3)
    np.testing.assert_allclose(loss, [0.037883**2 + 0.5 * 0.338147, 0.0], rtol=1e-4)


def test_generated_actions_come_from_the_middle_of_the_latent_space(make_agent, make_batch):
    network = make_agent("bcq", action_space=BOX).network
    seen = make_batch(count=2).observation
    far = network.generated(seen, tf.constant([[9.0, -9.0], [0.5, -0.5]]))
    np.testing.assert_allclose(far[0], network.generated(seen, tf.constant([[0.5, -0.5]] * 2))[0])


def test_each_part_learns_from_its_own_loss_alone(make_agent, make_batch):
    agent = make_agent("bcq", action_space=BOX, lr=0.01)
    batch = box_batch(make_batch, np.ones((6, 1)))
    network = agent.network
    parts = {"network": [network.perturbation], "critic": [network.critic]}
    parts["generator"] = [network.recognition, network.decoder]
    losses = {"network": agent.policy_loss, "critic": agent.loss, "generator": agent.generator_loss}
    for name, loss in losses.items():
        before = {key: [values(each) for each in modules] for key, modules in parts.items()}
        agent.gradient_step(batch, SEED, name, loss)
        for key, modules in parts.items():
            changed = [not same(values(each), old) for each, old in zip(modules, before[key], strict=True)]
            assert changed == [key == name] * len(modules)
