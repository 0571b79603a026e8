"""The commands of our pages, in the order written, in one fresh folder: each does what its page says.

Here nothing is trained or played: runs begin, are saved and read again, so that names, flags, folders that
meet and exit codes are real. The slow test types the same for real, a few steps and an episode each.
"""

from __future__ import annotations

import argparse
import dataclasses
import itertools
import os
import re
import runpy
import shutil
import subprocess
import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from pages import PAGES, ROOT, Step, forget_parts, steps
from stop_after import StopAfter

from k8s import generate
from rl import experiment
from rl.agents.algos.registry import get_algo
from rl.cli import checked, main, parse
from rl.data import __main__ as data_tool
from rl.envs import own
from rl.estimate import __main__ as estimate
from rl.export import __main__ as export
from rl.plot import __main__ as plot
from rl.publish import __main__ as publish
from rl.report.video import has_display
from rl.runners import trainer
from rl.runners.build import build_runner
from rl.runners.evaluate import Evaluation, Evaluator
from rl.runners.player import Player
from rl.tune import __main__ as tune
from rl.tune import search
from rl.workers.plan import check_roles, division, together

# How what cannot run here begins, and why it cannot. `looked_at` says what is looked at all the same.
CANNOT = {
    "make ": "sets up, tests everything, trains or measures for an hour",
    "./setup.sh": "downloads",
    "git clone ": "downloads",
    "source ": "sets up the shell that it is typed in",
    "tensorboard ": "a server; tests/report/test_tensorboard.py starts the program",
    "docker ": "no docker",
    "FROM ": "no docker",
    "kubectl ": "no cluster",
    "python train.py --hparams appo_cartpole --num_workers 32 --ray_address ": "no Ray cluster there",
    "python train.py --hparams ppo --env minigrid:": "minigrid is none of our requirements",
    "python train.py --hparams sac --env gymnasium_robotics:": "gymnasium-robotics is none of them",
    "python train.py --hparams ppo_cartpole --track ": "trackers are none of our requirements",
    "python benchmarks/": "measures for hours",
    "for s in 0 1 2; do VENV/bin/python ": "another library's environment",
    "theta <-": "a formula",
    "1 / (num_envs * std)": "a formula",
    "v_s =": "a formula",
    "runner -> environment": "a drawing",
    "learner                       weights": "a drawing",
    "learner                        buffer": "a drawing",
    "DIR/data/main_data.hdf5": "a list of files",
    "warning: ": "a line that is printed",
}
NO_DISPLAY = "--render: there is no display here"
SHORT = "import rl; full = rl.train\nrl.train = lambda *a, **k: full(*a, **{**k, 'train_steps': 2048})\n"


def reason(step: Step) -> str | None:
    """Why it cannot run here."""
    return next((why for beginning, why in CANNOT.items() if step.text.startswith(beginning)), None)


def placed(step: Step, folder: Path) -> list[str]:
    """The words of a command, its places in `folder`; a bucket of `train.py` is one there."""
    places = {"/tmp": str(folder), "SET": "ppo_cartpole"}
    if "train.py" in step.words:
        places["gs://BUCKET"] = f"file://{folder}/bucket"
    changed = []
    for word in step.words:
        for name, place in places.items():
            word = re.sub(rf"^{name}(?!\w)", place, word)
        changed.append(word)
    return changed


def commands(page: str, folder: Path):
    """(step, words, why it cannot run) in order; `again` repeats, flags alone follow the command before."""
    before: list[str] = []
    for step in steps(page):
        words = placed(step, folder) if step.kind == "shell" else []
        if words and words[0].startswith("--"):
            words = before + words
        before = words if "k8s.generate" in words else before
        for _ in range(2 if step.kind == "shell" and "# again" in step.text else 1):
            yield step, words, reason(step)


def looked_at(words: list[str], folder: Path, monkeypatch) -> None:
    """What can be known of a command that cannot run: its flags, and that what it names is there."""
    if words[:1] == ["make"]:
        subprocess.run(["make", "-n", *words[1:]], cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    elif words[:2] == ["python", "train.py"]:
        checked(parse(words[2:]), here=False)
    elif words[:1] == ["python"]:
        with pytest.raises(Understood), monkeypatch.context() as patched:
            understand = argparse.ArgumentParser.parse_args
            patched.setattr(
                argparse.ArgumentParser, "parse_args", lambda *a: Understood.after(understand, *a)
            )
            patched.setattr(sys, "argv", words[1:])
            patched.syspath_prepend(ROOT / "benchmarks")
            runpy.run_path(str(ROOT / words[1]), run_name="__main__")
    for flag, value in itertools.pairwise(words):
        if flag == "--logdir" or (flag == "-f" and "logs" not in words):
            assert (folder / value).exists() or (ROOT / value).exists(), f"{value} is not there"
    for name in re.findall(r"(?:job/|service/|instance=)([\w-]+)", " ".join(words)):
        assert any(f'"{name}"' in path.read_text() for path in folder.rglob("*.yaml")), f"nothing is {name}"


class Written:
    """A process of a search that has trained its runs, of one evaluation each."""

    def __init__(self, command, cores, program=""):
        for copy in range(5):
            folder = command.folder / f"run_{copy}"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / "metrics.csv").write_text("step,eval/return_mean\n1000000000,1.0\n")

    def poll(self):
        return 0


