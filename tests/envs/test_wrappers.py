"""Observations that tell more: the action and reward before, in every form; and which actions are legal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.envs import make_env, make_eval_envs, make_gym_env
from rl.envs.graph.base import GraphEnv
from rl.envs.graph.wrappers import PreviousActionReward as GraphPrevious
from rl.envs.gym_host import GymHost, GymVectorHost
from rl.envs.host import HostEnv
from rl.envs.wrappers import ActionMask, PreviousActionReward, PreviousActionRewardHost, previous_action_space
from rl.errors import UsageError
from rl.ops import random

FORMS = {
    # what makes it, given `previous_action_reward`
    "graph": lambda told: make_env("TwoStateChain-v0", "graph", 3, None, 4, told),
    "graph, Box actions": lambda told: make_env("PendulumNoVel-v1", "graph", 2, None, 5, told),
    "gym": lambda told: make_env("TwoStateChain-v0", "gym", 3, None, 4, told),
    "gym, Box actions": lambda told: make_env("PendulumNoVel-v1", "gym", 2, None, 5, told),
    "gym vector": lambda told: make_env("CartPole-v1", "gym", 8, None, 9, told),
    "envpool": lambda told: make_env("CartPole-v1", "envpool", 3, None, 9, told),
    "evaluation": lambda told: make_eval_envs("TwoStateChain-v0", 3, previous_action_reward=told),
    "evaluation, in-graph": lambda told: make_eval_envs(
        "PendulumMass-v0", 2, max_episode_steps=5, previous_action_reward=told
    ),
}


class _Eager:
    """An in-graph environment behind the host environments' interface."""

    def __init__(self, env: GraphEnv) -> None:
        self.env, self.num_envs = env, env.num_envs
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, seed: int) -> Any:
        self.seed = random.key(seed)
        self.state, first = self.env.reset(self.seed)
        return tf.nest.map_structure(np.asarray, first.observation)

    def step(self, action: Any) -> Any:
        self.seed = random.fold_in(self.seed, 1)
        self.state, following = self.env.step(self.state, tf.constant(action), self.seed)
        return tf.nest.map_structure(np.asarray, tuple(following))


def _host(env: Any) -> Any:
    return _Eager(env) if isinstance(env, GraphEnv) else env


@pytest.mark.parametrize("form", FORMS)
def test_the_previous_action_and_reward_are_told_and_nothing_else_changes(form: str) -> None:
    plain, telling = (_host(FORMS[form](told)) for told in (False, True))
    space = telling.observation_space
    assert list(space.spaces) == ["observation", "previous_action", "previous_reward"]
    assert (space["observation"], telling.action_space) == (plain.observation_space, plain.action_space)
    plain.action_space.seed(3)
    told = telling.reset(5)
    np.testing.assert_array_equal(told["observation"], plain.reset(5))
    assert not told["previous_action"].any() and not told["previous_reward"].any()
    ended, starts = np.zeros(plain.num_envs, bool), 0
    for _ in range(30):
        resets = ended  # in this step: it ignores the action
        action = np.array([plain.action_space.sample() for _ in range(plain.num_envs)])
        expected = plain.step(action)
        told, *rest = telling.step(action)
        for mine, theirs in zip((told["observation"], *rest), expected, strict=True):
            np.testing.assert_array_equal(mine, theirs)
        np.testing.assert_array_equal(told["previous_reward"], expected[1][:, None])
        assert told["previous_reward"].dtype == np.float32
        for before, given, none in zip(told["previous_action"], action, resets, strict=True):
            box = isinstance(plain.action_space, spaces.Box)
            np.testing.assert_array_equal(before, 0 * given if none else (given if box else given + 1))
            assert space["previous_action"].contains(before)
        starts += int(resets.sum())
        ended = expected[2] | expected[3]
    assert starts > 2 * plain.num_envs


@pytest.mark.parametrize("form", ["graph, Box actions", "gym, Box actions"])
def test_actions_are_told_as_the_environment_took_them(form: str) -> None:
    telling = _host(FORMS[form](True))
    telling.reset(0)
    told = telling.step(np.array([[7.0], [-0.5]], np.float32))[0]
    np.testing.assert_array_equal(told["previous_action"], [[2.0], [-0.5]])  # the limit is 2


def test_every_form_stands_where_it_should() -> None:
    made = {form: make(True) for form, make in FORMS.items()}
    assert isinstance(made["graph"], GraphPrevious) and isinstance(made["gym"], PreviousActionRewardHost)
    assert isinstance(made["gym"].env, GymHost) and isinstance(made["gym vector"].env, GymVectorHost)
    hosts = [made[form].backend for form in ("gym vector", "envpool", "evaluation")]
    assert hosts == ["gym", "envpool", "gym"]
    assert len(made["evaluation"].env.envs) == 3


