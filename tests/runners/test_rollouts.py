"""What the runners record: every step against Gymnasium's own physics, every episode recounted in Python."""

from __future__ import annotations

import itertools

import gymnasium
import numpy as np
import pytest
import tensorflow as tf
from marked import rest

from rl.types import Trajectory

LIMIT = 20
SHAPE = {"num_envs": 4, "rollout_length": 30, "max_episode_steps": LIMIT}


def record_in_graph(runner):
    """Makes the (eager) runner keep its trajectories instead of learning from them."""
    kept = []

    def keep(trajectory, *_):
        kept.append(tf.nest.map_structure(lambda x: x.numpy(), trajectory))
        return {"updates": tf.constant(0.0)}

    runner.iteration.learn = keep
    return kept


def record_sync(runner):
    """As `record_in_graph`, from the arrays that are handed to the learner."""
    kept, learn = [], runner._learn

    def keep(arrays):
        observation, action, numbers = (np.array(each) for each in arrays)
        reward, terminated, truncated, mask = numbers[:4]
        kept.append(Trajectory(observation, action, reward, terminated > 0, truncated > 0, mask, {}))
        return learn(arrays)

    runner._learn = keep
    return kept


def collect(build, backend, iterations=4, **overrides):
    mode = "eager" if backend == "graph" else "graph"
    overrides = {"env": "CartPole-v1", "env_backend": backend, **SHAPE, **overrides}
    runner = build("ppo", compile=mode, **overrides)
    kept = (record_in_graph if backend == "graph" else record_sync)(runner)
    sums = runner.run(iterations)
    assert len(kept) == iterations
    joined = [np.concatenate([getattr(each, name) for each in kept]) for name in Trajectory._fields[1:6]]
    observation = np.concatenate([*(each.observation[:-1] for each in kept), kept[-1].observation[-1:]])
    for before, after in itertools.pairwise(kept):  # a rollout goes on where the last one stopped
        np.testing.assert_array_equal(before.observation[-1], after.observation[0])
    return Trajectory(observation, *joined, {}), sums


COLLECTED = {}  # by backend


def with_scaled_rewards(build, backend):
    """What `collect` returns where rewards are scaled: they are recorded and counted as they came.

    Played once for all tests."""
    if backend not in COLLECTED:
        overrides = {"normalize_reward": True, "reward_augmentation": "scale:0.1"}
        COLLECTED[backend] = collect(build, backend, **overrides)
    return COLLECTED[backend]


@pytest.mark.parametrize("backend", ["graph", "gym", *rest("envpool")])
def test_every_recorded_step_is_the_environments(build, backend):
    trajectory, _ = with_scaled_rewards(build, backend)
    physics = gymnasium.make("CartPole-v1").unwrapped
    physics.reset(seed=0)
    kinds = {"terminated": 0, "truncated": 0, "reset": 0}
    for b in range(SHAPE["num_envs"]):
        length, ended = 0, False
        for t, action in enumerate(trajectory.action[:, b]):
            here = f"step {t} of environment {b}"
            after = trajectory.observation[t + 1, b]
            flags = bool(trajectory.terminated[t, b]), bool(trajectory.truncated[t, b])
            if ended:  # the autoreset step
                assert (trajectory.mask[t, b], trajectory.reward[t, b], *flags) == (0, 0, False, False), here
                assert (np.abs(after) <= 0.05).all(), here
                length, ended = 0, False
                kinds["reset"] += 1
                continue
            length += 1
            physics.state = trajectory.observation[t, b].astype(np.float64)
            physics.steps_beyond_terminated = None
            expected, reward, terminated, _, _ = physics.step(int(action))
            np.testing.assert_allclose(after, expected, rtol=1e-4, atol=1e-5, err_msg=here)
            at_limit = length == LIMIT
            assert flags[0] == terminated, here
            assert flags[1] == at_limit, here
            assert (trajectory.mask[t, b], trajectory.reward[t, b]) == (1, reward), here
            ended = any(flags)
            kinds["terminated"] += flags[0]
            kinds["truncated"] += flags[1]
    assert min(kinds.values()) > 0, kinds


@pytest.mark.parametrize("backend", ["graph", *rest("gym", "envpool")])
def test_returns_and_lengths_of_episodes_are_counted_exactly(build, backend):
    trajectory, sums = with_scaled_rewards(build, backend)  # of CartPole, which are all 1
    returns, lengths = [], []
    for b in range(SHAPE["num_envs"]):
        total = count = 0
        for t in range(len(trajectory.reward)):
            if trajectory.mask[t, b] == 0:
                total = count = 0
                continue
            total, count = total + trajectory.reward[t, b], count + 1
            if trajectory.terminated[t, b] or trajectory.truncated[t, b]:
                returns.append(total)
                lengths.append(count)
    assert len(returns) > SHAPE["num_envs"]
    assert sums["episodes"] == len(returns)
    assert sums["episode_return"] == sum(returns)
    assert sums["episode_return_min"] == min(returns) < max(returns) == sums["episode_return_max"]
    assert sums["episode_length"] == sum(lengths)
    assert sums["transitions"] == trajectory.mask.sum()


def test_the_log_probs_and_values_are_those_of_the_policy_that_acted(build):
    runner = build("ppo", env="CartPole-v1", compile="eager", num_envs=4, rollout_length=5)
    kept = record_in_graph(runner)
    runner.run(1)
    agent, rollout = runner.agent, kept[0]
    flat = tf.reshape(tf.constant(rollout.observation[:-1]), [-1, 4])
    output = agent.policy(flat, (), tf.constant([0, 0]), True)
    action = tf.reshape(tf.constant(rollout.action), [-1])
    log_prob = tf.reshape(output.distribution.log_prob(action), [5, 4])
    np.testing.assert_allclose(rollout.extras["log_prob"], log_prob, rtol=1e-5)
    np.testing.assert_allclose(rollout.extras["value"], tf.reshape(output.value, [5, 4]), rtol=1e-5)


def test_exploration_follows_the_steps_within_a_rollout(build):
    # Epsilon falls from 1 to 0 over the first 40 steps of each environment: no random action after them.
    runner = build(
        "dqn",
        env="CartPole-v1",
        compile="eager",
        num_envs=8,
        rollout_length=80,
        exploration_steps=8 * 40,
        exploration_epsilon_end=0.0,
    )
    kept = record_in_graph(runner)
    runner.run(1)
    rollout = kept[0]
    q_values = runner.agent.network(tf.reshape(tf.constant(rollout.observation[:-1]), [-1, 4]))
    greedy = rollout.action == tf.argmax(q_values, -1).numpy().reshape(80, 8)
    assert greedy[40:].all()
    assert not greedy[:20].all()


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["graph", *rest("gym")])
def test_noisy_networks_explore_from_the_first_rollout(build, backend):
    runner = build(
        "dqn", env="CartPole-v1", env_backend=backend, noisy=True, act_select="greedy", rollout_length=4
    )
    seen = []
    if backend == "gym":
        seen.append(np.array(runner.agent.network.advantage.noise_in.numpy()))
    runner.run(1)
    seen.append(np.array(runner.agent.network.advantage.noise_in.numpy()))
    for noise in seen:
        assert np.count_nonzero(noise) == noise.size
