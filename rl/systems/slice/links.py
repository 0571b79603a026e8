"""Connections between the machines of a TPU slice: lines of words, and whether the other end still lives."""

from __future__ import annotations

import contextlib
import select
import socket
import time
from collections.abc import Sequence
from typing import Any

BEAT = 5.0  # seconds between two lines that only say "I am there"
SILENCE = 60.0  # seconds without a line after which the other end is lost
_LONGEST = 4096  # bytes of a line
_SEND = 5.0  # seconds that a line may take to leave


class Link:
    """Sends and receives lines of words, at one end of a connection.

    Attributes:
        lost: whether the other end has gone, or says nothing any more.
    """

    def __init__(self, connection: socket.socket):
        connection.settimeout(_SEND)
        self._socket, self._unread = connection, b""
        self._heard = self._said = time.monotonic()
        self._broken = False

    def fileno(self) -> int:
        """Returns the number by which `select` knows the connection."""
        return self._socket.fileno()

    @property
    def lost(self) -> bool:
        return self._broken or time.monotonic() - self._heard > SILENCE

    def say(self, *words: object) -> None:
        """Sends a line; where that fails, the link is lost."""
        self._said = time.monotonic()
        try:
            self._socket.sendall(f"{' '.join(map(str, words))}\n".encode())
        except OSError:
            self._broken = True

    def beat(self) -> None:
        """Sends a sign of life where the last line was sent a while ago."""
        if time.monotonic() - self._said >= BEAT:
            self.say("beat")

    def hear(self) -> list[list[str]]:
        """Returns the words of the lines that have arrived; called where `select` says that some have."""
        try:
            data = self._socket.recv(_LONGEST)
        except OSError:
            data = b""
        self._broken |= not data or len(self._unread) > _LONGEST
        self._heard = time.monotonic()
        *lines, self._unread = (self._unread + data).split(b"\n")
        return [line.decode(errors="replace").split() for line in lines]

    def end(self, *words: object) -> None:
        """Sends a last line and closes, once the other end has read it."""
        self.say(*words)
        # A socket that is closed while something unread is in it takes back what it has sent.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_WR)
            while self._socket.recv(_LONGEST):
                pass
        self.close()

    def close(self) -> None:
        """Closes this process's end."""
        self._socket.close()


def heard(links: Sequence[Link], seconds: float, *others: socket.socket) -> list[tuple[Link, list[str]]]:
    """Returns what the links say within `seconds`, once one of them does, or once `others` are ready."""
    watched: list[Any] = [*links, *others]
    ready = select.select(watched, [], [], seconds)[0]
    return [(link, words) for link in links if link in ready for words in link.hear() if words]
