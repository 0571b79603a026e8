"""The devices that a run computes on: one, or several that learn together.

`tf.distribute` holds the variables, one copy on each device (`MirroredStrategy`, `TPUStrategy`). Each device
plays and learns from its own part of the environments, with the same weights; sums over all parts go through
`rl.parallel.replicas`. Runners compile with `Devices`; processes with one device (`rl.workers`) use only
`compiled`.

A TPU compiles the whole function for all its cores. Other devices each run their own function, from their own
thread: within one function, collective operations in two loops would deadlock, since TensorFlow names an
exchange after the loop that it is in. XLA cannot compile these exchanges; with several devices, only parts
without them are compiled (`compiled_part`).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any

import tensorflow as tf
from tensorflow.python.eager import context as eager_context

from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.parallel import replicas
from rl.parallel.fused import fusing
from rl.types import Tensor

# State that differs from device to device; everything else is the same on all of them.
OWN = ("env/", "memory/", "host/", "reward_scale/discounted_return")


class Devices:
    """The devices of a strategy.

    Args:
        strategy: of `tf.distribute`; None: the one in whose scope this is called, by default a single device.
    """

    def __init__(self, strategy: tf.distribute.Strategy | None = None):
        self._strategy = tf.distribute.get_strategy() if strategy is None else strategy
        self.count: int = self._strategy.num_replicas_in_sync
        self._tpu = isinstance(self._strategy, tf.distribute.TPUStrategy)
        self._threads = ThreadPoolExecutor(self.count, "device") if self.count > 1 else None

    @contextlib.contextmanager
    def scope(self) -> Iterator[None]:
        """Gives every variable that is made in the `with` block a copy on each device, which is assigned
        independently of the others."""
        if not self._spread:
            yield
            return
        with self._strategy.scope(), tf.variable_creator_scope(_unaggregated), replicas.devices(self.count):
            yield

    @property
    def _spread(self) -> bool:
        return self.count > 1 or self._tpu

    def compile(
        self, function: Callable[..., Tensor], signature: list[Any], jit_compile: bool, fuse: bool = False
    ) -> Any:
        """Compiles `function` for every device, at the first call; with `fuse` its parts by XLA
        (`rl.parallel.fused`), where it is for one device.

        Returns a function of a list of arguments for each device, which gives the list of results.
        """
        if self._tpu:
            return self._for_tpu(function, signature)
        made: list[Any] = []

        def call(arguments: list[list[Any]]) -> list[Tensor]:
            if not made:
                made.extend(self._traced(function, signature, jit_compile, fuse))
            return self._called(made, arguments)

        return call

    def _traced(
        self, function: Callable[..., Tensor], signature: list[Any], jit_compile: bool, fuse: bool
    ) -> list[Any]:
        if self.count == 1:
            with fusing(fuse):
                return [concrete(function, signature, jit_compile)]
        found = []
        for place, device in enumerate(self._strategy.extended.worker_devices):
            here = tf.distribute.ReplicaContext(self._strategy, place)
            with self.scope(), here, tf.device(device):
                found.append(concrete(function, signature, jit_compile=False))
        return found

    def _called(self, functions: list[Any], arguments: list[list[Any]]) -> list[Tensor]:
        if self._threads is None:
            return [called(functions[0], arguments[0])]
        devices = self._strategy.extended.worker_devices

        def call(place: int) -> Tensor:
            with tf.device(devices[place]):
                return functions[place](*arguments[place])

        running = [self._threads.submit(call, place) for place in range(self.count)]
        done, _ = wait(running, return_when=FIRST_EXCEPTION)
        failed = [error for error in (each.exception() for each in done) if error is not None]
        if failed:  # the others wait for what it was to send; there is no public way to end that
            eager_context.context().abort_collective_ops(tf.errors.INTERNAL, "a device failed")
            raise failed[0]
        return [each.result() for each in running]

    def _for_tpu(self, function: Callable[..., Tensor], signature: list[Any]) -> Any:
        strategy = self._strategy
        # The cores may be other machines', to whose first the whole function goes: its parts then exchange
        # what they need there, and nothing waits for this process between them.
        first = tf.DeviceSpec.from_string(strategy.extended.worker_devices[0])
        host = first.replace(device_type="CPU", device_index=0).to_string()

        @tf.function(autograph=False)
        def whole(arguments: list[Any]) -> Any:
            with replicas.devices(self.count):
                return strategy.run(function, tuple(arguments))

        def call(arguments: list[Any]) -> list[Tensor]:
            spread = [
                strategy.experimental_distribute_values_from_function(
                    lambda context, i=i: arguments[context.replica_id_in_sync_group][i]
                )
                for i in range(len(signature))
            ]
            with tf.device(host):
                return list(strategy.experimental_local_results(whole(spread)))

        return call

    def compiled_part(self, function: Callable[..., Any], jit_compile: bool) -> Callable[..., Any]:
        """Returns `function` compiled by XLA by itself, where it is part of one that as a whole cannot be."""
        if self.count == 1 or self._tpu or not jit_compile:
            return function
        # One for each device: they capture different variables.
        parts = [tf.function(function, jit_compile=True, autograph=False) for _ in range(self.count)]
        return lambda *arguments: parts[replicas.rank()](*arguments)

    def values(self, variable: Any) -> list[Any]:
        """Returns the copies of `variable` on the devices."""
        variable = getattr(variable, "value", variable) if not isinstance(variable, tf.Variable) else variable
        return list(self._strategy.experimental_local_results(variable))

    def named(self, variables: dict[str, Any]) -> dict[str, Any]:
        """Returns the variables of a checkpoint: those that differ between devices are listed for each
        device."""
        if self.count == 1:
            return variables
        found = dict(variables)
        for name, variable in variables.items():
            if name.startswith(OWN):
                found |= {_name(name, place): each for place, each in enumerate(self.values(variable))}
        return found

    def appended(self, rows: dict[str, int]) -> dict[str, int]:
        """Returns the rows ever appended to variables, by name, as `named` lists them: of every device
        alike."""
        return {_name(name, place): each for name, each in rows.items() for place in range(self.count)}

    def part(self, hparams: HParams, experience: str) -> HParams:
        """Returns the hyperparameters of one device's part.

        Raises:
            UsageError: it cannot be divided.
        """
        if self.count == 1 or experience == "parameters":  # a population is not divided, only its play
            if hparams.num_envs % self.count:
                raise UsageError(_indivisible("num_envs", hparams.num_envs, self.count))
            return hparams
        divided = ["num_envs"]
        if experience != "rollout":
            divided += ["batch_size", "replay_capacity", "min_replay_size"]
        own = type(hparams).from_dict(hparams.to_dict())
        for name in divided:
            value = getattr(hparams, name)
            if value % self.count and name != "min_replay_size":
                raise UsageError(_indivisible(name, value, self.count))
            setattr(own, name, -(-value // self.count))
        return own.freeze()

    def close(self) -> None:
        """Ends the threads."""
        if self._threads is not None:
            self._threads.shutdown()


def concrete(function: Callable[..., Any], signature: list[Any], jit_compile: bool) -> Any:
    """Returns the function compiled for that signature, whose calls check nothing; as it is where TensorFlow
    runs functions eagerly."""
    traced = tf.function(function, signature, jit_compile=jit_compile, autograph=False)
    return traced if tf.config.functions_run_eagerly() else traced.get_concrete_function()


def called(function: Any, arguments: list[Any]) -> Any:
    """Calls what `concrete` returned. TensorFlow's own call first looks for each tensor by the name of its
    argument, which takes a third of the time of a call that computes little."""
    flat = getattr(function, "_call_flat", None)  # not of functions that run eagerly
    return function(*arguments) if flat is None else flat(arguments, function.captured_inputs)


def compiled(
    function: Callable[..., Any], signature: list[Any], jit_compile: bool, fuse: bool = False
) -> Callable[[list], Any]:
    """Returns `concrete`, as a function of a list of arrays; with `fuse` its parts by XLA
    (`rl.parallel.fused`)."""
    with fusing(fuse):
        call = concrete(function, signature, jit_compile)
    return lambda arrays: called(call, [tf.constant(each) for each in arrays])


def fuses(agent: Any, jit_compile: bool) -> bool:
    """Returns whether learning is compiled as a graph because of `compile=auto`: then XLA compiles parts of
    it, which takes about a second. With `compile=graph` nothing is compiled by XLA."""
    return not jit_compile and agent.hparams.compile == "auto"


def _indivisible(name: str, value: int, count: int) -> str:
    return f"{count} devices cannot share {name}={value}: take a multiple of {count}, or fewer devices"


def _name(name: str, place: int) -> str:
    return name if place == 0 else f"device_{place}/{name}"


def _unaggregated(make: Callable[..., Any], **options: Any) -> Any:
    """Makes a variable whose copies devices assign independently: values are equal, or differ on purpose."""
    return make(**options | {"aggregation": tf.VariableAggregation.NONE})
