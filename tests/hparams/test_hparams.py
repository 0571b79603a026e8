"""Assignments are checked, frozen hparams stay as they are, and what is saved comes back."""

from __future__ import annotations

import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

from rl.errors import UsageError
from rl.hparams.dqn import DQNHParams, dqn_cartpole
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.hparams.overrides import parse_overrides
from rl.hparams.ppo import PPOHParams, ppo_cartpole
from rl.hparams.registry import get_hparams, registry
from rl.hparams.world_models import world_models_identity

SETS = [
    "default",
    "dqn",
    "dqn_acrobot",
    "dqn_cartpole",
    "dqn_catch",
    "dqn_identity",
    "dqn_mountaincar",
    "dqn_two_state_chain",
    "noisy_dqn_cartpole",
    "ppo",
    "ppo_acrobot",
    "ppo_cartpole",
    "ppo_catch",
    "ppo_identity",
    "ppo_mountaincar",
    "ppo_mountaincar_continuous",
    "ppo_pendulum",
]
RUNNABLE = [name for name in SETS if name not in ("default", "dqn", "ppo")]


def test_the_named_sets_are_all_there():
    assert set(SETS) <= set(registry.names())


@pytest.mark.parametrize("name", RUNNABLE)
def test_named_set_fits_together_and_comes_fresh(name):
    hparams = get_hparams(name)()
    assert hparams.freeze().frozen
    fresh = get_hparams(name)()
    assert not fresh.frozen and fresh.model is not hparams.model


@pytest.mark.parametrize("name", [*RUNNABLE, "dqn", "ppo"])
def test_a_set_of_an_algorithm_names_that_algorithm(name):
    hparams = get_hparams(name)()
    assert hparams.algo == ("dqn" if "dqn" in name else "ppo")
    assert isinstance(hparams, DQNHParams if "dqn" in name else PPOHParams)


def test_frozen_hparams_refuse_every_assignment():
    hparams = dqn_cartpole().freeze()
    with pytest.raises(AttributeError, match="frozen: lr"):
        hparams.lr = 1.0
    with pytest.raises(AttributeError, match=r"frozen: model\.activation"):
        hparams.model.activation = "tanh"
    with pytest.raises(TypeError):
        hparams.model.hidden[0] = 1
    assert hparams.lr == dqn_cartpole().lr and hparams.model.activation == "relu"


def test_misspelt_assignment_is_refused_in_python_too():
    with pytest.raises(UsageError, match="unknown hparam 'learning_rate'"):
        dqn_cartpole().learning_rate = 1.0
    with pytest.raises(UsageError, match="lr=-1: needs a number > 0"):
        dqn_cartpole().lr = -1


def test_numbers_and_arrays_of_numpy_are_taken():
    hparams = dqn_cartpole()
    hparams.assign({"num_envs": np.int64(4), "lr": np.float32(0.5), "double": np.bool_(False)})
    hparams.assign({"model": {"hidden": np.array([3, 4])}, "env_kwargs": {"size": np.int32(7)}})
    assert (hparams.num_envs, hparams.lr, hparams.double) == (4, 0.5, False)
    assert list(hparams.model.hidden) == [3, 4] and hparams.env_kwargs == {"size": 7}
    json.dumps(hparams.to_dict())
    with pytest.raises(UsageError, match="num_envs=0: needs an integer >= 1"):
        hparams.num_envs = np.int64(0)


def test_paths_are_taken_as_text():
    hparams = dqn_cartpole()
    hparams.start_from = Path("runs") / "before"
    assert hparams.start_from == "runs/before" and json.loads(json.dumps(hparams.to_dict()))


class Newcomers(HParams):
    """Of a user's own, with plain types."""

    layers: tuple[int, ...] = (1, 2)
    pair: tuple[float, float] = (0.0, 1.0)
    rounds: int = 3


def test_plain_types_of_a_users_own_class_take_what_files_and_overrides_say():
    hparams = Newcomers(env="Identity-v0")
    hparams.assign(parse_overrides("layers=[4,5,6],pair=[0.5,2.0],rounds=1e6"))
    assert (hparams.layers, hparams.pair, hparams.rounds) == ((4, 5, 6), (0.5, 2.0), 1_000_000)
    again = HParams.from_dict(json.loads(json.dumps(hparams.to_dict())))
    assert again == hparams and again.layers == (4, 5, 6)
    with pytest.raises(UsageError, match=r"pair.*: needs a list of a number, a number"):
        hparams.pair = [0.5]
    with pytest.raises(UsageError, match=r"layers.*: needs a list, each item an integer"):
        hparams.layers = ["a"]


def test_refused_assignment_leaves_the_old_value():
    hparams = dqn_cartpole()
    with pytest.raises(UsageError):
        hparams.gamma = 2.0
    assert hparams.gamma == 0.99


