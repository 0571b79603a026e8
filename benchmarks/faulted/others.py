"""Processes that a run has beside it, and places that it sends its state to."""

from __future__ import annotations

import os
import re
import shutil
import signal
import time
from pathlib import Path
from typing import Any

from kills import Nodes
from processes import Process, descendants

from faulted.cases import Case, Failed, Missed, Outcome, Skipped, kind
from faulted.runs import Run
from faulted.signals import moment

BEGUN = 3  # rows of metrics after which a run with workers is disturbed
REPLACED = re.compile(r"(a new one takes its place|going on from its last checkpoint|replaced|started again)")


def ready(case: Case, run: Run) -> None:
    """Waits until the workers play."""
    metrics = case.folder / "runs" / "run_0" / "metrics.csv"
    if not run.until(lambda: metrics.exists() and metrics.read_text().count("\n") > BEGUN):
        code = run.poll()
        if code == 0:
            raise Missed
        raise Failed(f"code {code} before the fault: {run.text[-300:]}")
    time.sleep(case.rng.random())
    if run.poll() is not None:
        raise Missed


def victims(run: Run, role: str) -> list[Process]:
    under = descendants(run.pid)
    if role == "learner":
        return [each for each in under if each.parent == run.pid][:1]
    return [each for each in under if each.role == role]


def disturbed(case: Case, name: str, role: str, number: int, **changed: Any) -> Outcome:
    """A run with workers of which one process is killed or stopped: it is to end by itself."""
    words = case.words(name, **changed)
    run = case.start(words, cold=True)
    ready(case, run)
    found = victims(run, role)
    if not found:
        raise Failed(f"no {role} among {[each.role for each in descendants(run.pid)]}")
    os.kill(case.rng.choice(found).pid, number)
    code = case.ended(run, {0, 75, 1})
    if code == 1:
        raise Failed(f"code 1: {run.text[-300:]}")
    return case.goes_on(name, words, code)


@kind(3)
def worker_killed(case: Case) -> Outcome:
    """SIGKILL of a worker"""
    return disturbed(case, case.rng.choice(["workers", "buffers"]), "worker", signal.SIGKILL)


@kind(2)
def worker_stopped(case: Case) -> Outcome:
    """SIGSTOP of a worker, for good (worker_timeout=5)"""
    return disturbed(case, "workers", "worker", signal.SIGSTOP, worker_timeout=5)


@kind(3)
def buffer_killed(case: Case) -> Outcome:
    """SIGKILL of a buffer"""
    return disturbed(case, "buffers", "buffer", signal.SIGKILL)


@kind(2)
def weights_killed(case: Case) -> Outcome:
    """SIGKILL of the process that hands out the weights"""
    return disturbed(case, "workers", "weights", signal.SIGKILL)


@kind(3)
def learner_killed(case: Case) -> Outcome:
    """SIGKILL of the learner: its supervisor starts it again"""
    return disturbed(case, case.rng.choice(["workers", "buffers"]), "learner", signal.SIGKILL)


@kind(2)
def raylet_killed(case: Case) -> Outcome:
    """SIGKILL of Ray's process of this node (raylet)"""
    return disturbed(case, "workers", "raylet", signal.SIGKILL)


@kind(2)
def head_killed(case: Case) -> Outcome:
    """SIGKILL of Ray's head (gcs_server)"""
    return disturbed(case, "workers", "head", signal.SIGKILL)


@kind(3)
def node_lost(case: Case) -> Outcome:
    """A whole node of a cluster of three, which workers (and buffers) are on, is gone"""
    nodes = Nodes(2, 5)
    case.undo.append(nodes.close)
    name = case.rng.choice(["workers", "buffers"])
    words = [*case.words(name), "--ray_address", nodes.address]
    run = case.start(words, cold=True)
    ready(case, run)
    if not any(each.role in ("worker", "buffer") for each in nodes.lose(case.rng)):
        raise Missed
    return case.goes_on(name, words, case.ended(run, {0, 75}))


