"""AlphaZero: its loss, ranks and outcomes by hand; what it searches, and where it cannot."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.alphazero import Minibatch
from rl.envs.graph.model import model_of
from rl.envs.make import make_env
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.all_games import _outcomes
from rl.runners.build import build_runner
from rl.types import Trajectory

CARTPOLE = {"observation_space": spaces.Box(-5.0, 5.0, (4,)), "action_space": spaces.Discrete(2)}
SEED, STEP = random.key(0), tf.constant(0, tf.int64)
SMALL = {"num_envs": 4, "rollout_length": 6, "minibatches": 1, "epochs": 1, "simulations": 4}


def undecided(agent, value=0.0):
    """Makes the network say that all actions are as likely and all positions worth the same."""
    for head, bias in ((agent.network.policy, 0.0), (agent.network.value, value)):
        head.kernel.assign(tf.zeros_like(head.kernel))
        head.bias.assign(tf.fill(head.bias.shape, bias))


def test_the_loss_is_the_papers(make_agent):
    agent = make_agent("alphazero_sparse_cartpole", **CARTPOLE, value_coef=0.5)
    undecided(agent, 0.25)
    agent.network.policy.bias.assign([0.0, np.log(3.0)])
    weights, outcome = tf.constant([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]), tf.constant([1.0, -1.0, 1.0])
    batch = Minibatch(tf.zeros([3, 4]), weights, outcome, tf.constant([1.0, 1.0, 0.0]))
    loss, metrics, _ = agent.loss(batch, SEED)
    policy = [-0.5 * np.log(0.25) - 0.5 * np.log(0.75), -np.log(0.25)]
    np.testing.assert_allclose(loss, [policy[0] + 0.5 * 0.75**2, policy[1] + 0.5 * 1.25**2, 0.0], rtol=1e-6)
    np.testing.assert_allclose(metrics["policy_loss"], np.mean(policy), rtol=1e-6)
    np.testing.assert_allclose(metrics["value_loss"], (0.75**2 + 1.25**2) / 2, rtol=1e-6)


def test_outcomes_are_ranks_of_whole_episodes_and_values_where_they_go_on(make_agent):
    agent = make_agent("alphazero_sparse_cartpole", **CARTPOLE, num_envs=2, rollout_length=4, minibatches=1,
                       ranked_episodes=4)  # fmt: skip
    undecided(agent, 0.5)
    agent.last.values.assign([10.0, 20.0, 30.0, 40.0])
    agent.last.count.assign(4)
    agent.threshold.assign(30.0)
    # The first environment's episode ends with 25 + 4 after two steps, is reset, and goes on; the second's is
    # cut by a time limit, which is an end as well, with 30: no less than the threshold.
    reward = tf.constant([[2.0, 0.0], [2.0, 5.0], [0.0, 0.0], [1.0, 0.0]])
    score = tf.constant([[25.0, 25.0], [27.0, 25.0], [0.0, 0.0], [0.0, 0.0]])
    terminated = tf.constant([[False, False], [True, False], [False, False], [False, False]])
    truncated = tf.constant([[False, False], [False, True], [False, False], [False, False]])
    mask = tf.constant([[1.0, 1.0], [1.0, 1.0], [0.0, 0.0], [1.0, 1.0]])
    extras = {"score": score, "weights": tf.fill([4, 2, 2], 0.5)}
    action = tf.zeros([4, 2], tf.int64)
    found = agent._outcomes(
        Trajectory(tf.zeros([5, 2, 4]), action, reward, terminated, truncated, mask, extras)
    )
    outcome = tf.reshape(found.outcome, [4, 2]).numpy()
    np.testing.assert_array_equal(outcome[:2], [[-1.0, 1.0], [-1.0, 1.0]])
    np.testing.assert_array_equal(outcome[3], [0.5, 0.5])
    assert sorted(agent.last.values.numpy()) == [29.0, 30.0, 30.0, 40.0]  # in place of 10 and 20
    assert agent.threshold == 30.0


@pytest.mark.parametrize("kind", ["puct", "gumbel"])
def test_a_search_sees_the_fall_that_the_network_does_not_know_of(make_agent, kind):
    """A pole falls at the second step unless the cart is pushed to the side where it leans at the first."""
    agent = make_agent("alphazero_sparse_cartpole", **CARTPOLE, num_envs=2, simulations=24, noise_share=0.0,
                       search=kind)  # fmt: skip
    undecided(agent)
    env = make_env("CartPoleSparse-v0", "graph", 2)
    pole = tf.constant([[0.0, 0.0, 0.19, 0.5], [0.0, 0.0, -0.19, -0.5]])
    state, _ = env.reset(SEED)
    state = state._replace(physics=state.physics._replace(pole=pole, steps=tf.constant([50, 50])))
    for action, falls in ((0, [True, False]), (1, [False, True])):
        after, first = env.step(state, tf.fill([2], tf.cast(action, tf.int64)), SEED)
        second = env.step(after, tf.constant([1, 0], tf.int64), SEED)[1]
        assert not first.terminated.numpy().any() and second.terminated.numpy().tolist() == falls
    model = model_of(env)
    position = model.position(state, pole, tf.zeros([2]))
    grow = tf.function(lambda: agent.plan(model, position, SEED, STEP)[1]["weights"], autograph=False)
    agent.threshold.assign(53.0)
    weights = grow().numpy()
    assert weights.argmax(1).tolist() == [1, 0] and weights.max(1).min() > 0.75
    agent.threshold.assign(52.0)  # to fall at the second step is good enough, and known to be
    assert grow().numpy().argmax(1).tolist() == [0, 1]


@pytest.mark.parametrize(
    ("kind", "simulations"), [("puct", 64), pytest.param("gumbel", 160, marks=pytest.mark.slow)]
)
def test_both_sides_of_a_game_are_searched_for_who_is_on_turn(kind, simulations):
    """By Gumbel all six moves of the third board have 8 simulations before they are halved: enough to see
    every reply to them."""
    overrides = SMALL | {"simulations": simulations, "compile": "graph", "noise_share": 0.0, "search": kind}
    runner = build_runner(resolve("alphazero_tictactoe", overrides), 0)
    agent, env = runner.agent, runner.env
    undecided(agent)
    boards = np.zeros((4, 9), np.int32)
    boards[0, [0, 1]], boards[0, [3, 4]] = 1, 2  # the first player wins at 2
    boards[1, [0, 1, 8]], boards[1, [3, 4]] = 1, 2  # the second one wins at 5
    boards[2, [0, 4]], boards[2, 2] = 1, 2  # the second one has to block at 8
    state, step = env.reset(SEED)
    model = model_of(env)
    position = model.position(state._replace(physics=tf.constant(boards)), step.observation, tf.zeros([8]))
    grow = tf.function(lambda: agent.plan(model, position, SEED, STEP), autograph=False)
    action, kept = grow()
    weights = kept["weights"].numpy().reshape(4, 2, 10)
    assert [weights[game, side].argmax() for game, side in ((0, 0), (1, 1), (2, 1))] == [2, 5, 8]
    for game, side in ((0, 1), (1, 0), (2, 0), (3, 1)):  # who is not on turn passes
        assert weights[game, side].tolist() == [0.0] * 9 + [1.0]
        assert action.numpy().reshape(4, 2)[game, side] == 9


@pytest.mark.slow
def test_it_learns_from_both_sides_and_plays_all_games(build):
    """Untrained, its network loses some of them; a little trained, fewer: `benchmarks` measure the rest."""
    runner = build("alphazero_tictactoe", compile="xla", simulations=8, num_envs=32, rollout_length=16)
    agent = runner.agent

    def lost():
        def act(observation):
            return np.asarray(agent.act(observation, (), SEED, STEP, False)[0])

        def env_of(count):
            return make_env("TicTacToe-v0", "graph", count, {"opponent": "random"})

        found = [_outcomes(env_of, act, side) for side in (0, 1)]
        return sum(each.losses for each in found) / sum(sum(each) for each in found)

    before = lost()
    sums = runner.run(60)
    assert sums["updates"] == 60 * 16 and np.isfinite(sums["loss"])
    assert lost() < 0.75 * before


@pytest.mark.parametrize(
    ("overrides", "line"),
    [
        ({"env_backend": "gym"}, "an in-graph environment alone"),
        ({"env": "LunarLander-v3"}, "an in-graph environment alone"),
        ({"normalize_reward": True}, "the environment's own rewards"),
        ({"env": "SimpleSpread-v0"}, "for one agent, or for games of two"),
        ({"env": "SimpleSpread-v0", "previous_action_reward": True}, "for one agent, or for games of two"),
        ({"env": "TicTacToe-v0"}, "ranks are for one player"),
        ({"env": "TicTacToe-v0", "previous_action_reward": True}, "leave previous_action_reward out"),
        (
            {
                "env": "TicTacToe-v0",
                "env_kwargs": {"opponent": "random"},
                "train_env_kwargs": {"opponent": "league"},
            },
            "opponent:self",
        ),
        ({"minibatches": 5}, "does not divide .*: change one of the three"),
        ({"ranked_episodes": 0}, "episodes to rank by"),
    ],
)
def test_what_it_cannot_do_is_one_line(overrides, line):
    with pytest.raises(UsageError, match=line):
        build_runner(resolve("alphazero_sparse_cartpole", overrides), 0)


def test_a_game_for_two_has_no_score_to_rank_and_names_the_hyperparameter_that_asks():
    model = model_of(make_env("TicTacToe-v0", "graph", 1))
    with pytest.raises(UsageError, match="rank_percentile: ranks are for one player"):
        model.score(tf.zeros([1, 9], tf.int32))
