"""From which seed each random number of a run is drawn: the whole protocol, for runners, workers and buffers.

A seed is folded from (run seed, iteration, purpose), never from what was drawn before. So a restored run
goes on with the numbers that it would have drawn. Learners on several devices share the seeds of what they
must do alike (updates, noise of networks), and have their own for what they play and sample.
"""

from __future__ import annotations

from typing import Any

from rl.ops import random
from rl.parallel import replicas
from rl.types import Tensor


def first_seed(root: Tensor, device: int = 0) -> Tensor:
    """Returns the seed of a device's initial in-graph environments; in other runs, of the first noise."""
    seed = random.fold_in(root, 0)
    return random.fold_in(seed, device) if device else seed


def iteration_seeds(root: Tensor, number: Any) -> list[Tensor]:
    """Returns the seeds of iteration `number`, from 0: [acting, learning]. Outside in-graph runs the first
    one is for the noise of the next rollout."""
    return random.split(random.fold_in(root, number + 1), 2)


def rollout_seeds(seed: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Returns the seeds of an in-graph rollout: (noise, steps, fresh episodes). All learners share the
    first."""
    noise, steps = random.split(seed, 2)
    return noise, _of_this_learner(steps), _of_this_learner(random.fold_in(seed, 2))


def update_seeds(seed: Tensor, i: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the seeds of an iteration's i-th update: (sampling, update). All learners share the second."""
    sample, update = random.split(random.fold_in(seed, i), 2)
    return _of_this_learner(sample), update


def buffer_seed(root: Tensor, number: Tensor, i: Tensor) -> Tensor:
    """Returns the seed of the i-th batch of a buffer's `number`-th draw."""
    return random.fold_in(random.fold_in(root, number), i)


def _of_this_learner(seed: Tensor) -> Tensor:
    return seed if replicas.count() == 1 else random.fold_in(seed, replicas.rank())
