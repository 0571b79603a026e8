"""The networks of MuZero: an observation's hidden state, where actions lead it, what it predicts.

Schrittwieser et al. 2020, https://arxiv.org/abs/1911.08265, appendix G. Hidden states are rows [N, W] within
[0, 1]: nothing ties them to observations but what is predicted of them.
"""

from __future__ import annotations

import keras
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.hparams.muzero import MuZeroHParams
from rl.models import torso
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.mlp import Torso
from rl.ops.search import rescaled
from rl.types import Nest, Tensor

SMALLEST = 1e-5  # range of a row of hidden states that is stretched to 1


class MuZeroNetwork(keras.Model):
    """Representation h, dynamics g and prediction f, by whose names the paper calls them.

    The torso named in hparams is h's; g and f are dense layers with layer normalisation. Rewards and values
    are logits over `bins`, which begin with zeros.

    Raises:
        UsageError: the model named in hparams keeps state.
    """

    def __init__(
        self, hparams: MuZeroHParams, encoder: ObservationEncoder, actions: int, initializers: Initializers
    ):
        super().__init__(name="network")
        self.encoder = encoder
        self.torso = torso.make_torso(hparams.model, encoder, initializers, "torso")
        if torso.is_recurrent(self.torso):
            raise UsageError(
                f"muzero searches from single observations: take model.name=mlp, not {hparams.model.name}"
            )
        model, width, units = hparams.model, hparams.state_size, hparams.units
        inner = ModelHParams(
            hidden=(units,) * hparams.layers, layer_norm=True, activation=model.activation, init=model.init
        )
        self.state = dense(self.torso.size, width, initializers.output(1.0), "state")
        self.moving = Torso(inner, (width + actions,), initializers, "dynamics")
        self.change = dense(units, width, initializers.output(1.0), "change")
        self.reward = dense(units, hparams.bins, "zeros", "reward")
        self.predicting = Torso(inner, (width,), initializers, "prediction")
        self.policy = dense(units, actions, initializers.output(0.01), "policy")
        self.value = dense(units, hparams.bins, "zeros", "value")
        self.built = True

    def represent(self, observation: Nest) -> Tensor:
        """Returns hidden states [N, W] of observations [N, ...]: h."""
        return rescaled(self.state(self.torso(self.encoder(observation))), SMALLEST)

    def follow(self, state: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (hidden states [N, W] after actions [N, A], one-hot, logits of their rewards [N, K]): g."""
        x = self.moving(tf.concat([state, action], -1))
        return rescaled(state + self.change(x), SMALLEST), self.reward(x)

    def predict(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (logits of the policy [N, A], of the value [N, K]) in hidden states [N, W]: f."""
        x = self.predicting(state)
        return self.policy(x), self.value(x)
