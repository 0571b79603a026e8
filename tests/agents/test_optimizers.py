"""Optimizers: the steps that are written here for speed are Keras's."""

from __future__ import annotations

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf

from rl.agents.optimizers import OPTIMIZERS
from rl.hparams.hparams import HParams

KERAS = {
    "adam": lambda rate: keras.optimizers.Adam(rate, epsilon=1e-6),
    "adamw": lambda rate: keras.optimizers.AdamW(rate, weight_decay=0.1, epsilon=1e-6),
    "rmsprop": lambda rate: keras.optimizers.RMSprop(rate, rho=0.99, epsilon=1e-6),
    "sgd": lambda rate: keras.optimizers.SGD(rate),
}


def apply(optimizer, variables, gradients):
    optimizer.apply(gradients, variables)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_steps_are_those_of_keras_to_the_bit(name):
    generator = np.random.default_rng(0)
    values = [generator.normal(size=shape).astype(np.float32) for shape in ((3, 4), (4,))]
    gradients = [[generator.normal(size=x.shape).astype(np.float32) for x in values] for _ in range(5)]
    ours = OPTIMIZERS[name](0.01, HParams.model_construct(adam_epsilon=1e-6, weight_decay=0.1))
    learned = []
    for optimizer in (ours, KERAS[name](0.01)):
        variables = [keras.Variable(x, name="kernel") for x in values]
        optimizer.build(variables)
        step = tf.function(functools.partial(apply, optimizer, variables), autograph=False)
        for each in gradients:
            step([tf.constant(x) for x in each])
        learned.append([x.numpy() for x in variables] + [x.numpy() for x in optimizer.variables])
    assert len(learned[0]) == len(learned[1])
    for one, other in zip(*learned, strict=True):
        np.testing.assert_array_equal(one, other)
    assert (learned[0][0] != values[0]).all()
