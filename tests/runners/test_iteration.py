"""What a learner makes of a rollout : rewards in units of now, values of one network."""

from __future__ import annotations

import gymnasium
import numpy as np
import pytest
import tensorflow as tf

from rl.agents.agent import network_state
from rl.agents.algos.registry import get_algo
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.iteration import Iteration
from rl.runners.parts import make_memory, reward_augmentation
from rl.types import Trajectory, Update
from rl.workers.plan import Workers

BOX = gymnasium.spaces.Box(-np.inf, np.inf, (1,), np.float32)
STEP, KEY = tf.constant(0, tf.int64), random.key(0)
ON_HOST = {"env": "CartPole-v1", "env_backend": "gym", "num_envs": 2, "rollout_length": 4, "gamma": 0.5}
ON_HOST |= {"normalize_advantage": False, "model.hidden": (4,), "compile": "eager", "normalize_reward": False}


def rollout(first, rewards):
    """One environment without episode ends: observations first, first + 1 ..., and these rewards."""
    count = len(rewards)
    number = np.arange(first, first + count + 1, dtype=np.float32)
    zeros = tf.zeros([count, 1])
    reward = tf.constant(rewards, tf.float32)[:, None]
    never = tf.zeros([count, 1], tf.bool)
    action = tf.zeros([count, 1], tf.int32)
    return Trajectory(tf.constant(number[:, None, None]), action, reward, never, never, zeros + 1.0, {})


@pytest.fixture
def replaying():
    """`replaying("dqn", n_step=2)`: a learner of rewards by their running deviation, in one environment with
    rollouts of 4 steps, and the batches that its agent is given."""

    def make(name, **overrides):
        small = {"num_envs": 1, "rollout_length": 4, "replay_capacity": 64, "min_replay_size": 1}
        small |= {"batch_size": 32, "updates_per_iteration": 1, "n_step": 1, "model.hidden": (4,)}
        hparams = resolve(name, {"env": "Test-v0", "normalize_reward": True, **small, **overrides})
        agent = get_algo(name)(hparams, BOX, gymnasium.spaces.Discrete(2), 0)
        batches = []

        def update(batch, seed):
            batches.append(batch)
            return Update({})

        agent.update = update
        tf.config.run_functions_eagerly(True)
        augment = reward_augmentation(agent)
        return Iteration(agent, make_memory(agent, 1, 4, 1), augment=augment), batches

    return make


def by_observation(batch):
    """Observation to reward, of the sampled transitions."""
    return dict(zip(batch.observation[:, 0].numpy().tolist(), batch.reward.numpy(), strict=True))


def test_what_was_stored_long_ago_is_scaled_as_rewards_are_now(replaying):
    # gamma 0: the discounted return is the reward. Deviation of the first rollout: 1; of both, that of
    # 1, -1, 1, -1, 7, -7, 7, -7: 5.
    learner, batches = replaying("dqn", gamma=0.0)
    learner.learn(rollout(0, [1.0, -1.0, 1.0, -1.0]), random.key(1), STEP)
    np.testing.assert_allclose(by_observation(batches[-1])[0.0], 1.0, rtol=1e-3)
    learner.learn(rollout(4, [7.0, -7.0, 7.0, -7.0]), random.key(2), STEP)
    found = by_observation(batches[-1])
    expected = {0.0: 0.2, 1.0: -0.2, 2.0: 0.2, 3.0: -0.2, 4.0: 1.4, 5.0: -1.4, 6.0: 1.4}
    assert set(found) == set(expected)  # the newest has no successor yet
    for number, reward in expected.items():
        np.testing.assert_allclose(found[number], reward, rtol=1e-3)
    stored = learner.memory.ring.variables["reward"].numpy()[:8]
    assert stored.tolist() == [1.0, -1.0, 1.0, -1.0, 7.0, -7.0, 7.0, -7.0]


def test_a_sum_of_several_rewards_is_clipped_at_what_clipped_rewards_amount_to(replaying):
    learner, batches = replaying("dqn", gamma=0.5, n_step=2)
    learner.reward_scale.observe = lambda *_: None
    learner.reward_scale.moments.variance.assign([4.0])
    # 1 + 0.5 * 2 = 2, of deviation 2; 2 - 0.5 * 100 = -48; -100 + 0.5 * 4 = -98: more than 10 + 0.5 * 10
    learner.learn(rollout(0, [1.0, 2.0, -100.0, 4.0]), random.key(1), STEP)
    learner.learn(rollout(4, [0.0] * 4), random.key(1), STEP)
    found = by_observation(batches[-1])
    np.testing.assert_allclose([found[0.0], found[1.0], found[2.0], found[3.0]], [1.0, -15.0, -15.0, 2.0])


def test_rewards_of_sampled_sequences_are_scaled_and_clipped_one_by_one(replaying):
    settings = {"burn_in": 0, "unroll_length": 4, "model.name": "lstm", "gamma": 0.5}
    learner, batches = replaying("r2d2", **settings)
    learner.reward_scale.observe = lambda *_: None
    learner.reward_scale.moments.variance.assign([4.0])
    learner.learn(rollout_with_state(learner, [1.0, -3.0, 100.0, 7.0]), random.key(1), STEP)
    learner.learn(rollout_with_state(learner, [0.0] * 4), random.key(1), STEP)  # the first is whole now
    np.testing.assert_allclose(batches[-1].trajectory.reward[:, 0], [0.5, -1.5, 10.0, 3.5])
    assert learner.memory.ring.variables["reward"].numpy()[:4].tolist() == [1.0, -3.0, 100.0, 7.0]


