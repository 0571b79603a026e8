"""Actions from action values: each environment explores with its own constant epsilon.

Horgan et al. 2018, "Distributed prioritized experience replay" (Ape-X), https://arxiv.org/abs/1803.00933,
section 4.1: epsilon_i = epsilon^(1 + alpha i / (N - 1)).
"""

from __future__ import annotations

from typing import Any, Protocol

import keras
import numpy as np
import tensorflow as tf

from rl.agents.algos.act_select.epsilon_greedy import EpsilonGreedy, EpsilonHParams
from rl.agents.algos.act_select.registry import register
from rl.parallel import replicas
from rl.registry import check_hparams
from rl.types import Tensor


class ApexHParams(EpsilonHParams, Protocol):
    """The hyperparameters that `PerWorkerEpsilon` reads."""

    num_envs: int
    exploration_epsilon_base: float
    exploration_epsilon_exponent: float


@register
def per_worker_epsilon(hparams: ApexHParams) -> PerWorkerEpsilon:
    """The best action, or a random one with a probability that differs from environment to environment."""
    return PerWorkerEpsilon(hparams)


class PerWorkerEpsilon(EpsilonGreedy):
    """The first environment explores most, the last one least. The paper's workers are our environments:
    those of all worker processes form one sequence."""

    def __init__(self, hparams: ApexHParams):
        super().__init__(hparams)
        check_hparams(hparams, ApexHParams, "act_select per_worker_epsilon")
        self.hparams: ApexHParams = hparams
        everyone = hparams.num_envs * replicas.count()
        self.act_for(0, everyone, everyone)

    def act_for(self, first: int, count: int, total: int) -> None:
        """Sets which of all environments these are (`Agent.act_for`)."""
        base, alpha = self.hparams.exploration_epsilon_base, self.hparams.exploration_epsilon_exponent
        last = max(total - 1, 1)
        epsilon = [base ** (1.0 + alpha * i / last) for i in range(first, first + count)]
        # A variable, so that one converted policy serves all workers.
        self._epsilon = keras.Variable(epsilon, trainable=False, name="epsilon")

    @property
    def variables(self) -> dict[str, Any]:
        """What acting reads (`Agent.acting_variables`)."""
        return {"act_select/epsilon": self._epsilon}

    def epsilon(self, step: Tensor) -> Tensor:
        """Returns the probability of a random action of each environment, `[B]`."""
        return replicas.own_rows(tf.convert_to_tensor(self._epsilon))

    def scalars(self, step: int) -> dict[str, float]:
        """Returns the mean over the environments."""
        return {"train/exploration_epsilon": float(np.mean(self._epsilon))}
