"""Sums over learners that are processes, through connections of their own.

TensorFlow's collective operations would need its gRPC servers, which listen on all addresses of a machine and
run whatever anyone sends them. These connections carry arrays alone, between processes that know a secret:
the first learner listens at the address that Ray knows its machine by (loopback where all is on one machine),
adds up what the others send, in the order of their ranks, and sends back the sum. So all have the same bits.
"""

from __future__ import annotations

import contextlib
import secrets
import socket
import struct
import threading
import time
from collections.abc import Iterator
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from typing import NamedTuple

import numpy as np

LIMIT = 600.0  # seconds that another learner may take to come, or to a sum: it may compile before
GREETING = 10.0  # seconds that whoever connects has to show that it knows the secret
_HEAD = struct.Struct("!qq")  # which sum, number of values
_RANK = struct.Struct("!q")


class Meeting(NamedTuple):
    """The address at which the learners connect, and their secret."""

    host: str
    port: int
    secret: bytes


class Door:
    """Accepts the connections of the other learners, for the first one.

    Args:
        host: the address to listen at.
    """

    def __init__(self, host: str):
        self._socket = socket.create_server((host, 0))
        self.meeting = Meeting(host, self._socket.getsockname()[1], secrets.token_bytes(32))

    def admit(self, others: int, seconds: float = LIMIT) -> Reducer:
        """Waits for all other learners and returns the first learner's end; refuses connections without the
        secret.

        Raises:
            TimeoutError: not all came in time.
        """
        end = time.monotonic() + seconds
        found: dict[int, socket.socket] = {}
        with self._socket:
            while len(found) < others:
                self._socket.settimeout(max(end - time.monotonic(), 0.01))
                link = self._socket.accept()[0]
                try:
                    with _greeting(link) as connection:
                        deliver_challenge(connection, self.meeting.secret)
                        answer_challenge(connection, self.meeting.secret)
                    found[_RANK.unpack(_received(link, bytearray(_RANK.size)))[0]] = link
                except (AuthenticationError, EOFError, OSError):
                    link.close()
        return Reducer([found[rank] for rank in sorted(found)], first=True)


def enter(meeting: Meeting, rank: int, seconds: float = LIMIT) -> Reducer:
    """Returns the end of the rank-th learner, counted from 0, which is the first one's.

    Raises:
        OSError: nothing listens there.
        AuthenticationError: what listens there does not know the secret, or knows another.
    """
    link = socket.create_connection((meeting.host, meeting.port), seconds)
    with _greeting(link) as connection:
        answer_challenge(connection, meeting.secret)
        deliver_challenge(connection, meeting.secret)
    link.sendall(_RANK.pack(rank))
    return Reducer([link], first=False)


class Reducer:
    """One learner's end of the connections: to all others for the first, to the first for the others."""

    def __init__(self, links: list[socket.socket], first: bool):
        self._links, self._first = links, first
        self._lock = threading.Lock()
        for each in links:
            _limit(each, LIMIT)
            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def total(self, exchange: int, values: np.ndarray) -> np.ndarray:
        """Returns the sum over all learners, float32 of values' shape, of the values that each of them gives.

        exchange: which sum of the program it is, the same for all.

        Raises:
            ConnectionError: another learner is gone, does not answer, or is at another sum.
        """
        own = np.asarray(values, np.float32, order="C")
        with self._lock:
            try:
                if self._first:
                    summed = own.copy()
                    for each in self._links:
                        summed += self._receive(each, exchange, own)
                    for each in self._links:
                        self._send(each, exchange, summed)
                else:
                    self._send(self._links[0], exchange, own)
                    summed = self._receive(self._links[0], exchange, own)
            except (EOFError, OSError) as error:
                raise ConnectionError(f"another learner is gone ({type(error).__name__})") from error
        return summed

    def close(self) -> None:
        """Closes the connections, so that the other learners' next sum fails."""
        for each in self._links:
            with contextlib.suppress(OSError):
                each.close()

    @staticmethod
    def _send(link: socket.socket, exchange: int, values: np.ndarray) -> None:
        link.sendall(_HEAD.pack(exchange, values.size))
        link.sendall(values.data)

    @staticmethod
    def _receive(link: socket.socket, exchange: int, like: np.ndarray) -> np.ndarray:
        head = _HEAD.unpack(_received(link, bytearray(_HEAD.size)))
        if head != (exchange, like.size):
            raise EOFError(f"it is at sum {head[0]}, not {exchange}")
        found = np.empty_like(like)
        _received(link, found.reshape(-1).view(np.uint8).data)
        return found


@contextlib.contextmanager
def _greeting(link: socket.socket) -> Iterator[Connection]:
    """The connection for the authentication, with a short timeout."""
    link.settimeout(None)  # the system's limit holds for the connection too
    _limit(link, GREETING)
    with Connection(link.dup().detach()) as connection:
        yield connection


def _limit(link: socket.socket, seconds: float) -> None:
    """How long a call may wait for data, or for room: OSError after that."""
    value = struct.pack("ll", int(seconds), 0)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        link.setsockopt(socket.SOL_SOCKET, option, value)


def _received(link: socket.socket, buffer: bytearray | memoryview) -> bytearray | memoryview:
    """Fills the buffer. Raises EOFError where the other end is closed."""
    view = memoryview(buffer)
    while view:
        count = link.recv_into(view)
        if not count:
            raise EOFError
        view = view[count:]
    return buffer
