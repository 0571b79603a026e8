"""Where a search's processes run: on this machine, or on the machines of a Ray cluster, each in an actor.

All machines of a cluster must see the search's folder and this process's current folder under the same paths:
runs write their files there, and the search reads them.
"""

from __future__ import annotations

import contextlib
import os
import platform
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rl.errors import UsageError
from rl.storage.files import ensure_writable_dir
from rl.tune.runs import TRAIN, Command, Process, TrainProcess
from rl.workers.cluster import QUIET, Cluster
from rl.workers.plan import shares


class Remote:
    """The actor: one process of a search, on its machine. It ends with the actor.

    Args:
        command: as `TrainProcess` takes it.
        program: likewise.
        here: current folder of the search.

    Raises:
        UsageError: by the first call, where this machine does not see the search's folders.
    """

    def __init__(self, command: Command, program: str, here: str):
        self._process: TrainProcess | None = None
        unseen = [each for each in (here, command.folder) if not Path(each).is_dir()]
        self._unseen = f"{platform.node()} does not see {unseen[0]}" if unseen else ""
        if not unseen:
            os.chdir(here)
            self._process = TrainProcess(command, [], program)

    def poll(self) -> int | None:
        """Returns the process's exit code, minus the signal that ended it; None while it goes on. Raises
        UsageError where this machine does not see the search's folders."""
        if self._process is None:
            raise UsageError(f"{self._unseen}: a search needs it to be the same on all machines")
        return self._process.poll()

    def stop(self) -> None:
        """Asks the process to save and end, if there is one."""
        if self._process is not None:
            self._process.stop()


class RayProcess:
    """A `rl.tune.runs.Process` on a cluster. While it waits for room there, it counts as running.

    Args:
        cluster: where it runs.
        gpus: how many it uses.
        command: see `TrainProcess`.
        program: the module that it runs, with the flags of train.py.
    """

    def __init__(self, cluster: Cluster, gpus: int, command: Command, program: str = TRAIN):
        self._ray = cluster.ray
        self._code: int | None = None
        actor = self._ray.remote(Remote).options(num_cpus=1, num_gpus=gpus, **QUIET)
        words = command._replace(folder=ensure_writable_dir(command.folder.absolute()))
        self._actor = actor.remote(words, program, os.getcwd())
        self._answer = self._actor.poll.remote()

    def poll(self) -> int | None:
        """Returns its exit code, -9 where it was lost with its machine; None while it goes on.

        Raises:
            UsageError: its machine does not see the search's folders.
        """
        if self._code is None and self._ray.wait([self._answer], timeout=0)[0]:
            errors = self._ray.exceptions
            try:
                self._code = self._ray.get(self._answer)
            except errors.RayTaskError as error:
                raise (error.cause if isinstance(error.cause, UsageError) else error) from None
            except errors.RayError:
                self._code = -signal.SIGKILL
            if self._code is None:
                self._answer = self._actor.poll.remote()
            else:
                self._ray.kill(self._actor)
        return self._code

    def stop(self) -> None:
        """Asks it to save and end."""
        with contextlib.suppress(Exception):
            self._actor.stop.remote()


class Machines(NamedTuple):
    """The places in which processes run, and the function that starts one."""

    places: list[list[int]]  # cores of each parallel process; meaningless on a cluster
    start: Callable[..., Process]  # takes a command, a place and, by name, a program


@contextlib.contextmanager
def machines(parallel: int, address: str | None, gpus: int) -> Iterator[Machines]:
    """Yields this machine, or those of a cluster; at the end no process is left running there.

    Args:
        parallel: processes side by side.
        address: of a Ray cluster, HOST:PORT or "auto"; None: this machine.
        gpus: that each takes on a cluster.

    Raises:
        UsageError: nothing that is Ray answers at the address.
    """
    if address is None:
        yield Machines(shares(parallel), TrainProcess)
        return
    cluster = Cluster(address, parallel)

    def start(command: Command, cores: list[int], program: str = TRAIN) -> Process:
        return RayProcess(cluster, gpus, command, program)

    try:
        cluster.tell_of_room()
        yield Machines([[] for _ in range(parallel)], start)
    finally:
        cluster.close()
