"""TPU slices, against what Google's pages and tools say of them (see k8s/tpus.py)."""

from __future__ import annotations

import math

import pytest

from k8s.tpus import slice_of, slices
from rl.errors import UsageError

# name: label, topology, machines, chips of each. Machines are ct4p-hightpu-4t, ct5lp-hightpu-1t, -4t and -8t,
# ct5p-hightpu-4t, ct6e-standard-1t, -4t and -8t; those of eight chips are slices by themselves.
KNOWN = {
    "v4-8": ("tpu-v4-podslice", "2x2x1", 1, 4),
    "v4-16": ("tpu-v4-podslice", "2x2x2", 2, 4),
    "v4-32": ("tpu-v4-podslice", "2x2x4", 4, 4),
    "v4-128": ("tpu-v4-podslice", "4x4x4", 16, 4),
    "v5e-1": ("tpu-v5-lite-podslice", "1x1", 1, 1),
    "v5e-4": ("tpu-v5-lite-podslice", "2x2", 1, 4),
    "v5e-8": ("tpu-v5-lite-podslice", "2x4", 1, 8),
    "v5e-16": ("tpu-v5-lite-podslice", "4x4", 4, 4),
    "v5e-256": ("tpu-v5-lite-podslice", "16x16", 64, 4),
    "v5p-8": ("tpu-v5p-slice", "2x2x1", 1, 4),
    "v5p-16": ("tpu-v5p-slice", "2x2x2", 2, 4),
    "v5p-1024": ("tpu-v5p-slice", "8x8x8", 128, 4),
    "v6e-1": ("tpu-v6e-slice", "1x1", 1, 1),
    "v6e-4": ("tpu-v6e-slice", "2x2", 1, 4),
    "v6e-8": ("tpu-v6e-slice", "2x4", 1, 8),
    "v6e-32": ("tpu-v6e-slice", "4x8", 8, 4),
}


@pytest.mark.parametrize("name", KNOWN)
def test_slice_has_the_machines_that_google_lists(name):
    found = slice_of(name)
    assert (found.accelerator, found.topology, found.hosts, found.chips_per_host) == KNOWN[name]


@pytest.mark.parametrize("name", slices())
def test_number_in_a_name_counts_cores_for_v4_and_v5p_and_chips_else(name):
    found = slice_of(name)
    cores = {"v4": 2, "v5p": 2, "v5e": 1, "v6e": 1}[name.partition("-")[0]]
    chips = math.prod(int(each) for each in found.topology.split("x"))
    assert name.partition("-")[2] == str(chips * cores)
    assert found.hosts * found.chips_per_host == chips


@pytest.mark.parametrize(
    "name, message",
    [
        ("v4-4", "v4 has v4-8, v4-16"),
        ("v4-4", "the number is of TensorCores, two of a chip"),
        ("v5e-2", "v5e has v5e-1, v5e-4, v5e-8"),
        ("v5e", "v5e has v5e-1"),
        ("v6-8", "did you mean v"),
        ("", "known: v4-8"),
    ],
)
def test_unknown_slice_is_told_with_those_that_there_are(name, message):
    with pytest.raises(UsageError) as raised:
        slice_of(name)
    assert message in str(raised.value)
