"""Mistakes about environments are told before TensorFlow is imported."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from gymnasium import spaces

from rl.agents.algos.registry import action_spaces_of, get_algo, registry
from rl.envs import make
from rl.envs.checks import check_environment
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.spaces import check_action_space

MISTAKES = [
    (["--env", "CartPol-v1"], "unknown environment 'CartPol-v1': did you mean CartPole-v1"),
    (["--env", "PongNoFrameskip-v4"], "unknown environment 'PongNoFrameskip-v4': did you mean Pong-v5?"),
    (["--env", "LunarLander-v3", "--hparam_override", "env_backend=graph"], "is not in backend graph"),
    (["--env", "FrozenLake-v1", "--hparam_override", "env_kwargs={wid:1}"], "Gymnasium cannot make Frozen"),
    (["--env", "Pendulum-v1"], "dqn acts in Discrete action spaces, Pendulum-v1 has Box(-2.0, 2.0"),
    (["--env", "CartPole-v1", "--hparams", "sac"], "sac acts in Box action spaces, CartPole-v1 has Discrete"),
    (["--env", "coinrun", "--hparams", "td3"], "td3 acts in Box action spaces, coinrun has Discrete(15)"),
    (["--env", "nowhere:CartPole-v1"], "environment nowhere:CartPole-v1: cannot import nowhere"),
]
# No TensorFlow: whatever imports it fails.
PROGRAM = """
import contextlib, io, json, sys
sys.modules["tensorflow"] = None
from rl.agents.algos.registry import action_spaces_of, registry
from rl.cli import main
told = []
for flags in json.loads(sys.argv[1]):
    with contextlib.redirect_stderr(io.StringIO()) as stderr:
        told.append([main(["--hparams", "dqn", *flags]), stderr.getvalue()])
spaces = {name: [kind.__name__ for kind in action_spaces_of(name)] for name in registry.names()}
print(json.dumps([told, spaces]))
"""


@pytest.fixture(scope="module")
def without_tensorflow(tmp_path_factory):
    """Exit code and words for each of the mistakes; each algorithm's kinds of action space."""
    command = [sys.executable, "-c", PROGRAM, json.dumps([flags for flags, _ in MISTAKES])]
    here = tmp_path_factory.mktemp("empty")
    path = {"PYTHONPATH": str(Path(__file__).resolve().parents[2])}
    done = subprocess.run(command, cwd=here, capture_output=True, text=True, timeout=120, env=path)
    assert done.returncode == 0, done.stderr
    assert not list(here.iterdir()), "nothing may be written"
    return json.loads(done.stdout)


@pytest.mark.parametrize("i", range(len(MISTAKES)), ids=[message for _, message in MISTAKES])
def test_a_mistake_about_the_environment_is_told_without_tensorflow(without_tensorflow, i):
    code, text = without_tensorflow[0][i]
    assert code == 2 and text.startswith("error: ") and text.count("\n") == 1
    assert MISTAKES[i][1] in text


def test_action_spaces_read_from_files_are_those_of_the_classes(without_tensorflow):
    classes = {name: [kind.__name__ for kind in get_algo(name).action_spaces] for name in registry.names()}
    assert without_tensorflow[1] == classes


@pytest.mark.parametrize(
    ("name", "env_id", "options"),
    [
        ("ppo", "Pendulum-v1", {}),
        ("dqn", "CartPoleNoVel-v1", {}),
        ("ppo", "MountainCar-v0", {"env_kwargs": {"goal_velocity": 0.05}}),
        ("dqn", "Pong-ram-v5", {}),
        ("ppo", "rl.envs.catch_gym:Catch-v0", {"num_envs": 2}),
    ],
)
def test_what_fits_is_let_through(name, env_id, options):
    check_environment(resolve(name, {"env": env_id, **options}))


@pytest.mark.parametrize("shape", [(0,), (2, 0)])
def test_actions_without_anything_to_choose_are_refused(shape):
    hparams = resolve("ppo", {"env": "Pendulum-v1"})
    for space in (spaces.Box(-1.0, 1.0, shape), spaces.MultiDiscrete(np.zeros(shape, np.int64))):
        with pytest.raises(UsageError, match="of Pendulum-v1: there is nothing to choose in them"):
            check_action_space(hparams, action_spaces_of("ppo"), space)


def test_in_graph_options_are_left_to_what_knows_the_nearest():
    check_environment(resolve("ppo", {"env": "MountainCar-v0", "env_kwargs": {"goal_speed": 1}}))


def test_workers_need_an_environment_of_the_host(monkeypatch):
    for backend in ("envpool", "gym"):
        monkeypatch.setitem(make._HAS, backend, lambda env_id: False)
    hparams = resolve("ppo", {"env": "Catch-v0"})
    with pytest.raises(UsageError, match=r"exists in-graph alone: .* once gymnasium\.register has it"):
        check_environment(hparams, workers=True)
    check_environment(hparams)
