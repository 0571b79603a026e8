"""Action distributions: what a policy head parameterises and `act_select` samples.

They live inside one traced function and never cross its border, so plain Python objects will do.
Every method returns one float32 per example, `[N]`, unless it says otherwise.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import tensorflow as tf

from rl.ops import random
from rl.types import Nest, Tensor


class Distribution(Protocol):
    """What every action distribution offers."""

    def sample(self, seed: Tensor) -> Nest: ...

    def mode(self) -> Nest: ...

    def log_prob(self, action: Nest) -> Tensor: ...

    def entropy(self) -> Tensor: ...


class Categorical:
    """Over A actions, from logits [N, A]. Actions are int32 [N]."""

    def __init__(self, logits: Tensor):
        self.logits = logits
        self.log_probs = tf.nn.log_softmax(logits)  # [N, A]

    def sample(self, seed: Tensor) -> Tensor:
        noise = random.gumbel(seed, self.logits.shape)
        return tf.argmax(self.logits + noise, -1, output_type=tf.int32)

    def mode(self) -> Tensor:
        return tf.argmax(self.logits, -1, output_type=tf.int32)

    def log_prob(self, action: Tensor) -> Tensor:
        return tf.reduce_sum(self.log_probs * tf.one_hot(action, self.logits.shape[-1]), -1)

    def entropy(self) -> Tensor:
        return -tf.reduce_sum(tf.exp(self.log_probs) * self.log_probs, -1)


class MultiCategorical:
    """Independent categoricals, from logits [N, sum(sizes)]. Actions are int32 [N, len(sizes)]."""

    def __init__(self, logits: Tensor, sizes: list[int]):
        self.parts = [Categorical(part) for part in tf.split(logits, sizes, axis=-1)]

    def sample(self, seed: Tensor) -> Tensor:
        seeds = random.split(seed, len(self.parts))
        return tf.stack([part.sample(each) for part, each in zip(self.parts, seeds, strict=True)], -1)

    def mode(self) -> Tensor:
        return tf.stack([part.mode() for part in self.parts], -1)

    def log_prob(self, action: Tensor) -> Tensor:
        return tf.add_n([part.log_prob(action[:, i]) for i, part in enumerate(self.parts)])

    def entropy(self) -> Tensor:
        return tf.add_n([part.entropy() for part in self.parts])


class Bernoulli:
    """Independent coins, from logits [N, K]: the action of a MultiBinary space, int32 [N, K]."""

    def __init__(self, logits: Tensor):
        self.logits = logits

    def sample(self, seed: Tensor) -> Tensor:
        return tf.cast(random.uniform(seed, self.logits.shape) < tf.sigmoid(self.logits), tf.int32)

    def mode(self) -> Tensor:
        return tf.cast(self.logits > 0.0, tf.int32)

    def log_prob(self, action: Tensor) -> Tensor:
        signed = tf.where(tf.cast(action, tf.bool), self.logits, -self.logits)
        return tf.reduce_sum(tf.math.log_sigmoid(signed), -1)

    def entropy(self) -> Tensor:
        p = tf.sigmoid(self.logits)
        nats = p * tf.math.log_sigmoid(self.logits) + (1.0 - p) * tf.math.log_sigmoid(-self.logits)
        return -tf.reduce_sum(nats, -1)


class DiagonalGaussian:
    """Independent normals, from mean and log_std [N, K] (or log_std [K]). Actions are float32 [N, K]."""

    def __init__(self, mean: Tensor, log_std: Tensor):
        self.mean = mean
        self.log_std = log_std + tf.zeros_like(mean)

    def sample(self, seed: Tensor) -> Tensor:
        return self.mean + tf.exp(self.log_std) * random.normal(seed, self.mean.shape)

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, action: Tensor) -> Tensor:
        z = (action - self.mean) * tf.exp(-self.log_std)
        return tf.reduce_sum(-0.5 * tf.square(z) - self.log_std - 0.5 * math.log(2.0 * math.pi), -1)

    def entropy(self) -> Tensor:
        return tf.reduce_sum(self.log_std + 0.5 * math.log(2.0 * math.pi * math.e), -1)


class Shaped:
    """A distribution over [N, K] for actions of another shape, [N, *shape]."""

    def __init__(self, flat: Distribution, shape: tuple[int, ...]):
        self.flat, self.shape = flat, shape

    def sample(self, seed: Tensor) -> Tensor:
        return self._shaped(self.flat.sample(seed))

    def mode(self) -> Tensor:
        return self._shaped(self.flat.mode())

    def log_prob(self, action: Tensor) -> Tensor:
        return self.flat.log_prob(tf.reshape(action, [action.shape[0], math.prod(self.shape)]))

    def entropy(self) -> Tensor:
        return self.flat.entropy()

    def _shaped(self, action: Tensor) -> Tensor:
        return tf.reshape(action, [action.shape[0], *self.shape])


def of_space(space: Any, parameters: Tensor, log_std: Tensor | None = None) -> Distribution:
    """The distribution over `space` that a head's output [N, `parameter_count(space)`] describes."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return Categorical(parameters)
    found: Distribution
    if isinstance(space, spaces.MultiDiscrete):
        found = MultiCategorical(parameters, [int(n) for n in space.nvec.reshape(-1)])
    elif isinstance(space, spaces.MultiBinary):
        found = Bernoulli(parameters)
    else:
        found = DiagonalGaussian(parameters, log_std)
    return found if len(space.shape) == 1 else Shaped(found, space.shape)


def parameter_count(space: Any) -> int:
    """How many numbers per example a head must give for actions of `space`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    size = 1
    for each in space.shape:
        size *= int(each)
    return size
