"""Reward augmentation: potentials that keep the optimal policy, equal in numpy and TensorFlow."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs import get_reward_augmentation, make_gym_env
from rl.envs.rewards import AUGMENTATIONS
from rl.errors import UsageError

SHAPED = ("mountain_car_default", "mountain_car_energy")
GAMMA = 0.99


def _trajectory(steps: int) -> tuple[np.ndarray, ...]:
    """observation, action, reward, next_observation, terminated of one episode that rocks the car out."""
    env = make_gym_env("MountainCar-v0", max_episode_steps=steps)
    observations, rewards, flags = [env.reset(seed=0)[0]], [], []
    while not flags or not flags[-1]:
        action = 2 if observations[-1][1] > 0 else 0
        observation, reward, terminated, truncated, _ = env.step(action)
        observations.append(observation)
        rewards.append(reward)
        flags.append(terminated)
        if truncated:
            break
    observation = np.stack(observations)
    action = np.where(observation[:-1, 1] > 0, 2, 0)
    return observation[:-1], action, np.array(rewards, np.float32), observation[1:], np.array(flags)


@pytest.mark.parametrize("name", SHAPED)
def test_shaping_adds_a_constant_to_the_return_of_a_terminated_episode(name: str) -> None:
    trajectory = _trajectory(200)
    assert trajectory[-1][-1]
    shaped = get_reward_augmentation(name)(*trajectory, GAMMA)
    weight = GAMMA ** np.arange(len(shaped))
    at_start = [each[:1] for each in trajectory]
    at_start[-1] = np.array([True])  # so that only the potential of the first observation is added
    first = get_reward_augmentation(name)(*at_start, GAMMA)[0] - at_start[2][0]
    np.testing.assert_allclose((weight * (shaped - trajectory[2])).sum(), first, rtol=1e-4)
    assert np.abs(shaped - trajectory[2]).max() > 0.1


@pytest.mark.parametrize("name", SHAPED)
def test_truncated_end_keeps_its_potential(name: str) -> None:
    trajectory = list(_trajectory(40))
    assert not trajectory[-1].any()
    kept = get_reward_augmentation(name)(*trajectory, GAMMA)
    trajectory[-1] = np.arange(40) == 39
    lost = get_reward_augmentation(name)(*trajectory, GAMMA)
    np.testing.assert_array_equal(kept[:-1], lost[:-1])
    assert kept[-1] > lost[-1] + 0.5


def test_default_shaping_of_a_literal_step() -> None:
    arguments = (
        np.array([[-np.pi / 6, 0.0]], np.float32),
        np.array([2]),
        np.array([-1.0], np.float32),
        np.array([[-np.pi / 6 + 0.1, 0.05]], np.float32),
        np.array([False]),
    )
    shaped = get_reward_augmentation("mountain_car_default")(*arguments, 0.9)
    np.testing.assert_allclose(shaped, [-1.0 + 0.9 * 10 * (0.1 + 0.5)], rtol=1e-5)


def test_energy_changes_little_without_a_push_and_grows_with_the_right_one() -> None:
    env = make_gym_env("MountainCar-v0")
    env.reset(seed=1)
    env.unwrapped.state = np.array([0.0, 0.0])
    energy = get_reward_augmentation("mountain_car_energy")

    def gained(observation: np.ndarray, action: int) -> float:
        step = env.step(action)
        no_reward, never = np.zeros(1, np.float32), np.zeros(1, bool)
        return float(energy(observation[None], None, no_reward, step[0][None], never, 1.0)[0])

    drift = sum(gained(np.array(env.unwrapped.state, np.float32), 1) for _ in range(30))
    pushed = sum(
        gained(np.array(env.unwrapped.state, np.float32), 2 if env.unwrapped.state[1] > 0 else 0)
        for _ in range(30)
    )
    assert abs(drift) < 0.5
    assert pushed > 1.5


@pytest.mark.parametrize("name", [*AUGMENTATIONS, "scale:0.1"])
def test_tensors_give_what_arrays_give(name: str) -> None:
    rng = np.random.default_rng(0)
    arrays = (
        rng.uniform(-1, 0.6, (5, 3, 2)).astype(np.float32),  # [T, B, 2]
        rng.integers(3, size=(5, 3)),
        rng.normal(size=(5, 3)).astype(np.float32),
        rng.uniform(-1, 0.6, (5, 3, 2)).astype(np.float32),
        rng.random((5, 3)) < 0.3,
    )
    augment = get_reward_augmentation(name)
    expected = augment(*arrays, GAMMA)
    compiled = tf.function(lambda *tensors: augment(*tensors, GAMMA), jit_compile=True, autograph=False)
    got = compiled(*(tf.constant(each) for each in arrays))
    assert expected.dtype == np.float32
    assert got.dtype == tf.float32
    np.testing.assert_allclose(got, expected, rtol=1e-5, atol=1e-5)


def test_sign_and_scale() -> None:
    reward = np.array([-3.0, 0.0, 0.5], np.float32)
    nothing = (None, None, reward, None, None, GAMMA)
    np.testing.assert_array_equal(get_reward_augmentation("clip_sign")(*nothing), [-1, 0, 1])
    np.testing.assert_array_equal(get_reward_augmentation("scale:0.5")(*nothing), [-1.5, 0, 0.25])


@pytest.mark.parametrize("name", ["scale", "scale:", "scale:big", "scale:nan"])
def test_scale_needs_a_factor(name: str) -> None:
    with pytest.raises(UsageError, match=r"needs a factor, such as scale:0.1"):
        get_reward_augmentation(name)


@pytest.mark.parametrize("name", ["mountaincar_default", "mountain_car_default:2"])
def test_unknown_name_gets_the_nearest(name: str) -> None:
    with pytest.raises(
        UsageError, match=rf"unknown reward_augmentation '{name}': did you mean mountain_car_def"
    ):
        get_reward_augmentation(name)
