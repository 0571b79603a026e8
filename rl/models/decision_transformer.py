"""The network of the Decision Transformer, and the window of last steps that it keeps while it acts."""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.envs.wrappers import PREVIOUS_ACTION, PREVIOUS_REWARD
from rl.hparams.dt import DTHParams
from rl.models import torso
from rl.models.joint import WithoutParts
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.transformer import Transformer, layer_norm
from rl.types import Nest, Tensor


class Window(NamedTuple):
    """The last K steps of N episodes, oldest first. Where there were fewer, the first ones have mask 0."""

    return_to_go: Tensor  # [N, K] in the environment's units
    features: Tensor  # [N, K, F] what the torso makes of observations
    action: Tensor  # [N, K, A] codes of actions; of the last step it is not looked at
    episode_step: Tensor  # [N, K] float32, steps of the episode before each step
    mask: Tensor  # [N, K]


class DecisionTransformer(torso.TorsoNetwork):
    """Windows of K steps to the outputs [N, K, outputs] by which each step's action is chosen.

    Each step is three tokens: its return-to-go, its observation, its action, each by a linear layer of its
    own, plus the embedding of the step in the episode; then all are normalised. The transformer's token of
    the observation gives the output, and has seen this and earlier observations and returns-to-go, and
    earlier actions.

    While it acts it keeps the window (`start`, `step`): a dict of what `Window` has, and of the episode's
    steps and rewards so far.

    Args:
        hparams: sizes: `context_length` (K), `embedding`, `layers`, `heads`, `max_timestep`.
        encoder: of observations that tell the action and the reward before them, which the tokens of
            observations leave out.
        actions: A, width of an action's code.
        outputs: of each step.
        initializers: of the weights.
    """

    def __init__(
        self,
        hparams: DTHParams,
        encoder: ObservationEncoder,
        actions: int,
        outputs: int,
        initializers: Initializers,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.hparams, self.actions, width = hparams, actions, hparams.embedding
        self.encoder = encoder
        self.seen = WithoutParts(encoder, PREVIOUS_ACTION, PREVIOUS_REWARD)
        self.torso = torso.make_torso(hparams.model, self.seen, initializers, "torso")
        self.embed_return, self.embed_observation, self.embed_action = (
            dense(size, width, initializers.hidden("linear"), f"embed_{part}")
            for part, size in (("return", 1), ("observation", self.torso.size), ("action", actions))
        )
        self.timesteps = self.add_weight(
            shape=(hparams.max_timestep, width), initializer=initializers.uniform(0.02), name="timesteps"
        )
        self.norm = layer_norm(width, "embedding_norm")
        self.transformer = Transformer(width, hparams.layers, hparams.heads, initializers, "transformer")
        self.policy = dense(width, outputs, initializers.output(0.01), "policy")
        self.built = True

    def features(self, observation: Nest) -> Tensor:
        """Returns what the torso makes of observations [N, ...]: [N, F]."""
        return self.torso(self.seen(observation))

    def call(self, window: Window) -> Tensor:
        """Returns the outputs of each step, [N, K, outputs]."""
        count, length = window.mask.shape
        tokens = self.norm(self.tokens(window))  # [N, K, 3, D]
        mask = tf.reshape(tf.stack([window.mask] * 3, -1), [count, 3 * length])
        x = self.transformer(tf.reshape(tokens, [count, 3 * length, tokens.shape[-1]]), mask)
        of_observation = tf.reshape(x, tokens.shape)[:, :, 1]  # [N, K, D]
        return tf.reshape(self.policy(_rows(of_observation)), [count, length, -1])

    def tokens(self, window: Window) -> Tensor:
        """Returns return-to-go, observation and action of each step as tokens, [N, K, 3, D], not yet
        normalised."""
        place = tf.cast(tf.clip_by_value(window.episode_step, 0.0, self.hparams.max_timestep - 1.0), tf.int32)
        # The product makes the table's gradient an ordinary tensor; that of a gather is one of slices.
        when = tf.gather(1.0 * tf.convert_to_tensor(self.timesteps), place)  # [N, K, D]
        scaled = window.return_to_go[..., None] / self.hparams.return_scale
        parts = (
            (self.embed_return, scaled),
            (self.embed_observation, window.features),
            (self.embed_action, window.action),
        )
        return tf.stack([tf.reshape(layer(_rows(x)), when.shape) + when for layer, x in parts], 2)

    def start(self, count: int) -> dict[str, Tensor]:
        """Returns the state at the start of `count` episodes: zeros. Of actions it has those before each
        step."""
        length = self.hparams.context_length
        return {
            "action": tf.zeros([count, length, self.actions]),
            "features": tf.zeros([count, length, self.torso.size]),
            "return_to_go": tf.zeros([count, length]),
            "reward": tf.zeros([count]),  # the sum of the rewards so far
            "steps": tf.zeros([count]),  # so far
        }

    def step(
        self, observation: Nest, action: Tensor, state: dict[str, Tensor]
    ) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the outputs of one more step [N, outputs], and the state after it.

        observation [N, ...]: with the reward of the step before; action [N, A]: the code of that step's
        action.
        """
        reward = state["reward"] + observation[PREVIOUS_REWARD][:, 0]

        def newest(name: str, x: Tensor) -> Tensor:
            return tf.concat([state[name][:, 1:], x[:, None]], 1)

        before = newest("action", action)
        kept = {
            "action": before,
            "features": newest("features", self.features(observation)),
            "return_to_go": newest("return_to_go", self.hparams.target_return - reward),
        }
        outputs = self(self.window(kept, state["steps"]))
        return outputs[:, -1], kept | {"reward": reward, "steps": state["steps"] + 1.0}

    def window(self, kept: dict[str, Tensor], steps: Tensor) -> Window:
        """Returns what is kept as a window, whose last step had `steps` [N] before it in its episode."""
        before, length = kept["action"], self.hparams.context_length
        action = tf.concat([before[:, 1:], tf.zeros_like(before[:, :1])], 1)  # the last one is yet to come
        place = steps[:, None] + tf.range(1.0 - length, 1.0)  # [N, K]
        mask = tf.cast(place >= 0.0, tf.float32)
        return Window(kept["return_to_go"], kept["features"], action, place, mask)


def _rows(x: Tensor) -> Tensor:
    """[N, K, D] as rows [N * K, D], for dense layers."""
    return tf.reshape(x, [-1, x.shape[-1]])
