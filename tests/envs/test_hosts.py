"""Host adapters: next-step autoreset, dtypes, seeding, clipping, nests, against Gymnasium's own vectors."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from rl.envs import make_env, make_eval_envs, make_gym_env
from rl.envs.catch_gym import CatchEnv
from rl.envs.envpool_host import EnvPoolHost
from rl.envs.gym_host import GymHost, GymVectorHost
from rl.envs.host import HostEnv, action_encoder, action_view, env_seeds, observation_view
from rl.errors import UsageError

HOSTS = {
    "gym": lambda: make_env("CartPole-v1", "gym", 3, {}, 40),
    "gym-vector": lambda: make_env("CartPole-v1", "gym", 9, {}, 40),
    "gym-eval": lambda: make_eval_envs("TwoStateChain-v0", 3),
    "envpool": lambda: make_env("CartPole-v1", "envpool", 3, {}, 40),
    "envpool-float64": lambda: make_env("InvertedPendulum-v5", "envpool", 2, {}, 40),
}


class Nested(gymnasium.Env):
    """Dict observations with float64 and integers, Tuple actions; keeps what it was given."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-9.0, 9.0, (2,), np.float64), "code": spaces.Discrete(7)}
    )
    action_space = spaces.Tuple([spaces.Box(-1.0, 1.0, (1,), np.float64), spaces.Discrete(3, start=-1)])

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.given: list[Any] = []
        return {"place": np.zeros(2), "code": 0}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.given.append(action)
        count = len(self.given)
        observation = {"place": np.array([count, action[0][0]]), "code": count}
        return observation, 0.5, count == 3, False, {}


@pytest.fixture(params=HOSTS)
def host(request: pytest.FixtureRequest) -> Iterator[HostEnv]:
    env = HOSTS[request.param]()
    yield env
    env.close()


def _play(env: HostEnv, seed: int, steps: int) -> list[np.ndarray]:
    """observation [T+1, B, ...], reward, terminated, truncated [T, B] of random actions."""
    env.action_space.seed(7)
    observations, rest = [env.reset(seed)], []
    for _ in range(steps):
        action = np.array([env.action_space.sample() for _ in range(env.num_envs)])
        observation, *others = env.step(action)
        observations.append(observation)
        rest.append(others)
    return [np.stack(observations), *(np.stack(each) for each in zip(*rest, strict=True))]


def test_the_step_after_an_episode_end_resets(host: HostEnv) -> None:
    observation, reward, terminated, truncated = _play(host, 0, 300)
    end = terminated | truncated  # [T, B]
    assert end.any(0).all()
    assert not reward[1:][end[:-1]].any()
    assert not end[1:][end[:-1]].any()
    again = observation[2:][end[:-1]]  # reset observations
    assert np.abs(again).max() <= (1.0 if again.shape[-1] == 2 else 0.05)
    assert len(np.unique(again, axis=0)) > 1
    assert (reward[1:][~end[:-1]] != 0).mean() > 0.4


def test_dtypes_and_shapes_are_those_of_the_contract(host: HostEnv) -> None:
    observation = host.reset(1)
    batch = (host.num_envs, *host.observation_space.shape)
    assert (observation.shape, observation.dtype) == (batch, np.float32)
    action = np.array([host.action_space.sample() for _ in range(host.num_envs)])
    observation, reward, terminated, truncated = host.step(action)
    assert (observation.shape, observation.dtype) == (batch, np.float32)
    assert (reward.shape, reward.dtype) == ((host.num_envs,), np.float32)
    assert terminated.shape == truncated.shape == (host.num_envs,)
    assert terminated.dtype == truncated.dtype == np.bool_
    assert host.observation_space.dtype == np.float32
    assert host.backend in ("gym", "envpool")


def test_equal_seeds_give_equal_episodes_and_others_do_not(host: HostEnv) -> None:
    first, again, other = _play(host, 3, 100), _play(host, 3, 100), _play(host, 4, 100)
    for one, two in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, two)
    assert not np.array_equal(first[0], other[0])


