"""VDN and QMIX: losses worked by hand, what mixing may do, who explores, and whom they refuse."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
import tiny_team
from gymnasium import spaces

from rl.agents.algos.registry import get_algo
from rl.envs.agents import joint_spaces
from rl.envs.registry import registry as envs
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.evaluate import Evaluator
from rl.types import Batch

SEED = random.key(0)


class Team:
    """Two agents with three actions, who see two numbers each, and a state of two."""

    agent_names = ("first", "second")
    observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = spaces.Discrete(3)
    state_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    shared_reward = True


class Masked(Team):
    observation_space = spaces.Dict(
        {"observation": Team.observation_space, "action_mask": spaces.MultiBinary(3)}
    )


def made(algo, team=Team, **overrides):
    hparams = resolve(algo, {"env": "Test-v0", "model.hidden": (8,), "double": False, **overrides})
    return get_algo(algo)(hparams, *joint_spaces(team), 0)


def seen(count, seed=0, **parts):
    rng = np.random.default_rng(seed)
    agents, state = rng.normal(size=(count, 2, 2)), rng.normal(size=(count, 2))
    shown = {"agents": agents, "alive": np.ones((count, 2)), "state": state} | parts
    return {name: tf.constant(x, tf.float32) for name, x in shown.items()}


def batch_of(observation, next_observation, action, reward, discount):
    ones = tf.ones([len(reward)])
    floats = (tf.constant(reward, tf.float32), tf.constant(discount, tf.float32))
    index = tf.range(len(reward))
    return Batch(observation, tf.constant(action), *floats, next_observation, ones, index, ones)


# Of two transitions: what each of two agents values three actions at, by the network and the target network.
NOW = [[[1.0, 2.0, 0.0], [0.5, 0.0, 3.0]], [[4.0, 1.0, 0.0], [0.0, 6.0, 0.0]]]
ONLINE = [[[0.0, 5.0, 1.0], [2.0, 0.0, 0.0]], [[9.0, 0.0, 0.0], [9.0, 0.0, 0.0]]]
TARGET = [[[3.0, 1.0, 2.0], [1.0, 4.0, 0.0]], [[7.0, 0.0, 0.0], [0.0, 7.0, 0.0]]]
ACTION = [[1, 2], [0, 1]]


def by_hand(agent, alive=((1.0, 1.0), (1.0, 1.0)), next_alive=((1.0, 1.0), (1.0, 1.0))):
    """The batch's TD errors, the networks being the tables above."""
    now, following = seen(2, alive=np.array(alive)), seen(2, 1, alive=np.array(next_alive))
    agent.network = lambda x, training: tf.constant(ONLINE if x is following else NOW)
    agent.target_network = lambda x, training: tf.constant(TARGET)
    batch = batch_of(now, following, ACTION, [1.0, 2.0], [0.9, 0.0])
    loss, _, size = agent.loss(batch, SEED)
    np.testing.assert_allclose(loss, np.square(size), rtol=1e-5)
    return size


@pytest.mark.parametrize(
    ("double", "errors"),
    [
        (False, [2.3, 8.0]),  # |1 + 0.9 (3 + 4) - (2 + 3)|, and of a last step |2 - (4 + 6)|
        (True, [2.2, 8.0]),  # the network prefers action 1, worth 1, and 0, worth 1: |1 + 0.9 * 2 - 5|
    ],
)
def test_vdn_fits_the_sum_of_the_chosen_values(double, errors):
    np.testing.assert_allclose(by_hand(made("vdn", double=double)), errors, rtol=1e-5)


def test_values_of_agents_that_are_gone_are_left_out():
    # The first agent of the first step leaves: |1 + 0.9 * 4 - 5|; the second of the last was gone: |2 - 4|.
    found = by_hand(made("vdn"), alive=((1.0, 1.0), (1.0, 0.0)), next_alive=((0.0, 1.0), (1.0, 0.0)))
    np.testing.assert_allclose(found, [0.4, 2.0], rtol=1e-5)


def set_mixer(mixer, kernel, bias, weights, hidden, last):
    """Gives a mixer of two units weights that depend on the state's first number alone, where they do."""
    for layer, rows in ((mixer.hidden_kernel, kernel), (mixer.output_kernel, weights)):
        layer.kernel.assign([rows, [0.0] * len(rows)])
    mixer.hidden_bias.kernel.assign([[0.0, 0.0], bias])
    mixer.output_hidden.kernel.assign([hidden, [0.0, 0.0]])
    mixer.output_bias.kernel.assign([[last], [last]])