@kind(3)
def supervisor_signalled(case: Case) -> Outcome:
    """SIGKILL, SIGTERM or SIGINT of the process that was typed, of a run with workers"""
    name = case.rng.choice(["workers", "buffers"])
    words = case.words(name)
    run = case.start(words, cold=True)
    ready(case, run)
    number = case.rng.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
    run.send(number)
    return case.goes_on(name, words, case.ended(run, {128 + number}))


@kind(3)
def copies_killed(case: Case) -> Outcome:
    """SIGKILL of one of two copies side by side, of one of Ray's processes, or of the command"""
    words = [*case.words("ppo"), "--copies", "2", "--parallel", "2"]
    run = case.start(words, cold=True)
    folder = case.folder / "runs"
    if not run.until(lambda: any(folder.glob("run_*/metrics.csv"))):
        raise Missed
    roles = case.rng.choice([("ray::Copy",), ("ray::Copy",), ("ray::", "raylet"), ()])
    under = [
        each
        for each in descendants(run.pid)
        if roles and Path(each.title.split(" ")[0]).name.startswith(roles)
    ]
    if under:
        os.kill(case.rng.choice(under).pid, signal.SIGKILL)
        code = case.ended(run, {0, 75})
    else:
        run.send(signal.SIGKILL)
        code = case.ended(run, {137})
    outcome = case.goes_on("ppo", words, code)
    case.came_to("ppo", folder / "run_0", True, True)
    return outcome


def remote(case: Case) -> str:
    return f"file://{case.folder}/remote"


def staged(case: Case) -> dict[str, str]:
    """A TMPDIR of the case's own, below which the run is worked on."""
    folder = case.folder / "tmp"
    folder.mkdir(exist_ok=True)
    return {"TMPDIR": str(folder)}


def mirrored(case: Case, place: str, lost: bool) -> Outcome:
    """A run at a remote address that is killed; then here again, or on another machine."""
    name = case.rng.choice(["ppo", "dqn"])
    words = case.words(name, remote(case))
    # Forked processes have asked for the temporary folder already.
    plan = moment(case, place, signal=int(signal.SIGKILL))
    code = case.under(words, plan, {137}, cold=True, env=staged(case))
    if lost:
        shutil.rmtree(case.folder / "tmp")
    there = Path(case.folder / "remote" / "run_0")
    env = staged(case)
    for _ in range(3):
        if code == 0:
            break
        run = case.start(words, cold=True, env=env)
        code = case.ended(run, {0, 75})
    if code != 0:
        raise Failed(f"code {code} again and again")
    case.came_to(name, there, rows=True, exact=True)
    return Outcome("went on")


@kind(5)
def mirror_killed(case: Case) -> Outcome:
    """SIGKILL while a run is sent to a remote address (file://)"""
    return mirrored(case, case.rng.choice(["training", "checkpoint", "test"]), lost=False)


@kind(3)
def mirror_machine_lost(case: Case) -> Outcome:
    """The same, and what was on that machine is lost"""
    return mirrored(case, case.rng.choice(["training", "checkpoint"]), lost=True)


@kind(3)
def mirror_unwritable(case: Case) -> Outcome:
    """The remote folder is gone read-only (chattr +i) while the run is sent there"""
    import subprocess

    name = "ppo"
    words = case.words(name, remote(case))
    where = case.folder / "remote" / "run_0"
    plan = {"at": "the compiled", "nth": case.rng.randint(2, 12)}
    plan["do"] = {"command": ["chattr", "-R", "+i", str(where)]}  # type: ignore[assignment]
    free = ["chattr", "-R", "-i", str(where)]
    case.undo.append(lambda: subprocess.run(free, capture_output=True))
    if subprocess.run(["chattr", "+i", str(case.folder)], capture_output=True).returncode:
        raise Skipped("chattr +i has no effect here")
    subprocess.run(["chattr", "-i", str(case.folder)], check=True)
    code = case.under(words, plan, {1, 2, 75}, cold=True, env=staged(case))
    subprocess.run(free, check=True)
    run = case.start(words, cold=True, env=staged(case))
    case.ended(run, {0})
    case.came_to(name, where, rows=True, exact=True)
    return Outcome("went on", f"first code {code}")
