"""MADDPG: targets and losses worked by hand, whose critic moves whose policy, and where it is refused."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.registry import get_algo
from rl.envs.agents import joint_spaces
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Batch

SEED = random.key(0)


class Pair:
    """Two agents, who see two numbers each, have three actions and rewards of their own."""

    agent_names = ("first", "second")
    observation_space = spaces.Box(-9.0, 9.0, (2,), np.float32)
    action_space = spaces.Discrete(3)
    state_space = None
    shared_reward = False
    cooperative = False


class Continuous(Pair):
    action_space = spaces.Box(np.array([0.0, -1.0], np.float32), np.array([4.0, 1.0], np.float32))


class Sharing(Pair):
    shared_reward = True


def made(team=Pair, **overrides):
    hparams = resolve("maddpg", {"env": "Test-v0", "model.hidden": (8,), **overrides})
    return get_algo("maddpg")(hparams, *joint_spaces(team), 0)


def seen(count, seed, alive=1.0, **parts):
    rng = np.random.default_rng(seed)
    shown = {"agents": rng.normal(size=(count, 2, 2)), "alive": alive * np.ones((count, 2))}
    shown |= {"state": rng.normal(size=(count, 4)), "reward": np.zeros((count, 2))} | parts
    return {name: tf.constant(x, tf.float32) for name, x in shown.items()}


def batch_of(now, following, action, reward, discount):
    ones = tf.ones([len(reward)])
    floats = (tf.constant(reward, tf.float32), tf.constant(discount, tf.float32))
    return Batch(now, tf.constant(action), *floats, following, ones, tf.range(len(reward)), ones)


LOGITS = [[[0.0, 2.0, 1.0], [0.0, 1.0, 3.0]]] * 2  # the target policies' actions: 1 and 2
ACTION = [[0, 1], [2, 2]]


def by_hand(agent, now_alive, next_alive, rewards):
    """The critics' loss of two transitions, the networks being tables; what the critics were asked."""
    now = seen(2, 0, np.array(now_alive))
    shown = {} if rewards is None else {"reward": np.array(rewards)}
    following = seen(2, 1, np.array(next_alive), **shown)
    asked = {}
    agent.target_network = lambda observation: tf.constant(LOGITS)

    def critic(name, values):
        def call(observation, action):
            asked[name] = action.numpy()
            return tf.constant(values)

        return call

    agent.critic = critic("now", [[1.0, 2.0], [3.0, 4.0]])
    agent.target_critic = critic("next", [[10.0, 20.0], [30.0, 40.0]])
    loss, metrics, size = agent.loss(batch_of(now, following, ACTION, [7.0, 8.0], [0.5, 0.0]), SEED)
    return loss, metrics, size, asked


def test_each_critic_is_fitted_to_its_own_agents_reward_and_the_target_actions_of_all():
    loss, metrics, size, asked = by_hand(made(), [[1, 1], [1, 1]], [[1, 1], [1, 1]], [[1, -1], [2, -2]])
    # Errors: 1 + 0.5 * 10 - 1 = 5 and -1 + 0.5 * 20 - 2 = 7; of a last step 2 - 3 = -1 and -2 - 4 = -6.
    np.testing.assert_allclose(loss, [25.0 + 49.0, 1.0 + 36.0])
    np.testing.assert_allclose(size, [6.0, 3.5])
    np.testing.assert_allclose(metrics["q_value"], 2.5)
    np.testing.assert_array_equal(asked["next"], [[[0, 1, 0], [0, 0, 1]]] * 2)
    np.testing.assert_array_equal(asked["now"], [[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, 1]]])


def test_a_team_that_shares_its_reward_has_it_for_each():
    loss, *_ = by_hand(made(Sharing), [[1, 1], [1, 1]], [[1, 1], [1, 1]], None)
    # 7 + 0.5 * 10 - 1 = 11, 7 + 0.5 * 20 - 2 = 15; 8 - 3 = 5, 8 - 4 = 4
    np.testing.assert_allclose(loss, [121.0 + 225.0, 25.0 + 16.0])