FAR = [2.0, 3.8**0.5]  # a state whose mean square is 3.9: weights are made of half of it, (1, 0.97)


def test_qmix_mixes_by_absolute_weights_of_the_state_and_elu():
    agent = made("qmix", mixing_units=2)
    bias = [0.0, -9.0 * 2 / FAR[1]]
    set_mixer(agent.mixer, [2.0, -4.0, -1.0, 2.0], bias, [-6.0, 2.0], [1.0, -1.0], 0.5)
    observation = seen(1, state=np.array([FAR]))
    # W1 = |2, -4; -1, 2|, b1 = (0, -9): hidden = elu(1 * 2 + 3 * 1, 1 * 4 + 3 * 2 - 9) = (5, 1);
    # w2 = (6, 2): 30 + 2; b2 is of the state itself: 0.5 relu(2, -2) = 1.
    np.testing.assert_allclose(agent.total(tf.constant([[1.0, 3.0]]), observation, False), [33.0], rtol=1e-5)
    # Values (-1, 0): hidden = elu(-2, -4 - 9), each exp(x) - 1.
    found = agent.total(tf.constant([[-1.0, 0.0]]), observation, False)
    np.testing.assert_allclose(found, [6 * np.expm1(-2.0) + 2 * np.expm1(-13.0) + 1], rtol=1e-5)


def test_qmixs_weights_do_not_grow_with_a_state_that_is_far():
    agent = made("qmix")
    values, slopes = tf.fill([4, 2], 1.0), []
    for scale in (1.0, 1e3, 1e6):
        far = np.random.default_rng(0).normal(size=(4, 2)) * scale
        with tf.GradientTape() as tape:
            tape.watch(values)
            total = agent.mixer(values, seen(4, state=far))
        slopes.append(tape.gradient(total, values).numpy().max())
    assert slopes[1] < 10 * slopes[0]
    np.testing.assert_allclose(slopes[2], slopes[1], rtol=1e-5)


def test_qmixs_loss_is_of_the_mixed_values_by_mixers_of_their_own():
    agent = made("qmix", mixing_units=2)
    no_bias = ([0.0, 0.0], [0.0, 0.0], 0.0)
    # Weights are of (1, 0.97). With values above 0: the network's 2 Q1 + Q2, the target one's Q1 + 3 Q2.
    set_mixer(agent.mixer, [2.0, 0.0, 1.0, 0.0], no_bias[0], [1.0, 0.0], *no_bias[1:])
    set_mixer(agent.target_mixer, [-1.0, 0.0, 3.0, 0.0], no_bias[0], [1.0, 0.0], *no_bias[1:])
    state = np.tile(FAR, (2, 1))
    now, following = seen(2, state=state), seen(2, 1, state=state)
    agent.network = lambda x, training: tf.constant(NOW)
    agent.target_network = lambda x, training: tf.constant(TARGET)
    found = agent.loss(batch_of(now, following, ACTION, [1.0, 2.0], [0.9, 0.0]), SEED)
    # 1 + 0.9 (3 + 3 * 4) - (2 * 2 + 3) = 7.5 and 2 - (2 * 4 + 6) = -12
    np.testing.assert_allclose(found[0], [7.5**2, 144.0], rtol=1e-5)


def test_the_teams_value_never_falls_where_an_agents_rises():
    agent = made("qmix")
    observation = seen(200, state=np.random.default_rng(0).normal(size=(200, 2)) * 3.0)
    values = random.normal(SEED, [200, 2]) * 5.0
    with tf.GradientTape() as tape:
        tape.watch(values)
        total = agent.mixer(values, observation)
    slope = tape.gradient(total, values).numpy()
    assert (slope >= 0.0).all() and (slope > 0.0).mean() > 0.9
    assert len(np.unique(slope.round(4))) > 300, "it depends on the state and on the values"


