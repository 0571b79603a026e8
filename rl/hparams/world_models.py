"""Hyperparameters and named sets of World Models (`rl/agents/algos/world_models.py`)."""

from __future__ import annotations

from typing import ClassVar

from rl.errors import UsageError
from rl.hparams.exploration import EpsilonHParams
from rl.hparams.hparams import Coefficient, Fraction, PositiveFloat, PositiveInt, refuse_curiosity
from rl.hparams.registry import register
from rl.hparams.sequences import UniformSequences, check_every_step_is_replayed


class WorldModelsHParams(UniformSequences, EpsilonHParams):
    """World Models: sizes of V, M and C, what the first two learn from, and how the third dreams."""

    masks: ClassVar[bool] = False  # what is legal is not dreamed of
    searched: ClassVar[dict[str, str]] = {
        "gamma": "",
        "temperature": "0.5:1.5",
        "perturbation_std": "log:0.02:0.5",
        "controller_lr": "log:3e-3:1e-1",
    }

    algo: str = "world_models"
    memory: str = "sequence"
    act_select: str = "epsilon_greedy"
    max_grad_norm: PositiveFloat | None = 100.0

    replay_capacity: PositiveInt = 100_000  # steps in total
    min_replay_size: PositiveInt = 1_000  # steps before the first update
    batch_size: PositiveInt = 16  # sequences of an update; a generation dreams on from the end of each
    unroll_length: PositiveInt = 32  # steps of a sequence
    updates_per_iteration: PositiveInt = 16  # gradient updates of V and M after each rollout
    latents: PositiveInt = 8  # numbers that V makes of an observation
    memory_units: PositiveInt = 64  # of M's recurrent network
    mixtures: PositiveInt = 5  # normal distributions that M mixes for each of the next latents
    kl_coef: Coefficient = 1.0  # weight of the latents' KL from a standard normal distribution
    population: PositiveInt = 32  # controllers of a generation, in mirrored pairs
    perturbation_std: PositiveFloat = 0.2  # of the noise added to every parameter of the controller
    controller_lr: PositiveFloat = 0.03  # learning rate of the controller
    dream_period: PositiveInt = 4  # gradient updates of V and M between two generations
    dream_length: PositiveInt = 200  # steps of a dream at most
    temperature: PositiveFloat = 1.0  # of dreams: above 1 what is unlikely comes more often
    exploration_epsilon_end: Fraction = 0.1  # share of random actions from exploration_steps on

    def check(self) -> None:
        """Raises UsageError where sequences and rollouts, or a population and its pairs, do not fit."""
        super().check()
        check_every_step_is_replayed(self)
        if self.population % 2:
            raise UsageError(
                f"hparam population={self.population}: it is of mirrored pairs, it needs an even number"
            )
        if self.grad_comp == "evolution":
            raise UsageError(
                "hparam grad_comp=evolution: what sees and foresees is learned by gradients, take backprop; "
                "the controller evolves in any case"
            )

    def check_training(self) -> None:
        """Raises UsageError where rewards are for what is new."""
        refuse_curiosity(self)


@register
def world_models() -> WorldModelsHParams:
    """World Models on any environment with discrete actions, best of small pictures: give --env ID."""
    return WorldModelsHParams.of(
        lr=3e-3,
        lr_schedule="linear",
        num_envs=16,
        model=dict(name="mlp", hidden=(128,), activation="relu"),
    )


@register
def world_models_cartpole() -> WorldModelsHParams:
    """World Models on CartPolePixels-v0, the controller trained in dreams alone."""
    return world_models(
        env="CartPolePixels-v0",
        train_steps=81_920,
        eval_period=20_480,
        log_period=5_120,
        exploration_steps=40_960,
    )


@register
def world_models_identity() -> WorldModelsHParams:
    """World Models as small as can be on CartPolePixels-v0: the smallest test that all of it learns."""
    return world_models_cartpole(
        train_steps=4_096,
        log_period=1_024,
        eval_period=0,
        num_envs=4,
        rollout_length=8,
        unroll_length=8,
        min_replay_size=64,
        replay_capacity=2_048,
        updates_per_iteration=2,
        batch_size=4,
        latents=4,
        memory_units=8,
        mixtures=2,
        population=4,
        dream_period=2,
        dream_length=5,
        exploration_steps=1_024,
        model=dict(hidden=(16,)),
    )
