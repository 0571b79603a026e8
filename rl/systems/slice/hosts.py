"""The machines of a TPU slice, which compute for one program.

TensorFlow joins them as its own tools do (tensorflow/python/tools/grpc_tpu_worker.py in its repository,
tensorflow/python/tpu/client/client.py in the package): on every machine a gRPC server has the cores of that
machine; the program, on machine 0, holds none and connects to all servers. `machines.py` starts them.

Google Kubernetes Engine tells each container of a slice its place: TPU_WORKER_ID, TPU_WORKER_HOSTNAMES.
"""

from __future__ import annotations

import os
import socket
from typing import Any, NamedTuple

from rl.errors import MachineLost, UsageError

SERVER_PORT = 8470  # of TensorFlow's servers, by default: tensorflow/python/tpu/client/client.py
CONTROL_PORT = 8480  # of machine 0, where the others say that they are there and learn how it ended
PORTS = "RL_TPU_PORTS"  # SERVER,CONTROL in place of these two; 0 for SERVER takes any free port
MESH_PORT = 8476  # of libtpu, on machine 0: tensorflow/python/tools/grpc_tpu_worker.py
ENDPOINTS = "KUBE_GOOGLE_CLOUD_TPU_ENDPOINTS"  # what TPUClusterResolver reads
NAMES, INDEX = "TPU_WORKER_HOSTNAMES", "TPU_WORKER_ID"
PROGRAM = "localhost"  # the job of the program in TensorFlow's cluster; the servers' is "worker"


class Hosts(NamedTuple):
    """Names the machines of a slice; this one is the `place`-th, from 0."""

    place: int
    names: tuple[str, ...]
    server_port: int = SERVER_PORT
    control_port: int = CONTROL_PORT

    def described(self, place: int) -> str:
        """Returns how messages call a machine."""
        return f"machine {place} ({self.names[place]})"


def hosts_here() -> Hosts | None:
    """Returns the slice that this machine is part of; None where it has one machine, or there is none.

    Raises:
        UsageError: the environment contradicts itself.
    """
    names = tuple(name.strip() for name in os.environ.get(NAMES, "").split(","))
    if len(names) == 1:
        return None
    count, index = len(names), os.environ.get(INDEX, "").strip()
    what = f"{NAMES} names {count} machines of a TPU slice"
    if not all(names):
        raise UsageError(f"{NAMES}={os.environ[NAMES]}: one of the names is empty")
    if not index:
        raise UsageError(f"{what}, but {INDEX} is not set: needs this machine's place, 0 to {count - 1}")
    if not index.isdecimal() or int(index) >= count:
        raise UsageError(f"{INDEX}={index}: {what}, so it needs a number from 0 to {count - 1}")
    return Hosts(int(index), names, *_ports())


def _ports() -> tuple[int, int]:
    text = os.environ.get(PORTS, f"{SERVER_PORT},{CONTROL_PORT}")
    numbers = [word.strip() for word in text.split(",")]
    if len(numbers) != 2 or not all(word.isdecimal() and int(word) < 65536 for word in numbers):
        raise UsageError(f"{PORTS}={text}: needs two ports, SERVER,CONTROL, such as 8470,8480")
    return int(numbers[0]), int(numbers[1])


def leave_cores_to_server() -> dict[str, str]:
    """Has TensorFlow take no TPU cores when it is imported here.

    Returns the environment as it was, which is the one of this machine's server.
    """
    before = dict(os.environ)
    # Read when TensorFlow is loaded: xla/stream_executor/tpu/tpu_initializer_helper.cc in openxla/xla.
    os.environ["TPU_LOAD_LIBRARY"] = "0"
    # The other way to libtpu (PJRT): tensorflow/__init__.py loads the library that is named here.
    os.environ.pop("TF_PLUGGABLE_DEVICE_LIBRARY_PATH", None)
    return before


def server_environment(hosts: Hosts, base: dict[str, str]) -> dict[str, str]:
    """Returns the environment of the server of this machine's cores; what `base` has already stays.

    Shape and type of the slice (TPU_HOST_BOUNDS, TPU_TOPOLOGY, TPU_ACCELERATOR_TYPE, ...) are there: the
    device plugin of Google Kubernetes Engine sets them (pkg/tpu/util in
    ai-on-gke/tpu-device-plugin). What else TensorFlow's own tool sets:
    tensorflow/python/tools/grpc_tpu_worker.py.
    """
    added = {
        "CLOUD_TPU_TASK_ID": str(hosts.place),
        "TPU_MESH_CONTROLLER_ADDRESS": f"{hosts.names[0]}:{MESH_PORT}",
        "TPU_MESH_CONTROLLER_PORT": str(MESH_PORT),
        "TPU_HOSTNAME_OVERRIDE": hosts.names[hosts.place],
        "TPU_LOCK_DEVICE": "true",
    }
    return added | base


def connected(hosts: Hosts) -> Any:
    """Connects this process to the servers of all machines; returns their `TPUClusterResolver`.

    Operations outside a device's scope stay here: `make_master_device_default` would send every one of them,
    and with them the host's environments, to machine 0's server.

    Raises:
        UsageError: nothing has started the servers.
        MachineLost: one of them does not answer.
    """
    import tensorflow as tf

    if ENDPOINTS not in os.environ:
        raise UsageError(
            f"--sys tpu: this TPU slice is {len(hosts.names)} machines: start the same command on "
            "each of them; a notebook's process alone cannot use them"
        )
    # By its name servers reach the program; without one they are told "localhost", which is themselves.
    address = f"{hosts.names[0]}:{_free_port()}"
    resolver = tf.distribute.cluster_resolver.TPUClusterResolver(
        os.environ[ENDPOINTS], coordinator_name=PROGRAM, coordinator_address=address
    )
    try:
        tf.config.experimental_connect_to_cluster(
            resolver, job_name=PROGRAM, make_master_device_default=False
        )
    except tf.errors.OpError as error:
        raise MachineLost(f"the servers of the TPU slice do not answer ({type(error).__name__})") from error
    return resolver


def _free_port() -> int:
    with socket.create_server(("", 0)) as door:
        return int(door.getsockname()[1])
