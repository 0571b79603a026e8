"""Hyperparameters and named sets of MAPPO (`rl/agents/algos/mappo.py`), and of PPO on many agents, IPPO."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.errors import UsageError
from rl.hparams.ppo import PPOHParams
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class MAPPOHParams(PPOHParams):
    """PPO's, for a value that sees the global state."""

    algo: str = "mappo"
    view: ClassVar[str] = "rows_and_state"

    def check(self) -> None:
        """Raises UsageError where policy and value are to share layers, of which one alone sees the state."""
        super().check()
        if self.model.shared:
            raise UsageError("hparam model.shared=true: mappo's policy must not see what its value sees")


TEAM: dict[str, Any] = dict(  # as in the paper's experiments on MPE, but for fewer environments
    num_envs=8,
    rollout_length=128,
    epochs=10,
    minibatches=1,
    lr=7e-4,
    entropy_coef=0.01,
    value_coef=1.0,
    max_grad_norm=10.0,
    normalize_reward=True,
)
SPREAD: dict[str, Any] = dict(num_envs=32, rollout_length=25)  # episodes of 25 steps


@register
def mappo() -> MAPPOHParams:
    """MAPPO on any environment of many agents: give --env ID."""
    return MAPPOHParams.of(TEAM)


@register
def ippo() -> PPOHParams:
    """IPPO, PPO on rows of agents with the settings of `mappo`, on any environment of many: give --env ID."""
    return PPOHParams.of(TEAM)


@register
def mappo_spread() -> MAPPOHParams:
    """MAPPO on SimpleSpread-v0, three agents; judged at 60,000 steps beside BenchMARL's."""
    return mappo(ROLLOUT["SimpleSpread-v0"], SPREAD)


@register
def mappo_foraging() -> MAPPOHParams:
    """MAPPO on Foraging-v0, two players and three foods; not measured here."""
    return mappo(
        env="Foraging-v0",
        train_steps=4_000_000,
        eval_period=400_000,
        num_envs=32,
        rollout_length=50,
        eval_policy="sample",  # by their modes players wait for each other until the episode ends
    )


@register
def ippo_spread() -> PPOHParams:
    """IPPO on SimpleSpread-v0, three agents; judged at 60,000 steps beside BenchMARL's."""
    return ippo(ROLLOUT["SimpleSpread-v0"], SPREAD)
