"""Buffers: what they sample, what they keep, and what happens when one is lost."""

from __future__ import annotations

import os
import signal
import time
import types

import numpy as np
import pytest
import ray
from marked import rest

from rl.errors import LearnerLost, UsageError
from rl.hparams.merge import resolve
from rl.runners.build import build_runner
from rl.workers import buffers
from rl.workers.buffer import Buffer
from rl.workers.buffers import AHEAD
from rl.workers.plan import Workers

TWO = Workers(2)
SMALL = {
    "env": "CartPole-v1",
    "num_envs": 2,
    "rollout_length": 8,
    "buffer_shards": 2,
    "min_replay_size": 32,
    "replay_capacity": 400,
    "batch_size": 16,
    "prioritized": True,
    "updates_per_iteration": 3,
    "n_step": 1,
    "sync_workers": True,
    "log_period": 32,
}
pytestmark = pytest.mark.usefixtures("ray_here")


@pytest.fixture
def shard(build):
    """A buffer in this process, and the blocks that it took in; its few calls are not worth tracing."""
    return filled(build, "eager")


@pytest.fixture
def traced_shard(build):
    """The same for many calls."""
    return filled(build, "graph")


def filled(build, compile):
    runner = build("dqn", workers=TWO, **SMALL, compile=compile, reward_augmentation="scale:0.5")
    shelf = runner._buffer_assignment
    buffer, generator = Buffer(shelf), np.random.default_rng(0)
    blocks = []
    for number in range(6):
        observation = generator.normal(size=(9, 1, 4)).astype(np.float32)
        observation[:, 0, 0] = number * 10 + np.arange(9)  # says which row it is
        numbers = np.zeros((5, 8, 1), np.float32)
        numbers[0], numbers[3] = 1.0, 1.0  # reward, mask
        blocks.append([observation, generator.integers(0, 2, (8, 1), np.int32), numbers])
        buffer.add(blocks[-1])
    return buffer, shelf, blocks


def test_batches_are_transitions_of_one_rollout_each_with_augmented_rewards(shard):
    buffer, _, _ = shard
    (size, enough), leaves = buffer.sample(0, 0)
    assert enough and size >= 6 * 8
    assert all(leaf.shape[:2] == (3, 16) for leaf in leaves)  # U batches of N
    first, following = (leaf for leaf in leaves if leaf.shape == (3, 16, 4))
    assert (following[..., 0] == first[..., 0] + 1).all()
    assert set(np.unique(first[..., 0] % 10)) <= set(range(8))  # never the row that closes a rollout
    np.testing.assert_array_equal(leaves[2], np.full((3, 16), 0.5))  # half of the environment's 1


def test_draws_are_of_the_number_alone(shard):
    buffer, _, _ = shard
    one, again, other = (buffer.sample(number, 0)[1] for number in (1, 1, 2))
    assert all(np.array_equal(a, b) for a, b in zip(one, again, strict=True))
    assert any(not np.array_equal(a, b) for a, b in zip(one, other, strict=True))


def test_new_priorities_change_what_is_drawn(shard):
    buffer, _, _ = shard
    index = buffer.sample(1, 0)[1][buffer._index_leaf]
    priorities = np.where(index == index[0, 0], 1000.0, 1e-6).astype(np.float32)
    buffer.update_priorities(1, priorities)
    drawn = buffer.sample(2, 0)[1][buffer._index_leaf]
    assert (drawn == index[0, 0]).mean() > 0.5
    buffer.update_priorities(77, priorities)  # of batches that nobody knows any more: nothing


@pytest.mark.parametrize(("learners", "ahead"), [*rest((1, 16)), (8, 32)])
def test_priorities_of_all_that_learners_have_on_order_are_taken(traced_shard, learners, ahead):
    buffer, shelf, _ = traced_shard
    buffer._assignment = shelf._replace(hparams=shelf.hparams | {"num_learners": learners})
    for number in range(ahead):
        index = buffer.sample(number, 0)[1][buffer._index_leaf]
    assert sorted(buffer._drawn) == list(range(ahead)) and ahead > (AHEAD + 1) * learners
    buffer.update_priorities(0, np.full(index.shape, 1000.0, np.float32))
    assert buffer._memory.tree.leaves().max() > 30.0


