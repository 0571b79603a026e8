"""Speed of the prioritised replay memory: additions, and rounds of (sample, gather, new priorities).

    python benchmarks/prioritized_memory.py [--capacity 1000000 --batch 256]

A memory of `--capacity` places takes transitions of CartPole's shape, then serves batches and takes
priorities back after each. Everything is timed in the two ways this library runs: compiled, many rounds per
call, as the runners do (`env_steps_per_s` one transition at a time, `env_steps_per_s_blocks` as 8 steps of 8
environments, `updates_per_s`); and with one call from Python for each addition or round, as other libraries
are used (`*_per_call`).
"""

from __future__ import annotations

import json
import resource
import time
import types
from collections.abc import Callable

import shared

BEGUN = time.perf_counter()

from rl.imports import import_tensorflow  # noqa: E402

import_tensorflow()  # as the command line does, so that XLA computes as in train.py

import gymnasium  # noqa: E402
import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

from rl.memory.prioritized import Prioritized  # noqa: E402
from rl.memory.spec import MemorySpec  # noqa: E402
from rl.ops import random  # noqa: E402
from rl.types import Batch, Tensor, Trajectory  # noqa: E402


def make_memory(capacity: int, batch: int, rollout_length: int, num_envs: int) -> Prioritized:
    """A memory of CartPole's transitions."""
    hparams = types.SimpleNamespace(
        replay_capacity=capacity, min_replay_size=batch, batch_size=batch, n_step=1, gamma=0.99,
        train_steps=10**6, priority_exponent=0.6, priority_epsilon=1e-6, importance_sampling_exponent=0.4,
        importance_sampling_exponent_end=1.0,
    )  # fmt: skip
    observations = gymnasium.spaces.Box(-np.inf, np.inf, [4])
    return Prioritized(
        MemorySpec(observations, gymnasium.spaces.Discrete(2), num_envs, rollout_length), hparams
    )


def constant_trajectory(steps: int, envs: int) -> Trajectory:
    """Transitions [steps, envs] of ones that end no episode."""
    flags = tf.zeros([steps, envs], tf.bool)
    ones = tf.ones([steps, envs])
    return Trajectory(
        tf.ones([steps + 1, envs, 4]), tf.ones([steps, envs], tf.int64), ones, flags, flags, ones, {}
    )


def checksum(batch: Batch) -> Tensor:
    """Uses every array of the batch, so that the compiler drops none."""
    return tf.add_n([tf.reduce_sum(tf.cast(each, tf.float32)) for each in tf.nest.flatten(batch)])


def compiled_loop(body: Callable[[Tensor], Tensor], rounds: int) -> Callable[[], None]:
    """`rounds` calls of `body(round)` in one compiled call."""

    def step(i: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        return i + 1, total + body(i)

    @tf.function(jit_compile=True)
    def loop(first: Tensor) -> Tensor:
        start = (first, tf.constant(0.0))
        return tf.while_loop(lambda i, _: i < first + rounds, step, start, maximum_iterations=rounds)[1]

    function = loop.get_concrete_function(tf.TensorSpec([], tf.int32))
    calls = iter(range(10**9))
    return lambda: function(tf.constant(next(calls) * rounds)).numpy()


def rate(action: Callable[[], None], units: int, seconds: float) -> float:
    """Units per second over `seconds` of calls, after warming up."""
    action()
    calls, begun = 0, time.perf_counter()
    while time.perf_counter() - begun < seconds:
        action()
        calls += 1
    return units * calls / (time.perf_counter() - begun)


def main() -> None:
    parser, above = shared.parser(__doc__), shared.number(0.0, above=True)
    parser.add_argument("--capacity", type=shared.integer(1), default=1_000_000)
    parser.add_argument("--batch", type=shared.integer(1), default=256)
    parser.add_argument("--seconds", type=above, default=5.0, help="time given to each measurement")
    args = parser.parse_args()
    single = make_memory(args.capacity, args.batch, 1, 1)
    blocks = make_memory(args.capacity, args.batch, 8, 8)
    priorities = tf.constant(np.random.default_rng(0).random((64, args.batch)).astype(np.float32) + 0.1)
    seed = random.key(0)

    def add(memory: Prioritized, steps: int, envs: int) -> Tensor:
        memory.add(constant_trajectory(steps, envs))
        return tf.constant(0.0)

    def serve(i: Tensor) -> Tensor:
        batch = single.sample(random.fold_in(seed, i), i)
        single.update_priorities(batch, priorities[i % 64])
        return checksum(batch)

    one_by_one = compiled_loop(lambda i: add(single, 1, 1), 10_000)
    in_blocks = compiled_loop(lambda i: add(blocks, 8, 8), 1000)
    for _ in range(args.capacity // 10_000 + 1):
        one_by_one()  # a full memory: nothing is sampled from a corner that fits the cache
    startup = time.perf_counter() - BEGUN
    line = dict(
        library="rl",
        workload="prioritized_replay",
        env_steps_per_s=round(rate(one_by_one, 10_000, args.seconds), 1),
        env_steps_per_s_blocks=round(rate(in_blocks, 64_000, args.seconds), 1),
        env_steps_per_s_per_call=round(
            rate(compiled_loop(lambda i: add(single, 1, 1), 1), 1, args.seconds), 1
        ),
        updates_per_s=round(rate(compiled_loop(serve, 200), 200, args.seconds), 1),
        updates_per_s_per_call=round(rate(compiled_loop(serve, 1), 1, args.seconds), 1),
        startup_s=round(startup, 2),
        peak_rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        return_mean=None,
        version=f"tensorflow {tf.__version__}",
    )
    single.check_valid()
    blocks.check_valid()
    print("JSON " + json.dumps(line))


if __name__ == "__main__":
    shared.answer(main)
