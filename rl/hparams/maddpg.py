"""Hyperparameters and named sets of MADDPG (`rl/agents/algos/maddpg.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.ddpg import DDPGHParams, small_networks
from rl.hparams.registry import register
from rl.hparams.tasks import REPLAY


class MADDPGHParams(DDPGHParams):
    """DDPG's, for many agents."""

    algo: str = "maddpg"
    view: ClassVar[str] = "joint"

    def check(self) -> None:
        """Raises UsageError for models other than dense layers, which agents have side by side."""
        super().check()
        if self.model.name != "mlp":
            raise UsageError(f"hparam model.name={self.model.name}: maddpg has dense layers, take mlp")


@register
def maddpg() -> MADDPGHParams:
    """MADDPG on any environment of many agents, discrete or bounded continuous actions: give --env ID."""
    return MADDPGHParams.of(
        small_networks(64, 64),
        num_envs=8,
        rollout_length=8,
        updates_per_iteration=16,
        gamma=0.95,
        lr=1e-3,
        tau=0.01,
        max_grad_norm=10.0,
    )


@register
def maddpg_spread() -> MADDPGHParams:
    """MADDPG on SimpleSpread-v0, three agents; judged at 60,000 steps beside BenchMARL's."""
    return maddpg(REPLAY["SimpleSpread-v0"])


@register
def maddpg_tag() -> MADDPGHParams:
    """MADDPG on SimpleTag-v0, three hunters and their prey; not measured here."""
    return maddpg(REPLAY["SimpleTag-v0"])
