"""In-graph environments against Gymnasium's own, one step at a time from equal states."""

from __future__ import annotations

from collections.abc import Callable
from operator import itemgetter
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from marked import few, rest
from scipy import stats

from rl.envs import make_env, make_gym_env
from rl.envs.graph.base import GraphEnv, GraphState
from rl.ops import random
from rl.types import TimeStep
from tests.graph_ids import WITH_ORIGINALS

NUM_ENVS = 4
IDS = WITH_ORIGINALS
# Of the others, which are slow, the tests of options step compiled ones too.
LONG_WALKED = ("Acrobot-v1", "CartPole-v1", "DeepSea-v0", "TwoStateChain-v0")


class Case(NamedTuple):
    """How to hold Gymnasium's environment to an in-graph one."""

    state: Callable[[Any], Any]  # Gymnasium's state from one environment's physics
    drive: (
        Callable[[np.ndarray], np.ndarray] | None
    )  # actions [n, ...] that reach the goal, from observations
    ends: tuple[bool, bool]  # whether 1000 steps must show terminations, truncations
    random_moves: bool = False  # whether the successor is drawn, so that only its reward can be compared


def _push(column: int, discrete: bool) -> Callable[[np.ndarray], np.ndarray]:
    """Pushes the way that observation number `column` goes: pumps energy into a swing."""
    if discrete:
        return lambda observation: np.where(observation[:, column] > 0, 2, 0)
    return lambda observation: np.sign(observation[:, column : column + 1] + 1e-9)


CASES = {
    "Acrobot-v1": Case(lambda p: p.astype(np.float64), _push(5, True), (True, True)),
    "CartPole-v1": Case(lambda p: p.astype(np.float64), lambda o: (o[:, 2] + o[:, 3] > 0) * 1, (True, True)),
    "CartPoleNoVel-v1": Case(lambda p: p.astype(np.float64), None, (True, False)),
    "CartPoleSparse-v0": Case(
        lambda p: p.pole.astype(np.float64), lambda o: (o[:, 2] + o[:, 3] > 0) * 1, (True, False)
    ),
    "Catch-v0": Case(lambda p: tuple(int(each) for each in p), None, (True, False)),
    "DeepSea-v0": Case(lambda p: tuple(int(each) for each in p), None, (True, False)),
    "Identity-v0": Case(lambda p: p.item(), None, (False, True), random_moves=True),
    "MountainCar-v0": Case(lambda p: p.astype(np.float64), _push(1, True), (True, True)),
    "MountainCarContinuous-v0": Case(lambda p: p, _push(1, False), (True, True)),
    "Pendulum-v1": Case(lambda p: p.astype(np.float64), None, (False, True)),
    "PendulumNoVel-v1": Case(lambda p: p.astype(np.float64), None, (False, True)),
    "TwoStateChain-v0": Case(int, None, (True, True)),
}


def _graph(env_id: str, num_envs: int = NUM_ENVS, **kwargs: Any) -> GraphEnv:
    env = make_env(env_id, "graph", num_envs, **kwargs)
    assert isinstance(env, GraphEnv)
    return env


