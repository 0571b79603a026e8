"""InterestEvolution: each step by RecSim's formulas, and how often each document is chosen."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from scipy import stats

from rl.envs.graph.interest_evolution import InterestEvolution, Session
from rl.errors import UsageError
from rl.ops import random

COUNT = 20_000


def session(interests, budget=10.0, topics=(0, 1, 2), quality=(3.0, -2.0, 0.5), count=COUNT):
    """So many copies of a session."""
    interests, quality = (tf.constant([x] * count, tf.float32) for x in (interests, quality))
    topics = tf.constant([topics] * count)
    return Session(interests, tf.fill([count], budget), topics, quality, tf.zeros([count], tf.int32))


def test_a_step_is_recsims():
    env = InterestEvolution(COUNT, candidates=3, slate=2, topics=3)
    before = session([0.5, -0.8, 0.0])
    action = tf.repeat([[0, 1]], COUNT, 0)
    after, reward, terminated = env.dynamics(before, action, random.key(3))
    chosen = after.chosen.numpy()
    # Weights: interest + 1 of each document, 0 + 1 + 1 of none.
    expected = COUNT * np.array([1.5, 0.2, 2.0]) / 3.7
    assert stats.chisquare(np.bincount(chosen, minlength=3), expected).pvalue > 1e-3
    for place, watched, quality, topic, interest in ((0, 4.0, 3.0, 0, 0.5), (1, 4.0, -2.0, 1, -0.8)):
        of = chosen == place
        np.testing.assert_array_equal(reward.numpy()[of], watched)
        np.testing.assert_allclose(after.budget.numpy()[of], 6.0 + 0.9 / 3.4 * 4.0 * quality, rtol=1e-5)
        step = 0.3 * (1.0 - abs(interest)) * (1.0 - interest)
        moved = (after.interests - before.interests).numpy()[of]
        assert set(np.round(moved[:, topic].astype(float), 5)) == {round(step, 5), round(-step, 5)}
        np.testing.assert_array_equal(np.delete(moved, topic, 1), 0.0)
        towards = (moved[:, topic] > 0.0).sum()
        assert stats.binomtest(int(towards), int(of.sum()), (interest + 1.0) / 2.0).pvalue > 1e-3
    none = chosen == 2
    np.testing.assert_array_equal(reward.numpy()[none], 0.0)
    np.testing.assert_allclose(after.budget.numpy()[none], 9.5)
    np.testing.assert_array_equal(after.interests.numpy()[none], before.interests.numpy()[none])
    assert not terminated.numpy().any()


def test_no_more_is_watched_than_the_time_left_and_then_the_session_is_over():
    env = InterestEvolution(COUNT, candidates=3, slate=1, topics=3)
    before = session([0.9, 0.0, 0.0], budget=1.5, quality=(-1.0, 0.0, 0.0))
    after, reward, terminated = env.dynamics(before, tf.zeros([COUNT, 1], tf.int32), random.key(0))
    clicked = after.chosen.numpy() == 0
    np.testing.assert_array_equal(reward.numpy(), np.where(clicked, 1.5, 0.0))
    np.testing.assert_array_equal(terminated.numpy(), clicked)


def test_users_and_documents_are_drawn_as_recsims():
    env = InterestEvolution(COUNT)
    start = env.initial(random.key(1))
    assert stats.kstest(start.interests.numpy().ravel()[:50_000], stats.uniform(-1.0, 2.0).cdf).pvalue > 1e-3
    np.testing.assert_array_equal(start.budget, 200.0)
    np.testing.assert_array_equal(start.chosen, 2)
    topics, quality = start.topics.numpy().ravel(), start.quality.numpy().ravel()
    assert stats.chisquare(np.bincount(topics)).pvalue > 1e-3
    means = [quality[topics == topic].mean() for topic in range(20)]
    np.testing.assert_allclose(means, [*np.linspace(-3, 0, 14), *np.linspace(0, 3, 6)], atol=0.01)
    assert abs(quality[topics == 0].std() - 0.1) < 0.005


def test_observations_lie_in_the_space():
    env = InterestEvolution(1, candidates=3, slate=2, topics=4)
    state, time_step = env.reset(random.key(0))
    for i in range(50):
        row = {name: each.numpy()[0] for name, each in time_step.observation.items()}
        assert env.observation_space.contains(row), row
        state, time_step = env.step(state, tf.constant([env.action_space.sample()]), random.key(i))


def test_without_new_candidates_a_session_keeps_its_own():
    env = InterestEvolution(2, resample=False)
    before = env.initial(random.key(0))
    after, _, _ = env.dynamics(before, tf.zeros([2, 2], tf.int32), random.key(1))
    np.testing.assert_array_equal(after.topics, before.topics)
    shown = env.observe(after)["documents"]
    np.testing.assert_array_equal(tf.argmax(shown, -1), before.topics)


@pytest.mark.parametrize("options", [{"slate": 11}, {"slate": 0}, {"topics": 1}, {"budget": 0.0}])
def test_options_that_make_no_session_are_refused(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        InterestEvolution(1, **options)
