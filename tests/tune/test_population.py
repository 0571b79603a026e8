"""Population-based training: who goes on as whose copy, and that it goes on after any interruption."""

from __future__ import annotations

import errno
import json
import math
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from stop_after import StopAfter

from rl.errors import Unavailable, UsageError
from rl.hparams.ppo import ppo_cartpole
from rl.hparams.spaces import space_of
from rl.storage import files
from rl.tune import __main__ as tune
from rl.tune import population
from rl.tune.population import Plan, Population, chosen_moves, numbers
from rl.tune.runs import Command

ROOT = Path(__file__).parents[2]
PERIOD, GENERATIONS, SIZE = 1000, 4, 5


@pytest.fixture(autouse=True)
def at_once(monkeypatch):
    monkeypatch.setattr(population, "POLL", 0.0)
    monkeypatch.setattr(population, "CheckpointManager", Saved)


class Saved:
    """Of a run whose checkpoint is a file with its step."""

    def __init__(self, folder):
        self.file = folder / "step"

    def latest_step(self):
        return int(self.file.read_text()) if self.file.exists() else None


class Fake:
    """A run that makes a generation in two looks; its return grows by more the nearer its lr is to 1e-3."""

    def __init__(self, command, cores):
        self.command, self.looks, self.asked = command, 0, False

    def poll(self):
        self.looks += 1
        if self.asked or self.looks < 2:
            return 143 if self.asked else None
        values = dict(word.split("=") for word in self.command.words)
        run = self.command.folder / "run_0"
        (run / "checkpoints").mkdir(parents=True, exist_ok=True)
        hparams = ppo_cartpole(eval_period=PERIOD, train_steps=GENERATIONS * PERIOD, lr=float(values["lr"]))
        there = run / "hparams.json"
        if there.exists():  # as train.py, which refuses another run's folder
            assert json.loads(there.read_text())["hparams"]["lr"] == hparams.lr
        there.write_text(json.dumps({"name": "ppo_cartpole", "seed": 0, "hparams": hparams.to_dict()}))
        file = run / "metrics.csv"
        lines = file.read_text().splitlines() if file.exists() else ["step,eval/return_mean", "0,0.0"]
        step, last = (float(each) for each in lines[-1].split(","))
        if float(values["lr"]) > 5e-3:
            return 3
        gain = 10.0 / (1.0 + abs(math.log10(float(values["lr"])) + 3.0))
        lines.append(f"{int(step) + PERIOD},{last + gain!r}")
        file.write_text(
            "\n".join(lines[:1] + [each for each in lines[1:] if not each.startswith("0,")]) + "\n"
        )
        (run / "checkpoints" / "step").write_text(str(int(step) + PERIOD))
        return 0

    def stop(self):
        self.asked = True


def plan_in(folder, space="lr=log:1e-5:4e-3", seed=0):
    hparams = ppo_cartpole(eval_period=PERIOD, train_steps=GENERATIONS * PERIOD).freeze()
    found = {name: each for name, each in space_of(hparams, space).items() if name == "lr"}
    return Plan(hparams, found, SIZE, seed, lambda i, values: Command(words(values), folder / f"member_{i}"))


def words(values):
    return tuple(f"{name}={text}" for name, text in values.items())


def trained(folder, looks=10**9, start=Fake, **options):
    folder.mkdir(exist_ok=True)
    made = Population(plan_in(folder, **options), folder, [[], []], start, lambda line: None)
    made.run(StopAfter(looks))
    return made


