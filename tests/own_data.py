"""Data sets that tests play themselves, by policies written down: episodes of Gymnasium's environments."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

import numpy as np
import tiny_parts

from rl.data.dataset import Dataset, write
from rl.data.hdf5 import Episode
from rl.data.spaces import map_parts
from rl.envs.make import make_gym_env

TEMPORARY = tempfile.TemporaryDirectory()


def random(space):
    """A policy whose actions are uniformly random."""
    return lambda observation, rng: _sampled(space, rng)


def _sampled(space, rng):
    space.seed(int(rng.integers(2**31)))
    return space.sample()


def episode(env, policy, rng):
    """One episode of an environment, played by `policy(observation, rng)`."""
    observation, _ = env.reset(seed=int(rng.integers(2**31)))
    seen, rows, over = [observation], [], False
    while not over:
        action = policy(observation, rng)
        observation, reward, terminated, truncated, _ = env.step(action)
        seen.append(observation)
        rows.append((action, reward, terminated, truncated))
        over = terminated or truncated
    action, reward, terminated, truncated = zip(*rows, strict=True)
    flags = np.array(terminated), np.array(truncated)
    return Episode(
        map_parts(lambda _, *each: np.stack(each), env.observation_space, *seen),
        map_parts(lambda _, *each: np.stack(each), env.action_space, *action),
        np.array(reward, np.float32),
        *flags,
    )


def play(folder, env_id, policy=None, episodes=20, seed=0, **env_kwargs):
    """Writes a data set of an environment's episodes to `folder`, and returns it as it was played.

    policy: (observation, generator of NumPy) to an action; None: random actions.
    """
    env, rng = make_gym_env(env_id, env_kwargs), np.random.default_rng(seed)
    policy = random(env.action_space) if policy is None else policy
    played = [episode(env, policy, rng) for _ in range(episodes)]
    data = Dataset.of(played, env.observation_space, env.action_space)
    write(folder, data, {"env_id": env_id, "env_kwargs": env_kwargs})
    return data


def mostly(right, space, share=0.9):
    """A policy that does what is `right(observation)` mostly, else something random that is legal."""
    anything = random(space)

    def policy(observation, rng):
        if rng.random() < share:
            return right(observation)
        if isinstance(observation, dict) and "action_mask" in observation:
            return rng.choice(np.flatnonzero(observation["action_mask"]))
        return anything(observation, rng)

    return policy


@functools.cache
def tiny(env_id, **env_kwargs):
    """A folder with episodes of one of the smallest environments, in most steps of which the right thing is
    done; it is removed with the process."""

    def right(observation):
        if env_kwargs.get("continuous"):
            return observation
        row = observation
        if env_id == tiny_parts.ENV_ID:
            row = observation[0] if env_kwargs["form"] == "tuple" else observation["row"]
        number = int(np.argmax(row))
        return (
            np.array([tiny_parts.place(number)], np.float32) if env_kwargs.get("actions") == "box" else number
        )

    folder = Path(TEMPORARY.name) / f"{env_id}{sorted(env_kwargs.items())}"
    space = make_gym_env(env_id, env_kwargs).action_space
    play(folder, env_id, mostly(right, space), episodes=150, **env_kwargs)
    return str(folder)
