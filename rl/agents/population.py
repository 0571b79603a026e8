"""Base of evolution strategies: a population of perturbed networks that plays, and its scores."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.hparams.es import ESHParams
from rl.models.networks import QNetwork
from rl.models.population import Population
from rl.ops import distributions, evolution
from rl.parallel import replicas
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update

AnyES = TypeVar("AnyES", bound=ESHParams)


class Members(NamedTuple):
    """The members of a population whose scores are compared."""

    score: Tensor  # [2 D] of both members of each direction: first all theta + noise, then all theta - noise
    noise: Tensor  # [D, n] the directions


class PopulationAgent(Agent[AnyES]):
    """Base of algorithms that compare perturbed parameters, each played in an environment of its own.

    A subclass implements `loss` for `Members`: each member's shaped score, lower for a better member. It is
    never differentiated.
    """

    experience = "parameters"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    output_scale = 0.0  # of the output layer's first weights

    def build(self) -> None:
        """Makes the network, its population and its optimizer."""
        hparams = self.hparams
        outputs = distributions.parameter_count(self.action_space)  # scores of actions, or actions
        network = QNetwork(hparams, self.encoder, outputs, self.initializers)
        for weight in network.advantage.trainable_variables:
            weight.assign(self.output_scale * weight)
        self.network = self.add_network("network", network)
        self.population = Population(network, hparams.num_envs, hparams.perturbation_std)
        self.add_optimizer("network", network.trainable_variables)

    def updates_per_iteration(self) -> int:
        return 1

    def resample_noise(self, seed: Tensor) -> None:
        self.population.resample(seed)

    @property
    def acts_with_noise(self) -> bool:
        return True

    def act_for(self, first: int, count: int, total: int) -> None:
        super().act_for(first, count, total)
        self.population.act_for(first, count, total)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        outputs = self.population(observation) if training else self.network(observation)  # [N, K]
        space = self.action_space
        if isinstance(space, spaces.Discrete):
            return PolicyOutput(q_values=outputs)
        if isinstance(space, spaces.Box):
            action = tf.reshape(outputs, [outputs.shape[0], *space.shape])
            return PolicyOutput(distribution=distributions.Deterministic(action, space.low, space.high))
        return PolicyOutput(distribution=distributions.of_space(space, outputs))

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes one step along the estimated gradient; row b of the trajectory was played by member b."""
        ended = tf.logical_or(batch.terminated, batch.truncated)
        reward = self.scored_reward(batch)
        score = replicas.gathered(evolution.episode_scores(reward, ended, batch.mask))  # [P]
        before = evolution.flatten(self.network.trainable_variables)
        update = self.gradient_step(self.selected(score), seed)
        after = evolution.flatten(self.network.trainable_variables)
        metrics = {
            "score_mean": tf.reduce_mean(score),
            "score_max": tf.reduce_max(score),
            "score_std": tf.math.reduce_std(score),
            "update_norm": tf.norm(after - before),
            "parameter_norm": tf.norm(after),
        }
        return Update(update.metrics | metrics)

    def scored_reward(self, batch: Trajectory) -> Tensor:
        """Returns the rewards [T, B] that are summed to scores."""
        return batch.reward

    def selected(self, score: Tensor) -> Members:
        """Returns the members whose directions the step uses, from all scores [P]."""
        return Members(score, tf.convert_to_tensor(self.population.noise))

    @property
    def acting_variables(self) -> dict[str, Any]:
        return super().acting_variables | self.population.acting_variables

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.population.variables
