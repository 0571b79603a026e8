"""Base of behaviour cloning and related algorithms: a policy that imitates the data's actions."""

from __future__ import annotations

from typing import Any, ClassVar, TypeVar

from gymnasium import spaces

from rl.agents.agent import Agent
from rl.hparams.bc import CloningHParams
from rl.models.policies import PolicyNetwork
from rl.ops.policy import masked_mean
from rl.types import Loss, Nest, PolicyOutput, Tensor

AnyCloning = TypeVar("AnyCloning", bound=CloningHParams)


class Cloning(Agent[AnyCloning]):
    """Base of policies that imitate the data's actions; a subclass may write another `loss`."""

    experience = "transition"
    action_spaces: ClassVar[tuple[type, ...]] = (
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
        spaces.Box,
    )

    def build(self) -> None:
        """Makes the policy's network and its optimizer."""
        policy = PolicyNetwork(self.hparams, self.encoder, self.action_space, self.initializers)
        self.network = self.add_network("network", policy)
        self.add_optimizer("network", self.network.trainable_variables)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        distribution, state = self.network.step(observation, recurrent_state)
        return PolicyOutput(distribution=distribution, recurrent_state=state)

    def loss(self, batch: Any, seed: Tensor) -> Loss:
        """Returns minus the log-probability of the data's actions, [N]."""
        log_prob = self.network(batch.observation).log_prob(batch.action)  # [N]
        return -log_prob * batch.mask, {"log_prob": masked_mean(log_prob, batch.mask)}, None
