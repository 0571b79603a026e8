"""Updates of NaN or infinity: nothing of them is made, and what was wrong is named."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.ops import random
from rl.types import Batch

SEED = tf.constant([3, 4])
BOX = spaces.Box(-5.0, 5.0, (3,), np.float32)
BOUNDED = spaces.Box(-1.0, 1.0, (2,), np.float32)


def a_batch(action, **bad):
    """Sixteen transitions; `reward=nan` has that in one of them."""
    draw = [random.normal(tf.constant([0, i]), [16, 3]) for i in range(2)]
    values = {
        "observation": draw[0],
        "reward": draw[0][:, 0],
        "next_observation": draw[1],
    }
    for name, value in bad.items():
        where = np.zeros(values[name].shape, bool)
        where.flat[5] = True
        values[name] = tf.where(where, np.float32(value), values[name])
    ones = tf.ones([16])
    return Batch(action=action, discount=ones, sample_weight=ones, index=tf.range(16), mask=ones, **values)


def state(agent):
    return {name: np.array(tf.convert_to_tensor(each)) for name, each in agent.variables.items()}


def equal(one, other):
    return all((one[name] == other[name]).all() for name in one)


@pytest.mark.parametrize("name", ["dqn", "bcq", pytest.param("sac", marks=pytest.mark.slow)])
def test_an_update_of_nan_changes_nothing_and_says_what_was_wrong(make_agent, name):
    """Of BCQ, whose generator never sees a reward, and is updated first."""
    discrete = name == "dqn"
    agent = make_agent(name, batch_size=16) if discrete else make_agent(name, 0, BOX, BOUNDED)
    action = tf.zeros([16], tf.int64) if discrete else tf.zeros([16, 2])
    learn = tf.function(agent.learn, autograph=False)
    update = learn(a_batch(action), SEED)  # finite
    assert float(update.metrics["updates"]) == 1.0
    before, guard = state(agent), agent.guard
    wrong = {"reward": np.nan, "next_observation": np.inf}
    for i, (part, value) in enumerate(wrong.items()):
        update = learn(a_batch(action, **{part: value}), SEED)
        assert equal(state(agent), before)
        assert guard.first() == ("the reward" if part == "reward" else "the observation")
        assert {float(x) for x in update.metrics.values()} == {0.0}
        assert update.priorities is None or np.isnan(update.priorities).all()
        assert [guard.skipped, guard.in_a_row, guard.made] == [1, i + 1, 1]
        guard.begin_window()
    learn(a_batch(action), SEED)
    assert not equal(state(agent), before) and guard.in_a_row == 0


def test_what_is_bad_is_searched_in_the_order_of_cause_and_effect(make_agent):
    agent = make_agent("sac", 0, BOX, BOUNDED)
    batch, guard = a_batch(tf.zeros([16, 2])), agent.guard
    first = agent.networks["critic"].trainable_variables[0]
    kept = first.numpy()
    first.assign(kept * np.float32(1e30))
    agent.learn(batch, SEED)
    assert guard.first() == "the loss of critic"  # its square is too large
    first.assign(kept)
    guard.begin_window()
    agent.policy_loss = nan_gradient(agent.policy_loss)
    before = state(agent)
    agent.learn(batch, SEED)
    assert guard.first() == "the gradient of network"
    changed = {name.rpartition("/")[0] for name, each in state(agent).items() if (each != before[name]).any()}
    changed = {name.partition("/")[0] if "optimizer" not in name else name[:16] for name in changed}
    assert changed == {"critic", "optimizer/critic"}  # the step before it was finite


def nan_gradient(loss):
    """The loss, with a gradient of NaN."""

    @tf.custom_gradient
    def same(x):
        return x, lambda gradient: gradient * np.float32(np.nan)

    def made(batch, seed):
        losses, *rest = loss(batch, seed)
        return same(losses), *rest

    return made


@pytest.mark.parametrize("optimizer", ["adamw", "rmsprop", "sgd"])
def test_every_optimizer_makes_no_step_of_nan(make_agent, optimizer):
    decay = {"weight_decay": 0.1} if optimizer == "adamw" else {}
    agent = make_agent("dqn", optimizer=optimizer, **decay)
    before, action = state(agent), tf.zeros([16], tf.int64)
    agent.learn(a_batch(action, reward=np.nan), SEED)
    assert equal(state(agent), before)
    agent.learn(a_batch(action), SEED)
    assert not equal(state(agent), before)
    assert int(agent.optimizers["network"].iterations) == 1


def test_after_too_many_in_a_row_nothing_is_learned_any_more(make_agent):
    agent = make_agent("dqn", nan_patience=2)
    action = tf.zeros([16], tf.int64)
    for _ in range(2):
        agent.learn(a_batch(action, reward=np.nan), SEED)
    before = state(agent)
    agent.learn(a_batch(action), SEED)
    assert equal(state(agent), before) and agent.guard.in_a_row == 3
    saved = agent.guard.saved()
    other = make_agent("dqn", nan_patience=2)
    other.guard.resume(saved)
    assert other.guard.saved() == saved and other.guard.first() == "the reward"


def test_numerics_are_checked_line_by_line_where_that_is_asked_for(make_agent):
    agent = make_agent("dqn", compile="eager", check_numerics=True)
    agent.learn(a_batch(tf.zeros([16], tf.int64)), SEED)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Detected Infinity or NaN") as raised:
        agent.learn(a_batch(tf.zeros([16], tf.int64), reward=np.nan), SEED)
    assert any(str(entry.path).endswith("rl/agents/algos/dqn.py") for entry in raised.traceback)
