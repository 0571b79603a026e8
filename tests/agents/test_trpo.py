"""TRPO: products with the Fisher matrix, the step's limit, the line search, and what it leaves alone."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from marked import few
from scipy import special

from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.ops.evolution import flatten

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "lr": 0.01, "epochs": 2, "minibatches": 2}
CONTINUOUS = spaces.Box(-1.0, 1.0, (2,), np.float32)
SPACES = pytest.mark.parametrize(
    "space", [spaces.Discrete(3), CONTINUOUS], ids=["discrete", "continuous"]
)  # fmt: skip


def moved_from_the_start(agent):
    """The agent, with a policy that is not uniform."""
    kernel = agent.network.policy.kernel
    kernel.assign(kernel * 50.0)
    return agent


def parameters(agent, data):
    """What the policy says of each step, [N, K]; numpy."""
    return agent.network(data.observation).parameters.numpy()


def fisher(agent, data):
    """The mean over the steps that count of the Fisher matrix [n, n], by the distribution's own formula."""
    weights = [each.value for each in agent.policy_weights]
    with tf.GradientTape() as tape:
        output = agent.network(data.observation)
        shown = tf.nn.log_softmax(output.parameters) if output.log_std is None else output.parameters
    found = tape.jacobian(shown, weights, unconnected_gradients="zero")
    slopes = np.concatenate([x.numpy().reshape(*shown.shape, -1) for x in found], -1)  # [N, K, n]
    if output.log_std is None:  # the mean over actions of the outer product of the scores
        matrices = np.einsum("na,nai,naj->nij", np.exp(shown.numpy()), slopes, slopes)
    else:  # of a normal's mean 1 / variance, of log_std 2
        precision = np.exp(-2.0 * output.log_std.numpy())
        matrices = np.einsum("a,nai,naj->nij", precision, slopes, slopes)
        weights = agent.policy_weights
        own = np.concatenate([np.full(np.prod(x.shape), x is agent.network.log_std) for x in weights])
        matrices += 2.0 * np.diag(own)
    mask = data.mask.numpy()
    return np.einsum("n,nij->ij", mask, matrices) / mask.sum()


@SPACES
def test_products_are_those_with_the_fisher_matrix(make_agent, make_rollout, space):
    tiny = {"log_std_init": 0.5, "cg_damping": 0.3, "model.hidden": (4,)}
    agent = moved_from_the_start(make_agent("trpo", action_space=space, **SMALL, **tiny))
    data = agent._steps(make_rollout(agent))
    matrix = fisher(agent, data)
    vector = np.random.default_rng(0).normal(size=len(matrix)).astype(np.float32)
    product = agent.fisher_product(data, agent._distribution(data))
    np.testing.assert_allclose(
        product(tf.constant(vector)), matrix @ vector + 0.3 * vector, rtol=2e-3, atol=1e-4
    )


@pytest.mark.parametrize("max_kl", [0.001, 0.05])
@SPACES
def test_the_step_obeys_the_limit_and_nearly_reaches_it(make_agent, make_rollout, space, max_kl):
    agent = make_agent("trpo", action_space=space, max_kl=max_kl, cg_damping=0.01, **SMALL)
    data = agent._steps(make_rollout(agent))
    before = parameters(agent, data)
    metrics = agent.policy_step(data)
    after, mask = parameters(agent, data), data.mask.numpy()
    if agent.network.log_std is None:
        p, q = special.softmax(before, -1), special.softmax(after, -1)
        kl = special.rel_entr(p, q).sum(-1)
    else:
        log_std = agent.network.log_std.numpy()  # from 0
        kl = (log_std + (1.0 + (before - after) ** 2) / (2.0 * np.exp(2.0 * log_std)) - 0.5).sum(-1)
    kl = (kl * mask).sum() / mask.sum()
    assert 0.3 * max_kl < kl <= max_kl * 1.001
    np.testing.assert_allclose(metrics["kl"], kl, rtol=1e-2, atol=1e-6)
    assert metrics["accepted"] == 1.0 and metrics["surrogate_gain"] > 0.0


@pytest.mark.parametrize("entropy_coef", few([0.0, 0.5], [0.5]))
def test_the_surrogate_rises_as_the_ratio_and_the_entropy_say(make_agent, make_rollout, entropy_coef):
    agent = moved_from_the_start(make_agent("trpo", entropy_coef=entropy_coef, **SMALL))
    data = agent._steps(make_rollout(agent))
    mask, action = data.mask.numpy(), data.action.numpy()
    before = special.log_softmax(parameters(agent, data), -1)
    metrics = agent.policy_step(data)
    after = special.log_softmax(parameters(agent, data), -1)
    ratio = np.exp(after - before)[np.arange(len(action)), action]
    rise = special.entr(np.exp(after)).sum(-1) - special.entr(np.exp(before)).sum(-1)
    expected = (((ratio - 1.0) * data.advantage.numpy() + entropy_coef * rise) * mask).sum() / mask.sum()
    np.testing.assert_allclose(metrics["surrogate_gain"], expected, rtol=1e-2)


