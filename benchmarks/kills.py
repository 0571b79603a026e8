"""A Ray cluster on this machine whose processes are killed at random while a run uses it."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from processes import Process, alive, descendants

ROOT = Path(__file__).resolve().parents[1]
RETURN_S = 20.0  # after which a lost node is replaced by a new one
STORE = 150 * 2**20  # bytes of a node's object store
STARTS = 5  # of a node, until one succeeds
SETTLE_S = 60.0  # the longest wait for all workers to be up before a node is lost, so that its are known


class Nodes:
    """A head, for the driver and what belongs to it, and nodes with room for the workers.

    Args:
        count: of the nodes beside the head.
        room: workers that each of them takes.
    """

    def __init__(self, count: int, room: int):
        os.environ |= {"RAY_USAGE_STATS_ENABLED": "0", "RAY_worker_niceness": "0"}
        path = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)  # the workers' processes must find the package
        from ray.cluster_utils import Cluster

        head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": STORE}
        # Its hooks at exit are handlers of signals, which only a main thread can install: `close` ends it.
        options: dict[str, Any] = {"initialize_head": True, "head_node_args": head, "shutdown_at_exit": False}
        self._cluster = started(lambda: Cluster(**options))
        self._room = room
        for _ in range(count):
            self.add()
        self.address: str = self._cluster.address
        self._folder = Path(self._cluster.head_node.get_session_dir_path())

    def add(self) -> None:
        """One more node."""
        started(lambda: self._cluster.add_node(num_cpus=self._room, object_store_memory=STORE))

    def lose(self, rng: random.Random) -> list[Process]:
        """Kills a node without warning; returns the processes that ran there."""
        node = rng.choice(sorted(self._cluster.worker_nodes, key=raylet))
        there = descendants(raylet(node))
        self._cluster.remove_node(node, allow_graceful=False)
        return there

    def close(self) -> None:
        """Ends all nodes and deletes what they wrote."""
        with contextlib.suppress(Exception):
            self._cluster.shutdown()
        shutil.rmtree(self._folder, ignore_errors=True)


def started(start: Callable[[], Any]) -> Any:
    """What `start` returns. Ray gives a node 30 s, a busy machine may not: then it is tried again."""
    before = {each.pid for each in descendants(os.getpid())}
    for left in reversed(range(STARTS)):
        try:
            return start()
        except Exception:
            for each in descendants(os.getpid()):
                if each.pid not in before and each.parent == os.getpid():  # what it has started ends with it
                    os.kill(each.pid, signal.SIGKILL)
            if not left:
                raise


def raylet(node: Any) -> int:
    """Id of the process that manages a node."""
    return int(node.all_processes["raylet"][0].process.pid)


class Kills:
    """Who is killed, and when.

    Args:
        nodes: of the cluster.
        seed: of times and victims.
        gap: shortest and longest time between two kills, seconds.
        roles: those to choose from; of each as often as it stands there.
        workers: that the run has.
        node_at: numbers of the kills (from 0) that take a whole node; None: every tenth or so does.
    """

    def __init__(
        self,
        nodes: Nodes,
        seed: int,
        gap: tuple[float, float],
        roles: Sequence[str],
        workers: int,
        node_at: set[int] | None,
    ):
        self._nodes, self._rng, self._gap, self._roles = nodes, random.Random(seed), gap, list(roles)
        self._workers, self._node_at = workers, node_at
        self._begun, self._returns = time.monotonic(), 0.0  # when a lost node comes back; 0: none is lost
        self._adding = threading.Thread(target=self._add)
        self.made: Counter[str] = Counter()  # kills, by role; "node" for a whole one
        self.lost: Counter[str] = Counter()  # processes, killed alone or with their node, by role
        self._choose()

    @property
    def total(self) -> int:
        return sum(self.made.values())

    def step(self, learner: int | None, under: list[Process]) -> None:
        """Kills if it is time to.

        Args:
            learner: its process.
            under: all processes of cluster and run.
        """
        now = time.monotonic()
        if self._returns and now >= self._returns and not self._adding.is_alive():
            self._adding = threading.Thread(target=self._add)  # it may take long: kills go on meanwhile
            self._adding.start()
        if now < self._due:
            return
        workers = [each for each in under if each.role == "worker"]
        if self._next == "node":
            if len(workers) < self._workers and now < self._due + SETTLE_S:
                return
            there = [each.role for each in self._nodes.lose(self._rng)]
            self.lost.update(there)
            self._returns = now + RETURN_S
            self._done("node", f"a node with {there.count('worker')} workers")
            return
        victims = [each.pid for each in under if each.role == self._next]
        if self._next == "learner":
            victims = [] if learner is None else [learner]
        if not victims:
            if now > self._due + SETTLE_S:
                self._choose()
            return
        victim = self._rng.choice(victims)
        os.kill(victim, signal.SIGKILL)
        self.lost[self._next] += 1
        self._done(self._next, f"a {self._next}, process {victim}")

    def _add(self) -> None:
        """A node in place of the lost one; later, where it does not start."""
        try:
            self._nodes.add()
        except Exception as error:
            self._say(f"no new node: {error}")
            self._returns = time.monotonic() + RETURN_S
            return
        self._say("a new node")
        self._returns = 0.0

    def close(self) -> None:
        """Waits for a node that is being added."""
        if self._adding.is_alive():
            self._adding.join()

    def _done(self, role: str, what: str) -> None:
        self.made[role] += 1
        self._say(f"kill {self.total}: {what}")
        self._choose()

    def _choose(self) -> None:
        """The next victim's role, and when."""
        self._due = time.monotonic() + self._rng.uniform(*self._gap)
        chance = self._rng.random() < 0.1
        is_node = chance if self._node_at is None else self.total in self._node_at
        self._next = "node" if is_node and not self._returns else self._rng.choice(self._roles)

    def _say(self, what: str) -> None:
        print(f"{time.monotonic() - self._begun:7.1f} s  {what}", flush=True)


def left_over(seen: set[Process], seconds: float) -> list[Process]:
    """Those of the processes seen that do not end within so many seconds."""
    deadline = time.monotonic() + seconds
    while alive(seen) and time.monotonic() < deadline:
        time.sleep(0.2)
    return alive(seen)
