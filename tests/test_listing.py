"""Lists of names, as they are printed."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from rl.cli import main

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
