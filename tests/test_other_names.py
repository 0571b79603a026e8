"""Names of other libraries: what they are told to mean exists here."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

from rl import other_names
from rl.cli import build_parser, main, parse
from rl.errors import UsageError
from rl.flags import flags_of
from rl.hparams.merge import resolve
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import registry


@pytest.fixture(scope="module")
def keys():
    """The hyperparameters of each algorithm."""
    return [set(kind.keys()) for kind in {type(registry.get(name)()) for name in registry.names()}]


def test_every_name_stands_for_one_of_ours_or_says_what_to_do(keys):
    meant = [each for rows in other_names.HPARAMS.values() for each in rows]
    assert {each.name for each in meant} - {""} <= set().union(*keys)
    assert all(each.note for each in meant if not each.name)
    assert set(other_names.FLAGS.values()) <= set(flags_of(build_parser()))
    assert not set(other_names.FLAGS) & set(flags_of(build_parser()))


def test_a_name_of_ours_stands_for_another_where_an_algorithm_lacks_it(keys):
    ours = set(other_names.HPARAMS) & set().union(*keys)
    assert "batch_size" in ours
    for name in ours:
        targets = {each.name for each in other_names.HPARAMS[name]}
        assert any(name not in each and targets & each for each in keys), f"{name} means what it says"


def test_the_page_on_other_libraries_has_the_same_names_and_what_messages_say_of_them():
    page = (ROOT / "docs/migration.md").read_text()
    found = re.findall(r"^\| `(\w+)` \| (?:`([\w.]+)`|nothing) \| (.*?) ?\|$", page, re.MULTILINE)
    cells = {(name.lower(), ours): cell.replace("`", "") for name, ours, cell in found}
    rows = {(name, each.name): each.note for name, meant in other_names.HPARAMS.items() for each in meant}
    assert len(cells) == len(found) and cells.keys() == rows.keys()
    assert not [(row, note) for row, note in rows.items() if note not in cells[row]]
    flags = re.findall(r"^\| (`--.*?) \| `(--\w+)` \|$", page, re.MULTILINE)
    assert {name: ours for names, ours in flags for name in re.findall("`(.+?)`", names)} == other_names.FLAGS


@pytest.mark.parametrize(
    ("chosen", "text", "told"),
    [
        ("ppo_cartpole", "learning_rate=1", "did you mean lr?"),
        ("ppo_cartpole", "total_timesteps=1", "did you mean train_steps?"),
        ("ppo_cartpole", "minibatch_size=64", "did you mean minibatches? (how many, not how large)"),
        ("ppo_cartpole", "batch_size=64", "did you mean minibatches? (how many, not how large)"),
        ("ppo_cartpole", "ent_coef=0.1", "did you mean entropy_coef?"),
        (
            "sac_pendulum",
            "ent_coef=0.1",
            "did you mean temperature? (a fixed one needs learn_temperature=false, too)",
        ),
        ("ppo_cartpole", "n_steps=64", "did you mean rollout_length?"),
        ("dqn_cartpole", "n_steps=3", "did you mean n_step?"),
        (
            "dqn_cartpole",
            "target_update_interval=1000",
            "did you mean target_update_period? (in gradient updates, not in environment steps)",
        ),
        (
            "sac_pendulum",
            "target_update_interval=1",
            "leave it out: without target_update_period, targets follow by tau",
        ),
        ("ppo_cartpole", "verbose=1", "leave it out"),
        ("ppo_cartpole", "buffer_size=1", "this algorithm has none (in others here it is replay_capacity)"),
        ("ppo_cartpole", "model.fcnet_hiddens=[64]", "did you mean model.hidden?"),
        ("ppo_cartpole", "clip_rnage=0.1", "did you mean clip_range, clip_value_range?"),
    ],
)
def test_a_name_of_elsewhere_is_told_as_ours_with_what_its_value_is_here(chosen, text, told):
    with pytest.raises(UsageError) as error:
        resolve(chosen, text)
    every = " (all: python train.py --list hparams SET)" if "rnage" in text else ""
    assert str(error.value) == f"unknown hparam {text.partition('=')[0]!r}: {told}{every}"


def test_a_name_that_is_like_none_is_told_where_all_are_listed(capsys):
    with pytest.raises(UsageError, match=r"known: .*, \.\.\. \(all: python train.py --list hparams SET\)$"):
        resolve("ppo_cartpole", "qqqq=1")
    assert main(["--list", "hparams", "ppo_cartpole"]) == 0
    listed = {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    assert set(PPOHParams.keys()) <= listed


def test_a_list_without_brackets_is_understood():
    with pytest.raises(UsageError, match=r"is it of model.hidden\? a list has brackets"):
        resolve("ppo_cartpole", "model.hidden=64,64")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (
            "--hparams ppo_cartpole --batch-size 64",
            "did you mean --hparam_override minibatches=VALUE? (how many, not how large)",
        ),
        ("--buffer-size 64", "did you mean --hparam_override replay_capacity=VALUE?"),
        (
            "--hparams ppo_cartpole --buffer-size 64",
            "this algorithm has none (in others here it is replay_capacity)",
        ),
        (
            "--hparams ppo_cartpole --wandb-project-name x",
            "it is the variable WANDB_PROJECT, with --track wandb",
        ),
    ],
)
def test_a_flag_of_elsewhere_is_told_as_a_hyperparameter(words, told):
    with pytest.raises(UsageError) as error:
        parse(words.split())
    flag = words.split()[-2]
    assert str(error.value) == f"unknown flag {flag}: {told} (all: --help)"


@pytest.mark.parametrize(
    ("env_id", "told"),
    [
        ("PongNoFrameskip-v4", "did you mean Pong-v5?"),
        ("BreakoutDeterministic-v0", "did you mean Breakout-v5?"),
        ("Pong-ram-v4", "did you mean Pong-ram-v5?"),
        ("NoSuchGame-v4", None),
        ("pistonball_v6", "it looks like PettingZoo's"),
        ("CartPole-v9", None),
    ],
)
def test_ids_of_older_or_other_environments(env_id, told):
    found = other_names.environment_meant(env_id, {"Pong-v5", "Pong-ram-v5", "Breakout-v5", "CartPole-v1"})
    assert found is None if told is None else found.startswith(told)
