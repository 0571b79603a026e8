"""Data that are read in chunks: each episode once in a pass, a part in memory, exact resume."""

from __future__ import annotations

import itertools

import numpy as np
import own_data
import pytest
from small_runs import train

from rl.data.dataset import read
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.runners.build import build_runner

RUN = {"memory": "dataset", "data_chunk": 100, "batch_size": 16, "updates_per_iteration": 2, "n_step": 3}
RUN |= {"normalize_observation": True, "normalize_reward": True, "return_span": 10.0, "model.hidden": (8,)}
RUN |= {"train_steps": 120, "log_period": 30, "eval_period": 0, "compile": "graph"}


@pytest.fixture(scope="module")
def cartpole(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cartpole") / "data"
    own_data.play(folder, "CartPole-v1")
    return str(folder)


@pytest.fixture(scope="module")
def runner(cartpole):
    made = build_runner(resolve("dqn_cartpole", RUN | {"data": cartpole}), seed=3)
    yield made
    made.close()


def test_chunks_hold_each_episode_once_and_memory_no_more_than_the_largest(runner, cartpole):
    data, chunks = read(cartpole), runner._chunks
    parts = [chunks.read(i) for i in range(len(chunks.steps))]
    assert len(parts) > 3 and all(len(each.reward) <= 100 or len(each.lengths) == 1 for each in parts)
    seen = np.concatenate([each.observation for each in parts])
    whole = {row.tobytes() for row in data.observation}
    assert len(seen) == len(data.observation) and {row.tobytes() for row in seen} == whole
    assert float(np.ptp(np.concatenate([each.returns for each in parts]))) == pytest.approx(10.0)
    columns = runner.memory._columns
    assert columns.reward.shape[0] == max(len(each.reward) for each in parts)
    assert columns.observation.shape[0] == max(len(each.observation) for each in parts)


def test_each_pass_has_all_chunks_in_an_order_of_its_own_for_as_long_as_they_are_large(runner):
    chunks, total = runner._chunks, int(runner._lasts.sum())
    np.testing.assert_array_equal(runner._lasts, -(-chunks.steps // 32))
    passes = [[runner.place(number)[0] for number in range(i * total, (i + 1) * total)] for i in range(4)]
    for each in passes:
        np.testing.assert_array_equal(np.bincount(each), runner._lasts)
    assert len({tuple(each) for each in passes}) > 1
    flat = [runner.place(number) for number in range(2 * total)]
    for now, later in itertools.pairwise(flat):
        if now[1] == 1:
            assert later[0] == now[2]
        else:
            assert later == (now[0], now[1] - 1, now[2])


def test_it_learns_from_the_chunk_that_is_due_and_from_nothing_behind_it(runner):
    for _ in range(12):
        chunk, *_ = runner.place(runner.made)
        assert runner.run(1)["updates"] == 2.0
        data, memory = runner._chunks.read(chunk), runner.memory
        assert int(memory.size()) == len(data.reward) == runner._chunks.steps[chunk]
        np.testing.assert_array_equal(memory._columns.action[: len(data.reward)], data.action)


@pytest.mark.slow
def test_a_run_in_chunks_that_goes_on_is_the_one_that_was_never_stopped(cartpole, tmp_path, assert_same_bits):
    hparams = resolve("dqn_cartpole", RUN | {"data": cartpole})
    step, straight = train(hparams, tmp_path / "straight")
    assert step == 120
    for looks in (1, 5):
        assert train(hparams, tmp_path / "parts", looks)[0] < 120
    step, resumed = train(hparams, tmp_path / "parts")
    assert step == 120
    assert_same_bits(resumed, straight)
    metrics = (tmp_path / "straight/metrics.csv").read_bytes()
    assert metrics.count(b"\n") == 5 and (tmp_path / "parts/metrics.csv").read_bytes() == metrics


@pytest.mark.parametrize(
    ("name", "overrides", "message"),
    [
        ("dqn_cartpole", {"prioritized": True}, "data that memory holds as a whole"),
        ("dqn_cartpole", {"estimate": True}, "estimate=true needs all data at once"),
        ("dqn_cartpole", {"memory": "uniform"}, "data_chunk=100 is for memory=dataset"),
        ("bc_cartpole", {"model.name": "lstm"}, "bc learns from sequences here"),
    ],
)
def test_what_needs_all_data_is_refused_in_one_line(cartpole, name, overrides, message):
    known = {"memory": "dataset", "data": cartpole, "data_chunk": 100}
    with pytest.raises(UsageError, match=message):
        build_runner(resolve(name, known | overrides), seed=0)
