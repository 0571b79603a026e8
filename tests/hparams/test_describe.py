"""What is said of hyperparameters: the comments of their definitions."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from rl.hparams.describe import described, meanings
from rl.hparams.hparams import Count, HParams, ModelHParams
from rl.hparams.merge import named
from rl.hparams.registry import registry
from rl.listing import registry_of

ROOT = Path(__file__).parents[2]


class Mine(HParams):
    """Comments beside, above and on both sides, and one that is inherited."""

    beside: Count = 1  # said beside
    # said
    # above
    above: Count = 2
    # said above
    both: Count = 3  # and beside
    silent: Count = 4

    gamma: float = 0.5


def test_comments_beside_and_above_are_the_meaning():
    found = meanings(Mine)
    assert [found[name] for name in ("beside", "above", "both", "silent")] == [
        "said beside",
        "said above",
        "said above and beside",
        "",
    ]
    assert found["gamma"] == meanings(HParams)["gamma"] != ""


def test_values_are_as_an_override_would_give_them():
    rows = {row.name: row for row in described(named("sac_halfcheetah"))}
    assert rows["model.hidden"].value == "[256,256]"
    assert rows["env_kwargs"].value == "{}" and rows["normalize_reward"].value == "false"
    assert rows["target_entropy"].value == "none"


def test_every_hyperparameter_of_every_set_has_a_meaning():
    ours = [entry.name for entry in registry.entries() if Path(entry.path).is_relative_to(ROOT / "rl")]
    kinds = {type(registry.get(name)()): name for name in ours}
    assert len(kinds) > 15
    missing = [
        (name, row.name) for name in kinds.values() for row in described(named(name)) if not row.meaning
    ]
    assert not missing, "add a comment to the definition"


@pytest.mark.parametrize(
    ("family", "kind", "field"),
    [
        ("memory", HParams, "memory"),
        ("act_select", HParams, "act_select"),
        ("grad_comp", HParams, "grad_comp"),
        ("models", ModelHParams, "name"),
    ],
)
def test_a_part_that_is_given_by_name_is_said_with_all_names_of_ours(family, kind, field):
    told = re.findall(r"\w+", meanings(kind)[field])
    entries = registry_of(family).entries()
    ours = {entry.name for entry in entries if Path(entry.path).is_relative_to(ROOT / "rl")}
    assert len(ours) > 2 and ours <= set(told)