def test_the_line_search_refuses_what_is_worse_and_shortens_what_is_too_long(make_agent, make_rollout):
    agent = make_agent("trpo", line_search_steps=7, line_search_shrink=0.5, **SMALL)
    data = agent._steps(make_rollout(agent))
    start, old = flatten(agent.policy_weights), agent._distribution(data)
    before = agent._share(agent._gain(data), data)
    with tf.GradientTape() as tape:
        share = agent._share(agent._gain(data), data)
    ascent = flatten(tape.gradient(share, [x.value for x in agent.policy_weights]))
    worse = agent.line_search(data, old, start, -ascent, before, tf.constant(100.0))
    assert not worse.accepted and int(worse.tries) == 7 and float(worse.kl) == 0.0
    np.testing.assert_array_equal(flatten(agent.policy_weights), start)
    agent._assign(start + ascent)
    whole = float(agent._share(old.kl(agent._distribution(data)), data))
    # A KL divergence is nearly a quarter of it at half the length, and a sixteenth at a quarter.
    found = agent.line_search(data, old, start, ascent, before, tf.constant(whole / 10.0))
    assert found.accepted and int(found.tries) == 3 and float(found.kl) <= whole / 10.0
    np.testing.assert_allclose(flatten(agent.policy_weights), start + 0.25 * ascent, rtol=1e-5, atol=1e-7)


def test_each_part_of_an_update_moves_its_own_weights_alone(make_agent, make_rollout, snapshot):
    """Where layers are shared, too: the value's steps would move the policy beyond its limit."""
    for shared in (False, True):
        agent = make_agent("trpo", max_kl=1e-12, **SMALL, **{"model.shared": shared})
        rollout, before = make_rollout(agent), snapshot(agent)
        metrics = agent.update(rollout, SEED).metrics
        after = snapshot(agent)
        # A limit below rounding: hardly any length is taken.
        moved = {name for name in before if np.abs(after[name] - before[name]).max() > 1e-4}
        assert {name.split("/")[1] for name in moved if name.startswith("network/")} <= {
            "value",
            "value_torso",
        }
        assert "network/value/kernel" in moved and metrics["updates"] == 1.0
        assert int(agent.optimizers["value"].iterations.numpy()) == 4


def test_the_value_is_fitted(make_agent, make_rollout):
    agent = make_agent("trpo", **{**SMALL, "epochs": 40, "lr": 0.05})
    data = agent._steps(make_rollout(agent))
    before = tf.reduce_sum(agent.loss(data, SEED)[0])
    tf.function(agent.update, autograph=False)(make_rollout(agent), SEED)
    assert tf.reduce_sum(agent.loss(data, SEED)[0]) < 0.5 * before


@pytest.mark.parametrize("what", few(["reward", "log_prob"], ["log_prob"]))  # of rewards: test_guard.py
def test_of_an_update_of_nan_nothing_is_left(make_agent, make_rollout, snapshot, what):
    """No optimizer writes the policy's weights: they are put back."""
    agent = make_agent("trpo", **SMALL)
    rollout, before = make_rollout(agent), snapshot(agent)
    wrong = tf.where(tf.range(4) == 1, np.float32(np.nan), rollout.reward)
    bad = {"reward": wrong} if what == "reward" else {"extras": rollout.extras | {"log_prob": wrong}}
    agent.learn(rollout._replace(**bad), SEED)
    assert agent.guard.first() == {"reward": "the reward", "log_prob": "the loss of network"}[what]
    for name, value in snapshot(agent).items():
        np.testing.assert_array_equal(value, before[name], err_msg=name)
    agent.learn(rollout, SEED)
    after = snapshot(agent)
    assert all((after[name] != before[name]).any() for name in before if name.endswith("kernel"))


def test_what_it_cannot_is_one_line(make_agent):
    with pytest.raises(UsageError, match=r"grad_comp=accumulate: trpo's step is by the Fisher matrix"):
        resolve("trpo_cartpole", {"grad_comp": "accumulate", "microbatches": 2})
    with pytest.raises(UsageError, match="trpo cannot learn with model lstm"):
        make_agent("trpo", **{"model.name": "lstm"})
    with pytest.raises(UsageError, match="minibatches=5 does not divide"):
        make_agent("trpo", minibatches=5)
