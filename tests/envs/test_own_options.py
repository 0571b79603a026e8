"""Classes and functions that make environments, and the options that they do not take: what to give."""

from __future__ import annotations

import gymnasium
import pytest

import rl
from rl.errors import UsageError


class Match:
    """What stands for a parallel environment of PettingZoo."""

    possible_agents = ("a", "b")


class Tower(gymnasium.Env):
    """Cannot be made without a height."""

    def __init__(self, height, width=3):
        raise AssertionError("is never called: its options do not fit")


@pytest.mark.parametrize(
    ("env", "options", "message"),
    [
        (Match, {}, "PettingZoo's are given as pettingzoo:MODULE, a module whose parallel_env or env makes"),
        (Tower, {"height": 3, "witdh": 4}, "Tower has no parameter 'witdh': did you mean width?"),
        (Tower, {"width": 4}, "Tower needs height: give env_kwargs={height:VALUE}"),
    ],
)
def test_a_class_that_is_given_wrongly_says_what_to_give(tmp_path, env, options, message):
    with pytest.raises(UsageError) as error:
        rl.train("ppo", env=env, output_dir=tmp_path / "out", env_kwargs=options)
    assert message in str(error.value) and "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
