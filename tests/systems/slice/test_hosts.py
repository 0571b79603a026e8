"""What a machine is told of its TPU slice, and what its processes are told."""

from __future__ import annotations

import os

import pytest

from rl.cli import main
from rl.errors import UsageError
from rl.systems import get_system
from rl.systems.slice.hosts import Hosts, hosts_here, leave_cores_to_server, server_environment

VARIABLES = ("TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID", "RL_TPU_PORTS", "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS")


@pytest.fixture(autouse=True)
def place(monkeypatch):
    """Sets a machine's place, as Google Kubernetes Engine does."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)

    def set_to(names, index=None, **more):
        given = {"TPU_WORKER_HOSTNAMES": names, "TPU_WORKER_ID": index} | more
        for name, value in given.items():
            if value is not None:
                monkeypatch.setenv(name, value)

    return set_to


def test_a_machine_alone_is_no_slice_of_several(place):
    assert hosts_here() is None
    place("localhost", "0")  # what the device plugin sets on machines that are slices by themselves
    assert hosts_here() is None


def test_a_machine_knows_its_place_and_its_ports(place):
    place("a.slice, b.slice", "1")
    assert hosts_here() == Hosts(1, ("a.slice", "b.slice"), 8470, 8480)
    place("a.slice,b.slice", "1", RL_TPU_PORTS="0,9000")
    assert hosts_here()[2:] == (0, 9000)


@pytest.mark.parametrize(
    ("names", "index", "ports", "what"),
    [
        ("a,b", None, None, "names 2 machines of a TPU slice, but TPU_WORKER_ID is not set"),
        ("a,b", "2", None, "TPU_WORKER_ID=2: .* a number from 0 to 1"),
        ("a,b", "-1", None, "TPU_WORKER_ID=-1: .* a number from 0 to 1"),
        ("a,b", "one", None, "TPU_WORKER_ID=one: .* a number from 0 to 1"),
        ("a,,b", "0", None, "TPU_WORKER_HOSTNAMES=a,,b: one of the names is empty"),
        ("a,b,", "0", None, "one of the names is empty"),
        ("a,b", "0", "8470", "RL_TPU_PORTS=8470: needs two ports"),
        ("a,b", "0", "8470,70000", "needs two ports"),
    ],
)
def test_an_environment_that_contradicts_itself_is_one_clear_line(
    place, capsys, tmp_path, names, index, ports, what
):
    place(names, index, RL_TPU_PORTS=ports)
    with pytest.raises(UsageError, match=what):
        hosts_here()
    folder = tmp_path / "out"
    assert main(["--sys", "tpu", "--hparams", "ppo_catch", "--output_dir", str(folder)]) == 2
    err = capsys.readouterr().err
    assert err.startswith("error: ") and err.count("\n") == 1 and not folder.exists()


@pytest.mark.parametrize(
    "more", [["--num_workers", "2", "--hparams", "impala_cartpole"], ["--parallel", "2", "--copies", "2"]]
)
def test_other_processes_that_would_need_the_cores_are_refused(place, capsys, more):
    place("a,b", "0")
    before = dict(os.environ)
    assert main(["--sys", "tpu", "--hparams", "ppo_catch", *more]) == 2
    assert f"{more[0]} 2 and a TPU slice of 2 machines: take a slice of one" in capsys.readouterr().err
    assert os.environ.get("TPU_LOAD_LIBRARY") == before.get("TPU_LOAD_LIBRARY")


def test_a_process_without_servers_is_told_to_start_the_command_on_each_machine(place):
    place("a,b", "0")
    with pytest.raises(UsageError, match=r"this TPU slice is 2 machines: start the same command on each"):
        get_system("tpu")


def test_cores_are_the_server_s_and_not_the_program_s(monkeypatch):
    monkeypatch.setenv("TPU_LOAD_LIBRARY", "1")
    monkeypatch.setenv("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", "/lib/libtpu.so")
    before = leave_cores_to_server()
    assert os.environ["TPU_LOAD_LIBRARY"] == "0" and "TF_PLUGGABLE_DEVICE_LIBRARY_PATH" not in os.environ
    server = server_environment(Hosts(1, ("a", "b")), before | {"TPU_LOCK_DEVICE": "false"})
    assert server["TPU_LOAD_LIBRARY"] == "1"
    assert server["TF_PLUGGABLE_DEVICE_LIBRARY_PATH"] == "/lib/libtpu.so"
    # As tensorflow/python/tools/grpc_tpu_worker.py has them, but for what is there already.
    assert {name: server[name] for name in server.keys() - before.keys()} == {
        "CLOUD_TPU_TASK_ID": "1",
        "TPU_MESH_CONTROLLER_ADDRESS": "a:8476",
        "TPU_MESH_CONTROLLER_PORT": "8476",
        "TPU_HOSTNAME_OVERRIDE": "b",
        "TPU_LOCK_DEVICE": "false",
    }
