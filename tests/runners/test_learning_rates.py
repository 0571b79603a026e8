"""The learning rates of a run: by environment steps, whatever updates were made meanwhile."""

from __future__ import annotations

import numpy as np
import pytest
from marked import few, rest

REPLAY = {"num_envs": 2, "rollout_length": 4, "batch_size": 4, "replay_capacity": 80, "model.hidden": (4,)}
ROLLOUTS = {"num_envs": 2, "rollout_length": 4, "minibatches": 2, "epochs": 2, "model.hidden": (4,)}
LINEAR = {"lr_schedule": "linear", "lr": 0.1, "lr_end": 0.01, "train_steps": 80}
TD3 = {"policy_update_period": 2, "updates_per_iteration": 2, "min_replay_size": 8, "critic_lr": 0.2}
VPG = {"num_envs": 2, "rollout_length": 4, "value_lr": 0.2, "value_updates": 2}
CASES = {
    "policy updated less often": ("td3", {"env": "Pendulum-v1", **REPLAY, **TD3}),
    "warm-up": ("dqn", {"env": "CartPole-v1", **REPLAY, "min_replay_size": 40, "updates_per_iteration": 1}),
    "early stop": ("ppo", {"env": "CartPole-v1", **ROLLOUTS, "target_kl": 1e-12}),
    "several steps of the value": ("vpg", {"env": "CartPole-v1", **VPG}),
}
NINE_TENTHS = 0.01 + 0.09 * 0.1  # the last of ten iterations begins there


def rates(runner):
    """The learning rates that the optimizers were left with."""
    return {name: float(each.learning_rate) for name, each in runner.agent.optimizers.items()}


@pytest.mark.parametrize("case", few(CASES, ("early stop", "several steps of the value")))
def test_learning_rates_anneal_to_their_end_whatever_updates_were_made(build, case):
    name, overrides = CASES[case]
    runner = build(name, **LINEAR, **overrides)
    assert runner.steps_per_iteration == 8
    runner.run(6)
    middle = rates(runner)
    assert runner.run(4)["updates"] > 0
    for each, rate in rates(runner).items():
        scale = 2.0 if each in ("critic", "value") else 1.0
        np.testing.assert_allclose(middle[each], scale * (0.01 + 0.09 * 0.5), rtol=1e-5, err_msg=each)
        np.testing.assert_allclose(rate, scale * NINE_TENTHS, rtol=1e-5, err_msg=each)
    logged = runner.agent.scalars(runner.step)
    np.testing.assert_allclose(logged["train/learning_rate"], 0.01, rtol=1e-5)  # what would follow


@pytest.mark.parametrize(
    ("case", "overrides"),
    [
        ("policy updated less often", {"compile": "graph"}),
        *rest(
            ("warm-up", {"env_backend": "gym", "compile": "eager"}),
            ("early stop", {"env_backend": "gym", "overlap": True}),
        ),
    ],
    ids=["one compiled loop", "host", "overlap"],
)
def test_learning_rates_follow_the_steps_in_every_way_of_running(build, case, overrides):
    name, settings = CASES[case]
    runner = build(name, **LINEAR, **settings, **overrides)
    runner.run(8)
    np.testing.assert_allclose(rates(runner)["network"], 0.01 + 0.09 * 0.3, rtol=1e-5)


def test_a_run_that_is_prolonged_follows_the_rates_of_its_new_length(build):
    name, overrides = CASES["early stop"]
    short, long = (
        build(name, **LINEAR | {"train_steps": steps}, **overrides, compile="eager") for steps in (40, 80)
    )
    short.run(5)
    np.testing.assert_allclose(rates(short)["network"], 0.01 + 0.09 * 0.2, rtol=1e-5)
    for variable, saved in zip(long.variables.values(), short.variables.values(), strict=True):
        variable.assign(saved.numpy())
    assert rates(long) == rates(short)  # it is among the variables
    long.run(1)
    np.testing.assert_allclose(rates(long)["network"], 0.01 + 0.09 * 0.5, rtol=1e-5)


def test_the_step_that_is_taken_is_of_the_rate_of_its_step(build, state_of):
    # Plain gradient descent of the same gradient: a quarter of the way to 0, 3/4 of the first step is left.
    name, overrides = CASES["early stop"]
    moved = []
    for start in (0, 25):
        settings = overrides | {"optimizer": "sgd", "epochs": 1, "minibatches": 1, "target_kl": None}
        settings |= {"lr_schedule": "linear", "lr": 0.1, "train_steps": 800, "compile": "eager"}
        runner = build(name, **settings)
        before = state_of(runner)["network/policy/kernel"]
        trajectory, _ = runner._rollout(runner.iteration.root_seed, runner.iteration.step())
        runner.iteration.number.assign(start)
        runner.iteration.learn(trajectory, runner.iteration.root_seed, runner.iteration.step())
        moved.append(state_of(runner)["network/policy/kernel"] - before)
    assert np.abs(moved[0]).max() > 1e-5
    np.testing.assert_allclose(moved[1], 0.75 * moved[0], rtol=1e-3, atol=1e-8)


def test_a_constant_rate_is_that_of_the_hparams_whatever_a_checkpoint_had(build):
    """As of a member of a population, which goes on with another one."""
    name, overrides = CASES["early stop"]
    runner = build(name, **overrides, lr=0.1, lr_schedule="constant", compile="eager")
    runner.agent.optimizers["network"].learning_rate.assign(0.5)
    runner.run(2)
    assert rates(runner) == {"network": float(np.float32(0.1))}
