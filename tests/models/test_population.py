"""A population's rows against single networks with the same weights."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import HParams
from rl.models.layers import Initializers, ObservationEncoder
from rl.models.networks import QNetwork
from rl.models.population import Population, with_weights
from rl.ops import random

SIZE, STD = 6, 0.3
BOX = spaces.Box(-5.0, 5.0, (3,), np.float32)
NESTED = spaces.Dict({"number": BOX, "category": spaces.Discrete(4), "action_mask": spaces.MultiBinary(2)})


def make(space=BOX, hidden=(5,), normalize=False, action_space=None):
    hparams = HParams()
    hparams.model.hidden = hidden
    initializers = Initializers(0)
    encoder = ObservationEncoder(space, normalize, action_space)
    network = QNetwork(hparams, encoder, 2, initializers)
    return network, Population(network, SIZE, STD)


def observations(space, count=SIZE):
    space.seed(0)
    rows = [space.sample() for _ in range(count)]
    return tf.nest.map_structure(lambda *each: tf.constant(np.stack(each)), *rows)


def row_by_row(network, population, observation):
    """What the network says with the weights of each member in turn."""
    kept = [each.numpy() for each in network.trainable_variables]
    outputs = []
    for i in range(SIZE):
        for variable, weight in zip(network.trainable_variables, population.weights, strict=True):
            variable.assign(weight.numpy()[i])
        single = tf.nest.map_structure(lambda x, row=i: x[row : row + 1], observation)
        outputs.append(network(single).numpy()[0])
    for variable, value in zip(network.trainable_variables, kept, strict=True):
        variable.assign(value)
    return np.stack(outputs)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("hidden", [(), (5,), (7, 4)])
def test_each_row_is_what_one_network_with_its_weights_says(hidden, compiled):
    network, population = make(hidden=hidden)
    population.resample(random.key(0))
    observation = observations(BOX)
    found = tf.function(population, jit_compile=compiled, autograph=False)(observation)
    np.testing.assert_allclose(found, row_by_row(network, population, observation), rtol=1e-5, atol=1e-6)
    assert len(np.unique(found.numpy()[:, 0])) == SIZE


def test_nested_observations_masks_and_the_normaliser_are_each_rows_own():
    network, population = make(NESTED, normalize=True, action_space=spaces.Discrete(2))
    population.resample(random.key(0))
    observation = observations(NESTED)
    network.encoder.observe(observation, tf.ones([SIZE]))
    found = tf.function(population, autograph=False)(observation)
    np.testing.assert_allclose(found, row_by_row(network, population, observation), rtol=1e-5, atol=1e-6)
    legal = observation["action_mask"].numpy().astype(bool)
    np.testing.assert_array_equal(found.numpy() == -1e9, ~legal)


def test_members_are_mirrored_pairs_around_the_network():
    network, population = make()
    population.resample(random.key(0))
    noise = population.noise.numpy()
    assert noise.shape == (3, 3 * 5 + 5 + 5 * 2 + 2)
    start = 0
    for variable, weight in zip(network.trainable_variables, population.weights, strict=True):
        center, members = variable.numpy(), weight.numpy()
        part = noise[:, start : start + center.size].reshape(3, *center.shape)
        np.testing.assert_allclose(members[:3], center + STD * part, atol=1e-6)
        np.testing.assert_allclose(members[3:], center - STD * part, atol=1e-6)
        start += center.size
    assert start == noise.shape[1] == population.parameters


def test_noise_is_standard_normal_and_decided_by_the_seed():
    network = make(hidden=(64,))[0]
    population = Population(network, 64, STD)
    before = population.noise.numpy()
    assert not before.any()
    population.resample(random.key(1))
    first = population.noise.numpy()
    assert abs(first.mean()) < 0.03 and abs(first.std() - 1.0) < 0.03
    population.resample(random.key(2))
    assert (population.noise.numpy() != first).any(0).all()
    population.resample(random.key(1))
    np.testing.assert_array_equal(population.noise.numpy(), first)


def test_before_its_first_noise_every_member_is_the_network():
    network, population = make()
    observation = observations(BOX)
    found = tf.function(population, autograph=False)(observation)
    np.testing.assert_allclose(found, network(observation), rtol=1e-5, atol=1e-6)


def test_values_put_in_place_of_variables_are_used():
    """Acting on the host replaces all variables by inputs: nothing may be read behind the replacement."""
    network, population = make(normalize=True)
    population.resample(random.key(0))
    observation = observations(BOX)
    named = [*network.non_trainable_variables, *population.weights]
    values = [each.numpy() + 0.5 for each in named]

    @tf.function(autograph=False)
    def replaced(values):
        with keras.StatelessScope(state_mapping=list(zip(named, values, strict=True))):
            return population(observation)

    found = replaced([tf.constant(each) for each in values])
    assert not np.allclose(found, tf.function(population, autograph=False)(observation))
    for variable, value in zip(named, values, strict=True):
        variable.assign(value)
    np.testing.assert_allclose(found, row_by_row(network, population, observation), rtol=1e-5, atol=1e-6)


def test_another_number_of_observations_than_members_is_refused():
    _, population = make()
    with pytest.raises(ValueError, match="4 observations for 6 members"):
        population(observations(BOX, 4))


def test_copies_of_other_weights_have_several_inputs_each():
    network, population = make()
    population.resample(random.key(0))
    inputs = np.random.default_rng(0).normal(size=(SIZE, 4, 3)).astype(np.float32)
    weights = [tf.convert_to_tensor(each) for each in population.weights]
    found = with_weights(network, weights, tf.constant(inputs))
    assert found.shape == (SIZE, 4, 2)
    for i in range(4):
        expected = row_by_row(network, population, tf.constant(inputs[:, i]))
        np.testing.assert_allclose(found[:, i], expected, rtol=1e-5, atol=1e-6)
