"""DQN: its loss in numpy, its target network, its switches, and values it must find."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.ops import random

SEED = random.key(0)


def relu(x):
    return np.maximum(x, 0.0)


def perturb_target(agent):
    """A target network that differs from the online one in every weight."""
    for i, variable in enumerate(agent.target_network.trainable_variables):
        variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)


@pytest.mark.parametrize("double", [False, True])
@pytest.mark.parametrize("loss", ["huber", "mse"])
def test_loss_and_priorities_equal_numpy(make_agent, make_batch, forward, double, loss):
    agent = make_agent("dqn", double=double, loss=loss, huber_delta=0.7)
    perturb_target(agent)
    batch = make_batch(count=30, mask=np.array([1.0, 1, 0, 1, 1] * 6))

    def q_values(network, observation):
        return forward(network.torso, network.advantage, observation, relu)

    rows = np.arange(30)
    chosen = q_values(agent.network, batch.observation)[rows, batch.action]
    following = q_values(agent.target_network, batch.next_observation)
    selector = q_values(agent.network, batch.next_observation) if double else following
    target = batch.reward + batch.discount * following[rows, selector.argmax(-1)]
    error = np.asarray(target - chosen)
    inside = np.abs(error) <= 0.7
    each = np.where(inside, error**2 / 2, 0.7 * (np.abs(error) - 0.35)) if loss == "huber" else error**2
    assert inside.any() and not inside.all()

    found, metrics, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(found, each * batch.sample_weight * batch.mask, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(priorities, np.abs(error), rtol=1e-4, atol=1e-5)
    counted = np.asarray(batch.mask) > 0
    np.testing.assert_allclose(metrics["td_error"], np.abs(error)[counted].mean(), rtol=1e-4)
    np.testing.assert_allclose(metrics["q_value"], chosen[counted].mean(), rtol=1e-4)


@pytest.mark.parametrize(
    ("double", "target"),
    [
        (False, [3.7, 2.0]),  # 1 + 0.9 * max(1, 3); the second state is terminal: its reward alone
        (
            True,
            [1.9, 2.0],
        ),  # the network prefers action 0 (2 > 1), worth 1 to the target network: 1 + 0.9 * 1
    ],
)
def test_targets_are_those_worked_by_hand(make_agent, make_batch, double, target):
    agent, batch = make_agent("dqn", double=double), make_batch(count=2)
    selector, following = tf.constant([[2.0, 1.0], [0.0, 1.0]]), tf.constant([[1.0, 3.0], [5.0, 4.0]])
    agent.network = lambda x, training: selector if x is batch.next_observation else tf.zeros([2, 2])
    agent.target_network = lambda x, training: following
    ones = tf.ones([2])
    batch = batch._replace(
        action=tf.constant([0, 1]),
        reward=tf.constant([1.0, 2.0]),
        discount=tf.constant([0.9, 0.0]),
        mask=ones,
        sample_weight=ones,
    )
    np.testing.assert_allclose(agent.loss(batch, SEED)[2], target, rtol=1e-6)


def test_double_changes_the_target(make_agent, make_batch):
    batch = make_batch(count=50, discount=np.full(50, 0.9))
    losses = []
    for double in (False, True):
        agent = make_agent("dqn", double=double)
        perturb_target(agent)
        losses.append(agent.loss(batch, SEED)[0].numpy())
    assert (losses[0] != losses[1]).any()


def test_the_gradient_does_not_flow_through_the_target(make_agent, make_batch):
    agent = make_agent("dqn")
    batch = make_batch(observation=np.zeros((6, 3)))
    with tf.GradientTape() as tape:
        loss = agent.loss(batch, SEED)[0]
    kernel = agent.network.torso.layers[0].kernel.value
    # Observations are 0, so only next_observation could move the first kernel.
    np.testing.assert_array_equal(tape.gradient(loss, kernel), tf.zeros_like(kernel))


def test_sample_weights_scale_each_examples_gradient(make_agent, make_batch):
    batch = make_batch(sample_weight=np.array([1.0, 0, 0, 0, 0, 0]))
    first_alone = make_batch(sample_weight=np.ones(6), mask=np.array([1.0, 0, 0, 0, 0, 0]))
    agent = make_agent("dqn")
    weighted, masked = agent.loss(batch, SEED)[0], agent.loss(first_alone, SEED)[0]
    np.testing.assert_array_equal(weighted, masked)
    assert weighted[0] > 0.0


def test_masked_transitions_have_no_influence_on_the_update(make_agent, make_batch, snapshot):
    mask = np.array([1.0, 0, 1, 1, 0, 1])
    results = []
    for content in (0, 1):
        batch = make_batch(0, mask=mask)
        other = make_batch(99 + content)
        batch = tf.nest.map_structure(
            lambda mine, theirs: tf.where(mask.reshape([-1] + [1] * (mine.ndim - 1)) > 0, mine, theirs),
            batch._replace(mask=tf.zeros(6)),
            other,
        )._replace(mask=tf.constant(mask, tf.float32))
        agent = make_agent("dqn", max_grad_norm=0.5)
        before = snapshot(agent)
        agent.update(batch, SEED)
        results.append(snapshot(agent))
    assert any((before[name] != results[0][name]).any() for name in before)
    for name, value in results[0].items():
        np.testing.assert_array_equal(results[1][name], value, err_msg=name)


def test_the_loss_is_the_mean_over_transitions_that_count(make_agent, make_batch):
    batch = make_batch(mask=np.array([1.0, 0, 0, 1, 0, 0]))
    agent = make_agent("dqn")
    each = agent.loss(batch, SEED)[0].numpy()
    np.testing.assert_allclose(agent.update(batch, SEED).metrics["loss"], each.sum() / 2, rtol=1e-5)


def kernels(network):
    return [variable.numpy() for variable in network.trainable_variables]


def assert_equal(these, those):
    for one, other in zip(these, those, strict=True):
        np.testing.assert_array_equal(one, other)


def test_the_target_network_starts_as_a_copy_and_is_copied_every_period(make_agent, make_batch):
    agent = make_agent("dqn", target_update_period=3, tau=1.0, lr=0.01)
    assert_equal(kernels(agent.network), kernels(agent.target_network))
    for update in range(1, 8):
        before = kernels(agent.target_network)
        agent.update(make_batch(update), SEED)
        copied = update % 3 == 0
        assert_equal(kernels(agent.target_network), kernels(agent.network) if copied else before)
        assert copied or (kernels(agent.network)[0] != before[0]).any()
    assert int(agent.updates.numpy()) == 7


@pytest.mark.parametrize(("period", "due"), [(1, [1, 2, 3, 4]), (2, [2, 4])])
def test_tau_moves_the_target_network_by_a_fraction(make_agent, make_batch, period, due):
    agent = make_agent("dqn", target_update_period=period, tau=0.25, lr=0.01)
    for update in range(1, 5):
        before = kernels(agent.target_network)
        agent.update(make_batch(update), SEED)
        online = kernels(agent.network)
        expected = [0.25 * x + 0.75 * y for x, y in zip(online, before, strict=True)]
        for found, wanted in zip(
            kernels(agent.target_network), expected if update in due else before, strict=True
        ):
            np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-7)


def test_noise_is_new_in_every_update_and_differs_between_the_networks(make_agent, make_batch):
    agent = make_agent("dqn", noisy=True, act_select="greedy")
    noises = []
    for seed in (1, 2):
        agent.loss(make_batch(), random.key(seed))
        noises += [net.advantage.noise_in.numpy() for net in (agent.network, agent.target_network)]
    for i, one in enumerate(noises):
        for other in noises[:i]:
            assert (one != other).all()


def test_a_noisy_policy_is_noisy_in_training_only(make_agent, make_batch):
    agent, observation = make_agent("dqn", noisy=True, act_select="greedy"), make_batch().observation
    agent.resample_noise(SEED)
    training = agent.policy(observation, (), SEED, True).q_values
    evaluation = agent.policy(observation, (), SEED, False).q_values
    assert (training.numpy() != evaluation.numpy()).all()
    agent.resample_noise(random.key(1))
    np.testing.assert_array_equal(agent.policy(observation, (), SEED, False).q_values, evaluation)


def test_random_steps_come_before_what_the_network_says(make_agent, make_batch):
    agent, observation = make_agent("dqn", noisy=True, random_steps=10), make_batch().observation
    many = tf.repeat(observation[:1], 500, 0)

    def actions(step):
        return agent.act(many, (), SEED, tf.constant(step, tf.int64), True)[0].numpy()

    count = int(agent.action_space.n)
    assert np.bincount(actions(9), minlength=count).min() > 0.7 * 500 / count
    assert len(set(actions(10))) == 1


@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (2,)), spaces.MultiDiscrete([2, 2])])
def test_other_action_spaces_are_refused_by_name(make_agent, space):
    with pytest.raises(UsageError, match="dqn acts in Discrete action spaces, Test-v0 has"):
        make_agent("dqn", action_space=space)


def test_exploration_and_learning_rate_are_logged(make_agent):
    overrides = {"lr": 0.5, "lr_schedule": "constant"}
    overrides |= {"exploration_epsilon_start": 1.0, "exploration_epsilon_end": 0.1}
    scalars = make_agent("dqn", exploration_steps=100, **overrides).scalars(50)
    np.testing.assert_allclose(scalars["train/exploration_epsilon"], 0.55)
    np.testing.assert_allclose(scalars["train/learning_rate"], 0.5)


@pytest.mark.parametrize(
    "overrides",
    [pytest.param({}, marks=pytest.mark.slow), {"n_step": 3, "prioritized": True}],
    ids=["plain", "n-step prioritized"],
)
def test_learned_values_are_the_exact_ones_at_both_kinds_of_episode_end(build, overrides):
    # rl/envs/graph/two_state_chain.py: without bootstrapping at truncation Q(1, 0) stays below 5.7; with
    # bootstrapping through termination Q(1, 1) rises above 1.
    # XLA compiles for longer than it saves here: the slow case alone is of it.
    compiled = "graph" if overrides else "xla"
    runner = build("dqn_two_state_chain", compile=compiled, **overrides)
    runner.run(500)
    q_values = runner.agent.network(tf.eye(2)).numpy()
    if overrides:  # off-policy steps within the n drag Q* down: only what no later step touches is exact
        np.testing.assert_allclose(q_values[1, 1], 1.0, atol=0.3)
        assert q_values[1, 0] > 6.5
    else:
        np.testing.assert_allclose(q_values, [[8.1, 9.0], [10.0, 1.0]], atol=0.4)
