"""Environments by id: which backend is taken, and what a person at the terminal reads when it cannot be."""

from __future__ import annotations

import re
import subprocess
import sys
from operator import itemgetter
from typing import Any

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.envs import make_env, make_eval_envs, make_gym_env
from rl.envs.graph.base import GraphEnv
from rl.envs.gym_ids import where_played
from rl.envs.make import chosen_backend
from rl.envs.own import give_env
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from tests.graph_ids import OF_ONE


def _refused(*args: Any, make: Any = make_env) -> str:
    with pytest.raises(UsageError) as caught:
        make(*args)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_run_says_that_gymnasium_lacks_an_id_only_where_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    hparams = resolve("ppo", {"env": "Its-v0"})
    played = where_played(hparams, "graph", "graph")
    assert played == "Its-v0: trained in-graph, evaluated in-graph, since Gymnasium has none of that id"
    form = {"entry_point": "rl.envs.graph_gym:GraphEnvGym", "kwargs": {"env_id": "Its-v0"}}
    monkeypatch.setitem(gymnasium.registry, "Its-v0", gymnasium.envs.registration.EnvSpec("Its-v0", **form))
    assert where_played(hparams, "graph", "graph") == "Its-v0: trained in-graph, evaluated in-graph"


@pytest.mark.parametrize(
    ("env_id", "backend"), [("CartPole-v1", "graph"), ("LunarLander-v3", "envpool"), ("Taxi-v4", "gym")]
)
def test_auto_takes_the_fastest_backend_that_has_the_id(env_id: str, backend: str) -> None:
    env = make_env(env_id, "auto", 2)
    assert ("graph" if isinstance(env, GraphEnv) else env.backend) == backend
    assert env.num_envs == 2


@pytest.mark.parametrize(
    ("env_id", "kwargs", "backend"),
    [
        ("FrozenLake-v1", {}, "envpool"),
        ("FrozenLake-v1", {"is_slippery": False}, "gym"),  # an option that EnvPool's has not
        ("Blackjack-v1", {}, "gym"),  # EnvPool's observes an array, Gymnasium's a tuple
    ],
)
def test_auto_passes_over_envpool_where_it_is_not_what_gymnasium_has(env_id, kwargs, backend) -> None:
    env = make_env(env_id, "auto", 2, kwargs)
    original = make_gym_env(env_id, kwargs)
    assert env.backend == backend
    assert env.observation_space == original.observation_space
    env.close()


@pytest.mark.parametrize("env_id", ["Catch-v0", "Maze-v0"])  # one that is in-graph, one of EnvPool
def test_an_id_that_the_caller_has_registered_is_the_callers(env_id) -> None:
    before = chosen_backend(env_id, "auto")
    assert before != "gym"
    with pytest.MonkeyPatch.context() as patch:
        mine = gymnasium.envs.registration.EnvSpec(env_id, entry_point=f"{__name__}:Mine")
        patch.setitem(gymnasium.registry, env_id, mine)
        assert chosen_backend(env_id, "auto") == chosen_backend(env_id, "host") == "gym"
        assert chosen_backend(env_id, before) == before  # where it is asked for


@pytest.mark.parametrize("raised", ["SystemExit(0)", "RuntimeError('broken')", "SyntaxError('here')"])
def test_a_module_of_an_environment_that_cannot_be_imported_is_one_line(
    raised, tmp_path, monkeypatch
) -> None:
    (tmp_path / "broken_env.py").write_text(f"raise {raised}")
    monkeypatch.syspath_prepend(tmp_path)
    said = _refused("broken_env:X", "auto", 1)
    assert said.startswith(f"environment broken_env:X: cannot import broken_env: {raised.partition('(')[0]}")
    wrapped = _refused("CartPole-v1", "auto", 1, {}, None, False, None, ("broken_env:Wrapper",))
    assert wrapped.startswith(f"env_wrappers: cannot import broken_env: {raised.partition('(')[0]}")


class Mistaken(GraphEnv):
    """Says in floats whether it is over, or rewards all its rows with one number."""

    observation_space, action_space = spaces.Box(0.0, 1.0, (1,)), spaces.Discrete(2)

    def __init__(self, num_envs: int, max_episode_steps: int | None = None, over: bool = True) -> None:
        super().__init__(num_envs, max_episode_steps)
        self.over = over

    def initial(self, seed: Any) -> Any:
        return tf.zeros([self.num_envs])

    def dynamics(self, physics: Any, action: Any, seed: Any) -> Any:
        zeros = tf.zeros([self.num_envs])
        return (physics, zeros, zeros) if self.over else (physics, 1.0, zeros > 0.0)

    def observe(self, physics: Any) -> Any:
        return physics[:, None]


