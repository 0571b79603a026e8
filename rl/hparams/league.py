"""Hyperparameters of self-play: past selves as opponents (`rl/agents/league.py`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Literal

from rl.errors import UsageError
from rl.hparams.checked import Checked, Coefficient, Fraction, PositiveInt

LEAGUE = "league"  # as the environment's option `opponent`: past selves play, in training alone
SELF = "self"  # likewise: the learner plays both sides


class LeagueHParams(Checked):
    """Who plays against the learner where training's option `opponent` is `league`."""

    prefix: ClassVar[str] = "league."

    size: PositiveInt = 8  # past selves that are kept; the oldest leaves
    period: PositiveInt = 100_000  # environment steps after which the present self enters, at the latest
    # It enters sooner where it scores more than this against each member (win 1, draw 0.5); 1: never sooner.
    win_rate: Fraction = 1.0
    present: Fraction = 0.5  # share of episodes against the present self, the rest are against members
    # Members are drawn alike, or pfsp: by (1 - the learner's win rate against it) ** pfsp_power.
    sampling: Literal["uniform", "pfsp"] = "pfsp"
    pfsp_power: Coefficient = 2.0  # of f_hard (Vinyals et al. 2019)
    # Opponents that evaluations are against beside env_kwargs.opponent, for their scores alone.
    also_against: tuple[str, ...] = ()

    def check_played(self, env_kwargs: Mapping[str, Any], train_env_kwargs: Mapping[str, Any]) -> None:
        """Raises UsageError where there would be a league in evaluations, or no opponent."""
        opponent = env_kwargs.get("opponent")
        if opponent == LEAGUE:
            raise UsageError("env_kwargs={opponent:league}: evaluations need an opponent that stays: "
                             "train_env_kwargs={opponent:league},env_kwargs={opponent:random}")  # fmt: skip
        if train_env_kwargs.get("opponent") == LEAGUE and opponent is None:
            raise UsageError("train_env_kwargs={opponent:league}: whom evaluations are against is not said: "
                             "add env_kwargs={opponent:random}")  # fmt: skip