class Understood(Exception):
    """A script has parsed its flags."""

    @classmethod
    def after(cls, parse_args, *arguments):
        parse_args(*arguments)
        raise cls


def made_up(recorder, agent):
    """Lets a recorder know of 12 episodes of one step each that nobody has played."""
    if recorder is not None:
        seen, taken = agent.observation_space, agent.action_space
        rows = np.stack([[seen.sample() for _ in range(12)] for _ in range(2)])
        ends, never = np.ones((1, 12), bool), np.zeros((1, 12), bool)
        recorder.add(0, rows, np.stack([[taken.sample() for _ in range(12)]]), ends, ends, never, ends)


@pytest.fixture
def nothing_is_trained(monkeypatch):
    """Runs are asked to stop before their first window, and no episodes are played; workers are left out."""
    train = trainer.Trainer.train

    def alone(hparams, seed, workers, strategy):
        if workers is not None:
            make_agent = get_algo(hparams.algo)
            check_roles(make_agent, hparams, workers)
            division(hparams, workers, together(make_agent.experience, hparams))
            hparams = hparams.thawed()
            hparams.sync_workers, hparams.buffer_shards, hparams.num_learners = False, 0, 1
            hparams.freeze()
        return build_runner(hparams, seed, None, strategy)

    def one_by_one(request, storages, stop, work):
        alone = dataclasses.replace(request, parallel=1)
        return experiment._all_copies(alone, dict(enumerate(storages)), stop)

    def played(self, seed, stopped=None, recorder=None):
        made_up(recorder, self.agent)
        return Evaluation(np.zeros(self.episodes), np.ones(self.episodes))

    def not_trained(self, _):
        made_up(self.runner.recorder, self.agent)
        result = train(self, StopAfter(0))
        rows = self.run_dir / "metrics.csv"
        if not rows.exists():  # for who reads curves
            rows.write_text("step,eval/return_mean\n0,1.0\n")
        return result

    monkeypatch.setattr(trainer.Trainer, "train", not_trained)
    monkeypatch.setattr(trainer, "build_runner", alone)
    monkeypatch.setattr("rl.workers.copies.side_by_side", one_by_one)
    monkeypatch.setattr("rl.cli.supervised", lambda: None)
    for name in ("behaviour", "fqe"):
        monkeypatch.setattr(f"rl.estimate.{name}.fit", lambda *_: {"train/td_error": 0.0})
    monkeypatch.setattr(Evaluator, "_actor", lambda *_: None)  # of a policy that would be converted
    monkeypatch.setattr(Evaluator, "run", played)
    monkeypatch.setattr(Evaluator, "other", lambda *_: None)
    monkeypatch.setattr("rl.tune.machines.TrainProcess", Written)
    open_study = search.open_study
    monkeypatch.setattr(search, "open_study", lambda _, *rest: open_study(None, *rest))
    monkeypatch.setattr(search, "POLL", 0.0)
    for name in ("judge", "population"):
        monkeypatch.setattr(f"rl.tune.{name}.POLL", 0.0)
    monkeypatch.setattr("rl.tune.population.Population._evaluations", lambda *_: [(10**9, 1.0)])
    monkeypatch.setattr("rl.runners.player.Actor", lambda *_, **__: None)
    for name in ("film", "play"):
        monkeypatch.setattr(Player, name, lambda *_: None)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A fresh folder, without a display; what was registered, imported or given there is forgotten after."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    for name in ("DISPLAY", "WAYLAND_DISPLAY"):
        monkeypatch.delenv(name, raising=False)
    modules, ids, given = set(sys.modules), dict(gymnasium.registry), dict(own._GIVEN)
    yield tmp_path
    forget_parts(tmp_path)
    for name in set(sys.modules) - modules:
        file = getattr(sys.modules[name], "__file__", None) or ""
        if file.startswith((str(tmp_path), str(ROOT / "benchmarks"))):
            del sys.modules[name]
    own._GIVEN.clear()
    own._GIVEN.update(given)
    for name in set(gymnasium.registry) - set(ids):
        point = gymnasium.registry[name].entry_point
        module = str(getattr(point, "__module__", point))
        if not module.startswith(
            "rl."
        ):  # the project's own modules stay imported, and register no second time
            del gymnasium.registry[name]