def rollout_with_state(learner, rewards):
    return rollout(0, rewards)._replace(recurrent_state=learner.agent.initial_state(1)["network"])


def test_rollouts_that_a_worker_sends_again_are_not_counted_again(replaying):
    """Of R2D2's sequences that are longer than a rollout: the newest rollout is the last part of each."""
    settings = {"burn_in": 2, "unroll_length": 5, "model.name": "lstm", "gamma": 0.5}
    learner, _ = replaying("r2d2", **settings, normalize_observation=True)
    learner.memory.add = lambda _: None
    learner.learn(rollout_with_state(learner, [9.0] * 4 + [0.0, 0.0, 2.0, 4.0]), random.key(1), STEP)
    learner.learn(rollout_with_state(learner, [0.0, 0.0, 2.0, 4.0] + [1.0] * 4), random.key(2), STEP)
    # 0, 0, 2, 0.5 * 2 + 4 = 5, then 3.5, 2.75, 2.375, 2.1875
    scale = learner.reward_scale
    np.testing.assert_allclose(scale.discounted_return, [2.1875])
    np.testing.assert_allclose(scale.moments.mean, [17.8125 / 8], rtol=1e-6)
    assert int(scale.moments.count) == int(learner.agent.encoder.count) == 8


def test_environments_that_are_restarted_begin_with_a_return_of_nothing(build):
    runner = build("ppo", **ON_HOST | {"normalize_reward": True})
    running = runner.iteration.reward_scale.discounted_return
    running.assign([5.0, 5.0])
    runner.restored("")
    runner.advance(0)
    assert running.numpy().tolist() == [0.0, 0.0]


def test_rewards_are_stored_as_they_were_augmented(replaying):
    learner, _ = replaying("dqn", normalize_reward=False, reward_augmentation="scale:0.5")
    learner.learn(rollout(0, [1.0, -1.0, 3.0, -4.0]), KEY, STEP)
    assert learner.memory.ring.variables["reward"].numpy()[:4].tolist() == [0.5, -0.5, 1.5, -2.0]


def test_observations_count_for_their_normaliser_after_they_were_learned_from(replaying):
    learner, _ = replaying("dqn", normalize_observation=True, normalize_reward=False)
    agent, counts = learner.agent, []
    agent.update = lambda batch, seed: counts.append(tf.identity(agent.encoder.count)) or Update({})
    for first in (0, 4):
        learner.learn(rollout(first, [1.0] * 4), KEY, STEP)
        assert counts[-1] == first


OVERLAP = {"overlap": True}
LATE = {
    "ppo": ("ppo", OVERLAP, None),
    "ppo lstm": ("ppo", OVERLAP | {"model.name": "lstm", "minibatches": 2}, None),
    "a2c": ("a2c", OVERLAP, None),
    "vpg": ("vpg", OVERLAP | {"advantage": "gae"}, None),
    "a2c of workers": ("a2c", {}, Workers(1)),
}


def advantages(runner):
    """Of two environments, by a learner that values everything at 2, after acting that did at 5. Rewards are
    1, gamma is 0.5: a value of 2 is right, and no action better than expected."""
    agent, found = runner.agent, []
    agent.network.value.kernel.assign(tf.zeros_like(agent.network.value.kernel))
    agent.network.value.bias.assign([2.0])
    agent.update = lambda batch, seed: found.append(agent._advantages(batch)) or Update({})
    ones, never = tf.ones([4, 2]), tf.zeros([4, 2], tf.bool)
    extras = {name: {"value": 5.0}.get(name, 0.0) * ones for name in agent.trajectory_extras}
    state = tf.nest.map_structure(tf.constant, network_state(agent.initial_state(2)))
    shown, action = tf.zeros([5, 2, 4]), tf.zeros([4, 2], tf.int32)
    runner.iteration.learn(Trajectory(shown, action, ones, never, never, ones, extras, state), KEY, STEP)
    advantage = getattr(found[0], "advantage", None)
    return (found[0].extras["advantage"] if advantage is None else advantage).numpy()


@pytest.mark.parametrize(
    "case", [pytest.param(each, marks=() if each in ("ppo", "vpg") else pytest.mark.slow) for each in LATE]
)
def test_advantages_of_rollouts_that_come_late_are_of_one_networks_values(build, request, case):
    name, overrides, workers = LATE[case]
    if workers is not None:
        request.getfixturevalue("ray_here")
    found = advantages(build(name, workers=workers, **ON_HOST | overrides))
    np.testing.assert_allclose(found, np.zeros_like(found), atol=1e-6)


def test_where_acting_and_learning_take_turns_values_are_those_of_acting(build):
    # 5 by the network that acted; only what follows the last step was not valued then. lambda 0.5.
    found = advantages(build("a2c", **ON_HOST, gae_lambda=0.5))
    last = 1.0 + 0.5 * 2.0 - 5.0
    other = 1.0 + 0.5 * 5.0 - 5.0
    np.testing.assert_allclose(found[3], last)
    np.testing.assert_allclose(found[2], other + 0.25 * last)


def test_algorithms_that_correct_for_lag_note_no_values_when_they_act():
    assert [name for name in ("impala", "appo") if "value" in get_algo(name).trajectory_extras] == []
