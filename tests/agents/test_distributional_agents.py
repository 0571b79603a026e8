"""What C51, QR-DQN, IQN and Rainbow share: targets, weights, masks, noise, and what they must find."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest

from rl.errors import UsageError
from rl.models.layers import ILLEGAL
from rl.ops import random
from rl.ops.random import NoiseTape

SEED = random.key(0)
QUIET = {"rainbow": {"noisy": False}}  # rainbow without noise, where a test compares two passes
FAMILY = pytest.mark.parametrize("name", ["c51", "qrdqn", "iqn", "rainbow"])


def perturb_target(agent):
    """A target network that differs from the online one in every weight."""
    for i, variable in enumerate(agent.target_network.trainable_variables):
        variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)


@FAMILY
def test_double_changes_the_target(make_agent, make_batch, name):
    batch = make_batch(count=50, discount=np.full(50, 0.9))
    losses = []
    for double in (False, True):
        agent = make_agent(name, **{**QUIET.get(name, {}), "double": double})
        perturb_target(agent)
        losses.append(agent.loss(batch, SEED)[0].numpy())
    assert (losses[0] != losses[1]).any()


@FAMILY
def test_the_gradient_does_not_flow_through_the_target(make_agent, make_batch, name):
    agent = make_agent(name)
    batch = make_batch(observation=np.zeros((6, 3)))
    with tf.GradientTape() as tape:
        loss = agent.loss(batch, SEED)[0]
    kernel = agent.network.torso.layers[0].kernel.value
    # Observations are 0, so only next_observation could move the first kernel.
    np.testing.assert_array_equal(tape.gradient(loss, kernel), tf.zeros_like(kernel))


@FAMILY
def test_sample_weights_and_masks_scale_each_examples_loss(make_agent, make_batch, name):
    weight, mask = np.array([1.0, 0.5, 0, 1, 2, 1]), np.array([1.0, 1, 1, 0, 1, 0])
    plain = make_agent(name).loss(make_batch(sample_weight=np.ones(6)), SEED)[0].numpy()
    found = make_agent(name).loss(make_batch(sample_weight=weight, mask=mask), SEED)[0].numpy()
    np.testing.assert_allclose(found, plain * weight * mask, rtol=1e-5)
    assert (plain > 0).all()


@FAMILY
def test_masked_transitions_have_no_influence_on_the_update(make_agent, make_batch, snapshot, name):
    mask = np.array([1.0, 0, 1, 1, 0, 1])
    results = []
    for content in (0, 1):
        counted, other = make_batch(0), make_batch(99 + content)
        mixed = [
            tf.where(mask.reshape([-1] + [1] * (mine.ndim - 1)) > 0, mine, theirs)
            for mine, theirs in zip(counted, other, strict=True)
        ]
        agent = make_agent(name, max_grad_norm=0.5)
        before = snapshot(agent)
        agent.update(type(counted)(*mixed)._replace(mask=tf.constant(mask, tf.float32)), SEED)
        results.append(snapshot(agent))
    assert any((before[key] != results[0][key]).any() for key in before)
    for key, value in results[0].items():
        np.testing.assert_array_equal(results[1][key], value, err_msg=key)


@FAMILY
def test_the_target_network_is_copied_every_period(make_agent, make_batch, name):
    agent = make_agent(name, target_update_period=2, lr=0.01)

    def kernels(network):
        return [variable.numpy() for variable in network.trainable_variables]

    def same(these, those):
        return all((one == other).all() for one, other in zip(these, those, strict=True))

    assert same(kernels(agent.network), kernels(agent.target_network))
    for update in range(1, 5):
        before = kernels(agent.target_network)
        agent.update(make_batch(update), SEED)
        after = kernels(agent.target_network)
        assert same(after, kernels(agent.network) if update % 2 == 0 else before)
        assert not same(after, kernels(agent.network)) or update % 2 == 0
    assert int(agent.updates.numpy()) == 4


@FAMILY
def test_noise_is_new_in_every_update_and_acts_in_training_only(make_agent, make_batch, name):
    agent, batch = make_agent(name, noisy=True), make_batch()
    noises = []
    for seed in (1, 2):
        agent.loss(batch, random.key(seed))
        noises += [net.advantage.noise_in.numpy() for net in (agent.network, agent.target_network)]
    for i, one in enumerate(noises):
        for other in noises[:i]:
            assert (one != other).all()
    training = agent.policy(batch.observation, (), SEED, True).q_values
    evaluation = agent.policy(batch.observation, (), SEED, False).q_values
    assert (training.numpy() != evaluation.numpy()).all()


MASKED = spaces.Dict({"action_mask": spaces.MultiBinary(3), "seen": spaces.Box(-5.0, 5.0, (3,), np.float32)})


def masked_batch(make_batch, next_mask, **fields):
    batch = make_batch(count=8, **fields)
    ones = tf.ones([8, 3], tf.int8)
    return batch._replace(
        observation={"action_mask": ones, "seen": batch.observation},
        next_observation={"action_mask": tf.constant(next_mask, tf.int8), "seen": batch.next_observation},
    )


@FAMILY
def test_illegal_actions_are_never_chosen(make_agent, make_batch, name):
    agent = make_agent(name, observation_space=MASKED)
    mask = np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 0]] * 2)
    observation = masked_batch(make_batch, mask).next_observation
    for training in (False, True):
        q_values = agent.policy(observation, (), SEED, training).q_values.numpy()
        assert ((q_values == ILLEGAL) == (mask == 0)).all()


@FAMILY
@pytest.mark.parametrize("double", [False, True])
def test_targets_bootstrap_from_legal_actions_only(make_agent, make_batch, name, double):
    overrides = {**QUIET.get(name, {}), "double": double, "observation_space": MASKED}
    agent = make_agent(name, **overrides)
    perturb_target(agent)
    kept = {"discount": np.full(8, 0.9)}
    best = agent.policy(masked_batch(make_batch, np.ones([8, 3])).next_observation, (), SEED, False).q_values
    anything = agent.loss(masked_batch(make_batch, np.ones([8, 3]), **kept), SEED)[0].numpy()
    without_best = 1 - tf.one_hot(tf.argmax(best, -1), 3).numpy()
    restricted = agent.loss(masked_batch(make_batch, without_best, **kept), SEED)[0].numpy()
    assert np.isfinite(restricted).all() and (restricted < 1e6).all()
    assert (restricted != anything).any()
    if double:  # the one legal action is the target's, whatever the networks say
        legal = np.eye(3)[[0, 1, 2, 0, 1, 2, 0, 1]]
        found = agent.loss(masked_batch(make_batch, legal, **kept), SEED)[0].numpy()
        plain = make_agent(name, **{**overrides, "double": False})
        perturb_target(plain)
        np.testing.assert_allclose(
            plain.loss(masked_batch(make_batch, legal, **kept), SEED)[0], found, rtol=1e-5
        )


@FAMILY
@pytest.mark.parametrize("space", [spaces.Box(-1.0, 1.0, (2,)), spaces.MultiDiscrete([2, 2])])
def test_other_action_spaces_are_refused_by_name(make_agent, name, space):
    with pytest.raises(UsageError, match=f"{name} acts in Discrete action spaces, Test-v0 has"):
        make_agent(name, action_space=space)


@FAMILY
def test_losses_of_dqn_are_refused(make_agent, name):
    with pytest.raises(UsageError, match="loss='huber'"):
        make_agent(name, loss="huber")


@FAMILY
def test_evaluation_draws_no_random_numbers(make_agent, make_batch, name):
    tape = NoiseTape()
    make_agent(name).policy(make_batch().observation, (), tape, False)
    assert not tape.wanted


@FAMILY
def test_exploration_is_logged_where_there_is_any(make_agent, name):
    for noisy in (False, True):
        scalars = make_agent(name, noisy=noisy, exploration_steps=100).scalars(100)
        assert ("train/exploration_epsilon" in scalars) != noisy


# Returns of a state without successor: 0 or 4, with probabilities 3/4 and 1/4.
REWARD = np.tile([0.0, 0.0, 0.0, 4.0], 16)


@pytest.fixture
def learn_returns(make_agent, make_batch):
    """An agent that was shown one state, one action, and `REWARD` for 600 updates."""

    def learn(name, **overrides):
        fields = {"observation": np.ones((64, 3)), "next_observation": np.ones((64, 3))}
        fields |= {"action": np.zeros(64), "discount": np.zeros(64), "sample_weight": np.ones(64)}
        batch = make_batch(count=64, reward=REWARD, **fields)
        agent = make_agent(name, lr=1e-2, lr_schedule="linear", **overrides)
        update = tf.function(lambda i: agent.update(batch, random.fold_in(SEED, i)).metrics, autograph=False)
        for i in range(600):
            agent.schedule(tf.constant(256 * i, tf.int64))
            update(tf.constant(i))
        q_value = agent.policy(tf.ones([1, 3]), (), SEED, False).q_values.numpy()[0, 0]
        return agent, q_value

    return learn


@pytest.mark.parametrize("name", ["c51", *rest("rainbow")])
def test_categorical_agents_learn_how_often_each_return_comes(learn_returns, name):
    overrides = {**QUIET.get(name, {}), "atoms": 6, "value_min": -1.0, "value_max": 4.0}
    agent, q_value = learn_returns(name, train_steps=600 * 256, **overrides)
    found = tf.nn.softmax(agent.network(tf.ones([1, 3])))[0, 0]
    np.testing.assert_allclose(found, [0, 0.75, 0, 0, 0, 0.25], atol=0.01)
    np.testing.assert_allclose(q_value, 1.0, atol=0.03)


def test_quantile_regression_learns_the_quantiles(learn_returns):
    # Fractions 0.1, 0.3, 0.5, 0.7 lie below 3/4, 0.9 above; a small kappa makes them quantiles.
    agent, q_value = learn_returns("qrdqn", train_steps=600 * 256, quantiles=5, huber_delta=0.05)
    np.testing.assert_allclose(agent.network(tf.ones([1, 3]))[0, 0], [0, 0, 0, 0, 4], atol=0.15)
    np.testing.assert_allclose(q_value, 0.8, atol=0.1)


@pytest.mark.slow
def test_implicit_quantiles_are_a_function_of_the_fraction(learn_returns):
    agent, q_value = learn_returns("iqn", train_steps=600 * 256, huber_delta=0.05, **{"model.hidden": (32,)})
    found = agent.network(tf.ones([1, 3]), tf.constant([[0.1, 0.4, 0.6, 0.9, 0.97]]))[0, 0]
    np.testing.assert_allclose(found, [0, 0, 0, 4, 4], atol=0.4)
    np.testing.assert_allclose(q_value, 1.0, atol=0.2)


RANGES = {"c51": {"value_min": -2.0, "value_max": 12.0}, "qrdqn": {}, "iqn": {}}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["c51", "qrdqn", "iqn"])
def test_learned_values_are_the_exact_ones_at_both_kinds_of_episode_end(build, name):
    # rl/envs/graph/two_state_chain.py: without bootstrapping at truncation Q(1, 0) stays below 5.7; with
    # bootstrapping through termination Q(1, 1) rises above 1.
    plain = {
        "n_step": 1,
        "lr_schedule": "constant",
        "normalize_reward": False,
        "lr": 2e-3,
        "huber_delta": 1.0,
    }
    names = f"{name}-dqn_two_state_chain"
    runner = build(names, compile="xla", algo=name, **plain, **RANGES[name])
    runner.run(500)
    q_values = runner.agent.policy(tf.eye(2), (), SEED, False).q_values
    np.testing.assert_allclose(q_values, [[8.1, 9.0], [10.0, 1.0]], atol=0.4)
