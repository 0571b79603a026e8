"""PPO with a model that keeps state: minibatches of whole sequences, losses, and what it must remember."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.errors import UsageError
from rl.ops import random
from rl.ops.policy import standardize
from rl.types import Update

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "epochs": 3, "minibatches": 2, "lr": 0.01}
MODELS = pytest.mark.parametrize("model", ["lstm", "gru"])


def flat(x):
    return tf.reshape(x, [-1])


@MODELS
def test_before_the_first_step_the_policy_is_the_one_that_acted(make_agent, make_rollout, model):
    agent = make_agent("ppo", **{"model.name": model}, **SMALL)
    rollout = make_rollout(agent)
    batch = agent._advantages(rollout)
    assert batch.advantage.shape == (4, 8)  # [B, T]
    metrics = agent.loss(batch, SEED)[1]
    np.testing.assert_allclose([metrics["approximate_kl"], metrics["clip_fraction"]], [0.0, 0.0], atol=1e-5)
    _, output = agent.unroll_sequences(batch)
    counted = rollout.mask.numpy().reshape(-1) > 0  # steps first, as the rollout is
    np.testing.assert_allclose(
        output.value.numpy()[counted], flat(rollout.extras["value"]).numpy()[counted], rtol=1e-3, atol=1e-5
    )


@MODELS
def test_the_state_starts_anew_after_an_autoreset_and_only_there(make_agent, make_rollout, model):
    agent = make_agent("ppo", **{"model.name": model}, **SMALL)
    batch = agent._advantages(make_rollout(agent))
    value = tf.reshape(agent.unroll_sequences(batch)[1].value, [8, 4]).numpy()
    state = tf.nest.map_structure(lambda x: x + 0.5, batch.recurrent_state)
    moved = tf.reshape(agent.unroll_sequences(batch._replace(recurrent_state=state))[1].value, [8, 4]).numpy()
    reach = np.array([4, 6, 7, 8])  # steps until and with the autoreset row, which follows the end
    for b, steps in enumerate(reach):
        assert (moved[:steps, b] != value[:steps, b]).all()
        np.testing.assert_array_equal(moved[steps:, b], value[steps:, b])


@MODELS
def test_loss_is_that_of_the_steps_of_the_sequences(make_agent, make_rollout, model):
    overrides = {"entropy_coef": 0.1, "value_coef": 0.7, "clip_range": 0.15, "model.name": model}
    agent = make_agent("ppo", **overrides, **SMALL)
    batch = agent._advantages(make_rollout(agent))
    batch = batch._replace(log_prob=batch.log_prob + 0.2 * random.normal(SEED, [4, 8]))
    loss, metrics, _ = agent.loss(batch, SEED)
    steps, output = agent.unroll_sequences(batch)
    ratio = tf.exp(output.distribution.log_prob(steps.action) - steps.log_prob)
    advantage = standardize(steps.advantage, steps.mask)
    surrogate = -tf.minimum(ratio * advantage, tf.clip_by_value(ratio, 0.85, 1.15) * advantage)
    error = tf.square(output.value - steps.target) / 2
    expected = (surrogate + 0.7 * error - 0.1 * output.distribution.entropy()) * steps.mask
    np.testing.assert_allclose(loss, expected, rtol=1e-4, atol=1e-6)
    assert 0.0 < metrics["clip_fraction"] < 1.0


@MODELS
def test_every_environments_sequence_is_seen_whole_and_once_in_every_epoch(
    make_agent, make_rollout, monkeypatch, model
):
    agent = make_agent("ppo", **{"model.name": model}, **{**SMALL, "num_envs": 8, "minibatches": 4})
    rollout = make_rollout(agent, batch=8)
    places = tf.reshape(tf.range(64), [8, 8])  # step * 8 + environment
    rollout = rollout._replace(action=places)
    state = tf.nest.map_structure(
        lambda x: tf.repeat(tf.range(8.0)[:, None], x.shape[1], 1), rollout.recurrent_state
    )
    rollout = rollout._replace(recurrent_state=state)
    seen = []

    def record(part, seed, name="network"):
        environment = part.action.numpy()[:, 0]
        np.testing.assert_array_equal(part.action, environment[:, None] + 8 * np.arange(8))
        for each in tf.nest.flatten(part.recurrent_state):
            np.testing.assert_array_equal(each[:, 0], environment)
        seen.append(environment)
        return Update({"approximate_kl": tf.constant(0.0)})

    monkeypatch.setattr(agent, "gradient_step", record)
    assert agent.update(rollout, SEED).metrics["updates"] == len(seen) == 12
    epochs = [np.concatenate(seen[i : i + 4]) for i in range(0, 12, 4)]
    for order in epochs:
        np.testing.assert_array_equal(np.sort(order), np.arange(8))
    assert len({tuple(order) for order in epochs}) > 1


def test_minibatches_must_divide_the_environments(make_agent):
    overrides = {"model.name": "lstm", "num_envs": 4, "rollout_length": 8, "minibatches": 8}
    with pytest.raises(UsageError, match="minibatches=8 does not divide num_envs=4: with model lstm"):
        make_agent("ppo", **overrides)


@MODELS
def test_microbatches_of_sequences_give_the_full_gradient(make_agent, make_rollout, snapshot, model):
    settings = {"normalize_advantage": False, "optimizer": "sgd", "epochs": 1, "minibatches": 1}
    settings = {**SMALL, **settings, "lr": 1.0, "model.name": model}
    rollout = make_rollout(make_agent("ppo", **settings))
    results = []
    for parts in ({}, {"grad_comp": "accumulate", "microbatches": 2}):
        agent = make_agent("ppo", **settings, **parts)
        agent.update(rollout, SEED)
        results.append(snapshot(agent))
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.slow
@MODELS
def test_it_balances_a_pole_whose_speed_it_does_not_see(build, model):
    runner = build("ppo_cartpole_no_velocity", compile="xla", **{"model.name": model})
    runner.run(150)
    sums = runner.run(40)
    assert sums["episode_return"] / sums["episodes"] > 150.0  # 45 or so without memory