def test_the_worst_go_on_as_copies_of_the_best_with_other_values(tmp_path):
    made = trained(tmp_path / "population")
    assert made.complete and len(made.history) == GENERATIONS
    assert made.history[0]["values"][0] == {"lr": str(ppo_cartpole().lr)}  # the set's own
    for before, after in zip(made.history, made.history[1:], strict=False):
        scores, parents = before["scores"], before["parents"]
        (moved,) = [i for i in range(SIZE) if parents[i] != i]
        assert scores[moved] == min(scores) and scores[parents[moved]] == max(scores)
        ratio = float(after["values"][moved]["lr"]) / float(before["values"][parents[moved]]["lr"])
        assert ratio == pytest.approx(0.8, rel=1e-3) or ratio == pytest.approx(1.2, rel=1e-3)
        assert after["scores"][moved] > max(scores)  # it has what its parent had learned
    assert made.history[-1]["parents"] == list(range(SIZE))  # nothing is thrown away at the end
    table = made.lines()
    assert len(table) == 2 + GENERATIONS and table[-1].startswith(f"| {GENERATIONS - 1} | 4,000 | ")


def test_it_goes_on_after_any_interruption_as_if_there_had_been_none(tmp_path):
    whole = trained(tmp_path / "whole").history
    for looks in (1, 3, 8, 17):
        folder = tmp_path / f"looks_{looks}"
        parts = trained(folder, looks)
        assert not parts.complete
        while not parts.complete:
            parts = trained(folder, looks + 9)
        assert parts.history == whole


def test_moves_that_were_interrupted_are_made_again(tmp_path, monkeypatch):
    whole = trained(tmp_path / "whole").history
    monkeypatch.setattr(Population, "_copy", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        trained(tmp_path / "parts")
    monkeypatch.undo()
    monkeypatch.setattr(population, "POLL", 0.0)
    monkeypatch.setattr(population, "CheckpointManager", Saved)
    assert trained(tmp_path / "parts").history == whole


def test_members_that_fail_are_replaced(tmp_path, monkeypatch):
    made = trained(tmp_path / "population", space="lr=log:1e-4:1.0", seed=1)
    first = made.history[0]
    failed = [i for i, score in enumerate(first["scores"]) if score == population.FAILED]
    assert failed and all(first["parents"][i] not in failed for i in failed)
    monkeypatch.setattr(Fake, "poll", lambda self: 3)
    with pytest.raises(UsageError, match="all members failed"):
        trained(tmp_path / "another")
    file = tmp_path / "population" / "population.json"
    found = json.loads(file.read_text())
    lacking = [json.dumps({key: each for key, each in found.items() if key != lack}) for lack in found]
    for text in ("{", "[" * 200_000, json.dumps(found | {"history": [3]}), *lacking):
        file.write_text(text)
        with pytest.raises(UsageError, match=r"population\.json cannot be read"):
            trained(tmp_path / "population")


def test_a_member_is_copied_whole_and_a_full_disk_is_said(tmp_path, monkeypatch):
    (tmp_path / "from" / "deep").mkdir(parents=True)
    (tmp_path / "from" / "deep" / "file").write_text("kept")
    (tmp_path / "to").mkdir()
    (tmp_path / "to" / "old").write_text("gone")
    population.copied(tmp_path / "from", tmp_path / "to")
    assert [str(each.relative_to(tmp_path / "to")) for each in sorted((tmp_path / "to").rglob("*"))] == [
        "deep",
        "deep/file",
    ]

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(population.shutil, "copy2", full)
    monkeypatch.setattr(files, "PAUSES", ())
    with pytest.raises(Unavailable, match=r"cannot copy .*: No space left on device"):
        trained(tmp_path / "population")


def test_a_member_that_is_lost_behind_its_evaluation_makes_no_further_steps(tmp_path):
    class Lost(Fake):
        """A run whose process ends by a signal once all is saved, as TensorFlow's may when it leaves."""

        def poll(self):
            return -11 if super().poll() == 0 else None

    whole = trained(tmp_path / "whole").history
    assert trained(tmp_path / "lost", looks=500, start=Lost).history == whole
    for i in range(SIZE):
        ended = (tmp_path / "lost" / f"member_{i}" / "run_0" / "metrics.csv").read_text()
        assert ended == (tmp_path / "whole" / f"member_{i}" / "run_0" / "metrics.csv").read_text()


def test_a_member_whose_return_is_not_finite_is_replaced(tmp_path):
    class Infinite(Fake):
        """A run whose evaluations of member 2 come to -inf before it is replaced."""

        def poll(self):
            code, run = super().poll(), self.command.folder / "run_0"
            if code == 0 and self.command.folder.name == "member_2":
                text = (run / "metrics.csv").read_text().splitlines()
                if len(text) == 2:
                    (run / "metrics.csv").write_text(f"{text[0]}\n{PERIOD},-inf\n")
            return code

    made = trained(tmp_path / "population", looks=500, start=Infinite)
    first = made.history[0]
    assert first["scores"][2] == population.FAILED and first["parents"][2] != 2
    assert made.complete


def test_where_the_set_has_no_number_copies_of_its_member_get_one():
    hparams = ppo_cartpole().freeze()
    space = numbers(space_of(hparams, "target_kl=0.01:0.1"), {"target_kl": None})
    plan = Plan(hparams, space, SIZE, 0, lambda i, values: Command((), Path("nowhere")))
    values = [population.first_values(plan, i) for i in range(SIZE)]
    assert values[0]["target_kl"] == "none"
    (move,) = chosen_moves(plan, [5.0, 4.0, 3.0, 2.0, 1.0], values, 0)
    assert move.parent == 0 and 0.01 <= float(move.values["target_kl"]) <= 0.1


def test_of_equal_scores_none_is_replaced():
    plan = plan_in(Path("nowhere"))
    assert chosen_moves(plan, [1.0] * SIZE, [{"lr": "0.001"}] * SIZE, 0) == []


def test_only_numbers_are_changed():
    hparams = ppo_cartpole().freeze()
    found = numbers(space_of(hparams), {})
    assert {"lr", "gamma", "entropy_coef"} <= set(found)
    assert not {"epochs", "lr_schedule", "model.hidden"} & set(found)
    with pytest.raises(UsageError, match="--space epochs: a population changes numbers"):
        numbers(space_of(hparams, "epochs=1:8"), {"epochs": "1:8"})


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (["--trials", "7"], "--trials is of trials: leave it out with --population"),
        (["--num_workers", "2"], "--population: its members have no workers"),
        (["--space", "epochs=1:8"], "--space epochs: a population changes numbers"),
    ],
)
def test_what_does_not_go_with_a_population_is_refused(flags, said, capsys, tmp_path):
    folder = tmp_path / "search"
    command = ["ppo_cartpole", "--population", "4", "--output_dir", str(folder), *flags]
    assert tune.main(command) == 2
    assert said in capsys.readouterr().err and not folder.exists()


