"""Learning from workers: what is learned, in which order, and what is not used."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import ray
from small_runs import trainer_of
from stop_after import StopAfter

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.runners.evaluate import Evaluator
from rl.workers.async_ray import AsyncRunner
from rl.workers.buffers import Sampled, Shard
from rl.workers.learning import Learned
from rl.workers.plan import Workers
from rl.workers.pool import Counts
from rl.workers.worker import Rollout

TWO = Workers(2)
pytestmark = pytest.mark.usefixtures("ray_here")


def learned(runner):
    """Mean return of a trained runner's policy."""
    runner.run(-(-runner.agent.hparams.train_steps // runner.steps_per_iteration))
    evaluator = Evaluator(runner.agent, 4)
    found = evaluator.run(0).returns.mean()
    evaluator.close()
    return found


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "more"),
    [
        # How old the weights are that a rollout was acted by depends on the machine's load: PPO learns only
        # from what the newest played, or those before them.
        ("ppo_identity", {"train_steps": 16_384, "max_staleness": 1}),
        ("dqn_identity", {"train_steps": 8_000}),
    ],
)
def test_workers_learn_the_smallest_environment(build, name, more):
    assert learned(build(name, workers=TWO, **more)) >= 18.0  # 20 at best, 5 at random


@pytest.mark.slow
def test_populations_are_played_in_parts(build):
    assert learned(build("es_identity", workers=TWO)) >= 18.0


@pytest.mark.slow
def test_noisy_networks_are_played_with_noise_of_each_worker_s_own(build):
    runner = build("dqn_identity", workers=TWO, noisy=True, act_select="greedy")
    sums = runner.run(2)
    assert sums["transitions"] > 0 and np.isfinite(list(sums.values())).all()


def test_environments_of_all_workers_explore_by_one_sequence(build, monkeypatch):
    runner = build("apex_dqn_cartpole", workers=TWO, num_envs=2, act_backend="compiled", compile="eager")
    runner._publisher = SimpleNamespace(role=None)
    runner._convert()
    remote = SimpleNamespace(remote=lambda assignment, *_: assignment)
    monkeypatch.setattr(ray, "remote", lambda _: SimpleNamespace(options=lambda **_: remote))
    # 0.4^(1 + 7 i / 3), by hand as in tests/agents/test_per_worker_epsilon.py
    expected = [[0.4, 0.047156], [0.0055591, 0.00065536]]
    found = [runner._worker(i, 0) for i in range(2)]
    np.testing.assert_allclose([each.own_values for each in found], expected, rtol=1e-4)
    assert [each.first for each in found] == [0, 2]


def test_new_priorities_go_to_the_buffers_whose_batches_they_are_of():
    first, second = (Sampled(Shard(i), 0, i, None, f"batches {i}") for i in range(2))
    taken, learned, told = [], [], []
    runner = object.__new__(AsyncRunner)
    runner.steps_per_iteration, runner._waited = 8, {"buffers": 0.0}
    runner._learning = SimpleNamespace(from_batches=lambda each: Learned(each, None, "new 0"))
    runner._peers = SimpleNamespace(learn=lambda made, each: learned.append((made, each)) or ["new 1"])
    buffers = SimpleNamespace(
        next=lambda step: taken.append(step) or [first, second],
        arrays=lambda sampled: sampled.arrays,
        update_priorities=lambda *new: told.append(new),
    )
    assert runner._learn_from_batches(3, buffers, []).metrics == "batches 0"
    assert taken == [24] and learned == [(3, [(-1, ["batches 1"])])]
    assert told == [(first, "new 0"), (second, "new 1")]


BUFFERS = {"buffer_shards": 2, "min_replay_size": 32, "replay_capacity": 400, "prioritized": True}


@pytest.mark.parametrize(
    "name, overrides",
    [
        pytest.param("ppo", {"minibatches": 4}, marks=pytest.mark.slow),
        pytest.param("dqn", {"updates_per_iteration": 3, **BUFFERS}, marks=pytest.mark.slow),
    ],
)
def test_together_the_same_seed_gives_the_same_run(build, state_of, assert_same_bits, name, overrides):
    settings = {"env": "CartPole-v1", "num_envs": 4, "rollout_length": 16, "sync_workers": True}
    settings |= {"lr_schedule": "linear", "lr": 0.01, "train_steps": 640}
    states = []
    for _ in range(2):
        runner = build(name, seed=3, workers=TWO, **overrides, **settings)
        sums = runner.run(4)
        states.append(state_of(runner))
        assert sums["transitions"] > 200.0 and sums["updates"] > 0.0 and runner.step == 4 * 64
        runner.close()
    assert_same_bits(states[0], states[1])
    rate = states[0]["optimizer/network/adam/learning_rate"]  # of the fourth of ten iterations
    np.testing.assert_allclose(rate, 0.007, rtol=1e-5)


@pytest.mark.slow
def test_memories_hold_no_transition_from_one_worker_to_another(build):
    runner = build("dqn", env="CartPole-v1", workers=TWO, rollout_length=8, num_envs=2, n_step=3)
    runner.run(12)
    memory = runner.memory
    memory.check_valid()
    ring = memory.ring
    flags = ring.variables["flags"].numpy().reshape(ring.rows, 2)[: 12 * 9]
    assert (flags[8::9] == 0).all()  # each rollout ends with a row that is no step
    before = flags[7::9]
    assert ((before & 4 == 0) | (before & 3 != 0)).all()  # and the step before it with an end


