"""Copies of a runner's state, held to another's."""

from __future__ import annotations

import numpy as np
import pytest


@pytest.fixture
def state_of():
    """All variables of a runner by name, as numpy arrays."""
    return lambda runner: {name: np.array(each.numpy()) for name, each in runner.variables.items()}


@pytest.fixture
def assert_same_bits():
    """Raises at the first variable that differs in name, dtype or a single bit."""

    def check(found, expected):
        assert list(found) == list(expected)
        for name, value in expected.items():
            assert found[name].dtype == value.dtype and found[name].shape == value.shape, name
            assert found[name].tobytes() == value.tobytes(), name

    return check
