"""What the check of every update for NaN costs (`rl/agents/guard.py`): the same runs with it and without, in
alternation within one process.

    python benchmarks/guard.py dqn_cartpole sac_pendulum dqn_breakout_minatar ppo_cartpole

Prints for each set milliseconds per iteration, median and least of all rounds, and their ratio.
"""

from __future__ import annotations

import time
from typing import Any
from unittest import mock

import shared

from rl.imports import import_tensorflow

import_tensorflow()  # as the command line does, so that XLA computes as in train.py

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402

import rl  # noqa: E402
from rl.agents.agent import Agent  # noqa: E402
from rl.runners.base import Runner  # noqa: E402
from rl.runners.build import build_runner  # noqa: E402
from rl.types import Update  # noqa: E402

PASSES = 4  # iterations that are timed together
MOST = 400  # iterations in which a memory must have begun to give batches


def unguarded_learn(self: Agent[Any], batch: Any, seed: Any) -> Update:
    """`Agent.learn` without its guard."""
    update = self.update(batch, seed)
    return Update({"updates": tf.constant(1.0), **update.metrics}, update.priorities)


def learning_runner(name: str, guarded: bool) -> Runner:
    """Returns the runner of a set, compiled, and so far that it learns."""
    learn = Agent.learn if guarded else unguarded_learn
    with mock.patch.object(Agent, "learn", learn):
        runner = build_runner(rl.make_hparams(name).freeze(), 0)
        for _ in range(MOST // PASSES):
            runner.advance(PASSES)
            if runner.sums().get("updates", 0.0) > 0.0:
                return runner
    raise shared.UsageError(f"{name} made no update in {MOST} iterations: name a set that learns earlier")


def main() -> None:
    """Runs the command."""
    parser = shared.parser(__doc__)
    parser.add_argument("sets", nargs="+", type=shared.set_name, metavar="SET")
    parser.add_argument("--rounds", type=shared.integer(1), default=100)
    args = parser.parse_args()
    for name in args.sets:
        runners = {guarded: learning_runner(name, guarded) for guarded in (False, True)}
        times: dict[bool, list[float]] = {False: [], True: []}
        for _ in range(args.rounds):
            for guarded, runner in runners.items():
                begun = time.perf_counter()
                runner.advance(PASSES)
                times[guarded].append((time.perf_counter() - begun) / PASSES * 1e3)
        (without, least_without), (checked, least) = (
            (np.median(times[each]), min(times[each])) for each in (False, True)
        )
        ratio, ratio_of_least = checked / without, least / least_without
        print(
            f"{name}: {checked:.2f} ms an iteration, {without:.2f} without the guard: {ratio:.3f}; "
            f"least {least:.2f} and {least_without:.2f}: {ratio_of_least:.3f}",
            flush=True,
        )


if __name__ == "__main__":
    shared.answer(main)