def test_what_was_returned_is_never_written_to_again(host: HostEnv) -> None:
    returned, copies = [host.reset(0)], []
    for _ in range(50):
        copies.append(returned[-1].copy())
        action = np.array([host.action_space.sample() for _ in range(host.num_envs)])
        observation, *others = host.step(action)
        returned.append(observation)
        kept = [(each, each.copy()) for each in others]
        host.step(action)
        assert all(np.array_equal(one, two) for one, two in kept)
    assert all(np.array_equal(one, two) for one, two in zip(returned, copies, strict=False))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "MountainCarContinuous-v0", "Catch-v0", "Identity-v0"])
def test_gym_host_equals_sync_vector_env(env_id: str) -> None:
    host = GymHost([make_gym_env(env_id, max_episode_steps=30) for _ in range(3)])
    sync = SyncVectorEnv(
        [lambda: make_gym_env(env_id, max_episode_steps=30) for _ in range(3)],
        autoreset_mode=AutoresetMode.NEXT_STEP,
    )
    np.testing.assert_array_equal(host.reset(5), sync.reset(seed=env_seeds(5, 3))[0])
    sync.action_space.seed(0)
    ends = 0
    for _ in range(200):
        action = sync.action_space.sample()
        *expected, _ = sync.step(action)
        for ours, theirs in zip(host.step(action), expected, strict=True):
            np.testing.assert_array_equal(ours, theirs.astype(ours.dtype))
        ends += int((expected[2] | expected[3]).sum())
    assert ends > 6


def test_vector_form_moves_as_the_single_environments_do() -> None:
    vector = make_env("CartPole-v1", "gym", 8, {}, 25)
    assert isinstance(vector, GymVectorHost)
    singles = [make_gym_env("CartPole-v1", max_episode_steps=25) for _ in range(8)]
    for single in singles:
        single.reset(seed=0)
    vector.reset(0)
    rng, ended, ends = np.random.default_rng(0), np.zeros(8, bool), 0
    for _ in range(120):
        states, action = vector.env.state.T.copy(), rng.integers(2, size=8)
        observation, reward, terminated, truncated = vector.step(action)
        for i, single in enumerate(singles):
            if ended[i]:
                single.reset()
                assert (reward[i], terminated[i], truncated[i]) == (0.0, False, False)
                continue
            single.unwrapped.state = states[i]
            expected = single.step(int(action[i]))
            np.testing.assert_allclose(observation[i], expected[0], rtol=1e-6)
            assert (reward[i], terminated[i], truncated[i]) == expected[1:4]
        ended = terminated | truncated
        ends += int(ended.sum())
    assert ends > 20


def test_few_environments_are_stepped_one_by_one() -> None:
    assert isinstance(make_env("CartPole-v1", "gym", 2), GymHost)


def test_nested_spaces_pass_through() -> None:
    envs = [Nested(), Nested()]
    host = GymHost(envs)
    assert host.observation_space["place"] == spaces.Box(-9.0, 9.0, (2,), np.float32)
    assert host.action_space[1] == spaces.Discrete(3)
    first = host.reset(0)
    action = (np.array([[5.0], [0.25]], np.float32), np.array([0, 2]))
    seen = [host.step(action) for _ in range(5)]
    assert first["place"].dtype == seen[0][0]["place"].dtype == np.float32
    np.testing.assert_array_equal(seen[1][0]["place"], [[2, 1], [2, 0.25]])  # 5 was clipped to 1
    np.testing.assert_array_equal(
        [each[0]["code"] for each in seen], [[1, 1], [2, 2], [3, 3], [0, 0], [1, 1]]
    )
    np.testing.assert_array_equal([each[2][0] for each in seen], [False, False, True, False, False])
    assert [int(each[1]) for env in envs for each in env.given] == [-1, 1]  # the start is the environment's


def test_box_actions_are_clipped_and_cast_for_the_environment() -> None:
    space = spaces.Box(np.array([-1.0, 0.0]), np.array([1.0, 3.0]), dtype=np.float64)
    encoded = action_encoder(space)(np.array([[-2.0, -2.0], [9.0, 9.0], [0.5, 0.5]], np.float32))
    np.testing.assert_array_equal(encoded, [[-1, 0], [1, 3], [0.5, 0.5]])
    assert encoded.dtype == np.float64
    assert action_view(space).dtype == np.float32


