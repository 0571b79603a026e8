"""APPO: its loss in numpy, the lag of its target policy, and values it must find."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special

from rl.ops import random
from rl.ops.vtrace import vtrace

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "lr": 0.01, "minibatches": 1}
CONTINUOUS = spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize("normalize_advantage", [False, True])
@pytest.mark.parametrize("space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"])
def test_loss_equals_numpy(make_agent, make_rollout, numpy_policy, space, normalize_advantage):
    overrides = {
        "gamma": 0.9,
        "trace_lambda": 0.8,
        "entropy_coef": 0.1,
        "value_coef": 0.7,
        "clip_range": 0.15,
    }
    overrides |= {"behaviour_ratio_clip": 1.2, "normalize_advantage": normalize_advantage}
    agent = make_agent("appo", action_space=space, **overrides, **SMALL)
    rollout = make_rollout(agent)
    generator = np.random.default_rng(1)
    for network in (agent.network, agent.target_network):  # three policies that differ
        kernel = network.policy.kernel
        kernel.assign(kernel * 30.0 + 0.3 * generator.normal(size=kernel.shape))
    behaviour = rollout.extras["log_prob"].numpy()
    action = rollout.action.numpy().reshape(32, *rollout.action.shape[2:])
    observation = rollout.observation.numpy().reshape(36, 3)
    found = numpy_policy(agent.network, observation[:32], action)[:2]
    log_prob, entropy = (each.reshape(8, 4) for each in found)
    lagged = numpy_policy(agent.target_network, observation[:32], action)[0].reshape(8, 4)
    value = numpy_policy(agent.network, observation, np.zeros((36, *action.shape[1:]), int))[2].reshape(9, 4)

    ends = rollout.terminated, rollout.truncated
    log_ratio = tf.constant(lagged - behaviour, tf.float32)  # V-trace is of the target policy
    target, advantage = vtrace(log_ratio, rollout.reward, tf.constant(value, tf.float32), *ends, 0.9, 0.8)
    target, advantage, mask = target.numpy(), advantage.numpy(), rollout.mask.numpy()
    counted = mask > 0
    if normalize_advantage:
        advantage = (advantage - advantage[counted].mean()) / advantage[counted].std()
    # IMPACT (https://arxiv.org/abs/1912.00167), section 3: pi / max(pi_target, beta mu), beta = 1 / 1.2.
    ratio = np.exp(log_prob) / np.maximum(np.exp(lagged), np.exp(behaviour) / 1.2)
    policy_loss = -np.minimum(ratio * advantage, np.clip(ratio, 0.85, 1.15) * advantage)
    value_loss = (value[:-1] - target) ** 2 / 2
    loss, metrics, priorities = agent.loss(rollout, SEED)
    assert priorities is None
    expected = (policy_loss + 0.7 * value_loss - 0.1 * entropy) * mask
    np.testing.assert_allclose(tf.reshape(loss, [-1]), expected.reshape(-1), rtol=2e-3, atol=1e-3)
    clipped = np.abs(ratio - 1) > 0.15
    assert clipped[counted].any() and not clipped[counted].all()
    moved = log_prob - lagged
    for name, each in {
        "policy_loss": policy_loss,
        "value_loss": value_loss,
        "entropy": entropy,
        "importance_ratio": np.exp(log_prob - behaviour),
        "approximate_kl": np.exp(moved) - 1 - moved,
        "clip_fraction": clipped,
    }.items():
        np.testing.assert_allclose(metrics[name], each[counted].mean(), rtol=2e-3, atol=1e-3, err_msg=name)


@pytest.mark.parametrize("space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"])
def test_the_target_policy_follows_every_so_many_updates(make_agent, make_rollout, space):
    settings = {"epochs": 1, "target_update_period": 3, "tau": 0.25, "action_space": space}
    agent = make_agent("appo", **settings, **SMALL)
    weights = lambda network: [each.numpy() for each in network.trainable_variables]  # noqa: E731
    first = weights(agent.target_network)
    for online, copy in zip(weights(agent.network), first, strict=True):
        np.testing.assert_array_equal(online, copy)
    for updates in (1, 2, 3):
        agent.update(make_rollout(agent, seed=updates), SEED)
        expected = first
        if updates == 3:
            pairs = zip(weights(agent.network), first, strict=True)
            expected = [0.75 * before + 0.25 * online for online, before in pairs]
        for copy, each in zip(weights(agent.target_network), expected, strict=True):
            np.testing.assert_allclose(copy, each, rtol=1e-5, atol=1e-7)
    assert int(agent.variables["updates"]) == 3


def test_no_gradient_reaches_the_target_policy(make_agent, make_rollout):
    agent = make_agent("appo", **SMALL)
    rollout = make_rollout(agent)
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(agent.loss(rollout, SEED)[0])
    variables = [each.value for each in agent.target_network.trainable_variables]
    assert all(each is None for each in tape.gradient(total, variables))


@pytest.mark.slow  # test_impala.py has it, of the same targets
def test_the_value_is_exact_at_both_kinds_of_episode_end(build):
    # The optimal values of rl/envs/graph/two_state_chain.py at gamma = 0.9 are 9 and 10.
    overrides = {"env": "TwoStateChain-v0", "gamma": 0.9, "lr": 5e-3, "rollout_length": 16, "num_envs": 16}
    overrides |= {"lr_schedule": "constant", "normalize_reward": False}
    runner = build("appo", train_steps=100_000, **overrides)
    runner.run(200)
    output = runner.agent.network(tf.eye(2))
    np.testing.assert_allclose(output.value, [9.0, 10.0], atol=0.3)
    probability = special.softmax(output.parameters, -1)
    assert probability[0, 1] > 0.9 and probability[1, 0] > 0.9


def test_an_action_that_had_almost_no_chance_leaves_the_loss_and_its_metrics_finite(make_agent, make_rollout):
    # exp(95) is beyond float32, the ratio of the current policy to the target policy, which is equal, is 1.
    agent = make_agent("appo", behaviour_ratio_clip=2.0, **SMALL)
    rollout = make_rollout(agent)
    rollout.extras["log_prob"] = tf.tensor_scatter_nd_update(rollout.extras["log_prob"], [[0, 0]], [-95.0])
    loss, metrics, _ = agent.loss(rollout, SEED)
    assert np.isfinite(loss).all() and all(np.isfinite(each) for each in metrics.values())
    assert float(metrics["clip_fraction"]) == 0.0
