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

    def kl(self, other: Any) -> Tensor:
        """Returns KL(self || other) in nats, [N]; other: a distribution of the same kind and shape."""


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

    def kl(self, other: Categorical) -> Tensor:
        return tf.reduce_sum(tf.exp(self.log_probs) * (self.log_probs - other.log_probs), -1)


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

    def kl(self, other: MultiCategorical) -> Tensor:
        return tf.add_n([part.kl(its) for part, its in zip(self.parts, other.parts, strict=True)])


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

    def kl(self, other: Bernoulli) -> Tensor:
        p = tf.sigmoid(self.logits)
        on = tf.math.log_sigmoid(self.logits) - tf.math.log_sigmoid(other.logits)
        off = tf.math.log_sigmoid(-self.logits) - tf.math.log_sigmoid(-other.logits)
        return tf.reduce_sum(p * on + (1.0 - p) * off, -1)


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

    def kl(self, other: DiagonalGaussian) -> Tensor:
        narrower = other.log_std - self.log_std  # [N, K]
        distance = tf.square((self.mean - other.mean) * tf.exp(-other.log_std))
        return tf.reduce_sum(narrower + 0.5 * (tf.exp(-2.0 * narrower) + distance - 1.0), -1)


class Deterministic:
    """One action [N, ...] and no other: sample and mode are it, log_prob and entropy 0.

    `low`, `high`: the action space's bounds where it has them, broadcast against the action; noise that is
    added to the action is measured in, and clipped to, their range.
    """

    def __init__(self, action: Tensor, low: Any = None, high: Any = None):
        self.action, self.low, self.high = action, low, high

    def sample(self, seed: Tensor) -> Tensor:
        return self.action

    def mode(self) -> Tensor:
        return self.action

    def log_prob(self, action: Tensor) -> Tensor:
        return tf.zeros([self.action.shape[0]])

    def entropy(self) -> Tensor:
        return tf.zeros([self.action.shape[0]])

    def kl(self, other: Deterministic) -> Tensor:
        raise NotImplementedError("from one certain action to another the divergence is 0 or infinite")


class TanhGaussian:
    """Independent normals squashed into bounds: low + (high - low) (tanh(u) + 1) / 2 with u normal.

    From mean and log_std [N, K] of u and the bounds [K]; actions are float32 [N, K]. Haarnoja et al. 2018,
    "Soft Actor-Critic", appendix C.
    """

    def __init__(self, mean: Tensor, log_std: Tensor, low: Any = -1.0, high: Any = 1.0):
        self.gaussian = DiagonalGaussian(mean, log_std)
        self.low = tf.constant(low, tf.float32)
        self.half_range = (tf.constant(high, tf.float32) - self.low) * 0.5  # [K]
        self._divisor = tf.where(self.half_range > 0.0, self.half_range, 1.0)  # one action has no density

    def sample(self, seed: Tensor) -> Tensor:
        return self.from_unit(self.unit_sample(seed)[0])

    def mode(self) -> Tensor:
        """Returns the squashed mean, float32 [N, K]: the median in every dimension, and what a policy does
        without exploring."""
        return self.from_unit(tf.tanh(self.gaussian.mean))

    def log_prob(self, action: Tensor) -> Tensor:
        """Returns the log density of actions [N, K], float32 [N]. Where the squashing has rounded an action
        to its bound, it is that of the last float before it; samples have an exact one (`unit_sample`)."""
        unit = (action - self.low) / self._divisor - 1.0
        limit = 1.0 - 6e-8  # the largest float32 below 1
        density = self._unit_log_prob(tf.atanh(tf.clip_by_value(unit, -limit, limit)))
        scale = tf.math.log(self._divisor) + tf.zeros_like(self.gaussian.mean)  # [N, K]
        return density - tf.reduce_sum(scale, -1)

    def entropy(self) -> Tensor:
        raise NotImplementedError("a squashed Gaussian's entropy has no closed form: average -log_prob")

    def kl(self, other: TanhGaussian) -> Tensor:
        """Returns the normals' divergence: squashing both alike changes nothing, within the same bounds."""
        return self.gaussian.kl(other.gaussian)

    def unit_sample(self, seed: Tensor) -> tuple[Tensor, Tensor]:
        """Draws actions before they are scaled to the bounds. Returns tanh(u) [N, K], within [-1, 1], and its
        log density [N], which no rounding of tanh(u) spoils."""
        u = self.gaussian.sample(seed)
        return tf.tanh(u), self._unit_log_prob(u)

    def from_unit(self, unit: Tensor) -> Tensor:
        """Returns actions within the bounds, of actions within [-1, 1], [N, K] both."""
        return self.low + self.half_range * (unit + 1.0)

    def _unit_log_prob(self, u: Tensor) -> Tensor:
        # log(1 - tanh(u)^2), in the form that neither overflows nor cancels (appendix C, equation 21)
        slope = 2.0 * (math.log(2.0) - u - tf.math.softplus(-2.0 * u))  # [N, K]
        return self.gaussian.log_prob(u) - tf.reduce_sum(slope, -1)


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

    def kl(self, other: Shaped) -> Tensor:
        return self.flat.kl(other.flat)

    def _shaped(self, action: Tensor) -> Tensor:
        return tf.reshape(action, [action.shape[0], *self.shape])


def kl_parts(one: Any, other: Any) -> dict[str, Tensor]:
    """Returns KL(one || other) in nats, [N], as "kl"; of normals in two parts, as V-MPO (section 4.2) and MPO
    have it: "kl_mean" to a normal with the other's mean, "kl_std" to one with the other's deviation.

    Both are distributions of the same kind and shape.
    """
    if isinstance(one, Shaped):
        return kl_parts(one.flat, other.flat)
    if not isinstance(one, DiagonalGaussian):
        return {"kl": one.kl(other)}
    return {
        "kl_mean": one.kl(DiagonalGaussian(other.mean, one.log_std)),
        "kl_std": one.kl(DiagonalGaussian(one.mean, other.log_std)),
    }


def of_space(space: Any, parameters: Tensor, log_std: Tensor | None = None) -> Distribution:
    """Returns the distribution over `space` that a head's output [N, `parameter_count(space)`] describes.

    log_std: of a Box's normals, [N, K] or what broadcasts to it; not used for other spaces.
    """
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
    """Returns how many numbers per example a head must give for actions of `space`."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return int(space.n)
    if isinstance(space, spaces.MultiDiscrete):
        return int(space.nvec.sum())
    return int(math.prod(space.shape))
