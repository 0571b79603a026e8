"""A system that does not give what a run asks it for: room, files, memory, the right time."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

from faulted.cases import Case, Missed, Outcome, Skipped, kind
from faulted.runs import limits
from faulted.signals import any_moment, moment, some_set


def mounted(case: Case, options: str) -> Path:
    """A small file system of the case's own. Raises Skipped where it cannot be mounted."""
    folder = case.folder / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        raise Skipped("no small file system can be mounted here: " + done.stderr.strip()[:80])
    case.undo.append(lambda: subprocess.run(["umount", "-l", str(folder)], check=True))
    return folder


def remounted(folder: Path, options: str) -> None:
    subprocess.run(["mount", "-o", f"remount,{options}", str(folder)], check=True)


def on_disk(case: Case, options: str, more: str, plan: dict[str, Any] | None = None) -> Outcome:
    """A run on a disk that is too small, and again once it has become larger."""
    name = some_set(case)
    disk = mounted(case, options)
    words = case.words(name, disk / "runs")
    case.housed = plan is None and case.rng.random() < 0.6
    code = case.ended(case.start(words), {0, 75}) if plan is None else case.under(words, plan, {0, 75})
    (disk / "filler").unlink(missing_ok=True)
    remounted(disk, more)
    return case.goes_on(name, words, code, disk / "runs" / "run_0")


@kind(8)
def disk_small(case: Case) -> Outcome:
    """A disk (tmpfs) that is full at some moment of the run, from its beginning on"""
    return on_disk(case, f"size={case.rng.randint(8, 700)}k", "size=64m")


@kind(8)
def disk_filled(case: Case) -> Outcome:
    """Somebody else fills the disk (tmpfs) while the run trains; some bytes are left"""
    plan = any_moment(case, fill=[str(case.folder / "disk" / "filler"), case.rng.choice([0, 4096, 50_000])])
    plan["nth"] = max(1, plan["nth"])
    return on_disk(case, "size=64m", "size=65m", plan)


@kind(6)
def inodes(case: Case) -> Outcome:
    """A disk that takes no more files (tmpfs with few inodes)"""
    return on_disk(case, f"size=64m,nr_inodes={case.rng.randint(5, 45)}", "nr_inodes=10000")


@kind(4)
def quota(case: Case) -> Outcome:
    """A folder's quota is used up (btrfs, a qgroup's limit) at some moment of the run; then it is raised"""

    def do(*words: str | Path) -> None:
        done = subprocess.run([*map(str, words)], capture_output=True, text=True)
        if done.returncode:
            raise Skipped(f"no quota can be set here: {done.stderr.strip()[:80]}")

    if shutil.which("mkfs.btrfs") is None:
        raise Skipped("there is no mkfs.btrfs here")
    image, disk = case.folder / "image", case.folder / "disk"
    disk.mkdir()
    with image.open("wb") as file:
        file.truncate(200 * 2**20)
    do("mkfs.btrfs", "-q", "-M", image)
    do("mount", "-o", "loop", image, disk)
    case.undo.append(lambda: subprocess.run(["umount", "-l", str(disk)], check=True))
    do("btrfs", "quota", "enable", disk)
    do("btrfs", "subvolume", "create", disk / "own")
    do("btrfs", "qgroup", "limit", str(case.rng.randint(20_000, 400_000)), disk / "own")
    name = some_set(case)
    words = case.words(name, disk / "own" / "runs")
    run = case.start(words)
    code = case.ended(run, {0, 75})
    if "quota" not in run.text:  # never met
        raise Missed
    do("btrfs", "qgroup", "limit", "none", disk / "own")
    return case.goes_on(name, words, code, disk / "own" / "runs" / "run_0")


@kind(6)
def file_size(case: Case) -> Outcome:
    """No file may be larger than that (RLIMIT_FSIZE), from a moment on"""
    name = some_set(case)
    words = case.words(name)
    plan = any_moment(case, limit=["FSIZE", case.rng.choice([1000, 8000, 30_000, 60_000])])
    return case.goes_on(name, words, case.under(words, plan, {0, 75}))


