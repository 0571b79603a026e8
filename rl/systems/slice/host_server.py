"""Serves the TPU cores of one machine of a slice: `python -m rl.systems.slice.host_server PARENT PORT`.

It prints the port that it serves on, and ends with the process that started it.
"""

from __future__ import annotations

import signal
import sys

from rl.imports import import_tensorflow
from rl.signals import end_with_parent


def serve(port: int) -> None:
    """Serves what a program on machine 0 asks for; does not return.

    port: 0 takes any free one.
    """
    import_tensorflow()
    import tensorflow as tf

    # Each server knows itself alone; the program that connects tells it of the others. Name and shape are
    # those of tensorflow/python/tools/grpc_tpu_worker.py.
    server = tf.distribute.Server({"tpu_worker": [f"localhost:{port}"]}, "tpu_worker", 0, protocol="grpc")
    print(server.target.rpartition(":")[2], flush=True)
    server.join()


if __name__ == "__main__":
    end_with_parent(int(sys.argv[1]), signal.SIGKILL)
    serve(int(sys.argv[2]))
