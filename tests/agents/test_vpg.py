"""VPG: weights with and without a baseline, policy steps and value steps, and values that it must find."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest
from scipy import special

from rl.ops import random, returns

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "lr": 0.01, "value_lr": 0.01}
CONTINUOUS = spaces.Box(-1.0, 1.0, (2,))


def test_reward_to_go_is_the_discounted_return_and_bootstraps_only_where_it_was_cut(make_agent, make_rollout):
    agent = make_agent("vpg", advantage="reward_to_go", normalize_advantage=False, gamma=0.5, **SMALL)
    rollout = make_rollout(agent)
    reward, value = rollout.reward.numpy(), rollout.extras["value"].numpy()
    weight = agent._advantages(rollout).extras["advantage"].numpy()
    # Environment 0 terminates at step 2: no value anywhere.
    r = reward[:, 0]
    np.testing.assert_allclose(weight[:3, 0], [r[0] + r[1] / 2 + r[2] / 4, r[1] + r[2] / 2, r[2]], rtol=1e-4)
    # Environment 1 is truncated at step 4, and goes on from the value there.
    cut = reward[4, 1] + value[5, 1] / 2
    np.testing.assert_allclose(weight[3:5, 1], [reward[3, 1] + cut / 2, cut], rtol=1e-4)
    # The rollout's end is a cut too.
    last = agent.network(rollout.observation[-1]).value
    np.testing.assert_allclose(weight[7], reward[7] + last / 2, rtol=1e-4)


def test_gae_weights_are_generalized_advantages_and_values_aim_at_returns(make_agent, make_rollout):
    agent = make_agent("vpg", normalize_advantage=False, gamma=0.9, gae_lambda=0.8, **SMALL)
    rollout = make_rollout(agent)
    last = agent.network(rollout.observation[-1]).value
    values = tf.concat([rollout.extras["value"], last[None]], 0)
    arguments = rollout.reward, values, rollout.terminated, rollout.truncated
    extras = agent._advantages(rollout).extras
    np.testing.assert_allclose(
        extras["advantage"], returns.generalized_advantage(*arguments, 0.9, 0.8), rtol=1e-4, atol=1e-5
    )
    np.testing.assert_allclose(extras["target"], returns.discounted_return(*arguments, 0.9), rtol=1e-4)


@pytest.mark.parametrize("advantage", ["reward_to_go", "gae"])
def test_standardised_weights_have_mean_0_and_deviation_1_where_they_count(
    make_agent, make_rollout, advantage
):
    agent = make_agent("vpg", advantage=advantage, **SMALL)
    rollout = make_rollout(agent)
    counted = agent._advantages(rollout).extras["advantage"].numpy()[rollout.mask.numpy() > 0]
    np.testing.assert_allclose([counted.mean(), counted.std()], [0.0, 1.0], atol=1e-4)


@pytest.mark.parametrize("space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"])
def test_losses_equal_numpy(make_agent, make_rollout, numpy_policy, space):
    agent = make_agent("vpg", action_space=space, entropy_coef=0.1, **SMALL)
    agent.network.policy.kernel.assign(agent.network.policy.kernel * 50.0)  # away from the uniform policy
    data = agent._advantages(make_rollout(agent))
    observation = data.observation.numpy()[:-1].reshape(-1, 3)
    action = data.action.numpy().reshape(32, *data.action.shape[2:])
    log_prob, entropy, value = numpy_policy(agent.network, observation, action)
    mask, advantage = data.mask.numpy().reshape(-1), data.extras["advantage"].numpy().reshape(-1)
    target = data.extras["target"].numpy().reshape(-1)

    loss, metrics, priorities = agent.loss(data, SEED)
    assert priorities is None
    expected = -(log_prob * advantage + 0.1 * entropy) * mask
    np.testing.assert_allclose(loss, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["entropy"], entropy[mask > 0].mean(), rtol=1e-4)
    loss, metrics, _ = agent.value_loss(data, SEED)
    expected = (value - target) ** 2 / 2 * mask
    np.testing.assert_allclose(loss, expected, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(metrics["value_loss"], expected.sum() / mask.sum(), rtol=1e-3)


def test_one_policy_step_and_value_updates_steps_of_the_value(make_agent, make_rollout, snapshot):
    agent = make_agent("vpg", value_updates=7, **SMALL)
    rollout, before = make_rollout(agent), snapshot(agent)
    metrics = agent.update(rollout, SEED).metrics
    assert metrics["updates"] == 1.0
    assert int(agent.optimizers["network"].iterations.numpy()) == 1
    assert int(agent.optimizers["value"].iterations.numpy()) == 7
    after = snapshot(agent)
    # Each optimizer's first moments say which variables its gradients reached.
    for name, value in after.items():
        if "momentum" in name and name.startswith("optimizer/"):
            of_value = "value" in name.removeprefix("optimizer/value/")
            reached = of_value == name.startswith("optimizer/value/")
            assert (value != 0.0).any() == reached, name
    assert all((after[name] != before[name]).any() for name in before if name.endswith("kernel"))


def test_the_value_is_fitted_by_its_steps(make_agent, make_rollout):
    agent = make_agent("vpg", value_updates=40, max_grad_norm=None, **{**SMALL, "value_lr": 0.05})
    data = agent._advantages(make_rollout(agent))
    before = tf.reduce_sum(agent.value_loss(data, SEED)[0])
    agent.update(make_rollout(agent), SEED)
    assert tf.reduce_sum(agent.value_loss(data, SEED)[0]) < 0.5 * before


@pytest.mark.parametrize("name", ["vpg", "a2c", "impala", *rest("trpo", "appo")])
def test_autoreset_rows_have_no_influence_on_the_update(make_agent, make_rollout, snapshot, name):
    settings = {"num_envs": 4, "rollout_length": 8, "lr": 0.01}
    first = make_agent(name, **settings)
    rollout, before, results = make_rollout(first), snapshot(first), []
    reset = rollout.mask.numpy() == 0.0
    assert reset.sum() == 3
    nonsense = rollout._replace(
        action=tf.where(reset, (rollout.action + 1) % 3, rollout.action),
        reward=tf.where(reset, 1e3, rollout.reward),
    )
    for each in (rollout, nonsense):
        agent = make_agent(name, **settings)
        agent.update(each, SEED)
        results.append(snapshot(agent))
    assert any((before[key] != results[0][key]).any() for key in before)
    for key, value in results[0].items():
        np.testing.assert_array_equal(results[1][key], value, err_msg=key)


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("a2c", "gru"),
        ("ppo", "lstm"),
        *rest(("a2c", "lstm"), ("ppo", "gru"), ("vpg", "lstm"), ("vpg", "gru")),
    ],
)
def test_the_last_value_is_the_one_that_acting_on_would_have_given(make_agent, make_rollout, name, model):
    overrides = {"num_envs": 4, "rollout_length": 8, "model.name": model, "minibatches": 2}
    if name != "ppo":
        del overrides["minibatches"]
    agent = make_agent(name, **overrides)
    rollout = make_rollout(agent)
    state = rollout.recurrent_state
    for t in range(8):
        output = agent.policy(rollout.observation[t], state, SEED, True)
        np.testing.assert_allclose(output.value, rollout.extras["value"][t], rtol=1e-4, atol=1e-5)
        alive = rollout.mask[t][:, None]
        state = tf.nest.map_structure(lambda x, alive=alive: x * alive, output.recurrent_state)
    expected = agent.policy(rollout.observation[8], state, SEED, True).value
    np.testing.assert_allclose(agent.network.last_value(rollout), expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("space", [spaces.MultiDiscrete([3, 2]), spaces.MultiBinary(3)], ids=str)
@pytest.mark.parametrize("name", ["a2c", "impala", *rest("vpg", "appo")])
def test_actions_of_several_parts(make_agent, make_rollout, name, space):
    agent = make_agent(name, action_space=space, num_envs=4, rollout_length=8)
    rollout = make_rollout(agent)
    assert rollout.action.shape == (8, 4, *space.shape)
    assert all(np.isfinite(each) for each in agent.update(rollout, SEED).metrics.values())


@pytest.mark.slow  # test_a2c.py has it, of advantages that are made alike
def test_the_value_is_exact_at_both_kinds_of_episode_end(build):
    # The optimal values of rl/envs/graph/two_state_chain.py at gamma = 0.9 are 9 and 10.
    overrides = {"env": "TwoStateChain-v0", "gamma": 0.9, "lr": 1e-2, "rollout_length": 16, "num_envs": 16}
    overrides |= {"lr_schedule": "constant", "normalize_reward": False, "value_lr": 1e-2}
    runner = build("vpg", train_steps=100_000, **overrides)
    runner.run(200)
    output = runner.agent.network(tf.eye(2))
    np.testing.assert_allclose(output.value, [9.0, 10.0], atol=0.3)
    probability = special.softmax(output.parameters, -1)
    assert probability[0, 1] > 0.9 and probability[1, 0] > 0.9