@pytest.mark.parametrize(
    ("over", "words"),
    [(True, r"terminated is float32 \[3\], not bool \[3\]"), (False, r"reward is float, not float32 \[3\]")],
)
def test_what_an_environment_returns_of_another_kind_is_named(over: bool, words: str) -> None:
    env = Mistaken(3, over=over)
    state, _ = env.reset(random.key(0))
    with pytest.raises(UsageError, match=f"Mistaken.dynamics: {words}"):
        env.step(state, tf.zeros([3], tf.int64), random.key(1))


class Unfinished(GraphEnv):
    """An in-graph environment of which two parts were forgotten."""

    action_space = spaces.Discrete(2)

    def initial(self, seed):
        return ()

    def observe(self, physics):
        return physics


class NoGraphEnv:
    def __init__(self, num_envs, max_episode_steps=None):
        self.num_envs = num_envs


class NoActions(gymnasium.Env):
    """A Gymnasium environment that does not say what can be done."""

    observation_space = spaces.Discrete(2)


@pytest.mark.parametrize(
    ("env_class", "said"),
    [
        (Unfinished, r"Unfinished lacks dynamics\(\), observation_space \(see rl.envs.graph.base.GraphEnv\)"),
        (NoGraphEnv, "NoGraphEnv is not derived from rl.envs.graph.base.GraphEnv"),
    ],
)
def test_in_graph_environment_that_lacks_a_part_is_told_which(env_class, said, monkeypatch) -> None:
    monkeypatch.setattr("rl.envs.graph_host.get_env", lambda env_id: env_class)
    assert re.search(said, _refused("Identity-v0", "graph", 2))


def test_gymnasium_environment_without_a_space_is_told_which() -> None:
    assert "NoActions has no action_space: set one of" in _refused(give_env(NoActions), "gym", 2)


@pytest.mark.parametrize("backend", ["graph", "envpool", "gym"])
def test_backends_of_one_id_have_equal_spaces_and_limits(backend: str) -> None:
    env = make_env("Acrobot-v1", backend, 2, {}, 5)
    original = make_gym_env("Acrobot-v1")
    assert env.observation_space == original.observation_space
    assert env.action_space == original.action_space
    if isinstance(env, GraphEnv):
        assert env.max_episode_steps == 5
    else:
        env.reset(0)
        cut = [bool(env.step(np.zeros(2, np.int64))[3].all()) for _ in range(6)]
        assert cut == [False, False, False, False, True, False]


def test_unknown_id_gets_the_nearest_names_of_all_backends() -> None:
    text = _refused("CartPole-v2", "auto", 1)
    assert text.startswith("unknown environment 'CartPole-v2': did you mean CartPole-v1")
    assert "CoinrunEasy-v0" in _refused("CoinrunEazy-v0", "gym", 1)
    assert "TwoStateChain-v0" in _refused("TwoStateChain", "graph", 1)
    assert "Acrobot-v1" in _refused("Acrobat-v1", make=make_gym_env)


def test_backend_without_the_id_names_those_that_have_it() -> None:
    assert _refused("LunarLander-v3", "graph", 1).endswith("take env_backend auto or envpool or gym")
    assert _refused("Identity-v0", "envpool", 1).endswith("take env_backend auto or graph or gym")
    assert _refused("CoinrunEasy-v0", "gym", 1).endswith("take env_backend auto or envpool")


def test_unknown_backend_and_impossible_numbers_are_refused() -> None:
    assert "did you mean envpool" in _refused("CartPole-v1", "envpol", 1)
    assert _refused("CartPole-v1", "auto", 0) == "num_envs must be at least 1, not 0"
    assert _refused("CartPole-v1", "gym", 1, {}, 0) == "max_episode_steps must be at least 1, not 0"


@pytest.mark.parametrize("backend", ["graph", "envpool", "gym"])
def test_unknown_options_are_named(backend: str) -> None:
    text = _refused("CartPole-v1", backend, 2, {"sutton_barto_rewards": True})
    assert "sutton_barto_rewards" in text
    assert "CartPole-v1" in text


