"""What a caller brings: functions that make environments, wrappers by name; text in observations."""

from __future__ import annotations

import contextlib
import json
import sys
from functools import partial
from typing import ClassVar

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from pages import steps

import rl
from rl.cli import _default_output, main, parse
from rl.envs import make_env, make_gym_env, own
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.runners.build import build_runner

TINY = {
    "num_envs": 2,
    "rollout_length": 8,
    "minibatches": 1,
    "epochs": 1,
    "log_period": 16,
    "train_steps": 16,
    "compile": "eager",
    "model": {"hidden": (4,)},
}


class Words(spaces.Space):
    """Text of a kind of its own, as MiniGrid's missions are."""

    def __init__(self):
        super().__init__(dtype=str)

    def sample(self, mask=None, probability=None):
        return "go to the goal"

    def contains(self, x):
        return isinstance(x, str)


class Corridor(gymnasium.Env):
    """Three steps to the right end, with a mission."""

    metadata: ClassVar = {"render_modes": ["rgb_array"]}
    action_space = spaces.Discrete(2)
    observation_space = spaces.Dict(
        {
            "place": spaces.Box(0.0, 1.0, (2,), np.float32),
            "mission": Words(),
            "more": spaces.Dict({"note": spaces.Text(9), "door": spaces.Discrete(2)}),
        }
    )

    def __init__(self, render_mode=None, length=3):
        self.render_mode, self.length = render_mode, length

    def reset(self, *, seed=None, options=None):
        self.place = 0
        return self._seen(), {}

    def step(self, action):
        self.place += 1
        return self._seen(), 1.0, self.place == self.length, False, {}

    def render(self):
        return np.zeros((16, 16, 3), np.uint8)

    def _seen(self):
        place = np.full(2, self.place / self.length, np.float32)
        return {"place": place, "mission": "go", "more": {"note": "", "door": 1}}


class Maker:
    """Makes corridors of a length, by a method and by being called."""

    def __init__(self, length):
        self.length = length

    def make(self):
        return Corridor(length=self.length)

    __call__ = make

    @staticmethod
    def of_three():
        return Corridor()


class PlaceAlone(gymnasium.wrappers.FilterObservation):
    """What a user writes to give a wrapper its arguments."""

    def __init__(self, env):
        super().__init__(env, ["place"])


class Doubled(gymnasium.RewardWrapper):
    """Twice the reward."""

    def reward(self, reward):
        return 2.0 * reward


class Failing(gymnasium.Wrapper):
    """Looks for what is not there."""

    def __init__(self, env):
        raise KeyError("level")


PLACE, DOUBLED = f"{__name__}:PlaceAlone", f"{__name__}:Doubled"
FLAT = "gymnasium.wrappers:FlattenObservation"


ONE = Corridor()


def make_corridor():
    return Corridor()


@pytest.fixture(autouse=True)
def corridor():
    gymnasium.register("Corridor-v0", entry_point=Corridor, max_episode_steps=10)
    given = dict(own._GIVEN)
    yield
    del gymnasium.registry["Corridor-v0"]
    own._GIVEN.clear()
    own._GIVEN.update(given)
    own._SHARED.clear()


# -- text


def test_parts_that_are_text_are_left_out_and_told_once(tmp_path, caplog):
    env = make_gym_env("Corridor-v0")
    assert sorted(env.observation_space.spaces) == ["more", "place"]
    assert list(env.observation_space["more"].spaces) == ["door"]
    assert env.observation_space.contains(env.reset(seed=0)[0])
    policy = rl.train("ppo", env="Corridor-v0", output_dir=tmp_path, eval_episodes=2, **TINY).policy()
    told = [each.getMessage() for each in caplog.records if "is text" in each.getMessage()]
    assert (
        len(told) == 1
        and "Corridor-v0: mission, more.note of its observations is text and left out" in told[0]
    )
    assert policy.evaluate(2).returns.tolist() == [3.0, 3.0]
    assert policy(gymnasium.make("Corridor-v0", disable_env_checker=True).reset()[0]) in (0, 1)


