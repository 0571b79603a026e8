"""Hyperparameters of goals in hindsight (`rl/memory/hindsight.py`), of whatever replays transitions."""

from __future__ import annotations

from rl.errors import UsageError
from rl.hparams.hparams import HParams, PositiveFloat, PositiveInt, refuse_given


class GoalHParams(HParams):
    """What `memory=hindsight` is told."""

    # memory=hindsight: k of k + 1 transitions of a batch get a goal that their episode reached later.
    hindsight_goals: PositiveInt = 4
    # memory=hindsight, host environments: distance within which a goal is reached; theirs, which is checked.
    goal_tolerance: PositiveFloat = 0.05

    def check(self) -> None:
        """Raises UsageError where rewards could not be computed anew for another goal."""
        super().check()
        if self.memory_name != "hindsight":
            return
        values = self.flat()
        if values["n_step"] > 1:
            raise UsageError(
                f"hparam n_step={values['n_step']}: memory hindsight computes the reward of single steps "
                "anew, take n_step=1"
            )
        refused = "prioritized", "reward_augmentation", "previous_action_reward"
        refuse_given(self, "computes single rewards anew where memory is hindsight", *refused)
