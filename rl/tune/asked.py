"""What a search was asked for, and the commands of `train.py` that follow from it."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rl import cli
from rl.errors import UsageError
from rl.hparams.hparams import HParams

if TYPE_CHECKING:
    from rl.hparams.spaces import Space

# Flags of train.py that mean the same to a search; the others are each trial's own.
TAKEN = ("env", "env_wrappers", "hparam_override", "train_steps", "eval_policy", "sys", "user_modules",
         "num_workers", "ray_address")  # fmt: skip
# Those of them that no file of hyperparameters holds: a command that goes on from the file repeats them.
NOT_IN_FILES = ("sys", "user_modules", "num_workers", "ray_address")


class Asked(NamedTuple):
    """The command's arguments, after they were checked."""

    own: argparse.Namespace
    train: argparse.Namespace
    hparams: HParams  # of the set with all that is fixed
    folder: Path
    space: Space

    @property
    def flags(self) -> dict[str, Any]:
        """Returns the hparams that were given by flags of their own, such as --env."""
        return {name: value for name, value in cli.hparam_flags(self.train).items() if value is not None}

    @property
    def base(self) -> tuple[str, dict[str, Any]]:
        """Returns names of sets, and overrides, that together with `flags` say what the search begins from.
        What a file says is left out where a flag says it: train.py refuses an override beside a flag."""
        from rl.hparams.merge import as_typed
        from rl.hparams.overrides import parse_overrides

        name, text = as_typed(self.own.set, self.train.hparam_override)
        return name, {key: value for key, value in parse_overrides(text).items() if key not in self.flags}

    @property
    def periods(self) -> dict[str, Any]:
        """Returns the periods of rows and evaluations, which the search may have chosen, as overrides."""
        return {"eval_period": self.hparams.eval_period, "log_period": self.hparams.log_period}

    def words(self, name: str, overrides: str) -> tuple[str, ...]:
        """Returns the flags of train.py of all runs of these hyperparameters."""
        given = self._given([flag for flag in TAKEN if flag != "hparam_override"])
        words = ("--hparams", name, "--hparam_override", overrides, *given)
        return (*words, "--eval_episodes", str(self.own.eval_episodes), "--test_episodes", "1")

    def winner_command(self, file: Path) -> str:
        """Returns the command that trains with the winner's file as the trials were trained."""
        return _line("--hparams", str(file), *self._given(NOT_IN_FILES))

    def member_command(self, run_dir: Path) -> str:
        """Returns the command that tests a member of a population."""
        from rl.envs.own import check_trusted, modules_of

        hparams, named = self.hparams, []
        try:
            check_trusted(run_dir, hparams.env, ())
        except UsageError:  # a function, which no saved run may name: the command does
            named = ["--hparams", self.base[0], "--env", hparams.env]
        typed = [each.strip() for each in self.train.user_modules.split(",")]
        modules = filter(None, dict.fromkeys([*typed, *modules_of([hparams.env, *hparams.env_wrappers])]))
        words = ["--output_dir", str(run_dir), "--training", "False", *named, *self._given(["sys"])]
        listed = ",".join(modules)
        return _line(*words, *(["--user_modules", listed] if listed else []))

    def _given(self, flags: list[str] | tuple[str, ...]) -> list[str]:
        """Returns the words of those flags that were given."""
        bare = cli.build_parser()
        values = {flag: getattr(self.train, flag) for flag in flags}
        return [
            word
            for flag, value in values.items()
            if value != bare.get_default(flag)
            for word in (f"--{flag}", str(value))
        ]


def _line(*words: str) -> str:
    return shlex.join(["python", "train.py", *words])
