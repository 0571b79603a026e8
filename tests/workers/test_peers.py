"""Several learners: the same as one, on the same data. A run with several is a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from rl.workers.plan import Workers

SCRIPT = """
import json, sys
import numpy as np
from rl.hparams.merge import resolve
from rl.runners.build import build_runner
from rl.workers.plan import Workers

name, overrides, path = sys.argv[1], json.loads(sys.argv[2]), sys.argv[3]
runner = build_runner(resolve(name, overrides), 3, Workers(2))
sums = runner.run(5)
found = {name: each.numpy() for name, each in runner.iteration.variables.items() if "memory" not in name}
np.savez(path, step=runner.step, made=sums["updates"], loss=sums.get("loss", 0.0), **found)
runner.close()
"""
SMALL = {"num_envs": 4, "rollout_length": 8, "compile": "graph"}


def run(path, name, **overrides):
    """All variables after five iterations with two workers."""
    environment = os.environ | {"TF_CPP_MIN_LOG_LEVEL": "3"}
    command = [sys.executable, "-c", SCRIPT, name, json.dumps(SMALL | overrides), str(path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr[-2000:]
    return dict(np.load(path))


@pytest.mark.slow
def test_two_learners_are_equal_to_one(tmp_path, build):
    # Everything that is taken over a batch: advantages, observations, rewards, the gradient's norm, and the
    # early end of an iteration's updates.
    settings = {"env": "CartPole-v1", "sync_workers": True, "epochs": 4, "minibatches": 1, "target_kl": 0.002}
    settings |= {"normalize_advantage": True, "normalize_observation": True, "normalize_reward": True}
    settings |= {"max_grad_norm": 0.5, "lr": 0.003, "lr_schedule": "linear", "train_steps": 320}
    alone = build("ppo", seed=3, workers=Workers(2), **SMALL, **settings)
    made = alone.run(5)["updates"]
    one = {name: each.numpy() for name, each in alone.iteration.variables.items()}
    one |= {"step": alone.step, "made": made}
    two = run(tmp_path / "two.npz", "ppo", **settings, num_learners=2)
    assert one["step"] == two["step"] == 160
    assert 10 <= one["made"] < 20 and one["made"] == two["made"]
    assert set(one) == set(two) - {"loss"}
    np.testing.assert_allclose(two["optimizer/network/adam/learning_rate"], 0.003 * 0.6, rtol=1e-5)
    for name in set(one) - {"reward_scale/discounted_return"}:  # of the learner's own environments
        np.testing.assert_allclose(two[name], one[name], rtol=1e-4, atol=2e-5, err_msg=name)


@pytest.mark.slow
def test_learners_sample_from_buffers(tmp_path):
    settings = {"env": "CartPole-v1", "buffer_shards": 2, "min_replay_size": 32, "batch_size": 16}
    settings |= {"prioritized": True, "updates_per_iteration": 3, "replay_capacity": 2000, "n_step": 3}
    found = run(tmp_path / "run.npz", "dqn", **settings, num_learners=2)
    assert found["step"] == 5 * 32 * 2
    assert 0 < found["made"] <= 15 and np.isfinite(found["loss"])
