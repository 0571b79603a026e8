"""The same seed gives the same bits, other seeds others, and the ways of compiling agree."""

from __future__ import annotations

import numpy as np
import pytest

SMALL_PPO = {"num_envs": 4, "rollout_length": 8, "epochs": 2, "minibatches": 2}
SMALL_DQN = {"num_envs": 4, "rollout_length": 4, "min_replay_size": 20, "batch_size": 8}
FULL_PPO = SMALL_PPO | {"normalize_observation": True, "normalize_reward": True, "target_kl": 0.5}
FULL_DQN = SMALL_DQN | {"prioritized": True, "n_step": 3, "dueling": True, "replay_capacity": 200}
CASES = {"ppo_cartpole": FULL_PPO, "dqn_cartpole": FULL_DQN, "noisy_dqn_cartpole": FULL_DQN}
HOST_CASES = [("ppo_cartpole", FULL_PPO), ("dqn_cartpole", FULL_DQN)]


def run(build, state_of, name, iterations=20, seed=0, **overrides):
    runner = build(name, seed=seed, **overrides)
    sums = [runner.run(iterations // 2), runner.run(iterations // 2)]
    return state_of(runner), sums


@pytest.mark.parametrize("name", CASES)
def test_in_graph_runs_of_one_seed_are_equal_to_the_bit(build, state_of, assert_same_bits, name):
    first, first_sums = run(build, state_of, name, **CASES[name])
    again, again_sums = run(build, state_of, name, **CASES[name])
    assert_same_bits(again, first)
    assert again_sums == first_sums
    assert first_sums[1]["updates"] > 0
    other, _ = run(build, state_of, name, seed=1, **CASES[name])
    assert (other["network/torso/dense_0/kernel"] != first["network/torso/dense_0/kernel"]).any()
    assert (other["env/0"] != first["env/0"]).any()


@pytest.mark.parametrize("overlap", [False, True])
@pytest.mark.parametrize("backend", ["gym", "envpool"])
@pytest.mark.parametrize(("name", "overrides"), HOST_CASES, ids=["ppo", "dqn"])
def test_host_runs_of_one_seed_are_equal_to_the_bit(
    build, state_of, assert_same_bits, name, overrides, backend, overlap
):
    overrides = overrides | {"env_backend": backend, "overlap": overlap}
    first, first_sums = run(build, state_of, name, **overrides)
    again, again_sums = run(build, state_of, name, **overrides)
    assert_same_bits(again, first)
    assert again_sums == first_sums
    assert first_sums[1]["updates"] > 0 and first["iteration"] == 20


def test_the_split_into_calls_changes_nothing_in_graph(build, state_of, assert_same_bits):
    whole, parts = (build("dqn_cartpole", **FULL_DQN) for _ in range(2))
    whole.run(12)
    for iterations in (1, 4, 7):
        parts.run(iterations)
    assert_same_bits(state_of(parts), state_of(whole))


@pytest.mark.parametrize(("name", "overrides"), [("ppo_cartpole", FULL_PPO), ("dqn_cartpole", FULL_DQN)])
def test_eager_graph_and_xla_learn_the_same(build, state_of, name, overrides):
    found = {}
    for mode in ("eager", "graph", "xla"):
        runner = build(name, compile=mode, **overrides)
        sums = runner.run(4)
        found[mode] = state_of(runner), sums
        assert sums["updates"] > 0
    for mode in ("graph", "xla"):
        state, sums = found[mode]
        assert sums.keys() == found["eager"][1].keys()
        for variable, value in found["eager"][0].items():
            np.testing.assert_allclose(
                state[variable], value, rtol=2e-3, atol=2e-4, err_msg=f"{mode} {variable}"
            )


def test_rows_of_metrics_have_the_same_names_before_learning_starts(build):
    for mode in ("eager", "graph"):
        runner = build("dqn_cartpole", compile=mode, **SMALL_DQN)
        before, after = runner.run(1), runner.run(3)
        assert before["updates"] == 0.0 and after["updates"] > 0.0
        assert before.keys() == after.keys() and "td_error" in before