def test_all_networks_learn_and_the_targets_follow_at_their_period():
    agent = made("qmix", target_update_period=2, lr=0.01)
    batch = batch_of(seen(8), seen(8, 1), np.ones((8, 2), np.int32), np.ones(8), np.full(8, 0.9))
    pairs = [(agent.network, agent.target_network), (agent.mixer, agent.target_mixer)]
    for update in (1, 2):
        before = [[each.numpy() for each in network.trainable_variables] for network, _ in pairs]
        agent.update(batch, SEED)
        for (network, target), old in zip(pairs, before, strict=True):
            weights = [each.numpy() for each in network.trainable_variables]
            assert any((x != y).any() for x, y in zip(weights, old, strict=True))
            followed = [each.numpy() for each in target.trainable_variables]
            same = all((x == y).all() for x, y in zip(weights, followed, strict=True))
            assert same == (update == 2)


def test_an_agents_values_depend_on_what_it_sees_and_its_number_alone():
    agent, observation = made("vdn"), seen(3)
    other = dict(observation, agents=tf.concat([observation["agents"][:, :1], tf.zeros([3, 1, 2])], 1))
    values, changed = agent.network(observation).numpy(), agent.network(other).numpy()
    np.testing.assert_allclose(values[:, 0], changed[:, 0], rtol=1e-6)
    assert (values[:, 1] != changed[:, 1]).any(-1).all()
    alike = agent.network(dict(observation, agents=tf.zeros([3, 2, 2]))).numpy()
    assert (alike[:, 0] != alike[:, 1]).any()


@pytest.mark.parametrize("random_steps", [0, 100])
def test_each_agent_explores_by_itself_among_its_legal_actions(random_steps):
    epsilon = {"exploration_epsilon_start": 0.5, "exploration_epsilon_end": 0.5}
    agent, count = made("vdn", Masked, random_steps=random_steps, **epsilon), 4_000
    mask = np.tile([1, 1, 0, 0, 1, 1], (count, 1))  # the first agent has actions 0 and 1, the second 1 and 2
    observation = seen(count, agents=np.ones((count, 2, 2))) | {"action_mask": tf.constant(mask, tf.int32)}
    best = agent.act(observation, (), SEED, tf.constant(10**6, tf.int64), False)[0].numpy()
    assert (best == best[0]).all() and best[0, 0] in (0, 1) and best[0, 1] in (1, 2)
    found = agent.act(observation, (), SEED, tf.constant(0, tf.int64), True)[0].numpy()
    assert set(found[:, 0]) == {0, 1} and set(found[:, 1]) == {1, 2}
    other = found != best
    chance = 0.5 if random_steps else 0.25  # of the other of two actions
    np.testing.assert_allclose(other.mean(0), chance, atol=0.03)
    np.testing.assert_allclose(other.all(1).mean(), chance**2, atol=0.02)


@pytest.mark.slow
def test_masked_actions_are_never_taken_and_the_team_learns_among_the_others(build):
    envs.register(tiny_team.TinyTeam)
    try:
        options = {"env": tiny_team.ENV_ID, "env_kwargs": {"actions": "masked"}, "gamma": 0.5}
        runner = build("qmix", min_replay_size=100, **options)
        runner.run(100)
        evaluator = Evaluator(runner.agent, 5)
        assert evaluator.run(0).returns.mean() >= 18.0  # 20 at best, 10 at random
        evaluator.close()
        stored = runner.memory.sample(SEED, tf.constant(0, tf.int64))
        legal = tf.reshape(stored.observation["action_mask"], [-1, 2, 4])
        assert tf.reduce_all(tf.gather(legal, stored.action, axis=-1, batch_dims=2) == 1)
    finally:
        envs._entries().pop(tiny_team.ENV_ID)


def test_whom_they_are_not_for(build):
    with pytest.raises(UsageError, match="vdn acts in MultiDiscrete action spaces of many agents together"):
        build("vdn", env="CartPole-v1")
    with pytest.raises(UsageError, match="qmix is for environments of many agents, and Test-v0 has one"):
        box = spaces.Box(0.0, 1.0, (3,), np.float32)
        get_algo("qmix")(resolve("qmix", {"env": "Test-v0"}), box, spaces.MultiDiscrete([2, 2]), 0)

    class Opposed(Team):
        cooperative = False

    with pytest.raises(UsageError, match=r"qmix learns the value of a team, .* Test-v0 have opposed"):
        made("qmix", Opposed)
