"""TPU slices of Google Kubernetes Engine: `v5e-4` becomes node labels, hosts and chips.

Accelerator labels, topologies and chips of a machine are those of Google's xpk, which makes such node pools
(https://github.com/AI-Hypercomputer/xpk, src/xpk/core/system_characteristics.py); that eight chips of v5e
and v6e are one machine (ct5lp-hightpu-8t, ct6e-standard-8t), of the pages on the types
(https://cloud.google.com/tpu/docs/v5e) and "Plan TPUs in GKE"
(https://cloud.google.com/kubernetes-engine/docs/concepts/plan-tpus), which lists what is offered today.

Names are Google's own. They count chips for v5e and v6e, but TensorCores for v4 and v5p, of which a chip has
two: v4-8 and v5p-8 are four chips. A topology is written in chips everywhere.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from rl.errors import UsageError, nearest

ACCELERATOR = "cloud.google.com/gke-tpu-accelerator"
TOPOLOGY = "cloud.google.com/gke-tpu-topology"
RESOURCE = "google.com/tpu"
_PLANES = ("1x1", "2x2", "2x4", "4x4", "4x8", "8x8", "8x16", "16x16")
_CUBES = ("2x2x1", "2x2x2", "2x2x4", "2x4x4", "4x4x4", "4x4x8", "4x8x8", "8x8x8", "8x8x16", "8x16x16")


class Generation(NamedTuple):
    """Holds what all slices of one type of TPU share."""

    accelerator: str  # value of the node label ACCELERATOR
    cores_per_chip: int
    topologies: tuple[str, ...]
    largest_host: int  # chips of the largest machine that is a slice by itself
    part_of_slice: int  # chips of each machine of a slice of several


GENERATIONS = {
    "v4": Generation("tpu-v4-podslice", 2, _CUBES, 4, 4),
    "v5e": Generation("tpu-v5-lite-podslice", 1, _PLANES, 8, 4),
    "v5p": Generation("tpu-v5p-slice", 2, _CUBES, 4, 4),
    "v6e": Generation("tpu-v6e-slice", 1, _PLANES, 8, 4),
}


class Slice(NamedTuple):
    """Describes connected chips, and the machines that hold them."""

    name: str
    accelerator: str
    topology: str
    chips: int
    hosts: int

    @property
    def chips_per_host(self) -> int:
        return self.chips // self.hosts

    @property
    def node_labels(self) -> dict[str, str]:
        """Returns what a node of this slice is labelled with."""
        return {ACCELERATOR: self.accelerator, TOPOLOGY: self.topology}


def slices() -> dict[str, Slice]:
    """Returns all slices by name."""
    known = {}
    for generation, shared in GENERATIONS.items():
        for topology in shared.topologies:
            chips = math.prod(map(int, topology.split("x")))
            hosts = 1 if chips <= shared.largest_host else chips // shared.part_of_slice
            name = f"{generation}-{chips * shared.cores_per_chip}"
            known[name] = Slice(name, shared.accelerator, topology, chips, hosts)
    return known


def slice_of(name: str) -> Slice:
    """Returns the slice called `name`. Raises UsageError where there is none."""
    known = slices()
    if name in known:
        return known[name]
    generation = name.partition("-")[0]
    if generation in GENERATIONS:
        sizes = ", ".join(each for each in known if each.startswith(f"{generation}-"))
        what = "TensorCores, two of a chip" if GENERATIONS[generation].cores_per_chip == 2 else "chips"
        raise UsageError(f"unknown --tpu {name!r}: {generation} has {sizes} (the number is of {what})")
    hint = nearest(name, known) if "-" in name else f"known: {', '.join(known)}"
    raise UsageError(f"unknown --tpu {name!r}: {hint} (TYPE-NUMBER; types: {', '.join(GENERATIONS)})")