def test_priorities_of_what_was_overwritten_meanwhile_are_dropped(shard):
    buffer, _, blocks = shard
    buffer.sample(1, 0)
    for block in 5 * blocks:  # 9 rows each, in a ring of 200
        buffer.add(block)
    before = buffer._memory.tree.leaves()
    buffer.update_priorities(1, np.full((3, 16), 1000.0, np.float32))
    np.testing.assert_array_equal(buffer._memory.tree.leaves(), before)


def test_too_few_transitions_are_not_sampled(build):
    buffer = Buffer(build("dqn", workers=TWO, **SMALL)._buffer_assignment)
    assert buffer.sample(0, 0) == ((0, False), [])


def test_a_run_that_went_back_saves_over_what_it_had_saved_later(shard, tmp_path):
    buffer, shelf, blocks = shard
    buffer.save(str(tmp_path / "0"), 48)
    again = Buffer(shelf)
    assert again.restore(str(tmp_path / "0")) == 48
    again.add(blocks[0])
    again.save(str(tmp_path / "0"), 16)
    last = Buffer(shelf)
    last.restore(str(tmp_path / "0"))
    for a, b in zip(again.sample(5, 0)[1], last.sample(5, 0)[1], strict=True):
        np.testing.assert_array_equal(a, b)
    written = [int(each._memory.ring.written) for each in (buffer, again, last)]
    assert written[0] < written[1] == written[2]


@pytest.mark.parametrize("scheme", ["", "ram://"])
def test_what_was_saved_is_sampled_again(shard, tmp_path, scheme):
    buffer, shelf, _ = shard
    buffer.save(f"{scheme}{tmp_path}/0", 48)
    again = Buffer(shelf)
    assert Buffer(shelf).restore(f"{scheme}{tmp_path}/nothing") is None
    assert again.restore(f"{scheme}{tmp_path}/0") == 48
    for a, b in zip(buffer.sample(5, 0)[1], again.sample(5, 0)[1], strict=True):
        np.testing.assert_array_equal(a, b)
    for each in (buffer, again):
        each.leave()
    assert len(list(tmp_path.iterdir())) == (not scheme)  # what is local stays


@pytest.mark.slow
def test_buffers_hold_sequences_and_several_steps(build):
    """R2D2's sequences with their states, and n-step transitions."""
    sequences = {"min_replay_size": 64, "burn_in": 4, "unroll_length": 8, "batch_size": 4}
    runner = build("r2d2", workers=TWO, **SMALL | sequences | {"replay_capacity": 2000})
    assert runner.run(12)["updates"] > 0.0
    runner.close()
    runner = build("sac", workers=TWO, **SMALL | {"env": "Pendulum-v1", "prioritized": False, "n_step": 3})
    assert runner.run(8)["updates"] > 0.0


@pytest.mark.slow
def test_a_lost_buffer_is_replaced_and_what_it_held_is_counted(build):
    runner = build("dqn", workers=TWO, **SMALL)
    runner.run(6)
    shard = runner._buffers._shards[0]
    held = shard.size
    assert held > 0
    ray.kill(shard.handle)
    time.sleep(0.2)
    sums = runner.run(4 + AHEAD)
    assert np.isfinite(list(sums.values())).all()
    scalars = runner.scalars()
    assert scalars["perf/buffers_replaced"] == 1 and scalars["perf/transitions_lost"] >= held
    assert runner.run(8)["updates"] > 0.0  # it fills again


@pytest.mark.slow
def test_a_buffer_that_does_not_answer_is_passed_over_until_it_does(build, monkeypatch):
    monkeypatch.setattr(buffers, "PATIENCE", 0.5)
    runner = build("dqn", workers=TWO, **SMALL)
    runner.run(6)
    shards, pid = runner._buffers._shards, ray.get(runner._buffers._shards[0].handle.answer.remote())
    os.kill(pid, signal.SIGSTOP)
    try:
        assert runner.run(10)["updates"] > 0.0  # from the other one
        assert shards[0].absent is not None and shards[1].absent is None
    finally:
        os.kill(pid, signal.SIGCONT)
    ray.get(shards[0].absent)
    runner.run(4)
    assert shards[0].absent is None and runner.scalars()["perf/buffers_replaced"] == 0


