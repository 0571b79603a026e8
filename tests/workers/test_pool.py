"""Workers that die, hang or fail, and who takes their place."""

from __future__ import annotations

import os
import signal
import time

import pytest

from rl.errors import EnvironmentFailed, Stopped, Unavailable, UsageError
from rl.workers import pool as pools
from rl.workers.pool import WorkerPool
from rl.workers.worker import Rollout


class Scripted:
    """A worker without environments: does what its script says, one word a rollout; then it is well."""

    def __init__(self, index, incarnation, script):
        self.index, self.incarnation, self.made = index, incarnation, 0
        self.script = script if incarnation == 0 else ()

    def rollout(self, iteration=None):
        word = self.script[self.made] if self.made < len(self.script) else "well"
        self.made += 1
        if word == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if word == "hang":
            time.sleep(600)
        if word == "nap":
            time.sleep(1.0)
        if word == "fail":
            raise ValueError("the environment broke")
        if word == "faulty":
            raise EnvironmentFailed("CartPole-v1: it is gone")
        if word == "refuse":
            raise UsageError("there is no such environment")
        number = self.made if iteration is None else iteration
        return Rollout(self.index, [], number, {"incarnation": self.incarnation, "made": self.made})


@pytest.fixture
def pool_of(ray_here, monkeypatch):
    """A pool whose workers follow scripts."""
    monkeypatch.setattr(pools, "STARTUP", 20.0)
    monkeypatch.setattr(pools, "POLL", 0.05)
    made = []

    def make(*scripts, timeout=60.0, every=False, wake=bool):
        actor = ray_here.remote(Scripted).options(num_cpus=0)

        def worker(index, incarnation):
            return actor.remote(index, 0 if every else incarnation, scripts[index])

        made.append(WorkerPool(worker, len(scripts), timeout, wake))
        return made[-1]

    yield make
    for each in made:
        each.close()


def test_rollouts_come_from_all_workers_in_each_one_s_order(pool_of):
    pool = pool_of((), (), ())
    found = []
    while {each.worker for each in found} != {0, 1, 2}:  # the first to start is ahead
        found.append(pool.next())
    found += [pool.next() for _ in range(60)]
    for worker in range(3):
        numbers = [each.version for each in found if each.worker == worker]
        assert numbers == list(range(1, len(numbers) + 1))
        assert any(each.worker == worker for each in found[-60:])
    assert pool.counts == (0, 0) and pool.playing == 3