class Old:
    """A pool whose every third rollout is by weights that are five updates old."""

    counts = Counts(0, 0)

    def __init__(self, rollout):
        self.rollout, self.made, self.used = rollout, 0, []

    def next(self, part=0, parts=1):
        self.made += 1
        age = 5 if self.made % 3 == 0 else 1
        version = max(self.made - 1 - len([m for m in range(1, self.made) if m % 3 == 0]) - age, -age)
        return Rollout(0, self.rollout, version, {"episodes": 0.0})

    def close(self):
        """Nothing to end."""


@pytest.mark.slow
def test_rollouts_that_are_too_old_are_not_learned_from(build):
    runner = build("ppo", env="CartPole-v1", workers=TWO, num_envs=2, rollout_length=8, max_staleness=2)
    arrays = [np.zeros(spec.shape, spec.dtype.as_numpy_dtype) for spec in runner._learning.layout.signature]
    runner.run(1)  # starts the cluster, which publishes
    runner._pool.close()
    runner._pool = Old(arrays)
    begun = runner.made
    runner._pool.made = 0
    runner.iteration.number.assign(0)
    runner._dropped, runner._staleness = 0, []
    runner.run(6)
    assert runner.made == 6 and begun == 1
    assert runner._dropped == 2 and max(runner._staleness) <= 2


class Silent:
    """A pool from which nothing comes."""

    playing, counts = 0, Counts(0, 0)

    def __init__(self, tend):
        self.tend = tend

    def next(self, part=0, parts=1):
        while True:
            self.tend()

    def close(self):
        """Nothing to end."""


@pytest.mark.slow
def test_a_run_that_waits_for_rollouts_may_be_left(build):
    runner = build("ppo", env="CartPole-v1", workers=TWO, num_envs=2, rollout_length=8)
    runner.run(1)
    runner._pool.close()
    runner._pool, asked = Silent(runner._tend), []
    assert runner.advance(4, lambda made: asked.append(made) or len(asked) < 3) == 0
    assert asked == [0, 0, 0] and runner.made == 1


def test_a_run_with_workers_resumes_from_its_checkpoint(tmp_path, assert_same_bits):
    settings = {
        "env": "CartPole-v1",
        "rollout_length": 8,
        "num_envs": 2,
        "log_period": 64,
        "compile": "graph",
    }
    settings |= {"normalize_reward": True, "normalize_observation": True, "train_steps": 128}
    for steps, workers in ((128, TWO), (256, Workers(1))):
        trainer = trainer_of(resolve("a2c", settings | {"train_steps": steps}), tmp_path, 1, workers=workers)
        try:
            assert trainer.resumed == (steps == 256)
            assert trainer.train(StopAfter()).step == steps
        finally:
            trainer.close()
    rows = (tmp_path / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "64", "128", "192", "256"]
    names = (tmp_path / "perf.csv").read_text().splitlines()[0].split(",")
    assert {"perf/staleness_mean", "perf/learner_wait_fraction", "perf/workers_replaced"} <= set(names)


@pytest.mark.parametrize(
    "overrides, message",
    [
        ({"sync_workers": True, "num_envs": 3}, "num_envs=3: take a divisor of it, or sync_workers=false"),
        ({"env_backend": "graph"}, "env_backend=graph is for runs without workers"),
    ],
)
def test_settings_that_do_not_fit_workers_are_refused(overrides, message):
    from rl.runners.build import build_runner

    with pytest.raises(UsageError, match=message):
        build_runner(resolve("a2c", {"env": "CartPole-v1", "compile": "graph", **overrides}), 0, TWO)


@pytest.mark.slow
def test_recurrent_replay_gets_whole_sequences_from_one_worker(build):
    settings = {"env": "CartPole-v1", "burn_in": 4, "unroll_length": 8, "workers": TWO}
    sizes = {"num_envs": 2, "min_replay_size": 24, "batch_size": 4, "rollout_length": 5}
    runner = build("r2d2", **sizes, **settings)
    sums = runner.run(6)
    assert sums["updates"] > 0 and np.isfinite(list(sums.values())).all()
    memory = runner.memory
    memory.check_valid()
    assert memory.period == 3 * 5 + 1 and memory.span == 1


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["icm", "rnd"])
def test_what_is_new_is_found_in_the_rollouts_of_all_workers(build, state_of, kind):
    runner = build("impala_cartpole", workers=TWO, curiosity=kind, num_envs=2, rollout_length=8)
    before = state_of(runner)
    sums = runner.run(6)
    assert sums["intrinsic_reward"] > 0.0 and sums["curiosity_loss"] > 0.0
    after, taught = state_of(runner), "curiosity/predictor" if kind == "rnd" else "curiosity/forward"
    assert any((after[name] != each).any() for name, each in before.items() if taught in name)
    assert all((after[name] == each).all() for name, each in before.items() if "curiosity/target" in name)
