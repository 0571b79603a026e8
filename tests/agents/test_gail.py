"""GAIL: what its discriminator learns and pays, by hand; what it needs."""

from __future__ import annotations

import numpy as np
import own_data
import pytest
import tensorflow as tf
from known_networks import BOX

from rl.agents.algos.gail import Told
from rl.data.dataset import read
from rl.errors import UsageError
from rl.hparams.merge import resolve
from rl.ops import random
from rl.runners.build import build_runner
from rl.runners.parts import make_memory

SEED = random.key(0)
SMALL = {"num_envs": 4, "rollout_length": 8, "minibatches": 2, "epochs": 2, "batch_size": 16}


def undecided(agent, logit):
    """Makes the discriminator say the same of every step."""
    agent.discriminator.value.kernel.assign(tf.zeros_like(agent.discriminator.value.kernel))
    agent.discriminator.value.bias.assign(tf.fill(agent.discriminator.value.bias.shape, logit))


def test_the_discriminator_s_loss_is_the_cross_entropy(make_agent):
    agent = make_agent("gail")
    undecided(agent, 0.5)
    told = Told(
        tf.ones([3, 3]), tf.one_hot([0, 1, 2], 3), tf.constant([0.0, 1.0, 1.0]), tf.constant([1.0, 1.0, 0.0])
    )
    loss, metrics, _ = agent.discriminator_loss(told, SEED)
    # -log(1 - 1 / (1 + e^-0.5)) of the policy's step, -log(1 / (1 + e^-0.5)) of the data's.
    np.testing.assert_allclose(loss, [0.974077, 0.474077, 0.0], rtol=1e-5)
    assert metrics["told_apart"] == 0.5


def test_what_is_taken_for_the_data_s_is_paid_and_autoreset_rows_are_not(make_agent, make_rollout):
    agent = make_agent("gail", **SMALL)
    rollout = make_rollout(agent)
    for logit, paid in ((0.5, 0.974077), (-2.0, 0.126928)):  # log(1 + e^logit)
        undecided(agent, logit)
        np.testing.assert_allclose(agent.reward(rollout), paid * rollout.mask, rtol=1e-5)


def test_actions_beyond_a_bound_are_seen_as_the_bound(make_agent):
    code = make_agent("gail", action_space=BOX, **SMALL).actions.clipped_code(
        tf.constant([[7.0], [-9.0], [2.5]])
    )
    np.testing.assert_array_equal(code, [[1.0], [-1.0], [0.5]])


def test_the_environment_s_reward_is_not_looked_at(make_agent, make_rollout, snapshot, tmp_path):
    own_data.play(tmp_path, "CartPole-v1", episodes=3)
    states = []
    for scale in (1.0, -10.0):
        data = read(tmp_path)
        spaces_of = {"observation_space": data.observation_space, "action_space": data.action_space}
        agent = make_agent("gail", data=str(tmp_path), **SMALL, **spaces_of)
        make_memory(agent, 4, 8, 1, data)
        generator = np.random.default_rng(0)
        observation = tf.constant(generator.normal(size=(9, 4, 4)), tf.float32)
        rollout = make_rollout(make_agent("ppo", **{k: v for k, v in SMALL.items() if k != "batch_size"}))
        rollout = rollout._replace(
            observation=observation, action=rollout.action % 2, reward=scale * rollout.reward
        )
        metrics = agent.update(rollout, SEED).metrics
        states.append(snapshot(agent))
    for name, value in states[0].items():
        np.testing.assert_array_equal(states[1][name], value, err_msg=name)
    assert 0.0 <= metrics["told_apart"] <= 1.0 and metrics["imitation_reward"] > 0.0


def test_what_it_needs_and_what_it_has_no_use_for_is_one_line(make_agent):
    with pytest.raises(UsageError, match=r"gail learns from a data set, and none is named: .*dqn_cartpole"):
        build_runner(resolve("gail_cartpole", {}), 0)
    with pytest.raises(UsageError, match="gail does not look at the environment's reward"):
        resolve("gail_cartpole", {"normalize_reward": True})
    with pytest.raises(UsageError, match="gail cannot learn with model lstm"):
        make_agent("gail", **{"model.name": "lstm"})
    with pytest.raises(UsageError, match="a2c learns from what it plays itself, alone"):
        resolve("a2c_cartpole", {"data": "somewhere"})
