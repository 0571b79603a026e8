"""What infos say of episodes: which numbers are read, and who tells them."""

from __future__ import annotations

import math

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.envs import graph_gym, make_gym_env
from rl.envs.graph.base import GraphEnv
from rl.envs.graph_host import GraphHost
from rl.envs.measures import EpisodeMeasures, measures_of, shown


@pytest.mark.parametrize(
    ("info", "found"),
    [
        ({"is_success": True, "speed": 2}, {"success_rate": 1.0, "speed": 2.0}),
        ({"is_success": np.float32(0.0), "speed": np.int64(-3)}, {"success_rate": 0.0, "speed": -3.0}),
        ({"success": np.bool_(True), "speed": np.array(0.5)}, {"success_rate": 1.0, "speed": 0.5}),
        ({"is_success": False, "success": True}, {"success_rate": 0.0}),  # the usual name counts
        ({"is_success": None, "success": 1}, {"success_rate": 1.0}),
        ({"is_success": [True], "speed": "fast"}, {}),
        ({"is_success": np.ones(2), "speed": np.ones(1)}, {}),
        ({"is_success": math.nan, "speed": math.inf}, {}),
        ({"other": 1.0}, {}),
        (None, {}),  # no info at all, as some environments have it
    ],
)
def test_bools_and_finite_numbers_are_read_and_nothing_else(info, found):
    measures = measures_of(info, ("speed",))
    assert measures == found and all(type(each) is float for each in measures.values())


def test_training_means_are_over_the_episodes_that_had_the_number():
    measures = EpisodeMeasures(("speed",))
    for env, info in ((0, {"is_success": True, "speed": 1.0}), (1, {"is_success": False}), (0, {"speed": 4})):
        measures.add(env, info)
    assert measures.row() == {"episode/success_rate": 0.5, "episode/speed": 2.5}


def test_the_terminal_shows_what_a_row_has_of_them():
    row = {"eval/return_mean": 9.0, "eval/success_rate": 0.4, "episode/speed": 2.0, "eval/speed": 3.0}
    expected = {"train speed": 2.0, "eval success_rate": 0.4, "eval speed": 3.0}
    assert shown(row, ("speed", "height")) == expected


class Countdown(GraphEnv):
    """Copy i begins with i and adds 1 a step, up to 4; success is to have made 4 steps."""

    observation_space, action_space = spaces.Box(0.0, 4.0, (1,), np.float32), spaces.Discrete(2)

    def initial(self, seed):
        return tf.range(self.num_envs)

    def dynamics(self, physics, action, seed):
        return physics + 1, tf.ones([self.num_envs]), physics + 1 >= 4

    def observe(self, physics):
        return tf.cast(physics, tf.float32)[:, None]

    def info(self, state):
        return {"is_success": state.elapsed_steps == 4, "place": 10 * state.physics}


def test_in_graph_environments_tell_where_their_episodes_end():
    env, told = GraphHost(Countdown(2)), []
    env.tell_ends(lambda i, info: told.append((i, {name: each.item() for name, each in info.items()})))
    env.reset(0)
    for _ in range(5):
        env.step(np.zeros(2, np.int64))
    assert told == [(1, {"is_success": False, "place": 40}), (0, {"is_success": True, "place": 40})]


def test_their_gymnasium_form_has_it_as_info(monkeypatch):
    monkeypatch.setattr(graph_gym, "get_env", lambda env_id: Countdown)
    env = graph_gym.GraphEnvGym("Countdown-v0")
    assert env.reset(seed=0)[1] == {}
    infos = [env.step(0)[-1] for _ in range(4)]
    assert [bool(each["is_success"]) for each in infos] == [False, False, False, True]
    assert [int(each["place"]) for each in infos] == [10, 20, 30, 40]


@pytest.mark.parametrize(("actions", "reached"), [((0, 2), True), ((0, 1), False)])
def test_bit_flip_says_whether_its_goal_is_reached(actions, reached):
    env = make_gym_env("BitFlip-v0", {"bits": 3})
    env.reset(seed=0)
    env.unwrapped.state = np.array([[0, 1, 1], [1, 1, 0]], np.int8)
    assert [env.step(action)[-1]["is_success"] for action in actions] == [False, reached]
