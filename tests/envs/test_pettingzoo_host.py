"""PettingZoo's environments on the host: their own numbers, agents that leave, and both views."""

from __future__ import annotations

import builtins
import importlib
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pettingzoo
import pytest
from gymnasium import spaces
from leaving_team import Leaving
from mpe2 import simple_tag_v3
from pettingzoo.classic import rps_v2
from pettingzoo.classic.tictactoe import tictactoe
from pettingzoo.utils.conversions import aec_to_parallel_wrapper, parallel_to_aec_wrapper

from rl.envs import make_env, make_eval_envs
from rl.envs.host import env_seeds
from rl.envs.make import chosen_backend
from rl.envs.own import check_trusted
from rl.envs.pettingzoo_envs import is_cooperative, without_waste
from rl.envs.pettingzoo_host import JointHost, RowsHost, TeamEnvs
from rl.errors import UsageError

TAG, LEAVING, TICTACTOE = (
    "pettingzoo:mpe2.simple_tag_v3",
    "pettingzoo:leaving_team",
    "pettingzoo:classic/tictactoe_v3",
)
SPEAKER = "pettingzoo:mpe2.simple_speaker_listener_v4"


def test_both_views_have_the_numbers_of_pettingzoos_own_environments() -> None:
    options = {"max_cycles": 4}
    rows = make_env(TAG, "auto", 2, options, view="rows_and_state")
    joint = make_env(TAG, "host", 2, options, view="joint")
    originals = [simple_tag_v3.parallel_env(**options) for _ in range(2)]
    names, rng = originals[0].possible_agents, np.random.default_rng(0)
    assert (rows.agents, joint.agents) == (4, 1)  # rows of each environment
    assert rows.team.agent_names == tuple(names)
    assert rows.observation_space["observation"].shape == (16,)
    assert rows.action_space == originals[0].action_space(names[0])
    assert joint.action_space == spaces.MultiDiscrete([5] * 4)
    seen = [each.reset(seed=seed)[0] for each, seed in zip(originals, env_seeds(7, 2), strict=True)]
    of_rows, of_joint = rows.reset(7), joint.reset(7)
    for t in range(12):
        theirs = np.array(
            [[np.pad(each[name], (0, 16 - len(each[name]))) for name in names] for each in seen]
        )
        state = np.array([each.state() for each in originals])
        np.testing.assert_array_equal(of_rows["observation"], theirs.reshape(8, 16))
        np.testing.assert_array_equal(of_rows["state"], np.repeat(state, 4, 0))
        np.testing.assert_array_equal(of_rows["agent"], np.tile(np.eye(4), (2, 1)))
        np.testing.assert_array_equal(of_joint["agents"], theirs)
        np.testing.assert_array_equal(of_joint["state"], state)
        np.testing.assert_array_equal(of_joint["alive"], np.ones((2, 4)))
        for env, shown in ((rows, of_rows), (joint, of_joint)):
            assert env.observation_space.contains({key: each[0] for key, each in shown.items()})
        action = rng.integers(5, size=(2, 4))
        of_rows, *rows_rest = rows.step(action.ravel())
        of_joint, *joint_rest = joint.step(action)
        reward, cut = np.zeros((2, 4), np.float32), t % 5 == 3  # the fifth step resets
        for i, original in enumerate(originals):
            if t % 5 == 4:
                seen[i] = original.reset()[0]
            else:
                seen[i], rewards, _, truncated, _ = original.step(dict(zip(names, action[i], strict=True)))
                reward[i] = [rewards[name] for name in names]
                assert all(each == cut for each in truncated.values())
        for each, expected in zip(rows_rest, (reward.ravel(), [False] * 8, [cut] * 8), strict=True):
            np.testing.assert_array_equal(each, expected)
        for each, expected in zip(joint_rest, (reward.sum(1), [False] * 2, [cut] * 2), strict=True):
            np.testing.assert_array_equal(each, expected)
        np.testing.assert_array_equal(of_joint["reward"], reward)
    rows.close()
    joint.close()


