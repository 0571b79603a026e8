"""MAML: its inner step and its gradient through that step, by formulas in numpy; what it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special

from rl.agents.algos.maml import Steps, Trials
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Trajectory

SEED = random.key(0)
SMALL = {"num_envs": 6, "task_episodes": 3, "rollout_length": 8, "model.hidden": ()}


@pytest.fixture
def linear(make_agent):
    """An agent of two tasks, whose policy is the softmax of x W, and W [3, 3]: drawn, not near zero."""

    def make(**overrides):
        agent = make_agent("maml", **SMALL | overrides)
        kernel = np.random.default_rng(0).normal(size=(3, 3))
        agent.network.policy.kernel.assign(kernel)
        return agent, np.float64(np.float32(kernel))

    return make


def drawn(seed, tasks=2, count=5):
    """Steps of tasks at random, as tensors and as (x, action, log_prob, advantage, mask) in float64."""
    rng = np.random.default_rng(seed)
    mask = np.ones((tasks, count))
    mask[1, 3:] = 0.0
    shape = (tasks, count)
    numbers = (
        rng.normal(size=(*shape, 3)),
        rng.integers(0, 3, shape),
        -rng.random(shape),
        rng.normal(size=shape),
    )
    kinds = (tf.float32, tf.int32, tf.float32, tf.float32, tf.float32)
    steps = Steps(*(tf.constant(x, kind) for x, kind in zip((*numbers, mask), kinds, strict=True)))
    return steps, [np.float64(np.asarray(x)) for x in steps]


def ascended(kernel, bias, numbers, i, rate):
    """Weights of the i-th task after a step along the mean of A grad log pi(a | s), by hand."""
    x, action, _, advantage, mask = (each[i] for each in numbers)
    score = np.eye(3)[action.astype(int)] - special.softmax(x @ kernel + bias, -1)  # of logits
    score *= (advantage * mask)[:, None] / mask.sum()
    return kernel + rate * x.T @ score, bias + rate * score.sum(0)


def objective(kernel, bias, inner, outer, rate, fixed=None):
    """The mean of PPO's clipped surrogate of the policies adapted to each task; `fixed`: by the step that
    would be made from those weights."""
    total, x = 0.0, outer[0]
    for i in range(len(x)):
        own_kernel, own_bias = ascended(kernel, bias, inner, i, rate)
        if fixed is not None:
            moved = ascended(*fixed, inner, i, rate)
            own_kernel, own_bias = kernel + moved[0] - fixed[0], bias + moved[1] - fixed[1]
        action, old, advantage, mask = (each[i] for each in outer[1:])
        log_prob = special.log_softmax(x[i] @ own_kernel + own_bias, -1)[
            np.arange(len(old)), action.astype(int)
        ]
        ratio = np.exp(log_prob - old)
        total += (np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage) * mask).sum()
    return total / outer[-1].sum()


@pytest.mark.parametrize("tasks", [1, 2])
def test_an_inner_step_follows_each_tasks_own_policy_gradient(linear, tasks):
    agent, kernel = linear(inner_lr=0.7)
    steps, numbers = drawn(1)
    steps = tf.nest.map_structure(lambda x: x[:tasks], steps)
    bias = np.zeros(3)
    found = agent.inner_step(agent._unadapted(tasks), steps)
    for i in range(tasks):
        expected = ascended(kernel, bias, numbers, i, 0.7)
        np.testing.assert_allclose(found[0][i], expected[0], rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(found[1][i], expected[1], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("second_order", [True, False])
def test_the_gradient_is_that_of_the_adapted_policies(linear, second_order):
    """Through the inner step by central differences of the whole; or past it, the step held constant."""
    rate, bias = 2.0, np.zeros(3)
    agent, kernel = linear(inner_lr=rate, second_order=second_order)
    (inner, of_inner), (outer, of_outer) = drawn(1), drawn(2)
    with tf.GradientTape() as tape:
        loss, metrics, _ = agent.loss(Trials((inner,), outer), SEED)
        mean = tf.reduce_sum(loss) / tf.reduce_sum(outer.mask)
    weights = [each.value for each in agent.network.trainable_variables]
    slopes = tape.gradient(mean, weights)
    np.testing.assert_allclose(mean, -objective(kernel, bias, of_inner, of_outer, rate), rtol=1e-5)
    np.testing.assert_allclose(metrics["policy_loss"], mean, rtol=1e-6)
    fixed = None if second_order else (kernel, bias)
    for place in np.ndindex(3, 3):
        ends = []
        for side in (1e-5, -1e-5):
            moved = kernel.copy()
            moved[place] += side
            ends.append(objective(moved, bias, of_inner, of_outer, rate, fixed))
        np.testing.assert_allclose(-slopes[0][place], (ends[0] - ends[1]) / 2e-5, rtol=1e-3, atol=1e-5)


def test_one_order_is_not_the_other(linear):
    trials, slopes = Trials((drawn(1)[0],), drawn(2)[0]), []
    for second_order in (True, False):
        agent = linear(inner_lr=2.0, second_order=second_order)[0]
        with tf.GradientTape() as tape:
            loss = tf.reduce_sum(agent.loss(trials, SEED)[0]) / 8.0  # steps that count
        slopes.append(tape.gradient(loss, agent.network.policy.kernel.value)[0, 0])
    assert abs(slopes[0] - slopes[1]) > 0.005  # far above what the gradients are held to


def test_advantages_are_of_first_episodes_and_standardised_over_each_task(make_agent):
    agent = make_agent("maml", **SMALL, gamma=0.5)
    rng, shape = np.random.default_rng(0), (4, 6)
    reward = rng.normal(size=shape)
    terminated = np.zeros(shape, bool)
    terminated[1, 0] = terminated[3] = True
    mask = np.ones(shape)
    mask[2, 0] = 0.0
    observation = rng.normal(size=(5, 6, 3))
    numbers = [tf.constant(x, tf.float32) for x in (observation, rng.integers(0, 3, shape), reward, mask)]
    never = tf.zeros(shape, tf.bool)
    extras = {"log_prob": tf.zeros(shape)}
    found = agent.steps(Trajectory(*numbers[:3], tf.constant(terminated), never, numbers[3], extras))
    counts = np.ones(shape)
    counts[2:, 0] = 0.0  # its first episode is of two steps
    np.testing.assert_array_equal(found.mask, counts.reshape(4, 2, 3).swapaxes(0, 1).reshape(2, 12))
    np.testing.assert_allclose(
        found.observation, observation[:4].reshape(4, 2, 3, 3).swapaxes(0, 1).reshape(2, 12, 3), rtol=1e-6
    )
    outcome = np.zeros((5, 6))
    for t in (3, 2, 1, 0):
        outcome[t] = reward[t] + 0.5 * outcome[t + 1] * ~terminated[t]
    outcome, time = outcome[:4], np.repeat(np.arange(4)[:, None] / 4, 6, 1)
    for i, rows in enumerate((slice(0, 3), slice(3, 6))):
        x, t, y, counted = observation[:4, rows], time[:, rows], outcome[:, rows], counts[:, rows] > 0
        columns = np.concatenate(
            [x, x**2, *(np.stack([t, t**2, t**3, t**0], -1)[..., None, :])[None, :, :, 0]], -1
        )
        columns, y = columns[counted], y[counted]
        columns = columns / np.sqrt((columns**2).mean(0))
        more = np.sqrt(1e-3 * len(y)) * np.eye(10)
        weights = np.linalg.lstsq(np.r_[columns, more], np.r_[y, np.zeros(10)], rcond=None)[0]
        rest = y - columns @ weights
        advantage = (rest - rest.mean()) / rest.std()
        seen = found.advantage.numpy()[i].reshape(4, 3)[counted]
        np.testing.assert_allclose(seen, advantage, rtol=0.02, atol=0.02)


@pytest.mark.parametrize("space", [spaces.Discrete(3), spaces.Box(-2.0, 2.0, (2,), np.float32)])
def test_in_training_each_task_is_acted_in_by_its_own_weights(make_agent, make_rollout, space):
    agent = make_agent(
        "maml", **SMALL | {"num_envs": 4, "task_episodes": 2}, action_space=space, inner_lr=5.0
    )
    seen = tf.constant(np.random.default_rng(0).normal(size=(4, 3)), tf.float32)
    agent.resample_noise(SEED)
    unadapted = agent.policy(seen, (), SEED, False).distribution
    np.testing.assert_allclose(
        agent.policy(seen, (), SEED, True).distribution.mode(), unadapted.mode(), rtol=1e-5, atol=1e-6
    )
    agent.adapt(make_rollout(agent))
    found = agent.policy(seen, (), SEED, True).distribution.entropy().numpy()
    network = agent.network.trainable_variables
    for i in range(2):
        for variable, weight in zip(network, agent.task_weights, strict=True):
            variable.assign(weight.numpy()[i])
        own = agent.policy(seen, (), SEED, False).distribution.entropy().numpy()
        np.testing.assert_allclose(found[2 * i : 2 * i + 2], own[2 * i : 2 * i + 2], rtol=1e-5)
        assert np.abs(own - unadapted.entropy().numpy()).min() > 1e-4


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num_envs": 10, "task_episodes": 4}, "task_episodes=4 does not divide num_envs=10"),
        ({"rollout_length": 201}, r"rollout_length=201: inner_steps \+ 1 = 2 parts"),
        ({"inner_steps": 3, "rollout_length": 4}, "4 parts need a multiple"),
    ],
)
def test_parts_that_are_not_whole_are_refused(overrides, message):
    with pytest.raises(UsageError, match=message):
        resolve("maml", {"env": "Navigation2D-v0", **overrides})
