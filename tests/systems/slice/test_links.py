"""Lines between machines arrive whole, and an end that is gone is found out."""

from __future__ import annotations

import socket
import threading

import pytest

from rl.systems.slice import links
from rl.systems.slice.links import Link, heard


@pytest.fixture
def pair():
    """Both ends of a connection."""
    with socket.create_server(("127.0.0.1", 0)) as door:
        one = socket.create_connection(door.getsockname())
        other = door.accept()[0]
    ends = Link(one), Link(other)
    yield ends
    for end in ends:
        end.close()


def words_of(link):
    return [words for _, words in heard([link], 10.0)]


def test_lines_that_arrive_in_parts_are_heard_whole(pair):
    one, other = pair
    one._socket.sendall(b"hello 1 84")
    assert words_of(other) == []
    one._socket.sendall(b"70\nstop\nend")
    assert words_of(other) == [["hello", "1", "8470"], ["stop"]]
    one.say("", 143)
    assert words_of(other) == [["end", "143"]]


def test_the_last_line_arrives_although_something_was_left_unread(pair):
    one, other = pair
    for _ in range(100):
        other.say("beat")
    ending = threading.Thread(target=one.end, args=("end", 2))
    ending.start()
    assert words_of(other) == [["end", "2"]]
    other.close()
    ending.join(10.0)
    assert not ending.is_alive()


def test_an_end_that_closes_is_lost(pair):
    one, other = pair
    assert not other.lost
    one.close()
    assert words_of(other) == [] and other.lost


def test_an_end_that_says_nothing_any_more_is_lost(pair, monkeypatch):
    one, other = pair
    now = [links.time.monotonic()]
    monkeypatch.setattr(links.time, "monotonic", lambda: now[0])
    now[0] += links.BEAT
    one.beat()
    one.beat()  # a moment ago it spoke
    assert words_of(other) == [["beat"]] and not other.lost
    now[0] += links.SILENCE + 1.0
    assert other.lost


def test_a_line_without_end_is_not_kept(pair):
    one, other = pair
    one._socket.sendall(b"x" * 3 * links._LONGEST)
    for _ in range(3):
        words_of(other)
    assert other.lost
