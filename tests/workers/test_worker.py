"""What a worker sends, and that it needs no TensorFlow to do so."""

from __future__ import annotations

import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest
from gymnasium import spaces
from marked import rest

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.acting import Acting
from rl.runners.actor import Actor, flat_weights
from rl.runners.collect import EpisodeSums, Window, joined_sums
from rl.workers.agent_policy import noise_seed
from rl.workers.worker import Compressed, Worker, packed, unpacked, worker_env

ONE = SimpleNamespace(num_envs=1, agents=1, team_share=1.0, observation_space=spaces.Discrete(2))


def numbers(reward, terminated, truncated, mask, life_lost=None):
    """Rows of a block of one environment, from lists over time."""
    rows = [reward, terminated, truncated, mask, life_lost or [0] * len(reward)]
    return np.array(rows, np.float32)[:, :, None]  # [5, T, 1]


def test_episodes_are_summed_where_they_end_and_go_on_from_rollout_to_rollout():
    episodes = EpisodeSums(ONE, fresh=False)
    first = episodes.sums(numbers([1, 2, 0, 4], [0, 1, 0, 0], [0, 0, 0, 0], [1, 1, 0, 1]))
    extremes = ("episode_return_min", "episode_return_max")
    expected = {"episodes": 1, "episode_return": 3, "episode_length": 2, "transitions": 3}
    assert first == expected | dict.fromkeys(extremes, 3)
    second = episodes.sums(numbers([5, 6], [0, 0], [1, 0], [1, 0]))
    expected = {"episodes": 1, "episode_return": 9, "episode_length": 2, "transitions": 1}
    assert second == expected | dict.fromkeys(extremes, 9)
    none = {"episodes": 0.0, "episode_return": 0.0, "episode_length": 0.0, "transitions": 2.0}
    assert episodes.sums(numbers([7, 7], [0, 0], [0, 0], [1, 1])) == none
    together = joined_sums(joined_sums(joined_sums({}, none), second), first)
    assert together == {"episodes": 2, "episode_return": 12, "episode_length": 4, "transitions": 6,
                        "episode_return_min": 3, "episode_return_max": 9}  # fmt: skip


def test_a_lost_life_is_no_end_of_an_episode():
    episodes = EpisodeSums(ONE, fresh=False)
    # The step after the loss is ignored; the game goes on, and ends with the third reward.
    found = episodes.sums(numbers([1, 0, 2], [1, 0, 1], [0, 0, 0], [1, 0, 1], [1, 0, 0]))
    assert (found["episodes"], found["episode_return"], found["episode_length"]) == (1, 3, 2)


def test_episodes_begin_anew_where_every_rollout_does():
    episodes = EpisodeSums(ONE, fresh=True)
    for _ in range(2):
        found = episodes.sums(numbers([1, 1], [0, 0], [0, 1], [1, 1]))
        assert found["episode_return"] == 2


@pytest.mark.parametrize("together", [True, False])
def test_the_rollouts_of_the_first_window_explore_each_by_draws_of_its_own(together, monkeypatch):
    monkeypatch.setattr(Worker, "_update", lambda *_: None)
    worker, drawn = Worker(SimpleNamespace(worker=0), None), []
    step = [np.zeros((3, 1))]
    worker._block = SimpleNamespace(observation=step, action=step, state=[], numbers=np.zeros((5, 2, 1)))
    worker._block.rows = lambda: (step[0],)
    worker._window, worker._compress = Window(3), False
    worker._episodes = SimpleNamespace(sums=lambda *_: {"episodes": 0.0})
    env = SimpleNamespace(told=[])
    played = SimpleNamespace(observation=step[0], env=env, collect=lambda _, number, __: drawn.append(number))
    worker._collector = played
    for iteration in (7, 8, 9):
        worker.rollout(iteration if together else None)
    first = 7 if together else 0
    assert drawn == list(range(first, first + 5))