@pytest.mark.slow
@pytest.mark.parametrize("parts", [1, 2])
def test_where_all_have_something_ready_each_has_its_turn(pool_of, parts):
    pool = pool_of((), (), (), ())
    while pool.playing < 4:
        for part in range(parts):
            pool.next(part, parts)
    found = []
    for _ in range(24 // parts):
        time.sleep(0.1)  # a learner that is slower than all of them
        found += [pool.next(part, parts).worker for part in range(parts)]
    assert all(found.count(worker) == 6 for worker in range(4)), found


def test_all_that_has_come_is_taken_before_the_next_look(pool_of, ray_here, monkeypatch):
    pool, looks = pool_of((), (), ()), []
    while pool.playing < 3:
        pool.next()
    look = pool._ready
    monkeypatch.setattr(pool, "_ready", lambda slots: looks.append(look(slots)) or looks[-1])
    pool._arrived.clear()
    ray_here.wait([slot.pending[0] for slot in pool._slots], num_returns=3, timeout=60.0)
    assert {pool.next().worker for _ in range(3)} == {0, 1, 2}
    assert [len(found) for found in looks] == [3]


def test_who_waits_for_all_may_leave_and_come_back_and_what_has_come_is_kept(pool_of):
    def wake():
        raise Stopped

    pool, left = pool_of((), ("nap",), wake=wake), 0
    while True:
        try:
            found = pool.gather(7)
            break
        except Stopped:
            left += 1
    assert left > 0
    assert [(each.worker, each.version, each.sums["made"]) for each in found] == [(0, 7, 1), (1, 7, 1)]
    assert pool.counts == (0, 0) and not pool._gathered


@pytest.mark.parametrize("word", ["die", pytest.param("fail", marks=pytest.mark.slow)])
def test_a_worker_that_ends_is_replaced_and_what_it_had_on_order_is_counted(pool_of, word):
    pool = pool_of((*["well"] * 5, word), ())
    found = [pool.next()]
    while (0, 1) not in {(each.worker, each.sums["incarnation"]) for each in found}:
        found.append(pool.next())
    assert {each.sums["incarnation"] for each in found if each.worker == 0} == {0, 1}
    assert {each.sums["incarnation"] for each in found if each.worker == 1} == {0}
    assert pool.counts == (1, 2)


@pytest.mark.slow
def test_a_worker_that_hangs_is_replaced_though_it_is_the_only_one(pool_of):
    pool = pool_of(("well", "hang"), timeout=1.0)
    assert [pool.next().sums["incarnation"] for _ in range(2)] == [0, 1]
    assert pool.counts == (1, 2)


def test_a_worker_that_hangs_is_replaced_while_others_go_on(pool_of):
    pool = pool_of(("well", "hang"), (), timeout=1.0)
    deadline = time.monotonic() + 60.0
    while pool.counts.replaced == 0 and time.monotonic() < deadline:
        pool.next()
        time.sleep(0.02)
    assert pool.counts.replaced == 1
    while pool.next().sums["incarnation"] == 0:
        assert time.monotonic() < deadline


@pytest.mark.slow
def test_workers_that_had_to_wait_for_another_role_get_their_time_anew(pool_of):
    looks = []
    pool = pool_of(
        ("well", "hang"), timeout=1.0, wake=lambda: looks.append(time.monotonic()) or len(looks) < 40
    )
    assert [pool.next().sums["incarnation"] for _ in range(2)] == [0, 1]
    assert looks[-1] - looks[39] > 0.5  # late from when it was no longer for another reason


@pytest.mark.slow
def test_workers_that_waited_for_a_busy_learner_are_not_taken_to_hang(pool_of):
    pool = pool_of((), (), timeout=1.0)
    while {pool.next().worker, pool.next().worker} != {0, 1}:
        pass
    time.sleep(3.0)  # an evaluation, say
    for _ in range(20):
        pool.next()
    assert pool.counts == (0, 0)


@pytest.mark.slow
def test_workers_that_always_fail_end_the_run_with_one_line(pool_of):
    pool = pool_of(("fail",), every=True)
    with pytest.raises(UsageError, match="workers fail one after another; the last one failed") as error:
        pool.next()
    assert type(error.value) is UsageError


@pytest.mark.slow
def test_workers_that_are_always_lost_end_the_run_as_may_pass(pool_of):
    pool = pool_of(("die",), every=True)
    with pytest.raises(Unavailable, match="workers fail one after another; the last one was lost"):
        pool.next()


@pytest.mark.slow
def test_environments_that_always_fail_end_the_run_for_that(pool_of):
    pool = pool_of(("faulty",), every=True)
    with pytest.raises(EnvironmentFailed, match=r"^CartPole-v1: it is gone$"):
        pool.next()


def test_what_the_user_got_wrong_is_said_as_it_is(pool_of):
    with pytest.raises(UsageError, match=r"^there is no such environment$"):
        pool_of(("refuse",)).next()


@pytest.mark.slow
def test_gathered_rollouts_are_one_of_each_worker_in_their_order(pool_of):
    pool = pool_of((), ("well", "die"), ())
    for iteration in range(4):
        found = pool.gather(iteration)
        assert [(each.worker, each.version) for each in found] == [(i, iteration) for i in range(3)]
    assert pool.counts == (1, 1)
