"""DDPG: its losses by hand and in numpy, its targets, discrete actions."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch, constant_actor, linear_critic, same, values
from scipy import special, stats

from rl.errors import UsageError
from rl.models.continuous import BoxActions, DiscreteActions
from rl.ops import random

SEED = random.key(0)
MASKED = spaces.Dict({"x": spaces.Box(-1.0, 1.0, (2,)), "action_mask": spaces.MultiBinary(3)})


def relu(x):
    return np.maximum(x, 0.0)


def q_value(critic, observation, action, member=0):
    """One critic of an ensemble, multiplied out."""
    x = np.concatenate([observation, action], -1)
    for layer in critic.hidden:
        x = relu(x @ layer.kernel.numpy()[member] + layer.bias.numpy()[member])
    return (x @ critic.value.kernel.numpy()[member] + critic.value.bias.numpy()[member])[:, 0]


@pytest.fixture
def known(make_agent):
    """mu = tanh(0.5) = 0.462117, its target tanh(-1) = -0.761594; Q = 2 a + 1, its target 3 a - 1."""
    agent = make_agent("ddpg", action_space=BOX)
    constant_actor(agent.network, [0.5])
    constant_actor(agent.target_network, [-1.0])
    linear_critic(agent.critic, [2.0], [1.0])
    linear_critic(agent.target_critic, [3.0], [-1.0])
    return agent


def test_the_policys_action_lies_between_the_bounds(known):
    action = known.act(tf.zeros([2, 3]), (), SEED, tf.constant(0, tf.int64), False)[0]
    np.testing.assert_allclose(action, [[1.0 + 3.0 * 0.462117]] * 2, rtol=1e-5)


def test_the_critics_loss_by_hand(known, make_batch):
    # The action 2.5 is 0.5 in [-1, 1]: Q = 2. Targets: 1 + 0.9 (3 * -0.761594 - 1) = -1.956304, and 1 where
    # nothing follows. Errors -3.956304 and -1.
    batch = box_batch(
        make_batch,
        [[2.5], [2.5]],
        reward=np.ones(2),
        discount=np.array([0.9, 0.0]),
        sample_weight=np.array([1.0, 0.5]),
    )
    loss, metrics, priorities = known.loss(batch, SEED)
    np.testing.assert_allclose(loss, [15.652341, 0.5], rtol=1e-5)
    np.testing.assert_allclose(priorities, [3.956304, 1.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["q_value"], 2.0, rtol=1e-5)
    np.testing.assert_allclose(metrics["td_error"], 2.478152, rtol=1e-5)


def test_the_policys_loss_and_gradient_by_hand(known, make_batch):
    # -Q(mu) = -(2 * 0.462117 + 1); its slope by the output is -2 (1 - 0.462117^2) = -1.572895.
    batch = box_batch(make_batch, [[0.0], [0.0]], mask=np.array([1.0, 0.0]))
    with tf.GradientTape() as tape:
        loss, metrics, _ = known.policy_loss(batch, SEED)
        total = tf.reduce_sum(loss)
    np.testing.assert_allclose(loss, [-1.924234, 0.0], rtol=1e-5)
    np.testing.assert_allclose(metrics["policy_loss"], -1.924234, rtol=1e-5)
    gradient = tape.gradient(total, known.network.policy.bias.value)
    np.testing.assert_allclose(gradient, [-1.572895], rtol=1e-5)


def test_losses_equal_numpy_on_random_networks(make_agent, make_batch, forward):
    agent = make_agent("ddpg", action_space=BOX, **{"model.hidden": (8, 5)})
    for i, name in enumerate(agent.networks):
        for j, variable in enumerate(agent.networks[name].trainable_variables):
            variable.assign_add(0.5 * random.normal(random.key(10 * i + j), variable.shape))
    generator = np.random.default_rng(0)
    batch = box_batch(make_batch, generator.uniform(-2.0, 4.0, (30, 1)), mask=np.array([1.0, 1, 0] * 10))
    rows = [np.asarray(each) for each in (batch.observation, batch.next_observation)]

    def mu(network, observation):
        return np.tanh(forward(network.torso, network.policy, observation, relu))

    target = q_value(agent.target_critic, rows[1], mu(agent.target_network, rows[1]))
    target = batch.reward + batch.discount * target
    error = np.asarray(target) - q_value(agent.critic, rows[0], (np.asarray(batch.action) - 1.0) / 3.0)
    loss, _, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(loss, error**2 * batch.sample_weight * batch.mask, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(priorities, np.abs(error), rtol=1e-3, atol=1e-4)
    expected = -q_value(agent.critic, rows[0], mu(agent.network, rows[0])) * np.asarray(batch.mask)
    np.testing.assert_allclose(agent.policy_loss(batch, SEED)[0], expected, rtol=1e-3, atol=1e-4)


def test_each_loss_moves_its_own_network_alone(make_agent, make_batch):
    agent = make_agent("ddpg", action_space=BOX, lr=0.1)
    batch = box_batch(make_batch, np.ones((6, 1)))
    for name, loss in (("critic", agent.loss), ("network", agent.policy_loss)):
        before = {each: values(network) for each, network in agent.networks.items()}
        agent.gradient_step(batch, SEED, name, loss)
        moved = {each for each, network in agent.networks.items() if not same(values(network), before[each])}
        assert moved == {name}


def test_targets_start_as_copies_and_follow_by_tau(make_agent, make_batch):
    agent = make_agent("ddpg", action_space=BOX, tau=0.25, lr=0.01)
    pairs = [(agent.network, agent.target_network), (agent.critic, agent.target_critic)]
    for online, target in pairs:
        assert same(values(online), values(target))
    before = [values(target) for _, target in pairs]
    agent.update(box_batch(make_batch, np.ones((6, 1))), SEED)
    for (online, target), old in zip(pairs, before, strict=True):
        for x, y, z in zip(values(online), values(target), old, strict=True):
            np.testing.assert_allclose(y, 0.25 * x + 0.75 * z, rtol=1e-5, atol=1e-7)


def test_actor_and_critic_have_learning_rates_of_their_own(make_agent):
    scalars = make_agent("ddpg", action_space=BOX, lr=0.1, critic_lr=0.3).scalars(0)
    rates = scalars["train/learning_rate"], scalars["train/learning_rate_critic"]
    np.testing.assert_allclose(rates, [0.1, 0.3])


def test_unbounded_actions_are_refused(make_agent):
    with pytest.raises(UsageError, match="ddpg squashes its actions into the space's bounds, and Box"):
        make_agent("ddpg", action_space=spaces.Box(-np.inf, np.inf, (2,)))


def test_recurrent_models_are_refused(make_agent):
    with pytest.raises(UsageError, match="ddpg cannot learn with model lstm"):
        make_agent("ddpg", action_space=BOX, **{"model.name": "lstm"})


def test_codes_of_box_actions_and_back():
    space = spaces.Box(np.array([[-1.0, 0.0]], np.float32), np.array([[3.0, 10.0]], np.float32))
    actions = BoxActions(space, "ddpg")
    code = actions.encode(tf.constant([[[0.0, 10.0]], [[3.0, 2.5]]]))
    np.testing.assert_allclose(code, [[-0.5, 1.0], [1.0, -0.5]], rtol=1e-6)
    back = actions.deterministic(tf.atanh(tf.constant([[-0.5, 0.9]]))).mode()
    np.testing.assert_allclose(back, [[[0.0, 9.5]]], rtol=1e-5, atol=1e-6)


def test_relaxed_discrete_actions_are_one_hot_samples_with_the_softmaxs_gradient():
    chances = np.array([0.1, 0.6, 0.3])
    logits = tf.repeat(tf.constant([np.log(chances)], tf.float32), 20_000, 0)
    actions = DiscreteActions(spaces.Discrete(3))
    with tf.GradientTape() as tape:
        tape.watch(logits)
        code = actions.relaxed(logits, SEED, 2.0)
        value = tf.reduce_sum(code * [1.0, -2.0, 0.5])
    np.testing.assert_allclose(np.sort(code, -1)[:, ::-1][:, :2], [[1.0, 0.0]] * 20_000, atol=1e-6)
    counts = np.bincount(np.argmax(code, -1), minlength=3)
    assert stats.chisquare(counts, chances * 20_000).pvalue > 1e-4
    soft = special.softmax((logits + random.gumbel(SEED, logits.shape)).numpy() / 2.0, -1)
    weights = np.array([1.0, -2.0, 0.5])
    expected = soft * (weights - (soft @ weights)[:, None]) / 2.0  # the softmax's Jacobian
    np.testing.assert_allclose(tape.gradient(value, logits), expected, rtol=1e-3, atol=1e-5)


def test_discrete_losses_by_hand(make_agent, make_batch):
    # Logits (1, 3, 0): greedy is action 1. Values 3, 1, 5; the target critic's 5, 7, 9.
    agent = make_agent("ddpg", logit_penalty=0.3, gumbel_temperature=2.0)
    constant_actor(agent.network, [1.0, 3.0, 0.0])
    constant_actor(agent.target_network, [1.0, 3.0, 0.0])
    q_values = np.array([3.0, 1.0, 5.0], np.float32)
    for critic, row in ((agent.critic, q_values), (agent.target_critic, np.array([5.0, 7.0, 9.0]))):
        for variable in critic.trainable_variables:
            variable.assign(tf.zeros_like(variable.value))
        critic.value.bias.assign(row.reshape(1, 1, 3))
    fields = {"action": [0] * 200, "reward": np.ones(200), "discount": np.full(200, 0.5)}
    batch = make_batch(count=200, sample_weight=np.ones(200), **fields)
    np.testing.assert_allclose(agent.target(batch, SEED), np.full(200, 1.0 + 0.5 * 7.0), rtol=1e-6)
    np.testing.assert_allclose(agent.loss(batch, SEED)[0], np.full(200, 1.5**2), rtol=1e-5)

    noisy = np.array([1.0, 3.0, 0.0]) + random.gumbel(SEED, [200, 3]).numpy()
    penalty = 0.3 * (1.0 + 9.0) / 3.0
    with tf.GradientTape() as tape:
        loss = agent.policy_loss(batch, SEED)[0]
    np.testing.assert_allclose(loss, penalty - q_values[noisy.argmax(-1)], rtol=1e-5)
    # The slope towards each action is its value, through the softmax at temperature 2.
    soft = special.softmax(noisy / 2.0, -1)
    slope = -(soft * (q_values - (soft @ q_values)[:, None]) / 2.0).sum(0)
    expected = slope + 200 * 0.3 * 2.0 / 3.0 * np.array([1.0, 3.0, 0.0])
    gradient = tape.gradient(loss, agent.network.policy.bias.value)
    np.testing.assert_allclose(gradient, expected, rtol=1e-3)


def test_discrete_actions_respect_the_mask(make_agent):
    agent = make_agent("ddpg", observation_space=MASKED, random_steps=50)
    constant_actor(agent.network, [0.0, 9.0, 0.5])
    mask = np.repeat([[1, 0, 1]], 300, 0)
    observation = {"x": tf.zeros([300, 2]), "action_mask": tf.constant(mask)}
    for step, training in ((0, True), (50, True), (50, False)):
        action = agent.act(observation, (), SEED, tf.constant(step, tf.int64), training)[0].numpy()
        assert set(action) == ({0, 2} if training else {2})
    output = agent.network(observation)
    assert not agent.actions.relaxed(output, SEED, 1.0).numpy()[:, 1].any()
    np.testing.assert_allclose(agent.actions.penalty(output), np.full(300, 0.125), rtol=1e-5)


@pytest.mark.parametrize(
    "name",
    [
        "td3_pendulum",
        *(
            pytest.param(each, marks=pytest.mark.slow)
            for each in ("ddpg_pendulum", "sac_pendulum", "sac_discrete_cartpole")
        ),
    ],
)
def test_n_step_and_prioritized_replay_serve_the_whole_family(build, name):
    runner = build(
        name,
        n_step=3,
        prioritized=True,
        min_replay_size=32,
        replay_capacity=512,
        batch_size=16,
        updates_per_iteration=8,
        **{"model.hidden": (8,)},
    )
    sums = runner.run(6)
    assert sums["updates"] > 0 and all(np.isfinite(value) for value in sums.values())
    memory = runner.memory
    memory.check_valid()
    leaves = memory.tree.leaves()
    assert len(np.unique(leaves[leaves > 0])) > 5  # new transitions have one priority, sampled ones their own