def test_it_compiles_with_static_shapes_and_unchanged_state() -> None:
    env = make_env("Pendulum-v1", "graph", 2, None, None, True)
    plain = make_env("Pendulum-v1", "graph", 2)

    @tf.function(jit_compile=True, autograph=False)
    def two(seed: tf.Tensor) -> Any:
        state, first = env.reset(seed)
        return state, first, env.step(state, tf.zeros([2, 1]), seed)

    state, first, (following, second) = two(random.key(0))
    tf.nest.assert_same_structure(state, plain.reset(random.key(0))[0])
    tf.nest.assert_same_structure((state, first), (following, second))
    for one, other in zip(tf.nest.flatten((state, first)), tf.nest.flatten((following, second)), strict=True):
        assert (one.shape, one.dtype) == (other.shape, other.dtype)


class Everything(gymnasium.Env):
    """All kinds of actions at once, their integers not from 0; Dict observations."""

    observation_space = spaces.Dict({"place": spaces.Box(-9.0, 9.0, (2,), np.float64)})
    action_space = spaces.Dict(
        {
            "one": spaces.Discrete(3, start=-1),
            "many": spaces.MultiDiscrete([2, 3], start=[5, 0]),
            "bits": spaces.MultiBinary(2),
            "reals": spaces.Tuple([spaces.Box(1.0, 2.0, (1,), np.float64)]),
        }
    )

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        return {"place": np.zeros(2)}, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        return {"place": np.ones(2)}, 0.25, False, False, {}


AGENTS_ACTION = {
    "one": np.array([2]),
    "many": np.array([[1, 0]]),
    "bits": np.array([[0, 1]]),
    "reals": (np.array([[1.5]], np.float32),),
}
TOLD = {"one": np.array(3), "many": np.array([2, 1]), "bits": np.array([0, 1]), "reals": (np.array([1.5]),)}


def test_all_kinds_of_actions_are_told_alike_by_both_gymnasium_forms() -> None:
    host = PreviousActionRewardHost(GymHost([Everything()]))
    single = GymHost([PreviousActionReward(Everything())])
    assert host.observation_space == single.observation_space
    assert list(host.observation_space.spaces) == ["place", "previous_action", "previous_reward"]  # flat
    for env in (host, single):
        first = env.reset(0)
        assert not any(np.any(each) for each in tf.nest.flatten(first))
        told = env.step(AGENTS_ACTION)[0]
        tf.nest.map_structure(
            lambda x, expected: np.testing.assert_array_equal(x[0], expected),
            told["previous_action"],
            TOLD,
        )
        np.testing.assert_array_equal(told["previous_reward"], [[0.25]])
        assert tf.nest.map_structure(np.shape, told) == tf.nest.map_structure(np.shape, first)


def test_the_space_of_previous_actions_holds_the_zeros_that_mean_none() -> None:
    box = spaces.Box(np.float32([1.0, -3.0]), np.float32([2.0, -1.0]), dtype=np.float32)
    assert previous_action_space(box) == spaces.Box(
        np.float32([0.0, -3.0]), np.float32([2.0, 0.0]), dtype=np.float32
    )
    assert previous_action_space(spaces.MultiDiscrete([2, 5])) == spaces.MultiDiscrete([3, 6])
    number = spaces.Box(1.0, 2.0, (), np.float32)
    assert previous_action_space(number) == spaces.Box(0.0, 2.0, (), np.float32)


def test_a_part_of_the_same_name_is_not_overwritten() -> None:
    class Taken(Everything):
        observation_space = spaces.Dict({"previous_action": spaces.Discrete(2)})

    with pytest.raises(UsageError, match="already has a part called 'previous_action'"):
        PreviousActionReward(Taken())


# -- action masks ----------------------------------------------------------------------------------


class Corridor(gymnasium.Env):
    """Walk right to cell 3 of 0..3; at the ends, walking into the wall is illegal. Says so in its info."""

    observation_space, action_space = spaces.Discrete(4), spaces.Discrete(2)
    made = 0

    def __init__(self, mask_shape: tuple[int, ...] = (2,), render_mode: str | None = None) -> None:
        type(self).made += 1
        self.render_mode, self.mask_shape = render_mode, mask_shape

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict]:
        super().reset(seed=seed)
        self.cell = 0
        return 0, self._info()

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        self.cell += 1 if action else -1
        return self.cell, 0.0, self.cell == 3, False, {} if self.cell == 2 else self._info()

    def _info(self) -> dict[str, Any]:
        return {"action_mask": np.resize(np.array([self.cell > 0, self.cell < 3], np.int8), self.mask_shape)}


