"""Hyperparameters and named sets of AlphaZero (`rl/agents/algos/alphazero.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.hparams import Coefficient, Count, Fraction, PositiveInt
from rl.hparams.ppo import CONNECT_FOUR, check_minibatches
from rl.hparams.registry import register
from rl.hparams.tasks import ROLLOUT
from rl.hparams.tree_search import TreeSearchHParams


class AlphaZeroHParams(TreeSearchHParams):
    """AlphaZero for discrete actions: one player, or two by turns."""

    searches: ClassVar[bool] = True
    searched: ClassVar[dict[str, str]] = {
        "simulations": "[8,16,32,64]",
        "c_puct": "log:0.5:4.0",
        "epochs": "1:8",
        "value_coef": "log:0.1:2.0",
    }

    algo: str = "alphazero"
    rollout_length: PositiveInt = 32
    gamma: Fraction = 1.0

    value_coef: Coefficient = 1.0  # weight of the value loss, the mean square
    epochs: PositiveInt = 2  # passes over each rollout
    minibatches: PositiveInt = 4  # per epoch
    # One player: an episode is worth 1 where its return is no less than those of so much of the last
    # episodes, else -1 (Laterre et al. 2018); None: rewards are as they are, and best within [-1, 1].
    rank_percentile: Fraction | None = None
    ranked_episodes: Count = 250  # past episodes that a return is ranked among

    def check(self) -> None:
        """Raises UsageError unless the rollout splits into equal minibatches, and there are ranks."""
        super().check()
        check_minibatches(self)
        if self.rank_percentile is not None and not self.ranked_episodes:
            raise UsageError("hparam ranked_episodes=0: with rank_percentile there are episodes to rank by")


@register
def alphazero() -> AlphaZeroHParams:
    """AlphaZero for one player in any in-graph environment with discrete actions, by ranks: give --env ID."""
    return AlphaZeroHParams.of(num_envs=32, rank_percentile=0.75, lr=1e-3)


@register
def alphazero_identity() -> AlphaZeroHParams:
    """AlphaZero on Identity-v0, rewards as they are: the smallest test that anything is learned."""
    return AlphaZeroHParams.of(ROLLOUT["Identity-v0"], simulations=8, lr=3e-3, epochs=4)


@register
def alphazero_sparse_cartpole() -> AlphaZeroHParams:
    """AlphaZero with ranked rewards on CartPoleSparse-v0, whose reward is paid at an episode's end."""
    return AlphaZeroHParams.of(
        env="CartPoleSparse-v0",
        train_steps=98_304,
        eval_period=24_576,
        log_period=4_096,
        num_envs=32,
        rollout_length=32,
        rank_percentile=0.75,
        ranked_episodes=100,
        simulations=32,
        lr=1e-3,
        lr_schedule="linear",
        epochs=8,
        minibatches=4,
    )


@register
def alphazero_tictactoe() -> AlphaZeroHParams:
    """AlphaZero on TicTacToe-v0 by self-play, its network alone evaluated against a perfect player."""
    return AlphaZeroHParams.of(
        env="TicTacToe-v0",
        env_kwargs=dict(opponent="perfect"),
        train_env_kwargs=dict(opponent="self"),
        league=dict(also_against=("random",)),
        train_steps=1_048_576,
        eval_period=262_144,
        log_period=32_768,
        num_envs=64,
        rollout_length=32,
        simulations=32,
        noise_share=0.4,
        noise_concentration=1.0,
        lr=1e-3,
        lr_schedule="linear",
        epochs=2,
        minibatches=8,
        model=dict(hidden=(128, 128)),
    )


@register
def alphazero_connect_four() -> AlphaZeroHParams:
    """AlphaZero on ConnectFour-v0 by self-play, its network alone evaluated against a tree search."""
    return alphazero_tictactoe(
        env="ConnectFour-v0",
        env_kwargs=dict(opponent="uct_100"),
        train_steps=4_194_304,
        eval_period=1_048_576,
        log_period=131_072,
        simulations=64,
        noise_share=0.25,
        model=CONNECT_FOUR,
    )
