"""Hyperparameters and named sets of SlateQ (`rl/agents/algos/slateq.py`)."""

from __future__ import annotations

from typing import ClassVar, Literal

from rl.hparams.dqn import SHARED, DQNHParams
from rl.hparams.hparams import PositiveFloat, PositiveInt
from rl.hparams.registry import register


class SlateQHParams(DQNHParams):
    """DQN's, without switches that need one value for each action."""

    searched: ClassVar[dict[str, str]] = {"n_step": "", "choice_lr": "log:1e-4:1e-2"}

    algo: str = "slateq"

    n_step: Literal[1] = 1  # who chooses what is known of single steps
    dueling: Literal[False] = False
    noisy: Literal[False] = False
    slates: Literal["all", "top"] = (
        "all"  # all: the best of every slate; top: of the best documents by themselves
    )
    most_slates: PositiveInt = 5_000  # with slates=all: more than these are refused
    choice_lr: PositiveFloat = 1e-3  # learning rate of the model of the user's choice


@register
def slateq() -> SlateQHParams:
    """SlateQ with double learning on any environment of slates: give --env ID."""
    return SlateQHParams.of(
        SHARED,
        lr=1e-3,
        rollout_length=8,
        updates_per_iteration=32,
        target_update_period=250,
        exploration_steps=20_000,
        exploration_epsilon_end=0.05,
    )


@register
def slateq_interest_evolution() -> SlateQHParams:
    """SlateQ with double learning on InterestEvolution-v0: slates of 2 out of 10 documents.

    Slates at random return 155.
    """
    return slateq(env="InterestEvolution-v0", train_steps=120_000, eval_period=20_000, log_period=4_000)


@register
def slateq_identity() -> SlateQHParams:
    """Double SlateQ on the smallest sessions: the smallest test that anything is learned."""
    return slateq(
        env="InterestEvolution-v0",
        env_kwargs=dict(candidates=4, slate=1, topics=7, budget=8.0),
        max_episode_steps=20,
        train_steps=8_000,
        log_period=1_000,
        eval_period=4_000,
        min_replay_size=100,
        exploration_steps=2_000,
        gamma=0.9,
        model=dict(hidden=(32,)),
    )
