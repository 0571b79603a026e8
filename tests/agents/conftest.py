"""Agents on spaces of a test's choice, and their networks multiplied out in numpy."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.registry import get_algo
from rl.hparams.merge import resolve
from rl.types import Batch

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
        )._replace(**fields)
        integers = ("action", "index")
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
