"""Many copies of one network, each with weights of its own, evaluated side by side."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from rl.ops import evolution, random
from rl.ops.affine import bias_apart
from rl.parallel import replicas
from rl.types import Nest, Tensor


class Population:
    """`size` members around a network's trainable weights, in mirrored pairs (`rl.ops.evolution`).

    Members stand in variables of their own, one `[size, *shape]` for each weight: acting, the hot loop, reads
    them as they are. What is not trainable (the observation normaliser) all members share with the network.

    Args:
        network: any feed-forward Keras model whose first argument is `[N, ...]` observations.
        size: of the population, P; even.
        std: standard deviation of a member's weights around the network's.
    """

    def __init__(self, network: keras.Model, size: int, std: float):
        self.network, self.size, self.std = network, size, std
        trainable = network.trainable_variables
        self._shapes = [tuple(each.shape) for each in trainable]
        self.parameters = sum(int(tf.TensorShape(shape).num_elements()) for shape in self._shapes)  # n
        self.members = slice(0, size)  # those that `__call__` evaluates
        self.noise = _variable(tf.zeros([size // 2, self.parameters]), "noise")
        self.weights = [
            _variable(tf.repeat(tf.convert_to_tensor(each)[None], size, 0), f"weight_{i}")
            for i, each in enumerate(trainable)
        ]

    def resample(self, seed: Tensor) -> None:
        """Draws new directions, and sets the members around the network's present weights."""
        noise = random.normal(seed, self.noise.shape)  # [P/2, n]
        self.noise.assign(noise)
        center = evolution.flatten(self.network.trainable_variables)
        members = center + self.std * tf.concat([noise, -noise], 0)  # [P, n]
        for weight, value in zip(self.weights, evolution.unflatten(members, self._shapes), strict=True):
            weight.assign(value)

    def __call__(self, observation: Nest) -> Nest:
        """The network's output for observations `[P, ...]`, row b by the b-th of `members`.

        Raises:
            ValueError: there is not one observation for each of them.
        """
        count = tf.nest.flatten(observation)[0].shape[0]
        members = (self.members.stop - self.members.start) // replicas.count()
        if count != members:
            raise ValueError(f"{count} observations for {members} members: each needs its own")
        weights = [replicas.own_rows(tf.convert_to_tensor(each)[self.members]) for each in self.weights]
        single = tf.nest.map_structure(lambda x: x[:, None], observation)  # [P, 1, ...]
        return tf.nest.map_structure(lambda x: x[:, 0], with_weights(self.network, weights, single))

    def act_for(self, first: int, count: int, total: int) -> None:
        """Limits acting to `count` members from the first-th on (`Agent.act_for`)."""
        self.members = slice(first, first + count)

    @property
    def acting_variables(self) -> dict[str, Any]:
        """What `__call__` reads beside the network's own variables."""
        return {f"population/weight_{i}": each for i, each in enumerate(self.weights)}

    @property
    def variables(self) -> dict[str, Any]:
        """All its state, by name."""
        return {"population/noise": self.noise, **self.acting_variables}


def with_weights(
    network: keras.Model, weights: list[Tensor], inputs: Nest, call: Callable[[Nest], Nest] | None = None
) -> Nest:
    """Returns what copies of a network, of other weights, say of inputs of their own: [P, M, ...] each.

    weights: `[P, *shape]` for each of the network's trainable variables; what is not trainable all share.
    inputs: [P, M, ...]; call: what a copy does with its inputs [M, ...], by default `network`.
    """
    trainable, call = network.trainable_variables, network if call is None else call
    # Read here: inside, the scope would hide the one in which a caller may have replaced them.
    shared = [(each, tf.convert_to_tensor(each)) for each in network.non_trainable_variables]

    def copy(own: tuple[Nest, list[Tensor]]) -> Nest:
        mapping = [*zip(trainable, own[1], strict=True), *shared]
        with bias_apart(), keras.StatelessScope(state_mapping=mapping):
            return call(own[0])

    return tf.vectorized_map(copy, (inputs, weights))


def _variable(value: Tensor, name: str) -> keras.Variable:
    return keras.Variable(value, trainable=False, name=name)
