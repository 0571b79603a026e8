"""Microbatches: the gradient of the parts is the gradient of the whole."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch
from marked import few

from rl.agents.algos.grad_comp.registry import get_grad_comp
from rl.agents.optimizers import OPTIMIZERS
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random, trajectories
from rl.ops.loops import Last, Max, Sum
from rl.types import SequenceBatch

SEED = random.key(0)


def updated(make_agent, snapshot, name, learn, **overrides):
    """(all variables after `learn(agent)`, what it returned)."""
    agent = make_agent(name, **overrides)
    result = learn(agent)
    return snapshot(agent), result


@pytest.mark.parametrize(
    ("microbatches", "model", "jit_compile"),
    [
        (4, "mlp", True),
        (2, "lstm", False),
        pytest.param(4, "gru", False, marks=pytest.mark.slow),
        pytest.param(2, "gru", True, marks=pytest.mark.slow),
    ],
)
def test_a_rollout_in_microbatches_gives_the_full_gradient(
    make_agent, make_rollout, snapshot, microbatches, model, jit_compile
):
    # sgd at rate 1 moves each weight by its gradient; the rollout's masks differ between environments.
    settings = {"num_envs": 4, "rollout_length": 8, "optimizer": "sgd", "lr": 1.0, "entropy_coef": 0.1}
    settings |= {"normalize_advantage": True, "max_grad_norm": None, "model.name": model}
    rollout = make_rollout(make_agent("a2c", **settings))

    def learn(agent):
        return tf.function(agent.update, jit_compile=jit_compile, autograph=False)(rollout, SEED)

    whole, update = updated(
        make_agent, snapshot, "a2c", lambda agent: agent.update(rollout, SEED), **settings
    )
    parts = {"grad_comp": "accumulate", "microbatches": microbatches}
    again, found = updated(make_agent, snapshot, "a2c", learn, **settings, **parts)
    start = snapshot(make_agent("a2c", **settings))
    assert any(np.abs(whole[name] - start[name]).max() > 0.01 for name in whole)
    for name, value in whole.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert set(found.metrics) == set(update.metrics)
    for name, value in update.metrics.items():
        np.testing.assert_allclose(found.metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_the_gradient_is_clipped_once_and_not_by_parts(make_agent, make_rollout, snapshot):
    settings = {"num_envs": 4, "rollout_length": 8, "optimizer": "sgd", "lr": 1.0, "max_grad_norm": 0.01}
    rollout = make_rollout(make_agent("a2c", **settings))
    results = []
    for parts in ({}, {"grad_comp": "accumulate", "microbatches": 4}):
        learn = lambda agent: agent.update(rollout, SEED)  # noqa: E731
        variables, update = updated(make_agent, snapshot, "a2c", learn, **settings, **parts)
        assert update.metrics["grad_norm"] > 0.01
        results.append(variables)
    for name, value in results[0].items():
        np.testing.assert_allclose(results[1][name], value, rtol=1e-4, atol=1e-6, err_msg=name)


def test_a_replay_batch_in_microbatches_gives_gradient_and_priorities(make_agent, make_batch, snapshot):
    mask = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0])  # 2 and 1 in the two halves
    batch = make_batch(mask=mask)
    settings = {"optimizer": "sgd", "lr": 0.5}
    learn = lambda agent: agent.update(batch, SEED)  # noqa: E731
    whole, update = updated(make_agent, snapshot, "dqn", learn, **settings)
    parts = {"grad_comp": "accumulate", "microbatches": 2}
    again, found = updated(make_agent, snapshot, "dqn", learn, **settings, **parts)
    for name, value in whole.items():
        np.testing.assert_allclose(again[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    np.testing.assert_allclose(found.priorities, update.priorities, rtol=1e-5)
    for name, value in update.metrics.items():
        np.testing.assert_allclose(found.metrics[name], value, rtol=1e-4, atol=1e-6, err_msg=name)


NOISY = {  # algorithms that draw while they learn: whether their actions are of a Box, overrides
    "td3": (True, {"policy_update_period": 1, "target_noise": 1.0, "target_noise_clip": 2.0}),
    "sac": (True, {"temperature_lr": 0.1}),
    "sac_discrete": (False, {"temperature_lr": 0.1}),
    "ddpg": (False, {}),
    # The noise of its noisy layers is one for all examples.
    "iqn": (False, {"fractions": 4, "target_fractions": 4, "policy_fractions": 4, "noisy": True}),
}


@pytest.mark.parametrize("name", few(NOISY, ("td3", "iqn")))
def test_a_microbatch_draws_its_rows_of_the_whole_batchs_noise(make_agent, make_batch, snapshot, name):
    box, settings = NOISY[name]
    mask = np.array([1.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 1.0])
    batch = box_batch(make_batch, np.ones((8, 1)), mask=mask) if box else make_batch(count=8, mask=mask)
    space = BOX if box else spaces.Discrete(3)
    settings = {"optimizer": "sgd", "lr": 0.1, "max_grad_norm": None, "action_space": space} | settings

    def learn(agent):
        return agent.update(batch, SEED)

    def compiled(agent):
        return tf.function(agent.update, autograph=False)(batch, SEED)

    whole, update = updated(make_agent, snapshot, name, learn, **settings)
    for microbatches, learn_parts in ((2, learn), (4, compiled)):
        parts = {"grad_comp": "accumulate", "microbatches": microbatches}
        again, found = updated(make_agent, snapshot, name, learn_parts, **settings, **parts)
        for each, value in whole.items():
            np.testing.assert_allclose(again[each], value, rtol=1e-4, atol=1e-6, err_msg=each)
        np.testing.assert_allclose(found.priorities, update.priorities, rtol=1e-4)
        for each, value in update.metrics.items():
            np.testing.assert_allclose(found.metrics[each], value, rtol=1e-4, atol=1e-6, err_msg=each)


@pytest.mark.parametrize(
    ("name", "env"),
    [("sac", "Pendulum-v1"), pytest.param("sac_discrete", "CartPole-v1", marks=pytest.mark.slow)],
)
def test_a_learned_temperature_does_not_hinder_microbatches(build, name, env):
    few = {"num_envs": 4, "rollout_length": 4, "batch_size": 8, "min_replay_size": 8, "random_steps": 0}
    few["n_step"] = 1  # so that the first rollout brings enough
    parts = {"grad_comp": "accumulate", "microbatches": 4, "updates_per_iteration": 2, "model.hidden": (8,)}
    runner = build(name, env=env, **few, **parts)
    before = runner.variables["log_temperature"].numpy()
    sums = runner.run(2)
    assert sums["updates"] == 4 and all(np.isfinite(value) for value in sums.values())
    assert runner.variables["log_temperature"].numpy() != before


def test_parts_hold_all_examples_once_and_no_more_than_their_share(make_agent, make_batch):
    agent = make_agent("dqn", grad_comp="accumulate", microbatches=3)
    seen = []

    def loss(part):
        seen.append(part.index.numpy())
        return agent.loss(part, SEED)

    agent.grad_comp(loss, make_batch(), agent.network.trainable_variables, agent.optimizers["network"])
    assert [len(part) for part in seen] == [2, 2, 2]
    np.testing.assert_array_equal(np.concatenate(seen), np.arange(6))


def test_a_batch_that_does_not_split_is_one_clear_line(make_agent, make_batch, make_rollout):
    agent = make_agent("dqn", grad_comp="accumulate", microbatches=4)
    with pytest.raises(UsageError, match=r"microbatches=4 does not divide the batch's 6 examples"):
        agent.update(make_batch(), SEED)
    agent = make_agent("vpg", num_envs=4, rollout_length=8, grad_comp="accumulate", microbatches=3)
    with pytest.raises(UsageError, match=r"microbatches=3 does not divide the batch's 4 environments"):
        agent.update(make_rollout(agent), SEED)
    with pytest.raises(UsageError, match="does not divide num_envs=8: change one of the two"):
        resolve("a2c_cartpole", {"num_envs": 8, "microbatches": 3, "grad_comp": "accumulate"}).freeze()


def test_one_microbatch_is_backprop(make_agent):
    assert get_grad_comp("accumulate")(resolve("dqn_identity", {})).__qualname__.startswith("backprop")


@pytest.mark.parametrize("kind", ["trajectory", "sequence"])
def test_sequences_are_taken_whole_with_their_own_state(make_agent, make_rollout, kind):
    agent = make_agent("a2c", num_envs=4, rollout_length=8, **{"model.name": "lstm"})
    rollout = make_rollout(agent)
    index = tf.constant([3, 1])
    batch = rollout
    if kind == "sequence":
        batch = SequenceBatch(rollout, tf.range(4.0), tf.range(4), tf.ones(4))
    assert trajectories.count(batch) == 4
    taken = trajectories.take(batch, index)
    if kind == "sequence":
        np.testing.assert_array_equal(taken.sample_weight, [3.0, 1.0])
        np.testing.assert_array_equal(taken.index, [3, 1])
        taken = taken.trajectory
    np.testing.assert_array_equal(taken.observation, rollout.observation.numpy()[:, [3, 1]])
    np.testing.assert_array_equal(taken.reward, rollout.reward.numpy()[:, [3, 1]])
    np.testing.assert_array_equal(taken.extras["value"], rollout.extras["value"].numpy()[:, [3, 1]])
    states = zip(
        tf.nest.flatten(taken.recurrent_state), tf.nest.flatten(rollout.recurrent_state), strict=True
    )
    for part, whole in states:
        np.testing.assert_array_equal(part, whole.numpy()[[3, 1]])


def test_sums_and_extremes_of_microbatches_are_those_of_the_whole(make_batch):
    hparams = resolve("dqn", {"env": "Test-v0", "grad_comp": "accumulate", "microbatches": 2})
    batch = make_batch(count=4)._replace(reward=tf.constant([1.0, 4.0, 3.0, 2.0]))
    variable = keras.Variable(1.0)
    optimizer = OPTIMIZERS["sgd"](0.1, None)
    optimizer.build([variable])

    def loss(part):
        x = part.reward
        metrics = {"sum": Sum(tf.reduce_sum(x)), "max": Max(tf.reduce_max(x)), "last": Last(x[-1])}
        return x * variable.value, metrics | {"mean": tf.reduce_mean(x)}, None

    metrics = get_grad_comp("accumulate")(hparams)(loss, batch, [variable], optimizer).metrics
    found = {name: float(getattr(each, "value", each)) for name, each in metrics.items()}
    assert found == {"sum": 10.0, "max": 4.0, "last": 2.0, "mean": 2.5, "loss": 2.5, "grad_norm": 2.5}


def test_microbatches_that_nobody_makes_are_refused():
    with pytest.raises(UsageError, match=r"microbatches=2: grad_comp backprop .*take grad_comp=accumulate"):
        resolve("ppo_identity", {"microbatches": 2})
