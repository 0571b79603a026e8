"""How many updates a second the arithmetic of an offline algorithm leaves room for on this machine.

Counts the multiplications and additions in the products of dense layers that one update cannot do without,
by the papers' losses: 2 for each weight and row going forward, as many for the gradient of the weights, as
many for the gradient of a layer's inputs. Everything else (activations, Adam, copies of targets) counts as
nothing, so the bound is above what can be reached.

    python benchmarks/arithmetic.py      # operations/s of the fastest product of two large matrices, here
"""

from __future__ import annotations

import itertools
import time
from typing import NamedTuple

import numpy as np
import shared


class Dense(NamedTuple):
    """A network of dense layers: sizes of its input, of the layers between, and of its output."""

    sizes: tuple[int, ...]

    def forward(self, rows: int) -> int:
        """Operations of one pass."""
        return 2 * rows * sum(one * following for one, following in itertools.pairwise(self.sizes))

    def trained(self, rows: int) -> int:
        """Operations of a pass, and of the gradient of all weights; the input's is not asked for."""
        first = 2 * rows * self.sizes[0] * self.sizes[1]
        return 3 * self.forward(rows) - first

    def climbed(self, rows: int, wanted: int) -> int:
        """Operations of a pass, and of the gradient of the last `wanted` numbers of the input alone."""
        first = 2 * rows * self.sizes[0] * self.sizes[1]
        return 2 * self.forward(rows) - first + 2 * rows * wanted * self.sizes[1]


SAMPLED = 30  # actions by which CQL estimates a sum, ten of each kind


def of_update(algo: str, observation: int, action: int) -> float:
    """Operations of one update of a named set of MuJoCo's tasks, whose observations and actions are vectors
    of so many numbers. Raises KeyError for another algorithm."""
    depth, rows = {"td3_bc": (2, 256), "iql": (2, 256), "rebrac": (3, 1024), "cql": (3, 256)}[algo]
    hidden = (256,) * depth
    actor = Dense((observation, *hidden, 2 * action if algo == "cql" else action))
    critic = Dense((observation + action, *hidden, 1))
    targets = 2 * critic.forward(rows)
    if algo == "iql":  # the value's step, the critics', the policy's, which asks no critic again
        value = Dense((observation, *hidden, 1))
        values = value.trained(rows) + value.forward(rows)
        return targets + values + 2 * critic.trained(rows) + actor.trained(rows)
    if algo == "cql":
        critics = actor.forward(rows) + targets + 2 * critic.trained((1 + SAMPLED) * rows)
        return critics + actor.trained(rows) + 2 * critic.climbed(rows, action)
    climbed = critic.climbed(rows, action) * (2 if algo == "rebrac" else 1)
    policy = (actor.trained(rows) + climbed) / 2  # every second update
    return actor.forward(rows) + targets + 2 * critic.trained(rows) + policy


def peak(size: int = 1536, seconds: float = 1.5) -> float:
    """Measures operations/s of the fastest of several products of two large matrices, by NumPy's BLAS with
    all cores that this process may use."""
    left, right = np.ones([size, size], np.float32), np.ones([size, size], np.float32)
    ended, best = time.perf_counter() + seconds, np.inf
    while best == np.inf or time.perf_counter() < ended:
        begun = time.perf_counter()
        left @ right
        best = min(best, time.perf_counter() - begun)
    return 2.0 * size**3 / best


def main() -> None:
    shared.parser(__doc__).parse_args()
    print(peak())


if __name__ == "__main__":
    shared.answer(main)