def test_observations_of_text_alone_are_refused_in_one_line():
    class Silent(Corridor):
        observation_space = spaces.Dict({"mission": Words()})

    with pytest.raises(UsageError, match=r"spaces of type Words are not supported.*env_wrappers"):
        make_env(own.give_env(Silent), "auto", 1)


# -- wrappers


def test_wrappers_are_put_around_training_and_evaluation_in_their_order(tmp_path):
    options = {"env_wrappers": (PLACE, FLAT, DOUBLED), "output_dir": tmp_path, "eval_episodes": 2}
    run = rl.train("ppo", env="Corridor-v0", **options, **TINY)
    saved = json.loads((run.run_dir / "hparams.json").read_text())
    assert saved["hparams"]["env_wrappers"] == [PLACE, FLAT, DOUBLED]
    policy = rl.load(tmp_path)
    assert policy.agent.observation_space.shape == (2,)
    assert policy.evaluate(2).returns.tolist() == [6.0, 6.0]
    row = dict(
        zip(*[line.split(",") for line in (run.run_dir / "metrics.csv").read_text().split()], strict=True)
    )
    assert (row["episode/return_mean"], row["eval/return_mean"]) == ("6.0", "6.0")
    with pytest.raises(UsageError, match=r"env_wrappers is .* there"):
        rl.train("ppo", env="Corridor-v0", output_dir=tmp_path, **TINY)


def test_with_wrappers_the_environment_is_gymnasiums():
    hparams = resolve("ppo", {"env": "CartPole-v1", "env_wrappers": (DOUBLED,), **TINY})
    runner = build_runner(hparams, 0)
    runner.close()
    assert runner.backend == "gym"


def test_wrappers_are_in_the_name_of_a_runs_default_folder():
    words = ["--hparams", "ppo", "--env", "Maze-v0", "--hparam_override", "lr=0.1"]
    folders = [_default_output(parse([*words, *more])) for more in ([], ["--env_wrappers", f"{FLAT},a:B"])]
    assert [folder.rpartition("/")[2] for folder in folders] == [
        "ppo-Maze-v0-lr=0.1",
        "ppo-Maze-v0-gymnasium.wrappers_FlattenObservation,a_B,lr=0.1",
    ]


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"env_wrappers": ("gymnasium.wrappers:Flatten",)}, "there is no gymnasium.wrappers:Flatten"),
        ({"env_wrappers": (FLAT[:-1],)}, f"did you mean {FLAT}"),
        ({"env_wrappers": ("no_such_module:Wrapper",)}, "cannot find no_such_module:Wrapper: No module"),
        ({"env_wrappers": ("gymnasium.wrappers:FilterObservation",)}, "derive a class that gives them"),
        (
            {"env": "Corridor-v0", "env_wrappers": (FLAT,)},
            "NotImplementedError (rl.envs.own:WithoutText before it leaves text out)",
        ),
        ({"env_wrappers": (f"{__name__}:Failing",)}, "KeyError: 'level' ("),
        ({"env_wrappers": ("subprocess:run",)}, "subprocess:run is no class derived from gymnasium.Wrapper"),
        ({"env_wrappers": ("Flatten",)}, "needs module:Wrapper, such as gymnasium.wrappers:FlattenObs"),
        ({"env_wrappers": (DOUBLED,), "env_backend": "graph"}, "take env_backend gym"),
        ({"env_wrappers": (DOUBLED,), "env": "Pong-v5"}, "Gymnasium has no environment Pong-v5"),
    ],
)
def test_wrong_wrappers_are_one_line_and_write_nothing(tmp_path, values, message):
    with pytest.raises(UsageError) as error:
        rl.train("ppo", output_dir=tmp_path / "out", **{"env": "CartPole-v1", **TINY, **values})
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


# -- functions that make environments


@pytest.mark.parametrize("env", [lambda: Corridor(), partial(Corridor, length=5), Maker(5).make, Maker(5)])
def test_functions_without_a_name_share_no_default_folder(tmp_path, monkeypatch, env):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="name an output_dir, functions without a name share a default"):
        rl.train("ppo", env=env, **TINY)
    assert not list(tmp_path.iterdir())


