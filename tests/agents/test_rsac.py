"""RSAC: its losses by hand, in numpy and as SAC's, and that replay begins with the states that acting had."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from known_networks import BOX, constant_actor, linear_critic, same, values
from marked import rest
from random_sequences import sequences

from rl.errors import UsageError
from rl.ops import random
from rl.types import Batch, SequenceBatch, Trajectory, Update

SEED = random.key(0)
MODELS = pytest.mark.parametrize("model", ["lstm", pytest.param("gru", marks=pytest.mark.slow)])
SHORT = {"model.recurrent_units": 5, "burn_in": 3, "unroll_length": 4, "rollout_length": 4}


@pytest.fixture
def agent_of(make_agent):
    """An agent of sequences of 3 + 4 steps, n = 2, whose target critics differ from the online ones."""

    def make(**overrides):
        settings = {**SHORT, "n_step": 2, "gamma": 0.9, "temperature": 0.2, **overrides}
        agent = make_agent("rsac", action_space=BOX, previous_action_reward=False, **settings)
        for i, variable in enumerate(agent.target_critic.trainable_variables):
            variable.assign_add(random.normal(random.key(i), variable.shape) * 0.3)
        return agent

    return make


def by_hand(make_agent, terminated=(0, 0), truncated=(0, 0), mask=(1, 1), **overrides):
    """(loss, priority, metrics) of two steps of one environment, gamma 1/2, temperature 1/5, two critics."""
    settings = {"burn_in": 0, "unroll_length": 2, "rollout_length": 2, "gamma": 0.5, "temperature": 0.2}
    agent = make_agent("rsac", action_space=BOX, **{**settings, **overrides})
    found = {
        "critic": [[1.0, 0.0, 7.0], [3.0, 1.0, 7.0]],  # [2, 3], of the actions taken
        "target_critic": [
            [9.0, 6.0, 4.0],
            [9.0, 5.0, 8.0],
        ],  # of those drawn; the lesser: 9, 5, 4
    }
    agent.values_along = lambda critic, trajectory, action: tf.constant(found[critic])[:, :, None]
    agent.drawn = lambda trajectory, seed: (None, tf.constant([[0.0], [-5.0], [10.0]]))  # log densities
    columns = [tf.constant(x)[:, None] for x in ([[1.0], [1.0]], [4.0, 8.0])]
    flags = [tf.constant(np.array(x, bool))[:, None] for x in (terminated, truncated)]
    trajectory = Trajectory((), *columns, *flags, tf.constant(mask, tf.float32)[:, None], {})
    batch = SequenceBatch(trajectory, tf.constant([0.5]), tf.constant([0]), tf.ones([1]))
    loss, metrics, priorities = agent.loss(batch, SEED)
    return float(loss[0]), float(priorities[0]), {name: float(value) for name, value in metrics.items()}


def test_the_critics_loss_and_priority_by_hand(make_agent):
    # Soft values 5 + 1 and 4 - 2; targets 4 + 6 / 2 = 7 and 8 + 2 / 2 = 9; errors 6, 4 and 9, 8.
    loss, priority, metrics = by_hand(make_agent)
    np.testing.assert_allclose(loss, 0.5 * 0.5 * ((36 + 16) + (81 + 64)) / 2, rtol=1e-6)
    np.testing.assert_allclose(priority, 0.9 * 8.5 + 0.1 * (5 + 8.5) / 2, rtol=1e-6)
    np.testing.assert_allclose([metrics["q_value"], metrics["td_error"]], [1.25, 6.75], rtol=1e-6)
    # Of two steps: 4 + 8 / 2 + 2 / 4 = 8.5 in place of 7.
    loss, *_ = by_hand(make_agent, n_step=2)
    np.testing.assert_allclose(loss, 0.5 * 0.5 * ((7.5**2 + 5.5**2) + (81 + 64)) / 2, rtol=1e-6)


def test_episode_ends_by_hand(make_agent):
    # Terminated: 4 alone. Truncated: 4 + 6 / 2. The autoreset step after it counts nothing.
    for ends, target in (({"terminated": (1, 0)}, 4.0), ({"truncated": (1, 0)}, 7.0)):
        errors = np.array([target - 1, target - 3])
        loss, priority, metrics = by_hand(make_agent, mask=(1, 0), n_step=2, **ends)
        np.testing.assert_allclose(loss, 0.5 * 0.5 * (errors**2).sum() / 2, rtol=1e-6)
        np.testing.assert_allclose(priority, np.abs(errors).mean(), rtol=1e-6)
        np.testing.assert_allclose(metrics["td_error"], np.abs(errors).mean(), rtol=1e-6)


def test_without_memory_and_with_one_step_the_losses_are_those_of_sac(make_agent):
    plain = {"model.name": "mlp", "temperature": 0.5, "model.layer_norm": False}
    sac = make_agent("sac", action_space=BOX, **plain)
    sequences_of_one = {
        "burn_in": 0,
        "unroll_length": 1,
        "rollout_length": 1,
        "previous_action_reward": False,
    }
    rsac = make_agent("rsac", action_space=BOX, **plain, **sequences_of_one)
    for agent in (sac, rsac):
        constant_actor(agent.network, [0.5, -40.0])  # clipped: the draws are the mean, but for e^-20
        linear_critic(agent.critic, [2.0, -1.0], [1.0, 1.0])
        linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    generator, count = np.random.default_rng(0), 6
    real = [generator.normal(size=size).astype(np.float32) for size in ((2, count, 3), (count, 1), count)]
    observation, action, reward = (tf.constant(each) for each in real)
    terminated = tf.constant([True, False] * 3)
    discount = rsac.hparams.gamma * (1.0 - tf.cast(terminated, tf.float32))
    rest_of_batch = tf.constant(real[2] ** 2), tf.range(count), tf.constant([1.0, 1, 1, 1, 1, 0])
    flat = Batch(observation[0], action, reward, discount, observation[1], *rest_of_batch)
    steps = (action[None], reward[None], terminated[None], tf.zeros([1, count], bool), tf.ones([1, count]))
    batch = SequenceBatch(rsac.warmed(Trajectory(observation, *steps, {})), *rest_of_batch)
    # A log density is that of a draw, and of each draw another one: its weight is 0 here.
    for agent in (sac, rsac):
        agent.log_temperature.assign(-40.0)
    (loss, metrics, sizes), (expected, *same_of_sac) = rsac.loss(batch, SEED), sac.loss(flat, SEED)
    np.testing.assert_allclose(loss, expected, rtol=1e-5)
    np.testing.assert_allclose(sizes, same_of_sac[1] * flat.mask, rtol=1e-5)
    for name, value in same_of_sac[0].items():
        np.testing.assert_allclose(metrics[name], value, rtol=1e-5, err_msg=name)
    np.testing.assert_allclose(rsac.policy_loss(batch, SEED)[0], sac.policy_loss(flat, SEED)[0], rtol=1e-5)


@MODELS
def test_losses_equal_numpy(agent_of, model):
    agent = agent_of(**{"model.name": model})
    batch = sequences(agent)
    t = batch.trajectory
    batch = batch._replace(trajectory=agent.warmed(t))
    mask = tf.concat([t.mask, tf.ones([1, 5])], 0)
    draws = agent.drawn(batch.trajectory, SEED)
    action, log_prob = (each.numpy().astype(np.float64) for each in draws)  # [5, N, 1], [5, N]
    drawn = tf.concat([tf.zeros([3, 5, 1]), tf.constant(action, tf.float32)], 0)  # [8, N, 1]
    taken = tf.concat([(t.action - 1.0) / 3.0, tf.zeros([1, 5, 1])], 0)

    def lesser(critic, code):  # all steps in one piece: values do not know of the burn-in
        found = critic.unroll(t.observation, t.recurrent_state[1], mask, action=code)[0].numpy()
        return found.astype(np.float64)[:, 3:, :, 0]

    soft = lesser(agent.target_critic, drawn).min(0) - 0.2 * log_prob  # [5, N]
    q_values = lesser(agent.critic, taken)[:, :-1]  # [2, 4, N]
    reward, ended, terminated = (
        x.numpy()[3:] for x in (t.reward, tf.logical_or(t.terminated, t.truncated), t.terminated)
    )
    target = np.zeros((4, 5))
    for b in range(5):
        for step in range(4):
            total, last = reward[step, b], step
            if not ended[step, b] and step < 3:
                total, last = total + 0.9 * reward[step + 1, b], step + 1
            bootstrap = 0.0 if terminated[last, b] else 0.9 ** (last + 1 - step) * soft[last + 1, b]
            target[step, b] = total + bootstrap
    count = t.mask.numpy()[3:] * batch.mask.numpy()
    each = 0.5 * ((target - q_values) ** 2).sum(0)
    loss, _, priorities = agent.loss(batch, SEED)
    np.testing.assert_allclose(loss, (each * count).mean(0) * batch.sample_weight, rtol=1e-3, atol=1e-5)
    size = np.abs(target - q_values).mean(0) * count
    mean = size.sum(0) / np.maximum(count.sum(0), 1)
    np.testing.assert_allclose(priorities, 0.9 * size.max(0) + 0.1 * mean, rtol=1e-3, atol=1e-5)
    assert loss[4] == priorities[4] == 0.0  # an empty slot

    loss, metrics, _ = agent.policy_loss(batch, SEED)
    each = (0.2 * log_prob - lesser(agent.critic, drawn).min(0))[:-1]
    np.testing.assert_allclose(loss, (each * count).mean(0), rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], -(log_prob[:-1] * count).sum() / count.sum(), rtol=1e-3)


@MODELS
def test_no_gradient_flows_through_the_burn_in_or_the_target(agent_of, model):
    agent = agent_of(**{"model.name": model})
    batch = sequences(agent)
    for loss_of, own in ((agent.loss, agent.critic), (agent.policy_loss, agent.network)):
        observation, state = batch.trajectory.observation, batch.trajectory.recurrent_state
        with tf.GradientTape(persistent=True) as tape:
            tape.watch((state, observation))
            loss = loss_of(batch._replace(trajectory=agent.warmed(batch.trajectory)), SEED)[0]
        zeros = tf.UnconnectedGradients.ZERO
        for each in tf.nest.flatten(tape.gradient(loss, state, unconnected_gradients=zeros)):
            assert not each.numpy().any()
        reached = tape.gradient(loss, observation, unconnected_gradients=zeros).numpy()
        np.testing.assert_array_equal((reached != 0.0).any((1, 2)), [3 <= step < 7 for step in range(8)])
        assert all((each.numpy() != 0.0).any() for each in tape.gradient(loss, own.trainable_weights))
        lagged = [variable.value for variable in agent.target_critic.trainable_variables]
        assert all(each is None for each in tape.gradient(loss, lagged))


def test_each_step_moves_its_own_networks_alone(agent_of):
    agent = agent_of()
    batch, networks = sequences(agent), (agent.network, agent.critic, agent.target_critic)
    batch = batch._replace(trajectory=agent.warmed(batch.trajectory))
    before = [values(each) for each in networks]
    agent.gradient_step(batch, SEED, "critic")
    assert [same(old, values(each)) for old, each in zip(before, networks, strict=True)] == [
        True,
        False,
        True,
    ]
    before = [values(each) for each in networks]
    agent.policy_step(batch, SEED)
    assert [same(old, values(each)) for old, each in zip(before, networks, strict=True)] == [
        False,
        True,
        True,
    ]


PLAYED = {}  # by backend and model: two tests read what one runner has stored


def played(build, backend, model):
    """A runner after 5 rollouts of 5 steps of 3 environments, without learning; all rows [25, 3] of what it
    stored: observations, masks."""
    if (backend, model) not in PLAYED:
        settings = {"env_backend": backend, "model.name": model, "num_envs": 3, "rollout_length": 5}
        settings |= {"burn_in": 4, "unroll_length": 6, "replay_capacity": 150, "min_replay_size": 120}
        small = {"previous_action_reward": False, "model.recurrent_units": 8, "max_episode_steps": 7}
        small |= {"compile": "eager"} if backend == "graph" else {}
        runner = build("rsac_pendulum_no_velocity", **settings, **small, env="Pendulum-v1")
        # Nothing is learned, so that the states are those of the weights now; it would take long to trace.
        runner.agent.update = lambda batch, seed: Update({"loss": tf.reduce_mean(batch.mask)}, None)
        runner.run(5)
        memory = runner.memory
        memory.check_valid()
        rows, stored = int(memory.ring.filled), memory.variables
        observation = stored["observation"].numpy().reshape(-1, 3, 3)[:rows]
        mask = ((stored["flags"].numpy() & 4) != 0).astype(np.float32).reshape(-1, 3)[:rows]
        assert rows == 25 and (mask == 0.0).any(1).sum() == 3, "several episodes have to end in between"
        PLAYED[backend, model] = runner, tf.constant(observation), tf.constant(mask)
    return PLAYED[backend, model]


def unrolled(network, observation, state, mask):
    """The state of the actor or of critics after these steps."""
    if hasattr(network, "policy"):
        return network.unroll(observation, state, mask)[1]
    return network.unroll(observation, state, mask, action=tf.zeros([*mask.shape, 1]))[1]


@MODELS
@pytest.mark.parametrize("backend", ["graph", *rest("gym")])
def test_the_stored_states_are_those_that_both_networks_had(build, backend, model):
    runner, observation, mask = played(build, backend, model)
    networks, variables = (runner.agent.network, runner.agent.critic), runner.memory.variables
    stored = [each.numpy() for name, each in variables.items() if name.startswith("recurrent_state")]
    assert len(stored) == (4 if model == "lstm" else 2)
    state = runner.agent.starting_state(3)
    for rollout in range(5):
        rows = slice(5 * rollout, 5 * rollout + 5)
        for found, expected in zip(stored, tf.nest.flatten(state), strict=True):
            np.testing.assert_allclose(found[3 * rollout : 3 * rollout + 3], expected, rtol=1e-4, atol=1e-5)
        assert rollout == 0 or all(np.abs(each).max() > 0 for each in tf.nest.flatten(state))
        pairs = zip(networks, state, strict=True)
        state = tuple(unrolled(each, observation[rows], part, mask[rows]) for each, part in pairs)


@MODELS
def test_the_burn_in_ends_in_the_states_of_the_whole_history(build, model):
    runner, observation, mask = played(build, "graph", model)
    agent, batch = runner.agent, runner.memory.sample(SEED, tf.constant(0, tf.int64))
    start, whole = agent.starting_state(3), tf.zeros([25, 3, 1])
    outputs = agent.network.unroll(observation, start[0], mask)[0]  # [25, 3, 2]
    q_values = agent.critic.unroll(observation, start[1], mask, action=whole)[0][..., 0]  # [2, 25, 3]
    steps, count = agent.warmed(batch.trajectory), batch.mask.shape[0]
    mask = tf.concat([steps.mask, tf.ones([1, count])], 0)
    means = agent.network.unroll(steps.observation, steps.recurrent_state["network"], mask)[0]  # [7, N, 2]
    found = agent.values_along("critic", steps, tf.zeros([7, count, 1]))  # [2, 7, N]
    for n, leaf in enumerate(batch.index.numpy()):
        rows, env = slice(leaf // 3 * 5 + 4, leaf // 3 * 5 + 11), leaf % 3
        np.testing.assert_allclose(means[:, n], outputs[rows, env], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(found[:, :, n], q_values[:, rows, env], rtol=1e-4, atol=1e-5)


def test_evaluations_leave_the_critics_state_alone(agent_of):
    agent = agent_of()
    state = tf.nest.map_structure(tf.ones_like, agent.starting_state(2))
    for training in (True, False):
        after = agent.policy(tf.ones([2, 3]), state, SEED, training).recurrent_state
        moved = [
            not np.array_equal(*pair) for pair in zip(*map(tf.nest.flatten, (state, after)), strict=True)
        ]
        assert moved == [True, True, training, training]


def test_rollouts_longer_than_what_is_learned_from_are_refused(make_agent):
    with pytest.raises(UsageError, match="rollout_length=9 is above unroll_length=8"):
        make_agent("rsac", rollout_length=9, unroll_length=8)


def test_other_memories_are_refused(build):
    with pytest.raises(UsageError, match="memory uniform is for transition experience"):
        build("rsac_pendulum_no_velocity", memory="uniform")


@pytest.mark.slow
@pytest.mark.parametrize(
    "overrides",
    [
        {"prioritized": True, "n_step": 3},
        {"env": "SimpleSpread-v0", "env_kwargs": {"continuous_actions": True}, "policies": "independent"},
    ],
)
def test_runs_with_rare_switches_make_finite_updates(build, overrides):
    small = {"model.recurrent_units": 8, "model.hidden": (8,), "min_replay_size": 500}
    runner = build("rsac_pendulum_no_velocity", **small, **overrides)
    sums = runner.run(8)
    assert sums["updates"] > 0 and all(np.isfinite(value) for value in sums.values())
    runner.memory.check_valid()
