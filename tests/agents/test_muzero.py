"""MuZero: what it learns at each unrolled step, by hand; where gradients go; searches that are kept."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.muzero import VALUE
from rl.errors import UsageError
from rl.ops import random
from rl.types import SequenceBatch, Trajectory

SMALL = dict(state_size=6, units=8, bins=11, bin_limit=5.0, batch_size=2, rollout_length=3, unroll_length=6,
             unroll_steps=2, n_step=2, num_envs=2, simulations=4, gamma=0.5, compile="eager")  # fmt: skip
SEED, STEP = random.key(3), tf.constant(0, tf.int64)


@pytest.fixture
def agent_of(make_agent):
    return lambda **overrides: make_agent("muzero", **(SMALL | overrides))


def sequences(policy=0.25, **flags):
    """Six steps of one sequence; rewards 1, 2 ... 6, searched values 10, 20 ... 60, three moves."""
    bits = {name: np.zeros((6, 1), bool) for name in ("terminated", "truncated")}
    mask = np.ones((6, 1), np.float32)
    for name, step in flags.items():
        bits[name][step] = True
        mask[step + 1] = 0.0
    reward = np.arange(1.0, 7.0, dtype=np.float32)[:, None] * mask
    share = np.full((6, 1), policy, np.float32)
    extras = {"weight_0": share, "weight_1": 1.0 - share, "weight_2": 0.0 * share}
    extras[VALUE] = np.float32(10.0 * np.arange(1, 7))[:, None]
    observation = tf.constant(np.random.default_rng(0).normal(size=(7, 1, 3)), tf.float32)
    action = tf.constant([[0], [1], [2], [0], [1], [2]], tf.int64)
    trajectory = Trajectory(
        observation, action, *map(tf.constant, (reward, bits["terminated"], bits["truncated"], mask)),
        {name: tf.constant(x) for name, x in extras.items()},
    )  # fmt: skip
    ones = tf.ones([1])
    return SequenceBatch(trajectory, ones, tf.range(1), ones)


def test_values_are_n_step_returns_that_end_with_what_was_searched(agent_of):
    """z_t = r_t + 0.5 r_t+1 + 0.25 nu_t+2: 1 + 1 + 7.5, 2 + 1.5 + 10, 3 + 2 + 12.5, 4 + 2.5 + 15; the last
    two end sooner: 5 + 0.5 * 60, 60."""
    targets = agent_of()._targets(sequences().trajectory)
    np.testing.assert_allclose(targets.value[0, :, 0], [9.5, 13.5, 17.5])
    np.testing.assert_allclose(targets.value[2, :, 0], [17.5, 21.5, 35.0])
    np.testing.assert_allclose(targets.reward[..., 0], [[1.0, 2.0, 3.0], [2.0, 3.0, 4.0]])
    np.testing.assert_allclose(targets.policy[0, 0, 0], [0.25, 0.75, 0.0])
    for known in targets[3:]:
        np.testing.assert_array_equal(known, tf.ones_like(known))


def test_after_a_terminal_step_rewards_and_values_are_nothing(agent_of):
    """The episode ends by step 1: z_1 = 2, z_0 = 1 + 0.5 * 2. Step 2 is an autoreset, no beginning."""
    targets = agent_of()._targets(sequences(terminated=1).trajectory)
    np.testing.assert_allclose(targets.value[..., 0], [[2.0, 2.0, 0.0], [2.0, 0.0, 0.0], [0.0, 0.0, 0.0]])
    np.testing.assert_allclose(targets.reward[..., 0], [[1.0, 2.0, 0.0], [2.0, 0.0, 0.0]])
    np.testing.assert_array_equal(targets.has_policy[..., 0], [[1, 1, 0], [1, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(targets.has_value[..., 0], [[1, 1, 0], [1, 1, 0], [1, 1, 0]])
    np.testing.assert_array_equal(targets.has_reward[..., 0], [[1, 1, 0], [1, 1, 0]])


def test_after_a_truncation_nothing_is_known_beyond_the_last_observation(agent_of):
    """The episode is cut after step 1; the search at its last observation said 30: z_1 = 2 + 0.5 * 30."""
    targets = agent_of()._targets(sequences(truncated=1).trajectory)
    np.testing.assert_allclose(
        targets.value[..., 0], [[1 + 0.5 * 17, 17.0, 0.0], [17.0, 30.0, 0.0], [30.0, 0.0, 0.0]]
    )
    np.testing.assert_array_equal(targets.has_policy[..., 0], [[1, 1, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(targets.has_value[..., 0], [[1, 1, 0], [1, 1, 0], [1, 0, 0]])
    np.testing.assert_array_equal(targets.has_reward[..., 0], [[1, 1, 0], [1, 0, 0]])


def test_the_loss_of_a_network_that_knows_nothing_is_that_of_uniform_predictions(agent_of):
    """Policy (of 3), value and reward (of 11 bins) have the log of their number; k > 0 count 1 / 2."""
    agent = agent_of(value_coef=0.5, reward_coef=2.0)
    agent.network.policy.kernel.assign(tf.zeros_like(agent.network.policy.kernel))
    loss, metrics, _ = agent.loss(sequences(), SEED)
    np.testing.assert_allclose(metrics["policy_loss"], 2.0 * np.log(3.0), rtol=1e-5)
    np.testing.assert_allclose(metrics["value_loss"], 2.0 * np.log(11.0), rtol=1e-5)
    np.testing.assert_allclose(metrics["reward_loss"], np.log(11.0), rtol=1e-5)
    np.testing.assert_allclose(loss, [2.0 * np.log(3.0) + 3.0 * np.log(11.0)], rtol=1e-5)
    np.testing.assert_allclose(metrics["entropy"], -0.25 * np.log(0.25) - 0.75 * np.log(0.75), rtol=1e-5)
    empty = sequences()._replace(mask=tf.zeros([1]))
    np.testing.assert_array_equal(agent.loss(empty, SEED)[0], [0.0])


def test_all_parts_learn_and_gradients_are_halved_where_they_enter_the_dynamics(agent_of):
    agent = agent_of()
    for head in (agent.network.reward, agent.network.value):
        head.kernel.assign(
            tf.reshape(tf.linspace(-1.0, 1.0, head.kernel.shape.num_elements()), head.kernel.shape)
        )
    variables = agent.network.trainable_variables
    with tf.GradientTape() as tape:
        loss = agent.loss(sequences(), SEED)[0]
    gradients = tape.gradient(loss, [each.value for each in variables])
    assert all(np.any(gradient) for gradient in gradients), [
        each.path for each, gradient in zip(variables, gradients, strict=True) if not np.any(gradient)
    ]
    observation = sequences().trajectory.observation[:3]
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(observation)
        trajectory = sequences().trajectory._replace(observation=observation)
        by_agent = agent._unrolled(trajectory, (2, 3, 1))[1]
        state = agent.network.represent(tf.reshape(observation, [3, 3]))
        by_hand = agent.network.follow(state, tf.one_hot([0, 1, 2], 3))[1]
    np.testing.assert_allclose(by_agent[0], by_hand, rtol=1e-5)
    found, whole = (tape.gradient(x, observation) for x in (by_agent, by_hand))
    np.testing.assert_allclose(found, 0.5 * whole, rtol=1e-4, atol=1e-6)


def test_rollouts_keep_searches_and_evaluations_have_no_noise(agent_of):
    agent = agent_of(simulations=8)
    observation = tf.constant(np.random.default_rng(1).normal(size=(5, 3)), tf.float32)
    act = tf.function(
        lambda seed, training: agent.act(observation, (), seed, STEP, training), autograph=False
    )
    action, extras, _ = act(SEED, True)
    assert set(extras) == {"weight_0", "weight_1", "weight_2", VALUE} == set(agent.trajectory_extras)
    np.testing.assert_allclose(sum(extras[name] for name in agent.weights), tf.ones([5]), rtol=1e-5)
    others = [act(random.fold_in(SEED, i), True)[0].numpy() for i in range(6)]
    assert any((each != action.numpy()).any() for each in others)
    first, second = (act(random.fold_in(SEED, i), False)[0].numpy() for i in range(2))
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", ["puct", "gumbel"])
def test_it_finds_the_move_that_its_model_pays_for(agent_of, kind):
    """A model in which move 2 alone is paid, whatever the state, and a policy that prefers move 0."""
    agent = agent_of(simulations=12, search=kind)
    network = agent.network
    for layer in (network.moving.layers[0], network.change, network.policy):
        layer.kernel.assign(tf.zeros_like(layer.kernel))
        layer.bias.assign(tf.zeros_like(layer.bias))
    network.policy.bias.assign([1.0, 0.0, 0.0])
    kernel = np.zeros(network.moving.layers[0].kernel.shape, np.float32)
    kernel[-1] = np.linspace(-1.0, 1.0, 8)  # only of move 2
    network.moving.layers[0].kernel.assign(kernel)
    reward = np.zeros((8, 11), np.float32)
    reward[:, -1] = np.linspace(-4.0, 4.0, 8)  # the last bin, where move 2 was taken
    network.reward.kernel.assign(reward)
    output = agent.policy(tf.zeros([2, 3]), (), SEED, False)
    assert output.distribution.mode().numpy().tolist() == [2, 2]
    assert np.all(output.value > 0.0)


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"model.name": "lstm"}, "searches from single observations"),
        ({"unroll_length": 4}, "below rollout_length"),
        ({"memory": "dataset", "data": "somewhere"}, "data hold none"),
        ({"action_space": spaces.Box(-1.0, 1.0, (1,))}, "acts in Discrete"),
    ],
)
def test_what_it_cannot_do_is_one_line(agent_of, overrides, line):
    with pytest.raises(UsageError, match=line):
        agent_of(**overrides)
