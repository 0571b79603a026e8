"""Off-policy estimators: numbers by hand, and a process whose value is known exactly."""

from __future__ import annotations

import numpy as np
import pytest

from rl.ops import estimation

# Two episodes. The first has the ratios 2 and 1/2 and the rewards 1 and 2, the second 1/2 and 4.
LOG_RATIO = np.log([[2.0, 0.5], [0.5, 1.0]])
REWARD = np.array([[1.0, 2.0], [4.0, 0.0]])
Q = np.array([[1.0, 1.0], [3.0, 0.0]])
VALUE = np.array([[2.0, 1.0, 0.0], [2.0, 0.0, 0.0]])
GAMMA = 0.5
BASIC = (LOG_RATIO, REWARD, GAMMA)
ROBUST = (LOG_RATIO, REWARD, Q, VALUE, GAMMA)


def value_of(sums):
    return float(estimation.estimate(sums))


def test_importance_sampling_weighs_whole_returns():
    """Returns 1 + 0.5 2 = 2 and 4, ratios 2 0.5 = 1 and 0.5: (1 2 + 0.5 4) / 2, and / (1 + 0.5)."""
    assert value_of(estimation.importance_sampling(*BASIC)) == pytest.approx(2.0)
    assert value_of(estimation.weighted_importance_sampling(*BASIC)) == pytest.approx(8.0 / 3.0)


def test_per_decision_weighs_each_reward_by_the_ratio_up_to_it():
    """(2 1 + 0.5 1 2 + 0.5 4) / 2. Weighted: (2 1 + 0.5 4) / 2.5 + 0.5 (1 2 + 0.5 0) / 1.5, since the second
    episode stands in its end with the ratio that it had."""
    assert value_of(estimation.per_decision(*BASIC)) == pytest.approx(2.5)
    assert value_of(estimation.weighted_per_decision(*BASIC)) == pytest.approx(1.6 + 2.0 / 3.0)


def test_doubly_robust_is_the_recursion_of_the_paper():
    """First episode: V_1 = 1 + 0.5 (2 - 1) = 1.5, V_0 = 2 + 2 (1 + 0.5 1.5 - 1) = 3.5. The second one:
    2 + 0.5 (4 - 3) = 2.5."""
    assert value_of(estimation.doubly_robust(*ROBUST)) == pytest.approx(3.0)
    assert value_of(estimation.direct(VALUE)) == 2.0


def test_weighted_doubly_robust_divides_each_step_by_its_ratios():
    """2 + (2 0 + 0.5 1) / 2.5 + 0.5 ((2 1 + 0.5 0) / 2.5 + (1 1 + 0.5 0) / 1.5) = 2.2 + 0.5 (0.8 + 2/3)."""
    assert value_of(estimation.weighted_doubly_robust(*ROBUST)) == pytest.approx(
        2.2 + 0.5 * (0.8 + 2.0 / 3.0)
    )


def test_doubly_robust_counts_the_value_after_a_cut():
    """One step, of ratio 2 and reward 1, then cut: v_0 + 2 (1 + 0.5 v_1 - q) = 3 + 2 (1 + 0.5 4 - 2) = 5."""
    cut = (np.log([[2.0]]), np.array([[1.0]]), np.array([[2.0]]), np.array([[3.0, 4.0]]), GAMMA)
    assert value_of(estimation.doubly_robust(*cut)) == pytest.approx(5.0)
    # Weights of one episode are 1: 3 + (1 - 2) + 0.5 4
    assert value_of(estimation.weighted_doubly_robust(*cut)) == pytest.approx(4.0)


def test_the_effective_sample_size_is_that_of_the_episodes_ratios():
    assert estimation.effective_sample_size(LOG_RATIO) == pytest.approx(1.5**2 / 1.25)
    assert estimation.effective_sample_size(np.zeros((7, 3))) == pytest.approx(7.0)
    assert estimation.effective_sample_size(np.full((7, 3), -np.inf)) == 0.0


