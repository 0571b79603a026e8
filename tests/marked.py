"""Cases that `make test` leaves to `make test-all`."""

from __future__ import annotations

import pytest


def slow(name, **overrides):
    """The case (named set, overrides)."""
    return pytest.param(name, overrides, marks=pytest.mark.slow)
