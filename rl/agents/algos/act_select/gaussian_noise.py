"""Deterministic actions with independent Gaussian noise, as in TD3."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.act_select.registry import register
from rl.agents.contracts import ActSelect, needed_hparam
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops import random, schedules
from rl.ops.distributions import Categorical, Deterministic, MultiCategorical
from rl.types import PolicyOutput, Tensor


@register
def gaussian_noise(hparams: HParams) -> ActSelect:
    """The policy's action with Gaussian noise in training, within the bounds; discrete ones are sampled.

    `exploration_noise` is its standard deviation, as a part of half the range between the bounds.
    """

    def select(output: PolicyOutput, seed: Tensor, step: Tensor, training: bool) -> tuple[Tensor, Tensor]:
        distribution = output.distribution
        if isinstance(
            distribution, Categorical | MultiCategorical
        ):  # the noise that suits logits is Gumbel's
            action = distribution.sample(seed) if training else distribution.mode()
            return action, distribution.log_prob(action)
        if not isinstance(distribution, Deterministic):
            raise UsageError(
                "act_select gaussian_noise adds noise to deterministic policies (ddpg, td3); this one "
                "explores by sampling: take sample"
            )
        action = distribution.mode()
        if training:
            noise = noise_hparam(hparams, "gaussian_noise", "exploration_noise", step)
            action = disturbed(distribution, noise * random.normal(seed, action.shape))
        return action, distribution.log_prob(action)

    return select


def noise_hparam(hparams: HParams, select: str, name: str, step: Tensor) -> Any:
    """Returns the hparam `name` at `step`. Raises UsageError where the algorithm has none of that name."""
    needed_hparam(hparams, name, f"act_select {select}", "take sample or greedy")
    return schedules.annealed(hparams, name, step)


def disturbed(distribution: Deterministic, noise: Tensor) -> Tensor:
    """Returns the action with `noise` [N, ...] added, in half ranges, clipped to the bounds where there are
    some."""
    if distribution.low is None:
        return distribution.action + noise
    half_range = (distribution.high - distribution.low) / 2.0
    return tf.clip_by_value(distribution.action + half_range * noise, distribution.low, distribution.high)
