"""Environments of Gymnasium that are not what they say: one line each, before or as soon as it is seen."""

from __future__ import annotations

import sys

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from rl.envs import make_env
from rl.envs.checks import check_environment
from rl.envs.graph.pendulum import Pendulum
from rl.envs.graph_host import make_graph
from rl.envs.gym_host import GymHost
from rl.envs.host import action_view, observation_view
from rl.envs.make import make_eval_envs
from rl.errors import UsageError
from rl.hparams.merge import resolve

SMALL = spaces.Box(0.0, 1.0, (2,), np.float32)


class Shown(gymnasium.Env):
    """Observes what it was given, whatever its space says."""

    action_space = spaces.Discrete(2)
    paid = 0.0

    def __init__(self, space, *shown):
        self.observation_space, self._shown = space, list(shown)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        return self._shown[0], {}

    def step(self, action):
        return self._shown[-1], self.paid, False, False, {}


NESTED = spaces.Dict(place=SMALL, more=spaces.Dict(door=spaces.Discrete(3)))
GOOD = {"place": np.zeros(2, np.float32), "more": {"door": 1}}


@pytest.mark.parametrize(
    ("space", "good", "bad", "said"),
    [
        (spaces.Discrete(3), 1, 7, r"Shown returned 7 for the observation, not in Discrete\(3\)"),
        (spaces.Discrete(3, start=5), 5, 4, "returned 4 for the observation"),
        (spaces.MultiDiscrete([2, 3]), [1, 2], [1, 3], r"returned \[1 3\] for the observation"),
        (NESTED, GOOD, GOOD | {"more": {"door": 3}}, "returned 3 for more/door, not in Discrete"),
        (NESTED, GOOD, GOOD | {"place": np.zeros(3)}, r"returned place of shape \[3\], .* says \[2\]"),
        (NESTED, GOOD, {"place": GOOD["place"]}, "without the part more"),
        (spaces.Discrete(3), 1, 1.0, r"returned an observation of float64, its observation_space says int64"),
        (NESTED, GOOD, GOOD | {"more": {"door": 1.0}}, "returned more/door of float64, .* says int64"),
    ],
)
def test_an_observation_that_is_not_in_its_space_names_the_part(space, good, bad, said):
    host = GymHost([Shown(space, good), Shown(space, good, bad)])
    host.reset(0)
    with pytest.raises(UsageError, match=said):
        host.step(np.zeros(2, np.int64))
    assert host.at == 1


@pytest.mark.parametrize("paid", [np.array([2.0]), [1.0], 1j, None, np.zeros(2)], ids=repr)
def test_a_reward_that_is_no_number_is_shown(paid):
    host = GymHost([Shown(SMALL, np.zeros(2, np.float32))])
    host.reset(0)
    host.envs[0].paid = paid
    with pytest.raises(UsageError, match=r"Shown: step\(\) returned .* for the reward: return a number"):
        host.step(np.zeros(1, np.int64))


def test_64_bit_integers_beyond_32_are_seen_as_floats():
    times = spaces.Box(0, 2**62, (1,), np.int64)
    host = GymHost([Shown(times, np.array([1_700_000_000_123]))])
    assert host.observation_space.dtype == np.float32
    np.testing.assert_array_equal(host.reset(0), np.float32([[1_700_000_000_123]]))
    small = spaces.Box(-5, 5, (1,), np.int64)
    assert observation_view(small) == small


def test_an_action_of_a_box_without_axes_is_in_it(recwarn):
    class Steered(Shown):
        action_space = spaces.Box(-2.0, 2.0, (), np.float32)

        def step(self, action):
            assert isinstance(action, np.ndarray) and self.action_space.contains(action)
            return super().step(action)

    host = GymHost([Steered(SMALL, np.zeros(2, np.float32)) for _ in range(2)])
    host.reset(0)
    host.step(np.float32([0.5, 9.0]))
    assert not recwarn.list


def test_boxes_of_integers_are_no_actions():
    with pytest.raises(UsageError, match="are integers: make them a MultiDiscrete"):
        action_view(spaces.Box(0, 9, (2,), np.int64))


class Old(Shown):
    """Made for Gym before 0.26."""

    def __init__(self, what="seed"):
        super().__init__(SMALL, np.zeros(2, np.float32))
        self.reset = getattr(self, f"_{what}")

    def _seed(self):
        return self._shown[0], {}

    def _observation(self, *, seed=None, options=None):
        return self._shown[0]

    def _raises(self, *, seed=None, options=None):
        raise RuntimeError("no server")

    def _closed(self, *, seed=None, options=None):
        self.close = lambda: 1 // 0
        return self._shown[0], {}

    def _exits(self, *, seed=None, options=None):
        sys.exit(0)


def broken(kind):
    raise {
        "key": KeyError("9x9"),
        "file": FileNotFoundError("no level"),
        "run": RuntimeError("no key"),
        "exit": SystemExit(0),
    }[kind]