@pytest.mark.parametrize("name", ["r2d2", "sac", *rest("ppo", "apex_dqn")])
def test_a_converted_policy_acts_as_the_actor_that_it_came_from(build, name):
    env = "Pendulum-v1" if name == "sac" else "CartPole-v1"
    runner = build(name, env=env, env_backend="gym", num_envs=4, rollout_length=8)
    agent = runner.agent
    actor = Actor(agent, 4, True, 5)
    copy = Acting.of(actor.portable(), 5)
    copy.sync(flat_weights(agent).numpy())
    generator = np.random.default_rng(0)
    for each in (actor, copy):
        each.begin(3, 8)
    for t in range(8):
        observation = generator.normal(size=(4, *agent.observation_space.shape)).astype(np.float32)
        (action, extras), (again, others) = actor(observation, t, 100), copy(observation, t, 100)
        np.testing.assert_array_equal(action, again)
        for one, other in zip(extras, others, strict=True):
            np.testing.assert_array_equal(one, other)
        for each in (actor, copy):
            each.forget(np.array([t == 3, False, False, False]))
    for one, other in zip(actor.network_state, copy.network_state, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_worker_with_a_converted_policy_imports_no_tensorflow():
    program = """
import sys
from rl.hparams.merge import resolve
from rl.workers.worker import Worker, worker_env
for name, env in (("ppo", "CartPole-v1"), ("dqn", "Acrobot-v1"), ("ppo", "Pong-v5")):
    made = worker_env(resolve(name, {"env": env}), 2)
    made.reset(0)
    made.close()
print([name for name in ("tensorflow", "keras", "ray") if name in sys.modules])
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=120)
    assert done.stdout.strip() == "[]", done.stderr


def test_workers_play_on_the_host_what_is_also_in_graph():
    env = worker_env(resolve("ppo", {"env": "CartPole-v1"}), 3)
    assert env.backend == "envpool" and env.num_envs == 3
    env.close()
    with pytest.raises(UsageError, match="env_backend=graph is for runs without workers"):
        worker_env(resolve("ppo", {"env": "CartPole-v1", "env_backend": "graph"}), 1)


@pytest.mark.parametrize("iterations", [0, 1, 3])
def test_workers_draw_the_noise_that_the_learner_draws(build, iterations):
    runner = build("es_identity", env_backend="gym")
    if iterations:
        runner.run(iterations)
    agent = runner.agent
    expected = agent.population.noise.numpy().copy()
    agent.resample_noise(random.fold_in(runner.iteration.root_seed, 12345))
    agent.resample_noise(noise_seed(runner.iteration.root_seed, iterations))
    np.testing.assert_array_equal(agent.population.noise.numpy(), expected)


def test_pictures_travel_compressed_and_arrive_as_they_were():
    generator = np.random.default_rng(0)
    pictures = np.repeat(generator.integers(0, 256, (9, 2, 8, 8, 1), np.uint8), 16, 2)  # [T+1, B, 128, 8, 1]
    numbers = generator.normal(size=(5, 8, 2)).astype(np.float32)
    few = np.arange(10, dtype=np.uint8)
    sent, account = packed([pictures, numbers, few], compress=True)
    assert isinstance(sent[0], Compressed) and sent[1] is numbers and sent[2] is few
    assert account.raw == pictures.nbytes + numbers.nbytes + few.nbytes
    assert account.sent == len(sent[0].data) + numbers.nbytes + few.nbytes < account.raw
    for before, after in zip([pictures, numbers, few], unpacked(sent), strict=True):
        assert after.dtype == before.dtype
        np.testing.assert_array_equal(after, before)


def test_without_compression_nothing_is_touched():
    arrays = [np.zeros((100, 100), np.uint8)]
    sent, account = packed(arrays, compress=False)
    assert sent is arrays and account == (10_000, 10_000, 0.0)
    assert unpacked(sent)[0] is arrays[0]
