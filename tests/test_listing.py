"""Lists of names, as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec

from rl.agents.algos.act_select.registry import registry as act_selects
from rl.cli import main
from rl.hparams.merge import resolve
from rl.listing import callers_modules
from rl.models.registry import registry as models
from rl.registry import Entry

ROOT = Path(__file__).resolve().parents[1]


def test_a_list_that_a_full_disk_does_not_take_is_one_line():
    with open("/dev/full", "w") as full:
        command = [sys.executable, str(ROOT / "train.py"), "--list", "algos"]
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (75, "error: cannot write the list: No space left on device\n")


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("answered(lambda: print('a line') or 0)", 1),
        ("answered(lambda: print('a line', flush=True) or 0)", 1),
        ("main(['--list', 'hparams'])", 0),
    ],
)
def test_what_is_read_no_more_ends_without_a_word(program, code):
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", f"import sys; from rl.cli import answered, main; sys.exit({program})"]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, text=True, timeout=120, cwd=ROOT)
    os.close(write)
    assert (done.returncode, done.stderr) == (code, "")


def test_list_of_one_registry_has_names_and_descriptions(capsys):
    assert main(["--list", "hparams"]) == 0
    lines = dict(line.split("  ", 1) for line in capsys.readouterr().out.splitlines())
    assert "CartPole-v1" in lines["dqn_cartpole"]
    assert list(lines) == sorted(lines)


def test_list_of_a_set_tells_every_value_and_its_meaning(capsys):
    assert main(["--list", "hparams", "ppo_cartpole"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["name", "value", "default", "takes", "meaning"]
    rows = {line.split()[0]: re.split(r"  +", line) for line in lines[1:]}
    assert rows["gamma"][1:4] == ["0.98", "0.99", "a number >= 0 and <= 1"]
    assert rows["model.hidden"][1] == "[64,64]"
    assert all(len(row) == 5 and row[4] for row in rows.values()), "a comment in rl/hparams is missing"


def test_what_a_caller_has_registered_is_found_by_the_names_in_hparams(monkeypatch):
    for registry, name, module in ((models, "mine", "my.nets"), (act_selects, "my_select", "my_select")):
        entry = Entry(name, "", module, name, f"{module}.py")
        monkeypatch.setitem(registry._entries(), name, entry)
    for name, made_by in (("Mine-v0", "my_envs:Mine"), ("Yours-v0", pytest.Item)):
        monkeypatch.setitem(gymnasium.registry, name, EnvSpec(name, made_by))
    assert callers_modules(resolve("dqn_cartpole")) == ()
    found = resolve("dqn", {"env": "Mine-v0", "model.name": "mine", "act_select": "my_select"})
    assert callers_modules(found) == ("my.nets", "my_select", "my_envs")
    assert callers_modules(resolve("dqn", {"env": "Yours-v0"})) == ("_pytest.nodes",)
