"""What is said of hparams before training: when, in which words, how often."""

from __future__ import annotations

import logging
import re
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces

import rl
from rl import experiment
from rl.agents.algos.registry import get_algo
from rl.cli import main
from rl.envs.hints import tell_hints
from rl.hparams.c51 import C51HParams
from rl.hparams.hints import action_hint, hints, picture_hint, updates_of_run
from rl.hparams.merge import named, resolve
from rl.hparams.registry import registry
from rl.report.versions import write_run_files

SMALL = {"env": "CartPole-v1", "num_envs": 2, "rollout_length": 4, "n_step": 1, "updates_per_iteration": 3}


@pytest.mark.parametrize(
    ("overrides", "updates"),
    [  # k iterations of 4 steps in 2 environments keep (4 k - n_step) 2 places that can be sampled
        ({"train_steps": 100, "min_replay_size": 10}, 12 * 3),  # 6 after the first of 13, 14 after the second
        ({"train_steps": 64, "min_replay_size": 54}, 2 * 3),  # 54 after the seventh of 8
        ({"train_steps": 64, "min_replay_size": 55}, 1 * 3),
        ({"train_steps": 64, "min_replay_size": 63}, 0),  # 62 after the last
        ({"train_steps": 65, "min_replay_size": 63}, 1 * 3),  # a ninth iteration
        ({"train_steps": 64, "min_replay_size": 52, "n_step": 6}, 1 * 3),
        ({"train_steps": 64, "min_replay_size": 53, "n_step": 6}, 0),
    ],
)
def test_updates_of_a_run_are_counted(overrides, updates):
    assert updates_of_run(resolve("dqn", SMALL | overrides)) == updates


def test_a_run_makes_the_updates_that_are_counted(build):
    overrides = {"min_replay_size": 54, "batch_size": 4, "train_steps": 64}
    runner = build("dqn", **SMALL | overrides)
    assert runner.run(8)["updates"] == updates_of_run(resolve("dqn", SMALL | overrides)) == 6


@pytest.mark.slow
def test_a_run_on_sequences_makes_the_updates_that_are_counted(build):
    """3 rollouts of 4 steps hold a sequence of 8 and its successor: the third iteration learns first."""
    overrides = {"burn_in": 2, "unroll_length": 6, "min_replay_size": 9, "batch_size": 4, "train_steps": 64}
    runner = build("r2d2", **SMALL | overrides, model={"hidden": (4,), "recurrent_units": 4})
    found = runner.run(8)["updates"]
    assert found == updates_of_run(resolve("r2d2", SMALL | overrides)) == 5 * 3


@pytest.mark.parametrize(("model", "updates"), [("mlp", 8 * 3), ("gru", 6 * 3)])
def test_agents_who_keep_state_learn_once_whole_sequences_are_there(model, updates):
    overrides = {"burn_in": 2, "unroll_length": 6, "min_replay_size": 1, "train_steps": 64}
    assert updates_of_run(resolve("vdn", SMALL | overrides | {"model.name": model})) == updates


REPLAY = ["dqn", "c51", "qrdqn", "iqn", "rainbow", "r2d2", "ddpg", "td3", "sac", "sac_discrete"]


@pytest.mark.parametrize("name", [*REPLAY, "ppo", "appo"])
def test_an_iteration_more_makes_the_algorithms_updates_more(name):
    size = {"env": "Test-v0", "num_envs": 2, "rollout_length": 8}
    shorter, longer = (resolve(name, {**size, "train_steps": steps}) for steps in (8_000, 8_016))
    each = get_algo(name).updates_per_iteration(SimpleNamespace(hparams=longer))
    assert updates_of_run(longer) - updates_of_run(shorter) == each


@pytest.mark.parametrize("name", ["dqn", "iqn", "r2d2", "appo"])
def test_a_target_network_that_never_moves_is_told(name):
    """A last iteration more, and the first copy is made."""
    size = {"env": "Test-v0", "num_envs": 1, "rollout_length": 8, "train_steps": 1_600}
    made = updates_of_run(resolve(name, size))
    assert made > 0
    assert hints(resolve(name, {**size, "target_update_period": made})) == []
    (hint,) = hints(resolve(name, {**size, "target_update_period": made + 1}))
    assert hint == (
        f"the target network will keep its first weights: target_update_period={made + 1}, and "
        f"train_steps=1600 make {made} updates: lower it, or train longer"
    )


