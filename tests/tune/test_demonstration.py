"""A whole search: a PPO that cannot learn is brought to solve CartPole; killed half-way, it goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import optuna
import pytest
from optuna.trial import TrialState

from rl.hparams.merge import resolve

ROOT = Path(__file__).resolve().parents[2]
DETUNED = (
    'base = "ppo_cartpole"\nlr = 1e-6\ngamma = 0.5\nepochs = 1\nclip_range = 0.01\ntrain_steps = 60_000\n'
)
SPACE = "lr=log:1e-5:1e-2,gamma=[0.5,0.9,0.98],epochs=1:8,clip_range=0.01:0.4"
TRIALS = 12


@pytest.mark.slow  # some minutes
def test_a_detuned_ppo_is_brought_to_solve_cartpole_and_goes_on_after_a_kill(tmp_path, capsys):
    (tmp_path / "detuned.toml").write_text(DETUNED)
    words = [sys.executable, "-m", "rl.tune", "detuned.toml", "--only", "--space", SPACE]
    words += ["--trials", str(TRIALS), "--parallel", "2", "--seeds", "0-1", "--output_dir", "search"]
    options = dict(cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, text=True)
    first = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options)
    said = []
    while sum(line.startswith("trial ") for line in said) < TRIALS // 2:
        said.append(first.stdout.readline())
        assert said[-1], "".join(said)
    first.send_signal(signal.SIGKILL)
    first.wait()
    time.sleep(1.0)
    study = f"sqlite:///{tmp_path / 'search' / 'study.db'}"
    before = optuna.load_study(storage=study, study_name="search").get_trials(states=(TrialState.COMPLETE,))
    again = subprocess.run(words, capture_output=True, timeout=3_000, **options)
    with capsys.disabled():
        print("".join(said), again.stdout, again.stderr, sep="\n")
    assert again.returncode == 0, again.stderr
    after = optuna.load_study(storage=study, study_name="search").trials
    assert len(after) == TRIALS and all(trial.state.is_finished() for trial in after)
    for trial in before:  # none was repeated
        assert after[trial.number].value == trial.value
        assert f"trial {trial.number}: " not in again.stdout
    rows = [line for line in again.stdout.splitlines() if line.startswith("| `")]
    detuned, found = (float(row.split("|")[2].split()[0]) for row in rows)
    assert detuned < 100.0 and found >= 475.0
    assert resolve(str(tmp_path / "search" / "winner.toml")).lr > 1e-5
