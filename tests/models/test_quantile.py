"""Implicit quantile networks: the embedding and the network in numpy, heads, masks."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import HParams
from rl.models.layers import ILLEGAL, Initializers, ObservationEncoder, resample_noise
from rl.models.quantile import CosineEmbedding, QuantileNetwork
from rl.ops import random

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
GENERATOR = np.random.default_rng(0)
OBSERVATION = tf.constant(GENERATOR.normal(size=(5, 3)), tf.float32)
FRACTION = tf.constant(GENERATOR.random((5, 6)), tf.float32)


def quantile_network(space=BOX, **kwargs):
    hparams = HParams(algo="x", env="x")
    hparams.model.hidden = (8,)
    hparams.model.activation = "relu"
    encoder = ObservationEncoder(space, False, spaces.Discrete(4))
    return QuantileNetwork(hparams, encoder, 4, Initializers(0), cosines=16, **kwargs)


def relu(x):
    return np.maximum(x, 0.0)


def test_the_embedding_is_equation_4():
    embedding = CosineEmbedding(16, 8, Initializers(0), "embedding")
    embedding.dense.bias.assign(GENERATOR.normal(size=8))
    kernel, bias = embedding.dense.kernel.numpy(), embedding.dense.bias.numpy()
    cosines = np.cos(np.pi * np.arange(16) * FRACTION.numpy()[:, :, None])  # [N, F, cosines]
    np.testing.assert_allclose(embedding(FRACTION), relu(cosines @ kernel + bias), rtol=1e-4, atol=1e-5)


def test_the_network_multiplies_features_by_the_embedding_before_its_output_layer():
    network = quantile_network()
    for variable in network.trainable_variables:
        variable.assign_add(GENERATOR.normal(size=variable.shape) * 0.1)
    layer, head = network.torso.layers[0], network.advantage
    features = relu(OBSERVATION.numpy() @ layer.kernel.numpy() + layer.bias.numpy())  # [N, W]
    product = features[:, None, :] * network.embedding(FRACTION).numpy()  # [N, F, W]
    expected = product @ head.kernel.numpy() + head.bias.numpy()  # [N, F, A]
    np.testing.assert_allclose(
        network(OBSERVATION, FRACTION), expected.transpose(0, 2, 1), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy_sigma", [None, 0.5])
def test_the_value_at_a_fraction_depends_on_no_other_fraction(dueling, noisy_sigma):
    network = quantile_network(dueling=dueling, noisy_sigma=noisy_sigma)
    for training in (False, True):
        together = network(OBSERVATION, FRACTION, training=training)
        assert together.shape == (5, 4, 6)
        for i in range(6):
            alone = network(OBSERVATION, FRACTION[:, i : i + 1], training=training)
            np.testing.assert_allclose(alone[:, :, 0], together[:, :, i], rtol=1e-4, atol=1e-5)


def test_values_change_with_the_fraction():
    values = quantile_network()(OBSERVATION, FRACTION).numpy()
    assert (np.ptp(values, axis=-1) > 1e-4).all()


def test_dueling_streams_are_combined_at_each_fraction():
    network = quantile_network(dueling=True)
    product = network.torso(OBSERVATION)[:, None, :] * network.embedding(FRACTION)
    value = network.value(network.value_hidden(tf.reshape(product, [30, 8])))  # [N * F, 1]
    mean = tf.reduce_mean(network(OBSERVATION, FRACTION), 1)  # [N, F]
    np.testing.assert_allclose(mean, tf.reshape(value, [5, 6]), rtol=1e-4, atol=1e-5)


def test_noise_acts_in_training_only():
    network = quantile_network(noisy_sigma=0.5)
    resample_noise(network, random.key(0))
    training = network(OBSERVATION, FRACTION, training=True).numpy()
    evaluation = network(OBSERVATION, FRACTION).numpy()
    assert (training != evaluation).all()
    resample_noise(network, random.key(1))
    np.testing.assert_array_equal(network(OBSERVATION, FRACTION), evaluation)


def test_illegal_actions_have_no_value_at_any_fraction():
    legal = GENERATOR.integers(0, 2, (5, 4))
    legal[:, 0] = 1
    space = spaces.Dict({"action_mask": spaces.MultiBinary(4), "seen": BOX})
    observation = {"action_mask": tf.constant(legal, tf.int8), "seen": OBSERVATION}
    values = quantile_network(space)(observation, FRACTION).numpy()
    assert ((values == ILLEGAL) == (legal == 0)[:, :, None]).all()
    np.testing.assert_allclose(
        values[legal == 1], quantile_network()(OBSERVATION, FRACTION).numpy()[legal == 1], rtol=1e-5
    )
