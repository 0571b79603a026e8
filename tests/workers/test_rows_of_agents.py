"""Workers that play environments of many agents: each a row, or all as one."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import ray
from gymnasium import spaces
from marked import rest

from rl.envs.agents import OfAgents
from rl.runners.actor import flat_weights
from rl.runners.collect import EpisodeSums
from rl.workers.plan import Workers
from rl.workers.worker import Worker

TWO = Workers(2)
PPO = {"minibatches": 1, "epochs": 1}
MEMORY = {"min_replay_size": 8, "batch_size": 8, "updates_per_iteration": 1}
VIEWS = {"rows": ("ppo", PPO), "rows_and_state": ("mappo", PPO), "joint": ("vdn", MEMORY)}
TEAM = OfAgents(("a", "b", "c"), True)


def env(rows, parts, share=1.0):
    """What `EpisodeSums` asks of one environment of three agents."""
    space = spaces.Dict(parts | {"observation": spaces.Discrete(2)})
    agents = rows if rows > 1 else 1
    return SimpleNamespace(num_envs=rows, agents=agents, team_share=share, observation_space=space)


def numbers(reward, terminated, truncated, mask):
    """Rows of a block, from lists [T, B]."""
    return np.array([reward, terminated, truncated, mask, np.zeros_like(reward)], np.float32)


NONE = [0, 0, 0]
# One agent terminates in the first step, one is cut off in the second, one terminates in the third.
EPISODE = numbers(
    [[1, 2, 3], [100, 2, 3], [100, 100, 3], NONE],
    [[1, 0, 0], NONE, [0, 0, 1], NONE],
    [NONE, [0, 1, 0], NONE, NONE],
    [[1, 1, 1], [0, 1, 1], [0, 0, 1], NONE],
)
OWN = {"own_return/a": 1.0, "own_return/b": 4.0, "own_return/c": 9.0}


def test_an_episode_of_rows_lasts_until_the_last_agent_has_left():
    paid = np.where(EPISODE[3] > 0.0, EPISODE[0], 0.0)
    episodes = EpisodeSums(env(3, {"agent": TEAM}), fresh=False)
    found = episodes.sums(np.stack([paid, *EPISODE[1:]]))
    extremes = {"episode_return_min": 14.0, "episode_return_max": 14.0}
    expected = {"episodes": 1.0, "episode_return": 14.0, "episode_length": 3.0, "transitions": 6.0}
    assert found == expected | extremes | OWN


def test_where_all_are_paid_the_same_the_teams_return_is_that_pay_and_an_own_one_ends_before():
    episodes = EpisodeSums(env(3, {"agent": TEAM}, share=1 / 3), fresh=False)
    alike = np.where(EPISODE[3].any(1, keepdims=True), 10.0, 0.0) * np.ones(3)
    told = []
    for part in (slice(0, 2), slice(2, 4)):  # the episode goes on in the next rollout
        told.append(episodes.sums(np.stack([alike, *EPISODE[1:]])[:, part].astype(np.float32)))
    assert told[0]["episodes"] == 0.0 and told[0]["own_return/c"] == 0.0
    assert told[1]["episode_return"] == pytest.approx(30.0) and told[1]["episode_length"] == 3.0
    assert [told[1][f"own_return/{name}"] for name in "abc"] == [10.0, 20.0, 30.0]


@pytest.mark.parametrize("shared", [False, True])
def test_agents_that_are_seen_as_one_are_told_of_likewise(shared):
    parts = {"alive": TEAM} | ({} if shared else {"reward": spaces.Box(-9.0, 9.0, (3,), np.float32)})
    episodes = EpisodeSums(env(1, parts), fresh=False)
    alive = np.array([[1, 1, 1], [0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]], np.float32)[:, None]
    observation = {"alive": alive}
    if not shared:
        observation["reward"] = np.array([NONE, [1, 2, 3], [0, 2, 3], [0, 0, 3], NONE], np.float32)[:, None]
    team = [[6], [5], [3], [0]] if not shared else [[3], [3], [3], [0]]
    flags = [[[0], [0], [1], [0]], [[0]] * 4, [[1], [1], [1], [0]]]
    found = episodes.sums(numbers(team, *flags), observation)
    assert found["episode_return"] == (9.0 if shared else 14.0) and found["episode_length"] == 3.0
    own = [found[f"own_return/{name}"] for name in "abc"]
    assert own == ([3.0, 6.0, 9.0] if shared else [1.0, 4.0, 9.0])


@pytest.mark.usefixtures("ray_here")
@pytest.mark.parametrize("view", ["rows", *rest("rows_and_state", "joint")])
def test_what_a_worker_has_played_is_learned_from_and_told(build, monkeypatch, view):
    pytest.importorskip("pettingzoo")
    name, settings = VIEWS[view]
    settings = settings | {"env": "pettingzoo:leaving_team", "env_kwargs": {"pays": True}, "compile": "eager"}
    runner = build(name, workers=TWO, num_envs=2, rollout_length=5, act_backend="litert", **settings)
    assert runner.steps_per_iteration == 2 * 5
    runner._publisher = SimpleNamespace(role=None)
    monkeypatch.setattr(ray, "put", lambda each: each)
    runner._convert()
    remote = SimpleNamespace(remote=lambda assignment, _, policy: Worker(assignment, None, policy))
    monkeypatch.setattr(ray, "remote", lambda _: SimpleNamespace(options=lambda **_: remote))
    weights = flat_weights(runner.agent, training=False).numpy()
    monkeypatch.setattr(Worker, "_update", lambda worker, _: worker._policy.take(weights))
    rows = 2 if view == "joint" else 6
    workers = [runner._worker(i, 0) for i in range(2)]
    assert [each._assignment.first for each in workers] == [0, rows]
    assert runner._portable is not None
    rollouts = [each.rollout() for each in workers]
    pool = SimpleNamespace(next=lambda *_: rollouts.pop(0), counts=None)
    runner._pool, runner._publish, runner._cluster.check = pool, lambda *_: None, lambda: None
    runner.advance(2)
    runner._pool = None
    row = runner.row()
    # 5 steps of 2 environments of each worker, whose episodes take 3 and the reset: one of each has ended
    assert row["episode/count"] == 4.0 and row["episode/length_mean"] == 3.0
    assert row["episode/return_mean"] == row["episode/return_max"] == 14.0
    assert [row[f"episode/return_{agent}"] for agent in "abc"] == [1.0, 4.0, 9.0]
    left = runner.unfinished()
    runner.begin_window()
    former = {name: x for name, x in left["played"].items() if name not in OWN}
    for played, known in ((left["played"], True), (former, False)):  # of this version, and of earlier ones
        runner.resume_window(left | {"played": played})
        assert runner.unfinished()["played"] == played
        assert ("episode/return_c" in runner.row()) == known


@pytest.mark.slow
@pytest.mark.usefixtures("ray_here")
@pytest.mark.parametrize(
    ("name", "overrides"),
    [
        ("ppo", PPO),
        ("ppo", PPO | {"sync_workers": True}),
        ("mappo", PPO | {"model.name": "gru"}),
        ("ppo", PPO | {"policies": "independent"}),
        ("dqn", MEMORY | {"buffer_shards": 2, "prioritized": True}),
        ("r2d2", {"min_replay_size": 64, "batch_size": 8}),
        ("qmix", MEMORY),
    ],
)
def test_workers_play_pettingzoo(build, name, overrides):
    pytest.importorskip("mpe2")
    settings = {"env": "pettingzoo:mpe2.simple_spread_v3", "env_kwargs": {"max_cycles": 7}, "num_envs": 2}
    runner = build(name, workers=TWO, rollout_length=8, **settings | overrides)
    runner.run(8)
    row = runner.row()
    assert row["episode/length_mean"] == 7.0 and runner.step == 8 * 2 * 8
    own = [row[f"episode/return_agent_{i}"] for i in range(3)]
    assert all(each < 0.0 for each in own)
    assert sum(own) == pytest.approx(row["episode/return_mean"], rel=1e-5)