@pytest.mark.slow
def test_a_buffer_that_never_answers_again_is_replaced_and_no_checkpoint_waits_for_it(
    build, monkeypatch, tmp_path, caplog
):
    runner = build("dqn", workers=TWO, **SMALL | {"worker_timeout": 600.0})
    runner.run(6)
    found = runner._buffers
    found.save(str(tmp_path), 0)
    ray.get([reference for _, reference in found._saving])
    monkeypatch.setattr(buffers, "PATIENCE", 2.0)
    monkeypatch.setattr(buffers, "SAVING", 2.0)
    os.kill(ray.get(found._shards[0].handle.answer.remote()), signal.SIGSTOP)
    for step in (1, 2, 3):  # the first one notices it, the others know
        found.save(str(tmp_path), step)
    assert caplog.messages == [
        "buffer 0 does not answer: it is passed over until it does",
        *["buffer 0 does not answer: its last checkpoint is kept"] * 2,
    ]
    found._timeout = 1.0  # the order to save may be under way: it has SAVING
    deadline = time.monotonic() + 60.0
    while not found.replaced and time.monotonic() < deadline:
        assert runner.run(1)["transitions"] > 0.0
    assert found.replaced == 1 and found.lost > 0
    (line,) = [each for each in caplog.messages if "a new one takes its place" in each]
    assert line.startswith("buffer 0 did not answer for ") and line.count("worker") == 0


@pytest.mark.parametrize(
    "name, workers, overrides, message",
    [
        ("dqn", None, {"buffer_shards": 1}, "buffer_shards=1 is for runs with workers"),
        ("ppo", None, {"num_learners": 2}, "num_learners=2 is for runs with workers"),
        ("ppo", TWO, {"buffer_shards": 1}, "ppo learns from rollouts, which no buffer keeps"),
        ("dqn", TWO, {"buffer_shards": 3}, "2 workers fill at most as many buffers"),
        ("dqn", TWO, {"num_learners": 2}, "set buffer_shards=1 or more"),
        ("es", TWO, {"num_learners": 2}, "es compares parameters"),
        ("ppo", Workers(3), {"num_learners": 2}, "2 learners cannot share 3 workers"),
        ("ppo", TWO, {"num_learners": 2, "compile": "xla"}, "leave compile at auto"),
        ("dqn", TWO, {"buffer_shards": 1, "normalize_reward": True}, "normalize_reward"),
    ],
)
def test_roles_that_cannot_be_are_refused(name, workers, overrides, message):
    with pytest.raises(UsageError, match=message):
        build_runner(resolve(name, {"env": "CartPole-v1", **overrides}), 0, workers)


@pytest.mark.parametrize("in_a_task", [True, False])
def test_a_rollout_that_is_lost_on_its_way_costs_nothing_else(in_a_task, caplog, monkeypatch):
    """The machine of the worker that made it is gone, the buffer is well."""
    lost = ray.exceptions.ObjectReconstructionFailedError("0" * 56, "", [])
    wrapped = ray.exceptions.RayTaskError("add", "", lost)
    error = wrapped.as_instanceof_cause() if in_a_task else lost
    monkeypatch.setattr(buffers.ray, "get", raiser(error))
    monkeypatch.setattr(buffers.Buffers, "_arrives", lambda *_: True)
    learner, shard = object.__new__(buffers.Buffers), buffers.Shard(0)
    shard.handle = types.SimpleNamespace(add=types.SimpleNamespace(remote=lambda _: "reference"))
    learner._shards, learner.rollouts_lost = [shard], 0
    for _ in range(buffers.ADDING + 2):
        learner.add(3, "arrays")
    assert learner.rollouts_lost == 2 and shard.incarnation == 0
    assert "a rollout of worker 3 was lost with the machine" in caplog.text


def test_a_buffer_that_is_lost_as_it_reads_its_checkpoint_starts_the_learner_again(monkeypatch):
    monkeypatch.setattr(buffers.ray, "get", raiser(ray.exceptions.ActorDiedError()))
    learner, shard = object.__new__(buffers.Buffers), buffers.Shard(0)
    restore = types.SimpleNamespace(remote=lambda _: "reference")
    learner._shards, shard.handle = [shard], types.SimpleNamespace(restore=restore)
    with pytest.raises(LearnerLost, match="buffer 0 was lost as it read its checkpoint"):
        learner.restore("folder")


def test_a_buffer_whose_own_code_fails_says_so(monkeypatch):
    error = ray.exceptions.RayTaskError("add", "", ValueError("of the buffer")).as_instanceof_cause()
    monkeypatch.setattr(buffers.ray, "get", raiser(error))
    learner = object.__new__(buffers.Buffers)
    with pytest.raises(ValueError):
        learner._replace_lost(buffers.Shard(0), error)


def raiser(error):
    def get(*_, **__):
        raise error

    return get
