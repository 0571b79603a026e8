"""Rollouts within which tasks are adapted to: what stays, what begins anew, who acts, and where."""

from __future__ import annotations

import json

import numpy as np
import pytest
import tensorflow as tf

import rl
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.ops import random
from rl.ops.trajectories import side_by_side
from rl.runners.adapted import adapted_returns
from rl.runners.adapting import check_adapts_here
from rl.runners.build import build_runner
from rl.saved_run import read_weights, saved_hparams

SMALL = {"num_envs": 6, "task_episodes": 3, "model.hidden": (8,), "log_std_init": -3.0}


def test_a_rollout_is_parts_of_new_episodes_of_tasks_that_stay(build):
    parts = 3
    runner = build("maml_navigation", **SMALL, inner_steps=2, rollout_length=15)
    before = runner._carry.state.physics.task.numpy()
    trajectory, played = runner._rollout(random.key(3), tf.constant(0, tf.int64))
    observation, reward = trajectory.observation.numpy(), trajectory.reward.numpy()
    assert (before.reshape(2, 3, 2) == before.reshape(2, 3, 2)[:, :1]).all()
    after = runner._carry.state.physics.task.numpy()
    assert (after != before).any(1).all()
    for i in range(parts):
        own = slice(5 * i, 5 * i + 5)
        assert not observation[5 * i].any()  # from the origin
        np.testing.assert_array_equal(trajectory.mask[own], [[1] * 6] * 4 + [[0] * 6])
        np.testing.assert_array_equal(trajectory.truncated[own], [[0] * 6] * 3 + [[1] * 6] + [[0] * 6])
        reached = observation[5 * i + 1 : 5 * i + 5]
        distance = np.linalg.norm(reached - before, axis=-1)  # of the same goals in every part
        np.testing.assert_allclose(-reward[own], [*distance, [0.0] * 6], rtol=1e-5, atol=1e-6)
    assert not observation[-1].any()
    assert played.ended.numpy().sum() == 6 * parts
    assert not trajectory.terminated.numpy().any()


def test_the_learned_weights_act_first_and_then_those_adapted_by_it(build):
    runner = build("maml_navigation", **SMALL, rollout_length=12, inner_lr=2.0, epochs=1)
    agent = runner.agent
    trajectory, _ = runner._rollout(random.key(3), tf.constant(0, tf.int64))
    parts = side_by_side(trajectory, 2)
    first = tf.nest.map_structure(lambda x: x[:, :6], parts)
    adapted = agent.inner_step(agent._unadapted(), agent.steps(first))
    for found, expected in zip(agent.task_weights, adapted, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)
    for i, weights in enumerate((agent._unadapted(), adapted)):
        own = agent.steps(tf.nest.map_structure(lambda x, i=i: x[:, 6 * i : 6 * i + 6], parts))
        action = tf.reshape(own.action, [-1, 2])
        log_prob = agent.distribution(weights, own.observation).log_prob(action)
        np.testing.assert_allclose(tf.reshape(own.log_prob, [-1]), log_prob, rtol=1e-3, atol=1e-4)
    other = agent.distribution(agent._unadapted(), own.observation).log_prob(action)
    assert np.abs(other - log_prob).max() > 0.1
    metrics, reward = agent.update(trajectory, random.key(4)).metrics, trajectory.reward.numpy()
    np.testing.assert_allclose(metrics["return_before"], reward[:6].sum(0).mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["return_after"], reward[6:].sum(0).mean(), rtol=1e-5)
    np.testing.assert_allclose(metrics["approximate_kl"], 0.0, atol=1e-5)  # of theta_i made anew


