"""V-MPO: its loss in numpy, the steps of temperature and penalties, the policy that it is pulled back to."""

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
SPACES = pytest.mark.parametrize("space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"])


def divergences(agent, observation):
    """From the old policy to the present one, [N] each, multiplied out."""
    old, new = (network(tf.constant(observation)) for network in (agent.target_network, agent.network))
    if isinstance(agent.action_space, spaces.Discrete):
        p, q = (special.log_softmax(each.parameters, -1) for each in (old, new))
        return {"kl": (np.exp(p) * (p - q)).sum(-1)}
    distance, a, b = new.parameters - old.parameters, np.exp(old.log_std), np.exp(new.log_std)
    by_mean = (distance**2 / (2 * a**2)).numpy().sum(-1)
    by_std = (np.log(b / a) + a**2 / (2 * b**2) - 0.5) + np.zeros_like(distance)
    return {"kl_mean": by_mean, "kl_std": by_std.sum(-1)}


@SPACES
def test_loss_equals_numpy(make_agent, make_rollout, numpy_policy, space):
    overrides = {"gamma": 0.9, "trace_lambda": 0.8, "entropy_coef": 0.1, "value_coef": 0.7}
    overrides |= {"temperature": 0.6, "penalty": 1.7, "action_space": space}
    agent = make_agent("vmpo", **overrides, **SMALL)
    rollout = make_rollout(agent)
    generator = np.random.default_rng(1)
    for network in (agent.network, agent.target_network):
        kernel = network.policy.kernel
        kernel.assign(kernel * 30.0 + 0.3 * generator.normal(size=kernel.shape))
    if space is CONTINUOUS:
        agent.network.log_std.assign([0.2, -0.3])
    action = rollout.action.numpy().reshape(32, *rollout.action.shape[2:])
    observation = rollout.observation.numpy().reshape(36, 3)
    log_prob, entropy, _ = numpy_policy(agent.network, observation[:32], action)
    old = numpy_policy(agent.target_network, observation[:32], action)[0].reshape(8, 4)
    value = numpy_policy(agent.network, observation, np.zeros((36, *action.shape[1:]), int))[2].reshape(9, 4)
    lag = tf.constant(old - rollout.extras["log_prob"].numpy(), tf.float32)
    ends = rollout.terminated, rollout.truncated
    target, advantage = vtrace(lag, rollout.reward, tf.constant(value, tf.float32), *ends, 0.9, 0.8)

    counted = rollout.mask.numpy().reshape(-1) > 0
    advantage = advantage.numpy().reshape(-1)
    better = counted & (advantage >= np.median(advantage[counted]))
    assert 0 < better.sum() < counted.sum() < 32
    psi = np.where(better, np.exp(advantage / 0.6), 0.0)
    psi /= psi.sum()
    apart = divergences(agent, observation[:32])
    value_loss = ((value[:-1] - target.numpy()) ** 2 / 2).reshape(-1)
    pull = 1.7 * sum(apart.values())
    expected = -counted.sum() * psi * log_prob + pull + 0.7 * value_loss - 0.1 * entropy
    loss, metrics, priorities = agent.loss(rollout, SEED)
    assert priorities is None
    np.testing.assert_allclose(tf.reshape(loss, [-1]), expected * counted, rtol=2e-3, atol=1e-3)
    of_weights = (psi[better] * np.log(psi[better] * better.sum())).sum()
    for name, each in {"value_loss": value_loss, "entropy": entropy, **apart}.items():
        np.testing.assert_allclose(metrics[name], each[counted].mean(), rtol=2e-3, atol=1e-3, err_msg=name)
    np.testing.assert_allclose(metrics["policy_loss"], -(psi * log_prob).sum(), rtol=2e-3)
    np.testing.assert_allclose(metrics["weights_kl"], of_weights, rtol=2e-3)


@SPACES
def test_temperature_and_penalties_rise_while_their_divergences_are_above_the_limit(
    make_agent, make_rollout, space
):
    def step(**limits):
        agent = make_agent("vmpo", action_space=space, dual_lr=0.05, epochs=2, **limits, **SMALL)
        before = [float(agent.log_temperature), *agent.log_penalty.numpy()]
        agent.update(make_rollout(agent), SEED)
        return np.sign(np.array([float(agent.log_temperature), *agent.log_penalty.numpy()]) - before)

    wide = {"weights_kl": 50.0, "max_kl": 50.0, "max_std_kl": 50.0}
    assert (step(**wide) == -1).all()
    temperature, *penalties = step(**wide | {"weights_kl": 1e-6})
    assert temperature == 1 and set(penalties) == {-1}
    temperature, *penalties = step(**wide | {"max_kl": 1e-9})
    assert temperature == -1 and penalties == [1, -1][: len(penalties)]


def test_the_policy_that_has_learned_is_the_old_one_of_the_next_rollout(make_agent, make_rollout):
    agent = make_agent("vmpo", epochs=3, **SMALL)
    weights = lambda network: [each.numpy() for each in network.trainable_variables]  # noqa: E731
    first = weights(agent.network)
    found = agent.update(make_rollout(agent), SEED)
    assert float(found.metrics["updates"]) == 3
    for before, online, copy in zip(
        first, weights(agent.network), weights(agent.target_network), strict=True
    ):
        np.testing.assert_array_equal(online, copy)
        assert not np.array_equal(before, online)


def test_what_is_likely_in_the_better_half_becomes_likelier_and_a_penalty_holds_it_back(
    make_agent, make_rollout
):
    def moved(penalty):
        agent = make_agent("vmpo", epochs=20, penalty=penalty, dual_lr=1e-6, gamma=0.0, **SMALL)
        rollout = make_rollout(agent)
        rollout = rollout._replace(reward=tf.cast(rollout.action == 2, tf.float32))
        observation = tf.reshape(rollout.observation[:-1], [32, 3])
        before = tf.nn.softmax(agent.network(observation).parameters)
        tf.function(agent.update, autograph=False)(rollout, SEED)
        return float(tf.reduce_mean((tf.nn.softmax(agent.network(observation).parameters) - before)[:, 2]))

    assert moved(1e-3) > 0.05 and abs(moved(1e4)) < 0.02


@pytest.mark.slow  # test_impala.py has it, of the same targets
def test_it_finds_the_better_of_two_states(build):
    # The optimal values of rl/envs/graph/two_state_chain.py at gamma = 0.9 are 9 and 10.
    overrides = {"env": "TwoStateChain-v0", "gamma": 0.9, "lr": 5e-3, "rollout_length": 16, "num_envs": 16}
    overrides |= {"lr_schedule": "constant", "normalize_reward": False}
    runner = build("vmpo", train_steps=100_000, **overrides)
    runner.run(200)
    output = runner.agent.network(tf.eye(2))
    np.testing.assert_allclose(output.value, [9.0, 10.0], atol=0.3)
    probability = special.softmax(output.parameters, -1)
    assert probability[0, 1] > 0.9 and probability[1, 0] > 0.9