def _actions(env: GraphEnv, case: Case, observation: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Random actions, beyond the limits where there are limits; half of the environments go for the goal."""
    if isinstance(env.action_space, gymnasium.spaces.Box):
        reach = 1.5 * env.action_space.high
        actions = rng.uniform(-reach, reach, (env.num_envs, *reach.shape)).astype(np.float32)
    else:
        actions = rng.integers(env.action_space.n, size=env.num_envs)
    if case.drive is not None:
        actions[::2] = case.drive(observation[::2])
    return actions


def _compare(
    env: GraphEnv, case: Case, originals: list[gymnasium.Env], steps: int, compiled: bool
) -> dict[str, int]:
    """Steps `env` at random and holds every step to Gymnasium's; returns how often what was seen."""
    rng, seed = np.random.default_rng(1), random.key(3)

    def one_step(state: GraphState, action: tf.Tensor, t: tf.Tensor) -> tuple[GraphState, TimeStep]:
        return env.step(state, action, random.fold_in(seed, t))

    step = tf.function(one_step, jit_compile=True, autograph=False) if compiled else one_step
    for original in originals:
        original.reset(seed=0)
    state, time_step = env.reset(seed)
    ours, theirs, resets = [], [], 0
    for t in range(steps):
        action = _actions(env, case, time_step.observation.numpy(), rng)
        before = tf.nest.map_structure(lambda each: each.numpy(), state)
        state, time_step = step(state, tf.constant(action), tf.constant(t))
        ours.append(TimeStep(*(each.numpy() for each in time_step)))
        if isinstance(env.action_space, gymnasium.spaces.Box):
            action = np.clip(action, env.action_space.low, env.action_space.high)
        expected = []
        for i, original in enumerate(originals):
            if before.episode_end[i]:
                original.reset()
                expected.append((ours[-1].observation[i], 0.0, False, False))  # what is drawn is not compared
                resets += 1
                continue
            original.unwrapped.state = case.state(tf.nest.map_structure(itemgetter(i), before.physics))
            original.unwrapped.steps_beyond_terminated = None
            observation, *rest, _ = original.step(action[i])
            expected.append((ours[-1].observation[i] if case.random_moves else observation, *rest))
        theirs.append(TimeStep(*(np.array(each) for each in zip(*expected, strict=True))))
    for name, rtol, atol in (("observation", 2e-6, 3e-6), ("reward", 1e-6, 1e-6)):
        mine = np.stack([getattr(each, name) for each in ours])
        assert mine.dtype == np.float32
        np.testing.assert_allclose(mine, np.stack([getattr(each, name) for each in theirs]), rtol, atol)
    for name in ("terminated", "truncated"):
        mine = np.stack([getattr(each, name) for each in ours])
        np.testing.assert_array_equal(mine, np.stack([getattr(each, name) for each in theirs]))
    ends = {
        name: sum(int(getattr(each, name).sum()) for each in ours) for name in ("terminated", "truncated")
    }
    return {**ends, "resets": resets}


@pytest.mark.parametrize("env_id", few(IDS, LONG_WALKED))
def test_thousand_compiled_steps_equal_gymnasium(env_id: str) -> None:
    case, originals = CASES[env_id], [make_gym_env(env_id) for _ in range(NUM_ENVS)]
    seen = _compare(_graph(env_id), case, originals, 1000, compiled=True)
    assert (seen["terminated"] > 0, seen["truncated"] > 0) == case.ends
    assert seen["resets"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("env_id", IDS)
def test_eager_steps_equal_gymnasium(env_id: str) -> None:
    case, originals = CASES[env_id], [make_gym_env(env_id) for _ in range(NUM_ENVS)]
    _compare(_graph(env_id), case, originals, 100, compiled=False)


@pytest.mark.parametrize(
    ("env_id", "reach"),  # physics are drawn from -reach .. reach
    [
        ("Acrobot-v1", [3.14, 3.14, 6.0, 12.0]),  # faster ones amplify float32 rounding a thousandfold
        ("CartPole-v1", [2.5, 3.0, 0.25, 3.0]),
        ("MountainCar-v0", [1.2, 0.07]),
        ("MountainCarContinuous-v0", [1.2, 0.07]),
        ("Pendulum-v1", [3.14, 8.0]),
    ],
)
def test_one_step_from_anywhere_equals_gymnasium(env_id: str, reach: list[float]) -> None:
    """Rollouts see few states near the limits; these are all over the place."""
    count, rng, original = 4000, np.random.default_rng(2), make_gym_env(env_id).unwrapped
    env, case = _graph(env_id, count), CASES[env_id]
    physics = (rng.uniform(-1, 1, (count, len(reach))) * reach).astype(np.float32)
    if env_id.startswith("MountainCar"):
        physics = np.clip(physics, env.observation_space.low, env.observation_space.high)
    state, time_step = env.reset(random.key(0))
    action = _actions(env, case, time_step.observation.numpy(), rng)
    if isinstance(env.action_space, gymnasium.spaces.Box):
        action = np.clip(action, env.action_space.low, env.action_space.high)
    step = tf.function(env.step, jit_compile=True, autograph=False)
    _, time_step = step(state._replace(physics=tf.constant(physics)), tf.constant(action), random.key(1))
    expected = []
    original.reset(seed=0)
    for i in range(count):
        original.state, original.steps_beyond_terminated = case.state(physics[i]), None
        expected.append(original.step(action[i])[:3])
    observation, reward, terminated = (np.array(each) for each in zip(*expected, strict=True))
    np.testing.assert_allclose(time_step.observation, observation, rtol=1e-5, atol=2e-5)
    np.testing.assert_allclose(time_step.reward, reward, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(time_step.terminated, terminated)
    assert env_id == "Pendulum-v1" or 10 < terminated.sum() < count - 10


@pytest.mark.parametrize("env_id", IDS)
def test_spaces_and_time_limit_are_gymnasiums(env_id: str) -> None:
    env, original = _graph(env_id), make_gym_env(env_id)
    assert env.observation_space == original.observation_space
    assert env.action_space == original.action_space
    assert original.spec is not None
    assert env.max_episode_steps == original.spec.max_episode_steps


@pytest.mark.parametrize("env_id", IDS)
def test_resets_are_distributed_as_gymnasiums(env_id: str) -> None:
    count = 3000
    _, time_step = _graph(env_id, count).reset(random.key(11))
    ours = time_step.observation.numpy().reshape(count, -1)
    original = make_gym_env(env_id)
    original.reset(seed=5)
    theirs = np.stack([original.reset()[0].ravel() for _ in range(count)])
    for column in range(ours.shape[1]):
        assert stats.ks_2samp(ours[:, column], theirs[:, column]).pvalue > 1e-3, f"column {column}"
        assert ours[:, column].min() >= theirs[:, column].min() - 0.01
        assert ours[:, column].max() <= theirs[:, column].max() + 0.01


@pytest.mark.parametrize(
    ("env_id", "env_kwargs"),
    [
        ("CartPole-v1", {"sutton_barto_reward": True}),
        ("Pendulum-v1", {"g": 1.62}),
        ("MountainCar-v0", {"goal_velocity": 0.05}),
        ("MountainCarContinuous-v0", {"goal_velocity": 0.05}),
        ("Catch-v0", {"rows": 4, "columns": 7}),
        ("Identity-v0", {"num_states": 9}),
        ("Identity-v0", {"continuous": True}),
        ("DeepSea-v0", {"size": 4, "mapping_seed": 1}),
        *rest(("CartPoleNoVel-v1", {"sutton_barto_reward": True}), ("PendulumNoVel-v1", {"g": 1.62})),
    ],
)
def test_options_mean_what_they_mean_in_gymnasium(env_id: str, env_kwargs: dict[str, Any]) -> None:
    env, originals = (
        _graph(env_id, 2, env_kwargs=env_kwargs),
        [make_gym_env(env_id, env_kwargs) for _ in "ab"],
    )
    assert env.observation_space == originals[0].observation_space
    assert env.action_space == originals[0].action_space
    seen = _compare(env, CASES[env_id], originals, 300, compiled=True)
    assert seen["resets"] > 0


@pytest.mark.parametrize(
    ("env_id", "original", "seen"),
    [("CartPoleNoVel-v1", "CartPole-v1", [0, 2]), ("PendulumNoVel-v1", "Pendulum-v1", [0, 1])],
)
def test_without_velocity_is_the_original_with_columns_left_out(
    env_id: str, original: str, seen: list[int]
) -> None:
    masked, whole = make_gym_env(env_id), gymnasium.make(original)
    whole.action_space.seed(1)
    assert masked.action_space == whole.action_space
    np.testing.assert_array_equal(masked.observation_space.high, whole.observation_space.high[seen])
    ended, ends, seed = True, -1, 3
    for _ in range(450):
        if ended:
            seed, ends = seed + 1, ends + 1
            (mine, _), (theirs, _) = masked.reset(seed=seed), whole.reset(seed=seed)
            ended = False
        else:
            action = whole.action_space.sample()
            mine, *flags, _ = masked.step(action)
            theirs, *expected, _ = whole.step(action)
            assert flags == expected
            ended = flags[1] or flags[2]
        np.testing.assert_array_equal(mine, theirs[seen])
        assert masked.observation_space.contains(mine)
    assert ends >= 2


def test_every_environment_has_a_case() -> None:
    assert sorted(CASES) == IDS
