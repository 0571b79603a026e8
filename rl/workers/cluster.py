"""Ray: joined where an address is given, else started on this machine and ended with the run."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rl.errors import LearnerLost, Unavailable, UsageError
from rl.signals import kept_handlers
from rl.storage.files import may_pass
from rl.workers.plan import check_address, check_ray

QUIET = {"enable_task_events": False}  # of actors; else the cluster's head keeps a record of every rollout
BEHIND = 5  # by how much the niceness of workers is above that of the learner
_log = logging.getLogger("rl.workers.ray")
STARTS = 3  # of a Ray of this run's own, until one succeeds
CHECK = 2.0  # seconds between two looks at Ray's process on this machine


class Cluster:
    """A connection to Ray.

    Args:
        address: of a running cluster ("auto" finds the one of this machine); None starts one of its own.
        processes: how many it is to hold side by side.

    Raises:
        UsageError: Ray is missing, or nothing answers at `address`; Unavailable where a Ray of its own may
            start later.
    """

    def __init__(self, address: str | None, processes: int):
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # reports nothing to anyone
        os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")
        # Ray's own 15 puts workers behind whatever else runs on the machine. A little behind the learner, for
        # which all of them wait, is enough.
        os.environ.setdefault("RAY_worker_niceness", str(min(os.nice(0) + BEHIND, 19)))
        check_ray()
        import ray

        _quiet(ray)
        self.ray: Any = ray
        self._processes = processes
        self._own = not ray.is_initialized()
        self._checked = 0.0
        self._folder: Path | None = None  # where Ray has its sockets and logs, if it was started here
        if not self._own:
            return
        options: dict[str, Any] = {"log_to_driver": False, "logging_level": "ERROR"}
        if address is None:
            # Workers mostly wait (for environments, for the learner): more of them than cores are welcome.
            options |= {"address": "local", "num_cpus": max(processes, os.cpu_count() or 1) + 1}
            options |= {"include_dashboard": False, "_node_ip_address": "127.0.0.1"}
        else:
            check_address(address)
            options["address"] = address
        try:
            with kept_handlers(), _environment(ray, local=address is None):
                context = _connected(ray, options, STARTS if address is None else 1)
        except Exception as error:  # Ray raises all kinds, a bare Exception where its start takes too long
            what = str(error).strip().split("\n")[0]
            where = "on this machine" if address is None else f"at {address}"
            kind = Unavailable if _starts_later(error, local=address is None) else UsageError
            raise kind(f"cannot use Ray {where}: {what}") from error
        if address is None:
            self._folder = Path(context.address_info["session_dir"])

    def check(self, now: bool = False) -> None:
        """Checks now and then whether Ray's own processes still run, if they were started here: without them
        nothing arrives any more. Call it often: 10 s after the raylet's end, and a minute after the head's,
        Ray ends this process without a message, or leaves it waiting.

        now: checks at once, even if the last check was just before.

        Raises:
            LearnerLost: one is gone.
        """
        if time.monotonic() - self._checked < CHECK and not now:
            return
        self._checked = time.monotonic()
        for role in ("raylet", "gcs_server"):
            process = self._process(role)
            if process is not None and process.poll() is not None:
                raise LearnerLost(f"Ray's process on this machine ({role}) is gone; the same command goes on")

    def _process(self, role: str) -> Any:
        """One of Ray's own, None where it was not started here."""
        node = self.ray._private.worker._global_node
        found = node.all_processes.get(role) if self._own and node is not None else None
        return found[0].process if found else None

    def here(self) -> Any:
        """Returns the scheduling strategy of an actor that is to be on this process's node."""
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        return NodeAffinitySchedulingStrategy(self.ray.get_runtime_context().get_node_id(), soft=True)

    def tell_of_room(self) -> None:
        """Warns if the cluster has fewer cores than processes: the remaining ones start when it grows."""
        room = int(self.ray.cluster_resources().get("CPU", 0))
        if room < self._processes:
            what = "the cluster has cores for %d of %d processes: the others wait for one"
            _log.warning(what, room, self._processes)

    def close(self, keep_logs: bool = False) -> None:
        """Leaves the cluster; one that was started here ends, with all its processes and files.

        keep_logs: Ray's own files stay: what a worker that was lost wrote before its end is among them.
        """
        if self._own and self.ray.is_initialized():
            with kept_handlers(), contextlib.suppress(Exception):
                self.ray.shutdown()
            if self._folder is not None and not keep_logs:
                shutil.rmtree(self._folder, ignore_errors=True)


@contextlib.contextmanager
def _environment(ray: Any, local: bool) -> Iterator[None]:
    """What processes that Ray starts within it inherit: the paths to this package and to modules of the
    user's own; and where all is `local`, that Ray listens on loopback alone, as it does on laptops."""
    constants, lan = ray._private.ray_constants, "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"
    path = os.environ.get("PYTHONPATH")
    paths = [str(Path(__file__).resolve().parents[2]), os.getcwd(), *filter(None, [path])]
    before = {"PYTHONPATH": path, lan: os.environ.get(lan)}
    clustered = constants.ENABLE_RAY_CLUSTER
    os.environ["PYTHONPATH"] = os.pathsep.join(paths)
    if local:
        os.environ[lan], constants.ENABLE_RAY_CLUSTER = "0", False
    try:
        yield
    finally:
        constants.ENABLE_RAY_CLUSTER = clustered
        for name, value in before.items():
            os.environ.pop(name, None)
            if value is not None:
                os.environ[name] = value


def _connected(ray: Any, options: dict[str, Any], tries: int) -> Any:
    """What `ray.init` returns. Ray gives its processes 30 s to start, a very busy machine may not."""
    while True:
        tries -= 1
        try:
            return ray.init(**options)
        except Exception:
            ray.shutdown()
            if tries == 0:
                raise


def _starts_later(error: Exception, local: bool) -> bool:
    """Says whether the same start may succeed later: a full disk may be emptied, and Ray's own processes, if
    they are to start here, may have been too slow on a busy machine. A plain Exception or a RuntimeError says
    that (`ray/_private/node.py`); wrong settings are other kinds."""
    return may_pass(error) or (local and type(error) in (Exception, RuntimeError))


def _quiet(ray: Any) -> None:
    """Keeps Ray from printing a paragraph over the progress line for every process that ends, since the
    worker pool logs one line. Ray has no setting for it (`log_to_driver` is about workers' own output)."""
    printer = "print_to_stdstream"
    if hasattr(ray._private.worker, printer):
        setattr(ray._private.worker, printer, lambda data, **_: _log.debug("Ray: %s", data.get("lines")))


def lost_on_the_way(error: Exception) -> bool:
    """Says whether Ray's error means that an object was lost with its machine while it was sent to a process
    that is still running."""
    import ray

    lost = ray.exceptions.ObjectLostError
    return isinstance(error, lost) or isinstance(getattr(error, "cause", None), lost)