def test_what_python_finds_by_its_name_has_one():
    for each in (make_corridor, Corridor, Maker.of_three):
        assert not own.nameless(own.give_env(each))
    assert not own.nameless("CartPole-v1")


def test_a_name_that_several_functions_have_stands_for_the_own_one(monkeypatch):
    monkeypatch.setattr(own, "_GIVEN", {})
    monkeypatch.setattr(own, "_SHARED", set())
    name = own.give_env(partial(Corridor, length=5))
    five = own.given_function(name)
    own.check_trusted("a run", name, ())
    assert own.give_env(partial(Corridor, length=7)) == name
    with own.as_given(name, five), contextlib.closing(make_gym_env(name)) as env:
        assert env.unwrapped.length == 5
    with contextlib.closing(make_gym_env(name)) as env:
        assert env.unwrapped.length == 7
    with pytest.raises(UsageError, match="by which several functions were given here"):
        own.check_trusted("a run", name, ())
    own.check_trusted("a run", None, ())  # the caller says which


@pytest.mark.slow
def test_a_lambda_trains_and_its_run_is_loaded_with_it_again(tmp_path):
    make = lambda: Corridor(length=5)  # noqa: E731
    run = rl.train("ppo", env=make, output_dir=tmp_path, eval_episodes=2, **TINY)
    saved = json.loads((run.run_dir / "hparams.json").read_text())["hparams"]["env"]
    assert saved.startswith(f"{__name__}:") and saved.endswith("<lambda>")
    policy = run.policy()
    assert policy.evaluate(2).returns.tolist() == [5.0, 5.0]
    own.give_env(lambda: Corridor(length=7))  # has the same name
    assert policy.evaluate(2).returns.tolist() == run.policy().evaluate(2).returns.tolist() == [5.0, 5.0]
    own._GIVEN.clear()  # as in another process
    own._SHARED.clear()
    with pytest.raises(UsageError, match="which cannot be imported: give it again as env="):
        rl.load(tmp_path)
    assert rl.load(tmp_path, env=make).evaluate(2).returns.tolist() == [5.0, 5.0]

    # A function of a module has a name, but what a saved run names is not called.
    path = run.run_dir / "hparams.json"
    path.write_text(path.read_text().replace(saved, f"{__name__}:make_corridor"))
    with pytest.raises(UsageError, match="a function: runs may name none to call, give it as env="):
        rl.load(tmp_path)
    assert rl.load(tmp_path, env=make_corridor).evaluate(2).returns.tolist() == [3.0, 3.0]

    # A class of an imported module is found by its name.
    path.write_text(path.read_text().replace("make_corridor", "Corridor"))
    assert rl.load(tmp_path).evaluate(2).returns.tolist() == [3.0, 3.0]
    assert rl.load(tmp_path, env="Corridor-v0").evaluate(2).returns.tolist() == [3.0, 3.0]


def test_the_documented_example_trains(tmp_path, monkeypatch, capsys):
    page = steps("docs/environments.md")
    (tmp_path / "my_maze.py").write_text(next(step.text for step in page if step.name == "my_maze.py"))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    (command,) = [step for step in page if "my_maze:Doubled" in step.text]
    tiny = "compile=eager,num_envs=2,rollout_length=8,minibatches=1"
    words = [*command.words[2:], "--hparam_override", tiny, "--train_steps", "16", "--output_dir", "out"]
    words += ["--test_episodes", "1", "--eval_episodes", "1"]
    assert main(words) == 0, capsys.readouterr().err
    saved = json.loads((tmp_path / "out/run_0/hparams.json").read_text())["hparams"]
    assert (saved["env"], saved["env_wrappers"]) == ("my_maze:long_maze", ["my_maze:Doubled"])
    del gymnasium.registry["Maze-v0"], sys.modules["my_maze"]


