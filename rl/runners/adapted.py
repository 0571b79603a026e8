"""The returns of a trained meta-learning run on new tasks, before and after it adapts to them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops import random
from rl.runners.adapting import AdaptingRunner
from rl.runners.build import build_runner
from rl.saved_run import read_weights, saved_hparams


def adapted_returns(
    run_dir: Path, which: str, tasks: int, inner_steps: int | None = None, seed: int = 0
) -> np.ndarray:
    """Returns the mean return on held-out tasks before and after each inner step, [steps + 1, tasks].

    Actions are drawn as in training; tasks are those of the run's `env_kwargs`, as of its evaluations.

    Args:
        run_dir: of a run of an algorithm that adapts.
        which: of its policies, "last" or "best".
        tasks: how many, each played by as many environments as in training.
        inner_steps: how many; None takes the run's own.
        seed: of the tasks, of what happens and of the actions.

    Raises:
        UsageError: there is no such run, or it is of an algorithm that does not adapt.
    """
    hparams, _ = saved_hparams(run_dir)
    if not hparams.adapts:
        raise UsageError(f"{run_dir} is a run of {hparams.algo}, which does not adapt to tasks")
    own: Any = HParams.from_dict(hparams.to_dict())
    part = own.rollout_length // (own.inner_steps + 1)
    own.inner_steps = own.inner_steps if inner_steps is None else inner_steps
    own.rollout_length, own.num_envs = part * (own.inner_steps + 1), tasks * own.task_episodes
    own.train_env_kwargs = {}
    if "replay_capacity" in type(own).model_fields:  # a memory takes whole rollouts
        own.replay_capacity = max(own.replay_capacity, own.rollout_length * own.num_envs)
    runner = build_runner(own.freeze(), seed)
    assert isinstance(runner, AdaptingRunner)
    read_weights(runner.agent, run_dir, which)
    play = tf.function(runner.returns_of_tasks, jit_compile=True, autograph=False)
    try:
        found: np.ndarray = play(random.key(seed)).numpy()
    finally:
        runner.close()
    return found
