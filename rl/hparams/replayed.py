"""What is checked of replay memories, and how the switch `prioritized` chooses one."""

from __future__ import annotations

from typing import Any

from rl.errors import UsageError
from rl.hparams.goals import GoalHParams
from rl.hparams.hparams import refuse_contradiction


class ReplayedHParams(GoalHParams):
    """Base of classes with the switch `prioritized`, `replay_capacity` and `min_replay_size`."""

    @property
    def memory_name(self: Any) -> str:
        """Returns `memory`, but that the switch `prioritized` turns `uniform` into `prioritized`."""
        return "prioritized" if self.prioritized and self.memory == "uniform" else self.memory

    def check_replay(self) -> None:
        """Raises UsageError where replay sizes, or memory and switch, do not fit together."""
        refuse_contradiction(self, "memory", "prioritized", "prioritized", False)
        if self.memory_name != self.memory:
            refuse_contradiction(self, "memory", "uniform", "prioritized", True)
        check_sizes(self)


def check_sizes(hparams: Any) -> None:
    """Raises UsageError where a replay memory cannot hold what learning would start with."""
    if hparams.min_replay_size > hparams.replay_capacity:
        raise UsageError(
            f"hparam min_replay_size={hparams.min_replay_size} is above "
            f"replay_capacity={hparams.replay_capacity}: learning would never start"
        )
