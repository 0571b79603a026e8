"""One fault: a folder of its own, commands in it, and the judgement of what came of them."""

from __future__ import annotations

import contextlib
import fcntl
import os
import random
import re
import shutil
import signal
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from faulted.houses import Housed
from faulted.runs import ROOT, Run
from rl.errors import UsageError
from rl.storage.manifest import MANIFEST, Damaged, check_file, load_manifest

HOOKS = ROOT / "benchmarks" / "faulted" / "torture_hooks.py"
PARTS = ROOT / "benchmarks" / "faulted" / "torture_parts.py"  # environments that misbehave
TRIES = 4  # times that the same command is given after a fault, at most
ERROR = re.compile(r"(\d{4}-\d\d-\d\d [\d:]+ )?error: ")  # with the time where it is in train.log, too
WINDOWS = 16  # rows of metrics of each run; a checkpoint after each
TRACES = ("Traceback (most recent call last)", "Fatal Python error", "terminate called", "Exception ignored")

COMMON = {
    "compile": "graph",
    "act_backend": "compiled",
    "num_envs": 4,
    "log_period": 64,
    "eval_period": 256,
    "checkpoint_period": 0,
    "max_episode_steps": 30,
    "model.hidden": "[16]",
}
PPO = COMMON | {"rollout_length": 16, "epochs": 2, "minibatches": 2, "normalize_observation": "true"}
DQN = COMMON | {
    "rollout_length": 16,
    "updates_per_iteration": 2,
    "prioritized": "true",
    "n_step": 2,
    "replay_capacity": 300,
    "min_replay_size": 100,
    "batch_size": 16,
    "target_update_period": 7,
    "normalize_reward": "true",
}
HOST = PPO | {"env_backend": "gym"}
WORKERS = PPO | {"sync_workers": "false", "log_period": 640, "checkpoint_period": 1, "eval_period": 0}
APEX = DQN | {"log_period": 640, "checkpoint_period": 1, "eval_period": 0, "buffer_shards": 1}
APEX["normalize_reward"] = "false"  # statistics are the learner's, which rollouts do not pass
STEPS = 64 * WINDOWS


class Set(NamedTuple):
    """A run of the campaign: small, and ended after `steps`."""

    name: str
    overrides: dict[str, Any]
    steps: int = STEPS
    more: tuple[str, ...] = ()
    exact: bool = True  # whether a run that was disturbed is to end with the same bits


SETS = {
    "ppo": Set("ppo_cartpole", PPO),
    "dqn": Set("dqn_cartpole", DQN),
    "host": Set("ppo_cartpole", HOST, exact=False),
    "workers": Set("ppo_cartpole", WORKERS, 12_800, ("--num_workers", "2"), exact=False),
    "buffers": Set("dqn_cartpole", APEX, 12_800, ("--num_workers", "2"), exact=False),
}


HOUSED = ("ppo", "dqn", "host")  # sets whose runs are one process each


class Outcome(NamedTuple):
    """What came of a fault."""

    name: str  # one of OUTCOMES
    detail: str = ""


# In words for the table, best first; the last three are no faults that a run has stood.
OUTCOMES = {
    "unharmed": "the command ended as if nothing had been",
    "went on": "it ended, and the same command again came to the end",
    "refused": "one line says what is wrong: exit code 2",
    "gave up": "one line says that numbers are none: exit code 3",
    "failed": "anything else",
    "missed": "the run was over before the fault came",
    "skipped": "cannot be done on this machine",
}


class Failed(Exception):
    """What the campaign looks for: a defect."""


class Missed(Exception):
    """The run was over before the fault could strike: another moment is to be taken."""


class Skipped(Exception):
    """This fault cannot be done on this machine."""