@pytest.fixture
def registered():
    gymnasium.register("OldReset-v0", entry_point=Old, max_episode_steps=9)
    gymnasium.register("Broken-v0", entry_point=broken, max_episode_steps=9)
    yield
    for name in ("OldReset-v0", "Broken-v0"):
        gymnasium.registry.pop(name)


@pytest.mark.parametrize(
    ("env", "kwargs", "said"),
    [
        ("OldReset-v0", {"what": "seed"}, r"reset\(\) takes no seed, as environments of old Gym do"),
        ("OldReset-v0", {"what": "observation"}, r"reset\(\) does not return \(observation, info\)"),
        (
            "OldReset-v0",
            {"what": "raises"},
            r"first reset\(\) failed, RuntimeError: no server \(.*, line \d+\)",
        ),
        ("OldReset-v0", {"what": "closed"}, r"OldReset-v0: its close\(\) failed, ZeroDivisionError: "),
        ("OldReset-v0", {"what": "exits"}, r"first reset\(\) failed, SystemExit: 0"),
        ("Broken-v0", {"kind": "exit"}, "cannot make Broken-v0: SystemExit: 0"),
        ("Broken-v0", {"kind": "key"}, "cannot make Broken-v0: KeyError: '9x9'"),
        ("Broken-v0", {"kind": "file"}, "cannot make Broken-v0: FileNotFoundError: no level"),
        ("FrozenLake-v1", {"map_name": "9x9"}, "KeyError: '9x9'"),
        ("Catch-v0", {"rows": 0}, r"first reset\(\) failed, IndexError"),
        ("pettingzoo:", {}, "cannot import nothing: ValueError"),
    ],
)
def test_what_cannot_begin_is_one_line(registered, env, kwargs, said):
    with pytest.raises(UsageError, match=said):
        check_environment(resolve("dqn", {"env": env, "env_kwargs": kwargs}))
        make_env(env, "auto", 1, kwargs)


def test_options_out_of_all_bounds_are_one_line_in_the_graph_too():
    with pytest.raises(UsageError, match=r"in-graph Identity-v0 cannot be made with .'num_states': 0.: "):
        make_env("Identity-v0", "graph", 1, {"num_states": 0})


@pytest.mark.parametrize(
    ("env", "options", "said"),
    [
        ("Pendulum-v1", {"g": "abc"}, r"Pendulum-v1: option g cannot be 'abc': .*valid number"),
        ("Pendulum-v1", {"g": None}, "Pendulum-v1: option g cannot be None: .*valid number"),
        ("Catch-v0", {"rows": 2.5}, "Catch-v0: option rows cannot be 2.5: .*valid integer"),
        ("CartPole-v1", {"sutton_barto_reward": 1}, "cannot be 1: .*valid boolean"),
    ],
)
def test_options_of_another_type_are_one_line_in_the_graph(env, options, said):
    with pytest.raises(UsageError, match=said):
        make_env(env, "graph", 1, options)
    assert make_env("Pendulum-v1", "graph", 1, {"g": 9}).gravity == 9  # a whole number is a number


class Wide(Pendulum):
    """Declares a tuple, which `--hparam_override` and TOML write as a list."""

    def __init__(
        self, num_envs: int, max_episode_steps: int | None = None, size: tuple[int, int] = (1, 2)
    ) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.size = size


def test_a_list_stands_for_a_tuple(monkeypatch):
    monkeypatch.setattr("rl.envs.graph_host.get_env", lambda _: Wide)
    assert make_graph("Wide-v0", 1, {"size": [3, 4]}, None).size == [3, 4]
    with pytest.raises(UsageError, match=r"option size cannot be 'ab': .*valid tuple"):
        make_graph("Wide-v0", 1, {"size": "ab"}, None)


def longest(host, steps):
    """The most steps that an environment goes on, of so many."""
    host.reset(0)
    length = most = 0
    for _ in range(steps):
        *_, terminated, truncated = host.step(np.zeros((host.num_envs, *host.action_space.shape), np.int32))
        length = 0 if (terminated | truncated)[0] else length + 1
        most = max(most, length)
    return most


@pytest.mark.parametrize(("env", "backend"), [("CliffWalking-v1", "envpool"), ("CartPole-v1", "gym")])
def test_a_limit_of_minus_1_is_none(env, backend):
    host = make_env(env, backend, 8, {"max_episode_steps": -1})
    assert longest(host, 12) >= 6
    host.close()


@pytest.mark.parametrize(("asked", "expected"), [(None, 199), (230, 229)])
def test_an_environment_of_the_graph_has_one_limit_in_evaluations(asked, expected):
    host = make_eval_envs("PendulumMass-v0", 1, max_episode_steps=asked)  # Gymnasium knows of none
    assert longest(host, 240) == expected
    host.close()