def test_without_any_weight_weighted_estimates_are_not_a_number_and_others_0():
    none = (np.full((2, 2), -np.inf), REWARD, GAMMA)
    assert np.isnan(value_of(estimation.weighted_importance_sampling(*none)))
    assert np.isnan(value_of(estimation.weighted_per_decision(*none)))
    assert value_of(estimation.per_decision(*none)) == 0.0


def test_weights_need_no_more_room_than_a_float_has():
    """Ratios of exp(1,000) and twice that: the weights are 1/3 and 2/3."""
    log_ratio = np.array([[1000.0], [1000.0 + np.log(2.0)]])
    found = estimation.weighted_importance_sampling(log_ratio, np.array([[3.0], [6.0]]), GAMMA)
    assert value_of(found) == pytest.approx(5.0)


def test_rows_of_episodes_become_columns_with_zeros_after_the_end():
    found = estimation.padded(np.array([1.0, 2.0, 3.0]), np.array([1, 2]))
    np.testing.assert_array_equal(found, [[1.0, 0.0], [2.0, 3.0]])


def test_a_resample_is_the_estimate_of_the_episodes_that_it_has():
    counts = estimation.bootstrap_counts(2, 50, seed=3)
    assert counts.shape == (50, 2) and (counts.sum(1) == 2).all() and len(np.unique(counts[:, 0])) == 3
    np.testing.assert_array_equal(counts, estimation.bootstrap_counts(2, 50, seed=3))
    for name in ("importance_sampling", "weighted_per_decision"):
        estimator = getattr(estimation, name)
        found = estimation.estimate(estimator(*BASIC), np.array([[2.0, 0.0], [1.0, 1.0]]))
        expected = [value_of(estimator(LOG_RATIO[:1], REWARD[:1], GAMMA)), value_of(estimator(*BASIC))]
        np.testing.assert_allclose(found, expected)


def test_the_interval_is_of_quantiles_over_resamples():
    """Of one number each, 0 and 1, resamples have the means 0, 1/2 and 1 in 25, 50 and 25 of 100."""
    counts = np.array([[2.0, 0.0]] * 25 + [[1.0, 1.0]] * 50 + [[0.0, 2.0]] * 25)
    sums = estimation.mean(np.array([0.0, 1.0]))
    assert estimation.bootstrap_interval(sums, counts, 0.9) == (0.0, 1.0)
    assert estimation.bootstrap_interval(sums, counts, 0.4) == (0.5, 0.5)


