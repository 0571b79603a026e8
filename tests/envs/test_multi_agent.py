"""Environments of many agents as their views show them: ends, agents that are gone, rewards, spaces."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few

from rl.envs import make_env, make_eval_envs
from rl.envs.agents import VIEWS
from rl.envs.graph.multi_agent import AgentsView, agents_view, check_multi_agent_env
from rl.envs.graph.wrappers import PreviousActionReward
from rl.envs.graph_host import GraphHost
from rl.envs.registry import get_env
from rl.errors import UsageError
from rl.ops import random
from rl.ops.episodes import Team
from tests.graph_ids import OF_AGENTS
from tests.leavers import Leavers

STEPS, LIMIT = 40, 7
PLAYED = ["ConnectFour-v0", "SimpleSpread-v0"]  # a game, and a task of a team


def _played(view: AgentsView, steps: int) -> list[Any]:
    state, first = view.reset(random.key(0))
    seen = [first]
    for i in range(steps):
        action = tf.zeros([view.num_envs, *view.action_space.shape], view.action_space.dtype)
        state, step = view.step(state, action, random.key(i))
        seen.append(step)
    return [tf.nest.map_structure(lambda x: x.numpy(), each) for each in seen]


def test_rows_of_agents_that_are_gone_say_so_until_all_are_and_are_paid_nothing() -> None:
    _, *steps = _played(agents_view(Leavers(1), "rows"), 5)
    assert [each.terminated.tolist() for each in steps] == [
        [True, False, False],
        [True, True, False],
        [True, True, True],
        [False, False, False],  # the reset step
        [True, False, False],
    ]
    rewards = [[1, 2, 3], [0, 2, 3], [0, 0, 3], [0, 0, 0], [1, 2, 3]]
    assert [each.reward.tolist() for each in steps] == rewards
    assert not any(each.truncated.any() for each in steps)
    assert steps[3].observation["observation"].tolist() == [[0.0]] * 3
    assert steps[0].observation["agent"].tolist() == np.eye(3).tolist()


def test_the_time_limit_cuts_only_agents_that_are_still_there() -> None:
    _, *steps = _played(agents_view(Leavers(1, 2), "rows"), 3)
    assert steps[1].truncated.tolist() == [False, False, True]
    assert steps[1].terminated.tolist() == [True, True, False]
    assert not steps[2].terminated.any() and not steps[2].truncated.any()


def test_the_joint_view_pays_the_team_and_tells_who_is_alive_and_what_each_got() -> None:
    _, *steps = _played(agents_view(Leavers(2), "joint"), 4)
    assert [each.reward.tolist() for each in steps] == [[6, 6], [5, 5], [3, 3], [0, 0]]
    assert [each.terminated.tolist() for each in steps] == [[False] * 2, [False] * 2, [True] * 2, [False] * 2]
    assert [each.observation["alive"][0].tolist() for each in steps] == [
        [0, 1, 1],
        [0, 0, 1],
        [0, 0, 0],
        [1, 1, 1],
    ]
    assert steps[1].observation["reward"][0].tolist() == [0, 2, 3]
    assert steps[1].observation["state"][0].tolist() == [2, 2, 2]  # all observations: it has no state


def test_a_shared_reward_is_the_teams_once() -> None:
    env = get_env("TwoStepGame-v0")(1)
    for view in VIEWS:
        seen = agents_view(env, view)
        state, _ = seen.reset(random.key(0))
        total = 0.0
        for actions in ([1, 0], [1, 1]):  # to game 2B, there both dare
            action = tf.constant([actions] if view == "joint" else actions)
            state, step = seen.step(state, action, random.key(1))
            rows = step.reward.numpy()
            total += float(rows.sum()) * (1.0 if view == "joint" else seen.team_share)
        assert total == 8.0 and bool(tf.reduce_all(step.terminated))


class Alike(Leavers):
    """All are paid 10 for each step that anybody is there; the first leaves after one, the last after 3."""

    shared_reward = True

    def dynamics(self, physics: Any, action: Any, seed: Any) -> Any:
        physics, reward, gone = super().dynamics(physics, action, seed)
        return physics, tf.fill(reward.shape, 10.0), gone


def test_a_shared_reward_does_not_fall_when_agents_leave() -> None:
    _, *joint = _played(agents_view(Alike(1), "joint"), 4)
    assert [each.reward.tolist() for each in joint] == [[10], [10], [10], [0]]
    rows = agents_view(Alike(1), "rows")
    _, *steps = _played(rows, 4)
    team = Team(rows.agents, rows.team_share)
    assert [team.reward(tf.constant(each.reward)).numpy() for each in steps] == pytest.approx([10, 10, 10, 0])


@pytest.mark.parametrize(
    ("choice", "pay"), [((0, 0, 0), 7), ((0, 1, 1), 7), ((1, 0, 0), 0), ((1, 0, 1), 1), ((1, 1, 1), 8)]
)
def test_the_two_step_game_pays_as_its_paper_says(choice: tuple[int, int, int], pay: float) -> None:
    view = agents_view(get_env("TwoStepGame-v0")(1), "joint")
    state, _ = view.reset(random.key(0))
    state, first = view.step(state, tf.constant([[choice[0], 0]]), random.key(0))
    state, second = view.step(state, tf.constant([choice[1:]]), random.key(0))
    assert float(first.reward[0]) == 0.0 and float(second.reward[0]) == pay
    assert first.observation["state"].numpy().argmax() == 1 + choice[0]


def test_the_two_step_game_shows_in_a_picture_where_the_first_team_is() -> None:
    env = make_eval_envs("TwoStepGame-v0", 2)
    env.reset(0)
    first = env.render()
    env.step(np.array([1, 0, 0, 0]))  # the first team to game 2B, the second one to 2A
    then = env.render()
    assert first.shape == then.shape == (32, 96, 3) and first.dtype == np.uint8
    changed = (first != then).any((0, 2)).reshape(3, 32).any(1)
    assert changed.tolist() == [True, False, True]


def test_an_episode_of_a_team_is_counted_once_and_pays_the_sum() -> None:
    team = Team(3, 1.0)
    reward = tf.constant([[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])
    assert team.reward(reward).numpy().tolist() == [[6.0, 15.0]]
    assert Team(3, 1 / 3).reward(reward).numpy().tolist() == [[2.0, 5.0]]
    terminated = tf.constant([[False, True, False], [True, False, True], [False, False, False]])
    mask = tf.constant([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [0.0, 0.0, 0.0]])  # the last row resets
    ended = team.ended(terminated, tf.zeros_like(terminated), mask)
    assert ended.numpy().tolist() == [[False], [True], [False]]
    assert team.any(mask).numpy().tolist() == [[1.0], [1.0], [0.0]]
    assert team.new(terminated[0], tf.constant([False, True, False])).numpy().tolist() == [False] * 3


def test_rows_are_told_the_action_and_the_reward_before_them() -> None:
    env = PreviousActionReward(agents_view(Leavers(2), "rows"))
    assert (env.agents, env.num_envs) == (3, 6)
    seed, action = tf.constant([1, 2]), tf.constant([0, 1, 1, 1, 1, 0])
    state, shown = env.reset(seed)
    told = []
    for _ in range(4):  # an episode, and its reset
        told.append(shown.observation)
        state, shown = env.step(state, action, seed)
    told.append(shown.observation)
    actions = [each["previous_action"].numpy().tolist() for each in told]
    assert actions == [[0] * 6, *[[1, 2, 2, 2, 2, 1]] * 3, [0] * 6]
    rewards = [each["previous_reward"].numpy()[:, 0].tolist() for each in told]
    assert rewards == [[0] * 6, [1, 2, 3] * 2, [0, 2, 3] * 2, [0, 0, 3] * 2, [0] * 6]


@pytest.mark.parametrize("view", few(VIEWS, ("rows", "joint")))
@pytest.mark.parametrize("env_id", OF_AGENTS)
def test_resets_limits_and_spaces_are_those_of_all_environments(env_id: str, view: str) -> None:
    env: Any = make_env(env_id, "graph", 4, None, LIMIT, view=view)
    env.action_space.seed(0)

    step = tf.function(env.step, autograph=False)  # compiled by XLA: the test below

    state, before = env.reset(random.key(3))
    elapsed = np.zeros(4, int)
    ends = 0
    for i in range(STEPS):
        action = np.stack([env.action_space.sample() for _ in range(env.num_envs)])
        over = state.episode_end.numpy()
        state, now = step(state, tf.constant(action), random.key(i))
        tf.nest.assert_same_structure(before, now)
        elapsed = np.where(over, 0, elapsed + 1)
        np.testing.assert_array_equal(state.elapsed_steps, elapsed)
        assert not now.reward.numpy().reshape(4, -1)[over].any()
        assert elapsed.max() <= LIMIT
        ends += over.sum()
        for row in range(env.num_envs):
            shown = tf.nest.map_structure(lambda x, row=row: x.numpy()[row], now.observation)
            assert env.observation_space.contains(_typed(shown, env.observation_space)), (env_id, view, i)
    assert ends


def _typed(shown: dict[str, np.ndarray], space: spaces.Dict) -> dict[str, np.ndarray]:
    return {name: np.asarray(each, space[name].dtype) for name, each in shown.items()}


@pytest.mark.parametrize("env_id", few(OF_AGENTS, PLAYED))
def test_episodes_on_the_host_are_those_in_the_graph(env_id: str, monkeypatch) -> None:
    monkeypatch.setattr("rl.envs.graph_gym.BY_XLA", True)
    host = make_eval_envs(env_id, 2)
    env: Any = make_env(env_id, "graph", 2)
    assert isinstance(host, GraphHost) and host.agents == env.agents
    shown = host.reset(5)
    state, step = env.reset(random.key(5))
    env.action_space.seed(1)
    for i in range(5):
        for name, part in step.observation.items():
            np.testing.assert_allclose(shown[name], part, rtol=1e-5, atol=1e-6)
        action = np.stack([env.action_space.sample() for _ in range(env.num_envs)])
        shown, *_ = host.step(action)
        state, step = env.step(state, tf.constant(action), random.fold_in(random.key(5), i))


def test_an_episode_without_a_limit_is_cut_in_an_evaluation(monkeypatch) -> None:
    monkeypatch.setattr("rl.envs.graph_host.UNLIMITED", 2)
    host = GraphHost(agents_view(Leavers(1), "rows"))
    host.reset(0)
    ends = [host.step(np.zeros(3, np.int32))[3].tolist() for _ in range(2)]
    assert ends == [[False] * 3, [False, False, True]] and host.step_limit == 2


def test_an_environment_that_lacks_parts_is_told_which() -> None:
    class Half(Leavers):
        state_space = spaces.Box(0.0, 1.0, (2,), np.float32)

    Half.agent_names = ()
    with pytest.raises(UsageError, match=r"environment half: Half lacks state\(\), agent_names"):
        check_multi_agent_env("half", Half(1))
    with pytest.raises(UsageError, match=r"unknown view 'row' of many agents.*rows"):
        make_env("TwoStepGame-v0", "graph", 1, view="row")