def test_limits_that_mean_none_are_shown_as_none() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tiny, largest = np.finfo(np.float64).tiny, np.finfo(np.float64).max
        space = spaces.Box(np.array([tiny, -2.0]), np.array([largest, 2.0]), dtype=np.float64)
    view = observation_view(space)
    np.testing.assert_array_equal(view.low, [-np.inf, -2.0])
    np.testing.assert_array_equal(view.high, [np.inf, 2.0])
    assert view.dtype == np.float32
    pixels = spaces.Box(0, 255, (4, 4), np.uint8)
    assert observation_view(pixels) == pixels


def test_spaces_without_a_fixed_shape_are_refused() -> None:
    with pytest.raises(UsageError, match=r"Text are not supported"):
        observation_view(spaces.Dict({"word": spaces.Text(5)}))
    with pytest.raises(UsageError, match=r"Sequence are not supported"):
        action_view(spaces.Sequence(spaces.Discrete(2)))


def test_seeds_of_neighbouring_runs_share_no_environment() -> None:
    seeds = [each for seed in range(100) for each in env_seeds(seed, 50)]
    assert len(set(seeds)) == len(seeds)
    assert min(seeds) >= 0
    assert max(seeds) < 2**31


def test_envpool_plays_our_catch() -> None:
    host, ours, rng = (
        make_env("Catch-v0", "envpool", 4),
        [CatchEnv() for _ in range(4)],
        np.random.default_rng(0),
    )
    board, outcomes = host.reset(0), set()
    for _ in range(10):  # games, which begin and end together
        for env, drawn in zip(ours, board, strict=True):
            env.state = (0, int(drawn[0].argmax()), 2)
        for t in range(9):
            action = rng.integers(3, size=4)
            board, reward, terminated, truncated = host.step(action)
            assert not truncated.any()
            assert terminated.all() == (t == 8)
            for i, env in enumerate(ours):
                observation, expected, done, *_ = env.step(int(action[i]))
                np.testing.assert_array_equal(board[i], observation)
                assert (reward[i], terminated[i]) == (expected, done)
        outcomes |= set(reward.tolist())
        board, reward, terminated, _ = host.step(action)
        assert not reward.any()
        assert not terminated.any()
    assert outcomes == {-1.0, 1.0}


def test_envpool_nests_and_float64_arrive_as_float32_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        host = EnvPoolHost("CheetahRun-v1", 2)
        first = host.reset(0)
        observation = host.step(np.zeros((2, 6), np.float32))[0]
    for nest in (first, observation):
        assert {key: (each.shape, each.dtype) for key, each in nest.items()} == {
            "position": ((2, 8), np.float32),
            "velocity": ((2, 9), np.float32),
        }
    assert host.observation_space["position"] == spaces.Box(-np.inf, np.inf, (8,), np.float32)
    assert host.action_space == spaces.Box(-1.0, 1.0, (6,), np.float32)


def test_envpool_keeps_pixels_as_bytes() -> None:
    host = EnvPoolHost("Pong-v5", 1, {"stack_num": 2})
    observation = host.reset(0)
    assert (observation.shape, observation.dtype) == ((1, 84, 84, 2), np.uint8)
    assert host.observation_space == spaces.Box(0, 255, (84, 84, 2), np.uint8)


def test_envpool_threads_do_not_change_what_happens() -> None:
    one, two = (EnvPoolHost("LunarLander-v3", 4, {"num_threads": n}) for n in (1, 2))
    for first, second in zip(_play(one, 2, 50), _play(two, 2, 50), strict=True):
        np.testing.assert_array_equal(first, second)


def test_envpool_limit_that_would_be_ignored_is_refused() -> None:
    with pytest.raises(UsageError, match="Catch-v0 ignores max_episode_steps"):
        EnvPoolHost("Catch-v0", 2, {}, 5)


def test_envpool_options_are_checked() -> None:
    with pytest.raises(UsageError, match=r"EnvPool cannot make CartPole-v1 with \{'bogus': 1\}: .*bogus"):
        EnvPoolHost("CartPole-v1", 2, {"bogus": 1})