def test_played_at_once_it_shows_what_pettingzoos_conversion_shows_and_is_looked_at_once() -> None:
    def both(make: Any) -> tuple[Any, Any]:
        original = aec_to_parallel_wrapper(make())
        return original, without_waste(aec_to_parallel_wrapper(make()))

    makers = (lambda: parallel_to_aec_wrapper(Leaving(pays=True)), simple_tag_v3.env, rps_v2.env)
    for make, steps in zip(makers, (3, 25, 15), strict=True):
        original, ours = both(make)
        assert type(ours) is not type(original) and isinstance(ours, aec_to_parallel_wrapper)
        np.testing.assert_equal(ours.reset(seed=3), original.reset(seed=3))
        for t in range(steps):
            action = {name: 1 + (t + i) % 2 for i, name in enumerate(original.agents)}
            np.testing.assert_equal(ours.step(action), original.step(action))
            assert ours.agents == original.agents
        assert not ours.agents

    _, ours = both(simple_tag_v3.env)
    ours.reset(seed=3)
    looks, observe = [], ours.aec_env.observe
    ours.aec_env.observe = lambda name: looks.append(name) or observe(name)
    ours.step(dict.fromkeys(ours.possible_agents, 1))
    assert looks == list(ours.possible_agents)


def test_agents_that_do_not_act_in_turn_cannot_be_played_at_once() -> None:
    ours = without_waste(aec_to_parallel_wrapper(simple_tag_v3.env()))
    ours.reset(seed=3)
    ours.aec_env.unwrapped.agent_selection = "agent_0"
    with pytest.raises(UsageError, match="do not act in turn"):
        ours.step(dict.fromkeys(ours.possible_agents, 1))


def test_agents_leave_one_by_one_and_come_back_with_the_reset() -> None:
    rows, joint = make_env(LEAVING, "auto", 1, view="rows_and_state"), JointHost(TeamEnvs(LEAVING, 1))
    first = rows.reset(0)
    np.testing.assert_array_equal(first["observation"], np.zeros((3, 2)))
    np.testing.assert_array_equal(first["action_mask"], [[1, 1, 0], [1, 1, 0], [1, 1, 1]])  # Discrete 2, 2, 3
    joint.reset(0)
    # of each step, for a, b, c: observation, reward, terminated, truncated, alive; state, team's ends
    expected = [
        ([[1, 0], [1, 1], [1, 0]], [1, 1, 3], [1, 0, 0], [0, 0, 0], [0, 1, 1], 10, (False, False)),
        ([[0, 0], [2, 2], [2, 0]], [0, 1, 3], [1, 0, 0], [0, 1, 0], [0, 0, 1], 20, (False, False)),
        ([[0, 0], [0, 0], [3, 0]], [0, 0, 3], [1, 1, 1], [0, 0, 0], [0, 0, 0], 30, (True, False)),
        ([[0, 0], [0, 0], [0, 0]], [0, 0, 0], [0, 0, 0], [0, 0, 0], [1, 1, 1], 0, (False, False)),
        ([[1, 0], [1, 1], [1, 0]], [1, 1, 3], [1, 0, 0], [0, 0, 0], [0, 1, 1], 10, (False, False)),
    ]
    for seen, reward, terminated, truncated, alive, state, ends in expected:
        observation, *rest = rows.step(np.array([1, 1, 2]))  # the third of c's actions is 3
        np.testing.assert_array_equal(observation["observation"], seen)
        np.testing.assert_array_equal(observation["state"], [[state]] * 3)
        acts = np.add(alive, truncated)  # who was cut off would have gone on
        legal = [[1, acts[0], 0], [1, acts[1], 0], [1, acts[2], acts[2]]]
        np.testing.assert_array_equal(observation["action_mask"], legal)
        for each, values in zip(rest, (reward, terminated, truncated), strict=True):
            np.testing.assert_array_equal(each, values)
        observation, team, *flags = joint.step(np.array([[1, 1, 2]]))
        np.testing.assert_array_equal(observation["agents"][0], seen)
        np.testing.assert_array_equal(observation["alive"][0], alive)
        np.testing.assert_array_equal(observation["reward"][0], reward)
        assert team[0] == sum(reward)
        assert tuple(bool(each[0]) for each in flags) == ends


