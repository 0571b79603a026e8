"""Neural-linear Thompson sampling: its posterior in numpy, what it keeps, and what no line can tell."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.neural_linear import NeuralLinear
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.parallel import replicas
from rl.types import Trajectory

ARMS, SIZE, STEPS = 3, 2, 4
SPACES = spaces.Box(-1.0, 1.0, (SIZE,), np.float32), spaces.Discrete(ARMS)
TINY = {
    "model.hidden": (6,),
    "num_envs": 2,
    "rollout_length": STEPS,
    "replay_capacity": 20,
    "batch_size": 16,
    "updates_per_iteration": 3,
    "prior_precision": 0.5,
}


def agent_of(**overrides):
    return NeuralLinear(resolve("neural_linear", TINY | overrides), *SPACES, 0)


def rollout(seed):
    """A trajectory [4, 2] whose second steps are autoreset steps, and its counted steps in numpy."""
    rng = np.random.default_rng(seed)
    observation = rng.uniform(-1.0, 1.0, (STEPS + 1, 2, SIZE)).astype("f4")
    arm = rng.integers(0, ARMS, (STEPS, 2)).astype("i4")
    reward = (arm + observation[:-1, :, 0]).astype("f4")
    mask = np.tile(np.array([[1.0], [0.0]], "f4"), (STEPS // 2, 2))
    ended = tf.constant(mask > 0.0)
    given = map(tf.constant, (observation, arm, reward))
    trajectory = Trajectory(*given, ended, tf.zeros_like(ended), tf.constant(mask), {})
    counted = mask.T.reshape(-1) > 0.0  # environment by environment
    return trajectory, [
        np.swapaxes(y, 0, 1).reshape(2 * STEPS, -1)[counted] for y in (observation[:-1], arm, reward)
    ]


def test_the_posterior_is_that_of_the_layers_as_they_are_for_all_that_was_observed():
    agent, seen = agent_of(), []
    for i in range(2):
        trajectory, counted = rollout(i)
        seen.append(counted)
        agent.update(trajectory, random.key(i))
    observation, arm, reward = (np.concatenate(y) for y in zip(*seen, strict=True))
    kernel, bias = (each.numpy() for each in agent.network.torso.trainable_variables)
    hidden = np.maximum(observation @ kernel + bias, 0.0)  # relu
    x = np.concatenate([hidden, np.ones((len(hidden), 1))], 1)
    probe = np.array([[0.3, -0.7]], "f4")
    at = np.append(np.maximum(probe @ kernel + bias, 0.0)[0], 1.0)
    expected, deviation = agent.network(agent.network.features(tf.constant(probe)))
    for k in range(ARMS):
        mine = arm[:, 0] == k
        inverse = np.linalg.inv(0.5 * np.eye(7) + x[mine].T @ x[mine])
        np.testing.assert_allclose(
            expected[0, k], at @ inverse @ x[mine].T @ reward[mine, 0], rtol=1e-3, atol=1e-4
        )
        np.testing.assert_allclose(deviation[0, k], np.sqrt(at @ inverse @ at), rtol=1e-3)


def test_actions_of_training_are_drawn_by_the_posterior_and_those_of_evaluation_are_not():
    agent = agent_of(posterior_scale=0.7)
    agent.update(rollout(0)[0], random.key(0))
    observation, seed = tf.constant([[0.2, 0.4]]), random.key(5)
    expected, deviation = (y.numpy()[0] for y in agent.network(agent.network.features(observation)))
    noise = random.normal(random.split(seed, 2)[0], [1, ARMS]).numpy()[0]
    drawn, best = (
        int(agent.act(observation, (), seed, tf.constant(0, tf.int64), training)[0][0])
        for training in (True, False)
    )
    assert drawn == int(np.argmax(expected + 0.7 * deviation * noise)) and best == int(np.argmax(expected))


@pytest.mark.slow
def test_the_last_steps_are_kept_and_the_layers_learn_from_those_that_count():
    agent = agent_of(lr=1e-2)
    for i in range(3):  # 24 steps where 20 are kept
        agent.update(rollout(i)[0], random.key(i))
    assert int(agent.count) == 24
    newest = np.concatenate([rollout(i)[1][2] for i in range(3)])[-10:, 0]
    kept = agent.table.reward.numpy()[agent.table.mask.numpy() > 0.0]
    assert sorted(kept) == pytest.approx(sorted(newest))
    losses = [float(agent.update(rollout(0)[0], random.key(9 + i)).metrics["loss"]) for i in range(30)]
    assert losses[-1] < 0.3 * losses[0]


def test_a_rollout_longer_than_what_is_kept_is_one_line():
    with pytest.raises(UsageError, match="replay_capacity=7 is less than a rollout"):
        agent_of(replay_capacity=7)
    with replicas.devices(2), pytest.raises(UsageError, match=r"rollouts of 2 learners, .* = 16"):
        agent_of(replay_capacity=15)  # a learner's own rollout of 8 would fit


def test_it_learns_what_no_line_tells(build, tmp_path):
    """Whether the signs of two numbers agree: a line is right in half of the cases, which pay 1."""
    x = np.random.default_rng(0).uniform(-1.0, 1.0, (400, 2))
    np.savez(tmp_path / "table.npz", x=x, y=(x[:, 0] * x[:, 1] > 0.0).astype(int))
    options = {"env": "ClassificationBandit-v0", "env_kwargs": {"data": str(tmp_path / "table.npz")}}
    options |= {"num_envs": 8, "rollout_length": 20}
    fitted = {"lr": 1e-2, "batch_size": 128, "updates_per_iteration": 20, "replay_capacity": 4_096}
    regrets = []
    for name, more in (("neural_linear", fitted), ("linear_thompson", {})):
        runner = build(name, **options, **more)
        runner.run(15)  # 1,200 rounds
        regrets.append(runner.run(5)["regret"] / 400.0)
    assert regrets[0] < 0.1 and regrets[1] > 0.3
