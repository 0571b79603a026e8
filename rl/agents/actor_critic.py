"""Bases of DDPG and related algorithms: an actor and critics that learn from replay, and target networks.

`SoftActorCritic` adds the learned temperature of SAC and related algorithms.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar, TypeVar

import keras
import tensorflow as tf

from rl.agents.agent import Agent
from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.groups import grouped
from rl.agents.targets import copy_weights
from rl.hparams.ddpg import ActorCriticReplayHParams
from rl.hparams.sac import TemperatureHParams
from rl.models.continuous import Actor, BoxActions, Critic, DiscreteActions
from rl.ops import random
from rl.ops.policy import mean_of_all
from rl.types import Batch, Loss, Tensor, Update

AnyActorCritic = TypeVar("AnyActorCritic", bound=ActorCriticReplayHParams)
AnySoft = TypeVar("AnySoft", bound=TemperatureHParams)


class ReplayActorCritic(Agent[AnyActorCritic]):
    """Base of policies that maximise a critic; `network` is the actor, `critic` one critic or several.

    A subclass sets `actions` (how actions are encoded) before it calls this `build`, and implements `policy`,
    `loss` (the critics') and `policy_loss`.
    """

    experience = "transition"
    critics = 2  # how many there are, side by side
    target_policy = True  # whether the actor has a target network too
    policy_metrics: ClassVar[tuple[str, ...]] = ("policy_loss",)  # those of `policy_loss` that are logged
    actions: BoxActions | DiscreteActions

    def build(self) -> None:
        """Makes actor, critics, target networks with the same weights, and the optimizers."""
        for name in ("network", "target_network")[: 1 + self.target_policy]:
            self.add_network(name, grouped(self, self.make_actor, name))
        for name in ("critic", "target_critic"):
            self.add_network(name, grouped(self, self.make_critic, name, axis=1))
        self.network, self.critic = self.networks["network"], self.networks["critic"]
        self.target_critic = self.networks["target_critic"]
        if self.target_policy:
            self.target_network = self.networks["target_network"]
        self.add_optimizer("network", self.network.trainable_variables)
        self.add_optimizer("critic", self.critic.trainable_variables, self.hparams.critic_lr)
        self.follow(1.0)

    def make_actor(self, name: str) -> Actor:
        """Returns an actor with one output for each number of the action's code."""
        return Actor(self.hparams, self.encoder, self.actions.size, self.initializers, name)

    def make_critic(self, name: str) -> Critic:
        """Returns critics that value an observation and the code of an action, linear in a one-hot code."""
        parts = self.hparams, self.encoder, self.actions.size, self.initializers
        linear = isinstance(self.actions, DiscreteActions)
        return Critic(*parts, count=self.critics, linear=linear, name=name)

    def policy_loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the actor's loss, as `loss`; its metrics have all `policy_metrics`."""
        raise NotImplementedError

    def update(self, batch: Batch, seed: Tensor) -> Update:
        """Makes a step of the critics, one of the actor, and `after_update`."""
        critic_seed, policy_seed = random.split(seed, 2)
        critic = self.gradient_step(batch, critic_seed, "critic")
        kept = self.policy_step(batch, policy_seed)
        self.after_update()
        return Update(critic.metrics | kept, critic.priorities)

    def policy_step(self, batch: Batch, seed: Tensor) -> dict[str, Tensor]:
        """Makes a step of the actor; returns its metrics."""
        metrics = self.gradient_step(batch, seed, "network", self.policy_loss).metrics
        kept = {name: metrics[name] for name in self.policy_metrics}
        return kept | {"policy_grad_norm": metrics["grad_norm"]}

    def after_update(self) -> None:
        self.follow(self.hparams.tau)

    def follow(self, tau: float) -> None:
        """Moves the target networks by `tau` towards the networks."""
        if self.target_policy:
            copy_weights(self.network, self.target_network, tau)
        copy_weights(self.critic, self.target_critic, tau)


class SoftActorCritic(ReplayActorCritic[AnySoft]):
    """Base of maximum-entropy policies: the objective adds temperature times entropy. The temperature is
    learned through its logarithm, with the loss log(temperature) (entropy - target).

    A subclass implements `excess_entropy` as well; the metrics of its `policy_loss` have "entropy".
    """

    target_policy = False

    def build(self) -> None:
        super().build()
        hparams = self.hparams
        self.log_temperature = keras.Variable(math.log(hparams.temperature), name="log_temperature")
        self.add_optimizer("temperature", [self.log_temperature], hparams.temperature_lr)

    @property
    def temperature(self) -> Tensor:
        """The weight of the entropy, scalar."""
        return tf.exp(tf.convert_to_tensor(self.log_temperature))

    def excess_entropy(self, metrics: dict[str, Tensor]) -> Tensor:
        """Returns by how much the policy's entropy is above its target, scalar, from the metrics of
        `policy_loss`."""
        raise NotImplementedError

    def policy_step(self, batch: Batch, seed: Tensor) -> dict[str, Tensor]:
        """Makes a step of the actor, and one of the temperature."""
        metrics = self.gradient_step(batch, seed, "network", self.policy_loss).metrics
        kept = {"policy_loss": metrics["policy_loss"], "policy_grad_norm": metrics["grad_norm"]}
        kept |= {"entropy": metrics["entropy"], "temperature": self.temperature}
        if self.hparams.learn_temperature:
            # The gradient of log_temperature * excess is one number, which grad_comp cannot split into parts.
            excess = mean_of_all(self.excess_entropy(metrics), batch.mask)
            optimizer = self.optimizers["temperature"]
            apply_gradients([excess], [self.log_temperature], optimizer, self.hparams.max_grad_norm)
        return kept

    @property
    def learned_beside(self) -> dict[str, Any]:
        """See `rl.agents.contracts.LearnsBeside`: the temperature, where it is learned."""
        return {"log_temperature": self.log_temperature} if self.hparams.learn_temperature else {}

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | {"log_temperature": self.log_temperature}