# A process of 3 states, 2 actions and 6 steps, episodes of which may end earlier; rewards are drawn too.
MOVES = np.array(
    [
        [[0.6, 0.3, 0.1], [0.1, 0.6, 0.3]],
        [[0.3, 0.5, 0.2], [0.2, 0.2, 0.6]],
        [[0.5, 0.2, 0.3], [0.2, 0.5, 0.3]],
    ]
)  # state, action -> next state
REWARDS = np.array([[0.0, 1.0], [2.0, -1.0], [1.0, 3.0]])
END = 0.1  # probability that an episode ends after a step
PLAYED = np.array([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
POLICY = np.array([[0.35, 0.65], [0.7, 0.3], [0.4, 0.6]])
STEPS, DISCOUNT = 6, 0.9
START = np.array([0.5, 0.3, 0.2])


def known_values():
    """The policy's q [T, S, A] and v [T + 1, S], from the last step back."""
    q, v = np.zeros((STEPS, 3, 2)), np.zeros((STEPS + 1, 3))
    for t in reversed(range(STEPS)):
        q[t] = REWARDS + DISCOUNT * (1.0 - END) * MOVES @ v[t + 1]
        v[t] = np.sum(POLICY * q[t], -1)
    return q, v


def play(repetitions, episodes, seed):
    """Episodes by PLAYED: state [R, E, T + 1], action, reward and alive [R, E, T]."""
    rng = np.random.default_rng(seed)
    shape = (repetitions, episodes)
    state = np.zeros((*shape, STEPS + 1), int)
    action, reward, alive = (
        np.zeros((*shape, STEPS), int),
        np.zeros((*shape, STEPS)),
        np.ones((*shape, STEPS)),
    )
    state[..., 0] = np.searchsorted(np.cumsum(START), rng.random(shape))
    going = np.ones(shape, bool)
    for t in range(STEPS):
        now = state[..., t]
        action[..., t] = rng.random(shape) < PLAYED[now, 1]
        alive[..., t] = going
        reward[..., t] = (REWARDS[now, action[..., t]] + rng.normal(size=shape)) * going
        cumulative = np.cumsum(MOVES[now, action[..., t]], -1)
        state[..., t + 1] = np.minimum((rng.random(shape)[..., None] > cumulative).sum(-1), 2)
        going &= rng.random(shape) > END
    return state, action, reward, alive


def covered(repetitions, episodes, seed=0):
    """The share of repetitions whose 95 % interval holds the known value, and the estimates, by estimator."""
    state, action, reward, alive = play(repetitions, episodes, seed)
    q, v = known_values()
    log_ratio = np.log(POLICY / PLAYED)[state[..., :-1], action] * alive
    steps = np.arange(STEPS)
    right_q, right_v = q[steps, state[..., :-1], action] * alive, v[steps, state[..., :-1]] * alive
    last = np.zeros((*right_v.shape[:2], 1))
    right_v = np.concatenate([right_v, last], -1)
    wrong_q, wrong_v = 0.7 * right_q + 0.5 * alive, 0.7 * right_v
    wrong_v[..., :-1] += 0.5 * alive  # the policy's mean of wrong_q
    robust = (log_ratio, reward, wrong_q, wrong_v, DISCOUNT)
    found = {
        "importance sampling": estimation.importance_sampling(log_ratio, reward, DISCOUNT),
        "weighted": estimation.weighted_importance_sampling(log_ratio, reward, DISCOUNT),
        "per-decision": estimation.per_decision(log_ratio, reward, DISCOUNT),
        "weighted per-decision": estimation.weighted_per_decision(log_ratio, reward, DISCOUNT),
        "direct, of right values": estimation.direct(right_v),
        "doubly robust, of wrong values": estimation.doubly_robust(*robust),
        "weighted doubly robust, of wrong values": estimation.weighted_doubly_robust(*robust),
    }
    known, counts = float(START @ v[0]), estimation.bootstrap_counts(episodes, 1000, seed)
    shares, estimates = {}, {}
    for name, sums in found.items():
        low, high = estimation.bootstrap_interval(sums, counts)
        shares[name], estimates[name] = np.mean((low <= known) & (known <= high)), estimation.estimate(sums)
    return known, shares, estimates


def check(known, shares, estimates):
    for name, share in shares.items():
        # The standard error of 95 % in 1,000 repetitions is 0.7 %; the percentile bootstrap misses a little.
        assert 0.925 <= share <= 0.97, f"{name}: {share}"
        error = estimates[name].std() / np.sqrt(len(estimates[name]))
        assert abs(estimates[name].mean() - known) < 4.0 * error + 0.01, name


def test_intervals_hold_the_known_value_as_often_as_they_say():
    check(*covered(repetitions=1000, episodes=150))


def test_the_average_return_of_the_data_is_another_value():
    """So that holding the known value says something."""
    _, _, reward, _ = play(1, 20_000, seed=1)
    known = float(START @ known_values()[1][0])
    assert abs(estimation.discounted(reward, DISCOUNT).mean() - known) > 0.3


@pytest.mark.slow
def test_intervals_of_many_episodes_hold_the_known_value_as_often_as_they_say():
    check(*covered(repetitions=1000, episodes=1000, seed=1))