def test_the_step_limit_cuts_those_who_are_there() -> None:
    joint = JointHost(TeamEnvs(LEAVING, 1, max_episode_steps=1))
    rows = RowsHost(TeamEnvs(LEAVING, 1, max_episode_steps=1))
    joint.reset(0)
    rows.reset(0)
    observation, _, terminated, truncated = joint.step(np.array([[0, 0, 0]]))
    assert (terminated[0], truncated[0]) == (False, True)
    np.testing.assert_array_equal(observation["alive"], [[0, 1, 1]])  # values of b and c follow
    rows_seen, _, terminated, truncated = rows.step(np.array([0, 0, 0]))
    np.testing.assert_array_equal(terminated, [True, False, False])
    np.testing.assert_array_equal(truncated, [False, True, True])
    masks = [[1, 0, 0], [1, 1, 0], [1, 1, 1]]  # values of b and c are of all that they might do next
    np.testing.assert_array_equal(rows_seen["action_mask"], masks)
    np.testing.assert_array_equal(observation["action_mask"][0], np.ravel(masks))
    stays = JointHost(TeamEnvs(LEAVING, 1, {"stays": True}, 7))
    stays.reset(0)
    assert [bool(stays.step(np.zeros((1, 3), np.int64))[3][0]) for _ in range(9)] == [False] * 6 + [True] + [
        False
    ] * 2


def test_a_game_by_turns_lets_idle_players_pass_by_their_first_action() -> None:
    rows, original = RowsHost(TeamEnvs(TICTACTOE, 1)), pettingzoo.make("aec", "classic/tictactoe_v3")
    original.reset()
    observation = rows.reset(0)
    assert rows.observation_space["observation"].shape == (3, 3, 2)
    assert observation["observation"].dtype == np.float32
    for move, rewards in zip([0, 3, 1, 4, 2], [[0, 0]] * 4 + [[1, -1]], strict=True):
        turn = rows.team.agent_names.index(original.agent_selection)
        for a, name in enumerate(rows.team.agent_names):
            seen = original.observe(name)
            np.testing.assert_array_equal(observation["observation"][a], seen["observation"])
            legal = seen["action_mask"] if a == turn else np.eye(9)[0]
            np.testing.assert_array_equal(observation["action_mask"][a], legal)
        action = np.zeros(2, np.int64)
        action[turn] = move
        original.step(move)
        observation, reward, terminated, truncated = rows.step(action)
        np.testing.assert_array_equal(reward, rewards)
        assert terminated.all() == (move == 2)
        assert not truncated.any()


def test_idle_players_pass_where_a_game_shows_the_movers_mask_to_all(monkeypatch: pytest.MonkeyPatch) -> None:
    own = tictactoe.raw_env._get_mask
    monkeypatch.setattr(tictactoe.raw_env, "_get_mask", lambda self, _: own(self, self.agent_selection))
    rows = RowsHost(TeamEnvs(TICTACTOE, 1))
    np.testing.assert_array_equal(rows.reset(0)["action_mask"], [np.ones(9), np.eye(9)[0]])
    np.testing.assert_array_equal(
        rows.step(np.array([3, 0]))[0]["action_mask"], [np.eye(9)[0], 1 - np.eye(9)[3]]
    )


def test_unequal_boxes_of_actions_are_as_wide_as_the_widest() -> None:
    team = TeamEnvs(SPEAKER, 1, {"continuous_actions": True})
    joint = JointHost(team)
    assert team.action_space == spaces.Box(0.0, 1.0, (5,), np.float32)  # the speaker has 3
    assert joint.action_space.shape == (10,)
    joint.reset(0)
    assert np.isfinite(joint.step(np.full((1, 10), 2.0, np.float32))[1]).all()


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        (TAG, False),
        ("pettingzoo:mpe2.simple_push_v3", False),
        ("pettingzoo:mpe2.simple_spread_v3", True),
        (TICTACTOE, False),
        ("pettingzoo:pettingzoo.classic.connect_four_v3", False),
        ("pettingzoo:classic/rps_v2", False),
        (LEAVING, True),
    ],
)
def test_spaces_say_whose_rewards_are_opposed(env_id: str, expected: bool) -> None:
    host = make_env(env_id, "auto", 1, view="joint")
    assert host.observation_space["alive"].cooperative == expected


