"""PQN: its targets and steps in a table by hand, what it must not learn from, and sequences of a memory."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random, returns
from rl.types import Trajectory, Update

SEED = random.key(0)
# Values of three actions in six states; the largest are 4, 8, 16, 2, -1 and 3.
TABLE = [[4.0, 1, 0], [8, 6, 2], [2, 16, 0], [0, 1, 2], [-1, -5, -2], [3, 0, 1]]
HALVES = {"gamma": 0.5, "trace_lambda": 0.5, "num_envs": 1, "rollout_length": 4}
# No hidden layers: the network is the table. Steps of this size close half of the error of one step of four.
TABULAR = {"model.hidden": (), "optimizer": "sgd", "lr": 2.0, "max_grad_norm": None, "epochs": 1}
TABULAR |= {"lr_schedule": "constant", "minibatches": 1} | HALVES
SMALL = {"num_envs": 4, "rollout_length": 8, "minibatches": 2, "epochs": 3, "lr": 0.01}


@pytest.fixture
def tabular(make_agent):
    """`tabular()`: an agent whose network is `TABLE`."""

    def make(table=TABLE, observation_space=None, **overrides):
        space = spaces.Discrete(6) if observation_space is None else observation_space
        agent = make_agent("pqn", observation_space=space, **TABULAR | overrides)
        head = agent.network.advantage
        head.kernel.assign(tf.constant(table, tf.float32))
        head.bias.assign(tf.zeros([3]))
        return agent

    return make


def steps(observation, reward, action=None, terminated=(), truncated=()):
    """A rollout of one environment; `terminated` and `truncated` are the places of ends."""
    count, ends = len(reward), np.zeros((2, len(reward), 1), bool)
    ends[0, list(terminated)] = ends[1, list(truncated)] = True
    mask = np.ones((count, 1), np.float32)
    mask[1:][ends.any(0)[:-1]] = 0.0
    columns = [tf.constant(x, kind)[:, None] for x, kind in ((observation, tf.int32), (reward, tf.float32))]
    action = tf.zeros([count, 1], tf.int32) if action is None else tf.constant(action)[:, None]
    return Trajectory(columns[0], action, columns[1], *map(tf.constant, (*ends, mask)), {})


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        # The next values are 8, 16, 2 and -1. 4 - 1/2 = 3.5; 0 + (2 + 3.5) / 4 = 1.375;
        # 2 + (16 + 1.375) / 4 = 6.34375; 1 + (8 + 6.34375) / 4 = 4.5859375.
        ({}, [4.5859375, 6.34375, 1.375, 3.5]),
        # Nothing follows the second step: 2; 1 + (8 + 2) / 4 = 3.5. What begins then ends with the rollout.
        ({"terminated": [1]}, [3.5, 2.0, None, 3.5]),
        # The value of the last observation does, and nothing else: 2 + 16 / 2 = 10; 1 + (8 + 10) / 4 = 5.5.
        ({"truncated": [1]}, [5.5, 10.0, None, 3.5]),
        ({"terminated": [1], "truncated": [1]}, [3.5, 2.0, None, 3.5]),  # a terminal state at the time limit
        # 4; 0 + (2 + 4) / 4 = 1.5; 2 + (16 + 1.5) / 4 = 6.375; 1 + (8 + 6.375) / 4 = 4.59375.
        ({"terminated": [3]}, [4.59375, 6.375, 1.5, 4.0]),
        ({"truncated": [3]}, [4.5859375, 6.34375, 1.375, 3.5]),  # the rollout's end is a cut, too
    ],
    ids=["no end", "terminated", "truncated", "both", "terminated last", "truncated last"],
)
def test_targets_by_hand(tabular, ends, expected):
    rollout = steps([0, 1, 2, 3, 4], [1.0, 2.0, 0.0, 4.0], **ends)
    found = tabular().targets(rollout)[:, 0]
    counted = rollout.mask.numpy()[:, 0] > 0
    assert [each is None for each in expected] == list(~counted)
    np.testing.assert_array_equal(found[counted], [each for each in expected if each is not None])


def test_the_trace_spans_one_step_targets_and_whole_returns(make_agent, make_rollout):
    def targets(trace_lambda):
        agent = make_agent("pqn", gamma=0.9, trace_lambda=trace_lambda, **SMALL)
        rollout = make_rollout(agent)
        best = tf.reduce_max(agent.network(tf.reshape(rollout.observation, [36, 3])), -1)
        counted = rollout.mask.numpy() > 0
        return agent.targets(rollout)[counted], rollout, tf.reshape(best, [9, 4]), counted

    found, rollout, best, counted = targets(0.0)
    goes_on = 1.0 - tf.cast(rollout.terminated, tf.float32)
    one_step = rollout.reward + 0.9 * goes_on * best[1:]  # Watkins's Q-learning
    np.testing.assert_allclose(found, one_step[counted], rtol=1e-5, atol=1e-6)
    found, rollout, best, counted = targets(1.0)
    whole = returns.discounted_return(rollout.reward, best, rollout.terminated, rollout.truncated, 0.9)
    np.testing.assert_allclose(found, whole[counted], rtol=1e-5, atol=1e-6)
    assert np.abs(whole - one_step)[counted].max() > 0.1


def test_loss_by_hand(tabular):
    agent = tabular()
    rollout = steps([0, 1, 2, 3, 4], [-1.0, 2.0, 0.0, 4.0], [0, 1, 1, 2], truncated=[1])
    loss, metrics, priorities = agent.loss(agent.with_targets(rollout), SEED)
    # Targets 3.5, 10 and 3.5 of values 4, 6 and 2; the third step is an autoreset.
    np.testing.assert_array_equal(loss, [0.5**2 / 2, 4.0**2 / 2, 0.0, 1.5**2 / 2])
    np.testing.assert_allclose([metrics["q_value"], metrics["td_error"]], [4.0, 2.0], rtol=1e-6)
    assert priorities is None


@pytest.mark.parametrize("minibatches", few([1, 2, 4], [2]))
def test_every_pass_closes_half_of_every_steps_error_to_targets_from_before_the_first(tabular, minibatches):
    # The mean over fewer steps weighs each more.
    agent = tabular(epochs=3, minibatches=minibatches, lr=2.0 / minibatches)
    # The table alone is learned: the bias of all states would move them together.
    agent.trained["network"] = [agent.network.advantage.kernel]
    rollout = steps([0, 1, 2, 3, 4], [1.0, 2.0, 0.0, 4.0], [0, 1, 2, 1])
    update = tf.function(agent.update, autograph=False)(rollout, SEED)
    expected = np.array(TABLE)
    for row, action, target in ((0, 0, 4.5859375), (1, 1, 6.34375), (2, 2, 1.375), (3, 1, 3.5)):
        expected[row, action] += (1 - 0.5**3) * (target - expected[row, action])
    np.testing.assert_allclose(agent.network.advantage.kernel, expected, rtol=1e-5)
    assert float(update.metrics["updates"]) == 3 * minibatches == agent.updates_per_iteration() * 1.0


def test_autoreset_steps_teach_nothing(tabular):
    agent = tabular()
    agent.trained["network"] = [agent.network.advantage.kernel]
    rollout = steps([0, 1, 2, 3, 4], [1.0, 2.0, 0.0, 4.0], [0, 1, 0, 1], terminated=[1])
    agent.update(rollout, SEED)
    found = agent.network.advantage.kernel.numpy()
    # A mean over three steps that count: two thirds of the errors 3.5 - 4, 2 - 6 and 3.5 - 1.
    expected = np.array(TABLE)
    expected[[0, 1, 3], [0, 1, 1]] += np.array([-0.5, -4.0, 2.5]) * 2 / 3
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_passes_differ_in_their_order_and_none_keeps_that_of_the_rollout(make_agent, make_rollout):
    agent = make_agent("pqn", **SMALL)
    data, seen = agent.with_targets(make_rollout(agent)), []

    def note(part, seed):
        tf.debugging.assert_equal(part.observation.shape, (16, 3))
        seen.append(part)
        return Update({"loss": tf.constant(0.0)})

    agent.gradient_step = note
    agent.update(make_rollout(agent), SEED)
    epochs = [tf.nest.map_structure(lambda *x: tf.concat(x, 0), *seen[i : i + 2]) for i in (0, 2, 4)]
    rows, orders = data.observation.numpy(), [each.observation.numpy() for each in epochs]
    assert len(seen) == 6
    for i, order in enumerate(orders):
        assert not np.array_equal(order, rows)
        assert not np.array_equal(order, orders[i - 1])
        places = [np.flatnonzero((row == rows).all(-1)).item() for row in order]
        assert sorted(places) == list(range(32))
        for name in ("action", "target", "mask"):
            np.testing.assert_array_equal(getattr(epochs[i], name), tf.gather(getattr(data, name), places))


def test_illegal_actions_are_neither_taken_nor_bootstrapped_from(tabular):
    space = spaces.Dict({"action_mask": spaces.MultiBinary(3), "state": spaces.Discrete(6)})
    agent = tabular(observation_space=space, **{"model.part_hidden": ()})
    legal = np.array([[0, 1, 1], [0, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]])  # of all but the best action
    rollout = steps([0, 1, 2, 3, 4], [1.0, 2.0, 0.0, 4.0], [1, 1, 2, 0])
    seen = {"state": rollout.observation, "action_mask": tf.constant(legal)[:, None]}
    # 6, 2, 1 and -2 follow: 4 - 1 = 3; 0 + (1 + 3) / 4 = 1; 2 + (2 + 1) / 4 = 2.75; 1 + (6 + 2.75) / 4.
    found = agent.targets(rollout._replace(observation=seen))[:, 0]
    np.testing.assert_array_equal(found, [3.1875, 2.75, 1.0, 3.0])
    rows = {"state": tf.repeat(tf.range(5), 50), "action_mask": tf.constant(np.repeat(legal, 50, 0))}
    for step, training, count in ((0, True, 2), (10**6, False, 1)):  # all random, and the best
        action = agent.act(rows, (), SEED, tf.constant(step, tf.int64), training)[0].numpy()
        assert np.repeat(legal, 50, 0)[np.arange(250), action].all()
        assert all(len(set(each)) == count for each in action.reshape(5, 50))


@pytest.mark.parametrize("model", few(["gru", "lstm"], ["gru"]))
def test_with_memory_targets_and_loss_are_of_the_values_that_acting_saw(make_agent, make_rollout, model):
    agent = make_agent("pqn", gamma=0.9, trace_lambda=0.5, **SMALL | {"model.name": model})
    rollout = make_rollout(agent)
    state, seen = rollout.recurrent_state, []
    for t in range(9):
        output = agent.policy(rollout.observation[t], state, SEED, True)
        seen.append(output.q_values)
        if t < 8:
            reset = rollout.mask[t][:, None]
            state = tf.nest.map_structure(lambda x, reset=reset: x * reset, output.recurrent_state)
    q_values = np.stack(seen)  # [9, 4, 3]
    best, target = q_values.max(-1), q_values.max(-1)
    for t in reversed(range(8)):
        later = np.where(rollout.truncated[t], best[t + 1], 0.5 * (best[t + 1] + target[t + 1]))
        target[t] = rollout.reward[t] + 0.9 * np.where(rollout.terminated[t], 0.0, later)
    counted = rollout.mask.numpy() > 0
    np.testing.assert_allclose(agent.targets(rollout)[counted], target[:8][counted], rtol=1e-4, atol=1e-5)
    chosen = np.take_along_axis(q_values[:8], rollout.action.numpy()[..., None], -1)[..., 0]
    expected = np.where(counted, (target[:8] - chosen) ** 2 / 2, 0.0)
    loss = agent.loss(agent.with_targets(rollout), SEED)[0]
    np.testing.assert_allclose(tf.reshape(loss, [8, 4]), expected, rtol=1e-3, atol=1e-5)


def test_with_memory_each_part_has_whole_sequences_with_their_own_states(make_agent, make_rollout):
    agent = make_agent("pqn", **SMALL | {"model.name": "gru", "epochs": 1, "lr": 1e-12, "optimizer": "sgd"})
    rollout = make_rollout(agent, ends=False)
    whole = agent.loss(agent.with_targets(rollout), SEED)[1]
    found = agent.update(rollout, SEED).metrics
    for name, value in whole.items():
        np.testing.assert_allclose(found[name], value, rtol=1e-5, err_msg=name)
    turned = tf.nest.map_structure(lambda x: tf.reverse(x, [0]), rollout.recurrent_state)
    other = agent.update(rollout._replace(recurrent_state=turned), SEED).metrics
    assert abs(float(other["td_error"]) - float(whole["td_error"])) > 1e-3


@pytest.mark.parametrize(
    ("overrides", "what"),
    [
        ({"minibatches": 7}, "minibatches=7 does not divide num_envs"),
        ({"minibatches": 8, "model.name": "gru"}, "minibatches=8 does not divide num_envs=4: with model gru"),
    ],
)
def test_rollouts_that_do_not_split_are_refused_in_a_line(make_agent, overrides, what):
    with pytest.raises(UsageError, match=what):
        make_agent("pqn", **SMALL | overrides)


def test_exploration_that_grows_is_refused_in_a_line():
    settings = {"env": "Test-v0", "exploration_epsilon_start": 0.1, "exploration_epsilon_end": 0.2}
    with pytest.raises(UsageError, match=r"exploration_epsilon_end=0.2 is above exploration_epsilon_start"):
        resolve("pqn", settings).check()


@pytest.mark.slow  # tests/test_all_algos.py learns with it, too
def test_it_finds_the_better_of_two_states(build):
    # The optimal values of rl/envs/graph/two_state_chain.py at gamma = 0.9 are 9 and 10.
    overrides = {"env": "TwoStateChain-v0", "gamma": 0.9, "exploration_epsilon_end": 0.5}
    overrides |= {"lr_schedule": "constant", "trace_lambda": 0.0, "train_steps": 40_000}
    runner = build("pqn", **overrides)
    runner.run(150)
    q_values = runner.agent.network(tf.eye(2))
    np.testing.assert_allclose(tf.reduce_max(q_values, -1), [9.0, 10.0], atol=0.3)
    np.testing.assert_array_equal(tf.argmax(q_values, -1), [1, 0])
