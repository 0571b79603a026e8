"""What errors say, at a terminal and in a Python program."""

from __future__ import annotations

import errno
import sys

import pytest

import rl
from rl.cli import answered
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


def test_a_file_without_rights_that_nobody_asked_about_is_one_line(capsys):
    def work():
        raise PermissionError(errno.EACCES, "Permission denied", "shared/run_0")

    assert answered(work) == 2
    line = "error: shared/run_0: Permission denied: change its rights, or name another\n"
    assert capsys.readouterr() == ("", line)


@pytest.mark.parametrize("readers_gone", [False, True])
@pytest.mark.parametrize(
    "error",
    [
        FileExistsError(errno.EEXIST, "File exists", "x"),
        PermissionError(errno.EPERM, "Operation not permitted"),  # of no file
        PermissionError("no licence"),  # as libraries raise it
    ],
    ids=["another", "of no file", "a library's"],
)
def test_what_another_error_comes_from_is_shown(monkeypatch, error, readers_gone):
    def work():
        raise error

    with open("/dev/full", "w") as full:
        if readers_gone:
            full.write("a table")
            monkeypatch.setattr(sys, "stdout", full)
        with pytest.raises(type(error)):
            answered(work)


@pytest.mark.parametrize("at_once", [False, True])
def test_an_output_that_cannot_be_written_may_be_later(monkeypatch, capsys, at_once):
    with open("/dev/full", "w", buffering=1 if at_once else -1) as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert answered(lambda: print("a table", flush=at_once) or 0) == 75
    said = capsys.readouterr().err
    assert said == "error: No space left on device: free some, then repeat the command\n"


def test_characters_that_a_terminal_lacks_are_told_by_their_numbers(monkeypatch, tmp_path):
    with open(tmp_path / "out", "w", encoding="ascii") as terminal:
        monkeypatch.setattr(sys, "stdout", terminal)
        assert answered(lambda: print("läufe/run_0") or 0) == 0
    assert (tmp_path / "out").read_text() == "l\\xe4ufe/run_0\n"
