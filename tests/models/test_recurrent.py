"""LSTM and GRU torsos: against Keras's own cells, and along trajectories with several episodes."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf

from rl.hparams.hparams import ModelHParams
from rl.models.layers import Initializers
from rl.models.registry import get_model

UNITS, INPUTS, LENGTH, COUNT = 5, 3, 7, 4
NAMES = pytest.mark.parametrize("name", ["lstm", "gru"])


def make(name, hidden=()):
    model = ModelHParams(name=name, hidden=hidden, recurrent_units=UNITS)
    torso = get_model(name)(model, (INPUTS,), Initializers(3), "torso")
    generator = np.random.default_rng(1)
    torso.bias.assign(generator.normal(size=torso.bias.shape).astype(np.float32))
    return torso


def leaves(state):
    return [each.numpy() for each in tf.nest.flatten(state)]


@NAMES
def test_it_computes_what_the_keras_layer_computes(name):
    torso = make(name)
    generator = np.random.default_rng(0)
    x = generator.normal(size=(LENGTH, COUNT, INPUTS)).astype(np.float32)
    if name == "lstm":
        peer = keras.layers.LSTM(UNITS, return_sequences=True)
        peer.build((COUNT, LENGTH, INPUTS))
        forget = np.r_[np.zeros(UNITS), np.ones(UNITS), np.zeros(2 * UNITS)].astype(np.float32)
        bias = torso.bias.numpy() + forget  # Keras keeps the forget gate's 1 in the bias
    else:
        peer = keras.layers.GRU(UNITS, return_sequences=True, reset_after=True)
        peer.build((COUNT, LENGTH, INPUTS))
        bias = np.stack([torso.bias.numpy(), np.zeros(3 * UNITS, np.float32)])
    peer.set_weights([torso.kernel.numpy(), torso.recurrent_kernel.numpy(), bias])
    expected = peer(x.transpose(1, 0, 2)).numpy().transpose(1, 0, 2)
    found, _ = torso.unroll(tf.constant(x), torso.initial_state(COUNT), tf.ones([LENGTH, COUNT]))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


@NAMES
@pytest.mark.parametrize("jit_compile", [False, True])
def test_unrolling_is_stepping_with_a_fresh_state_after_each_autoreset(name, jit_compile):
    torso = make(name, hidden=(6,))
    generator = np.random.default_rng(0)
    x = tf.constant(generator.normal(size=(LENGTH, COUNT, INPUTS)).astype(np.float32))
    mask = np.ones((LENGTH, COUNT), np.float32)
    mask[2, 1] = mask[4, 1] = mask[0, 3] = mask[6, 2] = 0.0
    state = tf.nest.map_structure(lambda each: each + 0.5, torso.initial_state(COUNT))

    expected, now = [], state
    for t in range(LENGTH):
        output, now = torso(x[t], now)
        expected.append(output)
        now = tf.nest.map_structure(lambda each, t=t: each * mask[t][:, None], now)

    function = tf.function(torso.unroll, jit_compile=jit_compile, autograph=False)
    found, last = function(x, state, tf.constant(mask))
    np.testing.assert_allclose(found, np.stack(expected), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(leaves(last), leaves(now), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)
    assert all((leaf[2] == 0.0).all() for leaf in leaves(last))  # its last step was an autoreset


@NAMES
def test_no_gradient_flows_from_one_episode_into_the_one_before(name):
    torso = make(name)
    x = tf.Variable(np.random.default_rng(0).normal(size=(LENGTH, COUNT, INPUTS)).astype(np.float32))
    mask = np.ones((LENGTH, COUNT), np.float32)
    mask[3, 0] = 0.0
    with tf.GradientTape() as tape:
        outputs, _ = torso.unroll(tf.convert_to_tensor(x), torso.initial_state(COUNT), tf.constant(mask))
        last = tf.reduce_sum(outputs[-1])
    gradient = tape.gradient(last, x).numpy()
    assert (gradient[:4, 0] == 0.0).all()
    assert (gradient[4:, 0] != 0.0).all()
    assert (gradient[:4, 1] != 0.0).all()