@pytest.mark.parametrize(
    ("env_id", "expected"),
    [
        ("pettingzoo:classic/hanabi-v5", True),
        ("pettingzoo:atari/pong_v3", False),
        ("pettingzoo:pettingzoo.atari.entombed_cooperative_v3", True),
        ("pettingzoo:my_own.simple_tag", True),
    ],
)
def test_what_is_known_of_a_name_holds_for_pettingzoos_own_alone(env_id: str, expected: bool) -> None:
    env: Any = SimpleNamespace()
    assert is_cooperative(env_id, env) == expected
    env.cooperative = not expected  # the environment's own word counts more
    assert is_cooperative(env_id, env) != expected


@pytest.mark.parametrize("env_id", [TAG, "pettingzoo:classic/connect_four_v3"])
def test_the_value_of_a_team_is_refused_where_rewards_are_opposed(build: Any, env_id: str) -> None:
    with pytest.raises(UsageError, match=f"agents of {env_id} have opposed rewards"):
        build("qmix", env=env_id)


@pytest.mark.parametrize(
    ("env_id", "options", "says"),
    [
        ("pettingzoo:classic/tictacto_v3", {}, "tictactoe"),
        ("pettingzoo:no_such_module", {}, "cannot import no_such_module"),
        ("pettingzoo:leaving_team:LeavingTeam", {}, "name the module alone, pettingzoo:leaving_team$"),
        ("pettingzoo:json", {}, "neither parallel_env"),
        (LEAVING, {"speed": 3}, "speed"),
        (LEAVING, {"late": True}, "enter later"),
    ],
)
def test_mistakes_are_one_line(env_id: str, options: dict[str, Any], says: str) -> None:
    with pytest.raises(UsageError, match=says) as error:
        RowsHost(TeamEnvs(env_id, 1, options)).reset(0)
    assert "\n" not in str(error.value)


def test_ids_lead_to_pettingzoo_and_to_nothing_else() -> None:
    assert chosen_backend(TAG, "auto") == chosen_backend(TAG, "host") == "pettingzoo"
    for backend, wrappers in (("gym", []), ("auto", ["gymnasium.wrappers:FlattenObservation"])):
        with pytest.raises(UsageError, match="leave env_backend at auto, and env_wrappers out"):
            make_env(TAG, backend, 1, wrappers=wrappers)
    endless = make_eval_envs("pettingzoo:leaving_team", 2, {"stays": True})
    assert (endless.step_limit, endless.num_envs, endless.agents) == (27_000, 6, 3)
    assert make_eval_envs(TAG, 1, max_episode_steps=5).step_limit == np.inf


def test_a_saved_run_may_name_what_is_pettingzoos_own_or_was_imported() -> None:
    importlib.import_module("leaving_team")
    for env_id in (TAG, TICTACTOE, LEAVING):
        check_trusted("run", env_id, [])
    with pytest.raises(UsageError, match="import antigravity first"):
        check_trusted("run", "pettingzoo:antigravity", [])
    assert "antigravity" not in sys.modules


@pytest.mark.parametrize("env_id", ["classic/chess-v6", "pettingzoo.classic.chess_v6"])
def test_a_game_whose_package_is_missing_says_how_to_install_that(
    monkeypatch: pytest.MonkeyPatch, env_id: str
) -> None:
    monkeypatch.setitem(sys.modules, "chess", None)  # also where it is installed
    for name in [each for each in sys.modules if each.startswith("pettingzoo.classic.chess")]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(UsageError, match=r"missing: .*chess.*: \./setup\.sh uv pip install chess$"):
        TeamEnvs(f"pettingzoo:{env_id}", 1)


def test_without_the_package_one_line_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *args: Any, **kwargs: Any) -> Any:
        if name.partition(".")[0] == "pettingzoo":
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(UsageError, match=r"\./setup\.sh --extra pettingzoo"):
        TeamEnvs(TAG, 1)
