"""Environments of many tasks: what tasks change, which halves they are divided in, and how long they stay."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph.bernoulli_bandits import BernoulliBandits
from rl.envs.graph.navigation_2d import Navigation2D
from rl.envs.graph.pendulum_mass import PendulumMass
from rl.envs.graph.tasks import TaskEnv, part
from rl.envs.half_cheetah_velocity_gym import PARTS, PaidForVelocity
from rl.envs.half_cheetah_velocity_gym import part as unit_of
from rl.errors import UsageError
from rl.ops import random

COUNT = 4_000
KINDS = (BernoulliBandits, Navigation2D, PendulumMass)


def _tasks(env: TaskEnv) -> np.ndarray:
    return env.reset(random.key(0))[0].physics.task.numpy()


def test_train_and_test_are_halves_without_a_common_number() -> None:
    unit = tf.constant([0.0, 0.1, 0.19, 0.2, 0.99])
    np.testing.assert_allclose(part("train", unit), [0.0, 0.05, 0.095, 0.2, 0.895], atol=2e-6)
    np.testing.assert_allclose(part("test", unit), [0.1, 0.15, 0.195, 0.3, 0.995], atol=2e-6)
    np.testing.assert_array_equal(part("all", unit), unit)


@pytest.mark.parametrize(
    ("kind", "low", "width"), [(KINDS[0], 0, 1), (KINDS[1], -0.5, 1), (KINDS[2], 0.5, 1.5)]
)
def test_held_out_tasks_lie_in_bands_of_their_own(kind: type[TaskEnv], low: float, width: float) -> None:
    for tasks, bands in (("train", {0, 2, 4, 6, 8}), ("test", {1, 3, 5, 7, 9}), ("all", set(range(10)))):
        first = _tasks(kind(COUNT, tasks=tasks))[:, 0]
        assert set(np.floor((first - low) / width * 10).astype(int)) == bands
        assert (
            abs(
                (first.mean() - low) / width
                - (0.45 if tasks == "train" else 0.55 if tasks == "test" else 0.5)
            )
            < 0.03
        )
    with pytest.raises(UsageError, match="needs one of all, train, test"):
        kind(1, tasks="tests")


@pytest.mark.parametrize("keeps", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_a_task_stays_for_an_episode_or_as_long_as_it_is_kept(kind: type[TaskEnv], keeps: bool) -> None:
    env = kind(16, max_episode_steps=2)
    env.keeps_tasks = keeps
    state, _ = env.reset(random.key(0))
    seen = [state.physics]
    action = tf.zeros([16, *env.action_space.shape], env.action_space.dtype)
    for t in range(3):  # the last one is the reset
        state, _ = env.step(state, action, random.key(t + 1))
        seen.append(state.physics)
    tasks = [each.task.numpy() for each in seen]
    np.testing.assert_array_equal(tasks[0], tasks[2])
    assert (tasks[2] == tasks[3]).all() if keeps else (tasks[2] != tasks[3]).any(1).all()
    if kind is PendulumMass:
        assert (seen[3].place.numpy() != seen[0].place.numpy()).all()
    else:
        assert not seen[3].place.numpy().any()


@pytest.mark.parametrize("kind", KINDS)
def test_neighbouring_environments_can_have_one_task(kind: type[TaskEnv]) -> None:
    env = kind(12)
    env.rows_of_task = 4
    tasks = _tasks(env).reshape(3, 4, -1)
    assert (tasks == tasks[:, :1]).all()
    assert len(np.unique(tasks[:, 0], axis=0)) == 3


def test_an_arm_pays_1_as_often_as_its_probability_and_the_last_pull_ends() -> None:
    env = BernoulliBandits(COUNT, arms=3, pulls=2)
    state, first = env.reset(random.key(0))
    probability = state.physics.task.numpy()
    action = random.randint(random.key(1), [COUNT], 3)
    chosen = probability[np.arange(COUNT), action.numpy()]
    state, one = env.step(state, action, random.key(2))
    state, two = env.step(state, action, random.key(3))
    for each in (one, two):
        reward = each.reward.numpy()
        assert set(reward) == {0.0, 1.0}
        assert abs((reward - chosen).mean()) < 0.025 and np.corrcoef(reward, chosen)[0, 1] > 0.5
    assert (one.reward.numpy() != two.reward.numpy()).any()
    assert not one.terminated.numpy().any() and two.terminated.numpy().all()
    assert not first.observation.numpy().any() and not two.observation.numpy().any()
    for arms, pulls in ((1, 5), (2, 0)):
        with pytest.raises(UsageError, match="needs two arms and a pull"):
            BernoulliBandits(1, arms=arms, pulls=pulls)


def test_navigation_moves_a_tenth_of_the_action_and_pays_minus_the_distance() -> None:
    env = Navigation2D(3)
    state, _ = env.reset(random.key(0))
    goal = tf.constant([[0.3, 0.4], [0.05, -0.1], [0.1, 0.105]])
    state = state._replace(physics=state.physics._replace(task=goal))
    action = tf.constant([[0.0, 0.0], [0.5, -5.0], [1.0, 1.0]])  # the second is cut to -1
    _, after = env.step(state, action, random.key(1))
    np.testing.assert_allclose(after.observation, [[0.0, 0.0], [0.05, -0.1], [0.1, 0.1]], atol=1e-7)
    np.testing.assert_allclose(after.reward, [-0.5, 0.0, -0.005], atol=1e-6)
    np.testing.assert_array_equal(after.terminated, [False, True, True])


def test_a_pendulum_of_another_mass_is_gymnasiums() -> None:
    env = PendulumMass(5)
    state, _ = env.reset(random.key(0))
    mass, place = state.physics.task.numpy()[:, 0], state.physics.place.numpy()
    rng = np.random.default_rng(0)
    originals = [gymnasium.make("Pendulum-v1").unwrapped for _ in mass]
    for original, m, start in zip(originals, mass, place, strict=True):
        original.reset()
        original.m, original.state = float(m), start.astype(np.float64)
    for t in range(30):
        action = rng.uniform(-2.0, 2.0, (5, 1)).astype(np.float32)
        state, after = env.step(state, tf.constant(action), random.key(t))
        expected = [each.step(u)[:2] for each, u in zip(originals, action, strict=True)]
        np.testing.assert_allclose(after.observation, [each[0] for each in expected], atol=2e-4)
        np.testing.assert_allclose(after.reward, [each[1] for each in expected], atol=2e-3)
    with pytest.raises(UsageError, match="lightest <= heaviest"):
        PendulumMass(1, lightest=2.0, heaviest=1.0)


class Runner(gymnasium.Env):
    """Runs as fast as the action says, and tells of it as HalfCheetah does."""

    observation_space = action_space = gymnasium.spaces.Box(-9.0, 9.0, (1,))

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return np.zeros(1, np.float32), {}

    def step(self, action):
        info = {"x_velocity": float(action[0]), "reward_ctrl": -0.05 * float(action[0]) ** 2}
        return np.zeros(1, np.float32), 99.0, False, False, info


def test_a_cheetah_is_paid_for_the_nearness_to_a_velocity_of_its_half_of_the_tasks() -> None:
    for tasks, bands in (("train", {0, 2, 4, 6, 8}), ("test", {1, 3, 5, 7, 9}), ("all", set(range(10)))):
        env, goals = PaidForVelocity(Runner(), tasks), []
        for seed in range(100):
            goals.append(env.reset(seed=seed)[1]["goal"])
            again = env.reset(seed=seed)[1]["goal"]
            assert again == goals[-1] == env.step(np.array([1.5], np.float32))[4]["goal"]
        reward = env.step(np.array([1.5], np.float32))[1]
        np.testing.assert_allclose(reward, -abs(1.5 - goals[-1]) - 0.05 * 2.25, rtol=1e-6)
        assert {int(goal / 2.0 * 10) for goal in goals} == bands
    for unit in (0.0, 0.1, 0.19, 0.2, 0.99):
        for tasks in ("train", "test", "all"):
            expected = part(tasks, tf.constant(unit, tf.float32)).numpy()
            np.testing.assert_allclose(unit_of(PARTS[tasks], unit), expected, atol=2e-6)
    with pytest.raises(ValueError, match="needs one of all, train, test"):
        PaidForVelocity(Runner(), "tests")
