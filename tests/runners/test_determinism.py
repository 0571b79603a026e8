"""The same seed gives the same bits, other seeds others, and the ways of compiling agree."""

from __future__ import annotations

import json

import numpy as np
import pytest

from rl.parallel import fused as fused_parts

SMALL_PPO = {
    "env": "CartPole-v1",
    "num_envs": 4,
    "rollout_length": 8,
    "epochs": 2,
    "minibatches": 2,
    "model.hidden": (16,),
}
SMALL_DQN = {
    "env": "CartPole-v1",
    "num_envs": 4,
    "rollout_length": 4,
    "min_replay_size": 20,
    "batch_size": 8,
    "updates_per_iteration": 4,
    "model.hidden": (16,),
}
FULL_PPO = SMALL_PPO | {"normalize_observation": True, "normalize_reward": True, "target_kl": 0.5}
FULL_DQN = SMALL_DQN | {"prioritized": True, "n_step": 3, "dueling": True, "replay_capacity": 200}
NOISY_DQN = FULL_DQN | {"noisy": True, "act_select": "greedy"}
CASES = {"ppo": FULL_PPO, "dqn": FULL_DQN, "noisy dqn": NOISY_DQN}
CHOSEN = (("ppo", "gym", False),)  # all others are slow
HOST_CASES = [
    pytest.param(name, backend, overlap, marks=[] if (name, backend, overlap) in CHOSEN else pytest.mark.slow)
    for name in ("ppo", "dqn")
    for backend in ("gym", "envpool")
    for overlap in (False, True)
]


def run(build, state_of, name, split=(10, 10), seed=0, **overrides):
    runner = build(name, seed=seed, **overrides)
    sums = [runner.run(iterations) for iterations in split]
    return state_of(runner), sums


def begin_again(runner, start):
    """Sets the variables of an in-graph runner, which are all that its compiled loop reads, to `start`."""
    for name, variable in runner.variables.items():
        variable.assign(start[name])


@pytest.mark.parametrize(
    "name",
    ["ppo", *(pytest.param(each, marks=pytest.mark.slow) for each in ("noisy dqn", "dqn"))],
)
def test_in_graph_runs_of_one_seed_are_equal_to_the_bit_however_they_are_split(
    build, state_of, assert_same_bits, name
):
    runner, other = (build(name.split()[-1], **CASES[name]) for _ in range(2))
    start = state_of(runner)
    assert_same_bits(state_of(other), start)
    sums = [runner.run(iterations) for iterations in (10, 10)]
    first = state_of(runner)
    begin_again(runner, start)
    for iterations in (1, 12, 7):
        runner.run(iterations)
    assert_same_bits(state_of(runner), first)
    assert sums[1]["updates"] > 0

    # And in one window, that is left and gone on with.
    begin_again(runner, start)
    whole = runner.run(20)
    begin_again(runner, start)
    runner.begin_window()
    made = [runner.advance(20, lambda made: made < 3)]
    left = json.loads(json.dumps(runner.unfinished()))
    runner.begin_window()
    runner.resume_window(left)
    made.append(runner.advance(20 - made[0], lambda made: True))
    assert 3 <= made[0] < 20 and sum(made) == 20
    assert_same_bits(state_of(runner), first)
    assert runner.sums() == whole


def test_another_seed_gives_other_weights_and_episodes(build, state_of):
    one, other = (state_of(build("ppo", seed=seed, **SMALL_PPO)) for seed in (0, 1))
    for name in ("network/torso/dense_0/kernel", "env/0"):
        assert (one[name] != other[name]).any()


@pytest.mark.parametrize(("name", "backend", "overlap"), HOST_CASES)
def test_host_runs_of_one_seed_are_equal_to_the_bit(
    build, state_of, assert_same_bits, name, backend, overlap
):
    overrides = CASES[name] | {"env_backend": backend, "overlap": overlap}
    first, first_sums = run(build, state_of, name, **overrides)
    again, again_sums = run(build, state_of, name, **overrides)
    assert_same_bits(again, first)
    assert again_sums == first_sums
    assert first_sums[1]["updates"] > 0 and first["iteration"] == 20


@pytest.mark.parametrize(
    ("name", "overrides"), [("ppo", FULL_PPO), pytest.param("dqn", FULL_DQN, marks=pytest.mark.slow)]
)
def test_eager_graph_and_xla_learn_the_same(build, state_of, name, overrides):
    found = {}
    for mode in ("eager", "graph", "xla"):
        runner = build(name, compile=mode, **overrides)
        sums = runner.run(2)
        found[mode] = state_of(runner), sums
        assert sums["updates"] > 0
    for mode in ("graph", "xla"):
        state, sums = found[mode]
        assert sums.keys() == found["eager"][1].keys()
        for variable, value in found["eager"][0].items():
            np.testing.assert_allclose(state[variable], value, 1e-3, 1e-5, err_msg=f"{mode} {variable}")


@pytest.mark.slow
def test_a_graph_for_the_sake_of_convolutions_has_its_optimizer_by_xla_and_learns_the_same(
    build, state_of, monkeypatch
):
    found = {}
    monkeypatch.setattr("rl.runners.parts.convolves", lambda network: True)
    for mode in ("graph", "auto"):
        parts = []
        monkeypatch.setattr("rl.agents.algos.grad_comp.backprop.fused", noting(parts))
        runner = build("ppo", compile=mode, **FULL_PPO | {"env_backend": "gym"})
        runner.run(2)
        found[mode] = state_of(runner)
        assert parts and all(each == (mode == "auto") for each in parts)
    for variable, value in found["graph"].items():
        np.testing.assert_allclose(found["auto"][variable], value, 1e-3, 1e-5, err_msg=variable)


def noting(parts):
    """`fused`, which notes in `parts` whether XLA compiled the part."""

    def note(function, *arguments):
        parts.append(fused_parts._fusing.on)
        return fused_parts.fused(function, *arguments)

    return note


def test_rows_of_metrics_have_the_same_names_before_learning_starts(build):
    for mode in ("eager", "graph"):
        runner = build("dqn", compile=mode, **SMALL_DQN)
        before, after = runner.run(1), runner.run(2)
        assert before["updates"] == 0.0 and after["updates"] > 0.0
        assert before.keys() == after.keys() and "td_error" in before
