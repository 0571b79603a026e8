"""Bases of A2C and related algorithms: a policy and a value function that learn from rollouts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Protocol, TypeVar

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.groups import grouped
from rl.errors import UsageError
from rl.hparams.a2c import A2CHParams
from rl.hparams.hparams import ModelHParams
from rl.hparams.impala import IMPALAHParams
from rl.hparams.ppo import PPOHParams
from rl.hparams.trpo import TRPOHParams
from rl.hparams.vpg import VPGHParams
from rl.models.networks import ActorCritic, ActorCriticOutput
from rl.ops import distributions, loops, random, returns, trajectories
from rl.ops.nests import without_last
from rl.ops.vtrace import vtrace
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update

AnyPolicyGradient = TypeVar(
    "AnyPolicyGradient", bound=VPGHParams | A2CHParams | PPOHParams | IMPALAHParams | TRPOHParams
)
AnyVTrace = TypeVar("AnyVTrace", bound=IMPALAHParams)


class PolicyGradient(Agent[AnyPolicyGradient]):
    """Base of policy gradients that learn from rollouts, with recurrent models or without.

    A subclass implements `loss` and `update`.
    """

    experience = "rollout"
    action_spaces: ClassVar[tuple[type, ...]] = (
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
        spaces.Box,
    )
    trajectory_extras: tuple[str, ...] = ("value",)
    recurrent = True

    def build(self) -> None:
        """Makes the network of policy and value, and its optimizer."""
        self.network = self.add_network("network", grouped(self, self.make_network, "network"))
        self.add_optimizer("network", self.network.trainable_variables)

    def make_network(self, name: str) -> ActorCritic:
        """Returns a network of policy and value."""
        log_std_init = self.hparams.log_std_init
        return ActorCritic(
            self.hparams, self.encoder, self.action_space, self.initializers, log_std_init, name
        )

    def updates_per_iteration(self) -> int:
        return 1

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return self.output(self.network(observation, recurrent_state))

    def output(self, output: ActorCriticOutput) -> PolicyOutput:
        """Returns the distribution over actions, and the value, from the network's output."""
        distribution = distributions.of_space(self.action_space, output.parameters, output.log_std)
        return PolicyOutput(distribution=distribution, value=output.value, recurrent_state=output.state)

    def advantages(self, trajectory: Trajectory, values: Tensor, gae_lambda: float) -> Tensor:
        """Returns generalised advantages [T, B] of a rollout, by values [T+1, B] of its observations."""
        return returns.generalized_advantage(
            trajectory.reward,
            values,
            trajectory.terminated,
            trajectory.truncated,
            self.hparams.gamma,
            gae_lambda,
        )

    def rollout_values(self, trajectory: Trajectory) -> Tensor:
        """Returns the values [T+1, B] of a rollout: those noted while acting, and the last observation's."""
        value, last = trajectory.extras["value"], self.network.last_value(trajectory)  # [T, B], [B]
        return tf.concat([value, last[None]], 0)

    def unroll(self, batch: Trajectory) -> PolicyOutput:
        """Returns the current policy along a trajectory, flat: [T * B, ...]."""
        observation = without_last(batch.observation)  # [T, B, ...]
        return self.output(self.network.unroll(observation, batch.recurrent_state, batch.mask))


class Minibatched(Protocol):
    """The hyperparameters of what learns from rollouts in minibatches."""

    num_envs: int
    minibatches: int
    model: ModelHParams


def check_sequences(hparams: Minibatched) -> None:
    """Raises UsageError where the environments do not split into equal minibatches, as those of a model that
    keeps state do."""
    if hparams.num_envs % hparams.minibatches:
        raise UsageError(
            f"minibatches={hparams.minibatches} does not divide num_envs={hparams.num_envs}: with model "
            f"{hparams.model.name} minibatches are groups of environments; change one of the two"
        )


def shuffled(data: Nest, size: int, parts: int, seed: Tensor) -> Nest:
    """Returns the rows of tensors [size, ...] in another order, in parts: [parts, size / parts, ...].

    One gather for all, then slices: XLA pays for a gather per minibatch otherwise.
    """
    order = random.permutation(seed, size)
    return tf.nest.map_structure(
        lambda x: tf.reshape(tf.gather(x, order), [parts, size // parts, *x.shape[1:]]), data
    )


def over_minibatches(
    step: Callable[[Any], loops.Metrics],
    data: Any,
    epochs: int,
    parts: int,
    seed: Tensor,
    first: int = 0,
) -> loops.Metrics:
    """Calls `step` with each of `parts` minibatches of a batch's rows, in `epochs` passes, shuffled anew in
    every pass; returns the means of its metrics.

    first: number of the first pass, where others over the same data went before with `seed`.
    """

    def one_epoch(epoch: Tensor) -> loops.Metrics:
        rows = shuffled(data, trajectories.count(data), parts, random.fold_in(seed, first + epoch))

        def one_minibatch(i: Tensor) -> loops.Metrics:
            return step(tf.nest.map_structure(lambda x: tf.gather(x, i), rows))

        return loops.repeat(parts, one_minibatch)[0]

    return loops.repeat(epochs, one_epoch)[0]


class VTraceAgent(PolicyGradient[AnyVTrace]):
    """Base of policy gradients with V-trace, which corrects for the lag of the acting policy (Espeholt et al.
    2018).

    A subclass implements `loss` for the rollouts of a group of environments.
    """

    trajectory_extras = ("log_prob",)

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs * self.hparams.minibatches

    def unroll_whole(self, network: ActorCritic, batch: Trajectory) -> PolicyOutput:
        """Returns a policy along a trajectory: its distribution flat, [T * B, ...], its value [T+1, B]."""
        mask = tf.concat([batch.mask, tf.ones_like(batch.mask[:1])], 0)  # [T+1, B]
        output = network.unroll(batch.observation, batch.recurrent_state, mask)
        steps, log_std = batch.mask.shape.num_elements(), output.log_std
        log_std = log_std[:steps] if log_std is not None and log_std.shape.rank > 1 else log_std
        acted = self.output(output._replace(parameters=output.parameters[:steps], log_std=log_std))
        return acted._replace(value=tf.reshape(output.value, mask.shape))

    def vtrace(self, batch: Trajectory, log_ratio: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Returns targets of the value and advantages, [T, B]; log_ratio [T, B], value [T+1, B]."""
        hparams = self.hparams
        return vtrace(
            log_ratio,
            batch.reward,
            value,
            batch.terminated,
            batch.truncated,
            hparams.gamma,
            hparams.trace_lambda,
            hparams.rho_clip,
            hparams.trace_clip,
            hparams.advantage_rho_clip,
        )

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes `epochs` passes over the trajectory in `minibatches` groups of environments, shuffled
        anew."""
        hparams = self.hparams
        size = hparams.num_envs // hparams.minibatches

        def one_update(i: Tensor) -> dict[str, Tensor]:
            part = batch
            if hparams.minibatches > 1:
                epoch, place = i // hparams.minibatches, i % hparams.minibatches
                order = random.permutation(random.fold_in(seed, epoch), hparams.num_envs)
                part = trajectories.take(batch, tf.gather(order, place * size + tf.range(size)))
            return self.learn_part(part, random.fold_in(seed, i))

        metrics, made = loops.repeat(self.updates_per_iteration(), one_update)
        return Update(metrics | {"updates": made})

    def learn_part(self, batch: Trajectory, seed: Tensor) -> dict[str, Tensor]:
        """Makes one update on a group of environments' rollouts; returns its metrics."""
        metrics = self.gradient_step(batch, seed).metrics
        self.after_update()
        return metrics
