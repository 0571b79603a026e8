"""The particle environments against mpe2's, one step at a time from equal states."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from mpe2 import simple_spread_v3, simple_tag_v3

from rl.envs.graph.particles import Particles, ParticlesPhysics
from rl.envs.graph.simple_spread import SimpleSpread
from rl.envs.graph.simple_tag import SimpleTag
from rl.errors import UsageError
from rl.ops import random

NUM_ENVS = 6
STEPS = 30  # of which 25 are an episode
COPIED = 3  # steps after which ours begins again where theirs is: contact amplifies the rounding of float32
CASES: list[tuple[type[Particles], Any, dict[str, Any]]] = [
    (SimpleSpread, simple_spread_v3, {}),
    (SimpleSpread, simple_spread_v3, {"continuous_actions": True, "N": 2, "local_ratio": 0.0}),
    (SimpleTag, simple_tag_v3, {}),
    (SimpleTag, simple_tag_v3, {"continuous_actions": True, "num_good": 2, "num_obstacles": 3}),
]


def _world(original: Any) -> Any:
    return original.unwrapped.world


def _physics(originals: list[Any]) -> ParticlesPhysics:
    """Where everybody is in the originals, as ours has it."""
    agents = [[each.state for each in _world(original).agents] for original in originals]
    landmarks = [[each.state.p_pos for each in _world(original).landmarks] for original in originals]
    position = np.array([[each.p_pos for each in row] for row in agents], np.float32)
    velocity = np.array([[each.p_vel for each in row] for row in agents], np.float32)
    return ParticlesPhysics(*(tf.constant(each, tf.float32) for each in (position, velocity, landmarks)))


def _crowd(originals: list[Any], rng: np.random.Generator) -> None:
    """Brings everybody close together in half of the originals, and to the field's rim in one."""
    for i, original in enumerate(originals[::2]):
        for each in [*_world(original).agents, *_world(original).landmarks]:
            each.state.p_pos = rng.uniform(-0.25, 0.25, 2) + (0.9 if i == 0 else 0.0)


def _stepped(original: Any, action: np.ndarray, width: int) -> list[np.ndarray]:
    """Observations, filled up with zeros, rewards, terminations, truncations [A, ...] and the state."""
    names = original.possible_agents
    results = original.step(dict(zip(names, action, strict=True)))[:4]
    observation, *rest = ([each[name] for name in names] for each in results)
    filled = [np.pad(each, (0, width - len(each))) for each in observation]
    return [np.array(each) for each in (filled, *rest, original.state())]


@pytest.mark.parametrize(("kind", "module", "options"), CASES, ids=["spread", "pull", "tag", "pull_tag"])
def test_every_step_equals_mpe2(kind: type[Particles], module: Any, options: dict[str, Any]) -> None:
    env, rng = kind(NUM_ENVS, **options), np.random.default_rng(0)
    originals = [module.parallel_env(**options) for _ in range(NUM_ENVS)]
    assert env.agent_names == tuple(originals[0].possible_agents)

    @tf.function(autograph=False)
    def step(physics: ParticlesPhysics, action: tf.Tensor) -> Any:
        physics, reward, terminated = env.dynamics(physics, action, random.key(0))
        return physics, (env.observe(physics), reward, terminated, env.state(physics))

    contacts = 0
    for t in range(STEPS):
        if t % 25 == 0:
            for i, original in enumerate(originals):
                original.reset(seed=100 * t + i)
            _crowd(originals, rng)
        if t % COPIED == 0 or t % 25 == 0:
            physics = _physics(originals)
        shape = (NUM_ENVS, len(env.agent_names), *env.action_space.shape)
        action = rng.uniform(0, 1, shape).astype(np.float32) if shape[2:] else rng.integers(5, size=shape)
        physics, (observation, reward, terminated, state) = step(physics, tf.constant(action))
        steps = [_stepped(each, action[i], observation.shape[2]) for i, each in enumerate(originals)]
        theirs = [np.stack(each) for each in zip(*steps, strict=True)]
        np.testing.assert_allclose(observation, theirs[0], 1e-5, 2e-5)
        np.testing.assert_allclose(reward, theirs[1], 1e-5, 2e-5)
        np.testing.assert_array_equal(terminated, theirs[2])
        assert (theirs[3] == (t % 25 == env.max_episode_steps - 1)).all()
        np.testing.assert_allclose(state, theirs[4], 1e-5, 2e-5)
        contacts += int(np.sum(env.touching(physics)))
    assert contacts > 5


@pytest.mark.parametrize(("kind", "module"), [(SimpleSpread, simple_spread_v3), (SimpleTag, simple_tag_v3)])
def test_spaces_starts_and_limits_are_mpe2s(kind: type[Particles], module: Any) -> None:
    env, original = kind(500), module.parallel_env()
    spaces = [original.observation_space(name) for name in original.possible_agents]
    assert env.observation_space == max(spaces, key=lambda each: each.shape)
    assert env.action_space == original.action_space(env.agent_names[0])
    assert env.state_space == original.state_space
    assert env.max_episode_steps == 25
    physics, starts = env.initial(random.key(1)), []
    for seed in range(200):
        original.reset(seed=seed)
        starts.append(original)
        starts[-1] = _physics([original])
    assert not np.any(physics.velocity)
    for ours, theirs in zip(physics, (tf.concat(each, 0) for each in zip(*starts, strict=True)), strict=True):
        assert abs(np.min(ours) - np.min(theirs)) < 0.02
        assert abs(np.max(ours) - np.max(theirs)) < 0.02
        assert abs(np.std(ours) - np.std(theirs)) < 0.03


def test_a_shared_reward_is_said_where_nothing_is_local() -> None:
    assert SimpleSpread(1, local_ratio=0.0).shared_reward
    assert not SimpleSpread(1).shared_reward
    assert not SimpleTag(1).shared_reward


def test_impossible_numbers_are_refused() -> None:
    for kind, options in [
        (SimpleSpread, {"N": 0}),
        (SimpleSpread, {"local_ratio": 1.5}),
        (SimpleTag, {"num_good": 0}),
        (SimpleTag, {"num_obstacles": -1}),
    ]:
        with pytest.raises(UsageError, match=next(iter(options))):
            kind(1, **options)
