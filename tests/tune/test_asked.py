"""What a search keeps and prints at its end: it must say all that its trials were trained with."""

from __future__ import annotations

import shlex
import sys
import types

import pytest

import rl
from rl.cli import checked, parse
from rl.hparams.merge import difference, resolve
from rl.tune import __main__ as tune
from rl.tune import generation, judge, population, search

MODULE = """
import gymnasium
from gymnasium.envs.classic_control import CartPoleEnv

class Doubled(gymnasium.RewardWrapper):
    def reward(self, reward):
        return 2.0 * reward

class Cart(CartPoleEnv):
    pass

def made(render_mode=None, **options):
    return gymnasium.make("CartPole-v1", render_mode=render_mode, **options)
"""
PERIODS = {"eval_period", "log_period"}


class Written:
    """A process that has trained its runs, of one evaluation each; of later trials they came to more."""

    started: list[list[str]]

    def __init__(self, command, cores, program=""):
        self.started.append(list(command.words))
        value = int(command.folder.name[-1])
        for copy in range(2):
            folder = command.folder / f"run_{copy}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "metrics.csv").write_text(f"step,eval/return_mean\n1000000000,{value}.0\n")

    def poll(self):
        return 0


@pytest.fixture
def started(tmp_path, monkeypatch):
    """The flags of each process; the user's module is in the current folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "searchers_own.py").write_text(MODULE)
    kind = type("Kind", (Written,), {"started": []})
    monkeypatch.setattr("rl.tune.machines.TrainProcess", kind)
    monkeypatch.setattr(population.Population, "_evaluations", lambda *_: [(10**9, 1.0)])
    for module in (search, judge, population):
        monkeypatch.setattr(module, "POLL", 0.0)
    yield kind.started
    sys.modules.pop("searchers_own", None)


def last_line(capsys, *words):
    """Searches, or breeds, and returns the words of the command that is printed at the end."""
    assert tune.main([*words, "--output_dir", "a search"]) == 0
    return shlex.split(capsys.readouterr().out.splitlines()[-1])


TWO_TRIALS = (
    "--trials",
    "2",
    "--seeds",
    "0-1",
    "--judge_seeds",
    "100-101",
    "--only",
    "--space",
    "lr=1e-4:1e-2",
)


def test_the_winner_has_the_environment_that_its_trial_was_trained_on(started, capsys):
    options = "max_episode_steps=50,env_kwargs={sutton_barto_reward:true}"
    words = ["ppo_cartpole", "--env_wrappers", "searchers_own:Doubled", "--hparam_override", options]
    last_line(capsys, *words, *TWO_TRIALS)
    winner, trial = resolve("a search/winner.toml"), checked(parse(started[1]))
    assert winner.env_wrappers == ("searchers_own:Doubled",) and winner.max_episode_steps == 50
    assert winner.lr != resolve("ppo_cartpole").lr and difference(winner, trial).keys() <= PERIODS


@pytest.mark.parametrize("wrappers", ["searchers_own:Doubled", ""])
def test_flags_go_before_what_a_file_says(started, capsys, tmp_path, wrappers):
    said = (
        'env = "Acrobot-v1"\ntrain_steps = 9_000\nenv_wrappers = ["gymnasium.wrappers:FlattenObservation"]\n'
    )
    (tmp_path / "mine.toml").write_text(f'base = "ppo_cartpole"\n{said}')
    flags = ("--env", "CartPole-v1", "--train_steps", "5000", "--env_wrappers", wrappers)
    last_line(capsys, "mine.toml", *flags, *TWO_TRIALS)
    for hparams in (*(checked(parse(words)) for words in started), resolve("a search/winner.toml")):
        assert (hparams.env, hparams.train_steps) == ("CartPole-v1", 5_000)
        assert hparams.env_wrappers == ((wrappers,) if wrappers else ())


def test_the_winners_command_has_what_a_file_cannot_say(started, capsys):
    flags = ("--user_modules", "searchers_own", "--num_workers", "2")
    line = last_line(capsys, "ppo_cartpole", *flags, *TWO_TRIALS)
    assert line == ["python", "train.py", "--hparams", "a search/winner.toml", *flags]


OF_MEMBER = ("python", "train.py", "--output_dir", "a search/member_00/run_0", "--training", "False")
OWN = ("--user_modules", "searchers_own")
MADE = ("--hparams", "ppo_cartpole", "--env", "searchers_own:made")


@pytest.mark.parametrize(
    ("flags", "added"),
    [
        ((), ()),
        (OWN, OWN),
        (("--env", "searchers_own:Cart", "--hparam_override", "max_episode_steps=9"), OWN),
        (("--env_wrappers", "gymnasium.wrappers:FlattenObservation,searchers_own:Doubled"), OWN),
        (("--env", "searchers_own:made", *OWN), (*MADE, *OWN)),  # no saved run may name a function to call
    ],
)
def test_a_members_command_imports_what_its_run_names(started, capsys, flags, added):
    line = last_line(capsys, "ppo_cartpole", "--population", "2", *flags)
    assert line == [*OF_MEMBER, *added]


def test_a_member_is_of_the_set_that_it_was_asked_for(monkeypatch, tmp_path):
    requests = []

    def trained(request, storage, stop):
        requests.append(request)
        return types.SimpleNamespace(run_dir=tmp_path, step=1, best_return=None, exit_code=0)

    assert callable(rl.train)
    monkeypatch.setattr("rl.api.train_one", trained)
    words = ["--hparams", "ppo_cartpole", "--train_steps", "5000", "--env_wrappers", ""]
    words += ["--hparam_override", "lr=0.5,model.hidden=[8]", "--seed", "3", "--output_dir", str(tmp_path)]
    assert generation.main(words) == 0
    (request,) = requests
    call = f"rl.train('ppo_cartpole', output_dir='{tmp_path}', seed=3, lr=0.5, train_steps=5000, "
    call += "env_wrappers=(), "
    assert request.name == "ppo_cartpole" and request.command == call + "**{'model.hidden': [8]})"
    assert request.hparams == checked(parse(words)) and request.hparams.model.hidden == (8,)
