"""SlateQ: its losses in numpy, slates that it shows, and environments that it refuses."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special

from rl.agents.algos.slateq import SlateQ
from rl.envs.graph.interest_evolution import InterestEvolution
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Batch

COUNT = 6
NOW = random.key(0), tf.constant(10**9, tf.int64)


def agent_of(env, **overrides):
    hparams = resolve("slateq", {"env": "InterestEvolution-v0", "model.hidden": (8,), **overrides})
    return SlateQ(hparams, env.observation_space, env.action_space, 0)


@pytest.fixture
def env():
    return InterestEvolution(COUNT, candidates=4, slate=2, topics=3)


@pytest.fixture
def batch(env):
    state, first = env.reset(random.key(0))
    action = random.randint(random.key(1), [COUNT, 2], 4)
    _, after = env.step(state, action, random.key(2))
    mask = tf.constant([1.0] * (COUNT - 1) + [0.0])
    discount, ones, index = tf.fill([COUNT], 0.9), tf.ones([COUNT]), tf.range(COUNT)
    return Batch(first.observation, action, after.reward, discount, after.observation, ones, index, mask)


@pytest.mark.parametrize("double", [True, False])
def test_values_of_what_was_chosen_aim_at_the_best_slate(env, batch, double):
    agent = agent_of(env, double=double, loss="mse")
    for each in agent.target_network.trainable_variables:
        each.assign(each * 1.5 + 0.1)
    following = batch.next_observation
    weights = np.exp(agent.network.scores(following).numpy())
    online, target = agent.network(following).numpy(), agent.target_network(following).numpy()
    chosen, loss, errors = following["chosen"].numpy(), agent.loss(batch, random.key(0))[0].numpy(), []
    for n in range(COUNT):

        def worth(values, slate, n=n):
            shown = [*slate, 4]
            return np.dot(weights[n, shown], values[n, shown]) / weights[n, shown].sum()

        every = [(i, j) for i in range(4) for j in range(i + 1, 4)]
        best = max(every, key=lambda slate, n=n: worth(online if double else target, slate, n))
        item = 4 if chosen[n] == 2 else batch.action.numpy()[n, chosen[n]]
        aim = batch.reward.numpy()[n] + 0.9 * worth(target, best)
        errors.append(aim - agent.network(batch.observation).numpy()[n, item])
    np.testing.assert_allclose(loss, np.square(errors) * batch.mask.numpy(), rtol=1e-3, atol=1e-5)
    assert loss[:-1].min() > 0.0


def test_the_model_of_choice_is_fitted_to_choices_among_what_was_shown(env, batch):
    agent = agent_of(env)
    scores = agent.network.scores(batch.observation).numpy()
    shown = np.concatenate([np.take_along_axis(scores, batch.action.numpy(), 1), scores[:, -1:]], 1)
    log_prob = special.log_softmax(shown, 1)[np.arange(COUNT), batch.next_observation["chosen"]]
    loss, metrics, _ = agent.choice_loss(batch, random.key(0))
    np.testing.assert_allclose(loss, -log_prob * batch.mask.numpy(), rtol=1e-4)
    np.testing.assert_allclose(metrics["choice_loss"], -log_prob[:-1].mean(), rtol=1e-4)


def test_an_update_moves_values_and_choice_each_by_its_own_loss(env, batch):
    agent = agent_of(env)
    before = {name: each.numpy() for name, each in agent.variables.items()}
    metrics = agent.update(batch, random.key(0)).metrics
    assert {"loss", "q_value", "td_error", "choice_loss"} <= metrics.keys()
    for name, optimizer in agent.optimizers.items():
        assert int(optimizer.iterations) == 1, name
    changed = {name for name, each in agent.variables.items() if (each.numpy() != before[name]).any()}
    assert {name for name in before if name.startswith("network/")} <= changed
    ours = [each.path for each in agent.network.value_variables]
    assert not set(ours) & {each.path for each in agent.network.choice_variables}


@pytest.mark.parametrize("slates", ["all", "top"])
def test_it_shows_the_best_slate_or_the_best_documents(env, batch, slates):
    agent = agent_of(env, slates=slates)
    action = agent.act(batch.observation, (), *NOW, False)[0].numpy()
    q_values, scores = agent.network(batch.observation), agent.network.scores(batch.observation)
    np.testing.assert_array_equal(action, agent.best(q_values, scores))
    assert all(len(set(row)) == 2 for row in action.tolist())


def test_environments_without_slates_and_too_many_slates_are_one_line(env):
    with pytest.raises(UsageError, match=r"slates=all: 3 out of 60 documents make 34220 slates.*slates=top"):
        agent_of(InterestEvolution(1, candidates=60, slate=3))
    other = spaces.Box(-1.0, 1.0, (3,), np.float32)
    hparams = resolve("slateq", {"env": "Other-v0"})
    with pytest.raises(UsageError, match=r"slateq needs observations with user .*InterestEvolution-v0"):
        SlateQ(hparams, other, spaces.MultiDiscrete([4, 4]), 0)
    for name in ("dueling", "noisy"):
        with pytest.raises(UsageError, match=name):
            resolve("slateq", {"env": "InterestEvolution-v0", name: True})
