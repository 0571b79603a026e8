"""What a run computes on: `--sys NAME` becomes devices and a `tf.distribute` strategy.

TensorFlow is imported only when a system is asked for, so that names can be listed at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rl.errors import MachineLost, Unavailable, UsageError, nearest


@dataclass(frozen=True)
class System:
    """Holds the devices of a run.

    None of them changes what networks compute in: TF32 (GPU) and bfloat16 passes (TPU) already speed up
    float32 matrix products. `model.precision` does, for networks that are wide enough to gain from it.
    """

    name: str
    devices: tuple[str, ...]  # logical device names, e.g. "/device:CPU:0"
    strategy: Any  # tf.distribute.Strategy


class _Used:
    system: System | None = None


def use_system(name: str) -> System:
    """Returns `get_system(name)`, whose devices are from now on those of this process (`strategy`)."""
    _Used.system = get_system(name)
    return _Used.system


def strategy() -> Any:
    """Returns the `tf.distribute` strategy of the system in use; None before any is."""
    return None if _Used.system is None else _Used.system.strategy


def get_system(name: str) -> System:
    """Returns the system called `name`. Raises UsageError when there is none, or its device is not there."""
    if name not in _SYSTEMS:
        raise UsageError(f"no system is called {name!r}; {nearest(name, _SYSTEMS)} (--sys)")
    return _SYSTEMS[name]()


def _local() -> System:
    """The processor of this machine; an accelerator that is there is left alone."""
    import tensorflow as tf

    if tf.config.list_physical_devices("GPU"):  # a TPU does nothing unless it is asked to
        _before_start(lambda: tf.config.set_visible_devices([], "GPU"))
    return System("local", ("/device:CPU:0",), tf.distribute.get_strategy())


def _gpu() -> System:
    """The GPUs of this machine; with several they share the environments, the batches and the updates."""
    import tensorflow as tf

    gpus = tf.config.list_physical_devices("GPU")
    if not gpus:
        if tf.test.is_built_with_gpu_support():
            kind = _missing()
            advice = "is the driver loaded (nvidia-smi), and does CUDA_VISIBLE_DEVICES name one?"
        else:
            kind = UsageError  # nor would it see one on another machine
            advice = "this TensorFlow is built without GPU support: run ./setup.sh --sys gpu"
        raise kind(f"--sys gpu: TensorFlow sees no GPU; {advice}, or use --sys local")

    def configure() -> None:
        for gpu in gpus:  # environments that render need some of its memory too
            tf.config.experimental.set_memory_growth(gpu, True)

    _before_start(configure)
    names = tuple(f"/device:GPU:{i}" for i in range(len(gpus)))
    if len(gpus) == 1:  # the default strategy already places everything on it, and costs nothing
        return System("gpu", names, tf.distribute.get_strategy())
    return System("gpu", names, tf.distribute.MirroredStrategy(list(names)))


def _tpu() -> System:
    """The TPU cores of this machine or its slice, which share environments, batches and updates."""
    from rl.systems.slice.hosts import connected, hosts_here

    hosts = hosts_here()
    import tensorflow as tf

    failures = (tf.errors.OpError, ValueError, RuntimeError, OSError)
    if hosts is None:
        try:
            return _started(tf.distribute.cluster_resolver.TPUClusterResolver("local"))
        except failures as error:
            kind = _missing()
            # A Pod has been given a TPU: why it cannot be had, such as rights, is known by its words alone.
            what = type(error).__name__ if kind is UsageError else _first_line(error)
            raise kind(_no_tpu(what)) from error
    try:
        return _started(connected(hosts))
    except failures as error:  # wrong input it is not: on another try the machines may be well
        what = f"the cores of the {len(hosts.names)} machines do not start"
        raise MachineLost(f"{what} ({_first_line(error)})") from error


def _first_line(error: Exception) -> str:
    return " ".join([type(error).__name__, *str(error).splitlines()[:1]])


def _missing() -> type[UsageError]:
    """The kind of error that a missing accelerator is: in a Pod of Kubernetes, which has been given one, what
    is wrong is the machine, and on another one all may be well; elsewhere it is wrong input."""
    return Unavailable if "KUBERNETES_SERVICE_HOST" in os.environ else UsageError


def _started(resolver: Any) -> System:
    """Starts the cores that a resolver knows of: the one step that nothing but a TPU can make."""
    import tensorflow as tf

    tf.tpu.experimental.initialize_tpu_system(resolver)
    devices = tuple(core.name for core in tf.config.list_logical_devices("TPU"))
    if not devices:
        raise RuntimeError("no device")
    return System("tpu", devices, tf.distribute.TPUStrategy(resolver))


def _gcp() -> System:
    """The ancestor's name for tpu."""
    print("--sys gcp is the old name of --sys tpu", file=sys.stderr)
    return _tpu()


def _no_tpu(what: str) -> str:
    return (
        f"--sys tpu: no TPU is attached to this machine ({what}); on a TPU machine run ./setup.sh --sys tpu, "
        "elsewhere use --sys local or --sys gpu"
    )


def _before_start(configure: Callable[[], None]) -> None:
    """Sets devices up where TensorFlow has not started; where it has (a notebook), they stay as they are."""
    try:
        configure()
    except RuntimeError as error:
        if "initialized" not in str(error):
            raise


_SYSTEMS: dict[str, Callable[[], System]] = {"local": _local, "gpu": _gpu, "tpu": _tpu, "gcp": _gcp}
