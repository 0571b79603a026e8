"""Actors and critics with weights that make their outputs known exactly, and batches for them."""

from __future__ import annotations

import numpy as np
import tensorflow as tf
from gymnasium import spaces

BOX = spaces.Box(np.float32(-2.0), np.float32(4.0), (1,), np.float32)  # its middle is 1, its half range 3


def constant_actor(network, output):
    """The actor gives `output` [K] whatever it observes."""
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    network.policy.bias.assign(tf.constant(output, tf.float32))


def linear_critic(critic, slopes, offsets, actions=1):
    """Critic c gives slopes[c] * (sum of the action's code) + offsets[c], where that sum is above -10."""
    for variable in critic.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    kernel = np.zeros(critic.hidden[0].kernel.shape, np.float32)
    kernel[:, -actions:, 0] = 1.0
    critic.hidden[0].kernel.assign(kernel)
    bias = np.zeros(critic.hidden[0].bias.shape, np.float32)
    bias[:, 0, 0] = 10.0
    critic.hidden[0].bias.assign(bias)
    kernel = np.zeros(critic.value.kernel.shape, np.float32)
    kernel[:, 0, 0] = slopes
    critic.value.kernel.assign(kernel)
    critic.value.bias.assign((np.array(offsets) - 10.0 * np.array(slopes)).reshape(-1, 1, 1))


def box_batch(make_batch, actions, **fields):
    """A batch of transitions with the given actions of a Box."""
    actions = np.asarray(actions, np.float32)
    return make_batch(count=len(actions), **fields)._replace(action=tf.constant(actions))


def values(model):
    return [variable.numpy() for variable in model.trainable_variables]


def same(these, those):
    return all(np.array_equal(one, other) for one, other in zip(these, those, strict=True))


def known_dynamics(agent, changes, rewards, ends):
    """Member m says that every number of the observation changes by changes[m], with the reward rewards[m],
    and a terminal state with the log odds ends[m]; the variances are the least."""
    network = agent.dynamics
    for variable in network.trainable_variables:
        variable.assign(tf.zeros_like(variable.value))
    bias = np.zeros(network.out.bias.shape, np.float32)  # [M, 1, 9]
    bias[:, 0, :3] = np.array(changes)[:, None]
    bias[:, 0, 3], bias[:, 0, 4:8], bias[:, 0, 8] = rewards, -1e4, ends
    network.out.bias.assign(bias)
