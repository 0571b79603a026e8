"""Reward augmentation by name: what training adds to or does with a reward. Evaluation never uses it.

Every augmentation has the signature

    (observation, action, reward, next_observation, terminated, gamma) -> reward

and works elementwise on whole trajectories, numpy arrays or tensors: observations [..., n], the others [...]
([T, B], [B]); `terminated` bool, `gamma` the discount, reward float32. Where an episode was reset the result
means nothing, as the reward there means nothing.

Potential-based shaping, F = gamma * phi(s') - phi(s), leaves the optimal policy as it is (Ng, Harada and
Russell, "Policy Invariance Under Reward Transformations", 1999) provided that phi of a terminal state is 0
(Grzes, "Reward Shaping in Episodic Reinforcement Learning", 2017). A truncated episode goes on, so its last
state keeps its phi.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rl.errors import UsageError, nearest
from rl.types import Tensor

RewardAugmentation = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, float], Tensor]

HEIGHT_WEIGHT = 10.0
ENERGY_WEIGHT = 5000.0


def get_reward_augmentation(name: str) -> RewardAugmentation:
    """Returns the function of that name; `scale:FACTOR` takes a number.

    Raises:
        UsageError: no such name, or a factor that is missing, superfluous or no number.
    """
    base, colon, argument = name.partition(":")
    if base == "scale":
        return functools.partial(scale, _factor(name, argument))
    if base not in AUGMENTATIONS or colon:
        known = [*AUGMENTATIONS, "scale:FACTOR"]
        raise UsageError(f"unknown reward_augmentation {name!r}: {nearest(name, known)}")
    return AUGMENTATIONS[base]


def clip_sign(observation: Tensor, action: Tensor, reward: Tensor, *others: Any) -> Tensor:
    """Returns the sign of the reward, -1, 0 or 1 (Mnih et al., "Human-level control ...", 2015)."""
    return _maths(reward).sign(reward)


def scale(factor: float, observation: Tensor, action: Tensor, reward: Tensor, *others: Any) -> Tensor:
    """Returns the reward times a factor."""
    return factor * reward


def shaped(
    potential: Callable[[Tensor], Tensor],
    observation: Tensor,
    action: Tensor,
    reward: Tensor,
    next_observation: Tensor,
    terminated: Tensor,
    gamma: float,
) -> Tensor:
    """Returns the reward shaped by a potential, phi, of observations."""
    maths = _maths(reward)
    after = potential(next_observation)
    after = maths.where(terminated, maths.zeros_like(after), after)
    return reward + gamma * after - potential(observation)


def height_and_speed(state: Tensor) -> Tensor:
    """Computes a potential for MountainCar, distance from the bottom of the valley and speed: [...] of states
    [..., 2].

    phi = 10 (|position + pi/6| + 10 |velocity|), from 0 at rest at the bottom to about 18.
    """
    position, velocity = state[..., 0], state[..., 1]
    return HEIGHT_WEIGHT * (abs(position + math.pi / 6) + 10.0 * abs(velocity))


def energy(state: Tensor) -> Tensor:
    """Computes a potential for MountainCar, its mechanical energy, which no unforced step changes: [...] of
    states [..., 2].

    The car's velocity falls by 0.0025 cos(3 position) a step, so that its energy is velocity^2 / 2 +
    0.0025 sin(3 position) / 3; phi is 5000 times the energy above that at the bottom of the valley: 0 at rest
    there, 8.3 at rest at the top.
    """
    position, velocity = state[..., 0], state[..., 1]
    height = 1.0 + _maths(position).sin(3.0 * position)
    return ENERGY_WEIGHT * (0.5 * velocity * velocity + 0.0025 / 3.0 * height)


def _maths(value: Any) -> Any:
    """Returns the module whose functions fit `value`: numpy, or TensorFlow, imported only where it is in
    use."""
    if isinstance(value, (np.ndarray, np.generic, float)):
        return np
    import tensorflow as tf

    return tf


def _factor(name: str, argument: str) -> float:
    try:
        factor = float(argument)
    except ValueError:
        factor = math.nan
    if not math.isfinite(factor):
        raise UsageError(f"reward_augmentation {name!r} needs a factor, such as scale:0.1")
    return factor


AUGMENTATIONS: dict[str, RewardAugmentation] = {
    "clip_sign": clip_sign,
    "mountain_car_default": functools.partial(shaped, height_and_speed),
    "mountain_car_energy": functools.partial(shaped, energy),
}
