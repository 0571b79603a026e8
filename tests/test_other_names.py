"""Names of other libraries: what they are told to mean exists here."""

from __future__ import annotations

import re

import pytest
from pages import ROOT

from rl import other_names
from rl.cli import build_parser
from rl.errors import UsageError
from rl.flags import flags_of
from rl.hparams.merge import resolve
from rl.hparams.registry import registry


def test_every_name_stands_for_one_of_ours():
    kinds = {type(registry.get(name)()) for name in registry.names()}
    ours = {key for kind in kinds for key in kind.keys()}  # noqa: SIM118 (a class, not a dict)
    assert set(other_names.HPARAMS.values()) <= ours
    assert set(other_names.FLAGS.values()) <= set(flags_of(build_parser()))
    assert not set(other_names.HPARAMS) & ours, "a name of ours means what it says"
    assert not set(other_names.FLAGS) & set(flags_of(build_parser()))


def test_the_page_on_other_libraries_has_the_same_names():
    page = (ROOT / "docs/migration.md").read_text()
    rows = set(re.findall(r"^\| `(\w+)` \| `([\w.]+)` \|.*\|$", page, re.MULTILINE))
    assert rows == set(other_names.HPARAMS.items())
    flags = re.findall(r"^\| (`--.*?) \| `(--\w+)` \|$", page, re.MULTILINE)
    assert {name: ours for names, ours in flags for name in re.findall("`(.+?)`", names)} == other_names.FLAGS


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("learning_rate=1", "did you mean lr?"),
        ("total_timesteps=1", "did you mean train_steps?"),
        ("buffer_size=1", "unknown hparam 'buffer_size'"),  # PPO has none: the nearest by likeness
        ("model.hidden=64,64", r"is it of model.hidden\? a list has brackets"),
    ],
)
def test_a_name_or_a_list_of_elsewhere_is_understood(text, told):
    with pytest.raises(UsageError, match=told):
        resolve("ppo_cartpole", text)


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
