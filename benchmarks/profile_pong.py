"""Where the time of PPO on Pong goes, against what the environments and the processor allow.

    python benchmarks/profile_pong.py

The workload of `bench.py --only pong pong_bfloat16`. Iterations are timed in their three parts (acting,
stepping the environments, learning), learning once more under TensorFlow's profiler, by kind of kernel.
Beside them: the environments alone with actions drawn at random, and how many operations a second a matrix
product reaches. Writes profile_pong.md in benchmarks/results.
"""

from __future__ import annotations

import argparse
import collections
import os
import tempfile
import time
from pathlib import Path
from typing import Any

import ours
import shared

RESULT = shared.RESULTS / "profile_pong.md"
STEPS = 1024  # of an iteration
# Nature network: multiplications of one picture's forward pass (32 x 20 x 20 x 256, ...), first layer apart.
FIRST, OTHERS = 20 * 20 * 32 * 256, 9 * 9 * 64 * 512 + 7 * 7 * 64 * 576 + 3136 * 512
EPOCHS = 4
KINDS = {
    "convolutions, gradient of the kernel": ("Conv2DBackpropFilter",),
    "convolutions, gradient of the input": ("Conv2DBackpropInput",),
    "convolutions, forward": ("Conv2D",),
    "dense layers": ("MatMul",),
    "optimizer, scaling of pictures (XLA)": ("ExecuteAsyncOnStream",),
    "other operations of one element each": ("Cast", "Mul", "ReluGrad", "BiasAddGrad", "GatherV2"),
}


class Timed:
    """A function whose calls' seconds are summed."""

    def __init__(self, function: Any):
        self._function, self.seconds = function, 0.0

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        begun = time.perf_counter()
        try:
            return self._function(*arguments, **named)
        finally:
            self.seconds += time.perf_counter() - begun


def parts(runner: Any, iterations: int) -> dict[str, float]:
    """Seconds per iteration: acting, environments, learning, and the rest."""
    acting, stepping, learning = (
        Timed(each) for each in (runner.collector.actor, runner.env.step, runner._learn)
    )
    actor, runner.env.step = runner.collector.actor, stepping

    def learned(arrays: Any) -> Any:
        found = learning(arrays)
        [each.numpy() for each in found]
        return found

    class Acting:
        def __getattr__(self, name: str) -> Any:
            return getattr(actor, name)

        def __call__(self, *arguments: Any, **named: Any) -> Any:
            return acting(*arguments, **named)

    whole = Timed(learned)
    runner.collector.actor, runner._learn = Acting(), whole
    begun = time.perf_counter()
    runner.run(iterations)
    total = time.perf_counter() - begun
    found = {"acting": acting.seconds, "environments": stepping.seconds, "learning": whole.seconds}
    found["rest"] = total - sum(found.values())
    runner.collector.actor, runner._learn = actor, learning._function
    del runner.env.step
    return {name: seconds / iterations for name, seconds in found.items()}


def kernels(runner: Any) -> dict[str, float]:
    """Seconds of one iteration's learning by kind of kernel, by TensorFlow's profiler."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    block = runner._blocks[0].arrays()
    with tempfile.TemporaryDirectory() as folder:
        options = tf.profiler.experimental.ProfilerOptions(host_tracer_level=2, python_tracer_level=0)
        with tf.profiler.experimental.Profile(folder, options):
            [each.numpy() for each in runner._learn(block)]
        space = xplane_pb2.XSpace()
        space.ParseFromString(next(Path(folder).rglob("*.xplane.pb")).read_bytes())
    totals: dict[str, float] = collections.defaultdict(float)
    for plane in space.planes:
        for event in (event for line in plane.lines for event in line.events):
            name = plane.event_metadata[event.metadata_id].name.rpartition(":")[2]
            kind = next((kind for kind, names in KINDS.items() if any(each in name for each in names)), None)
            if kind is not None:
                totals[kind] += event.duration_ps / 1e12
    return {kind: totals[kind] for kind in KINDS}


def environments_alone(env: Any, steps: int = 8_192) -> float:
    """Steps per second of the workload's environments, with random actions."""
    import numpy as np

    count = env.num_envs
    actions = np.random.default_rng(0).integers(0, env.action_space.n, (steps // count, count))
    begun = time.perf_counter()
    for action in actions.astype(np.int32):
        env.step(action)
    return steps / (time.perf_counter() - begun)


def peak(dtype: str) -> float:
    """Multiplications and additions per second, in 10^9, of a product of two 2048 x 2048 matrices."""
    import tensorflow as tf

    a = tf.cast(tf.random.normal((2048, 2048)), dtype)
    product = tf.function(lambda x: tf.matmul(x, x))
    product(a)
    best = float("inf")
    for _ in range(10):
        begun = time.perf_counter()
        product(a)[0, 0].numpy()
        best = min(best, time.perf_counter() - begun)
    return float(2 * 2048**3 / best / 1e9)


def table(precision: str, runner: Any) -> list[str]:
    """The Markdown of one precision."""
    runner.run(2)
    seconds, by_kernel, most = parts(runner, 4), kernels(runner), peak(precision)
    alone, total = environments_alone(runner.env), sum(seconds.values())
    # Forward when acting; forward and two gradients in each epoch, the first layer's input has none.
    operations = 2 * STEPS * (FIRST + OTHERS + EPOCHS * (2 * FIRST + 3 * OTHERS)) / 1e9
    lines = [
        f"## {precision}: {STEPS / total:.0f} steps/s",
        "",
        f"| part | s per {STEPS} steps | share |",
        "| --- | --- | --- |",
    ]
    by_part = seconds | {f"learning: {kind}": value for kind, value in by_kernel.items()}
    lines += [f"| {name} | {value:.3f} | {value / total:.0%} |" for name, value in by_part.items()]
    lines += [
        "",
        f"The network's own arithmetic is {operations:.0f} x 10^9 operations; a product of two matrices of "
        f"2048 x 2048 reaches {most:.0f} x 10^9 a second here, at which it would take "
        f"{operations / most:.2f} s: {STEPS * most / operations:.0f} steps/s, were there no environments and "
        f"nothing else. The eight environments alone, acting at random, make {alone:.0f} steps/s; both "
        f"together, neither waiting for the other, {1 / (operations / most / STEPS + 1 / alone):.0f}.",
        "",
    ]
    return lines


def main() -> int:
    shared.parser(__doc__).parse_args()
    from rl.imports import import_tensorflow

    import_tensorflow()  # as the command line does, so that XLA computes as in train.py
    from rl.runners.build import build_runner

    lines = [
        "# Where the time of PPO on Pong goes",
        "",
        f"Written by `python benchmarks/profile_pong.py`, on {len(os.sched_getaffinity(0))} cores without a "
        "GPU. The kernels' seconds are under the profiler, and of threads that may run side by side.",
        "",
    ]
    for precision in ("float32", "bfloat16"):
        args = argparse.Namespace(algo="pong", backend="envpool", envs=8, overlap=False, steps=100_000)
        args.bfloat16 = precision == "bfloat16"
        runner = build_runner(ours.resolve_hparams(args), 0)
        try:
            lines += table(precision, runner)
        finally:
            runner.close()
    shared.write(RESULT, "\n".join(lines).rstrip() + "\n")
    print(RESULT.read_text())
    return 0


if __name__ == "__main__":
    shared.answer(main)