def test_in_graph_options_get_the_nearest_name() -> None:
    assert "did you mean goal_velocity" in _refused("MountainCar-v0", "auto", 2, {"goal_speed_velocity": 1})
    assert "it takes none" in _refused("Acrobot-v1", "graph", 2, {"dt": 0.1})


def test_evaluation_of_what_only_envpool_has_is_on_envpool() -> None:
    assert "CoinrunEasy-v0 is EnvPool's alone" in _refused("CoinrunEasy-v0", make=make_gym_env)
    env = make_eval_envs("Pong-v5", 2)
    assert env.backend == "envpool"
    env.close()


def test_module_before_the_id_is_imported() -> None:
    for num_envs in (1, 8):
        assert make_env("rl.envs.catch_gym:Catch-v0", "auto", num_envs).backend == "gym"
    assert "cannot import no_such_module" in _refused("no_such_module:Env-v0", "auto", 1)


class _Needy(gymnasium.Env):
    def __init__(self, package: str, **_: Any) -> None:
        raise gymnasium.error.DependencyNotInstalled(f"{package} is not installed, run `pip install ...`")


@pytest.mark.parametrize(
    ("package", "words"),
    [
        ("MuJoCo", "the extra 'mujoco': ./setup.sh --extra mujoco"),
        ("Box2D", "the extra 'box2d': ./setup.sh --extra box2d"),
        ("flux", "a package that is missing: flux is not installed"),
    ],
)
def test_missing_package_names_the_extra_that_brings_it(
    package: str, words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = gymnasium.envs.registration.EnvSpec("Needy-v0", entry_point=_Needy)
    monkeypatch.setitem(gymnasium.registry, "Needy-v0", spec)
    assert f"environment Needy-v0 needs {words}" in _refused("Needy-v0", "gym", 1, {"package": package})


def test_missing_atari_package_names_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert "needs the extra 'atari'" in _refused("ALE/Pong-v5", "auto", 1)


@pytest.mark.parametrize("env_id", OF_ONE)
def test_evaluation_is_gymnasiums_own_environment(env_id: str) -> None:
    env = make_eval_envs(env_id, 2, render_mode="rgb_array")
    assert env.backend == "gym"
    assert env.observation_space.contains(tf.nest.map_structure(itemgetter(0), env.reset(0)))
    frame = env.render()
    assert frame.dtype == np.uint8
    assert frame.ndim == 3
    assert frame.max() > frame.min()
    env.close()


@pytest.mark.parametrize(
    ("options", "backend"),
    [
        ({}, "graph"),
        ({"max_episode_steps": 9}, "graph"),
        ({"render_mode": "rgb_array"}, "gym"),
        ({"frame_stack": 2}, "gym"),
        ({"wrappers": ("gymnasium.wrappers:FlattenObservation",)}, "gym"),
        ({"env_kwargs": {"max_episode_steps": 7}}, "gym"),
    ],
)
def test_evaluation_is_all_at_once_where_gymnasium_steps_the_in_graph_environment(
    options: dict[str, Any], backend: str
) -> None:
    env = make_eval_envs("CartPolePixels-v0", 2, **options)
    assert env.backend == backend
    env.close()


def test_a_limit_cuts_evaluations_that_are_all_at_once() -> None:
    env = make_eval_envs("InterestEvolution-v0", 2, max_episode_steps=3)
    env.reset(0)
    action = np.stack([env.action_space.sample()] * 2)
    assert [env.step(action)[3].all() for _ in range(3)] == [False, False, True]
    env.close()


def test_evaluation_keeps_the_original_limit_and_options() -> None:
    env = make_gym_env("MountainCar-v0", {"goal_velocity": 0.05})
    assert env.spec is not None
    assert env.spec.max_episode_steps == 200
    assert env.unwrapped.goal_velocity == 0.05


def test_listing_imports_neither_tensorflow_nor_gymnasium() -> None:
    code = (
        "import sys, rl.envs, rl.envs.make; from rl.envs.registry import registry\n"
        "for entry in registry.entries(): print(entry.name, entry.description)\n"
        "assert not {'tensorflow', 'gymnasium', 'envpool'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert "CartPole-v1 Balance a pole on a cart: 4 numbers, 2 actions, reward 1 a step, 500 steps." in lines
    assert all(len(line.split()) > 5 and line.endswith(".") for line in lines)
