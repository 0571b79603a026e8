"""MBPO: what it imagines and learns from by hand, where the ensemble's networks are known."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch, constant_actor, known_dynamics, same, values
from scipy import special, stats

from rl.agents.actor_critic import ReplayActorCritic
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import dynamics as ops
from rl.ops import random
from rl.types import Batch, Update

SEED = random.key(0)
SEEN = spaces.Box(-100.0, 100.0, (3,), np.float32)
SMALL = dict(members=3, elites=2, dynamics_hidden=(4,), dynamics_warmup=0, gamma=0.9, compile="eager")


@pytest.fixture
def agent_of(make_agent):
    return lambda **overrides: make_agent(
        "mbpo", action_space=BOX, observation_space=SEEN, **(SMALL | overrides)
    )


def rows(make_batch, count=6, **fields):
    return box_batch(make_batch, np.linspace(-2.0, 4.0, count)[:, None], **fields)


def test_a_step_is_imagined_by_one_of_the_elites(agent_of, make_batch):
    agent, batch = agent_of(), rows(make_batch, 400)
    known_dynamics(agent, [1.0, 2.0, 3.0], [10.0, 20.0, 30.0], [0.0, -2.0, 2.0])
    agent.errors.assign([0.2, 0.5, 0.1])
    found = agent.imagine(batch, SEED)
    change = (found.next_observation - batch.observation).numpy()
    member = np.where(change[:, 0] < 2.0, 0, 2)  # the second one has the greatest error
    deviation = np.exp(-5.0)  # of the least variance, e^-10
    np.testing.assert_allclose(
        change, np.array([1.0, 2.0, 3.0])[member][:, None] * np.ones(3), atol=6 * deviation
    )
    np.testing.assert_allclose(found.reward, np.array([10.0, 20.0, 30.0])[member], atol=6 * deviation)
    assert stats.binomtest(int((member == 0).sum()), 400, 0.5).pvalue > 1e-3
    goes_on = special.expit(-np.array([0.0, -2.0, 2.0])[member])
    np.testing.assert_allclose(found.discount, 0.9 * goes_on, rtol=1e-5)
    noise = (change - np.array([1.0, 2.0, 3.0])[member][:, None]) / deviation
    assert stats.kstest(noise.reshape(-1), "norm").pvalue > 1e-3
    np.testing.assert_array_equal(found.observation, batch.observation)
    np.testing.assert_array_equal(found.mask, np.ones(400))


def test_actions_are_the_present_policys(agent_of, make_batch):
    agent, batch = agent_of(), rows(make_batch, 400)
    constant_actor(agent.network, [0.5, -1.0])
    action = agent.imagine(batch, SEED).action.numpy()[:, 0]  # 1 + 3 tanh(u), u normal
    assert stats.kstest(np.arctanh((action - 1.0) / 3.0), stats.norm(0.5, np.exp(-1.0)).cdf).pvalue > 1e-3


def test_later_steps_begin_where_those_before_led_and_count_by_the_chance_to_get_there(agent_of, make_batch):
    mask = np.array([1.0, 0, 1, 1, 1, 1, 1])
    agent, batch = agent_of(horizon=3), rows(make_batch, 7, mask=mask)
    known_dynamics(agent, [1.0, 1.0, 1.0], [5.0] * 3, [1.0] * 3)
    found, stays = agent.imagine(batch, SEED), special.expit(-1.0)
    observed = batch.observation.numpy()[:3]  # 3 steps of 3 rows; of these 9 the first 7
    expected = np.concatenate([observed, observed + 1.0, observed + 2.0])[:7]
    np.testing.assert_allclose(found.observation, expected, atol=0.1)
    np.testing.assert_array_equal(found.observation[3:6], found.next_observation[:3])
    reached = np.concatenate([mask[:3], mask[:3] * stays, mask[:3] * stays**2])[:7]
    np.testing.assert_allclose(found.mask, reached, rtol=1e-5)


def test_a_batch_is_mixed_by_the_share_of_what_is_real(agent_of, make_batch):
    agent, real, imagined = agent_of(real_share=0.25), rows(make_batch, 2000), rows(make_batch, 2000, seed=1)
    agent.updates.assign(1)
    found = agent.mixed(real, imagined._replace(next_action=()), SEED)
    is_real = found.reward.numpy() == real.reward.numpy()
    assert stats.binomtest(int(is_real.sum()), 2000, 0.25).pvalue > 1e-3
    for x, y, z in zip(found[:5], real[:5], imagined[:5], strict=True):
        np.testing.assert_array_equal(x[is_real], y[is_real])
        np.testing.assert_array_equal(x[~is_real], z[~is_real])


def test_nothing_imagined_is_learned_from_in_the_warm_up(agent_of, make_batch):
    agent, real, imagined = agent_of(dynamics_warmup=5), rows(make_batch), rows(make_batch, seed=1)
    agent.updates.assign(5)
    found = agent.mixed(real, imagined._replace(next_action=()), SEED)
    np.testing.assert_array_equal(found.reward, real.reward)
    agent.updates.assign(6)
    assert not same([agent.mixed(real, imagined._replace(next_action=()), SEED).reward], [real.reward])


def test_the_ensembles_loss_by_hand(agent_of, make_batch):
    discount = np.where(np.arange(40) % 4 == 0, 0.0, 0.9)
    batch = rows(make_batch, 40, discount=discount, mask=np.arange(40) != 3)
    agent = agent_of(held_out=0.3)
    known_dynamics(agent, [1.0, -1.0, 0.0], [0.0, 1.0, 2.0], [0.0, 1.0, -1.0])
    bias = agent.dynamics.out.bias.numpy()
    bias[:, 0, 4:8] = -0.5
    agent.dynamics.out.bias.assign(bias)
    log_variance = ops.soft_clip(tf.constant(-0.5), -10.0, 0.5).numpy()
    target = np.concatenate([batch.next_observation - batch.observation, batch.reward[:, None]], 1)
    expected = np.zeros(40)
    for m in range(3):
        mean = np.array([*[[1.0, -1.0, 0.0][m]] * 3, float(m)])
        gaussian = 0.5 * ((target - mean) ** 2 * np.exp(-log_variance) + log_variance).sum(1)
        chance = special.expit([0.0, 1.0, -1.0][m])  # of a terminal state
        ends = -np.where(discount == 0.0, np.log(chance), np.log(1.0 - chance))
        expected += ops.bootstrap(batch.index, 3).numpy()[m] * (gaussian + ends) / 3.0
    expected *= (1.0 - ops.held_out(batch.index, 0.3).numpy()) * batch.mask.numpy()
    assert 5 < (expected == 0.0).sum() < 35
    np.testing.assert_allclose(agent.dynamics_loss(batch, SEED)[0], expected, rtol=1e-4, atol=1e-4)


def test_members_are_ranked_by_what_is_held_out(agent_of, make_batch):
    agent, batch = agent_of(held_out=0.5), rows(make_batch, 60)
    held = ops.held_out(batch.index, 0.5).numpy()
    change = np.where(held > 0.0, 2.0, 9.0)[:, None] * np.ones(3)
    batch = batch._replace(
        next_observation=batch.observation + change,
        reward=tf.constant(np.where(held > 0.0, 1.0, 7.0), tf.float32),
    )
    known_dynamics(agent, [9.0, 2.0, 1.0], [7.0, 1.0, 1.0], [0.0] * 3)
    agent.rank(batch)
    # (3 * 7^2 + 6^2) / 4; 0; 3 * 1 / 4; a fiftieth of the way there.
    np.testing.assert_allclose(agent.errors, np.array([45.75, 0.0, 0.75]) / 50.0, atol=1e-5)
    before = agent.errors.numpy()
    agent.rank(batch._replace(mask=tf.zeros([60])))
    np.testing.assert_array_equal(agent.errors, before)


def test_policy_and_critics_learn_from_what_is_imagined(agent_of, make_batch, monkeypatch):
    got, agent = [], agent_of(real_share=0.0, dynamics_period=1000)
    monkeypatch.setattr(ReplayActorCritic, "update", lambda _, batch, seed: got.append(batch) or Update({}))
    known_dynamics(agent, [0.0] * 3, [50.0] * 3, [0.0] * 3)
    agent.update(rows(make_batch), SEED)
    np.testing.assert_allclose(got[0].reward, [50.0] * 6, atol=0.1)


def test_the_ensemble_learns_when_it_is_due_policy_and_critics_in_every_update(agent_of, make_batch):
    agent, batch = agent_of(dynamics_period=2, dynamics_warmup=1, real_share=0.0), rows(make_batch)
    learned = []
    for i in range(5):
        before = {name: values(network) for name, network in agent.networks.items()}
        metrics = agent.update(batch, random.key(i)).metrics
        moved = {name for name, network in agent.networks.items() if not same(values(network), before[name])}
        assert moved - {"dynamics"} == {"network", "critic", "target_critic"}
        learned.append("dynamics" in moved)
        assert np.isfinite(metrics["dynamics_loss"].value) == learned[-1]
    assert learned == [True, True, False, True, False]  # the warm-up, then every second one


def test_it_learns_dynamics_rewards_and_ends(make_agent):
    """Of a point that is pushed, paid for being near 0, and falls off beyond 1."""
    space = spaces.Box(-3.0, 3.0, (1,), np.float32)
    changed = dict(dynamics_hidden=(32,), dynamics_lr=1e-2, dynamics_warmup=9)
    agent = make_agent("mbpo", observation_space=space, action_space=BOX, **(SMALL | changed))
    generator = np.random.default_rng(0)
    place, action = generator.uniform([-2.0, -2.0], [2.0, 4.0], (4_000, 2)).astype(np.float32).T

    def batch_of(index):
        x, a = tf.gather(place, index)[:, None], tf.gather(action, index)[:, None]
        following, ones = x + 0.2 * a, tf.ones(index.shape)
        discount = tf.where(tf.abs(following[:, 0]) > 1.0, 0.0, 0.9)
        return Batch(x, a, -tf.square(x[:, 0]), discount, following, ones, index, ones)

    @tf.function(autograph=False)
    def learn(i):
        agent.dynamics_step(batch_of(random.randint(random.fold_in(SEED, i), [128], 4_000)), SEED)

    for i in tf.range(600):
        learn(i)
    found = agent.imagine(batch_of(tf.range(200)), SEED)
    pushed = found.observation[:, 0] + 0.2 * found.action[:, 0]
    assert np.abs(found.next_observation[:, 0] - pushed).mean() < 0.1
    assert np.abs(found.reward + tf.square(found.observation[:, 0])).mean() < 0.2
    ended = np.abs(pushed) > 1.0
    assert (found.discount.numpy() < 0.45)[ended].mean() > 0.9
    assert (found.discount.numpy() > 0.45)[~ended].mean() > 0.9


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"elites": 8}, "elites=8 is above members=7"),
        ({"n_step": 3}, "leave n_step and prioritized out"),
        ({"prioritized": True}, "leave n_step and prioritized out"),
    ],
)
def test_hparams_that_do_not_fit_are_refused(overrides, message):
    with pytest.raises(UsageError, match=message):
        resolve("mbpo", {"env": "Pendulum-v1", **overrides})
