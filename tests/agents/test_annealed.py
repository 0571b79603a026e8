"""Losses with hparams that change in training: `anneal`."""

from __future__ import annotations

import numpy as np
import pytest
from marked import few

SMALL = {"env": "CartPole-v1", "num_envs": 2, "rollout_length": 4, "model.hidden": (4,), "train_steps": 80}
SHORT = {"epochs": 2, "minibatches": 1, "lr": 0.1}
CASES = {
    "ppo": SHORT | {"entropy_coef": 0.4, "clip_range": 0.04, "clip_value_range": 0.02},
    "appo": SHORT | {"entropy_coef": 0.4, "clip_range": 0.04},
    "ppg": {"clip_value_range": 0.02, "entropy_coef": 0.4, "lr": 0.1, "minibatches": 2, "aux_minibatches": 2},
    "a2c": {"entropy_coef": 4000.0, "lr": 1.0, "optimizer": "sgd", "max_grad_norm": 100.0},
    "impala": {"entropy_coef": 0.4, "lr": 0.1},
    "vpg": {"entropy_coef": 4000.0, "lr": 1.0, "optimizer": "sgd", "max_grad_norm": 100.0},
    "trpo": {"entropy_coef": 40.0, "minibatches": 1},
    "vmpo": {"entropy_coef": 0.4, "lr": 0.1},
}


@pytest.mark.parametrize("algo", few(CASES, ("ppo",)))
def test_half_way_an_annealed_hparam_is_the_mean_of_its_ends(build, state_of, algo):
    settings = SMALL | CASES[algo] | {"compile": "eager"}
    anneal = {name: settings[name] / 2 for name in CASES[algo] if name.endswith(("coef", "range"))}
    at_the_mean = settings | {name: 0.75 * settings[name] for name in anneal}
    found = []
    for overrides in (settings, settings | {"anneal": anneal}, at_the_mean):
        runner = build(algo, **overrides)
        runner.variables["iteration"].assign(5)  # of ten
        runner.run(1)
        found.append(state_of(runner))
    plain, annealed, expected = found
    for name, value in expected.items():
        np.testing.assert_allclose(annealed[name], value, rtol=1e-4, atol=1e-5, err_msg=name)
    weights = [name for name in annealed if name.startswith("network/")]
    assert any(np.abs(plain[name] - annealed[name]).max() > 1e-3 for name in weights)