def test_a_run_that_ends_before_its_first_auxiliary_phase_is_told():
    size = {"env": "CartPole-v1", "num_envs": 2, "rollout_length": 4, "minibatches": 1, "aux_minibatches": 1}
    assert hints(resolve("ppg", {**size, "policy_iterations": 20, "train_steps": 160})) == []
    assert hints(resolve("ppg", {**size, "policy_iterations": 21, "train_steps": 160})) == [
        "no auxiliary phase will come: policy_iterations=21, and train_steps=160 make 20 rollouts: lower it, "
        "or train longer"
    ]


def test_a_run_that_never_learns_is_told():
    assert hints(resolve("dqn", SMALL | {"min_replay_size": 63, "train_steps": 64})) == [
        "nothing will be learned: min_replay_size=63 is not reached within train_steps=64: lower it, or "
        "train longer"
    ]
    learns = {"min_replay_size": 63, "train_steps": 72, "target_update_period": 3}
    assert hints(resolve("dqn", SMALL | learns)) == []


def test_a_run_shorter_than_an_iteration_learns_once_all_the_same():
    """The last iteration is made whole."""
    hparams = resolve("ppo", {"env": "CartPole-v1", "train_steps": 1})
    assert updates_of_run(hparams) == hparams.epochs * hparams.minibatches
    assert hints(hparams) == [
        "train_steps=1 will be 256: iterations are made whole, and one is num_envs * rollout_length = 256 "
        "steps"
    ]


@pytest.mark.parametrize(
    ("overrides", "made"),
    [
        ({"train_steps": 6_400}, None),
        ({"train_steps": 6_300}, None),  # 6,400: less than 2 % more
        ({"train_steps": 6_273}, "6400: .* num_envs .* = 128 steps"),
        ({"train_steps": 640, "num_learners": 2}, "768: .* num_learners .* = 256 steps"),  # 128 steps of each
        ({"train_steps": 640, "num_learners": 2, "sync_workers": True}, None),  # of both together
    ],
)
def test_steps_that_the_last_iteration_makes_more_are_told(overrides, made):
    found = hints(resolve("ppo", {"env": "Test-v0", "num_envs": 8, "rollout_length": 16} | overrides))
    assert not found if made is None else re.match(f"train_steps=\\d+ will be {made}", found[0])


def test_evaluations_that_are_rarer_than_asked_for_are_told():
    run = {"env": "CartPole-v1", "train_steps": 10_240}
    assert hints(resolve("ppo", run | {"eval_period": 1_000, "log_period": 5_000})) == [
        "eval_period=1000 will be 5000: evaluations are made where a row of metrics is written, every "
        "log_period=5000 steps: lower that, too"
    ]
    assert hints(resolve("ppo", run | {"eval_period": 1_000, "log_period": 1_000})) == []
    assert hints(resolve("ppo", run | {"eval_period": 0, "log_period": 5_000})) == [], "at the end alone"
    short = run | {"train_steps": 512, "eval_period": 512, "log_period": 5_000}
    assert hints(resolve("ppo", short)) == [], "there is one row"


def test_wrappers_that_normalise_apart_from_evaluations_are_told():
    flat, reward = "gymnasium.wrappers:FlattenObservation", "gymnasium.wrappers:NormalizeReward"
    assert not hints(resolve("ppo", {"env": "Pendulum-v1", "env_wrappers": (flat,)}))
    (hint,) = hints(resolve("ppo", {"env": "Pendulum-v1", "env_wrappers": (flat, reward)}))
    assert reward in hint and hint.endswith("take normalize_reward=true in its place")


