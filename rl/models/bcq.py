"""The networks of BCQ for continuous actions: what those of the data are like, and which are better."""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.hparams.hparams import HParams
from rl.models.continuous import Critic
from rl.models.layers import Initializers, ObservationEncoder
from rl.types import Nest, Tensor

LOG_STD_LIMITS = (-4.0, 15.0)  # of the latent numbers, as in the authors' code
LATENT_LIMIT = 0.5  # of those that actions are generated from


class BCQNetwork(keras.Model):
    """A variational auto-encoder of actions (codes [N, K] in [-1, 1]), a perturbation, and two critics.

    Args:
        size: K.
        perturbation: the largest change of an action.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        size: int,
        perturbation: float,
        initializers: Initializers,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder, self.size, self.latent, self.limit = encoder, size, 2 * size, perturbation

        def layers(inputs: int, outputs: int, part: str, count: int = 1) -> Critic:
            with keras.name_scope(part):  # under which its variables are saved
                return Critic(hparams, encoder, inputs, initializers, count, outputs, name=part)

        self.recognition = layers(size, 2 * self.latent, "recognition")
        self.decoder = layers(self.latent, size, "decoder")
        self.perturbation = layers(size, size, "perturbation")
        self.critic = layers(size, 1, "critic", count=2)
        self.built = True

    def recognised(self, observation: Nest, action: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and log standard deviation of the latent numbers of actions, [N, 2 K] each."""
        mean, log_std = tf.split(self.recognition(observation, action)[0], 2, -1)
        return mean, tf.clip_by_value(log_std, *LOG_STD_LIMITS)

    def decoded(self, observation: Nest, latent: Tensor) -> Tensor:
        """Returns actions [N, K] of latent numbers [N, 2 K]."""
        return tf.tanh(self.decoder(observation, latent)[0])

    def generated(self, observation: Nest, normal: Tensor) -> Tensor:
        """Returns actions like those of the data, from standard normals [N, 2 K]."""
        return self.decoded(observation, tf.clip_by_value(normal, -LATENT_LIMIT, LATENT_LIMIT))

    def perturbed(self, observation: Nest, action: Tensor) -> Tensor:
        """Returns actions near `action`, [N, K]."""
        change = self.limit * tf.tanh(self.perturbation(observation, action)[0])
        return tf.clip_by_value(action + change, -1.0, 1.0)

    def q_values(self, observation: Nest, action: Tensor, members: int | None = None) -> Tensor:
        """Returns values [2, N] of actions; [members, N] where that is given."""
        return self.critic(observation, action, members=members)[:, :, 0]