@pytest.fixture
def corridor(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Registers `Corridor` for Gymnasium under an id."""

    def register(env_id: str) -> str:
        spec = gymnasium.envs.registration.EnvSpec(env_id, entry_point=Corridor, max_episode_steps=9)
        monkeypatch.setitem(gymnasium.registry, env_id, spec)
        return env_id

    return register


def _masks(host: HostEnv, steps: int) -> list[Any]:
    found = [host.reset(0)]
    found += [host.step(np.ones(host.num_envs, np.int64))[0] for _ in range(steps)]
    return found


@pytest.mark.parametrize("make", [lambda i: make_env(i, "gym", 9), lambda i: make_eval_envs(i, 2)])
def test_a_mask_in_the_info_is_observed_in_training_and_in_evaluation(corridor: Any, make: Any) -> None:
    host = make(corridor("Corridor-v0"))
    assert host.observation_space == spaces.Dict(
        {"observation": spaces.Discrete(4), "action_mask": spaces.MultiBinary(2)}
    )
    found = _masks(host, 4)
    np.testing.assert_array_equal([each["observation"][0] for each in found], [0, 1, 2, 3, 0])
    # In cell 2 the environment says nothing: everything is legal. Then the goal, then the reset.
    expected = [[0, 1], [1, 1], [1, 1], [1, 0], [0, 1]]
    np.testing.assert_array_equal([each["action_mask"][1] for each in found], expected)
    assert {each["action_mask"].dtype for each in found} == {np.dtype(np.int8)}
    host.close()


def test_taxi_is_masked_as_gymnasium_says_and_told_of_the_action_before() -> None:
    env, original = make_gym_env("Taxi-v4", previous_action_reward=True), gymnasium.make("Taxi-v4")
    assert isinstance(env, PreviousActionReward) and isinstance(env.env, ActionMask)
    (told, _), (state, info) = env.reset(seed=4), original.reset(seed=4)
    rng, illegal = np.random.default_rng(0), 0
    for _ in range(60):
        np.testing.assert_array_equal(told["action_mask"], info["action_mask"])
        assert told["observation"] == state
        assert env.observation_space.contains(told)
        illegal += int((info["action_mask"] == 0).sum())
        action = int(rng.choice(np.flatnonzero(info["action_mask"])))
        told, *_ = env.step(action)
        state, reward, *_, info = original.step(action)
        assert told["previous_action"] == action + 1 and told["previous_reward"][0] == reward
    assert illegal > 60


def test_an_environment_is_asked_for_its_mask_once(corridor: Any) -> None:
    env_id = corridor("CorridorOnce-v0")
    before = Corridor.made
    make_env(env_id, "gym", 3).close()
    make_eval_envs(env_id, 2).close()
    assert Corridor.made == before + 3 + 2 + 1
    make_env(env_id, "gym", 1, {"mask_shape": (2,)}).close()
    assert Corridor.made == before + 6 + 2  # with other options it may be another


def test_auto_does_not_take_envpool_where_gymnasium_masks(corridor: Any) -> None:
    assert make_env("Taxi-v3", "auto", 1).backend == "envpool"  # Gymnasium has none of that name
    env = make_env(corridor("Taxi-v3"), "auto", 1)
    assert env.backend == "gym" and "action_mask" in env.observation_space.spaces
    assert make_env("Taxi-v3", "envpool", 1).observation_space == spaces.Discrete(500)


def test_masks_of_the_environments_own_and_of_continuous_actions_are_left_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class Own(Corridor):
        observation_space = spaces.Dict({"action_mask": spaces.MultiBinary(2), "cell": spaces.Discrete(4)})

        def reset(self, **kwargs: Any) -> tuple[Any, dict]:
            cell, info = super().reset(**kwargs)
            return {"cell": cell, **info}, info

    class Continuous(Corridor):
        action_space = spaces.Box(-1.0, 1.0, (2,))

    for kind in (Own, Continuous):
        spec = gymnasium.envs.registration.EnvSpec("Left-v0", entry_point=kind)
        monkeypatch.setitem(gymnasium.registry, "Left-v0", spec)
        assert make_gym_env("Left-v0").observation_space == kind.observation_space


def test_a_mask_of_the_wrong_length_is_refused(corridor: Any) -> None:
    host = make_env(corridor("Corridor-v0"), "gym", 1, {"mask_shape": (3,)})
    with pytest.raises(UsageError, match=r"info\['action_mask'\] has shape \[3\].*need \[2\]"):
        host.reset(0)
