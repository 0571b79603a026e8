"""Flags of commands: what is typed wrong is one line, which names the nearest."""

from __future__ import annotations

import os

import pytest

from rl import cli
from rl.errors import UsageError
from rl.export.__main__ import build_parser
from rl.flags import unknown_word


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["run", "--fromat", "onnx"], "unknown flag --fromat: did you mean --format"),
        (["run", "--fromat=onnx"], "unknown flag --fromat: did you mean --format"),
        (["run", "again"], "unexpected argument 'again'"),
        ([], "the following arguments are required: RUN"),
        (["run", "--which", "bets"], "no 'bets': did you mean best?"),
    ],
)
def test_what_a_command_does_not_know_is_told_with_the_nearest(words, said):
    with pytest.raises(UsageError) as error:
        build_parser().parse_args([*words, "--to", "there"])
    assert said in str(error.value) and "\n" not in str(error.value)


def test_what_is_meant_goes_before_what_is_near():
    assert "did you mean --lr?" in str(unknown_word("--rl", ["--lr"]))
    assert str(unknown_word("--rl", ["--lr"], "say it otherwise")).startswith(
        "unknown flag --rl: say it other"
    )


@pytest.mark.parametrize(
    ("flag", "takes"),
    [("--track", "wandb|mlflow|trackio"), ("--sys", "local|gpu|tpu"), ("--train_steps", "N")],
)
def test_a_flag_without_its_value_says_what_it_takes(flag, takes):
    with pytest.raises(UsageError) as error:
        cli.parse([flag])
    assert str(error.value) == f"argument {flag}: expected one argument: {flag} {takes}"


def test_a_name_that_is_no_text_is_refused_before_anything_is_done(capsys):
    assert cli.main(["--output_dir", os.fsdecode(b"runs/caf\xe9")]) == 2
    line = "error: runs/caf\\udce9 is not UTF-8: rename it, or name another\n"
    assert capsys.readouterr() == ("", line)


def test_help_says_what_a_tracker_gets():
    shown = " ".join(cli.build_parser().format_help().split())
    assert "--track wandb|mlflow|trackio tracker that also gets the rows and hyperparameters" in shown
