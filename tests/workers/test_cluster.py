"""A cluster of several nodes: what is lost with a worker's process or a whole node is replaced."""

from __future__ import annotations

import errno
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rl.errors import LearnerLost, Unavailable, UsageError
from rl.workers import cluster as clusters

ROOT = Path(__file__).resolve().parents[2]
REPLACED = re.compile(r"worker (\d+) .*: a new one takes its place")


@pytest.fixture
def cluster(monkeypatch):
    """A head, where the learner is, and two nodes with room for all workers each."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))  # of the workers' processes
    monkeypatch.setenv("RAY_USAGE_STATS_ENABLED", "0")
    monkeypatch.setenv("RAY_worker_niceness", "0")
    from ray.cluster_utils import Cluster

    store = 80 * 2**20
    head = {"num_cpus": 0, "include_dashboard": False, "object_store_memory": store}
    made = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        made.add_node(num_cpus=2, object_store_memory=store)
    folder = made.head_node.get_session_dir_path()
    yield made
    made.shutdown()
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.slow
def test_a_run_survives_the_loss_of_a_worker_and_of_a_node(cluster, command, tmp_path):
    words = ["--hparams", "ppo_cartpole", "--train_steps", "5000000", "--output_dir", tmp_path]
    words += ["--hparam_override", "log_period=2000,compile=graph,sync_workers=false", "--num_workers", 2]
    process = command(*words, "--ray_address", cluster.address, wait=False)
    run_dir = tmp_path / "run_0"

    def trains_on():
        """Waits for three more rows of metrics."""
        rows = len(read(run_dir / "metrics.csv").splitlines())
        until(lambda: len(read(run_dir / "metrics.csv").splitlines()) >= max(rows, 1) + 3, process)

    def replaced():
        """Which workers were, one after another, by the log."""
        return REPLACED.findall(read(run_dir / "train.log"))

    trains_on()
    os.kill(workers(cluster)[0], signal.SIGKILL)
    until(lambda: len(replaced()) == 1, process)
    until(lambda: len(workers(cluster)) == 2, process)
    node = next(each for each in cluster.worker_nodes if children(raylet(each), "ray::Worker"))
    lost = len(children(raylet(node), "ray::Worker"))
    cluster.remove_node(node, allow_graceful=False)
    # More than those lost may be: until the cluster notices, it gives new ones to the node that is gone.
    until(lambda: len(replaced()) >= 1 + lost, process)
    until(lambda: len(workers(cluster)) == 2, process)
    trains_on()
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 143, (out, err)
    rows = [line.split(",") for line in read(run_dir / "perf.csv").splitlines()]
    assert float(rows[-1][rows[0].index("perf/workers_replaced")]) == len(replaced())
    until(lambda: not actors(cluster))


@pytest.mark.parametrize(
    ("error", "passes"),
    [
        (Exception("The current node timed out during startup."), True),
        (RuntimeError("Failed to start GCS."), True),
        (OSError(errno.ENOSPC, "No space left on device"), True),
        (PermissionError(errno.EACCES, "Permission denied"), False),
        (ValueError("wrong settings"), False),
    ],
)
def test_a_ray_that_starts_too_slowly_is_no_mistake_of_the_person(monkeypatch, error, passes):
    import ray

    def init(**_):
        raise error

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "is_initialized", lambda: False)  # whatever tests before have started
    with pytest.raises(UsageError, match="cannot use Ray on this machine") as raised:
        clusters.Cluster(None, 1)
    assert isinstance(raised.value, Unavailable) == passes


PROGRAM = """
from rl.workers.cluster import Cluster
cluster = Cluster(None, 1)
folder = cluster._folder
print(sorted(each.name for each in folder.iterdir() if each.name in ("logs", "sockets")))
cluster.tell_of_room()
Cluster(None, 10_000).tell_of_room()  # another user of the same one
cluster.close()
print(folder.exists())
"""


@pytest.mark.slow
def test_a_cluster_of_the_run_s_own_leaves_no_files_and_tells_where_workers_will_wait():
    words = [sys.executable, "-c", PROGRAM]
    done = subprocess.run(words, capture_output=True, text=True, cwd=ROOT, timeout=180)
    assert done.stdout.splitlines() == ["['logs', 'sockets']", "False"], done.stderr
    (warning,) = [line for line in done.stderr.splitlines() if "the others wait" in line]
    assert "of 10000 processes" in warning


def read(path):
    return path.read_text() if path.exists() else ""


def raylet(node):
    """Id of the process that manages a node."""
    return node.all_processes["raylet"][0].process.pid


def children(parent, title):
    """Ids of the living processes of that title that one has started."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            try:
                state, up = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                name = (folder / "cmdline").read_text()
            except OSError:  # it has just ended
                continue
            if int(up) == parent and state != "Z" and name.startswith(title):
                found.append(int(folder.name))
    return found


def workers(cluster):
    return [pid for node in cluster.list_all_nodes() for pid in children(raylet(node), "ray::Worker")]


def actors(cluster):
    """All processes of a run that the cluster has."""
    nodes = cluster.list_all_nodes()
    return [
        pid
        for each in nodes
        for name in ("Worker", "Weights")
        for pid in children(raylet(each), f"ray::{name}")
    ]


def until(true, process=None):
    """Waits for it, as long as the process lives."""
    deadline = time.monotonic() + 180.0
    while not true():
        assert time.monotonic() < deadline
        assert process is None or process.poll() is None, process.communicate()
        time.sleep(0.1)


@pytest.mark.parametrize("role", ["raylet", "gcs_server"])
def test_a_ray_of_which_a_process_is_gone_ends_the_run_for_now(ray_here, monkeypatch, role):
    one = clusters.Cluster(None, 1)
    process = subprocess.Popen(["sleep", "600"])  # in its place
    monkeypatch.setattr(one, "_process", lambda name: process if name == role else None)
    monkeypatch.setattr(clusters, "CHECK", 0.0)
    one.check()
    process.kill()
    process.wait()
    with pytest.raises(LearnerLost, match=f"{role}.* is gone"):
        one.check()


@pytest.mark.slow
def test_a_run_whose_raylet_is_killed_goes_on_with_another(command, tmp_path):
    pytest.importorskip("ray")
    words = ["--hparams", "ppo_cartpole", "--train_steps", "50000000", "--output_dir", tmp_path]
    words += [
        "--hparam_override",
        "log_period=2000,compile=graph,checkpoint_period=2,sync_workers=false",
        "--num_workers",
        1,
    ]
    process = command(*words, wait=False)
    run_dir = tmp_path / "run_0"
    until(lambda: list((run_dir / "checkpoints").glob("step_*")), process)
    time.sleep(30.0)  # a learner that lives less is soon given up
    (learner,) = children(process.pid, sys.executable)
    program = Path(sys.modules["ray"].__file__).parent / "core/src/ray/raylet/raylet"
    os.kill(children(learner, str(program))[0], signal.SIGKILL)
    until(lambda: "resumed at step" in read(run_dir / "train.log"), process)
    process.send_signal(signal.SIGTERM)
    assert "Ray's process on this machine (raylet) is gone" in process.communicate()[1]
    assert process.returncode == 143
