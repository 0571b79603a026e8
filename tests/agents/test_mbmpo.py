"""MB-MPO: what each member imagines, and the gradient through a step that was made of it, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from known_networks import BOX, box_batch, known_dynamics
from scipy import special, stats

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import dynamics as ops
from rl.ops import random

SEED = random.key(0)
SEEN = spaces.Box(-100.0, 100.0, (3,), np.float32)
SMALL = {
    "members": 2,
    "task_episodes": 4,
    "horizon": 5,
    "batch_size": 16,
    "dynamics_hidden": (4,),
    "dynamics_steps": 3,
    "num_envs": 5,
    "model.hidden": (),
    "compile": "eager",
}


@pytest.fixture
def agent_of(make_agent):
    """An agent whose policy is the softmax of x W, with W drawn, not near zero."""

    def make(**overrides):
        agent = make_agent("mbmpo", observation_space=SEEN, **(SMALL | overrides))
        kernel = agent.network.policy.kernel
        kernel.assign(np.random.default_rng(0).normal(size=kernel.shape))
        return agent

    return make


def log_probs(kernel, bias, x):
    return special.log_softmax(x @ kernel + bias, -1)


def ascended(kernel, bias, steps, i, rate):
    """Weights of member i after a step along the mean of A grad log pi(a | s)."""
    x, action, _, advantage, mask = (np.float64(each[i]) for each in steps)
    score = np.eye(3)[action.astype(int)] - np.exp(log_probs(kernel, bias, x))
    score *= (advantage * mask)[:, None] / mask.sum()
    return kernel + rate * x.T @ score, bias + rate * score.sum(0)


def objective(kernel, bias, trials, rate):
    """The mean of PPO's clipped surrogate of the policies adapted to each member."""
    total = 0.0
    for i in range(2):
        x, action, old, advantage, mask = (np.float64(each[i]) for each in trials.outer)
        found = log_probs(*ascended(kernel, bias, trials.inner[0], i, rate), x)
        ratio = np.exp(found[np.arange(len(old)), action.astype(int)] - old)
        total += (np.minimum(ratio * advantage, np.clip(ratio, 0.8, 1.2) * advantage) * mask).sum()
    return total / trials.outer.mask.numpy().sum()


def test_members_imagine_episodes_of_their_own_until_these_end(agent_of, make_batch):
    mask = np.ones(16)
    mask[1] = 0.0
    agent, batch = agent_of(), make_batch(count=16, mask=mask)
    known_dynamics(agent, [1.0, -2.0], [3.0, 5.0], [-1e3, 1e3])
    found = agent.imagine(batch, agent._unadapted(), SEED)
    change = np.repeat([1.0, -2.0], 4)[:, None] * np.ones(3)
    expected = batch.observation.numpy()[:8] + np.arange(6)[:, None, None] * change
    np.testing.assert_allclose(found.observation, expected, atol=0.1)  # deviations of e^-5
    np.testing.assert_allclose(found.reward, np.tile(np.repeat([3.0, 5.0], 4), (5, 1)), atol=0.1)
    alive = np.ones((5, 8))
    alive[1:, 4:] = alive[:, 1] = 0.0  # those of the second member end at once, one never began
    np.testing.assert_array_equal(found.mask, alive)
    np.testing.assert_array_equal(found.terminated, np.tile(np.repeat([False, True], 4), (5, 1)))
    agent.dynamics.out.bias.assign(agent.dynamics.out.bias.numpy() * np.r_[np.ones(8), 0.0])
    ended = agent.imagine(batch, agent._unadapted(), SEED).terminated.numpy()  # now with even odds
    assert stats.binomtest(int(ended.sum()), 40, 0.5).pvalue > 1e-3