def test_pearl_plays_parts_with_what_it_believes_by_those_before_and_remembers_whole_trials(build):
    """The prior, then the belief that is left after all but the last part; a sequence is of one rollout."""
    small = {"num_envs": 6, "model.hidden": (8,), "rollout_length": 15, "inner_steps": 2, "batch_size": 64}
    runner = build("pearl_navigation", **small, replay_capacity=200, min_replay_size=1)
    agent, memory = runner.agent, runner.iteration.memory
    trajectory, _ = runner._rollout(random.key(3), tf.constant(0, tf.int64))
    believed = [each.numpy() for each in agent.belief]
    agent.resample_noise(random.key(0))
    for i in range(2):
        agent.adapt(tf.nest.map_structure(lambda x, i=i: x[5 * i : 5 * i + 5], trajectory)._replace(
            observation=trajectory.observation[5 * i : 5 * i + 6]))  # fmt: skip
    for found, expected in zip(believed, agent.belief, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4)
    assert not any(each.numpy().any() for each in tf.nest.flatten(runner._carry.recurrent_state))
    memory.add(agent.remembered(trajectory, random.key(0)))
    reward = trajectory.reward.numpy()
    np.testing.assert_allclose(
        agent.returns, [reward[:5].sum(0).mean(), reward[10:].sum(0).mean()], rtol=1e-5
    )
    batch = memory.sample(random.key(1), tf.constant(0, tf.int64))
    assert set(batch.index.numpy()) == set(range(6)) and batch.mask.numpy().all()
    for name in ("observation", "action", "reward", "terminated", "mask"):
        kept = np.take(getattr(trajectory, name)[: 14 + (name == "observation")], batch.index, 1)
        np.testing.assert_array_equal(getattr(batch.trajectory, name), kept, err_msg=name)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"env_backend": "gym"}, "in-graph environments alone keep"),
        ({"normalize_reward": True}, "normalize_reward=true: maml adapts by the environment's own rewards"),
        ({"curiosity": "rnd"}, "curiosity=rnd"),
        (
            {"env": "MultiCartPole-v0", "env_kwargs": {}, "train_env_kwargs": {}},
            "MultiCartPole-v0 is played by",
        ),
    ],
)
def test_where_there_is_nothing_to_adapt_to_one_line_says_so(build, overrides, message):
    with pytest.raises(UsageError, match=message):
        build("maml_navigation", **overrides)


def test_workers_are_refused():
    with pytest.raises(UsageError, match="leave --num_workers out"):
        check_adapts_here(resolve("maml_navigation", {}), object())


def test_runs_that_do_not_adapt_are_refused(tmp_path):
    hparams = resolve("ppo_identity", {}).to_dict()
    (tmp_path / "hparams.json").write_text(json.dumps({"name": None, "seed": 0, "hparams": hparams}))
    with pytest.raises(UsageError, match="a run of ppo, which does not adapt to tasks"):
        adapted_returns(tmp_path, "last", tasks=1)


@pytest.mark.slow
def test_a_gradient_step_on_goals_never_had_moves_the_policy_towards_them(tmp_path):
    """As in figure 4 of the paper: weights that stay where they begin, and one step from them, there."""
    steps = 60 * 200 * 202
    rl.train(
        "maml_navigation", output_dir=tmp_path, eval_episodes=1, num_envs=200, train_steps=steps, lr=2e-3
    )
    run = tmp_path / "run_0"
    returns = adapted_returns(run, "last", tasks=100)  # [2, 100]
    half = 1.96 * returns.std(1) / np.sqrt(100)
    before, after = returns.mean(1)
    assert before + half[0] < after - half[1] and after > -25.0, returns.mean(1)
    hparams, _ = saved_hparams(run)
    own = HParams.from_dict(hparams.to_dict())
    own.num_envs, own.train_env_kwargs = 50 * own.task_episodes, {}
    runner = build_runner(own.freeze(), 5)
    agent, origin = runner.agent, tf.zeros([50, 1, 2])
    read_weights(agent, run, "last")
    goal = runner._carry.state.physics.task.numpy()[:: own.task_episodes]
    assert (np.floor(10.0 * (goal[:, 0] + 0.5)) % 2 == 1).all()  # of the half that is held out
    unadapted = agent.network(tf.zeros([1, 2])).mode().numpy()[0]
    tf.function(runner._rollout, jit_compile=True)(random.key(1), tf.constant(0, tf.int64))
    weights = [tf.convert_to_tensor(each) for each in agent.task_weights]
    action = agent.distribution(weights, origin).mode().numpy()  # the first one of each adapted policy
    runner.close()
    towards = ((action - unadapted) * goal).sum(1) / np.linalg.norm(goal, axis=1)
    towards /= np.linalg.norm(action - unadapted, axis=1)  # cosines
    assert towards.mean() > 0.7 and (towards > 0.0).mean() > 0.9, towards
