"""Deterministic actions with noise that is correlated in time, as in DDPG."""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.act_select.gaussian_noise import disturbed, noise_hparam
from rl.agents.algos.act_select.registry import register
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops import random
from rl.ops.distributions import Categorical, Deterministic, parameter_count
from rl.types import Nest, PolicyOutput, Tensor


@register
def ou_noise(hparams: HParams) -> OUNoise:
    """The policy's action (or its logits) with an Ornstein-Uhlenbeck process added in training.

    x <- x - ou_theta * x + exploration_noise * normal, from 0 at the start of every episode (Lillicrap et al.
    2016, section 7, with time steps of 1); in half ranges of the action space.
    """
    return OUNoise(hparams)


class OUNoise:
    """Action selection with a state: x, one number per number of the action (per logit, if discrete)."""

    def __init__(self, hparams: HParams):
        self.hparams = hparams

    def initial_state(self, action_space: Any, count: int) -> Nest:
        """Returns zeros `[count, ...]`."""
        is_box = isinstance(action_space, spaces.Box)
        return tf.zeros([count, *(action_space.shape if is_box else (parameter_count(action_space),))])

    def __call__(
        self, output: PolicyOutput, seed: Tensor, step: Tensor, training: bool, state: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        distribution = output.distribution
        if not isinstance(distribution, Deterministic | Categorical):
            raise UsageError(
                "act_select ou_noise adds noise to deterministic policies (ddpg, td3); this one explores by "
                "sampling: take sample"
            )
        if not training:
            action = distribution.mode()
            return action, distribution.log_prob(action), state
        theta = noise_hparam(self.hparams, "ou_noise", "ou_theta", step)
        sigma = noise_hparam(self.hparams, "ou_noise", "exploration_noise", step)
        state = (1.0 - theta) * state + sigma * random.normal(seed, state.shape)
        if isinstance(distribution, Categorical):
            action = tf.argmax(distribution.logits + state, -1, output_type=tf.int32)
        else:
            action = disturbed(distribution, state)
        return action, distribution.log_prob(action), state
