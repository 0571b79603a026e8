"""Hyperparameters and named sets of PQN (`rl/agents/algos/pqn.py`)."""

from __future__ import annotations

from typing import Any, ClassVar

from rl.hparams.exploration import EpsilonHParams
from rl.hparams.hparams import Fraction, PositiveFloat, PositiveInt
from rl.hparams.minatar import BREAKOUT, MINATAR, SPACE_INVADERS
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT


class PQNHParams(EpsilonHParams):
    """PQN for discrete actions."""

    searched: ClassVar[dict[str, str]] = {
        "rollout_length": "[8,16,32,64]",
        "epochs": "1:8",
        "trace_lambda": "0.3:0.95",
        "exploration_epsilon_end": "0.01:0.2",
    }

    algo: str = "pqn"
    act_select: str = "epsilon_greedy"
    max_grad_norm: PositiveFloat | None = 10.0

    epochs: PositiveInt = 2  # passes over each rollout
    minibatches: PositiveInt = 4  # per epoch
    trace_lambda: Fraction = 0.65  # 0: one-step targets; 1: rewards to the end of the rollout or episode


# What keeps it from diverging without a target network is the layer normalisation.
SHARED: dict[str, Any] = dict(
    lr=1e-3,
    lr_schedule="linear",
    epochs=4,
    minibatches=8,
    model=dict(hidden=(128, 128), activation="relu", layer_norm=True),
)
# The authors' values (pqn_cartpole.yaml) and steps, but that their rate is 1e-4, their layers have 256 units,
# and their rewards are scaled by 0.1.
CARTPOLE = dict(
    ROLLOUT["CartPole-v1"] | SHARED,
    num_envs=32,
    rollout_length=64,
    lr=5e-4,
    minibatches=16,
    trace_lambda=0.95,
    exploration_steps=100_000,
    exploration_epsilon_end=0.2,
)
# The paper's values (the authors' pqn_minatar.yaml), but half of its steps, and dense layers where it has a
# convolution.
MINATAR_GAMES = dict(
    MINATAR,
    env=BREAKOUT,
    train_steps=5_000_000,
    eval_period=500_000,
    num_envs=128,
    rollout_length=32,
    lr=5e-4,
    lr_schedule="linear",
    epochs=2,
    minibatches=32,
    exploration_steps=500_000,
    model=dict(hidden=(128, 128), activation="relu", layer_norm=True),
)


@register
def pqn() -> PQNHParams:
    """PQN on any environment with discrete actions: give --env ID."""
    return PQNHParams.of(SHARED, exploration_steps=20_000)


@register
def pqn_cartpole() -> PQNHParams:
    """PQN on CartPole-v1."""
    # Within 100,000 steps, with values of our own, the last policies of seeds 100 to 104 returned 493.5.
    return PQNHParams.of(CARTPOLE)


@register
def pqn_minatar() -> PQNHParams:
    """PQN on MinAtar's Breakout, or on the game given by --env; rates of the paper."""
    return PQNHParams.of(MINATAR_GAMES)


@register
def pqn_breakout_minatar() -> PQNHParams:
    """PQN on MinAtar's Breakout."""
    return pqn_minatar()


@register
def pqn_space_invaders_minatar() -> PQNHParams:
    """PQN on MinAtar's Space Invaders."""
    return pqn_minatar(env=SPACE_INVADERS)


@register
def pqn_identity() -> PQNHParams:
    """PQN on Identity-v0: the smallest test that anything is learned."""
    return PQNHParams.of(ROLLOUT["Identity-v0"], SHARED, exploration_steps=4_000)
