"""ARS: augmented random search.

Mania et al. 2018, "Simple random search of static linear policies is competitive for reinforcement
learning", https://arxiv.org/abs/1803.07055. ES (`rl/agents/algos/es.py`) with a linear policy that starts at
zero and with plain steps along the b best of the `num_envs` / 2 directions (`top_directions`):

    theta <- theta + lr / (b * deviation) * sum over these of (score_plus - score_minus) * noise

where deviation is the standard deviation of the 2 b scores used. V2 standardises observations
(`normalize_observation`), V1 does not. In the paper's letters `num_envs` is 2 N, `lr` alpha,
`perturbation_std` nu, `rollout_length` H.

Deviations from the paper:

1. The linear policy has a bias; hidden layers (`model.hidden`) may come before it, of which the last layer
   alone starts at zero.
2. A rollout has a fixed length: the score is the mean return of the episodes that a member finished in it,
   or the return so far of one that finished none.
3. Standardised observations are clipped to [-10, 10]. Box actions are the policy's outputs as they are; the
   environment clips them to its bounds.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.hparams.ars import ARSHParams
from rl.models.networks import QNetwork
from rl.models.population import Population
from rl.ops import distributions, evolution
from rl.parallel import replicas
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update


class Members(NamedTuple):
    score: Tensor  # [2 D] of both members of each direction: first all theta + noise, then all theta - noise
    noise: Tensor  # [D, n] the directions


@register
class ARS(Agent):
    """Augmented random search: the best of a population of perturbed linear policies."""

    experience = "parameters"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    hparams_type = ARSHParams

    def build(self) -> None:
        hparams = self.hparams
        outputs = distributions.parameter_count(self.action_space)  # scores of actions, or actions
        network = QNetwork(hparams, self.encoder, outputs, self.initializers)
        for weight in network.advantage.trainable_variables:  # the output layer starts at zero
            weight.assign(0.0 * weight)
        self.network = self.add_network("network", network)
        self.population = Population(network, hparams.num_envs, hparams.perturbation_std)
        self.optimizer = self.add_optimizer("network", network.trainable_variables)

    def updates_per_iteration(self) -> int:
        return 1

    def resample_noise(self, seed: Tensor) -> None:
        self.population.resample(seed)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        outputs = self.population(observation) if training else self.network(observation)  # [N, K]
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return PolicyOutput(q_values=outputs)
        if isinstance(space, spaces.Box):
            action = tf.reshape(outputs, [outputs.shape[0], *space.shape])
            return PolicyOutput(distribution=distributions.Deterministic(action, space.low, space.high))
        return PolicyOutput(distribution=distributions.of_space(space, outputs))

    def loss(self, batch: Members, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        """Of each member: its score over their deviation, the better the lower. Never differentiated."""
        deviation = tf.math.reduce_std(batch.score)
        # The paper's step, 1 / (b deviation) * sum of differences * noise, is 2 std times our gradient.
        loss = -2.0 * self.hparams.perturbation_std * batch.score / (deviation + 1e-8)
        return loss, {"selected_std": deviation}, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """One step along the estimated gradient; row b of the trajectory was played by member b."""
        ended = tf.logical_or(batch.terminated, batch.truncated)
        reward = batch.reward - self.hparams.alive_bonus
        score = replicas.gathered(evolution.episode_scores(reward, ended, batch.mask))  # [P]
        before = evolution.flatten(self.network.trainable_variables)
        update = self.gradient_step(self._selected(score), seed)
        after = evolution.flatten(self.network.trainable_variables)
        metrics = {
            "score_mean": tf.reduce_mean(score),
            "score_max": tf.reduce_max(score),
            "score_std": tf.math.reduce_std(score),
            "update_norm": tf.norm(after - before),
            "parameter_norm": tf.norm(after),
        }
        return Update(update.metrics | metrics)

    def _selected(self, score: Tensor) -> Members:
        """The members of the directions that are followed."""
        count = self.hparams.top_directions or self.hparams.num_envs // 2
        best = evolution.top_directions(score, count)  # [b]
        plus, minus = tf.split(score, 2)
        used = tf.concat([tf.gather(plus, best), tf.gather(minus, best)], 0)  # [2 b]
        return Members(used, tf.gather(tf.convert_to_tensor(self.population.noise), best))

    @property
    def acting_variables(self) -> dict[str, Any]:
        return super().acting_variables | self.population.acting_variables

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.population.variables
