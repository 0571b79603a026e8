"""A request to stop that comes when a test wants it."""

from __future__ import annotations

import contextlib


class StopAfter:
    """A `StopRequest` that comes once it was looked at a number of times, as a signal would."""

    exit_code = 0
    kept = ""

    def __init__(self, looks=10**9):
        self.left = looks

    @property
    def requested(self):
        self.left -= 1
        return self.left < 0

    def unhurried(self):
        return contextlib.nullcontext()