def typed(words: list[str]) -> int:
    """The exit code of a command, in this process."""
    program = {
        "train.py": main,
        "k8s.generate": generate.main,
        "rl.data": data_tool.main,
        "rl.estimate": estimate.main,
        "rl.export": export.main,
        "rl.plot": plot.main,
        "rl.publish": publish.main,
        "rl.tune": tune.main,
    }
    if words[1].startswith("examples/"):
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(sys, "argv", words[1:])
            runpy.run_path(str(ROOT / words[1]))
        return 0
    name = next(word for word in words[1:3] if word in program)
    try:
        return program[name](words[words.index(name) + 1 :])
    except SystemExit as end:  # --help
        return end.code


def save(step: Step, folder: Path) -> None:
    """The file that a block is to be."""
    (folder / step.name).parent.mkdir(parents=True, exist_ok=True)
    (folder / step.name).write_text(step.text)


def check(words: list[str], code: int, err: str, folder: Path, before: set[Path]) -> None:
    """That a command ended as its page says, and that a run without a place of its own met no other one."""
    if "--render" in words and not has_display():
        assert code == 2 and NO_DISPLAY in err
        return
    assert code == 0, f"{' '.join(words)}: {err}"
    if "train.py" in words and not {"--help", "--list", "--suggest", "--output_dir"} & set(words):
        copies = int(words[words.index("--copies") + 1]) if "--copies" in words else 1
        found = runs(folder) - before
        assert len(found) == copies, f"{' '.join(words)} met another command's run"


def runs(folder: Path) -> set[Path]:
    """All runs below a folder."""
    return {path.parent for path in folder.rglob("run_*/hparams.json")}


def first_page_alone():
    """README.md, which everybody types; `make test-all` types the other pages too."""
    typed = [page for page in PAGES if steps(page)]
    return [pytest.param(page, marks=[] if page == "README.md" else pytest.mark.slow) for page in typed]


@pytest.mark.parametrize("page", first_page_alone())
def test_commands_run_in_the_order_written(page, folder, nothing_is_trained, monkeypatch, capsys):
    for step, words, why in commands(page, folder):
        before = runs(folder)
        if why is not None:
            looked_at(words, folder, monkeypatch)
        elif step.kind == "file":
            save(step, folder)
        elif step.kind == "python":
            exec(step.text, {"__name__": "__main__"})
        elif step.kind == "text" and page.startswith("docs/algos/"):
            continue  # a formula of the algorithm's docstring
        else:
            assert step.kind == "shell", f"no command: {step.text}"
            check(words, typed(words), capsys.readouterr().err, folder, before)


def test_what_cannot_run_here_is_there():
    texts = [step.text for page in PAGES for step in steps(page)]
    for beginning in CANNOT:
        assert any(text.startswith(beginning) for text in texts), beginning


@pytest.mark.slow
@pytest.mark.parametrize("page", [page for page in PAGES if not all(map(reason, steps(page)))])
def test_commands_run_for_real_in_the_order_written(page, tmp_path):
    """In a copy of the repository, as processes."""
    for name in ("rl", "k8s", "examples"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "train.py", tmp_path)
    environment = {key: value for key, value in os.environ.items() if "DISPLAY" not in key}
    for step, words, why in commands(page, tmp_path):
        if why is not None:
            continue
        if step.kind == "file":
            save(step, tmp_path)
            continue
        if step.kind == "python":
            words = ["python", "-c", SHORT + step.text]
        elif "train.py" in words and not {"--list", "--suggest"} & set(words):
            words = [*words, "--test_episodes", "1", "--eval_episodes", "1"]
            words += ["--train_steps", "2048"] if "--hparams" in words else []
        elif "rl.tune" in words:
            words = [*words, "--train_steps", "2048", "--eval_episodes", "1"]
            trials = ["--trials", "2", "--seeds", "0", "--judge_seeds", "100"]
            words += ["--population", "2", "--generations", "2"] if "--population" in words else trials
        before = runs(tmp_path)
        done = subprocess.run(
            [sys.executable, *words[1:]],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=600,
        )
        check(words, done.returncode, done.stderr, tmp_path, before)
