"""A whole command while one of its file operations fails once."""

from __future__ import annotations

import errno
import json
import re
import shutil
import traceback
import zlib

import imageio_ffmpeg
import numpy as np
import pytest
from faults import Faults
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from rl import experiment, heartbeat, saved_run
from rl.cli import main
from rl.report import versions
from rl.runners import health, kept, trainer
from rl.runners.evaluate import Evaluation
from rl.runners.player import Player
from rl.storage import files
from rl.storage.checkpoint import CheckpointManager, read_manifest

opened = open  # before any is made to fail
ERRORS = errno.EIO, errno.ENOSPC, errno.ESTALE
WORDS = ["--hparams", "ppo_identity", "--test_episodes", "1", "--eval_episodes", "1", "--record_video"]
TRAINED = ["--train_steps", "32"]
SETTINGS = "compile=graph,num_envs=2,rollout_length=8,minibatches=1,epochs=1,log_period=16,eval_period=16"
SETTINGS += ",checkpoint_period=0,keep_checkpoints=1,act_backend=compiled,max_episode_steps=2"


class Evaluated:
    """In the evaluator's place: what it does takes no files, and much time."""

    backend = "gym"

    def __init__(self, agent, episodes):
        self.agent, self.episodes = agent, episodes

    def run(self, seed, stopped=None, recorder=None):
        return Evaluation(np.full(1, 1.0), np.ones(1))

    def other(self, *_):
        return None

    def scores(self, _):
        return {}

    def close(self):
        pass


@pytest.fixture(scope="module")
def compiled():
    """What is built and compiled once for all lives."""
    return {}


@pytest.fixture
def quick(monkeypatch, compiled):
    """All that a command does with files, and little else: one runner serves all lives."""

    def once(name, make):
        if name not in compiled:
            compiled[name] = make()
        return compiled[name]

    build = trainer.build_runner

    def runner(*words):
        found = once("runner", lambda: build(*words))
        start = once("start", lambda: {name: each.numpy() for name, each in found.variables.items()})
        for name, each in found.variables.items():
            each.assign(start[name])
        found.begin_window()
        return found

    class OnePlayer:
        def __init__(self, agent, mode):
            self._player = once("player", lambda: Player(compiled["runner"].agent, mode))

        def film(self, *words):
            return self._player.film(*words)

        def film_all(self, *words):
            return self._player.film_all(*words)

        def close(self):
            pass

    def frames(path, *_, **__):
        """In ffmpeg's place."""
        with opened(path, "wb") as file:
            while True:
                if (yield) is not None:
                    file.write(b"f")

    def count(path):
        with opened(path, "rb") as file:
            return len(file.read()), 0.0

    monkeypatch.setattr(files, "PAUSES", (0.0, 0.0))
    # By a thread of its own, at any time: the walk would not be the same twice.
    monkeypatch.setattr(heartbeat.Watch, "_write", lambda self, what: None)
    monkeypatch.setattr(versions, "_git_commit", lambda _: None)
    monkeypatch.setattr(trainer, "build_runner", runner)
    check, graph = health.FiniteCheck, trainer.Trainer._policy_graph
    monkeypatch.setattr(health, "FiniteCheck", lambda each: once("finite", lambda: check(each)))
    monkeypatch.setattr(trainer.Trainer, "_policy_graph", lambda self: once("graph", lambda: graph(self)))
    monkeypatch.setattr(saved_run, "get_algo", lambda _: lambda *__: compiled["runner"].agent)
    monkeypatch.setattr(kept, "Evaluator", Evaluated)
    for module in (trainer, experiment):
        monkeypatch.setattr(module, "Player", OnePlayer)
    monkeypatch.setattr(imageio_ffmpeg, "write_frames", frames)
    monkeypatch.setattr(imageio_ffmpeg, "count_frames_and_secs", count)


def run(folder, *more):
    return main([*WORDS, "--output_dir", str(folder), "--hparam_override", SETTINGS, *more])


def found(folder, runner):
    """What a command has left that another one's must equal."""
    here = folder / "run_0"
    manager = CheckpointManager(here / "checkpoints")
    manager.restore(runner.variables)
    events = EventAccumulator(str(here), size_guidance={"scalars": 0})
    events.Reload()
    names = [re.sub(r"tfevents.*", "tfevents", str(each.relative_to(here))) for each in here.rglob("*")]
    return {
        "step": manager.restored_step,
        "weights": zlib.crc32(b"".join(each.numpy().tobytes() for each in runner.variables.values())),
        "best": read_manifest(here / "checkpoints/best").meta,
        "metrics": (here / "metrics.csv").read_text(),
        "perf": [line.split(",")[0] for line in (here / "perf.csv").read_text().splitlines()],
        "hparams": json.loads((here / "hparams.json").read_text()),
        "versions": json.loads((here / "versions.json").read_text()),
        "files": sorted({each for each in names if "checkpoints/" not in each}),
        "scalars": {
            tag: sorted({each.step for each in events.Scalars(tag)}) for tag in events.Tags()["scalars"]
        },
    }


