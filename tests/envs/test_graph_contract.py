"""What every in-graph environment promises: autoreset, time limit, determinism, static shapes."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few, rest

from rl.envs import make_env
from rl.envs.graph.base import GraphEnv, check_graph_env
from rl.envs.registry import registry
from rl.errors import UsageError
from rl.ops import random
from tests.graph_ids import OF_ONE, WITH_ORIGINALS

IDS = OF_ONE
LONG = ("MinAtar/Seaquest-v1", "MinAtar/SpaceInvaders-v1")  # to compile
NOTHING_DRAWN = {"DeepSea-v0", "FrozenLake12x12-v0"}
OF_ONE_STEP = {"LinearBandit-v0", "ClassificationBandit-v0", "WheelBandit-v0"}
NOTHING_SEEN = {"BernoulliBandits-v0", "Navigation2D-v0"}  # of what is drawn: rewards alone tell of it
ALWAYS_START_ALIKE = (
    NOTHING_DRAWN
    | NOTHING_SEEN
    | {
        "MinAtar/Asterix-v1",
        "MinAtar/Seaquest-v1",
        "MinAtar/SpaceInvaders-v1",
    }
)
STEPS = 60
LIMIT = 7


def walked(ids: list[str]) -> list[Any]:
    """Params of environments, those that take long for `make test-all`."""
    return few(ids, [each for each in ids if each not in LONG])


@functools.cache  # one object for equal arguments, so that its loop is compiled once
def _graph(env_id: str, num_envs: int = 4, max_episode_steps: int | None = None) -> GraphEnv:
    env = make_env(env_id, "graph", num_envs, None, max_episode_steps)
    assert isinstance(env, GraphEnv)
    return env


def _sampled_actions(env: GraphEnv, steps: int = STEPS) -> np.ndarray:
    env.action_space.seed(0)
    return np.array(
        [[env.action_space.sample() for _ in range(env.num_envs)] for _ in range(steps)]
    )  # [T, B]


def _rollout(env: GraphEnv, actions: np.ndarray, seed: int, how: str = "graph") -> list[np.ndarray]:
    """observation, reward, terminated, truncated, elapsed_steps, all [T+1, B, ...], from one loop.

    XLA takes several times as long to compile, so that one test has it.
    """
    function = _loop(env, len(actions), how)
    return [each.numpy() for each in function(random.key(seed), tf.constant(actions))]


def _joined(observation: Any) -> tf.Tensor:
    """An observation of parts as one tensor [B, F]."""
    parts = tf.nest.flatten(observation)
    if len(parts) == 1:
        return parts[0]
    return tf.concat([tf.reshape(tf.cast(x, tf.float32), [x.shape[0], -1]) for x in parts], 1)


@functools.cache
def _loop(env: GraphEnv, steps: int, how: str) -> Callable[[tf.Tensor, tf.Tensor], list[tf.Tensor]]:
    def run(seed: tf.Tensor, actions: tf.Tensor) -> list[tf.Tensor]:
        state, first = env.reset(seed)
        first = [_joined(first.observation), *first[1:], state.elapsed_steps]
        written = [tf.TensorArray(each.dtype, steps, element_shape=each.shape) for each in first]

        def body(t: tf.Tensor, state: Any, written: list[tf.TensorArray]) -> tuple[Any, ...]:
            state, time_step = env.step(state, actions[t], random.fold_in(seed, t))
            values = [_joined(time_step.observation), *time_step[1:], state.elapsed_steps]
            return t + 1, state, [array.write(t, each) for array, each in zip(written, values, strict=True)]

        loop = (tf.constant(0), state, written)
        *_, written = tf.while_loop(lambda t, *_: t < steps, body, loop, maximum_iterations=steps)
        return [tf.concat([each[None], array.stack()], 0) for each, array in zip(first, written, strict=True)]

    return run if how == "eager" else tf.function(run, jit_compile=how == "xla", autograph=False)


@pytest.mark.parametrize("env_id", walked(IDS))
def test_the_step_after_an_episode_end_resets_and_nothing_else_does(env_id: str) -> None:
    env = _graph(env_id, max_episode_steps=LIMIT)
    _, reward, terminated, truncated, elapsed = _rollout(env, _sampled_actions(env), seed=0)
    end = terminated | truncated  # [T+1, B]
    assert end.any()
    np.testing.assert_array_equal(elapsed[1:] == 0, end[:-1])
    assert not reward[1:][end[:-1]].any()
    assert not end[1:][end[:-1]].any()
    np.testing.assert_array_equal(elapsed[1:][~end[:-1]], elapsed[:-1][~end[:-1]] + 1)


@pytest.mark.parametrize("env_id", walked([each for each in IDS if each not in OF_ONE_STEP]))
def test_episodes_are_truncated_exactly_at_the_time_limit(env_id: str) -> None:
    env = _graph(env_id, max_episode_steps=LIMIT)
    _, _, terminated, truncated, elapsed = _rollout(env, _sampled_actions(env), seed=2)
    np.testing.assert_array_equal(truncated, elapsed == LIMIT)
    assert truncated.any()
    assert elapsed.max() == LIMIT
    assert not terminated[elapsed == 0].any()


def test_an_episode_can_be_terminated_and_truncated_at_once() -> None:
    env = _graph("Catch-v0", max_episode_steps=9)  # the ball is down after 9 steps
    _, reward, terminated, truncated, _ = _rollout(env, _sampled_actions(env, 9), seed=0)
    assert terminated[9].all()
    assert truncated[9].all()
    assert (np.abs(reward[9]) == 1).all()


def test_without_a_time_limit_nothing_is_truncated() -> None:
    env = _graph("Catch-v0")
    _, _, terminated, truncated, elapsed = _rollout(env, _sampled_actions(env), seed=0)
    assert not truncated.any()
    np.testing.assert_array_equal(terminated, elapsed == 9)


@pytest.mark.parametrize("env_id", walked(IDS))
def test_equal_seeds_give_equal_bits_and_others_do_not(env_id: str) -> None:
    env = _graph(env_id, max_episode_steps=LIMIT)
    actions = _sampled_actions(env)
    first, again, other = (_rollout(env, actions, seed) for seed in (5, 5, 6))
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert np.array_equal(first[0], other[0]) == (env_id in NOTHING_DRAWN | NOTHING_SEEN)


def held_to_originals(env_id):
    """Whether test_minatar.py or test_graph_physics.py compares what is compiled with the original."""
    return env_id.startswith("MinAtar/") or env_id in WITH_ORIGINALS


# One of the bandits stands for them all.
ON_THEIR_OWN = [each for each in IDS if not held_to_originals(each) and each not in sorted(OF_ONE_STEP)[1:]]


@pytest.mark.parametrize("env_id", few(IDS, ON_THEIR_OWN))
def test_compiled_loop_equals_eager_steps(env_id: str) -> None:
    env = _graph(env_id, max_episode_steps=LIMIT)
    actions = _sampled_actions(env, 3 * LIMIT)  # two whole episodes, and what they begin anew with
    eager = _rollout(env, actions, 1, "eager")
    for one, two in zip(_rollout(env, actions, 1, "xla"), eager, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("env_id", walked([each for each in IDS if each not in ALWAYS_START_ALIKE]))
def test_every_reset_draws_anew(env_id: str) -> None:
    env = _graph(env_id, 64, max_episode_steps=1)
    observation, *_, elapsed = _rollout(env, _sampled_actions(env, 40), seed=0)
    resets = observation[elapsed == 0].reshape(21 * 64, -1)  # every other step resets
    distinct = len(np.unique(resets, axis=0))
    if env_id == "ClassificationBandit-v0":
        assert distinct > 0.9 * 500  # of its rows: 1 - exp(-1344 / 500) are expected
    elif len(np.unique(resets)) > 2 or env_id in ("MinAtar/Freeway-v1", "BitFlip-v0"):
        # real numbers, or 10^8 starts and more
        assert distinct > 0.99 * len(resets)
    else:
        by_step = observation[::2].reshape(21, 64, -1)
        assert distinct == len(np.unique(by_step[0], axis=0)) > 1
        assert len(np.unique(by_step.reshape(21, -1), axis=0)) == 21
        assert len(np.unique(by_step.swapaxes(0, 1).reshape(64, -1), axis=0)) > 60


@pytest.mark.parametrize("num_envs", [5, *rest(1)])
@pytest.mark.parametrize("env_id", walked(IDS))
def test_shapes_are_static_and_state_keeps_its_structure(env_id: str, num_envs: int) -> None:
    env = _graph(env_id, num_envs)
    action = tf.constant(_sampled_actions(env, 1)[0])

    @tf.function(autograph=False)
    def two(seed: tf.Tensor) -> Any:
        before = env.reset(seed)
        return before, env.step(before[0], action, seed)

    graph = two.get_concrete_function(tf.TensorSpec([2], tf.int32))
    before, after = graph.structured_outputs
    tf.nest.assert_same_structure(before, after)
    for one, other in zip(tf.nest.flatten(before), tf.nest.flatten(after), strict=True):
        assert one.shape.is_fully_defined() and one.shape[0] == num_envs
        assert (one.shape, one.dtype) == (other.shape, other.dtype)
    dynamic = {"Where", "Unique", "UniqueV2", "Range", "PyFunc", "EagerPyFunc"}  # a TPU refuses them
    assert not dynamic & {operation.type for operation in graph.graph.get_operations()}


@pytest.mark.parametrize(
    "env_id", walked([each for each in IDS if each not in ("InterestEvolution-v0", "BitFlip-v0")])
)  # of parts
def test_observations_lie_in_the_space(env_id: str) -> None:
    env = _graph(env_id)
    observation = _rollout(env, _sampled_actions(env, 200), seed=9)[0]
    assert all(
        env.observation_space.contains(each) for each in observation.reshape(-1, *observation.shape[2:])
    )


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_discrete_actions_may_have_either_integer_type(dtype: Any) -> None:
    env = _graph("CartPole-v1", 2)
    state, _ = env.reset(random.key(0))
    _, time_step = env.step(state, tf.constant([0, 1], dtype), random.key(1))
    assert time_step.observation[0, 1] < -0.1 and time_step.observation[1, 1] > 0.1


def test_box_actions_are_clipped_to_the_space() -> None:
    env = _graph("MountainCarContinuous-v0", 2)
    state, _ = env.reset(random.key(0))
    wild, tame = (env.step(state, tf.fill([2, 1], force), random.key(1))[1] for force in (50.0, 1.0))
    np.testing.assert_array_equal(wild.observation, tame.observation)
    np.testing.assert_array_equal(wild.reward, tame.reward)


def test_two_state_chain_has_the_values_it_states() -> None:
    """Value iteration over transitions seen in the environment itself, truncation bootstrapped through."""
    gamma, env = 0.9, _graph("TwoStateChain-v0", 16)
    actions = _sampled_actions(env)
    observation, reward, terminated, truncated, _ = _rollout(env, actions, seed=4)
    assert terminated.any() and truncated.any()
    state = observation.argmax(-1)  # [T+1, B]
    real = ~(terminated | truncated)[:-1]
    q = np.zeros((2, 2))
    for _ in range(300):
        target = reward[1:] + gamma * (1 - terminated[1:]) * q.max(-1)[state[1:]]
        for s in (0, 1):
            for a in (0, 1):
                seen = target[real & (state[:-1] == s) & (actions == a)]
                assert seen.size and np.ptp(seen) < 1e-9
                q[s, a] = seen[0]
    np.testing.assert_allclose(q, [[8.1, 9.0], [10.0, 1.0]], rtol=1e-9)


@pytest.mark.parametrize(("num_envs", "limit"), [(0, None), (1, 0)])
def test_impossible_sizes_are_refused(num_envs: int, limit: int | None) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        registry.get("CartPole-v1")(num_envs, limit)


@pytest.mark.parametrize(
    ("space", "message"),
    [
        (spaces.Discrete(2, start=5), "in the graph actions count from 0, Discrete(2, start=5) does not"),
        (spaces.MultiDiscrete([2, 2], start=[0, 1]), "in the graph actions count from 0"),
        (spaces.Box(0, 3, (1,), np.int32), "in the graph actions of a Box are floats"),
    ],
)
def test_actions_that_would_be_given_otherwise_than_the_space_says_are_refused(space, message) -> None:
    env = registry.get("CartPole-v1")(1)
    check_graph_env("Mine-v0", env)
    env.action_space = space
    with pytest.raises(UsageError, match=re.escape(message)):
        check_graph_env("Mine-v0", env)


def test_a_newcomers_environment_needs_three_functions() -> None:
    class Counter(GraphEnv):
        """Counts up to 3, in a nested observation."""

        max_episode_steps = 2
        action_space = spaces.Dict({"by": spaces.Discrete(4)})

        def initial(self, seed: tf.Tensor) -> dict[str, tf.Tensor]:
            return {"count": tf.zeros([self.num_envs, 1], tf.int32), "pixel": tf.ones([self.num_envs, 2, 2])}

        def dynamics(self, physics: Any, action: Any, seed: tf.Tensor) -> Any:
            count = physics["count"] + action["by"]
            return {**physics, "count": count}, tf.ones([self.num_envs]), count[:, 0] >= 3

        def observe(self, physics: Any) -> Any:
            return {"doubled": physics["count"] * 2, **physics}

    env = Counter(2)
    actions = {"by": tf.constant([[1], [3]])}
    state, time_step = env.reset(random.key(0))
    seen = []
    for _ in range(4):
        state, time_step = env.step(state, actions, random.key(0))
        seen.append([*time_step.observation["doubled"].numpy()[:, 0], *time_step.truncated.numpy()])
    assert seen == [[2, 6, False, False], [4, 0, True, False], [0, 6, False, False], [2, 0, False, False]]
