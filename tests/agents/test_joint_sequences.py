"""VDN and QMIX with memory: losses of sequences worked by hand, states of agents, what they are told."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tiny_recall
import tiny_team
from gymnasium import spaces
from marked import rest
from walked import save_restore_and_repeat, trained_until

from rl.agents.agent import network_state
from rl.agents.algos.registry import get_algo
from rl.envs.agents import joint_spaces
from rl.envs.registry import registry as envs
from rl.envs.wrappers import with_previous
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Batch, SequenceBatch, Trajectory

SEED = random.key(0)
MODELS = pytest.mark.parametrize("model", ["gru", *rest("lstm")])


@pytest.fixture(autouse=True)
def _tiny_environments():
    """Registered for these tests alone."""
    for each in (tiny_team.TinyTeam, tiny_recall.TinyRecall):
        envs.register(each)
    yield
    for each in (tiny_team.ENV_ID, tiny_recall.ENV_ID):
        envs._entries().pop(each)


class Team:
    """Two agents with two actions, who see three numbers each, and a state of two."""

    agent_names = ("first", "second")
    observation_space = spaces.Box(-9.0, 9.0, (3,), np.float32)
    action_space = spaces.Discrete(2)
    state_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    shared_reward = True


def made(algo, told=False, **overrides):
    """An agent of `Team`. told: whether observations tell the last action and reward."""
    settings = {"env": "Test-v0", "model.hidden": (8,), "model.recurrent_units": 5, "rollout_length": 1}
    hparams = resolve(algo, {**settings, "model.name": "gru", **overrides})
    space, action_space = joint_spaces(Team)
    space = with_previous(space, action_space) if told else space
    return get_algo(hparams.algo)(hparams, space, action_space, 0)


# Of five observations: what each of two agents values two actions at, by the network and the target network.
# The third one is terminal, the fourth the next episode's first.
ONLINE = [[[1, 2], [3, 0]], [[0, 4], [2, 1]], [[9, 9], [9, 9]], [[1, 0], [0, 5]], [[6, 2], [1, 3]]]
TARGET = [[[0, 0], [0, 0]], [[8, 2], [4, 6]], [[7, 7], [7, 7]], [[3, 1], [2, 2]], [[10, 4], [2, 12]]]
ACTION = [[1, 0], [1, 0], [0, 0], [0, 1]]
ALIVE = [[1, 1], [1, 1], [0, 0], [1, 1], [1, 1]]
MASK = [1, 1, 0, 1]  # the third step is the ignored one of a reset


def by_hand(agent, alive=ALIVE, ends="terminated", state=(1, 1, 1, 1, 1)):
    """(loss, priority, metrics) of one sequence of four steps and sample weight 1/2, the networks being the
    tables above, behind as many other steps as the burn-in has."""
    before = agent.hparams.burn_in

    def along(x, dtype=tf.float32):
        x = np.asarray(x)
        return tf.constant(np.concatenate([np.full((before, *x.shape[1:]), 5), x]), dtype)[:, None]

    values = {agent.network: ONLINE, agent.target_network: TARGET}
    agent.unroll = lambda network, trajectory: tf.constant(values[network], tf.float32)[:, None]
    shown = {
        "agents": along(np.zeros((5, 2, 3))),
        "alive": along(alive),
        "state": along(np.stack([state, np.zeros(5)], 1)),
    }
    flags = {"terminated": np.zeros(4), "truncated": np.zeros(4)} | {ends: np.array([0, 1, 0, 0])}
    flags = {name: along(x, tf.int32) == 1 for name, x in flags.items()}
    trajectory = Trajectory(
        shown, along(ACTION, tf.int32), along([1, 2, 0, 3]), **flags, mask=along(MASK), extras={}
    )
    batch = SequenceBatch(trajectory, tf.constant([0.5]), tf.constant([0]), tf.ones([1]))
    loss, metrics, priorities = agent.loss(batch, SEED)
    return float(loss[0]), float(priorities[0]), {name: float(each) for name, each in metrics.items()}


def case(algo="vdn", burn_in=0, **overrides):
    settings = {"gamma": 0.5, "unroll_length": 4, "double": True, "prioritized": True}
    return made(algo, burn_in=burn_in, **{**settings, **overrides})


@pytest.mark.parametrize("burn_in", [0, 2])
def test_vdns_loss_of_a_sequence_by_hand(burn_in):
    # The teams' values are 2 + 3, 4 + 2 and 1 + 5. The network prefers actions (1, 0) and (0, 1), which the
    # target network rates 2 + 4 and 10 + 12: targets 1 + 6 / 2, 2 (terminated) and 3 + 22 / 2.
    loss, priority, metrics = by_hand(case(burn_in=burn_in))
    errors = np.array([4 - 5, 2 - 6, 14 - 6])
    np.testing.assert_allclose(loss, 0.5 * np.square(errors).sum() / 4, rtol=1e-6)
    np.testing.assert_allclose(priority, 0.9 * 8 + 0.1 * 13 / 3, rtol=1e-6)
    np.testing.assert_allclose([metrics["q_value"], metrics["td_error"]], [17 / 3, 13 / 3], rtol=1e-6)


@pytest.mark.parametrize(
    ("overrides", "options", "errors"),
    [
        ({"double": False}, {}, [1 + 14 / 2 - 5, 2 - 6, 14 - 6]),  # the target network's best: 8 + 6
        ({"n_step": 3}, {}, [1 + 2 / 2 - 5, 2 - 6, 14 - 6]),  # no further than the episode, or the sequence
        # Cut off, it goes on from what the last observation is worth, of those who are there: 7.
        (
            {},
            {"ends": "truncated", "alive": [*ALIVE[:2], [0, 1], *ALIVE[3:]]},
            [4 - 5, 2 + 7 / 2 - 6, 14 - 6],
        ),
        # The second agent left after the first step: its values in the second observation are 0.
        ({}, {"alive": [ALIVE[0], [1, 0], *ALIVE[2:]]}, [1 + 2 / 2 - 5, 2 - 4, 14 - 6]),
    ],
)
def test_its_switches_and_agents_that_are_gone_by_hand(overrides, options, errors):
    loss, priority, _ = by_hand(case(**overrides), **options)
    np.testing.assert_allclose(loss, 0.5 * np.square(errors).sum() / 4, rtol=1e-6)
    np.testing.assert_allclose(priority, 0.9 * 8 + 0.1 * np.abs(errors).mean(), rtol=1e-6)


def test_huber_loss_by_hand():
    loss, *_ = by_hand(case(loss="huber", huber_delta=2.0))
    np.testing.assert_allclose(loss, 0.5 * (0.5 + 2 * 3 + 2 * 7) / 4, rtol=1e-6)


def test_qmix_mixes_every_step_by_the_state_of_its_own():
    agent = case("qmix", mixing_units=1)
    for mixer, weights in ((agent.mixer, [2.0, 1.0]), (agent.target_mixer, [-1.0, 3.0])):
        mixer.hidden_kernel.kernel.assign([weights, [0.0, 0.0]])
        mixer.output_kernel.kernel.assign([[1.0], [0.0]])
        for layer in (mixer.hidden_bias, mixer.output_hidden, mixer.output_bias):
            layer.kernel.assign(tf.zeros_like(layer.kernel))
    # The team's value is c^2 (2 Q1 + Q2), by the target network c^2 (Q1 + 3 Q2), where c^2 is
    # s^2 / (0.1 + s^2 / 2) of the state (s, 0).
    near, far = 1 / 0.6, 4 / 2.1
    loss, priority, _ = by_hand(agent, state=(1, 2, 1, 1, 1))
    errors = np.array([1 + far * 14 / 2 - near * 7, 2 - far * 10, 3 + near * 46 / 2 - near * 7])
    np.testing.assert_allclose(loss, 0.5 * np.square(errors).sum() / 4, rtol=1e-5)
    np.testing.assert_allclose(priority, 0.9 * 89 / 3 + 0.1 * np.abs(errors).mean(), rtol=1e-5)


def sequences(agent, length, count=5, seed=0):
    """Random sequences [length, count] of `Team`; in some an episode ends, each way."""
    rng = np.random.default_rng(seed)

    def normal(*shape):
        return tf.constant(rng.normal(size=shape), tf.float32)

    shown = {"agents": normal(length + 1, count, 2, 3), "state": normal(length + 1, count, 2)}
    shown["alive"] = tf.constant(rng.integers(0, 2, (length + 1, count, 2)), tf.float32)
    terminated, truncated = np.zeros((2, length, count), bool)
    terminated[0, 0] = truncated[0, 1] = True
    mask = np.ones((length, count), np.float32)
    mask[1:][(terminated | truncated)[:-1]] = 0.0
    action = tf.constant(rng.integers(0, 2, (length, count, 2)), tf.int32)
    state = network_state(agent.initial_state(count))
    state = tf.nest.map_structure(lambda x: normal(*x.shape), state)
    flags = tf.constant(terminated), tf.constant(truncated), tf.constant(mask)
    trajectory = Trajectory(shown, action, normal(length, count) * mask, *flags, {}, state)
    return SequenceBatch(trajectory, normal(count) ** 2, tf.range(count), tf.constant([1.0, 1, 1, 1, 0]))


@pytest.mark.parametrize("algo", ["vdn", "qmix"])
@pytest.mark.parametrize("double", [False, True])
def test_without_memory_a_sequence_of_one_step_has_the_loss_of_a_transition(algo, double):
    settings = {"burn_in": 0, "unroll_length": 1, "double": double, "priority_eta": 0.3}
    agent = made(algo, memory="sequence", **settings, **{"model.name": "mlp"})
    assert agent.experience == "sequence" and agent.initial_state(3) == ()
    for each in agent.networks.values():  # targets of their own
        each.set_weights(
            [w + np.random.default_rng(1).normal(size=w.shape) * 0.1 for w in each.get_weights()]
        )
    batch = sequences(agent, 1)
    steps = batch.trajectory
    before, after = ({name: x[i] for name, x in steps.observation.items()} for i in (0, 1))
    discount = agent.hparams.gamma * (1.0 - tf.cast(steps.terminated[0], tf.float32))
    rest_of_it = (batch.sample_weight, batch.index, batch.mask)
    transitions = Batch(before, steps.action[0], steps.reward[0], discount, after, *rest_of_it)
    found, expected = agent.loss(batch, SEED), agent.loss(transitions, SEED)
    np.testing.assert_allclose(found[0], expected[0], rtol=1e-5)
    np.testing.assert_allclose(found[2], expected[2] * batch.mask, rtol=1e-5)
    for name, each in expected[1].items():
        np.testing.assert_allclose(found[1][name], each, rtol=1e-5)


@MODELS
def test_unrolling_is_stepping_with_a_state_for_each_agent_that_begins_anew_at_resets(model):
    agent = made("vdn", **{"model.name": model})
    steps = sequences(agent, 6).trajectory
    mask = tf.concat([steps.mask, tf.ones([1, 5])], 0)  # [7, N]
    state = steps.recurrent_state
    assert all(each.shape == [5, 2, 5] for each in tf.nest.flatten(state))
    values, last = agent.network.unroll(steps.observation, state, mask)
    assert values.shape == [7, 5, 2, 2]
    for t in range(7):
        now = {name: x[t] for name, x in steps.observation.items()}
        found, state = agent.network.step(now, state)
        np.testing.assert_allclose(values[t], found, rtol=1e-4, atol=1e-5)
        state = tf.nest.map_structure(lambda x, t=t: x * mask[t][:, None, None], state)
    for one, other in zip(tf.nest.flatten(last), tf.nest.flatten(state), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@MODELS
@pytest.mark.parametrize("burn_in", [0, 2])
def test_an_update_moves_all_networks_and_no_gradient_flows_through_the_burn_in(model, burn_in):
    agent = made("qmix", burn_in=burn_in, unroll_length=6 - burn_in, **{"model.name": model}, lr=0.01)
    batch = sequences(agent, 6)
    state = batch.trajectory.recurrent_state
    with tf.GradientTape() as tape:
        tape.watch(state)
        loss = agent.loss(batch, SEED)[0]
    slopes = tape.gradient(loss, state, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert all(np.any(each.numpy() != 0.0) == (burn_in == 0) for each in tf.nest.flatten(slopes))
    before = {name: each.numpy() for name, each in agent.variables.items()}
    agent.update(batch, SEED)
    for name, each in agent.variables.items():
        if name.startswith(("network/", "mixer/", "target_")):
            assert np.any(each.numpy() != before[name]) != name.startswith("target_"), name


def test_an_agent_is_told_its_own_last_action_and_the_teams_last_reward():
    agent = made("vdn", told=True)
    shown = {"agents": tf.zeros([1, 2, 3]), "alive": tf.ones([1, 2]), "state": tf.ones([1, 2])}
    shown |= {"previous_action": tf.constant([[0, 2]]), "previous_reward": tf.constant([[7.0]])}
    rows = agent.network.encoder(shown).numpy()
    # What it sees, its last action (none; the second of two), the reward, its number.
    np.testing.assert_array_equal(rows, [[0, 0, 0, 1, 0, 0, 7, 1, 0], [0, 0, 0, 0, 0, 1, 7, 0, 1]])


@pytest.mark.parametrize("name", ["qmix_gru", *rest("vdn_lstm")])
def test_a_run_with_memory_and_masks_is_restored_whole_and_repeats_itself(build, tmp_path, name):
    settings = {"env": tiny_team.ENV_ID, "env_kwargs": {"actions": "masked"}, "prioritized": True}
    settings |= {"env_backend": "graph", "act_backend": "compiled"}
    settings |= {"num_envs": 4, "rollout_length": 4, "burn_in": 2, "unroll_length": 6, "batch_size": 8}
    settings |= {"model.hidden": (8,), "model.recurrent_units": 8, "updates_per_iteration": 2}
    runner, before = save_restore_and_repeat(build, tmp_path, name, settings | {"min_replay_size": 16})
    memory = runner.memory
    memory.check_valid()
    kinds = {key.partition("/")[0] for key, x in runner.variables.items() if np.any(x.numpy() != before[key])}
    assert {"network", "memory", "optimizer"} | ({"mixer"} if "qmix" in name else set()) <= kinds
    assert any(key.startswith("memory/recurrent_state") for key in before)
    steps = memory.sample(SEED, tf.constant(0, tf.int64)).trajectory
    legal = tf.reshape(steps.observation["action_mask"][:-1], [8, 8, 2, 4])
    taken = tf.gather(legal, steps.action, axis=-1, batch_dims=3)  # [8, 8, 2]
    assert tf.reduce_all((taken == 1) | (steps.mask[..., None] == 0.0))


@pytest.mark.parametrize("name", ["qmix_gru", *rest("vdn_lstm")])
def test_a_team_that_has_to_remember_learns(build, name):
    settings = {"env": tiny_recall.ENV_ID, "num_envs": 16, "rollout_length": 8, "train_steps": 16_000}
    settings |= {"burn_in": 2, "unroll_length": 10, "min_replay_size": 500, "exploration_steps": 4_000}
    settings |= {"lr": 3e-3, "target_update_period": 50, "updates_per_iteration": 8}
    settings |= {"model.hidden": (16,), "model.recurrent_units": 16, "gamma": 0.9, "act_backend": "compiled"}
    runner = build(name, **settings)
    trained_until(runner, 0.95)  # in one evaluation of 5 episodes each agent is right 5 times


def test_what_does_not_fit_together_is_refused():
    with pytest.raises(UsageError, match=r"memory=hindsight and model\.name=gru contradict each other"):
        made("vdn", memory="hindsight")
    with pytest.raises(UsageError, match="rollout_length=9 is above unroll_length=8"):
        made("qmix", rollout_length=9, unroll_length=8)
    made("qmix", rollout_length=9, unroll_length=8, **{"model.name": "mlp"})  # plays no part there
    assert (
        resolve("qmix", {"env": "Test-v0", "model.name": "gru", "prioritized": True}).memory_name
        == "sequence"
    )
    assert resolve("qmix", {"env": "Test-v0", "prioritized": True}).memory_name == "prioritized"
