"""The processes that a process started, from /proc: who they are, what they hold, whether they still live."""

from __future__ import annotations

import os
import time
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
# Role of a process by the beginning of its title; Ray names the processes of actors by their class.
TITLES = {"ray::Worker": "worker", "ray::Buffer": "buffer", "ray::Weights": "weights", "ray::IDLE": "idle"}
PROGRAMS = {"raylet": "raylet", "gcs_server": "head"}


class Process(NamedTuple):
    """One process, at the moment it was looked at."""

    pid: int
    parent: int
    started: int  # clock ticks since the machine's start: tells it from a later one with the same pid
    title: str  # its command line
    resident: int  # bytes in memory
    shared: int  # of these: files and Ray's object store, which others map as well

    @property
    def role(self) -> str:
        """What it is in a run with workers; "other" for Ray's helpers and all else."""
        for beginning, role in TITLES.items():
            if self.title.startswith(beginning):
                return role
        return PROGRAMS.get(Path(self.title.split(" ")[0]).name, "other")

    @property
    def age(self) -> float:
        """Seconds since its start."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) - self.started / TICKS


def read(pid: int) -> Process | None:
    """The process of that id; None where there is none, or one that only waits to be buried."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        title = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        _, resident, shared, *_ = Path(f"/proc/{pid}/statm").read_text().split()
    except (OSError, ValueError):
        return None
    if stat[0] in "ZX":
        return None
    return Process(pid, int(stat[1]), int(stat[19]), title, int(resident) * PAGE, int(shared) * PAGE)


def descendants(pid: int) -> list[Process]:
    """Its children, theirs, and so on, by id."""
    found = [read(int(name)) for name in os.listdir("/proc") if name.isdecimal()]
    children: dict[int, list[Process]] = {}
    for process in found:
        if process is not None:
            children.setdefault(process.parent, []).append(process)
    ordered, waiting = [], [pid]
    while waiting:
        mine = children.get(waiting.pop(), [])
        ordered += mine
        waiting += [each.pid for each in mine]
    return sorted(ordered)


def alive(seen: Iterable[Process]) -> list[Process]:
    """Those that still live, whoever their parent is by now."""
    now = ((each, read(each.pid)) for each in seen)
    return [new for old, new in now if new is not None and new.started == old.started]
