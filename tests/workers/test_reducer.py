"""Sums over learners: the same for all, of those alone who know the secret, an error where one is gone."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import AuthenticationError

import numpy as np
import pytest

from rl.workers import reducer
from rl.workers.reducer import Door, enter


@pytest.fixture
def learners():
    """Makes the ends of a number of learners, by rank."""
    pool, made = ThreadPoolExecutor(4), []

    def make(count):
        door = Door("127.0.0.1")
        others = [pool.submit(enter, door.meeting, rank) for rank in reversed(range(1, count))]
        made.extend([door.admit(count - 1, 60.0), *(each.result(60) for each in reversed(others))])
        return made

    make.pool = pool
    yield make
    for each in made:
        each.close()
    pool.shutdown()


def totals(pool, ends, exchanges, values):
    calls = zip(ends, exchanges, values, strict=True)
    futures = [pool.submit(end.total, exchange, each) for end, exchange, each in calls]
    return [future.result(60) for future in futures]


def test_all_get_the_same_sum_in_the_order_of_their_ranks(learners):
    ends = learners(3)
    # In float32 the order decides: (1e8 + 3) - 1e8 is 0 or 8 where 3 + (1e8 - 1e8) is 3.
    values = [np.array([[1e8, 1.0]]), np.array([[3.0, 2.0]]), np.array([[-1e8, 4.0]])]
    values = [each.astype(np.float32) for each in values]
    expected = (values[0] + values[1]) + values[2]
    for exchange in (1, 2):
        for found in totals(learners.pool, ends, [exchange] * 3, values):
            assert found.dtype == np.float32
            np.testing.assert_array_equal(found, expected)
    numbers = [np.array(each, np.float32) for each in (1.0, 2.0, 4.0)]
    for found in totals(learners.pool, ends, [4] * 3, numbers):
        assert (found.shape, float(found)) == ((), 7.0)
    large = [np.full(300_000, rank, np.float32) for rank in range(3)]  # more than a socket holds
    assert all((found == 3.0).all() for found in totals(learners.pool, ends, [3] * 3, large))


def test_strangers_are_turned_away(monkeypatch):
    monkeypatch.setattr(reducer, "GREETING", 1.0)
    with ThreadPoolExecutor(2) as pool:
        door = Door("127.0.0.1")
        admitted = pool.submit(door.admit, 1, 60.0)
        silent = socket.create_connection((door.meeting.host, door.meeting.port))
        with pytest.raises((AuthenticationError, EOFError, OSError)):
            enter(door.meeting._replace(secret=b"guessed"), 1)
        other = pool.submit(enter, door.meeting, 1)
        ends = [admitted.result(60), other.result(60)]
        found = totals(pool, ends, [1, 1], [np.ones(2, np.float32)] * 2)
        assert [each.tolist() for each in found] == [[2.0, 2.0]] * 2
        silent.close()
        for each in ends:
            each.close()


def test_whoever_does_not_come_is_not_waited_for_for_ever():
    with pytest.raises(TimeoutError):
        Door("127.0.0.1").admit(1, 0.1)


def test_a_learner_that_is_gone_or_silent_or_at_another_sum_is_an_error(learners, monkeypatch):
    monkeypatch.setattr(reducer, "LIMIT", 1.0)
    ends = learners(2)
    with pytest.raises(ConnectionError, match="another learner is gone"):
        ends[0].total(1, np.ones(2, np.float32))  # the other one is silent
    ends = learners(2)[-2:]
    with pytest.raises(ConnectionError, match="another learner is gone"):
        totals(learners.pool, ends, [1, 2], [np.ones(2, np.float32)] * 2)
    ends = learners(2)[-2:]
    ends[1].close()
    with pytest.raises(ConnectionError, match="another learner is gone"):
        ends[0].total(1, np.ones(2, np.float32))
