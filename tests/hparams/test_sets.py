"""What named sets say of themselves is so, and generic sets learn."""

from __future__ import annotations

import pytest

import rl
from rl.errors import UsageError
from rl.hparams.c51 import C51HParams
from rl.hparams.dqn import DQNHParams, dqn_cartpole
from rl.hparams.hints import hints, updates_of_run
from rl.hparams.iqn import IQNHParams
from rl.hparams.merge import explicit, named, resolve
from rl.hparams.qrdqn import QRDQNHParams
from rl.hparams.registry import registry

CLIFF = {"env": "CliffWalking-v1", "gamma": 0.9, "lr": 0.1}
SWITCHED = (DQNHParams, C51HParams, QRDQNHParams, IQNHParams)
GENERIC = ("vpg", "trpo", "a2c", "ppo", "impala", "appo", "ddpg", "td3", "sac", "sac_discrete", "es", "ars")
WITH_TARGET = ("dqn", "c51", "qrdqn", "iqn", "rainbow", "r2d2", "apex_dqn")


@pytest.mark.parametrize("kind", SWITCHED)
def test_switches_of_action_values_are_off_by_default(kind):
    hparams = kind()
    assert not any((hparams.double, hparams.dueling, hparams.noisy, hparams.prioritized))
    assert hparams.n_step == 1


def test_sets_of_action_values_name_double_and_several_steps_in_their_first_line():
    sets = [entry for entry in registry.entries() if type(named(entry.name)) in SWITCHED]
    assert len(sets) > 25
    for entry in sets:
        hparams = named(entry.name)
        assert hparams.double == ("double" in entry.description.lower()), entry.name
        if hparams.n_step > 1:
            assert f"{hparams.n_step}-step returns" in entry.description, entry.name


SWITCHES = {"dueling": "dueling", "noisy": "noisy", "prioritized": "priorit", "double": "double"}
ALWAYS_NORMALIZED = ("dreamer", "muzero", "pqn")  # by their papers


def test_every_set_names_in_its_first_line_the_switches_that_it_turns_on():
    for entry in registry.entries():
        hparams, said = named(entry.name), entry.description.lower()
        usual = type(hparams)()
        if hparams.flat().get("n_step") != usual.flat().get("n_step"):
            assert f"{hparams.n_step}-step returns" in said, entry.name
        for switch, word in SWITCHES.items():
            if hparams.flat().get(switch) and not usual.flat()[switch]:
                assert word in said, f"{entry.name}: {switch}"
        if hparams.model.layer_norm and hparams.algo not in ALWAYS_NORMALIZED:
            assert "layer normalisation" in said, entry.name
        if hparams.model.name in ("lstm", "gru"):
            assert "recurrent" in said or hparams.model.name in said, entry.name


def test_a_set_called_with_what_differs_is_another_one_and_leaves_it_alone():
    before = dqn_cartpole()
    hparams = dqn_cartpole(CLIFF, lr=0.5, model=dict(layer_norm=True))
    assert (hparams.env, hparams.gamma, hparams.lr) == ("CliffWalking-v1", 0.9, 0.5)  # the later wins
    assert hparams.model.layer_norm and hparams.model.hidden == before.model.hidden
    assert {"env", "lr", "model.layer_norm"} <= explicit(hparams).keys()
    assert dqn_cartpole() == before and CLIFF == {"env": "CliffWalking-v1", "gamma": 0.9, "lr": 0.1}


def test_hparams_of_layers_have_the_defaults_of_their_class_otherwise():
    hparams = DQNHParams.of(CLIFF, {"gamma": 0.8}, train_steps=1e6)
    assert (hparams.env, hparams.gamma, hparams.train_steps) == ("CliffWalking-v1", 0.8, 1_000_000)
    assert explicit(hparams).keys() == {"env", "gamma", "lr", "train_steps"}


@pytest.mark.parametrize("make", [dqn_cartpole, DQNHParams.of])
@pytest.mark.parametrize(
    "values, message",
    [
        ({"learning_rate": 1.0}, "unknown hparam 'learning_rate'"),
        ({"model": {"hiden": (1,)}}, r"unknown hparam 'model.hiden': did you mean model.hidden"),
        ({"lr": "fast"}, "hparam lr='fast': needs a number > 0"),
    ],
)
def test_a_mistake_among_a_sets_keywords_is_one_line(make, values, message):
    with pytest.raises(UsageError, match=message):
        make(**values)


# hyperparams/ppo.yml of rl-baselines3-zoo: vf_coef weighs the whole square, our value_coef its half.
ZOO = {
    "ppo_bipedalwalker": {"gamma": 0.999, "gae_lambda": 0.95, "clip_range": 0.18, "epochs": 10, "lr": 3e-4,
                          "value_coef": 2 * 0.5, "num_envs": 32, "rollout_length": 2048},
    "ppo_halfcheetah": {"gamma": 0.98, "gae_lambda": 0.92, "lr": 2.0633e-5, "clip_range": 0.1, "epochs": 20,
                        "value_coef": 2 * 0.58096, "max_grad_norm": 0.8, "log_std_init": -2.0,
                        "model.init": "torch", "num_envs": 1, "rollout_length": 512},
}  # fmt: skip


@pytest.mark.parametrize("name", ZOO)
def test_settings_that_are_said_to_be_the_zoos_are(name):
    hparams = named(name)
    flat, expected = hparams.flat(), ZOO[name]
    assert {key: flat[key] for key in expected} == pytest.approx(expected)
    assert hparams.num_envs * hparams.rollout_length // hparams.minibatches == 64  # zoo's batch_size


@pytest.mark.parametrize("name", [*WITH_TARGET, *GENERIC])
def test_a_generic_set_learns_and_copies_its_target_in_its_steps(name):
    hparams = resolve(name, {"env": "Test-v0"})
    assert hints(hparams) == []
    if name in WITH_TARGET:
        assert updates_of_run(hparams) >= 50 * hparams.target_update_period


@pytest.mark.slow
def test_generic_dqn_finds_the_shortest_way_along_the_cliff(tmp_path):
    """13 steps at a reward of -1 each, in an environment that has no time limit."""
    rl.train("dqn", output_dir=tmp_path, env="CliffWalking-v1")
    assert rl.load(tmp_path, "last").evaluate(5).returns.tolist() == [-13.0] * 5
