"""R2D2: its loss by hand and in numpy, and that replay begins with the states that acting had."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from marked import rest
from random_sequences import sequences

from rl.errors import UsageError
from rl.ops import random
from rl.types import SequenceBatch, Trajectory

SEED = random.key(0)
MODELS = pytest.mark.parametrize("model", ["lstm", pytest.param("gru", marks=pytest.mark.slow)])


@pytest.fixture
def agent_of(make_agent):
    """An agent of sequences of 3 + 4 steps, n = 2, whose target network differs from the online one."""

    def make(**overrides):
        settings = {"model.recurrent_units": 5, "burn_in": 3, "unroll_length": 4, "rollout_length": 4}
        agent = make_agent("r2d2", **{**settings, "n_step": 2, "gamma": 0.9, **overrides})
        for i, variable in enumerate(agent.target_network.trainable_variables):
            variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)
        return agent

    return make


# Two steps of one environment, no burn-in, gamma 1/2, h without its linear part: h(3) = 1, h(8) = 2.
ONLINE = [[1.0, 0.0], [0.0, 2.0], [5.0, 1.0]]  # chooses actions 0, 1, 0 (the first is not asked)
TARGET = [[0.0, 0.0], [9.0, 1.0], [2.0, 7.0]]  # so the values are h^-1(1) = 3, h^-1(2) = 8


def by_hand(make_agent, action=(0, 0), terminated=(0, 0), truncated=(0, 0), mask=(1, 1), **overrides):
    settings = {"burn_in": 0, "unroll_length": 2, "rollout_length": 2, "n_step": 2, "gamma": 0.5}
    settings |= {"value_rescaling_epsilon": 0.0, "loss": "mse"}
    agent = make_agent("r2d2", **{**settings, **overrides})
    values = {agent.network: ONLINE, agent.target_network: TARGET}
    agent.unroll = lambda network, trajectory: tf.constant(values[network])[:, None]
    columns = [tf.constant(x)[:, None] for x in (action, [4.0, 4.0])]
    flags = [tf.constant(np.array(x, bool))[:, None] for x in (terminated, truncated)]
    trajectory = Trajectory((), *columns, *flags, tf.constant(mask, tf.float32)[:, None], {})
    batch = SequenceBatch(trajectory, tf.constant([0.5]), tf.constant([0]), tf.ones([1]))
    loss, metrics, priorities = agent.loss(batch, SEED)
    return float(loss[0]), float(priorities[0]), {name: float(value) for name, value in metrics.items()}


def test_loss_and_priority_by_hand(make_agent):
    # Targets: h(4 + 4 / 2 + 8 / 4) = h(8) = 2 and h(4 + 8 / 2) = 2; values 1 and 0; errors 1 and 2.
    loss, priority, metrics = by_hand(make_agent)
    np.testing.assert_allclose(loss, 0.5 * (1 + 4) / 2, rtol=1e-6)
    np.testing.assert_allclose(priority, 0.9 * 2 + 0.1 * 1.5, rtol=1e-6)
    np.testing.assert_allclose([metrics["q_value"], metrics["td_error"]], [0.5, 1.5], rtol=1e-6)
    # Huber: 1 / 2 and 2 - 1 / 2
    np.testing.assert_allclose(by_hand(make_agent, loss="huber")[0], 0.5 * (0.5 + 1.5) / 2, rtol=1e-6)


def test_without_double_the_target_network_chooses(make_agent):
    # h^-1(9) = 99, h^-1(7) = 63: one-step targets h(4 + 99 / 2) and h(4 + 63 / 2)
    errors = np.sqrt([54.5, 36.5]) - 1 - [1, 0]
    loss, *_ = by_hand(make_agent, double=False, n_step=1)
    np.testing.assert_allclose(loss, 0.5 * np.square(errors).mean(), rtol=1e-5)


def test_without_rescaling_values_are_taken_as_they_are(make_agent):
    # 4 + 4 / 2 + 2 / 4 = 6.5 and 4 + 2 / 2 = 5
    _, priority, metrics = by_hand(make_agent, value_rescaling=False)
    np.testing.assert_allclose(metrics["td_error"], (5.5 + 5) / 2, rtol=1e-6)
    np.testing.assert_allclose(priority, 0.9 * 5.5 + 0.1 * 5.25, rtol=1e-6)


def test_episode_ends_by_hand(make_agent):
    # Terminated: h(4) = sqrt(5) - 1. Truncated: h(4 + 3 / 2). The autoreset step after it counts nothing.
    for ends, target in (({"terminated": (1, 0)}, 5.0), ({"truncated": (1, 0)}, 6.5)):
        error = np.sqrt(target) - 1 - 1
        loss, priority, metrics = by_hand(make_agent, mask=(1, 0), **ends)
        np.testing.assert_allclose(loss, 0.5 * error**2 / 2, rtol=1e-5)
        np.testing.assert_allclose(priority, abs(error), rtol=1e-5)
        np.testing.assert_allclose(metrics["td_error"], abs(error), rtol=1e-5)


def test_retrace_by_hand(make_agent):
    # The second action is not the greedy one: the trace ends, h(4 + 3 / 2).
    errors = np.array([np.sqrt(6.5) - 1 - 1, 2 - 0])
    loss, *_ = by_hand(make_agent, retrace_lambda=0.5)
    np.testing.assert_allclose(loss, 0.5 * np.square(errors).mean(), rtol=1e-5)
    # It is: 4 + 3 / 2 + 1 / 2 * 1 / 2 * (4 + 8 / 2 - 3) = 6.75; the second value is 2, its target too.
    errors = np.array([np.sqrt(7.75) - 1 - 1, 2 - 2])
    loss, *_ = by_hand(make_agent, action=(0, 1), retrace_lambda=0.5)
    np.testing.assert_allclose(loss, 0.5 * np.square(errors).mean(), rtol=1e-5)


def h(x):
    return np.sign(x) * (np.sqrt(np.abs(x) + 1) - 1) + 1e-3 * x


def inverse(x):
    root = np.sqrt(1 + 4e-3 * (np.abs(x) + 1 + 1e-3))
    return np.sign(x) * (((root - 1) / 2e-3) ** 2 - 1)


@pytest.mark.parametrize("model", ["lstm", "gru", "mlp"])
@pytest.mark.parametrize("double", [False, True])
def test_loss_and_priorities_equal_numpy(agent_of, model, double):
    agent = agent_of(**{"model.name": model, "double": double, "huber_delta": 0.3})
    batch = sequences(agent)
    t = batch.trajectory
    mask = tf.concat([t.mask, tf.ones([1, 5])], 0)

    def q_values(network):  # all steps in one piece: values do not know of the burn-in
        return network.unroll(t.observation, t.recurrent_state, mask)[0].numpy().astype(np.float64)[3:]

    online, lagged = q_values(agent.network), q_values(agent.target_network)
    best = (online if double else lagged).argmax(-1)  # [5, N]
    following = inverse(np.take_along_axis(lagged, best[..., None], -1)[..., 0])
    reward, ended, terminated, action = (
        x.numpy()[3:] for x in (t.reward, tf.logical_or(t.terminated, t.truncated), t.terminated, t.action)
    )
    error = np.zeros((4, 5))
    for b in range(5):
        for step in range(4):
            total, last = reward[step, b], step
            if not ended[step, b] and step < 3:
                total, last = total + 0.9 * reward[step + 1, b], step + 1
            bootstrap = 0.0 if terminated[last, b] else 0.9 ** (last + 1 - step) * following[last + 1, b]
            error[step, b] = h(total + bootstrap) - online[step, b, action[step, b]]
    count = t.mask.numpy()[3:] * batch.mask.numpy()
    size = np.abs(error)
    each = np.where(size <= 0.3, error**2 / 2, 0.3 * (size - 0.15))
    mean = (size * count).sum(0) / np.maximum(count.sum(0), 1)

    loss, metrics, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(loss, (each * count).mean(0) * batch.sample_weight, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(priorities, 0.9 * (size * count).max(0) + 0.1 * mean, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics["td_error"], (size * count).sum() / count.sum(), rtol=1e-3)
    assert loss[4] == priorities[4] == 0.0  # an empty slot


@MODELS
@pytest.mark.parametrize("burn_in", [0, 3])
def test_no_gradient_flows_through_the_burn_in_or_the_target(agent_of, model, burn_in):
    agent = agent_of(**{"model.name": model, "burn_in": burn_in, "unroll_length": 7 - burn_in})
    batch = sequences(agent)
    state, observation = batch.trajectory.recurrent_state, batch.trajectory.observation
    with tf.GradientTape(persistent=True) as tape:
        tape.watch((state, observation))
        loss = agent.loss(batch, SEED)[0]
    zeros = tf.UnconnectedGradients.ZERO
    for each in tf.nest.flatten(tape.gradient(loss, state, unconnected_gradients=zeros)):
        assert (each.numpy() != 0.0).any() == (burn_in == 0)
    reached = (tape.gradient(loss, observation, unconnected_gradients=zeros).numpy() != 0.0).any(
        (1, 2)
    )  # [8]
    np.testing.assert_array_equal(reached, [step >= burn_in and step < 7 for step in range(8)])
    lagged = [variable.value for variable in agent.target_network.trainable_variables]
    assert all(each is None for each in tape.gradient(loss, lagged))


def test_masked_steps_and_empty_slots_have_no_influence(agent_of):
    losses = []
    for noise in (0.0, 9.0):
        agent = agent_of()
        batch = sequences(agent)
        t = batch.trajectory
        t = t._replace(reward=t.reward + noise * (1.0 - t.mask), action=t.action)
        t = t._replace(reward=t.reward + noise * (1.0 - batch.mask))
        losses.append(agent.loss(batch._replace(trajectory=t), SEED)[0].numpy())
    np.testing.assert_array_equal(*losses)
    assert losses[0][:4].all()


def test_one_update_moves_every_weight_of_the_online_network_alone(agent_of, snapshot):
    agent = agent_of(target_update_period=2)
    before = snapshot(agent)
    agent.update(sequences(agent), SEED)
    after = snapshot(agent)
    for name in before:
        if name.startswith(("network/", "target_network/")):
            assert (before[name] != after[name]).any() == name.startswith("network/"), name
    agent.update(sequences(agent), SEED)
    for online, lagged in zip(
        agent.network.trainable_variables, agent.target_network.trainable_variables, strict=True
    ):
        np.testing.assert_array_equal(online, lagged)


PLAYED = {}  # by backend and model: two tests read what one runner has stored


def played(build, backend, model):
    if (backend, model) not in PLAYED:
        PLAYED[backend, model] = play(build, backend, model)
    return PLAYED[backend, model]


def play(build, backend, model):
    """A runner after 12 rollouts of 5 steps of 3 environments, without learning; all rows [60, 3] of what it
    stored: observations, masks."""
    settings = {"env_backend": backend, "model.name": model, "num_envs": 3, "rollout_length": 5}
    settings |= {"burn_in": 4, "unroll_length": 6, "replay_capacity": 1500, "min_replay_size": 1200}
    runner = build("r2d2_cartpole", **settings)
    runner.run(12)
    memory = runner.memory
    memory.check_valid()
    rows = int(memory.ring.filled)
    stored = memory.variables
    observation = stored["observation"].numpy().reshape(-1, 3, 4)[:rows]
    mask = ((stored["flags"].numpy() & 4) != 0).astype(np.float32).reshape(-1, 3)[:rows]
    assert rows == 60 and (mask == 0.0).any(1).sum() > 3, "several episodes have to end in between"
    return runner, tf.constant(observation), tf.constant(mask)


@MODELS
@pytest.mark.parametrize("backend", ["graph", *rest("gym")])
def test_the_stored_states_are_those_that_the_network_had(build, backend, model):
    runner, observation, mask = played(build, backend, model)
    network = runner.agent.network
    variables = runner.memory.variables
    stored = [each.numpy() for name, each in variables.items() if name.startswith("recurrent_state")]
    assert len(stored) == (2 if model == "lstm" else 1)
    state = network.initial_state(3)
    for rollout in range(12):
        rows = slice(5 * rollout, 5 * rollout + 5)
        for found, expected in zip(stored, tf.nest.flatten(state), strict=True):
            np.testing.assert_allclose(found[3 * rollout : 3 * rollout + 3], expected, rtol=1e-4, atol=1e-5)
        assert rollout == 0 or all(np.abs(each).max() > 0 for each in tf.nest.flatten(state))
        _, state = network.unroll(observation[rows], state, mask[rows])


@MODELS
def test_the_burn_in_ends_in_the_state_of_the_whole_history(build, model):
    runner, observation, mask = played(build, "graph", model)
    agent, memory = runner.agent, runner.memory
    q_values, _ = agent.network.unroll(observation, agent.network.initial_state(3), mask)  # [60, 3, A]
    batch = memory.sample(SEED, tf.constant(0, tf.int64))
    found = agent.unroll(agent.network, batch.trajectory)  # [7, N, A]
    for n, leaf in enumerate(batch.index.numpy()):
        row, env = leaf // 3 * 5, leaf % 3
        expected = q_values[row + 4 : row + 11, env]
        np.testing.assert_allclose(found[:, n], expected, rtol=1e-4, atol=1e-5)


def test_rollouts_longer_than_what_is_learned_from_are_refused(make_agent):
    with pytest.raises(UsageError, match="rollout_length=9 is above unroll_length=8"):
        make_agent("r2d2", rollout_length=9, unroll_length=8)


def test_other_memories_are_refused(build):
    with pytest.raises(UsageError, match="memory uniform is for transition experience"):
        build("r2d2_identity", memory="uniform")


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [{"retrace_lambda": 0.9, "prioritized": False}, {"noisy": True}],
)
def test_runs_with_rare_switches_make_finite_updates(build, overrides):
    runner = build("r2d2_identity", **overrides)
    sums = runner.run(20)
    assert sums["updates"] > 0 and all(np.isfinite(value) for value in sums.values())
    runner.memory.check_valid()