@pytest.mark.parametrize(
    ("env", "message"),
    [
        (lambda: 3, "returned int, no Gymnasium environment"),
        (Corridor(), "give a function that makes one"),
        (lambda: ONE, "was returned twice: make a new one in each call"),
        (f"{__name__}:no_corridor", "unknown environment"),
    ],
)
def test_what_makes_no_environments_is_refused_in_one_line(tmp_path, env, message):
    with pytest.raises(UsageError) as error:
        rl.train("ppo", env=env, output_dir=tmp_path / "out", **TINY)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_a_function_without_render_mode_is_not_filmed(tmp_path):
    with pytest.raises(
        UsageError, match="make_corridor has no parameter 'render_mode', which it needs to be drawn"
    ):
        rl.train("ppo", env=make_corridor, output_dir=tmp_path / "out", record_video=True, **TINY)


def test_workers_get_what_they_can_import(tmp_path):
    with pytest.raises(
        UsageError, match=r"workers cannot import .*<lambda>: define it in a module of its own"
    ):
        rl.train("ppo", env=lambda: Corridor(), output_dir=tmp_path / "out", num_workers=1, **TINY)
    own.check_importable(own.give_env(make_corridor))
    own.check_importable("CartPole-v1")


@pytest.mark.parametrize(
    ("values", "message"),
    [
        (
            {"env": "subprocess:run", "env_kwargs": {"args": ["touch", "TOUCHED"]}},
            "a function: runs may name",
        ),
        (
            {"env": "subprocess:Popen", "env_kwargs": {"args": ["touch", "TOUCHED"]}},
            "a function: runs may name",
        ),
        (
            {"env": "rl.cli:main", "env_kwargs": {"argv": ["--user_modules", "strangers_wrapper"]}},
            "a function",
        ),
        (
            {
                "env": "rl.envs.apart:ApartEnv",
                "env_kwargs": {"env_id": "strangers_wrapper:X-v0", "kwargs": {}},
            },
            "a function",
        ),
        (
            {"env_wrappers": ["strangers_wrapper:W"]},
            r"import strangers_wrapper first .* if you trust that run",
        ),
        ({"env_wrappers": ["subprocess:Popen"]}, "is no class derived from gymnasium.Wrapper"),
    ],
)
def test_a_strangers_run_calls_nothing_and_imports_nothing(tmp_path, monkeypatch, values, message, capsys):
    (tmp_path / "strangers_wrapper.py").write_text("raise SystemExit('it was run')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.chdir(tmp_path)
    hparams = resolve("ppo_identity", "").to_dict() | values
    (tmp_path / "run_0").mkdir()
    saved = {"name": "ppo_identity", "seed": 0, "hparams": hparams}
    (tmp_path / "run_0/hparams.json").write_text(json.dumps(saved))
    with pytest.raises(UsageError, match=message):
        rl.load(tmp_path)
    words = ["--hparams", "ppo_identity", "--output_dir", str(tmp_path), "--test_only"]
    assert main(words) == 2
    assert "Traceback" not in capsys.readouterr().err
    assert "strangers_wrapper" not in sys.modules and not (tmp_path / "TOUCHED").exists()


def test_a_name_of_a_module_is_answered_with_names_of_that_module(tmp_path, monkeypatch):
    (tmp_path / "mazes_of_a_test.py").write_text(
        "import gymnasium\n"
        "class Maze(gymnasium.Env): pass\n"
        "class Doubled(gymnasium.Wrapper): pass\n"
        "gymnasium.register('LongMaze-v0', entry_point=Maze)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    for name, near in {"Mazee": "mazes_of_a_test:Maze", "LongMaze-v1": "mazes_of_a_test:LongMaze-v0"}.items():
        with pytest.raises(UsageError, match=f"did you mean {near}"):
            make_env(f"mazes_of_a_test:{name}", "auto", 1)
    with pytest.raises(UsageError, match="did you mean mazes_of_a_test:Doubled"):
        own.wrapper("mazes_of_a_test:Doubledd")
    gymnasium.registry.pop("LongMaze-v0")
