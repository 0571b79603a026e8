"""LinUCB and linear Thompson sampling: their choices in closed form, and how their regret grows."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.registry import get_algo
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Trajectory

ARMS, SIZE, ROUNDS = 3, 2, 60
SPACES = spaces.Box(-1.0, 1.0, (SIZE,), np.float32), spaces.Discrete(ARMS)


def agent_of(algo, **overrides):
    return get_algo(algo)(resolve(algo, {"num_envs": 1, "rollout_length": 1, **overrides}), *SPACES, 0)


@pytest.mark.parametrize(("algo", "scale"), [("linucb", "alpha"), ("linear_thompson", "posterior_scale")])
def test_its_choices_are_those_of_the_closed_form_on_equal_draws(algo, scale):
    rng = np.random.default_rng(1)
    weights = rng.normal(size=(ARMS, SIZE))
    agent = agent_of(algo, prior_precision=2.0, **{scale: 0.7})

    def act(observation, seed, step):
        return [agent.act(observation, (), seed, step, training)[0] for training in (True, False)]

    act, update = (tf.function(each, autograph=False) for each in (act, agent.update))
    precision = np.stack([2.0 * np.eye(SIZE + 1)] * ARMS)
    b, chosen = np.zeros((ARMS, SIZE + 1)), []
    for t in range(ROUNDS):
        context = rng.uniform(-1.0, 1.0, SIZE).astype(np.float32)
        seed, x = random.fold_in(random.key(3), t), np.append(context, 1.0)
        inverse = np.linalg.inv(precision)
        expected, deviation = np.einsum("kij,kj,i->k", inverse, b, x), np.sqrt(inverse @ x @ x)
        noise = random.normal(random.split(seed, 2)[0], [1, ARMS]).numpy()[0]
        best = int(np.argmax(expected + 0.7 * deviation * (1.0 if algo == "linucb" else noise)))
        observation, step = tf.constant(context[None]), tf.constant(t, tf.int64)
        drawn, greedy = (int(each[0]) for each in act(observation, seed, step))
        assert drawn == best, t
        assert greedy == int(np.argmax(expected)) or t < 5
        reward = float(weights[best] @ context)
        precision[best] += np.outer(x, x)
        b[best] += reward * x
        row, never = tf.constant([[reward]], tf.float32), tf.constant([[False]])
        both = tf.stack([observation, observation])
        update(
            Trajectory(both, tf.constant([[best]]), row, ~never, never, tf.ones([1, 1]), {}), random.key(t)
        )
        chosen.append(best)
    assert len(set(chosen)) == ARMS
    np.testing.assert_allclose(agent.network.b, b, rtol=1e-4, atol=1e-4)


def test_an_update_that_would_spoil_the_posterior_is_left_out():
    # The context is finite, its square is not.
    agent, row, never = agent_of("linucb"), tf.constant([[1.0]]), tf.constant([[False]])
    both, arm = tf.fill([2, 1, SIZE], 1e25), tf.constant([[0]])
    agent.learn(Trajectory(both, arm, row, ~never, never, tf.ones([1, 1]), {}), random.key(0))
    assert agent.guard.skipped == 1 and agent.guard.first() == "the posterior, in the loss of network"
    assert all(np.isfinite(each.numpy()).all() for each in agent.network.weights)


@pytest.mark.slow
@pytest.mark.parametrize("algo", ["linear_thompson", "linucb"])
def test_regret_keeps_to_the_rate_of_theory(build, algo):
    """A first half and a second one of 1,000 rounds each: sqrt(2) - 1 of the first if it grows as sqrt(T)."""
    halves = np.array(
        [[runner.run(1_000)["regret"] for _ in range(2)] for runner in (build(algo, s) for s in range(3))]
    )
    rounds, numbers = 1_000.0, 5 * 6  # arms times numbers that each has
    assert halves.mean(0)[1] < 0.4 * halves.mean(0)[0]
    assert halves.sum(1).max() < np.sqrt(numbers * 2 * rounds * np.log(2 * rounds))
    assert halves.min() > 0.0


@pytest.mark.parametrize("algo", ["linucb", "linear_thompson", "neural_linear"])
def test_a_bonus_that_would_stay_in_the_posterior_is_refused(algo):
    with pytest.raises(UsageError, match=f"curiosity=rnd: {algo} adds up .* once and for all"):
        resolve(algo, {"curiosity": "rnd"})


def test_autoreset_steps_are_not_learned_from_and_other_gradients_are_refused():
    agent = agent_of("linucb")
    observation = tf.ones([2, 1, SIZE])
    never = tf.constant([[False]])
    agent.update(
        Trajectory(observation, tf.constant([[1]]), tf.ones([1, 1]), never, never, tf.zeros([1, 1]), {}),
        random.key(0),
    )
    np.testing.assert_array_equal(agent.network.b, np.zeros((ARMS, SIZE + 1)))
    with pytest.raises(UsageError, match="grad_comp=accumulate: linucb has no gradients"):
        agent_of("linucb", grad_comp="accumulate")
