"""A worker's policy through TensorFlow: where LiteRT is slower or cannot convert it, or parameters are
noisy."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.agents.algos.registry import get_algo
from rl.ops import random
from rl.runners.acting import split_flat, turned
from rl.runners.actor import Actor, flat_weights
from rl.runners.seeds import first_seed, iteration_seeds
from rl.types import Tensor


class AgentPolicy:
    """A worker's own agent, with the learner's weights and its own parameter noise.

    Args:
        hparams: of the run.
        env: the worker's environments.
        assignment: what the worker is (rl.workers.worker).
    """

    def __init__(self, hparams: Any, env: Any, assignment: Any):
        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        views = env.observation_space, env.action_space
        self._agent = get_algo(hparams.algo)(hparams, *views, assignment.seed)
        self._agent.rows_of_env = env.agents
        self._agent.act_for(assignment.first, assignment.size, assignment.rows)
        self.actor = Actor(self._agent, assignment.size, True, assignment.own_seed, hparams.act_backend)
        self._root, self._own = random.key(assignment.seed), random.key(assignment.own_seed)
        self._resample = tf.function(self._resampled, autograph=False)

    def take(self, flat: np.ndarray) -> None:
        """Takes over the policy's newest weights, float32 [n]."""
        variables = list(self._agent.policy_variables.values())
        values = split_flat(flat, [turned(variable.shape) for variable in variables])
        for variable, value in zip(variables, values, strict=True):
            variable.assign(value.T if value.ndim == 2 else value)
        if not self._agent.acts_with_noise:
            self.actor.sync()

    def begin(self, made: int, iteration: int | None) -> None:
        """Draws the noise of the next rollout. If all workers make a rollout together, it is the same noise
        as the learner's, from a shared seed, so that perturbed parameters need not be sent."""
        if self._agent.acts_with_noise:
            seed = random.fold_in(self._own, made) if iteration is None else noise_seed(self._root, iteration)
            self.actor.sync(self._resample(seed).numpy())

    def _resampled(self, seed: Tensor) -> Tensor:
        self._agent.resample_noise(seed)
        return flat_weights(self._agent)


def noise_seed(root: Tensor, iteration: int) -> Tensor:
    """Returns the seed of an iteration's acting noise, the same as the learner's."""
    return first_seed(root) if iteration == 0 else iteration_seeds(root, iteration - 1)[0]
