"""Hyperparameters of goals in hindsight (`rl/memory/hindsight.py`), of whatever replays transitions."""

from __future__ import annotations

from rl.hparams.hparams import HParams, PositiveFloat, PositiveInt


class GoalHParams(HParams):
    """What `memory=hindsight` is told."""

    # memory=hindsight: k of k + 1 transitions of a batch get a goal that their episode reached later.
    hindsight_goals: PositiveInt = 4
    # memory=hindsight, host environments: the distance within which goals are reached; checked.
    goal_tolerance: PositiveFloat = 0.05
