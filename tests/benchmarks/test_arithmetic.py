"""How many operations an update takes, worked by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.append(str(Path(__file__).resolve().parents[2] / "benchmarks"))

import arithmetic


def test_a_network_takes_two_operations_for_each_weight_row_and_direction():
    network = arithmetic.Dense((3, 4, 2))  # 12 and 8 weights
    assert network.forward(10) == 2 * 10 * 20
    assert network.trained(10) == 2 * 10 * (20 + 20 + 8)  # forward, by weights, by the hidden layer
    assert network.climbed(10, 1) == 2 * 10 * (20 + 8 + 4)  # forward, by the hidden layer, by one input


def test_an_update_takes_what_its_losses_ask_for():
    # Hopper: 11 numbers of an observation, 3 of an action. Weights by 1,000: actor 69.12, critic 69.376.
    actor, critic, into, out_of = 11 * 256 + 65_536 + 3 * 256, 14 * 256 + 65_536 + 256, 14 * 256, 11 * 256
    critics = actor + 2 * critic + 2 * (3 * critic - into)
    policy = (3 * actor - out_of + 2 * critic - into + 3 * 256) / 2
    assert arithmetic.of_update("td3_bc", 11, 3) == 2 * 256 * (critics + policy)
    assert arithmetic.of_update("cql", 11, 3) > 62 * arithmetic.Dense((14, 256, 256, 256, 1)).forward(256)
    with pytest.raises(KeyError):
        arithmetic.of_update("bc", 11, 3)


def test_the_peak_is_of_this_machine():
    assert 1e6 < arithmetic.peak(64, 0.0) < arithmetic.peak(1024, 0.2) * 100 < 1e16
