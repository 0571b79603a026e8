"""Runs of a few iterations, for tests of what surrounds them."""

from __future__ import annotations

from rl.request import Request
from rl.runners.trainer import Trainer
from rl.storage.storage import Storage

TINY = {
    "compile": "graph",
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
