"""IMPALA: its loss in numpy, off-policy corrections, groups of environments, and values it must find."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random, returns
from rl.ops.vtrace import vtrace
from rl.types import Update

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "lr": 0.01}
CONTINUOUS = spaces.Box(-1.0, 1.0, (2,))


@pytest.mark.parametrize("space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"])
def test_loss_equals_numpy(make_agent, make_rollout, numpy_policy, space):
    clips = {"rho_clip": 1.1, "trace_clip": 0.9, "advantage_rho_clip": 1.3}
    overrides = {"gamma": 0.9, "trace_lambda": 0.8, "entropy_coef": 0.1, "value_coef": 0.7, **clips}
    agent = make_agent("impala", action_space=space, **overrides, **SMALL)
    agent.network.policy.kernel.assign(agent.network.policy.kernel * 50.0)  # away from the uniform policy
    rollout = make_rollout(agent)
    lag = np.random.default_rng(1).normal(size=(8, 4)) * 0.3
    behaviour = rollout.extras["log_prob"] + tf.constant(lag, tf.float32)  # a policy of before
    rollout = rollout._replace(extras={"log_prob": behaviour})
    action = rollout.action.numpy().reshape(32, *rollout.action.shape[2:])
    observation = rollout.observation.numpy().reshape(36, 3)
    log_prob, entropy, _ = numpy_policy(agent.network, observation[:32], action)
    value = numpy_policy(agent.network, observation, np.zeros((36, *action.shape[1:]), int))[2].reshape(9, 4)
    log_prob, entropy = log_prob.reshape(8, 4), entropy.reshape(8, 4)
    log_ratio = (log_prob - behaviour.numpy()).astype(np.float32)
    ends = rollout.terminated, rollout.truncated
    target, advantage = vtrace(
        log_ratio, rollout.reward, tf.constant(value, tf.float32), *ends, 0.9, 0.8, 1.1, 0.9, 1.3
    )
    policy_loss, value_loss = -log_prob * advantage.numpy(), (value[:-1] - target.numpy()) ** 2 / 2
    mask = rollout.mask.numpy()

    loss, metrics, priorities = agent.loss(rollout, SEED)
    assert priorities is None
    expected = (policy_loss + 0.7 * value_loss - 0.1 * entropy) * mask
    np.testing.assert_allclose(tf.reshape(loss, [-1]), expected.reshape(-1), rtol=1e-3, atol=1e-4)
    parts = {"policy_loss": policy_loss, "value_loss": value_loss, "entropy": entropy}
    for name, each in (parts | {"importance_ratio": np.exp(log_ratio)}).items():
        np.testing.assert_allclose(metrics[name], each[mask > 0].mean(), rtol=1e-3, err_msg=name)


@pytest.mark.parametrize("name", ["impala", "appo"])
@pytest.mark.parametrize("model", ["mlp", "lstm"])
def test_on_policy_targets_are_n_step_returns(make_agent, make_rollout, name, model):
    agent = make_agent(name, gamma=0.9, trace_lambda=1.0, **{"model.name": model}, **SMALL)
    rollout = make_rollout(agent)
    mask = tf.concat([rollout.mask, tf.ones([1, 4])], 0)
    output = agent.network.unroll(rollout.observation, rollout.recurrent_state, mask)
    value = tf.reshape(output.value, [9, 4])
    ends = rollout.terminated, rollout.truncated
    expected = returns.discounted_return(rollout.reward, value, *ends, 0.9)
    loss = 0.5 * tf.square(value[:-1] - expected) * rollout.mask
    metrics = agent.loss(rollout, SEED)[1]
    np.testing.assert_allclose(metrics["importance_ratio"], 1.0, rtol=1e-4)
    np.testing.assert_allclose(
        metrics["value_loss"], tf.reduce_sum(loss) / tf.reduce_sum(rollout.mask), rtol=1e-3
    )


@pytest.mark.parametrize("name", ["impala", "appo"])
def test_every_environment_is_seen_once_in_every_epoch_in_a_new_order(
    make_agent, make_rollout, monkeypatch, name
):
    settings = {"num_envs": 8, "rollout_length": 8, "epochs": 4, "minibatches": 4}
    agent = make_agent(name, **settings)
    rollout = make_rollout(agent, batch=8)
    rollout = rollout._replace(reward=tf.repeat(tf.range(8.0)[None], 8, 0))
    seen = []

    def record(part, seed, name="network"):
        assert part.reward.shape == part.mask.shape == (8, 2)
        assert part.observation.shape == (9, 2, 3)
        seen.append(part.reward.numpy()[0])
        return Update({})

    monkeypatch.setattr(agent, "gradient_step", record)
    assert agent.update(rollout, SEED).metrics["updates"] == len(seen) == 16
    epochs = [np.concatenate(seen[i : i + 4]) for i in range(0, 16, 4)]
    for order in epochs:
        np.testing.assert_array_equal(np.sort(order), np.arange(8))
    assert len({tuple(order) for order in epochs}) > 1


@pytest.mark.parametrize("name", ["impala", "appo"])
def test_minibatches_that_do_not_split_the_environments_are_one_clear_line(name):
    with pytest.raises(UsageError, match=r"minibatches=3 .*divide num_envs=8"):
        resolve(f"{name}_identity", {"minibatches": 3}).freeze()
    with pytest.raises(UsageError, match=r"minibatches=2 .*divide num_envs=8"):
        resolve(f"{name}_identity", {"microbatches": 3, "grad_comp": "accumulate"}).freeze()


@pytest.mark.slow
def test_the_value_is_exact_at_both_kinds_of_episode_end(build):
    # The optimal values of rl/envs/graph/two_state_chain.py at gamma = 0.9 are 9 and 10.
    overrides = {"env": "TwoStateChain-v0", "gamma": 0.9, "lr": 5e-3, "rollout_length": 16, "num_envs": 16}
    overrides |= {"lr_schedule": "constant", "normalize_reward": False}
    runner = build("impala", train_steps=100_000, **overrides)
    runner.run(200)
    output = runner.agent.network(tf.eye(2))
    np.testing.assert_allclose(output.value, [9.0, 10.0], atol=0.3)
    probability = special.softmax(output.parameters, -1)
    assert probability[0, 1] > 0.9 and probability[1, 0] > 0.9