def test_a_run_of_random_actions_alone_is_told():
    overrides = {"env": "Pendulum-v1", "train_steps": 5_000, "random_steps": 5_000}
    assert hints(resolve("sac", overrides)) == [
        "every action of training will be random: random_steps=5000 is not below train_steps=5000: lower it, "
        "or train longer"
    ]
    assert hints(resolve("sac", overrides | {"random_steps": 4_999})) == []


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("ppo", {"minibatches": 8}, "a minibatch"),
        ("appo", {"minibatches": 1, "num_envs": 1, "rollout_length": 1}, "a rollout"),
        ("ppo", {"minibatches": 4, "grad_comp": "accumulate", "microbatches": 2}, "a minibatch"),
        ("ppo", {"minibatches": 4}, None),
        ("ppo", {"minibatches": 8, "normalize_advantage": False}, None),
        ("trpo", {"minibatches": 8}, None),  # parts of the value's alone
    ],
)
def test_advantages_of_single_steps_are_told(name, given, told):
    shape = {"env": "CartPole-v1", "num_envs": 2, "rollout_length": 4, "train_steps": 64}
    found = [each for each in hints(resolve(name, shape | given)) if "the policy will not learn" in each]
    assert len(found) == (told is not None) and all(f"of {told}, which has a single step" in x for x in found)


@pytest.mark.parametrize("name", ["c51", "rainbow"])
def test_a_support_that_nobody_chose_is_told(name):
    env = {"env": "Acrobot-v1", "target_update_period": 1, "normalize_reward": False}
    assert hints(resolve(name, env)) == [
        f"{name} distributes returns over [-10, 10], the default: give value_min and value_max for Acrobot-v1"
    ]
    assert hints(resolve(name, env | {"value_max": 100.0})) == []
    assert hints(resolve(name, env | {"value_min": -10.0, "value_max": 10.0})) == [], "chosen all the same"
    assert hints(resolve(name, env | {"reward_augmentation": "clip_sign"})) == [], "as in the papers"
    assert hints(resolve(name, env | {"normalize_reward": True})) == [], "returns in units of their deviation"
    assert len(hints(C51HParams(**env))) == 1


def test_no_named_set_is_hinted_at():
    found = {name: hints(resolve(name)) for name in registry.names() if named(name).env}
    assert len(found) > 80
    assert {name: lines for name, lines in found.items() if lines} == {}


def picture(*shape):
    return spaces.Box(0, 255, shape, np.uint8)


@pytest.mark.parametrize(
    ("space", "fitting"),
    [
        (
            picture(84, 84, 4),
            "84 x 84, which model mlp takes for lists of numbers: take model.name=nature_cnn",
        ),
        (
            picture(36, 50, 3),
            "36 x 50, which model mlp takes for lists of numbers: take model.name=nature_cnn",
        ),
        (picture(35, 50, 3), "take model.name=impala_cnn or minatar_cnn"),
        (picture(10, 10, 3), "take model.name=impala_cnn or minatar_cnn"),
        (spaces.Dict({"x": spaces.Box(0.0, 1.0, (2,)), "eye": picture(64, 64, 3)}), "64 x 64"),
        (spaces.Tuple([spaces.Discrete(4), picture(64, 64, 3)]), "64 x 64"),
        (picture(4, 48, 64), "48 x 64"),  # channels first
        (picture(7, 7, 3), None),  # MiniGrid's table of what is where
        (picture(128), None),  # Atari's memory
        (picture(84, 84), "84 x 84"),  # [H, W]: no convolution takes it as it is
        (spaces.Box(0.0, 1.0, (50, 50), np.float32), None),  # a matrix of anything
        (spaces.Box(0.0, 1.0, (84, 84, 3), np.float32), "84 x 84"),
        (spaces.Box(0, 1, (10, 10, 4), np.bool_), None),  # MinAtar: a dense network is a choice there
    ],
)
def test_pictures_for_dense_layers_are_told(space, fitting):
    hint = picture_hint(resolve("ppo", {"env": "Test-v0"}), space)
    assert hint is None if fitting is None else (hint or "").startswith("Test-v0 shows pictures of")
    assert fitting is None or fitting in hint
    assert picture_hint(resolve("ppo", {"env": "Test-v0", "model.name": "impala_cnn"}), space) is None
    assert picture_hint(resolve("ppo", {"env": "Test-v0", "model.name": "lstm"}), space) is None


def test_small_pictures_for_dense_layers_may_be_chosen_large_ones_are_told_always():
    chosen = resolve("ppo", {"env": "Test-v0", "model.name": "mlp"})
    assert picture_hint(chosen, picture(20, 20, 3)) is None
    assert picture_hint(chosen, picture(84, 84, 4)) is not None


