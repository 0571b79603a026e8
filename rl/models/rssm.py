"""The recurrent state-space model of Dreamer, and the networks that see its state.

Hafner et al. 2023, https://arxiv.org/abs/2301.04104, section "World model learning". A state is `deter` (h,
what a gated unit carries on) and `stoch` (z, G categoricals of K classes as one-hot rows), `[N, D]` and
`[N, G * K]`; h and z side by side are the features that all heads see.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import keras
import tensorflow as tf

from rl.errors import UsageError
from rl.hparams.dreamer import DreamerHParams
from rl.hparams.hparams import ModelHParams
from rl.models import torso
from rl.models.layers import Initializers, ObservationEncoder, dense, normalized_dense
from rl.models.mlp import Torso
from rl.ops.world_model import mixed_logits, straight_through, symlog
from rl.types import Nest, Tensor


class Observed(NamedTuple):
    """States along a sequence of observations."""

    features: Tensor  # [T, N, D + G * K]
    posterior: Tensor  # [T, N, G, K] log-probabilities of z, the observation known
    prior: Tensor  # [T, N, G, K] the same without it


class RSSM(keras.layers.Layer):
    """h' = gru(h, z, action); z' ~ prior(h'), or where something is seen ~ posterior(h', embedding).

    The gated unit has layer normalisation before its gates, and holds on to its state at first (a bias of -1
    on the update gate).

    Args:
        hparams: sizes: `deter`, `groups`, `classes`, `units`.
        embedding: width of what is known of an observation.
        actions: width of an action's code.
        initializers: of the weights.
    """

    def __init__(self, hparams: DreamerHParams, embedding: int, actions: int, initializers: Initializers):
        super().__init__(name="rssm")
        self.deter, self.groups, self.classes = hparams.deter, hparams.groups, hparams.classes
        self.stoch = self.groups * self.classes
        self.size = self.deter + self.stoch  # of the features
        units, hidden = hparams.units, lambda: initializers.hidden("silu")
        with keras.name_scope("rssm"):
            self.enter = normalized_dense(self.stoch + actions, units, hidden(), "enter", "silu")
            gates = normalized_dense(units + self.deter, 3 * self.deter, hidden(), "gates", "linear")
            self.gates = gates[:2]
            self.prior_hidden = normalized_dense(self.deter, units, hidden(), "prior_hidden", "silu")
            self.prior_out = dense(units, self.stoch, initializers.output(1.0), "prior")
            # Of the embedding and of h apart: the first is one product for all steps of a sequence.
            self.seen = dense(embedding, units, hidden(), "seen")
            self.posterior_hidden = normalized_dense(self.deter, units, hidden(), "posterior_hidden", "silu")
            self.posterior_out = dense(units, self.stoch, initializers.output(1.0), "posterior")
        self.built = True

    def forward(self, deter: Tensor, stoch: Tensor, action: Tensor) -> Tensor:
        """Returns h' [N, D] from the state before and the code of the action [N, A] taken there."""
        x = _through(self.enter, tf.concat([stoch, action], -1))
        reset, new, update = tf.split(_through(self.gates, tf.concat([x, deter], -1)), 3, -1)
        update = tf.sigmoid(update - 1.0)
        return update * tf.tanh(tf.sigmoid(reset) * new) + (1.0 - update) * deter

    def prior(self, deter: Tensor) -> Tensor:
        """Returns log-probabilities [N, G, K] of z by h alone."""
        return self._log_probs(self.prior_out(_through(self.prior_hidden, deter)))

    def posterior(self, deter: Tensor, seen: Tensor) -> Tensor:
        """Returns log-probabilities [N, G, K] of z by h and `seen` [N, U], the product with the embedding."""
        first, norm, activation = self.posterior_hidden
        return self._log_probs(self.posterior_out(activation(norm(first(deter) + seen))))

    def sample(self, log_probs: Tensor, noise: Tensor) -> Tensor:
        """Returns z [N, G * K], with a gradient; noise: Gumbel [N, G * K], zeros for the likeliest."""
        chosen = straight_through(log_probs, tf.reshape(noise, log_probs.shape))
        return tf.reshape(chosen, [log_probs.shape[0], self.stoch])

    def observe(
        self, embedding: Tensor, action: Tensor, alive: Tensor, state: tuple[Tensor, Tensor], noise: Tensor
    ) -> Observed:
        """Returns states along sequences.

        Args:
            embedding: `[T, N, E]` of the observations.
            action: `[T, N, A]`, the code of the action before each.
            alive: `[T, N]`, 0 where an observation is the first of its episode: state and action before it
                count as 0.
            state: h and z before the first one, `[N, D]` and `[N, G * K]`.
            noise: `[T, N, G * K]`, Gumbel.
        """
        length, count = alive.shape
        seen = tf.reshape(self.seen(tf.reshape(embedding, [length * count, -1])), [length, count, -1])
        action = action * alive[..., None]

        def array(*shape: int) -> tf.TensorArray:
            return tf.TensorArray(tf.float32, length, element_shape=[count, *shape])

        def body(t: Tensor, deter: Tensor, stoch: Tensor, kept: tuple) -> tuple:
            stays = tf.gather(alive, t)[:, None]
            deter = self.forward(deter * stays, stoch * stays, tf.gather(action, t))
            posterior = self.posterior(deter, tf.gather(seen, t))
            stoch = self.sample(posterior, tf.gather(noise, t))
            each = (deter, stoch, posterior)
            return t + 1, deter, stoch, tuple(a.write(t, x) for a, x in zip(kept, each, strict=True))

        arrays = (array(self.deter), array(self.stoch), array(self.groups, self.classes))
        _, _, _, kept = tf.while_loop(
            lambda t, *_: t < length, body, (tf.constant(0), *state, arrays), maximum_iterations=length
        )
        deter, stoch, posterior = (each.stack() for each in kept)
        prior = self.prior(tf.reshape(deter, [length * count, self.deter]))
        return Observed(tf.concat([deter, stoch], -1), posterior, tf.reshape(prior, posterior.shape))

    def imagine(
        self,
        features: Tensor,
        act: Callable[[Tensor, Tensor], Tensor],
        act_noise: Tensor,
        noise: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """Returns what follows by the prior alone, without any gradient.

        Args:
            features: `[M, D + G * K]` where it begins.
            act: features and the step's `act_noise` to the actions' codes `[M, A]`.
            act_noise: `[H, M, A]`.
            noise: `[H, M, G * K]`, Gumbel.

        Returns:
            Features `[H + 1, M, D + G * K]`, of the beginning too, and the codes of the actions `[H, M, A]`.
        """
        horizon, count, width = act_noise.shape
        states = tf.TensorArray(tf.float32, horizon, element_shape=[count, self.size])
        actions = tf.TensorArray(tf.float32, horizon, element_shape=[count, width])

        def body(t: Tensor, now: Tensor, states: tf.TensorArray, actions: tf.TensorArray) -> tuple:
            action = act(now, tf.gather(act_noise, t))
            deter, stoch = now[:, : self.deter], now[:, self.deter :]
            deter = self.forward(deter, stoch, tf.clip_by_value(action, -1.0, 1.0))
            now = tf.concat([deter, self.sample(self.prior(deter), tf.gather(noise, t))], -1)
            return t + 1, now, states.write(t, now), actions.write(t, action)

        start = tf.stop_gradient(features)
        _, _, states, actions = tf.while_loop(
            lambda t, *_: t < horizon,
            body,
            (tf.constant(0), start, states, actions),
            maximum_iterations=horizon,
        )
        return tf.stop_gradient(tf.concat([start[None], states.stack()], 0)), tf.stop_gradient(
            actions.stack()
        )

    def _log_probs(self, logits: Tensor) -> Tensor:
        return mixed_logits(tf.reshape(logits, [logits.shape[0], self.groups, self.classes]))


class Head(keras.layers.Layer):
    """Dense layers with layer normalisation, `units` wide, and a linear one: [..., inputs] to [..., outputs].

    gain: of the last layer's initial weights; 0: it begins with zeros.
    """

    def __init__(
        self,
        hparams: DreamerHParams,
        inputs: int,
        outputs: int,
        initializers: Initializers,
        name: str,
        gain: float = 1.0,
    ):
        super().__init__(name=name)
        hidden = (hparams.units,) * hparams.layers
        model = ModelHParams(hidden=hidden, layer_norm=True, activation="silu", init=hparams.model.init)
        with keras.name_scope(name):
            self.hidden = Torso(model, (inputs,), initializers, "hidden")
            last = initializers.output(gain) if gain else "zeros"
            self.out = dense(self.hidden.size, outputs, last, "out")
        self.built = True

    def call(self, x: Tensor) -> Tensor:
        rows = -1 if None in x.shape else math.prod(x.shape[:-1])
        flat = self.out(self.hidden(tf.reshape(x, [rows, x.shape[-1]])))
        return tf.reshape(flat, [*x.shape[:-1], flat.shape[-1]])


class DreamerNetwork(keras.Model):
    """What acting needs: the observation's layers, the state-space model, the actor.

    Raises:
        UsageError: the model named in hparams keeps state.
    """

    def __init__(
        self,
        hparams: DreamerHParams,
        encoder: ObservationEncoder,
        actions: int,
        outputs: int,
        initializers: Initializers,
    ):
        super().__init__(name="network")
        self.encoder, self.actions = encoder, actions
        self.torso = torso.make_torso(hparams.model, encoder, initializers, "torso")
        if torso.is_recurrent(self.torso):
            raise UsageError(
                f"dreamer remembers by a model of its own: take model.name=mlp, not {hparams.model.name}"
            )
        self.rssm = RSSM(hparams, self.torso.size, actions, initializers)
        self.actor = Head(hparams, self.rssm.size, outputs, initializers, "actor", gain=0.01)
        self.built = True

    def start(self, count: int) -> dict[str, Tensor]:
        """Returns the state at the start of `count` episodes: zeros."""
        widths = {"deter": self.rssm.deter, "stoch": self.rssm.stoch, "action": self.actions}
        return {name: tf.zeros([count, width]) for name, width in widths.items()}

    def target(self, observation: Nest) -> Tensor:
        """Returns observations [N, ...] as they go in and are to be decoded, [N, F]: symlogs of real numbers,
        and all else within [0, 1]."""
        x = self.encoder(observation)
        return tf.where(self.encoder.real > 0.0, symlog(x), x)

    def step(
        self, observation: Nest, state: dict[str, Tensor], noise: Tensor
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns features [N, D + G * K] after one more observation, and the state, in which the action is 0
        yet; noise: Gumbel [N, G * K]."""
        rssm = self.rssm
        deter = rssm.forward(state["deter"], state["stoch"], state["action"])
        posterior = rssm.posterior(deter, rssm.seen(self.torso(self.target(observation))))
        stoch = rssm.sample(posterior, noise)
        after = {"deter": deter, "stoch": stoch, "action": tf.zeros_like(state["action"])}
        return tf.concat([deter, stoch], -1), after


class Heads(keras.Model):
    """What is predicted of a state: the observation, the reward, whether the episode goes on, and which
    actions are legal where observations tell."""

    def __init__(
        self, hparams: DreamerHParams, inputs: int, encoder: ObservationEncoder, legal: int, initializers: Any
    ):
        super().__init__(name="heads")
        self.decoder = Head(hparams, inputs, encoder.size, initializers, "decoder")
        self.reward = Head(hparams, inputs, hparams.bins, initializers, "reward", gain=0.0)
        self.goes_on = Head(hparams, inputs, 1, initializers, "continue")
        self.legal = Head(hparams, inputs, legal, initializers, "legal") if encoder.masked else None
        self.built = True


class Critic(keras.Model):
    """Logits of a state's value over symlog bins."""

    def __init__(self, hparams: DreamerHParams, inputs: int, initializers: Initializers, name: str):
        super().__init__(name=name)
        self.head = Head(hparams, inputs, hparams.bins, initializers, "value", gain=0.0)
        self.built = True

    def call(self, features: Tensor) -> Tensor:
        return self.head(features)


def _through(layers: list[keras.layers.Layer], x: Tensor) -> Tensor:
    for layer in layers:
        x = layer(x)
    return x
