"""Callbacks that mark the meter in trainings of Stable-Baselines3 and SBX."""

from __future__ import annotations

from meter import Meter
from stable_baselines3.common.callbacks import BaseCallback

UPDATES_PER_ROLLOUT = 16  # of PPO: 4 epochs of 4 minibatches


class RolloutMarks(BaseCallback):
    """Marks the meter at the start of each rollout, that is after each round of updates."""

    def __init__(self, meter: Meter):
        super().__init__()
        self.meter, self.rounds = meter, -1

    def _on_rollout_start(self) -> None:
        self.rounds += 1
        self.meter.mark(self.num_timesteps, self.rounds * UPDATES_PER_ROLLOUT)

    def _on_step(self) -> bool:
        return True


class StepMarks(BaseCallback):
    """Marks the meter every 100 environment steps."""

    def __init__(self, meter: Meter):
        super().__init__()
        self.meter = meter

    def _on_step(self) -> bool:
        if self.num_timesteps % 100 == 0:
            self.meter.mark(self.num_timesteps, self.model._n_updates)
        return True
