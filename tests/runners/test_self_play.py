"""Self-play: who enters the league and when, who plays by which weights, what is counted and kept."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from rl.envs.graph_host import make_graph
from rl.errors import UsageError
from rl.ops import random
from rl.runners.all_games import _outcomes
from rl.runners.evaluate import Evaluator

NAME = "ppo_tictactoe_selfplay"
SMALL = {"num_envs": 8, "rollout_length": 16, "minibatches": 2, "epochs": 1, "league.size": 2}


def test_past_selves_enter_by_the_period_and_play_by_their_own_weights(build, state_of, assert_same_bits):
    runner = build(NAME, lr=0.05, **SMALL | {"league.period": 2 * 8 * 16})
    agent, league = runner.agent, runner.league
    stack = league.weights["network/policy/kernel"]
    live = agent.policy_variables["network/policy/kernel"]
    untrained = live.numpy()
    runner.run(2)  # steps 0 and 128: the untrained policy alone
    np.testing.assert_array_equal(stack[0], untrained)
    assert int(league.entered) == 1 and not np.array_equal(live, untrained)
    at_256, saved = live.numpy(), state_of(runner)
    sums = runner.run(1)
    assert int(league.entered) == 2 and int(league.last_step) == 256
    np.testing.assert_array_equal(stack[0], untrained)
    np.testing.assert_array_equal(stack[1], at_256)
    assert sums["episodes"] > 8  # of five steps at most, and the reset, in 16
    runner.run(2)
    after = state_of(runner)
    for name, variable in runner.variables.items():  # all there is to a run: from here it goes the same way
        variable.assign(saved[name])
    runner.run(3)
    assert_same_bits(state_of(runner), after)
    assert int(league.entered) == 3 and float(league.elo[0]) != 0.0
    assert not np.array_equal(stack[0], untrained)
    np.testing.assert_array_equal(stack[1], at_256)
    scalars = runner.scalars()
    assert scalars["league/entered"] == 3 and {"league/elo_1", "league/win_rate_0"} < scalars.keys()
    evaluator = Evaluator(agent, 8, {"opponent": "random"})
    found = evaluator.run(3)
    scores = 0.5 + 0.5 * found.returns
    assert evaluator.scores(found) == {
        "score": scores.mean(),
        "score_first": scores[::2].mean(),
        "score_second": scores[1::2].mean(),
    }
    # Each opponent acts by its own weights: member k by the stack's, the last one by the present ones.
    env = make_graph("TicTacToe-v0", 3, {"opponent": "random"}, None)
    board = tf.constant([[0, 0, 1, 0, 2, 0, 0, 0, 0]] * 3)
    seen, seed = env.seen(board, tf.zeros([3], tf.int32)), random.key(5)
    for stacked in league.weights.values():
        stacked.assign(tf.zeros_like(stacked))
    bias, mine = league.weights["network/policy/bias"], agent.policy_variables["network/policy/bias"]
    bias.assign(100.0 * np.eye(10, dtype=np.float32)[[5, 7]])
    mine.assign(100.0 * np.eye(10, dtype=np.float32)[8])
    who = league.start(3, seed)._replace(member=tf.constant([1, 2, 0]))
    action, after = league.act(board, seen, who, seed)
    np.testing.assert_array_equal(action, [7, 8, 5])
    assert after.memory == ()


def test_one_that_beats_all_members_enters_at_once(build):
    runner = build(NAME, **SMALL | {"league.period": 10**9, "league.win_rate": 0.6})
    league = runner.league
    league.admit(tf.constant(640, tf.int64))
    assert int(league.entered) == 1  # an even score is not enough
    league.take(tf.constant([100.0, 0.0, 3.0]), tf.constant([100.0, 0.0, 0.0]))
    rate, rating = float(league.win_rate[0]), float(league.rating)
    np.testing.assert_allclose([rate, rating], [1.0 - 0.5 * 0.99**100, 16.0], rtol=1e-5)
    league.admit(tf.constant(768, tf.int64))
    assert int(league.entered) == 2 and int(league.last_step) == 768
    np.testing.assert_allclose(league.win_rate, [rate, 0.5])
    np.testing.assert_allclose(league.elo, [0.0, 16.0])
    league.admit(tf.constant(896, tf.int64))
    assert int(league.entered) == 2  # the new one has not been beaten yet


def test_past_selves_of_learners_by_values_explore_as_these_do(build):
    opponents = {"env_kwargs": {"opponent": "random"}, "train_env_kwargs": {"opponent": "league"}}
    explores = {"min_replay_size": 64, "exploration_epsilon_end": 0.0, "exploration_steps": 1_000}
    league = build("dqn", env="TicTacToe-v0", num_envs=64, **opponents, **explores).league
    env = make_graph("TicTacToe-v0", 64, {"opponent": "random"}, None)
    empty = tf.zeros([64, 9], tf.int32)
    seen = env.seen(empty, tf.zeros([64], tf.int32))

    def replies(step):
        league.admit(tf.constant(step, tf.int64))
        action, _ = league.act(empty, seen, league.start(64, random.key(1)), random.key(2))
        return len(set(action.numpy().tolist()))

    assert replies(0) == 9  # at random
    assert replies(500_000) <= 2  # the best ones, of the untrained member and of the present self


def test_what_cannot_play_itself_is_one_line(build):
    options = {"env_kwargs": {"opponent": "random"}, "train_env_kwargs": {"opponent": "league"}}
    with pytest.raises(UsageError, match="no self that learns"):
        build("es", env="TicTacToe-v0", num_envs=4, **options)
    with pytest.raises(UsageError, match="leave previous_action_reward out"):
        build(NAME, previous_action_reward=True, **SMALL)


def test_all_games_are_those_of_every_reply() -> None:
    def env_of(count):
        return make_graph("TicTacToe-v0", count, {"opponent": "random"}, None)

    opponents = make_graph("TicTacToe-v0", 1, {"opponent": "perfect"}, None).opponents

    def lowest(observation):
        return observation["action_mask"].numpy().argmax(1)

    def perfect(observation):
        board = observation["observation"].numpy().reshape(-1, 9, 2)
        first = observation["agent"].numpy()[:, 0] == 1
        pieces = tf.constant(np.where(first[:, None], board @ [1, 2], board @ [2, 1]).astype(np.int32))
        return opponents.act(pieces, observation, (), random.key(0))[0].numpy()

    # As the second player the lowest empty cell is beaten, for one by 4, (0), 2, (1), 6.
    assert _outcomes(env_of, lowest, 1).losses > 0
    for side in (0, 1):
        found = _outcomes(env_of, perfect, side)
        assert found.losses == 0 and found.wins > 0 and found.draws > 0
