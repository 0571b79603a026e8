"""One machine of a TPU slice, with its processor in place of TPU cores, for `tests/systems/slice`.

    python tests/tpu_slice.py functions CODE    runs a function on each machine, ends with that code
    python tests/tpu_slice.py unreachable       the same where servers cannot reach the program
    python tests/tpu_slice.py forever           as functions, then calls the last machine until asked to stop
    python tests/tpu_slice.py train FLAGS...    the command, whose variables and updates the last machine has

The environment says which machine it is, as on a real slice, and in WAIT how many seconds others may take.
"""

from __future__ import annotations

import os
import resource
import sys
import time

from rl.cli import main
from rl.errors import AGAIN, MachineLost
from rl.signals import StopRequest
from rl.systems import system
from rl.systems.slice import machines
from rl.systems.slice.hosts import connected, hosts_here, leave_cores_to_server

PLACE = "/job:worker/replica:0/task:{}/device:CPU:0"


def joined():
    """The slice, in the program; the other processes end here."""
    hosts = hosts_here()
    try:
        code = machines.together(hosts, leave_cores_to_server())
    except MachineLost as error:
        print(f"error: {error}", file=sys.stderr)
        code = AGAIN
    if code is not None:
        sys.exit(code)
    return hosts


def computed():
    """Joins the machines, and prints what a function comes to on each of them; returns their number."""
    hosts = joined()
    import tensorflow as tf

    connected(hosts)
    double = tf.function(lambda x: x * 2.0)
    here = tf.constant(21.0)
    print("here", here.device, (here + 1.0).device)
    for i in range(len(hosts.names)):
        with tf.device(PLACE.format(i)):
            there = double(here)
        print("there", there.device, float(there.numpy()))
    with tf.device(PLACE.format(len(hosts.names) - 1)):
        variable = tf.Variable(tf.zeros([2]))
    # The server asks this process for what the function is called with.
    print("added", tf.function(lambda x: variable.assign_add([x, x]))(here).numpy().tolist(), flush=True)
    return len(hosts.names)


def functions(code):
    computed()
    sys.exit(int(code))


def unreachable():
    hosts = joined()
    import tensorflow as tf

    from rl.parallel.devices import Devices

    resolver = connected(hosts._replace(names=("nowhere.invalid", *hosts.names[1:])))
    devices = Devices(on_last_machine(resolver).strategy)
    with devices.scope():
        variable = tf.Variable([0.0, 0.0])

    def add(x):
        return variable.assign_add(x)

    call = devices.compile(add, [tf.TensorSpec([2])], jit_compile=False)
    (added,) = call([[tf.constant([1.0, 2.0])]])
    print("whole", added.numpy().tolist(), variable.device)
    try:
        tf.function(add)(tf.constant([1.0, 2.0]))
    except tf.errors.UnavailableError as error:
        print("from here", "nowhere.invalid" in str(error))


def forever():
    last = PLACE.format(computed() - 1)
    import tensorflow as tf

    square = tf.function(lambda x: tf.linalg.matmul(x, x))
    with StopRequest() as stop:
        print("begun", flush=True)
        while not stop.requested:
            with tf.device(last):
                square(tf.eye(8)).numpy()
            time.sleep(0.01)
    print("saved", flush=True)
    sys.exit(stop.exit_code)


def on_last_machine(resolver):
    """In place of `system._started`: the last machine's processor is the only core of the slice."""
    import tensorflow as tf

    class Strategy(tf.distribute.OneDeviceStrategy):
        """Taken for a TPU's."""

    tf.distribute.TPUStrategy = Strategy
    last = PLACE.format(resolver.cluster_spec().num_tasks("worker") - 1)
    return system.System("tpu", (last,), Strategy(last))


def train(*flags):
    if os.environ["TPU_WORKER_ID"] != "0":  # no checkpoint can be written there, nor much else
        resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
    system._started = on_last_machine
    sys.exit(main(flags))


if __name__ == "__main__":
    machines.WAIT = float(os.environ.get("WAIT", "300"))
    modes = {"functions": functions, "unreachable": unreachable, "forever": forever, "train": train}
    modes[sys.argv[1]](*sys.argv[2:])
