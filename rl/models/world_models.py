"""The networks of World Models: V that sees, M that remembers and foresees, C that acts.

Ha and Schmidhuber 2018, https://arxiv.org/abs/1803.10122, section 2. z [N, Z] is what V makes of an
observation, h [N, H] what M remembers of all before it; C sees both. Actions come as one-hot codes [N, A].
"""

from __future__ import annotations

from typing import NamedTuple

import keras
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.hparams.world_models import WorldModelsHParams
from rl.models import torso
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.lstm import LSTM
from rl.models.mlp import Torso
from rl.types import Tensor

LOG_STD = (-5.0, 2.0)  # of z, in the encoder and as it is foreseen


class Foreseen(NamedTuple):
    """What M says of the next step."""

    logits: Tensor  # [..., Z, K] mixture of each number of the next z
    mean: Tensor  # [..., Z, K]
    log_std: Tensor  # [..., Z, K]
    reward: Tensor  # [...]
    ends: Tensor  # [...] logit of the episode's end


class WorldModelsNetwork(keras.Model):
    """What acting needs: V's encoder, M's recurrent network, C.

    Raises:
        UsageError: the model named in hparams keeps state.
    """

    def __init__(
        self,
        hparams: WorldModelsHParams,
        encoder: ObservationEncoder,
        actions: int,
        initializers: Initializers,
    ):
        super().__init__(name="network")
        self.encoder = encoder
        self.torso = torso.make_torso(hparams.model, encoder, initializers, "torso")
        if torso.is_recurrent(self.torso):
            raise UsageError(
                f"world_models remembers by a model of its own: take model.name=mlp, not {hparams.model.name}"
            )
        size, units = hparams.latents, hparams.memory_units
        with keras.name_scope("vision"):
            self.latent = dense(self.torso.size, 2 * size, initializers.output(1.0), "latent")
        core = ModelHParams(hidden=(), recurrent_units=units, init=hparams.model.init)
        self.memory = LSTM(core, (size + actions,), initializers, "memory")
        with keras.name_scope("controller"):
            self.controller = dense(size + units, actions, "zeros", "linear")
        self.built = True

    def start(self, count: int) -> dict[str, Tensor]:
        """Returns the state at the start of `count` episodes, zeros: z and M's memory (h, c)."""
        h, c = self.memory.initial_state(count)
        return {"z": tf.zeros([count, self.latent.units // 2]), "h": h, "c": c}

    def see(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Returns mean and log standard deviation of z [N, Z], of encoded observations [N, F]."""
        mean, log_std = tf.split(self.latent(self.torso(x)), 2, -1)
        return mean, tf.clip_by_value(log_std, *LOG_STD)

    def remember(self, state: dict[str, Tensor], code: Tensor) -> dict[str, Tensor]:
        """Returns the state after an action, in which z is that of before."""
        _, (h, c) = self.memory(tf.concat([state["z"], code], -1), (state["h"], state["c"]))
        return {"z": state["z"], "h": h, "c": c}


class Heads(keras.Model):
    """What learning and dreaming need beside: V's decoder, and what M foresees by its output."""

    def __init__(self, hparams: WorldModelsHParams, outputs: int, initializers: Initializers):
        super().__init__(name="heads")
        size, self.components = hparams.latents, hparams.mixtures
        with keras.name_scope("heads"):
            self.hidden = Torso(hparams.model, (size,), initializers, "decoder")
            self.decoder = dense(self.hidden.size, outputs, initializers.output(1.0), "decoded")
            width = 3 * size * self.components + 2
            self.foreseen = dense(hparams.memory_units, width, initializers.output(1.0), "foreseen")
        self.built = True

    def decode(self, z: Tensor) -> Tensor:
        """Returns encoded observations [N, F] of z [N, Z]: numbers, and logits of what is within [0, 1]."""
        return self.decoder(self.hidden(z))

    def foresee(self, h: Tensor) -> Foreseen:
        """Returns what follows, by M's output [..., H] after the action."""
        found = self.foreseen(h)
        mixture = tf.reshape(found[..., :-2], [*found.shape[:-1], 3, -1, self.components])
        logits, mean, log_std = tf.unstack(mixture, axis=-3)
        return Foreseen(logits, mean, tf.clip_by_value(log_std, *LOG_STD), found[..., -2], found[..., -1])
