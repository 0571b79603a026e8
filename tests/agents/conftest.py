"""Agents on spaces of a test's choice, and their networks multiplied out in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces
from scipy import special, stats

from rl.agents.agent import network_state
from rl.agents.algos.registry import get_algo
from rl.hparams.merge import resolve
from rl.ops import random
from rl.types import Batch, Trajectory

BOX = spaces.Box(-5.0, 5.0, (3,), np.float32)


@pytest.fixture
def make_agent():
    """`make_agent("dqn", lr=0.1)`: an agent for observations [3] and three actions, unless told otherwise."""

    def make(name, seed=0, observation_space=BOX, action_space=None, **overrides):
        hparams = resolve(name, {"env": "Test-v0", "model.hidden": (8,), **overrides})
        action_space = spaces.Discrete(3) if action_space is None else action_space
        return get_algo(hparams.algo)(hparams, observation_space, action_space, seed)

    return make


@pytest.fixture
def make_batch():
    """A random `Batch` of N transitions in the spaces of `make_agent`; fields may be given."""

    def make(seed=0, count=6, **fields):
        generator = np.random.default_rng(seed)
        batch = Batch(
            observation=generator.normal(size=(count, 3)),
            action=generator.integers(0, 3, count),
            reward=generator.normal(size=count) * 3.0,
            discount=generator.choice([0.0, 0.9], count),
            next_observation=generator.normal(size=(count, 3)),
            sample_weight=generator.random(count) + 0.1,
            index=np.arange(count),
            mask=np.ones(count),
            next_action=generator.integers(0, 3, count),
        )._replace(**fields)
        integers = ("action", "index", "next_action")
        dtypes = [tf.int32 if name in integers else tf.float32 for name in Batch._fields]
        return Batch(*(tf.constant(x, dtype) for x, dtype in zip(batch, dtypes, strict=True)))

    return make


@pytest.fixture
def forward():
    """`forward(torso, head, x, activation)`: dense layers in numpy."""

    def compute(torso, head, x, activation):
        x = np.asarray(x)
        for layer in torso.layers:
            x = activation(x @ layer.kernel.numpy() + layer.bias.numpy())
        return x @ head.kernel.numpy() + head.bias.numpy()

    return compute


@pytest.fixture
def snapshot():
    """Copies of all of an agent's variables, by name."""
    return lambda agent: {name: each.numpy() for name, each in agent.variables.items()}


@pytest.fixture
def make_rollout():
    """`make_rollout(agent)`: a random `Trajectory` [8, 4] in which the agent's own policy acted, with both
    kinds of episode end, each followed by its autoreset row, and a state before it if the model has one."""

    def make(agent, steps=8, batch=4, seed=0, ends=True):
        generator = np.random.default_rng(seed)
        terminated, truncated = np.zeros((2, steps, batch), bool)
        if ends:
            terminated[2, 0] = truncated[4, 1] = terminated[5, 2] = truncated[5, 2] = True
        mask = np.ones((steps, batch), np.float32)
        mask[1:][(terminated | truncated)[:-1]] = 0.0
        observation = tf.constant(generator.normal(size=(steps + 1, batch, 3)), tf.float32)
        state = tf.nest.map_structure(
            lambda x: tf.constant(generator.normal(size=x.shape) * 0.5, tf.float32),
            agent.initial_state(batch),
        )
        before, rows = network_state(state), []
        for t in range(steps):
            seeds = random.fold_in(random.key(seed), t)
            action, extras, state = agent.act(observation[t], state, seeds, tf.constant(0, tf.int64), True)
            alive = tf.constant(mask[t])[:, None]
            state = tf.nest.map_structure(lambda x, alive=alive: x * alive, state)
            rows.append((action, extras))
        action, extras = tf.nest.map_structure(lambda *x: tf.stack(x), *rows)
        reward = tf.constant(generator.normal(size=(steps, batch)) * mask, tf.float32)
        flags = tf.constant(terminated), tf.constant(truncated), tf.constant(mask)
        return Trajectory(observation, action, reward, *flags, extras, before)

    return make


@pytest.fixture
def numpy_policy(forward):
    """`numpy_policy(network, observation, action)`: (log_prob, entropy, value), all [N], of an `ActorCritic`
    of dense layers, multiplied out in numpy."""

    def compute(network, observation, action):
        parameters = forward(network.torso, network.policy, observation, np.tanh)
        value = forward(network.value_torso, network.value, observation, np.tanh)[:, 0]
        if network.log_std is None:
            log_probs = special.log_softmax(parameters, -1)
            chosen = log_probs[np.arange(len(value)), np.asarray(action)]
            return chosen, stats.entropy(np.exp(log_probs), axis=-1), value
        std = np.exp(network.log_std.numpy())
        log_prob = stats.norm.logpdf(action, parameters, std).sum(-1)
        return log_prob, np.full(len(value), stats.norm.entropy(0.0, std).sum()), value

    return compute


@pytest.fixture
def losses_of_filled():
    """Losses [N] of an agent on sequences of 8 steps of which the last three fill up, as
    `rl.memory.dataset_sequences` makes them: as they are, with other observations beyond the last one of the
    episode, and with that one another, too."""

    def losses(agent, batch, seed):
        t, steps = batch.trajectory, tf.range(8)[:, None] + tf.zeros([8, 4], tf.int32)
        t = t._replace(mask=tf.cast(steps < 5, tf.float32), terminated=steps >= 4)
        found = []
        for first in (9, 6, 5):
            change = tf.cast(tf.range(9)[:, None, None] >= first, tf.float32)
            each = batch._replace(trajectory=t._replace(observation=t.observation + change))
            found.append(agent.loss(each, seed)[0].numpy())
        return found

    return losses