SHORT = {"train_steps": 256, "min_replay_size": 1_000, "compile": "eager"}
NEVER = (
    "nothing will be learned: min_replay_size=1000 is not reached within train_steps=256: lower it, or train "
    "longer"
)


def warnings(caplog):
    found = [each.getMessage() for each in caplog.records if each.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_hints_are_told_once_where_training_begins(tmp_path, caplog, monkeypatch):
    def begin(plan, storages, *_):
        for storage in storages.values():
            write_run_files(
                storage.folder, {"name": "test", "hparams": plan.hparams.to_dict(), "seed": 0}, ""
            )
        return [], []

    monkeypatch.setattr(experiment, "_all_copies", begin)
    overrides = ",".join(f"{name}={value}" for name, value in SHORT.items())
    words = ["--hparams", "dqn_identity", "--hparam_override", overrides, "--output_dir", str(tmp_path)]
    words += ["--copies", "2"]
    assert main(words) == 0
    assert warnings(caplog) == [NEVER], "not for each copy"
    assert main(words) == 0
    assert main([*words, "--test_only"]) == 0
    assert warnings(caplog) == [], "nothing begins"


def test_hints_are_told_in_python_too(tmp_path, caplog):
    values = {"atoms": 11, "env": "Identity-v0", "train_steps": 1_024, "target_update_period": 1}
    hparams = C51HParams(**values, num_envs=2, rollout_length=4, replay_capacity=2_000, compile="graph")
    rl.train(hparams, output_dir=tmp_path, eval_episodes=1, min_replay_size=900)
    assert warnings(caplog) == [
        "c51 distributes returns over [-10, 10], the default: give value_min and value_max for Identity-v0"
    ]
    rl.train(hparams, output_dir=tmp_path, eval_episodes=1, min_replay_size=900)
    rl.load(tmp_path)
    assert warnings(caplog) == [], "nothing begins"
    assert hparams.min_replay_size == 1_000 and len(hints(hparams)) == 1, "the caller's own stay"


@pytest.mark.parametrize(
    ("name", "env", "told"),
    [("maml", "CartPole-v1", 1), ("maml", "Navigation2D-v0", 0), ("ppo", "CartPole-v1", 0)],
)
def test_nothing_to_adapt_to_is_told(caplog, name, env, told):
    tell_hints(resolve(name, {"env": env}))
    found = warnings(caplog)
    assert len(found) == told
    assert (
        not told or "CartPole-v1 is always the same task, which leaves maml nothing to adapt to" in found[0]
    )


def test_pictures_are_told_where_training_begins(caplog):
    for model in ("mlp", "nature_cnn"):
        hparams = resolve("ppo", {"env": "coinrun", "frame_stack": 2, "model.name": model})
        tell_hints(hparams)
    assert warnings(caplog) == [
        "coinrun shows pictures of 64 x 64, which model mlp takes for lists of numbers: take "
        "model.name=nature_cnn or impala_cnn"
    ]
    tell_hints(resolve("ppo", {"env": "Nowhere-v0"}))
    assert warnings(caplog) == [], "building the run says so"


@pytest.mark.parametrize(
    ("low", "high", "told"),
    [
        ([-1.0, -1.0], [1.0, 1.0], False),
        ([-2.0, 0.0], [2.0, 1.0], False),
        ([10.0, -1.0], [30.0, 1.0], True),  # every action would be 10
        ([-1.0, -30.0], [1.0, -10.0], True),
        ([-1.0, -1.0], [1.0, 100.0], True),
        ([0.0, 0.0], [0.01, 0.01], True),
        ([0.5, -1.0], [0.5, 1.0], False),  # one action alone
        ([-np.inf, -1.0], [np.inf, 1.0], False),
    ],
)
def test_actions_that_a_policy_hardly_meets_are_told_of(low, high, told):
    space = spaces.Box(np.float32(low), np.float32(high))
    assert (action_hint(resolve("ppo", {"env": "Valve-v0"}), space) is not None) is told
    assert action_hint(resolve("sac", {"env": "Valve-v0"}), space) is None
    assert action_hint(resolve("ppo", {"env": "Valve-v0"}), spaces.Discrete(3)) is None