def test_an_agent_that_leaves_has_its_last_reward_and_then_nothing():
    loss, _, size, asked = by_hand(made(), [[1, 1], [0, 1]], [[0, 1], [0, 0]], [[1, -1], [0, -2]])
    # The first agent leaves: 1 - 1 = 0; the second goes on: 7. Then it is gone: 0, and the second -2 - 4.
    np.testing.assert_allclose(loss, [49.0, 36.0])
    np.testing.assert_allclose(size, [3.5, 6.0])
    np.testing.assert_array_equal(asked["next"][0], [[0, 0, 0], [0, 0, 1]])
    np.testing.assert_array_equal(asked["now"][1], [[0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("team", [Pair, Continuous])
def test_networks_equal_numpy(team):
    agent, now = made(team), seen(4, 0)
    size = agent.size
    action = tf.constant(np.random.default_rng(1).normal(size=(4, 2, size)), tf.float32)
    output, values = agent.network(now).numpy(), agent.critic(now, action).numpy()
    relu = lambda x: np.maximum(x, 0.0)  # noqa: E731
    for i in range(2):
        (hidden,), last = agent.network.hidden, agent.network.policy
        x = relu(now["agents"].numpy()[:, i] @ hidden.kernel.numpy()[i] + hidden.bias.numpy()[i])
        np.testing.assert_allclose(output[:, i], x @ last.kernel.numpy()[i] + last.bias.numpy()[i], rtol=1e-4)
        (hidden,), last = agent.critic.hidden, agent.critic.value
        others = action.numpy().copy()
        if team is Pair:
            others[:, i] = 0.0  # its own weighs the outputs
        x = np.concatenate([now["agents"].numpy().reshape(4, 4), others.reshape(4, -1)], 1)
        x = relu(x @ hidden.kernel.numpy()[i] + hidden.bias.numpy()[i])
        x = x @ last.kernel.numpy()[i] + last.bias.numpy()[i]
        expected = (x * action.numpy()[:, i]).sum(1) if team is Pair else x[:, 0]
        np.testing.assert_allclose(values[:, i], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("team", [Pair, Continuous])
def test_a_policy_climbs_its_own_agents_critic_alone(team):
    agent = made(team)
    action = [[0, 1], [2, 2]] if team is Pair else [[1.0, 0.5, 3.0, -0.5], [0.0, 0.0, 2.0, 1.0]]
    batch = batch_of(seen(2, 0), seen(2, 1), action, [0.0, 0.0], [0.9, 0.9])

    def gradients():
        with tf.GradientTape() as tape:
            loss = agent.policy_loss(batch, SEED)[0]
        return tape.gradient(loss, agent.network.policy.kernel.value).numpy()

    before = gradients()
    assert np.abs(before).max(axis=(1, 2)).all()
    agent.critic.value.kernel.assign(agent.critic.value.kernel * [[[1.0]], [[3.0]]])  # the second agent's
    after = gradients()
    np.testing.assert_allclose(after[0], before[0], rtol=1e-5)
    assert np.abs(after[1] - before[1]).max() > 1e-5


def test_actions_are_coded_agent_by_agent():
    code = made(Continuous).code(tf.constant([[4.0, -1.0, 1.0, 0.5]])).numpy()
    np.testing.assert_allclose(code, [[[1.0, -1.0], [-0.5, 0.5]]])


@pytest.mark.parametrize("team", [Pair, Continuous])
def test_agents_explore_by_themselves_within_their_actions(team):
    agent, now = made(team, random_steps=10), seen(500, 0)
    for step in (0, 10**6):
        found = agent.act(now, (), SEED, tf.constant(step, tf.int64), True)[0].numpy()
        if team is Pair:
            pairs = {tuple(each) for each in found}
            assert pairs == {(i, j) for i in range(3) for j in range(3)}
        else:
            low, high = np.tile([0.0, -1.0], 2), np.tile([4.0, 1.0], 2)
            assert (found >= low).all() and (found <= high).all() and found.std(0).all()


@pytest.mark.parametrize("wrong", [{"n_step": 3}, {"normalize_reward": True}])
def test_rewards_of_each_agent_are_taken_as_they_come(wrong):
    with pytest.raises(UsageError, match=f"hparam {next(iter(wrong))}: agents of Test-v0 have rewards of"):
        made(**wrong)
    made(Sharing, **wrong)


def test_where_it_is_refused(build):
    with pytest.raises(
        UsageError, match="maddpg is for environments of many agents, and Pendulum-v1 has one"
    ):
        build("maddpg", env="Pendulum-v1")
    with pytest.raises(UsageError, match=r"model.name=lstm: maddpg has dense layers"):
        made(**{"model.name": "lstm"})
