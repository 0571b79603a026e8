"""ES: evolution strategies as a scalable alternative to reinforcement learning.

Salimans et al. 2017, https://arxiv.org/abs/1703.03864. `num_envs` copies of the policy, in mirrored pairs
theta + std * noise and theta - std * noise, play `rollout_length` steps, one environment each. Their scores
become ranks between -0.5 and 0.5, and Adam follows

    1 / (num_envs * std) * sum over pairs of (rank_plus - rank_minus) * noise

less `weight_decay` * theta. A generation is one iteration, in which every environment starts anew; evaluation
acts with the mean parameters. Choose `rollout_length` as long as an episode, shorter where a piece of one
tells as much, longer where several episodes should be averaged.

Deviations from the paper:

1. Observations are standardised by running statistics (`normalize_observation`) in place of virtual batch
   normalisation, as in the authors' own code for continuous control.
2. Members of equal score share the mean of their ranks; the authors' sort gives each another one.
3. A rollout has a fixed length: the score is the mean return of the episodes that a member finished in it,
   or the return so far of one that finished none.
4. Actions are deterministic: no noise is added to them, and continuous ones are not cut into bins. Box
   actions are the network's outputs as they are; the environment clips them to its bounds.
5. The estimate is divided by `perturbation_std`, as the paper's formula is and the authors' code is not:
   their coefficient of weight decay is 1 / `perturbation_std` times as large here.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.hparams.es import ESHParams
from rl.models.networks import QNetwork
from rl.models.population import Population
from rl.ops import distributions, evolution
from rl.parallel import replicas
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update


class Members(NamedTuple):
    score: Tensor  # [2 D] of both members of each direction: first all theta + noise, then all theta - noise
    noise: Tensor  # [D, n] the directions


@register
class ES(Agent):
    """Evolution strategies: a population of perturbed policies, no back-propagation."""

    experience = "parameters"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    hparams_type = ESHParams

    def build(self) -> None:
        hparams = self.hparams
        outputs = distributions.parameter_count(self.action_space)  # scores of actions, or actions
        network = QNetwork(hparams, self.encoder, outputs, self.initializers)
        for weight in network.advantage.trainable_variables:  # the output layer starts near zero
            weight.assign(0.01 * weight)
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
        """Of each member: its shaped score, the better the lower. Never differentiated."""
        return -evolution.centered_ranks(batch.score), {}, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """One step along the estimated gradient; row b of the trajectory was played by member b."""
        ended = tf.logical_or(batch.terminated, batch.truncated)
        score = replicas.gathered(evolution.episode_scores(batch.reward, ended, batch.mask))  # [P]
        before = evolution.flatten(self.network.trainable_variables)
        update = self.gradient_step(Members(score, tf.convert_to_tensor(self.population.noise)), seed)
        after = evolution.flatten(self.network.trainable_variables)
        metrics = {
            "score_mean": tf.reduce_mean(score),
            "score_max": tf.reduce_max(score),
            "score_std": tf.math.reduce_std(score),
            "update_norm": tf.norm(after - before),
            "parameter_norm": tf.norm(after),
        }
        return Update(update.metrics | metrics)

    @property
    def acting_variables(self) -> dict[str, Any]:
        return super().acting_variables | self.population.acting_variables

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.population.variables
