"""A request to stop that comes when a test wants it."""

from __future__ import annotations


class StopAfter:
    """A `StopRequest` that comes after some windows, as a signal would."""

    exit_code = 0

    def __init__(self, windows=10**9):
        self.left = windows

    @property
    def requested(self):
        self.left -= 1
        return self.left < 0
