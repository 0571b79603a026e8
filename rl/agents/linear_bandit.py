"""Base of linear bandits: each arm's reward is linear in the observation, and its parameters have a posterior
in closed form."""

from __future__ import annotations

from typing import ClassVar, TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents import guard
from rl.agents.agent import Agent
from rl.errors import UsageError
from rl.hparams.linucb import LinearBanditHParams
from rl.models.posterior import LinearPosterior
from rl.ops import linear_bandit
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean
from rl.parallel import replicas
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update

AnyLinearBandit = TypeVar("AnyLinearBandit", bound=LinearBanditHParams)


class LinearBandit(Agent[AnyLinearBandit]):
    """Base of linear bandits. Later rewards and observations are ignored: each step counts as an episode.

    A subclass implements `valued`.
    """

    experience = "rollout"
    action_spaces: ClassVar[tuple[type, ...]] = (spaces.Discrete,)

    def build(self) -> None:
        """Makes the posterior of what is observed, and a constant 1."""
        hparams = self.hparams
        if hparams.grad_comp != "backprop":
            raise UsageError(f"grad_comp={hparams.grad_comp}: {hparams.algo} has no gradients, leave it out")
        arms, size = int(self.action_space.n), self.encoder.size + 1
        self.network = LinearPosterior(arms, size, hparams.prior_precision)
        self.add_network("network", self.network)

    def updates_per_iteration(self) -> int:
        return 1

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        expected, deviation = self.network(self._features(observation))
        values = self.valued(expected, deviation, seed) if training else expected
        return PolicyOutput(q_values=self.encoder.mask_illegal(values, observation))

    def valued(self, expected: Tensor, deviation: Tensor, seed: Tensor) -> Tensor:
        """Returns the scores [N, K] by which arms are chosen, from their expected rewards and the deviations
        of these."""
        raise NotImplementedError

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Takes the rollout's rewards into the posterior."""
        network, arms = self.network, int(self.action_space.n)
        x = self._features(flatten_time(without_last(batch.observation)))
        action, reward, mask = (tf.reshape(each, [-1]) for each in (batch.action, batch.reward, batch.mask))
        expected, deviation = (tf.gather(y, action, batch_dims=1) for y in network(x))
        added = replicas.totals(list(linear_bandit.observed(x, action, reward, mask, arms)))
        network.renew(network.precision + added[0], network.b + added[1])
        self.note_posterior()
        metrics = {
            "error": masked_mean(tf.abs(reward - expected), mask),
            "deviation": masked_mean(deviation, mask),
            "reward": masked_mean(reward, mask),
        }
        return Update(metrics | {"updates": tf.constant(1.0)})

    def note_posterior(self) -> None:
        """Reports a posterior with NaN or infinity to the guard, which skips the update: no gradient shows
        it."""
        found = {"the posterior": tf.reduce_sum(self.network.root) + tf.reduce_sum(self.network.mean)}
        current = guard.current()
        if current is not None:
            current.note_loss("network", found, guard.unfit(found))

    def _features(self, observation: Nest) -> Tensor:
        x = self.encoder(observation)
        return tf.concat([x, tf.ones_like(x[:, :1])], 1)  # [N, F + 1]