class Case:
    """One fault.

    Attributes:
        rng: of moments and places.
        folder: of its own.
        codes: what its commands ended with.
    """

    def __init__(self, kind: str, number: int, seed: int, work: Path, attempt: int = 0):
        self.rng = random.Random(f"{seed}/{kind}/{number}/{attempt}")
        self.work, self.folder = work, work / "cases" / f"{kind}_{number}"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        self.codes: list[int | None] = []
        self.housed = False  # whether commands are given in one process, which keeps what it compiles
        self.runs: list[Any] = []
        self.undo: list[Callable[[], None]] = []  # what ends the fault

    # -- commands

    def words(self, name: str, output: str | Path | None = None, **changed: Any) -> list[str]:
        """A set's command; `output` is in place of the case's own output folder."""
        chosen = SETS[name]
        overrides = ",".join(f"{key}={value}" for key, value in {**chosen.overrides, **changed}.items())
        words = ["--hparams", chosen.name, "--hparam_override", overrides, "--train_steps", str(chosen.steps)]
        words += ["--seed", "7", "--eval_episodes", "2", "--test_episodes", "2"]
        words += ["--user_modules", f"{HOOKS},{PARTS}", *chosen.more]
        return [*words, "--output_dir", str(output or self.folder / "runs")]

    def start(self, words: list[str], plan: dict[str, Any] | None = None, **how: Any) -> Any:
        """Starts a command. `plan`: as `torture_hooks` has it, without `struck`."""
        output = self.folder / f"output_{len(self.runs)}.txt"
        if plan is not None:
            plan = {"struck": str(self.folder / "struck"), **plan}
        run = Housed(words, output) if self.housed else Run(words, output, plan, **how)
        self.runs.append(run)
        return run

    def ended(self, run: Any, codes: Collection[int], traces: bool = False) -> int:
        """Waits for a command, which is to end with one of these codes, in one line if that is an error.

        traces: whether a traceback is right, of a program's own mistake.
        """
        code = run.wait()
        self.codes.append(code)
        if code is None:
            raise Failed(f"hangs: {last_line(run.text)}")
        text = run.text
        found = next((mark for mark in TRACES if mark in text), None)
        if found and not traces:
            raise Failed(f"code {code}, {found}: {last_line(text)}")
        if code not in codes:
            raise Failed(f"code {code}, expected {sorted(codes)}: {last_line(text)}")
        said = [line for line in text.splitlines() if ERROR.match(line)]
        if code in (2, 3, 75) and len(said) != 1:
            raise Failed(f"code {code} in {len(said)} lines: {last_line(text)}")
        if left := run.left():
            raise Failed(f"processes are left: {[_name(pid) for pid in left]}")
        return code

    @property
    def struck(self) -> bool:
        return (self.folder / "struck").exists()

    def under(self, words: list[str], plan: dict[str, Any], codes: Collection[int], **how: Any) -> int:
        """Runs a command to its end under a fault. Raises Missed where that did not come."""
        run = self.start(words, plan, **how)
        run.wait()
        if not self.struck:
            if run.poll() not in (0, None):
                raise Failed(f"code {run.poll()} before the fault: {last_line(run.text)}")
            raise Missed
        return self.ended(run, codes)

    # -- judgement

    def goes_on(
        self,
        name: str,
        words: list[str],
        code: int | None = None,
        run_dir: Path | None = None,
        rows: bool = True,
        exact: bool | None = None,
        codes: Collection[int] = (0,),
    ) -> Outcome:
        """Gives the same command again until the run has ended, and judges it.

        Args:
            name: of the set.
            words: of the command.
            code: what it ended with under the fault; None: it was not run under one.
            run_dir: of the run.
            rows: whether metrics.csv is to be that of an undisturbed run, too.
            exact: whether the weights are; None: as the set says.
            codes: of the command, the last time.
        """
        run_dir = run_dir or self.folder / "runs" / "run_0"
        exact = SETS[name].exact if exact is None else exact
        outcome = "unharmed"
        # What goes on is mostly given where all is compiled already: a campaign takes half the time so.
        self.housed = self.housed or (name in HOUSED and self.rng.random() < 0.75)
        newest, log = intact(run_dir), run_dir / "train.log"
        for attempt in range(TRIES):
            if code == 0:
                break
            outcome = "went on"
            before = _text(log)
            run = self.start(words)
            code = self.ended(run, {*codes, 75})
            if attempt == 0:
                # Copies side by side say it in their logs alone; a log that was damaged is begun anew.
                said = run.text + _text(log).removeprefix(before)
                resumed = re.search(r"resumed at step ([\d,]+)", said)
                step = int(resumed[1].replace(",", "")) if resumed else None
                if newest is not None and code == 0 and (step is None or step < newest):
                    raise Failed(f"went on from {step}, the checkpoint of {newest} was there")
            if code in codes and code != 0:
                return Outcome({2: "refused", 3: "gave up"}[code], last_line(run.text))
        if code != 0:
            raise Failed(f"code {code} again and again: {last_line(self.runs[-1].text)}")
        self.came_to(name, run_dir, rows and exact, exact)
        return Outcome(outcome)

    def came_to(self, name: str, run_dir: Path, rows: bool, exact: bool) -> None:
        """Raises Failed unless a run has made all its steps, and ended as the undisturbed one."""
        found = final(run_dir)
        if found is None or found.step < SETS[name].steps:
            raise Failed(f"ended at step {found and found.step} of {SETS[name].steps}")
        if not exact and not rows:
            return
        expected = self.reference(name)
        if exact and found.data != expected.data:
            raise Failed("other weights than the undisturbed run's")
        if rows and found.rows != expected.rows:
            raise Failed("other rows of metrics.csv than the undisturbed run's")

    def reference(self, name: str) -> Final:
        """What the undisturbed run of a set comes to; made once."""
        folder = self._made(name, "whole", lambda folder: self._train(name, folder, None))
        found = final(folder / "runs" / "run_0")
        assert found is not None
        return found

    def half(self, name: str) -> Path:
        """Copies a run that was asked to stop half-way to where the case's own is; returns its folder."""
        plan = {"at": "a checkpoint to be written", "nth": WINDOWS // 2, "do": {"signal": signal.SIGTERM}}
        folder = self._made(name, "half", lambda folder: self._train(name, folder, plan))
        shutil.copytree(folder / "runs", self.folder / "runs")
        return self.folder / "runs" / "run_0"

    def _train(self, name: str, folder: Path, plan: dict[str, Any] | None) -> None:
        if plan is not None:
            plan = {"struck": str(folder / "struck"), **plan}
        run = Run(self.words(name, folder / "runs"), folder / "output.txt", plan)
        if run.wait() != (0 if plan is None else 143):
            raise RuntimeError(f"the undisturbed run of {name} ended with {run.poll()}: {run.text[-2000:]}")

    def _made(self, name: str, what: str, make: Callable[[Path], None]) -> Path:
        folder = self.work / "undisturbed" / f"{name}_{what}"
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.with_suffix(".lock")):
            if not (folder / "done").exists():
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                make(folder)
                (folder / "done").touch()
        return folder

    def close(self, keep: bool) -> None:
        """Ends what is left of it; keep: its files stay."""
        for run in self.runs:
            run.end()
        for each in reversed(self.undo):
            with contextlib.suppress(Exception):
                each()
        if not keep:
            shutil.rmtree(self.folder, ignore_errors=True)


