"""A2C: its loss in numpy, n-step returns at every kind of episode end, and values it must find."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest
from scipy import special

from rl.ops import random, returns

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "lr": 0.01}
CONTINUOUS = spaces.Box(-1.0, 1.0, (2,))


def test_targets_are_n_step_returns_where_lambda_is_one(make_agent, make_rollout):
    agent = make_agent("a2c", gamma=0.9, gae_lambda=1.0, **SMALL)
    rollout = make_rollout(agent)
    last = agent.network(rollout.observation[-1]).value
    values = tf.concat([rollout.extras["value"], last[None]], 0)
    ends = rollout.terminated, rollout.truncated
    extras = agent._advantages(rollout).extras
    expected = returns.discounted_return(rollout.reward, values, *ends, 0.9)
    np.testing.assert_allclose(extras["target"], expected, rtol=1e-4, atol=1e-5)
    np.testing.assert_allclose(extras["advantage"], expected - values[:-1], rtol=1e-3, atol=1e-5)


def test_termination_and_truncation_in_the_targets(make_agent, make_rollout):
    agent = make_agent("a2c", gamma=0.9, **SMALL)
    rollout = make_rollout(agent)
    target = agent._advantages(rollout).extras["target"].numpy()
    reward, value = rollout.reward.numpy(), rollout.extras["value"].numpy()
    np.testing.assert_allclose(target[2, 0], reward[2, 0], rtol=1e-4)  # terminated: the reward alone
    np.testing.assert_allclose(target[4, 1], reward[4, 1] + 0.9 * value[5, 1], rtol=1e-4)  # truncated
    np.testing.assert_allclose(target[5, 2], reward[5, 2], rtol=1e-4)  # both: terminal


@pytest.mark.parametrize("space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"])
@pytest.mark.parametrize("normalize_advantage", [False, True])
def test_loss_equals_numpy(make_agent, make_rollout, numpy_policy, space, normalize_advantage):
    overrides = {"entropy_coef": 0.1, "value_coef": 0.7, "normalize_advantage": normalize_advantage}
    agent = make_agent("a2c", action_space=space, gae_lambda=0.9, **overrides, **SMALL)
    agent.network.policy.kernel.assign(agent.network.policy.kernel * 50.0)  # away from the uniform policy
    rollout = make_rollout(agent)
    data = agent._advantages(rollout)
    observation = data.observation.numpy()[:-1].reshape(-1, 3)
    action = data.action.numpy().reshape(32, *data.action.shape[2:])
    log_prob, entropy, value = numpy_policy(agent.network, observation, action)
    mask, target = data.mask.numpy().reshape(-1), data.extras["target"].numpy().reshape(-1)
    advantage = target - rollout.extras["value"].numpy().reshape(-1)
    counted = mask > 0
    if normalize_advantage:
        advantage = (advantage - advantage[counted].mean()) / advantage[counted].std()
    policy_loss, value_loss = -log_prob * advantage, (value - target) ** 2 / 2

    loss, metrics, priorities = agent.loss(data, SEED)
    assert priorities is None
    expected = (policy_loss + 0.7 * value_loss - 0.1 * entropy) * mask
    np.testing.assert_allclose(loss, expected, rtol=1e-3, atol=1e-4)
    parts = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
    for name, each in parts.items():
        np.testing.assert_allclose(metrics[name], each[counted].mean(), rtol=1e-3, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("name", ["a2c", "impala", *rest("vpg", "ppo", "appo")])
def test_illegal_actions_are_never_taken_and_leave_every_loss_finite(make_agent, make_rollout, name):
    space = spaces.Dict({"x": spaces.Box(-5.0, 5.0, (3,)), "action_mask": spaces.MultiBinary(3)})
    agent = make_agent(name, observation_space=space, num_envs=4, rollout_length=8)
    legal = tf.constant(np.random.default_rng(0).integers(0, 2, (9, 4, 3)) | [1, 0, 0], tf.int8)
    numbers = random.normal(SEED, [9, 4, 3])
    rows = []
    for t in range(8):
        observation = {"x": numbers[t], "action_mask": legal[t]}
        rows.append(agent.act(observation, (), random.fold_in(SEED, t), tf.constant(0, tf.int64), True)[:2])
    action, extras = tf.nest.map_structure(lambda *x: tf.stack(x), *rows)
    chosen = tf.gather(legal[:-1], action, batch_dims=2).numpy()
    assert (chosen == 1).all() and len(np.unique(action)) == 3
    plain = make_agent(name, num_envs=4, rollout_length=8)
    rollout = make_rollout(plain, ends=False)._replace(
        observation={"x": numbers, "action_mask": legal}, action=action, extras=extras
    )
    assert all(np.isfinite(each) for each in agent.update(rollout, SEED).metrics.values())
    for key, each in agent.variables.items():
        assert np.isfinite(each.numpy()).all(), key


@pytest.mark.parametrize("optimizer", ["rmsprop", "adam"])
def test_it_takes_one_step_of_the_optimizer_by_rollout(make_agent, make_rollout, snapshot, optimizer):
    agent = make_agent("a2c", optimizer=optimizer, **SMALL)
    before = snapshot(agent)
    agent.update(make_rollout(agent), SEED)
    used = agent.optimizers["network"]
    assert int(used.iterations.numpy()) == 1 and used.name == optimizer
    after = snapshot(agent)
    assert all((after[name] != before[name]).any() for name in before if name.endswith("kernel"))


@pytest.mark.parametrize("model", ["lstm", "gru"])
def test_a_recurrent_model_learns_through_its_state(make_agent, make_rollout, model):
    agent = make_agent("a2c", **{"model.name": model}, **SMALL)
    data = agent._advantages(make_rollout(agent))
    kernel = agent.network.torso.recurrent_kernel
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(agent.loss(data, SEED)[0])
    assert (tape.gradient(total, kernel.value).numpy() != 0.0).any()
    other = tf.nest.map_structure(lambda x: x + 0.3, data.recurrent_state)
    moved = agent.loss(data._replace(recurrent_state=other), SEED)[0]
    changed = (moved.numpy() != agent.loss(data, SEED)[0].numpy()).reshape(8, 4)
    assert changed[0].all()  # the state before the rollout matters ...
    assert not changed[4:, 0].any()  # ... until the autoreset row (3, after the end at 2) has passed


def test_the_value_is_exact_at_both_kinds_of_episode_end(build):
    # The optimal values of rl/envs/graph/two_state_chain.py at gamma = 0.9 are 9 and 10.
    overrides = {"env": "TwoStateChain-v0", "gamma": 0.9, "lr": 1e-2, "rollout_length": 16, "num_envs": 16}
    overrides |= {"lr_schedule": "constant", "normalize_reward": False}
    runner = build("a2c", train_steps=100_000, **overrides)
    runner.run(200)
    output = runner.agent.network(tf.eye(2))
    np.testing.assert_allclose(output.value, [9.0, 10.0], atol=0.3)
    probability = special.softmax(output.parameters, -1)
    assert probability[0, 1] > 0.9 and probability[1, 0] > 0.9
