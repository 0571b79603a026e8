"""Training with many agents: what is counted, what is logged, who may play."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import rest

from rl.data.dataset import read
from rl.envs.agents import OfAgents, OwnRewards
from rl.envs.graph.multi_agent import agents_view
from rl.envs.graph_host import GraphHost
from rl.envs.make import make_env
from rl.envs.registry import registry as envs
from rl.errors import UsageError
from rl.runners.evaluate import Evaluator
from rl.runners.recording import policy_recorder
from tests.leavers import ENV_ID, PAY, Alike, Leavers

OWN = {"return_first": 1.0, "return_second": 4.0, "return_third": 9.0}  # of each agent, while it is there


@pytest.fixture(autouse=True)
def _leavers():
    envs.register(Leavers)
    yield
    envs._entries().pop(ENV_ID)


def _on_the_host(*args: Any) -> GraphHost:
    env = GraphHost(make_env(*args))
    env.backend = "gym"  # of the host, as builders see it
    return env


@pytest.mark.parametrize("where", ["in the graph", *rest("on the host")])
def test_steps_are_environments_and_episodes_the_teams(build, monkeypatch, where):
    if where == "on the host":
        monkeypatch.setattr("rl.runners.build.make_env", _on_the_host)
    runner = build("ppo", env=ENV_ID, num_envs=2, rollout_length=8, minibatches=2, epochs=1, compile="eager")
    assert runner.steps_per_iteration == 2 * 8
    assert runner.agent.hparams.num_envs == 2 * 3
    sums = runner.run(1)
    # An episode takes 3 steps and the reset: 2 environments have had 2 each.
    expected = {
        "episodes": 4,
        "episode_return": 4 * 14,
        "episode_length": 4 * 3,
        "transitions": 4 * (1 + 2 + 3),
    }
    assert {name: sums[name] for name in expected} == expected
    assert sums["episode_return_min"] == sums["episode_return_max"] == 14
    assert runner.run(2)["episodes"] == 8


def test_seen_jointly_steps_and_episodes_are_the_same(build):
    memory = {"min_replay_size": 8, "batch_size": 8, "updates_per_iteration": 1, "compile": "eager"}
    runner = build("vdn", env=ENV_ID, num_envs=2, rollout_length=8, **memory)
    assert runner.steps_per_iteration == 2 * 8
    sums = runner.run(1)
    # An episode takes 3 steps and the reset: 2 environments have had 2 each.
    expected = {"episodes": 4, "episode_return": 4 * 14, "episode_length": 4 * 3, "transitions": 4 * 3}
    assert {name: sums[name] for name in expected} == expected
    found = Evaluator(runner.agent, 2).run(0)
    assert found.returns.tolist() == [14.0] * 2 and found.means() == OWN


def test_an_evaluation_plays_whole_teams(build):
    runner = build("ppo", env=ENV_ID, num_envs=2, rollout_length=8, minibatches=2, epochs=1, compile="graph")
    found = Evaluator(runner.agent, 3).run(0)
    assert found.returns.tolist() == [14.0] * 3 and found.lengths.tolist() == [3.0] * 3
    assert {name: each.tolist() for name, each in found.measures.items()} == {
        name: [each] * 3 for name, each in OWN.items()
    }
    assert found.metrics()["eval/return_third"] == 9.0 and found.metrics()["eval/return_mean"] == 14.0


@pytest.mark.parametrize("joint", [False, True])
def test_where_all_are_paid_the_same_an_agents_own_return_ends_when_it_leaves(joint):
    host = GraphHost(agents_view(Alike(2), "joint" if joint else "rows"))
    own = OwnRewards(host.observation_space, host.agents)
    before, gone, total = host.reset(0), np.zeros(host.num_envs, bool), np.zeros((2, 3))
    for _ in range(7):  # an episode, its reset, and another one
        after, reward, terminated, truncated = host.step(np.zeros(6, np.int64).reshape(host.num_envs, -1))
        total += own.of_step(before, reward, gone, after)
        before, gone = after, terminated | truncated
    assert total.tolist() == [[20.0, 40.0, 60.0]] * 2


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (("adversary_0", "agent_0"), ("adversary_0", "agent_0")),
        (("left, right", "up"), ("0", "1")),  # commas part columns
        (("mean", "other"), ("0", "1")),  # what another column is called
        ((1, "1"), ("0", "1")),
    ],
)
def test_agents_are_called_in_tables_by_names_that_columns_can_have(names, expected):
    space = spaces.Dict({"agent": OfAgents(names, True), "observation": spaces.Discrete(2)})
    assert OwnRewards(space, 2).names == expected
    assert OwnRewards(space, 1).names == ()  # a game against an opponent is played by one


def test_an_evaluation_records_the_episodes_of_each_agent(build, tmp_path):
    runner = build("ppo", env=ENV_ID, num_envs=2, rollout_length=8, minibatches=2, epochs=1, compile="graph")
    with policy_recorder(str(tmp_path), runner.agent, "ppo", "run", which="last") as recorder:
        recorder.begin()
        Evaluator(runner.agent, 3).run(0, recorder=recorder)
    found = read(tmp_path)
    assert sorted(found.lengths) == [1] * 3 + [2] * 3 + [3] * 3
    assert sorted(found.returns) == [1.0] * 3 + [4.0] * 3 + [9.0] * 3


@pytest.mark.parametrize("where", ["on the host", *rest("in the graph")])
def test_training_records_the_episodes_of_each_agent_across_rollouts(build, monkeypatch, tmp_path, where):
    if where == "on the host":
        monkeypatch.setattr("rl.runners.build.make_env", _on_the_host)
    runner = build("ppo", env=ENV_ID, num_envs=2, rollout_length=5, minibatches=2, epochs=1, compile="eager")
    with policy_recorder(str(tmp_path), runner.agent, "ppo", "run", which="training") as recorder:
        runner.record_to(recorder)
        recorder.begin()
        runner.run(3)
    found = read(tmp_path)
    # 15 steps of 2 environments, whose episodes take 3 and the reset: 4 each.
    assert sorted(found.lengths) == [1] * 8 + [2] * 8 + [3] * 8
    assert sorted(each["step"] for each in found.about)[-6:] == [26, 26, 28, 28, 30, 30]


def test_a_memory_holds_no_step_of_an_agent_that_is_gone(build):
    memory = {"min_replay_size": 8, "batch_size": 64, "replay_capacity": 96, "n_step": 1}
    memory |= {"updates_per_iteration": 1, "compile": "eager"}
    runner = build("dqn", env=ENV_ID, num_envs=2, rollout_length=8, **memory)
    runner.run(1)
    runner.memory.check_valid()
    batch = runner.memory.sample(tf.constant([1, 2]), tf.constant(0, tf.int64))
    real = batch.mask.numpy() > 0
    assert real.any()
    agent = batch.observation["agent"].numpy().argmax(-1)[real]
    steps = batch.observation["observation"].numpy()[real, 0]
    assert (steps <= agent).all() and set(agent) == {0, 1, 2}
    np.testing.assert_array_equal(batch.reward.numpy()[real], np.array(PAY)[agent])
    np.testing.assert_array_equal(batch.discount.numpy()[real] == 0.0, steps == agent)


def test_who_compares_parameters_is_refused(build):
    with pytest.raises(UsageError, match="es compares parameters, Leavers-v0 is played by 3 agents"):
        build("es", env=ENV_ID, num_envs=2)