@pytest.mark.slow
def test_a_population_of_real_runs_is_the_same_after_a_kill(tmp_path):
    def command(name):
        flags = ["--population", "3", "--generations", "3", "--parallel", "2", "--train_steps", "24576"]
        few = "num_envs=4,rollout_length=64,log_period=1024"
        flags += ["--space", "lr=log:1e-4:1e-2", "--eval_episodes", "5", "--hparam_override", few]
        tune = [sys.executable, "-m", "rl.tune", "ppo_cartpole"]
        return [*tune, *flags, "--output_dir", str(tmp_path / name)]

    def state(name):
        found = json.loads((tmp_path / name / "population.json").read_text())
        return found["history"], found["values"]

    subprocess.run(command("whole"), cwd=ROOT, check=True, timeout=900)
    for generation in range(2):
        killed = subprocess.Popen(command("killed"), cwd=ROOT, start_new_session=True)
        deadline = time.monotonic() + 600
        while time.monotonic() < deadline:
            file = tmp_path / "killed" / "population.json"
            if file.exists() and len(json.loads(file.read_text())["history"]) > generation:
                break
            time.sleep(0.2)
        time.sleep(4.0)
        os.killpg(killed.pid, signal.SIGKILL)
        killed.wait()
        time.sleep(1.0)  # its processes end with it
    done = subprocess.run(
        command("killed"), cwd=ROOT, check=True, timeout=900, capture_output=True, text=True
    )
    assert state("killed") == state("whole")
    assert "| 2 | 24,576 | " in done.stdout
