"""A network of single documents: what each is worth to a user, and how likely it is to be chosen."""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from rl.hparams.hparams import HParams
from rl.models.layers import Initializers, ObservationEncoder, dense
from rl.models.registry import get_model
from rl.types import Nest, Tensor


class SlateNetwork(keras.Model):
    """Values and scores of choice for each candidate, and for choosing none, which comes last.

    A candidate is seen with the user; choosing none is a document of zeros with a mark. Both torsos are those
    of `model.name`.

    Args:
        encoder: of observations with the parts "user" and "documents".
        candidates: C, how many documents may be recommended.
    """

    def __init__(
        self,
        hparams: HParams,
        encoder: ObservationEncoder,
        candidates: int,
        initializers: Initializers,
        name: str = "network",
    ):
        super().__init__(name=name)
        self.encoder, self.candidates = encoder, candidates
        users, documents = (encoder.space[part].shape for part in ("user", "documents"))
        make, inputs = get_model(hparams.model.name), (users[0] + documents[1] + 1,)
        self.torso = make(hparams.model, inputs, initializers, "torso")
        self.choice_torso = make(hparams.model, inputs, initializers, "choice_torso")
        self.q_value = dense(self.torso.size, 1, initializers.output(1.0), "q_value")
        self.score = dense(self.choice_torso.size, 1, initializers.output(0.01), "score")
        self.built = True

    @property
    def value_variables(self) -> list[Any]:
        """The trainable variables of the values."""
        return [*self.torso.trainable_variables, *self.q_value.trainable_variables]

    @property
    def choice_variables(self) -> list[Any]:
        """The trainable variables of the scores."""
        return [*self.choice_torso.trainable_variables, *self.score.trainable_variables]

    def call(self, observation: Nest) -> Tensor:
        """Returns values of observations [N, ...]: [N, C + 1]."""
        return self._of_each(observation, self.torso, self.q_value)

    def scores(self, observation: Nest) -> Tensor:
        """Returns logits of the user's choice, were all documents on the slate: [N, C + 1]."""
        return self._of_each(observation, self.choice_torso, self.score)

    def _of_each(self, observation: Nest, torso: Any, head: Any) -> Tensor:
        parts = self.encoder.parts(observation)
        user, count = parts["user"], self.candidates + 1  # [N, U]
        documents = tf.reshape(parts["documents"], [user.shape[0], self.candidates, -1])  # [N, C, D]
        documents = tf.pad(documents, [[0, 0], [0, 1], [0, 0]])
        mark = tf.broadcast_to(tf.one_hot(count - 1, count)[:, None], [user.shape[0], count, 1])
        users = tf.broadcast_to(user[:, None], [user.shape[0], count, user.shape[1]])
        x = tf.concat([users, documents, mark], -1)  # [N, C + 1, U + D + 1]
        return tf.reshape(head(torso(tf.reshape(x, [-1, x.shape[-1]]))), [user.shape[0], count])