def rule(env_id: str, observation: np.ndarray, t: int) -> np.ndarray:
    """Actions [B, ...] that depend on time and observation alone: up the hill by its swing, else random."""
    rng, count = np.random.default_rng(t), len(observation)
    if env_id == "MountainCar-v0":
        return np.where(observation[:, 1] < 0.0, 0, 2)
    if env_id == "InvertedPendulum-v5":
        return rng.uniform(-3.0, 3.0, (count, 1)).astype(np.float32)
    return rng.integers(2 if env_id == "CartPole-v1" else 4, size=count)


def episode(make: Any, env_id: str, limit: int | None) -> tuple[int, list[bool], Any]:
    """Steps of the first environment's first episode, [terminated, truncated] of its last one, and what the
    step after it returned."""
    env, count = make(limit), 0
    observation, flags = env.reset(3), [False, False]
    while not any(flags):
        observation, _, *ends = env.step(rule(env_id, observation, count))
        flags, count = [bool(each[0]) for each in ends], count + 1
    after = [each[0] for each in env.step(rule(env_id, observation, count))]
    env.close()
    return count, flags, after


TIMED = [("CartPole-v1", "gym", 2), ("CartPole-v1", "gym", 8), ("CartPole-v1", "envpool", 2)]
TIMED += [(each, "envpool", 2) for each in ("MountainCar-v0", "LunarLander-v3", "FrozenLake-v1")]
TIMED += [("InvertedPendulum-v5", "envpool", 2)]
TIMED += [pytest.param("Breakout-v5", "envpool", 2, marks=pytest.mark.slow)]


@pytest.mark.parametrize(("env_id", "backend", "count"), TIMED)
def test_an_end_that_the_time_limit_meets_is_terminal_too(env_id: str, backend: str, count: int) -> None:
    """As Gymnasium's TimeLimit, which leaves `terminated` as it is."""

    def make(limit: int | None) -> HostEnv:
        return make_env(env_id, backend, count, {}, limit)

    steps, flags, _ = episode(make, env_id, None)
    assert flags == [True, False] and steps > 2
    assert episode(make, env_id, steps)[:2] == (steps, [True, True])
    assert episode(make, env_id, steps + 1)[:2] == (steps, [True, False])
    length, flags, (_, reward, terminated, truncated) = episode(make, env_id, steps - 1)
    assert (length, flags) == (steps - 1, [False, True])
    assert (reward, terminated, truncated) == (0.0, False, False)


class Written(gymnasium.Env):
    """What `reset` and `step` return is said from outside."""

    observation_space = spaces.Box(-1.0, 1.0, (2,), np.float32)
    action_space = spaces.Discrete(2)
    good = np.zeros(2, np.float32)

    def __init__(self, reset: Any, step: Any) -> None:
        self._reset, self._step = reset, step

    def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
        return self._reset

    def step(self, action: Any) -> Any:
        return self._step


@pytest.mark.parametrize(
    ("reset", "step", "told"),
    [
        (Written.good, None, r"reset\(\) does not return \(observation, info\), as environments of old Gym"),
        ((Written.good, {}), (Written.good, 1.0, False, {}), r"step\(\) does not return five things, as env"),
        (
            (Written.good, {}),
            (Written.good, None, False, False, {}),
            r"step\(\) returned None for the reward",
        ),
        (
            (Written.good, {}),
            (Written.good, np.zeros(2), False, False, {}),
            r"step\(\) returned array\(\[0., 0.\]\) for the reward: return a number",
        ),
        ((0.5, {}), None, r"observation of shape \[\], its observation_space says \[2\]"),
        ((Written.good, {}), (np.zeros(3), 1.0, False, False, {}), r"of shape \[3\], its .* says \[2\]"),
    ],
)
def test_an_environment_that_is_none_of_gymnasiums_is_told_in_one_line(
    reset: Any, step: Any, told: str
) -> None:
    host = GymHost([Written(reset, step)])
    with pytest.raises(UsageError, match=rf"environment Written.*{told}"):
        host.reset(0)
        host.step(np.zeros(1, np.int64))


def test_an_environment_whose_reset_takes_no_seed_is_told() -> None:
    class Unseeded(Written):
        def reset(self) -> Any:  # type: ignore[override]
            return self._reset

    with pytest.raises(UsageError, match=r"reset\(\) takes no seed, as environments of old Gym do"):
        GymHost([Unseeded((Written.good, {}), None)]).reset(0)
