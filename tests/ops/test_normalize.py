"""Running moments and the reward scale against numpy over everything seen so far."""

from __future__ import annotations

import numpy as np
import tensorflow as tf

from rl.ops.normalize import Moments, RewardScale, merge_moments, no_moments


def moments(mean, variance, count):
    zeros = tf.zeros(len(mean))
    return Moments(tf.constant(mean), tf.constant(variance), tf.constant(count, tf.int64), zeros, zeros)


def test_merged_moments_by_hand():
    # {0, 2} has mean 1, variance 1; with {6, 4} and a masked 99: {0, 2, 6, 4}, mean 3, variance 5.
    x, weight = tf.constant([[6.0], [99.0], [4.0]]), tf.constant([1.0, 0.0, 1.0])
    found = merge_moments(moments([1.0], [1.0], 2), x, weight)
    np.testing.assert_allclose([found.mean[0], found.variance[0], found.count], [3.0, 5.0, 4.0])


def test_moments_merged_over_batches_of_several_sizes_are_those_of_all_that_counted():
    generator = np.random.default_rng(0)
    state = no_moments(3)
    seen = []
    for size in (1, 7, 32, 5):
        x = generator.normal([0.0, 5.0, -2.0], [1.0, 0.1, 10.0], size=(size, 3)).astype(np.float32)
        weight = (generator.random(size) < 0.8).astype(np.float32)
        state = merge_moments(state, tf.constant(x), tf.constant(weight))
        seen.append(x[weight > 0])
    seen = np.concatenate(seen)
    np.testing.assert_allclose(state[0], seen.mean(0), rtol=1e-4)
    np.testing.assert_allclose(state[1], seen.var(0), rtol=1e-4)
    assert state[2] == len(seen)


def test_a_batch_that_is_masked_whole_changes_no_moments():
    for before in (moments([1.0, 2.0], [3.0, 4.0], 10), no_moments(2)):
        after = merge_moments(before, tf.ones([5, 2]) * 99.0, tf.zeros([5]))
        for old, new in zip(before, after, strict=True):
            np.testing.assert_allclose(new, old)


def slow_scale(reward, ended, mask, gamma):
    """The standard deviation of the discounted returns of counted steps, each step a Python one."""
    steps, batch = reward.shape
    running, found = np.zeros(batch), []
    for t in range(steps):
        running = gamma * running + reward[t]
        found.extend(running[mask[t] > 0])
        running = np.where(ended[t], 0.0, running)
    return np.std(found)


def episodes(generator, steps=40, batch=3):
    """reward, ended, mask [T, B] with next-step autoreset: the row after an end is masked, of reward 0."""
    ended = generator.random((steps, batch)) < 0.2
    ended[1:] &= ~ended[:-1]
    mask = np.ones((steps, batch), np.float32)
    mask[1:][ended[:-1]] = 0.0
    return (generator.normal(1.0, 3.0, (steps, batch)) * mask).astype(np.float32), ended & (mask > 0), mask


def test_rewards_are_divided_by_the_deviation_of_the_discounted_return():
    reward, ended, mask = episodes(np.random.default_rng(0))
    scale = RewardScale(3, 0.9)
    scale.observe(tf.constant(reward), tf.constant(ended), tf.constant(mask))
    scaled = scale.scaled(tf.constant(reward))
    np.testing.assert_allclose(scaled, reward / slow_scale(reward, ended, mask, 0.9), rtol=1e-3)


def test_the_discounted_return_goes_on_from_rollout_to_rollout():
    reward, ended, mask = episodes(np.random.default_rng(1))
    whole, parts = RewardScale(3, 0.9), RewardScale(3, 0.9)
    whole.observe(tf.constant(reward), tf.constant(ended), tf.constant(mask))
    for part in (slice(0, 7), slice(7, 8), slice(8, 40)):
        parts.observe(*(tf.constant(each[part]) for each in (reward, ended, mask)))
    for name, variable in whole.variables.items():
        np.testing.assert_allclose(parts.variables[name], variable, rtol=1e-4, atol=1e-5, err_msg=name)


def test_an_episode_end_at_the_end_of_a_rollout_starts_the_return_anew():
    scale = RewardScale(2, 0.5)
    mask = tf.ones([2, 2])
    scale.observe(tf.constant([[1.0, 1.0], [3.0, 3.0]]), tf.constant([[False, False], [True, False]]), mask)
    # 3 + 0.5 * 1 = 3.5, forgotten where the episode ended
    np.testing.assert_allclose(scale.discounted_return, [0.0, 3.5])


def test_what_is_paid_after_an_agent_has_left_is_no_return_of_its_next_episode():
    # It leaves in step 0 and is paid 1 a step, as its team is, until the reset in step 3.
    reward = tf.constant([[1.0], [1.0], [1.0], [0.0], [1.0]])
    ended = tf.constant([[True], [False], [False], [False], [False]])
    scale = RewardScale(1, 0.5)
    scale.observe(reward, ended, tf.constant([[1.0], [0.0], [0.0], [0.0], [1.0]]))
    np.testing.assert_allclose(scale.moments.mean, [1.0])  # of the returns 1 and 1
    np.testing.assert_allclose(scale.moments.variance, [0.0], atol=1e-7)
    np.testing.assert_allclose(scale.discounted_return, [1.0])


def test_scaled_rewards_keep_their_sign_and_are_clipped_at_10():
    scale = RewardScale(1, 0.0)
    reward = np.zeros((1000, 1), np.float32)
    reward[0], reward[1] = 1.0, -1e-3
    scale.observe(tf.constant(reward), tf.zeros([1000, 1], tf.bool), tf.ones([1000, 1]))
    scaled = scale.scaled(tf.constant(reward)).numpy()
    assert scaled[0, 0] == 10.0  # 1 / std = 1 / sqrt(0.001) = 31.6 without the clip
    np.testing.assert_allclose(scaled[1, 0], -1e-3 / np.std(reward), rtol=1e-2)
    assert (scaled[2:] == 0.0).all()


def test_the_reward_scale_counts_single_steps_however_many_there_have_been():
    scale = RewardScale(1, 0.0)
    scale.moments.count.assign(2**24)
    for reward in (1.0, -1.0, 1.0):
        scale.observe(tf.constant([[reward]]), tf.constant([[False]]), tf.ones([1, 1]))
    assert int(scale.variables["reward_scale/count"]) == 2**24 + 3
    np.testing.assert_allclose(scale.moments.variance, [1.0], rtol=1e-6)
