"""Action masks: what encoder, networks and action selection make of observations that carry one."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.act_select.registry import get_act_select
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.merge import resolve
from rl.models.layers import ILLEGAL, Initializers, ObservationEncoder
from rl.models.networks import ActorCritic, QNetwork
from rl.ops import random
from rl.ops.distributions import of_space
from rl.types import PolicyOutput

BOX = spaces.Box(-1.0, 1.0, (2,), np.float32)
ACTIONS = spaces.Discrete(3)
SPACE = spaces.Dict({"action_mask": spaces.MultiBinary(3), "seen": BOX})
SEEN = tf.constant([[0.1, 0.2], [0.3, 0.4], [0.5, 0.6]])
LEGAL = np.array([[1, 0, 1], [0, 1, 0], [1, 1, 1]], np.int8)
OBSERVATION = {"action_mask": tf.constant(LEGAL), "seen": SEEN}
STEP = tf.constant(0, tf.int64)


def encoder(action_space=ACTIONS, space=SPACE, normalize=False):
    return ObservationEncoder(space, normalize, action_space)


def test_the_mask_is_no_feature():
    found = encoder(normalize=True)
    assert (found.masked, found.size) == (True, 2)
    found.observe(OBSERVATION, tf.ones([3]))
    np.testing.assert_allclose(found.mean.numpy(), [0.3, 0.4], rtol=1e-6)
    assert encoder()(OBSERVATION).numpy().tolist() == SEEN.numpy().tolist()
    assert not ObservationEncoder(BOX, False, ACTIONS).masked


def test_to_an_agent_of_continuous_actions_it_is_an_observation_like_others():
    found = encoder(spaces.Box(-1.0, 1.0, (3,), np.float32))
    assert (found.masked, found.size) == (False, 5)


def test_a_mask_with_another_number_of_actions_is_refused():
    with pytest.raises(UsageError, match=r"action_mask has shape \(3,\).*Discrete\(4\) need \(4,\)"):
        encoder(spaces.Discrete(4))


def test_action_values_of_illegal_actions_are_never_the_best():
    hparams = HParams(algo="x", env="x")
    network = QNetwork(hparams, encoder(), 3, Initializers(0))
    assert ((network(OBSERVATION).numpy() == ILLEGAL) == (LEGAL == 0)).all()
    lead = tf.nest.map_structure(lambda x: tf.stack([x, x]), OBSERVATION)
    values, _ = network.unroll(lead, (), tf.ones([2, 3]))
    np.testing.assert_allclose(values[1], network(OBSERVATION), rtol=1e-6)


@pytest.mark.parametrize("action_space", [ACTIONS, spaces.MultiDiscrete([2, 1])])
def test_policies_never_take_illegal_actions_and_their_entropy_is_that_of_the_rest(action_space):
    hparams = HParams(algo="x", env="x")
    masks = tf.constant([[0, 1, 1]] * 3 if action_space is not ACTIONS else LEGAL)
    observation = {"action_mask": masks, "seen": SEEN}
    network = ActorCritic(hparams, encoder(action_space), action_space, Initializers(0), 0.0)
    distribution = of_space(action_space, network(observation).parameters)
    for i in range(20):
        action = distribution.sample(random.key(i)).numpy()
        if action_space is ACTIONS:
            assert LEGAL[range(3), action].all()
        else:
            assert (action[:, 0] == 1).all()
        assert np.isfinite(distribution.log_prob(tf.constant(action))).all()
    entropy = distribution.entropy().numpy()
    counts = LEGAL.sum(1) if action_space is ACTIONS else np.ones(3)  # the first policy is nearly uniform
    np.testing.assert_allclose(entropy, np.log(counts), atol=1e-2)


@pytest.mark.parametrize("name", ["epsilon_greedy", "uniform_random"])
def test_random_actions_are_uniform_over_the_legal_ones(name):
    overrides = {"exploration_epsilon_start": 1.0, "exploration_epsilon_end": 1.0}
    select = get_act_select(name)(resolve("dqn_identity", overrides))
    count = 6_000
    masks = tf.repeat(tf.constant([[True, False, True, True]]), count, 0)
    values = tf.where(masks, tf.zeros([count, 4]), ILLEGAL)
    action, log_prob = select(PolicyOutput(q_values=values, action_mask=masks), random.key(0), STEP, True)
    share = np.bincount(action.numpy(), minlength=4) / count
    assert share[1] == 0.0
    np.testing.assert_allclose(share[[0, 2, 3]], 1 / 3, atol=0.03)
    np.testing.assert_allclose(np.exp(log_prob), 1 / 3, rtol=1e-5)
