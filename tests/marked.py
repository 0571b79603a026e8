"""Cases that `make test` leaves to `make test-all`."""

from __future__ import annotations

import pytest


def slow(name, **overrides):
    """The case (named set, overrides)."""
    return pytest.param(name, overrides, marks=pytest.mark.slow)


def few(cases, quick):
    """All of some cases of one argument, of which those in `quick` stay in `make test`."""
    return [each if each in quick else pytest.param(each, marks=pytest.mark.slow) for each in cases]


def rest(*cases):
    """Further cases of a test, each its argument or a tuple of several."""
    cases = (each if isinstance(each, tuple) else (each,) for each in cases)
    return [pytest.param(*each, marks=pytest.mark.slow) for each in cases]
