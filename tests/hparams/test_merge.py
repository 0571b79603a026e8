"""`--hparams a-b`: the later wins, only with what it explicitly says."""

from __future__ import annotations

import pytest

from rl.errors import UsageError
from rl.hparams.dqn import DQNHParams, dqn, dqn_cartpole
from rl.hparams.hparams import HParams
from rl.hparams.merge import difference, explicit, merge, named, resolve
from rl.hparams.ppo import ppo
from rl.hparams.registry import register, registry


def merge_test_small() -> HParams:
    """A set of the base class that merges with any algorithm."""
    hparams = HParams(num_envs=2)
    hparams.lr = 0.5
    hparams.model.hidden = (8,)
    return hparams


def merge_test_relu() -> DQNHParams:
    """A set of DQN's class that says little."""
    hparams = DQNHParams()
    hparams.model.activation = "relu"
    return hparams


def merge_test_misspelt() -> HParams:
    """A set with a mistake in it."""
    hparams = ppo()
    hparams.learning_rate = 1.0  # type: ignore[attr-defined]
    return hparams


def merge_test_bad_constructor() -> HParams:
    """A set with a mistake in a constructor."""
    return DQNHParams(batch_size=0)


def merge_test_nothing() -> HParams:
    """A set that forgot its return."""


@pytest.fixture(autouse=True)
def registered(monkeypatch):
    """The sets of this file are known in its tests only."""
    monkeypatch.setattr(registry, "_found", {entry.name: entry for entry in registry.entries()})
    strange = (merge_test_misspelt, merge_test_bad_constructor, merge_test_nothing)
    for each in (merge_test_small, merge_test_relu, *strange):
        register(each)


def test_later_set_wins_where_it_says_something():
    merged = named("dqn_cartpole-merge_test_small")
    assert (merged.lr, merged.num_envs, list(merged.model.hidden)) == (0.5, 2, [8])


def test_class_defaults_of_the_later_set_override_nothing():
    merged = named("dqn_cartpole-merge_test_small")
    base = dqn_cartpole()
    assert isinstance(merged, DQNHParams)
    assert merged.train_steps == base.train_steps != HParams().train_steps
    assert merged.env == base.env != HParams().env
    assert merged.model.activation == "relu" != HParams().model.activation
    assert merged.memory == "uniform" != HParams().memory


def test_earlier_set_loses_where_the_later_one_says_something():
    merged = named("merge_test_small-dqn_cartpole")
    base = dqn_cartpole()
    assert (merged.lr, merged.num_envs, merged.model.hidden) == (base.lr, base.num_envs, base.model.hidden)


def test_merging_with_the_base_or_itself_changes_nothing():
    assert named("default-dqn_cartpole") == dqn_cartpole()
    assert named("dqn_cartpole-default") == dqn_cartpole()
    assert named("dqn_cartpole-dqn_cartpole") == dqn_cartpole()


def test_merge_leaves_its_parts_alone():
    one, other = dqn_cartpole(), merge_test_small()
    merge(one, other).model.hidden = (1,)
    assert one == dqn_cartpole() and other == merge_test_small()


def test_explicit_survives_a_merge_so_that_three_sets_merge_in_order():
    merged = named("merge_test_small-default-merge_test_relu")
    assert merged.lr == 0.5 and explicit(merged)["num_envs"] == 2
    assert merged.model.activation == "relu" and list(merged.model.hidden) == [8]


@pytest.mark.parametrize(
    "names, message",
    [
        ("dqn_cartpole-ppo_cartpole", "cannot merge .*DQNHParams.*PPOHParams.*different algorithms"),
        ("dqn_cartpol", "unknown hparams name 'dqn_cartpol': did you mean dqn_cartpole"),
        ("sac_ant", r"unknown hparams name 'sac_ant': .*; or --hparams sac --env ID$"),
        ("sac_discrete_pong_v5", "; or --hparams sac_discrete --env ID$"),
        ("default_pong", r"own needs --user_modules\)$"),  # `default` names no algorithm
        ("nothing_like_it", r"own needs --user_modules\)$"),
        ("dqn-", "cannot read --hparams 'dqn-'"),
        ("merge_test_misspelt", "hparams set 'merge_test_misspelt': unknown hparam 'learning_rate'"),
        ("merge_test_bad_constructor", "hparams set .*batch_size=0: needs an integer >= 1"),
        ("merge_test_nothing", "hparams set 'merge_test_nothing' returned NoneType, not HParams"),
    ],
)
def test_sets_that_cannot_be_used_are_a_usage_error(names, message):
    with pytest.raises(UsageError, match=message):
        named(names)


def test_resolve_applies_overrides_then_flags_and_freezes():
    hparams = resolve("dqn", "lr=0.1,train_steps=5", env="CartPole-v1", train_steps=7)
    assert hparams.frozen
    assert (hparams.lr, hparams.env, hparams.train_steps) == (0.1, "CartPole-v1", 7)


def test_resolve_takes_unset_flags_as_absent():
    assert resolve("dqn_cartpole", env=None, train_steps=None) == dqn_cartpole().freeze()


def test_resolve_takes_a_mapping_of_overrides():
    hparams = resolve("dqn_cartpole", {"model": {"hidden": [5]}, "lr": 0.25})
    assert list(hparams.model.hidden) == [5] and hparams.lr == 0.25


def test_resolve_checks_values_against_each_other():
    with pytest.raises(UsageError, match="learning would never start"):
        resolve("dqn_cartpole", "min_replay_size=1e9")


def test_difference_names_what_changed():
    hparams = resolve("dqn_cartpole", "lr=0.1,model.hidden=[5]")
    base = dqn_cartpole()
    assert difference(hparams, base) == {"lr": (base.lr, 0.1), "model.hidden": (base.model.hidden, (5,))}
    assert difference(dqn(), HParams())["algo"] == ("", "dqn")
    assert difference(dqn(), HParams())["double"] == (None, True)
