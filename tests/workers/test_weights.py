"""How weights reach workers: what is sent along, what is not, and what if nobody hands them out."""

from __future__ import annotations

import os
import signal

import numpy as np
import pytest

from rl.workers.plan import Workers
from rl.workers.weights import SMALL, Version, Weights

pytest.importorskip("ray")


def test_small_weights_are_sent_themselves():
    flat = np.arange(SMALL // 4, dtype=np.float32)
    version = Version.of(3, 96, flat)
    assert (version.number, version.step) == (3, 96)
    assert version.flat is flat and version.weights() is flat


def test_large_weights_are_sent_as_a_reference(monkeypatch):
    import ray

    monkeypatch.setattr(ray, "put", lambda value: ("stored", value))
    monkeypatch.setattr(ray, "get", lambda reference: reference[1])
    flat = np.zeros(SMALL // 4 + 1, np.float32)
    version = Version.of(3, 96, flat)
    assert version.flat == [("stored", flat)]
    assert version.weights() is flat


def test_a_worker_that_has_the_newest_gets_its_number_alone():
    weights = Weights()
    assert weights.newest() is None and weights.newest(7) is None  # as after a restart
    first, second = (Version.of(number, 0, np.zeros(3, np.float32)) for number in (0, 1))
    weights.publish(first)
    assert weights.newest() is first
    assert weights.newest(0) == 0
    weights.publish(second)
    assert weights.newest(0) is second
    assert weights.newest(5) is second  # a learner that was started again counts from its checkpoint


@pytest.mark.slow
def test_a_role_that_does_not_answer_is_named_and_replaced_and_workers_are_not(build, ray_here, caplog):
    """Its process is there, so Ray does not start it again."""
    runner = build("ppo", env="CartPole-v1", workers=Workers(2), num_envs=2, rollout_length=8)
    runner.run(2)
    publisher = runner._publisher
    publisher.tend()
    ray_here.get(publisher._answer)
    publisher.tend()  # it has seen the answer
    publisher._timeout = 1.0
    os.kill(ray_here.get(publisher.role.__ray_call__.remote(lambda self: os.getpid())), signal.SIGSTOP)
    sums = runner.run(10)  # more than what is on order
    assert sums["updates"] > 0 and runner.scalars()["perf/workers_replaced"] == 0
    (line,) = [each for each in caplog.messages if "a new one takes its place" in each]
    assert line.startswith("the role that hands out weights does not answer for 1 s")
