"""What errors say, at a terminal and in a Python program."""

from __future__ import annotations

import pytest

import rl
from rl.errors import UsageError, in_python


@pytest.mark.parametrize(
    ("said", "in_a_program"),
    [
        ("name no environment: give --env ID, or a set", "name no environment: give env=ID, or a set"),
        ("it names none: give --hparam_override data=DIR", "it names none: give data=DIR"),
        ("leave --num_workers out", "leave num_workers out"),
        ("take --eval_policy sample", "take eval_policy sample"),
        ("(all: python train.py --list x SET); or --copy", "(all: python train.py --list x SET); or --copy"),
        ("run ./setup.sh --sys gpu; or --sys local", "run ./setup.sh --sys gpu; or sys local"),
        ("give --user_modules parts again, x - y -- z", "give --user_modules parts again, x - y -- z"),
    ],
)  # fmt: skip
def test_a_program_is_told_arguments_and_not_flags(said, in_a_program):
    with pytest.raises(UsageError) as caught, in_python():
        raise UsageError(said)
    assert str(caught.value) == in_a_program


def test_so_is_who_trains_without_an_environment():
    with pytest.raises(UsageError, match="give env=ID, or a set"):
        rl.train("ppo")
