"""What the walk of all algorithms does with one of them: trains it, saves it, repeats it."""

from __future__ import annotations

import contextlib

import numpy as np

from rl.runners.evaluate import Evaluator
from rl.storage.checkpoint import CheckpointManager


def state(runner):
    return {name: np.array(each.numpy()) for name, each in runner.variables.items()}


def assert_same(found, expected):
    assert list(found) == list(expected)
    for name, value in expected.items():
        np.testing.assert_array_equal(found[name], value, err_msg=name)


def iterations_of(runner):
    return -(-runner.agent.hparams.train_steps // runner.steps_per_iteration)


def trained_until(runner, good, made=0):
    """Trains until a greedy policy returns `good`, on average of 5 episodes; returns each window's metrics.

    It may take as many steps as its set has, and is asked after a 32nd of them, a 16th and so on.
    made: iterations so far.
    """
    total, windows = iterations_of(runner), []
    with contextlib.closing(Evaluator(runner.agent, 5)) as evaluator:
        for part in (32, 16, 8, 4, 2, 1):
            windows.append(runner.run(max(1, total // part - made)))
            made = max(made + 1, total // part)
            if (found := evaluator.run(0).returns.mean()) >= good:
                return windows
    raise AssertionError(
        f"{runner.agent.hparams.algo} returns {found:.1f} after {made} iterations, not {good}"
    )


def save_restore_and_repeat(build, tmp_path, name, overrides):
    """Returns the runner after 8 iterations, and its variables before them.

    An in-graph runner is no more than its variables: it repeats itself from where another one of its seed
    starts, and from those that were saved, which one that was only built takes whole. Host environments keep
    state of their own: there the other one plays.
    """
    first, again = (build(name, seed=0, **overrides) for _ in range(2))
    before = state(first)
    assert_same(state(again), before)
    early = first.run(4)
    saved = state(first)
    manager = CheckpointManager(tmp_path)
    manager.save(first.variables, first.step)
    late = first.run(4)
    after = state(first)
    assert all((after[key] != value).any() for key, value in saved.items() if key.startswith("network/torso"))
    if overrides["env_backend"] != "graph":
        assert again.run(4) == early
        assert_same(state(again), saved)
        again.run(3)
    manager.restore(again.variables)
    again.restored(tmp_path)
    assert_same(state(again), saved)
    if overrides["env_backend"] == "graph":
        for start, sums, end in ((before, early, saved), (saved, late, after)):
            for key, variable in first.variables.items():
                variable.assign(start[key])
            assert first.run(4) == sums
            assert_same(state(first), end)
    return first, before
