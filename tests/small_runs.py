"""Runs of a few iterations, for tests of what surrounds them."""

from __future__ import annotations

import numpy as np
from stop_after import StopAfter

from rl.request import Request
from rl.runners.trainer import Trainer
from rl.storage.storage import Storage

TINY = {
    # In so few iterations, operations one by one cost half of what it costs to trace a graph of them.
    "compile": "eager",
    "act_backend": "compiled",  # nor do so few episodes make up for a conversion to LiteRT
    "num_envs": 2,
    "rollout_length": 8,
    "minibatches": 1,
    "epochs": 1,
    "log_period": 16,
    "eval_period": 16,
}


def trainer_of(hparams, run_dir, seed=0, **request):
    """The trainer of a run in a local folder, with two episodes in an evaluation."""
    request = {"name": "test", "eval_episodes": 2} | request
    return Trainer(Request(hparams, seed=seed, **request), Storage(run_dir))


def train(hparams, run_dir, looks=10**9):
    """Trains in a runner of its own, from the checkpoint in `run_dir` if there is one, until the `looks`-th
    look at whether to stop; returns the step and all variables."""
    trainer = trainer_of(hparams, run_dir, 3)
    try:
        result = trainer.train(StopAfter(looks))
        return result.step, {name: np.array(each.numpy()) for name, each in trainer.runner.variables.items()}
    finally:
        trainer.close()