class Final(NamedTuple):
    """What is compared of a run at its end."""

    step: int
    data: dict[str, int]  # checksums of the newest checkpoint's files, by what follows their prefix
    rows: bytes  # metrics.csv


def final(run_dir: Path) -> Final | None:
    """The newest checkpoint that is whole, and the rows; None where there is none."""
    step = intact(run_dir)
    if step is None:
        return None
    manifest = load_manifest(run_dir / "checkpoints" / f"step_{step:012d}")
    data = {name.removeprefix(manifest.prefix): crc for name, (_, crc) in manifest.files.items()}
    metrics = run_dir / "metrics.csv"
    return Final(step, data, metrics.read_bytes() if metrics.exists() else b"")


def intact(run_dir: Path) -> int | None:
    """Step of the newest checkpoint of which every file is as it was written; None where there is none."""
    for path in sorted((run_dir / "checkpoints").glob(f"step_*/{MANIFEST}"), reverse=True):
        with contextlib.suppress(Damaged, UsageError, OSError):
            manifest = load_manifest(path.parent)
            for name, (size, crc) in manifest.files.items():
                check_file(path.parent / name, size, crc)
            return manifest.step
    return None


def _text(path: Path) -> str:
    return path.read_text(errors="replace") if path.is_file() else ""


def last_line(text: str) -> str:
    """The line of an output that says most: an error's, else the last one."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if re.match(r"(error:|\w*(Error|Exception)\b)", line)]
    return ((errors or lines)[-1:] or [""])[0][:300]


def _name(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text().replace("\0", " ")[:80]
    return str(pid)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    descriptor = os.open(path, os.O_CREAT | os.O_RDWR)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


class Kind(NamedTuple):
    """A kind of faults."""

    name: str
    do: Callable[[Case], Outcome]
    share: int  # of the faults of a whole campaign
    what: str


KINDS: dict[str, Kind] = {}


def kind(share: int, what: str = "", name: str | None = None) -> Callable[[Any], Any]:
    """Decorator: a function of a case is a kind of faults, with its name."""

    def register(do: Callable[[Case], Outcome]) -> Callable[[Case], Outcome]:
        called = name or do.__name__
        KINDS[called] = Kind(called, do, share, what or (do.__doc__ or "").strip().split("\n")[0])
        return do

    return register


def judged(name: str, number: int, seed: int, work: Path, keep: bool = False) -> dict[str, Any]:
    """Does one fault; returns its row of the table. `keep`: the files stay, not of failed ones alone."""
    begun, attempt = time.monotonic(), 0
    while True:
        case = Case(name, number, seed, work, attempt)
        try:
            outcome = KINDS[name].do(case)
        except Missed:
            attempt += 1
            outcome = Outcome("missed")
        except Skipped as reason:
            outcome = Outcome("skipped", str(reason))
        except Failed as reason:
            outcome = Outcome("failed", str(reason))
        except Exception as error:
            outcome = Outcome("failed", f"the campaign itself: {type(error).__name__}: {error}")
        case.close(keep or outcome.name == "failed")
        if outcome.name != "missed" or attempt > 2:
            codes = " ".join(str(code) for code in case.codes)
            row = {"kind": name, "number": number, "seed": seed, "outcome": outcome.name, "codes": codes}
            return {**row, "seconds": round(time.monotonic() - begun, 1), "detail": outcome.detail}