@pytest.mark.parametrize(
    ("name", "refused"),
    [
        ("muzero_cartpole", {"normalize_reward": True, "curiosity": "rnd"}),
        *((name, {"curiosity": "rnd"}) for name in ("dreamer_cartpole", "mbpo_pendulum")),
        ("world_models_identity", {"curiosity": "icm"}),
        ("ars_hopper", {"normalize_reward": True, "reward_augmentation": "clip_sign"}),
        ("linucb", {"normalize_reward": True, "normalize_observation": True}),
        ("neural_linear", {"normalize_reward": True, "normalize_observation": True}),
        ("gail_cartpole", {"normalize_reward": True, "reward_augmentation": "mountain_car_energy"}),
        ("dagger_cartpole", {"normalize_reward": True, "reward_augmentation": "mountain_car_energy"}),
        ("bc_cartpole", {"normalize_reward": True, "reward_augmentation": "mountain_car_energy"}),
    ],
)
def test_what_would_be_without_effect_or_in_mixed_units_is_refused(name, refused):
    for hparam, value in refused.items():
        hparams = get_hparams(name)()
        setattr(hparams, hparam, value)
        said = f"{hparam}={str(value).lower()}: {hparams.algo} .*, leave it out"
        with pytest.raises(UsageError, match=said):
            resolve(name, {hparam: value})
        assert hparams.freeze().frozen  # a run that was trained so is read


@pytest.mark.parametrize(
    "make, values, message",
    [
        (dqn_cartpole, {"min_replay_size": 2000, "replay_capacity": 1000}, "learning would never start"),
        (dqn_cartpole, {"exploration_epsilon_start": 0.01}, "exploration only goes down"),
        (world_models_identity, {"exploration_epsilon_start": 0.01}, "exploration only goes down"),
        (
            ppo_cartpole,
            {"minibatches": 3},
            r"minibatches=3 does not divide num_envs \* .*: change one of the t",
        ),
        (ppo_cartpole, {"lr_end": 1.0}, "lr_end=1 is above lr"),
        (ppo_cartpole, {"anneal": {"clip_rang": 0.0}}, "ppo trains: did you mean clip_range"),
        (
            dqn_cartpole,
            {"anneal": {"gamma": 0.5}},
            "'gamma' cannot change while dqn trains: none of its hparams",
        ),
        (ppo_cartpole, {"anneal": {"clip_value_range": 0.1}}, "is off, give the value with which it begins"),
        (ppo_cartpole, {"env": ""}, "name no environment"),
        (HParams, {"env": "CartPole-v1"}, "name no algorithm"),
    ],
)
def test_values_that_do_not_fit_together_are_refused_by_freeze(make, values, message):
    hparams = make()
    for name, value in values.items():
        setattr(hparams, name, value)
    with pytest.raises(UsageError, match=message):
        hparams.freeze()


@pytest.mark.parametrize(
    "value", [print, {1, 2}, 1 + 2j, b"x", {1: 2}, [math.inf], {"a": (math.nan,)}], ids=str
)
@pytest.mark.parametrize("field", ["env_kwargs", "train_env_kwargs"])
def test_options_of_the_environment_that_files_would_give_back_otherwise_are_refused(field, value):
    hparams = ppo_cartpole()
    setattr(hparams, field, {"goal": value})
    with pytest.raises(UsageError, match=r"option goal=.*: a run's files hold text, finite numbers, lists"):
        hparams.freeze()
    setattr(hparams, field, {"goal": {"a": [None, True, 1.5, "x", (1, 2)]}})
    assert hparams.freeze().frozen


def test_prioritized_switch_chooses_the_memory():
    hparams = dqn_cartpole()
    assert hparams.memory_name == "uniform"
    hparams.prioritized = True
    assert hparams.memory_name == "prioritized"
    assert ppo_cartpole().memory_name == "rollout"


@pytest.mark.parametrize("name", RUNNABLE)
def test_json_round_trip_keeps_class_and_values(name):
    hparams = get_hparams(name)()
    hparams.env_kwargs = {"goal_velocity": 0.01, "names": ["a"]}
    again = HParams.from_dict(json.loads(json.dumps(hparams.to_dict())))
    assert type(again) is type(hparams)
    assert again == hparams


@pytest.mark.parametrize(
    "change, message",
    [
        ({"hparams_class": "no_such_module:X"}, "cannot find the hparams class no_such_module:X"),
        ({"hparams_class": ""}, "cannot find the hparams class"),
        ({"lrr": 1}, "unknown hparam 'lrr': did you mean lr"),
        ({"model": {"hiden": [1]}}, "unknown hparam 'model.hiden': did you mean model.hidden"),
        ({"model": {"hidden": [0]}}, "hparam model.hidden holds 0"),
        ({"lr": "fast"}, "hparam lr='fast'"),
    ],
)
def test_saved_hparams_that_do_not_fit_are_a_usage_error(change, message):
    with pytest.raises(UsageError, match=message):
        HParams.from_dict({**dqn_cartpole().to_dict(), **change})


def test_flat_names_are_those_that_overrides_take():
    hparams = dqn_cartpole()
    flat = hparams.flat()
    assert list(flat) == DQNHParams.keys()
    assert flat["model.hidden"] == hparams.model.hidden and flat["lr"] == hparams.lr and "model" not in flat


def test_a_saved_run_imports_no_module(tmp_path, monkeypatch):
    (tmp_path / "strangers.py").write_text("raise SystemExit('it was run')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UsageError, match="import it, if you trust that run"):
        HParams.from_dict({"hparams_class": "strangers:HParams"})
    assert "strangers" not in sys.modules
