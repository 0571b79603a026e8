"""PEARL: its belief, its losses and what they teach whom, by hand where the networks are known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from known_networks import BOX, constant_actor, linear_critic, same, values
from scipy import stats

import rl
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.adapted import adapted_returns
from rl.types import SequenceBatch, Trajectory

SEED = random.key(0)
SMALL = {
    "num_envs": 4,
    "task_episodes": 2,
    "inner_steps": 1,
    "rollout_length": 8,
    "latent_size": 2,
    "context_size": 8,
    "replay_size": 5,
    "batch_size": 3,
}


@pytest.fixture
def agent_of(make_agent):
    return lambda **overrides: make_agent("pearl", action_space=BOX, **SMALL | overrides)


def known_context(network, mean, spread):
    """A factor's mean is `mean` times the reward, its variance softplus(`spread` + the action's code)."""
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    first, bias = np.zeros((8, 8)), np.zeros(8)  # of observation [3], code, reward, next observation [3]
    first[4, 0] = first[3, 1] = 1.0
    bias[:2] = 100.0
    network.torso.layers[0].kernel.assign(first)
    network.torso.layers[0].bias.assign(bias)
    last = np.zeros((8, 4))
    last[0, :2], last[1, 2:] = mean, 1.0
    network.factor.kernel.assign(last)
    network.factor.bias.assign(np.concatenate([-100.0 * np.array(mean), np.array(spread) - 100.0]))


def constant_context(network, mean, variance):
    """All factors are the same."""
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    network.factor.bias.assign([*mean, *np.log(np.expm1(variance))])


def trials(length=7, count=3, seed=0, **fields):
    """A `SequenceBatch` of random trials [L, N] in the spaces of `agent_of`."""
    rng, shape = np.random.default_rng(seed), (length, count)
    never = np.zeros(shape, bool)
    made = {
        "observation": rng.normal(size=(length + 1, count, 3)),
        "action": rng.uniform(-2.0, 4.0, size=(*shape, 1)),
        "reward": rng.normal(size=shape),
        "terminated": never,
        "truncated": never,
        "mask": np.ones(shape),
    } | fields
    kept = {
        name: tf.constant(x, tf.bool if x.dtype == bool else tf.float32)
        for name, x in made.items()
        if name in Trajectory._fields
    }
    mask = tf.constant(fields.get("of_trials", np.ones(count)), tf.float32)
    return SequenceBatch(Trajectory(**kept, extras={}), tf.ones([count]), tf.range(count), mask)


def test_what_was_seen_adds_to_the_belief_of_its_task_and_a_new_trial_forgets_it(agent_of, make_rollout):
    agent, mean, spread = agent_of(), np.array([1.0, -2.0]), np.array([0.5, 3.0])
    known_context(agent.context, mean, spread)
    expected = np.zeros((2, 4, 2))
    for seed in (0, 1):
        rollout = make_rollout(agent, seed=seed)
        code = (rollout.action.numpy() - 1.0) / 3.0  # [8, 4, 1]
        precision = rollout.mask.numpy()[..., None] / np.log1p(np.exp(spread + code))
        weighted = precision * mean * rollout.reward.numpy()[..., None]
        for i, x in enumerate((precision, weighted)):
            of_task = x.sum(0).reshape(2, 2, 2).sum(1)
            expected[i] += np.repeat(of_task, 2, 0)
        agent.adapt(rollout)
        for found, each in zip(agent.belief, expected, strict=True):
            np.testing.assert_allclose(found, each, rtol=2e-3, atol=1e-3)
    agent.resample_noise(SEED)
    assert not any(each.numpy().any() for each in agent.belief)


def test_the_order_of_what_was_seen_does_not_matter(agent_of, make_rollout):
    agent = agent_of()
    rollout = make_rollout(agent, ends=False)
    agent.adapt(rollout)
    expected = [each.numpy() for each in agent.belief]
    order, now, following = [5, 2, 7, 0, 1, 6, 4, 3], rollout.observation[:-1], rollout.observation[1:]

    def turned(start, steps):  # a transition as a part of its own, since its observations are not the next's
        observation = tf.concat([tf.gather(now, steps), tf.gather(following, steps)[-1:]], 0)
        rows = [tf.gather(x, steps) for x in rollout[1:6]]
        return Trajectory(observation, *rows, {})

    agent.resample_noise(SEED)
    for step in order:
        agent.adapt(turned(step, [step]))
    for found, each in zip(agent.belief, expected, strict=True):
        np.testing.assert_allclose(found, each, rtol=1e-4, atol=1e-5)


def test_z_is_drawn_from_the_belief_where_an_episode_begins_and_stays(agent_of):
    count = 4_000
    agent = agent_of(num_envs=count, task_episodes=1)
    seen, state = tf.zeros([count, 3]), agent.initial_state(count)["network"]

    def drawn(seed, state):
        return agent.policy(seen, state, random.key(seed), True).recurrent_state

    prior = drawn(0, state)["z"].numpy()
    assert stats.kstest(prior.reshape(-1), "norm").pvalue > 1e-4
    for variable, row in zip(agent.belief, ([4.0, 0.25], [8.0, -0.5]), strict=True):
        variable.assign(tf.tile(tf.constant([row]), [count, 1]))
    first = drawn(1, state)
    z = first["z"].numpy()
    assert stats.kstest(z[:, 0], stats.norm(2.0, 0.5).cdf).pvalue > 1e-4
    assert stats.kstest(z[:, 1], stats.norm(-2.0, 2.0).cdf).pvalue > 1e-4
    np.testing.assert_array_equal(drawn(2, first)["z"], z)
    alive = tf.cast(tf.range(count) % 2 == 0, tf.float32)[:, None]  # as a runner does after a reset
    found = drawn(3, {name: x * alive for name, x in first.items()})["z"].numpy()
    np.testing.assert_array_equal(found[::2], z[::2])
    assert (found[1::2] != z[1::2]).all()
    assert stats.kstest(found[1::2, 0], stats.norm(2.0, 0.5).cdf).pvalue > 1e-4


def test_evaluations_act_by_the_priors_mean(agent_of):
    agent, seen, late = agent_of(), tf.ones([4, 3]), tf.constant(0, tf.int64)
    agent.network.policy.kernel.assign(np.random.default_rng(0).normal(size=(8, 2)))
    for variable in agent.belief:
        variable.assign(tf.ones_like(variable))
    state, found = agent.initial_state(4), []
    for seed in (1, 2):
        action, _, after = agent.act(seen, state, random.key(seed), late, False)
        tf.nest.map_structure(np.testing.assert_array_equal, after, state)
        found.append(action)
    np.testing.assert_array_equal(*found)
    mean, _ = tf.split(agent.network((seen, tf.zeros([4, 2]))), 2, -1)
    np.testing.assert_allclose(found[0], 1.0 + 3.0 * np.tanh(mean), rtol=1e-5)
    other, _ = tf.split(agent.network((seen, tf.ones([4, 2]))), 2, -1)
    assert np.abs(other - mean).max() > 1e-3  # z is seen


def test_the_kl_from_the_prior_by_hand(agent_of):
    # 8 factors of variance 1/2 make 1/16: (m^2 + 1/16 - 1) / 2 + ln(16) / 2 for m = 1 and 0.
    agent = agent_of()
    constant_context(agent.context, [1.0, 0.0], [0.5, 0.5])
    tasks = agent.drawn(trials(), SEED)
    z, kl = agent.infer(tasks.context, SEED)
    np.testing.assert_allclose(kl, [2.3350887] * 3, rtol=1e-5)
    noise = random.normal(SEED, [3, 2]).numpy()
    np.testing.assert_allclose(z, np.array([1.0, 0.0]) + 0.25 * noise, rtol=1e-5, atol=1e-6)


def test_the_loss_of_critics_and_encoder_by_hand(agent_of):
    """As SAC's on each transition, in the mean over a task's, and the KL of the task."""
    agent = agent_of(temperature=0.2, kl_lambda=0.3, gamma=0.9)
    constant_actor(agent.network, [0.5, -1.0])
    linear_critic(agent.critic, [2.0, -1.0], [1.0, 1.0])
    linear_critic(agent.target_critic, [3.0, -1.0], [-1.0, 2.0])
    constant_context(agent.context, [1.0, 0.0], [0.5, 0.5])
    ends = np.zeros((7, 3), bool)
    ends[3] = True
    tasks = agent.drawn(trials(terminated=ends, of_trials=np.array([1.0, 0.0, 1.0])), SEED)
    loss, metrics, priorities = agent.loss(tasks, SEED)
    noise = random.normal(random.split(SEED, 2)[1], [15, 1]).numpy().astype(np.float64)[:, 0]
    u = 0.5 + np.exp(-1.0) * noise
    action, log_prob = np.tanh(u), stats.norm.logpdf(noise) + 1.0 - np.log(1.0 - np.tanh(u) ** 2)
    following = np.minimum(3.0 * action - 1.0, 2.0 - action) - 0.2 * log_prob
    discount = tasks.replayed.discount.numpy().reshape(-1)
    assert set(discount) == {np.float32(0.9), np.float32(0.0)}
    target = tasks.replayed.reward.numpy().reshape(-1) + discount * following
    code = (tasks.replayed.action.numpy().reshape(-1) - 1.0) / 3.0
    of_critics = 0.5 * ((target - 2.0 * code - 1.0) ** 2 + (target + code - 1.0) ** 2)
    expected = of_critics.reshape(3, 5).mean(1) + 0.3 * 2.3350887
    np.testing.assert_allclose(loss, expected * [1, 0, 1], rtol=1e-4)
    np.testing.assert_allclose(metrics["kl"], 2.3350887, rtol=1e-5)
    assert priorities is None


def slopes(agent, loss, tasks, network):
    with tf.GradientTape() as tape:
        total = tf.reduce_sum(loss(tasks, SEED)[0])
    variables = [each.value for each in network.trainable_variables]
    return tape.gradient(total, variables, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def largest(gradients):
    return max(float(np.abs(each).max()) for each in gradients)


def test_the_encoder_learns_from_the_critics_values_and_the_kl_and_from_nothing_else(agent_of):
    agent = agent_of(kl_lambda=0.0)
    tasks = agent.drawn(trials(), SEED)
    assert largest(slopes(agent, agent.loss, tasks, agent.context)) > 1e-3
    assert largest(slopes(agent, agent.policy_loss, tasks, agent.context)) == 0.0
    assert largest(slopes(agent, agent.policy_loss, tasks, agent.network)) > 1e-3
    linear_critic(agent.critic, [2.0, -1.0], [1.0, 1.0])  # sees no z, where the target's critic does
    assert largest(slopes(agent, agent.loss, tasks, agent.context)) == 0.0
    agent = agent_of(kl_lambda=0.5)
    linear_critic(agent.critic, [2.0, -1.0], [1.0, 1.0])
    constant_context(agent.context, [1.0, -3.0], [0.5, 2.0])
    # The KL's slope by the mean is the mean, and by the variance of one of 8 equal factors (1/v' - 1) / -16
    # with v' = v / 8; softplus has the slope 1 - e^-v at the variance v. Of three tasks, half of each.
    found = slopes(agent, agent.loss, tasks, agent.context)[-1].numpy()
    variance = np.array([0.5, 2.0])
    of_variance = (1.0 - 8.0 / variance) / 16.0 * (1.0 - np.exp(-variance))
    np.testing.assert_allclose(found, 1.5 * np.concatenate([[1.0, -3.0], of_variance]), rtol=1e-4)


def test_an_update_moves_encoder_policy_critics_and_their_targets(agent_of):
    agent = agent_of(tau=0.25)
    before = {name: values(network) for name, network in agent.networks.items()}
    agent.returns.assign([-3.0, -1.0])
    metrics = agent.update(trials(), SEED).metrics
    assert metrics["return_before"] == -3.0 and metrics["return_after"] == -1.0
    assert set(before) == {"network", "critic", "target_critic", "context"}
    assert all(not same(values(network), before[name]) for name, network in agent.networks.items())
    for x, y, z in zip(
        values(agent.critic), values(agent.target_critic), before["target_critic"], strict=True
    ):
        np.testing.assert_allclose(y, 0.25 * x + 0.75 * z, rtol=1e-5, atol=1e-7)


def test_context_and_transitions_are_of_one_trial_and_the_context_of_its_early_parts(agent_of):
    count, length = 400, 11
    agent = agent_of(inner_steps=2, rollout_length=12, gamma=0.9)
    place = np.arange(length + 1)[:, None, None] + 100.0 * np.arange(count)[:, None] + np.zeros(3)
    mask = np.ones((length, count))
    mask[[1, 3, 7]] = 0.0
    ends = np.zeros((length, count), bool)
    ends[[0, 6]] = True
    batch = trials(length, count, observation=place, mask=mask, terminated=ends, reward=place[:-1, :, 0])
    tasks = agent.drawn(batch, SEED)
    for each in tasks[:2]:
        time = each.observation.numpy()[..., 0] - 100.0 * np.arange(count)[:, None]
        assert time.min() >= 0 and not np.isin(time, [1, 3, 7]).any() and each.mask.numpy().all()
        np.testing.assert_array_equal(each.next_observation, each.observation + 1.0)
        np.testing.assert_array_equal(each.reward, each.observation[..., 0])
        np.testing.assert_allclose(each.discount, np.where(np.isin(time, [0, 6]), 0.0, 0.9), rtol=1e-6)
    assert set(time.reshape(-1)) == {0, 2, 4, 5, 6, 8, 9, 10}  # of the transitions: the whole trial
    early = tasks.context.observation.numpy()[..., 0] - 100.0 * np.arange(count)[:, None]
    assert set(early.reshape(-1)) == {0, 2, 4, 5, 6}  # parts of 4 steps, of which the last is not adapted by
    # One part for half of the tasks; of the others (2 of 5 places)^8 seldom all in the first one.
    alone = (early < 4).all(1)
    assert stats.binomtest(int(alone.sum()), count, 0.5 + 0.5 * 0.4**8).pvalue > 1e-3


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"num_envs": 10, "task_episodes": 4}, "task_episodes=4 does not divide num_envs=10"),
        ({"rollout_length": 200}, r"rollout_length=200: inner_steps \+ 1 = 3 parts"),
        ({"n_step": 3}, "leave n_step and prioritized out"),
        ({"prioritized": True}, "leave n_step and prioritized out"),
    ],
)
def test_what_is_no_trial_or_not_replayed_whole_is_refused(overrides, message):
    with pytest.raises(UsageError, match=message):
        resolve("pearl", {"env": "Navigation2D-v0", **overrides})


@pytest.mark.slow
def test_goals_never_had_are_found_from_two_episodes(tmp_path):
    """In a fortieth of the steps that MAML's set has; the tasks are more than the memory would hold."""
    own = dict(train_steps=121_200, eval_period=0, replay_capacity=60_000)
    rl.train("pearl_navigation", output_dir=tmp_path, eval_episodes=1, **own)
    returns = adapted_returns(tmp_path / "run_0", "last", tasks=200)  # [3, 200]
    half = 1.96 * returns.std(1) / np.sqrt(200)
    before, between, after = returns.mean(1)
    assert before + half[0] < between - half[1] and between < after, returns.mean(1)
    assert after > -22.0, returns.mean(1)