LASTING = "step", "weights", "best", "metrics", "hparams"  # whatever happened until then


def unlike(one, other):
    """By what two findings differ; the code or the error that is in one's place."""
    if not isinstance(one, dict):
        return one
    return {key: (one[key], other[key]) for key in one if one[key] != other[key]}


class Lives:
    """The lives of a command, each in a copy of a folder of its own (None: a new one).

    Attributes:
        undisturbed: what a life comes to in which nothing fails.
        places: of its operations.
    """

    def __init__(self, folder, before, words, faults, runner, tell):
        self.folder, self.before, self.words = folder, before, words
        self.faults, self.runner, self.tell = faults, runner, tell
        self.undisturbed, self.lines = self.live("undisturbed", -1, 0)
        self.places = faults.places

    def live(self, name, at, error, ever_after=False):
        """What a life comes to in which one operation fails; and the lines that it was told in. With
        `ever_after` all later ones fail too, and what the same command comes to that is given afterwards
        counts."""
        there, faults = self.folder / name, self.faults
        if self.before is not None:
            shutil.copytree(self.before, there)
        faults.begin(at, ever_after)
        faults.error = error
        try:
            code = run(there, *self.words)
            if ever_after and code in (0, 75):
                faults.begin(-1)
                code = run(there, *self.words)
        except Exception as raised:
            code = repr(traceback.format_exception(raised)[-12:])
        places = faults.places
        faults.begin(-1)
        lines = self.tell()  # before TensorBoard reads, which has words of its own
        came_to = code or found(there, self.runner)
        self.tell()
        faults.places = places
        return came_to, lines

    def wrong_ever_after(self, operations):
        """The operations from which on all fail, so that the same command does not go on afterwards."""
        wrong = []
        for at in operations:
            came_to, _ = self.live(f"from_{at}", at, ERRORS[at % len(ERRORS)], ever_after=True)
            lasting = came_to if isinstance(came_to, int | str) else {key: came_to[key] for key in LASTING}
            if lasting != {key: self.undisturbed[key] for key in LASTING}:
                wrong.append((f"{at} {self.places[at - 1]}", unlike(lasting, self.undisturbed)))
            shutil.rmtree(self.folder / f"from_{at}", ignore_errors=True)
        return wrong

    def wrong(self, operations):
        """The operations whose failure is not made up for, or told in more than a line."""
        wrong = []
        for at in operations:
            error = ERRORS[at % len(ERRORS)]
            came_to, lines = self.live(str(at), at, error)
            if came_to != self.undisturbed or lines > self.lines + 1:
                place = f"{at} {errno.errorcode[error]} {self.places[at - 1]}"
                wrong.append((place, lines - self.lines, unlike(came_to, self.undisturbed)))
            shutil.rmtree(self.folder / str(at), ignore_errors=True)
        return wrong


@pytest.fixture
def lives(tmp_path, quick, monkeypatch, capsys, caplog, compiled):
    """A run begun, one gone on with (other versions made it), one that is only tested."""
    faults = Faults(monkeypatch, tmp_path)

    def tell():
        lines = len(caplog.records) + capsys.readouterr().out.count(" warning: ")
        caplog.clear()
        return lines

    half, whole = tmp_path / "half", tmp_path / "whole"
    assert run(half, "--train_steps", "16") == run(whole, *TRAINED) == 0
    path = half / "run_0/versions.json"
    path.write_text(path.read_text().replace('"keras": "', '"keras": "0'))
    tell()
    tested = [*TRAINED, "--training", "False"]
    given = {"begun": (None, TRAINED), "resumed": (half, TRAINED), "tested": (whole, tested)}
    return {
        name: Lives(tmp_path / name, *words, faults, compiled["runner"], tell)
        for name, words in given.items()
    }


@pytest.mark.slow
def test_a_command_makes_up_for_a_file_operation_that_fails(lives):
    """One of each kind in each part of the program."""
    met, wrong = set(), []
    for each in lives.values():
        new = [at for at, place in enumerate(each.places, 1) if not (place in met or met.add(place))]
        wrong += each.wrong(new)
    assert not wrong


@pytest.mark.slow
def test_a_command_goes_on_after_a_disk_that_failed_for_good(lives):
    """From the first operation of each kind on, in each part of the program that tests a run."""
    places = lives["tested"].places
    assert not lives["tested"].wrong_ever_after(places.index(each) + 1 for each in dict.fromkeys(places))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["begun", "resumed", "tested"])
def test_a_command_makes_up_for_any_file_operation_that_fails(lives, name):
    operations = range(1, len(lives[name].places) + 1)
    assert len(operations) > 40
    assert not lives[name].wrong(operations)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["begun", "resumed", "tested"])
def test_a_command_goes_on_after_a_disk_that_failed_from_any_operation_on(lives, name):
    assert not lives[name].wrong_ever_after(range(1, len(lives[name].places) + 1))
