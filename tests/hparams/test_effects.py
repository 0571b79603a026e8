"""Hyperparameters without effect: told with what they take, and left alone where they have one."""

from __future__ import annotations

import pytest

from rl.agents.algos.act_select.registry import registry as act_selects
from rl.hparams import effects
from rl.hparams.hints import hints
from rl.hparams.merge import resolve
from rl.memory.registry import registry as memories
from rl.models.registry import registry as models

FOUND = [  # set, what is given, which of it does nothing, what gives it an effect
    ("dqn", {"hindsight_goals": 8}, "hindsight_goals", {"memory": "hindsight"}),
    ("sac", {"goal_tolerance": 0.1}, "goal_tolerance", {"memory": "hindsight"}),
    ("dqn", {"priority_exponent": 0.7}, "priority_exponent", {"prioritized": True}),
    ("td3", {"priority_epsilon": 1e-3}, "priority_epsilon", {"prioritized": True}),
    ("ddpg", {"data_chunk": 1000}, "data_chunk", {"memory": "dataset", "data": "DIR"}),
    ("vdn", {"burn_in": 4, "unroll_length": 20}, "burn_in, unroll_length", {"model.name": "gru"}),
    ("r2d2", {"prioritized": False, "priority_eta": 0.5}, "priority_eta", {"prioritized": True}),
    ("maddpg", {"previous_action_reward": True}, "previous_action_reward", {"previous_action_reward": False}),
    ("ppo", {"start_which": "best"}, "start_which", {"start_from": "runs/before"}),
    ("td3", {"ou_theta": 0.2}, "ou_theta", {"act_select": "ou_noise"}),
    ("dqn", {"noisy_sigma": 0.3}, "noisy_sigma", {"noisy": True}),
    (
        "dqn",
        {"act_select": "uniform_random", "exploration_epsilon_end": 0.2, "exploration_steps": 500},
        "exploration_epsilon_end, exploration_steps",
        {"act_select": "epsilon_greedy"},
    ),
    (
        "dqn",
        {"exploration_epsilon_base": 0.5},
        "exploration_epsilon_base",
        {"act_select": "per_worker_epsilon"},
    ),
    ("ppo", {"curiosity_lr": 1e-2}, "curiosity_lr", {"curiosity": "rnd"}),
    ("td3_bc", {"anneal": {"exploration_noise": 0.0}}, "anneal", {"memory": "uniform"}),
    ("ppo", {"lr_end": 1e-5, "lr_schedule": "constant"}, "lr_end", {"lr_schedule": "cosine"}),
    ("ppo", {"lr_decay_rate": 0.5}, "lr_decay_rate", {"lr_schedule": "exponential"}),
    ("ppo", {"lr_power": 3.0}, "lr_power", {"lr_schedule": "polynomial"}),
    ("ppo", {"adam_epsilon": 1e-3, "optimizer": "sgd"}, "adam_epsilon", {"optimizer": "adamw"}),
    ("ppo", {"adam_epsilon": 1e-3, "optimizer": "sgd"}, "adam_epsilon", {"optimizer": "rmsprop"}),
    (
        "ppo",
        {"model.value_hidden": (256,), "model.shared": True},
        "model.value_hidden",
        {"model.shared": False},
    ),
    ("ppo", {"model.recurrent_units": 16}, "model.recurrent_units", {"model.name": "lstm"}),
]


def told(name, given):
    """The hints about effects, of a set on CartPole or Pendulum with what is given."""
    env = "CartPole-v1" if name in ("dqn", "ppo") else "Pendulum-v1"
    return [hint for hint in hints(resolve(name, {"env": env, **given})) if "no effect" in hint]


@pytest.mark.parametrize(("name", "given", "idle", "takes"), FOUND)
def test_what_does_nothing_is_told_until_it_is_given_what_it_takes(name, given, idle, takes):
    (hint,) = told(name, given)
    assert hint.startswith(f"{idle} will have no effect: that takes ")
    assert all(key in hint for key in takes if key != "data")
    assert told(name, given | takes) == []


def test_every_rule_is_tried():
    tried = {name for _, _, idle, _ in FOUND for name in idle.split(", ")}
    assert all(tried.intersection(effect.names) for effect in effects.EFFECTS)


def test_defaults_are_not_told_even_where_they_are_given():
    assert told("ppo", {"lr_end": 0.0, "lr_power": 2.0}) == []


def test_parts_of_a_users_own_may_read_any():
    assert told("dqn", {"exploration_epsilon_end": 0.2, "act_select": "my_own"}) == []
    assert told("dqn", {"model.recurrent_units": 16, "model.name": "my_own"}) == []
    assert told("dqn", {"hindsight_goals": 8, "memory": "my_own"}) == []


def test_the_parts_that_are_known_are_those_of_this_package():
    for registry, known in (
        (memories, effects.MEMORIES),
        (act_selects, effects.ACT_SELECTS),
        (models, effects.MODELS),
    ):
        # Whatever else was registered in this process is a test's own.
        assert {name for name, each in registry._entries().items() if each.module.startswith("rl.")} == known