def test_in_each_member_weights_of_its_own_act(agent_of, make_batch):
    """By the log-probabilities that are kept, and by how likely the draws were: near the policy's entropy."""
    agent, batch = agent_of(task_episodes=200, batch_size=400, horizon=1), make_batch(count=400)
    same = tf.concat([batch.observation[:200]] * 2, 0)
    weights = [tf.stack([x, -3.0 * x]) for x in (each.value for each in agent.network.trainable_variables)]
    found = agent.imagine(batch._replace(observation=same), weights, SEED)
    kernel = np.float64(agent.network.policy.kernel.numpy())
    for part, scale in ((slice(0, 200), 1.0), (slice(200, 400), -3.0)):
        expected = log_probs(scale * kernel, np.zeros(3), np.float64(same[:200]))
        action = found.action.numpy()[0, part]
        chosen = expected[np.arange(200), action]
        np.testing.assert_allclose(found.extras["log_prob"][0, part], chosen, rtol=1e-4, atol=1e-5)
        likelihood = chosen.sum() - (np.exp(expected) * expected).sum()
        assert abs(likelihood) < 4.0 * np.sqrt((np.exp(expected) * expected**2).sum())


def test_the_gradient_goes_through_the_step_that_was_made_of_what_was_imagined(agent_of, make_batch):
    """That of central differences of the whole, what was imagined held fixed."""
    rate = 2.0
    agent, batch = agent_of(inner_lr=rate), make_batch(count=16)
    known_dynamics(agent, [0.3, -0.3], [1.0, 1.0], [-1.0, 0.0])
    trials, weights, _ = agent.adapted(batch, SEED)
    kernel, bias = np.float64(agent.network.policy.kernel.numpy()), np.zeros(3)
    for i in range(2):
        own = ascended(kernel, bias, trials.inner[0], i, rate)
        np.testing.assert_allclose(weights[0][i], own[0], rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(weights[1][i], own[1], rtol=1e-4, atol=1e-5)
        for steps, (w, b) in ((trials.inner[0], (kernel, bias)), (trials.outer, own)):
            action = steps.action.numpy()[i]
            acted = log_probs(w, b, np.float64(steps.observation[i]))[np.arange(len(action)), action]
            np.testing.assert_allclose(steps.log_prob[i], acted, rtol=1e-4, atol=1e-4)
    variables = [each.value for each in agent.network.trainable_variables]
    with tf.GradientTape() as tape:
        loss = agent.loss(trials, SEED)[0]
        mean = tf.reduce_sum(loss) / tf.reduce_sum(trials.mask)
    slopes = tape.gradient(mean, variables)
    for place in np.ndindex(3, 3):
        ends = []
        for side in (1e-5, -1e-5):
            moved = kernel.copy()
            moved[place] += side
            ends.append(objective(moved, bias, trials, rate))
        np.testing.assert_allclose(-slopes[0][place], (ends[0] - ends[1]) / 2e-5, rtol=2e-3, atol=2e-5)


def test_an_update_moves_ensemble_and_policy_and_leaves_adapted_weights_to_act_by(make_agent, make_batch):
    agent, batch = make_agent("mbmpo", **SMALL, inner_lr=5.0), make_batch(count=16)
    seen = tf.constant(np.random.default_rng(1).normal(size=(5, 3)), tf.float32)

    def acting(training):
        return agent.policy(seen, (), SEED, training).distribution.logits.numpy()

    np.testing.assert_allclose(acting(True), acting(False), rtol=1e-5)  # nothing was adapted yet
    before = {name: each.numpy() for name, each in agent.variables.items()}
    metrics = agent.update(batch, SEED).metrics
    after = {name: each.numpy() for name, each in agent.variables.items()}
    moved = {name for name in before if (before[name] != after[name]).any()}
    assert {"network/policy/kernel", "dynamics/out/kernel", "tasks/weight_0"} <= moved
    assert {"dynamics_loss", "return_before", "return_after", "policy_loss"} <= metrics.keys()
    kernel, bias = after["tasks/weight_0"], after["tasks/weight_1"]
    for i in range(5):  # the members in turn
        expected = seen[i].numpy() @ kernel[i % 2] + bias[i % 2]
        np.testing.assert_allclose(acting(True)[i], expected, rtol=1e-4, atol=1e-5)
    assert np.abs(kernel[0] - kernel[1]).max() > 1e-2
    agent.resample_noise(SEED)  # as before every rollout
    np.testing.assert_allclose(acting(True)[4], expected, rtol=1e-4, atol=1e-5)
    agent.act_for(1, 5, 6)  # one of several processes: all environments but the first
    np.testing.assert_allclose(acting(True)[4], seen[4].numpy() @ kernel[1] + bias[1], rtol=1e-4, atol=1e-5)


def test_of_each_member_a_transition_counts_as_often_as_it_was_drawn_for_it(agent_of, make_batch):
    discount = np.where(np.arange(16) % 4 == 0, 0.0, 0.9)
    agent, batch = agent_of(), make_batch(count=16, discount=discount, mask=np.arange(16) != 3)
    known_dynamics(agent, [1.0, -1.0], [0.0, 2.0], [0.0, 1.0])
    target = np.concatenate([batch.next_observation - batch.observation, batch.reward[:, None]], 1)
    expected, counts = np.zeros(16), ops.bootstrap(batch.index, 2).numpy()
    for m, (change, reward, odds) in enumerate([(1.0, 0.0, 0.0), (-1.0, 2.0, 1.0)]):
        miss = target - np.array([change] * 3 + [reward])
        ends = -np.log(special.expit(np.where(discount == 0.0, odds, -odds)))
        expected += counts[m] * (0.5 * (miss**2 * np.exp(10.0) - 10.0).sum(1) + ends) / 2.0
    found = agent.dynamics_loss(batch, SEED)[0]
    np.testing.assert_allclose(found, expected * batch.mask.numpy(), rtol=1e-3)
    assert set(counts.reshape(-1)) >= {0.0, 1.0, 2.0}


def test_continuous_actions_reach_the_dynamics_in_their_half_ranges(make_agent, make_batch):
    agent = make_agent("mbmpo", observation_space=SEEN, action_space=BOX, **SMALL)
    batch = box_batch(make_batch, np.linspace(-2.0, 4.0, 16)[:, None])
    known_dynamics(agent, [0.0, 0.0], [0.0, 0.0], [-1e3, -1e3])
    hidden, out = agent.dynamics.hidden[0], agent.dynamics.out
    hidden.kernel.assign(np.float32(np.arange(4) == 3)[None, :, None] * np.ones((2, 4, 4)))
    hidden.bias.assign(tf.fill(hidden.bias.shape, 50.0))  # silu(x + 50) = x + 50
    kernel = np.zeros(out.kernel.shape, np.float32)
    kernel[:, 0, 3] = 1.0
    out.kernel.assign(kernel)
    found = agent.imagine(batch, agent._unadapted(), SEED)
    code = np.clip((found.action.numpy()[..., 0] - 1.0) / 3.0, -1.0, 1.0)
    np.testing.assert_allclose(found.reward, code + 50.0, atol=0.1)


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"task_episodes": 300}, r"batch_size=1000 is below members \* task_episodes = 1500"),
        ({"n_step": 3}, "unknown hparam 'n_step'"),
        ({"memory": "prioritized"}, "leave memory=prioritized out"),
    ],
)
def test_hparams_that_do_not_fit_are_refused(overrides, message):
    with pytest.raises(UsageError, match=message):
        resolve("mbmpo", {"env": "CartPole-v1", **overrides})


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"model.name": "lstm"}, "mbmpo cannot learn with model lstm, which keeps state"),
        ({"model.name": "nature_cnn"}, "mbmpo's ensemble foresees lists of numbers"),
        ({"action_space": spaces.Box(-np.inf, np.inf, (1,))}, "mbmpo squashes its actions"),
        ({"action_space": spaces.MultiBinary(2)}, "mbmpo"),
    ],
)
def test_what_it_cannot_do_is_said_in_one_line(make_agent, overrides, message):
    with pytest.raises(UsageError, match=message):
        make_agent("mbmpo", **(SMALL | overrides))