@kind(5)
def read_only(case: Case) -> Outcome:
    """The run's folder is on a disk that is read-only (mount) when it is to go on"""
    name = case.rng.choice(["ppo", "dqn"])
    run_dir = case.half(name)
    disk = mounted(case, "size=64m")
    shutil.copytree(run_dir.parent, disk / "runs")
    remounted(disk, "ro")
    words = case.words(name, disk / "runs")
    case.ended(case.start(words), {2})
    if case.rng.random() < 0.5:  # a test writes nothing
        tests = ["--training", "False", "--test_episodes", "2", "--output_dir", str(disk / "runs")]
        case.ended(case.start(tests), {0})
    remounted(disk, "rw")
    return case.goes_on(name, words, 2, disk / "runs" / "run_0")


@kind(4)
def immutable(case: Case) -> Outcome:
    """The folder of checkpoints, or the run's, can suddenly not be written in (chattr +i)"""
    name = case.rng.choice(["ppo", "dqn"])
    words, run_dir = case.words(name), case.folder / "runs" / "run_0"
    where = str(run_dir / case.rng.choice(["", "checkpoints"]))
    try:
        probe = case.folder / "probe"
        probe.mkdir()
        subprocess.run(["chattr", "+i", str(probe)], check=True, capture_output=True)
        subprocess.run(["chattr", "-i", str(probe)], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        raise Skipped("chattr +i has no effect here") from None
    free = ["chattr", "-i", where]
    case.undo.append(lambda: subprocess.run(free, capture_output=True))
    plan = moment(case, case.rng.choice(["training", "checkpoint"]), command=["chattr", "+i", where])
    plan |= {"nth": max(plan["nth"], 2), "after": 0}
    code = case.under(words, plan, {0, 2, 75})
    subprocess.run(free, capture_output=True)
    return case.goes_on(name, words, code)


@kind(6)
def open_files(case: Case) -> Outcome:
    """No more than some files may be open (RLIMIT_NOFILE), from the start or a moment on"""
    name = some_set(case)
    words = case.words(name)
    if case.rng.random() < 0.3:
        run = case.start(words, prepare=limits(NOFILE=case.rng.randint(8, 40)))
        code = case.ended(run, {0, 2, 75})
    else:
        plan = any_moment(case, limit=["NOFILE", case.rng.choice([0, 1, 2, 3, 5])])
        code = case.under(words, plan, {0, 2, 75})
    return case.goes_on(name, words, code)


@kind(5)
def memory(case: Case) -> Outcome:
    """No more memory than some MiB beyond what is used (RLIMIT_AS), from a moment on"""
    name = some_set(case)
    words = case.words(name)
    plan = any_moment(case, limit=["AS", case.rng.choice([0, 1 << 20, 8 << 20, 64 << 20])])
    aborted = 128 + signal.SIGABRT
    code = case.under(words, plan, {0, 75, 1, aborted, 128 + signal.SIGSEGV})
    return case.goes_on(name, words, code)


@kind(5)
def clock(case: Case) -> Outcome:
    """The clock of the day (time.time) is set back, or ahead, by seconds to years"""
    name = some_set(case)
    words = case.words(name)
    seconds = case.rng.choice([-1, -1, -1, 1]) * 10 ** case.rng.uniform(1, 9)
    code = case.under(words, any_moment(case, clock=seconds), {0})
    return case.goes_on(name, words, code)


@kind(3)
def reader_gone(case: Case) -> Outcome:
    """Who reads what the command prints is gone (`train.py | head -1`)"""
    name = some_set(case)
    words = case.words(name)

    def closed_pipe() -> None:
        reading, writing = os.pipe()
        os.close(reading)
        os.dup2(writing, 1)
        os.dup2(writing, 2)

    code = case.ended(case.start(words, prepare=closed_pipe, cold=case.rng.random() < 0.3), {0})
    return case.goes_on(name, words, code)


@kind(2)
def shared_memory(case: Case) -> Outcome:
    """/dev/shm is full (a small one, in a mount namespace of the run's own)"""
    name = case.rng.choice(["ppo", "workers"])
    words = case.words(name)
    script = "mount -t tmpfs -o size=16k tmpfs /dev/shm; head -c 20000 /dev/zero > /dev/shm/full; "
    script += 'exec "$@"'
    probe = subprocess.run(["unshare", "-m", "true"], capture_output=True)
    if probe.returncode:
        raise Skipped("no mount namespace can be made here")
    before = ["unshare", "-m", "sh", "-c", script, "sh"]
    code = case.ended(case.start(words, before=before), {0, 2, 75})
    return case.goes_on(name, words, code)
