"""Torsos over observations of several parts."""

from __future__ import annotations

import keras
import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.models.layers import Initializers, ObservationEncoder
from rl.models.mlp import Torso
from rl.models.torso import JoinedTorso, initial_state, is_recurrent, make_torso, step, unroll
from rl.spaces import space_spec

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
IMAGE = spaces.Box(0, 1, (10, 10, 4), np.bool_)
PARTS = spaces.Dict({"near": BOX, "way": spaces.Discrete(4), "others": spaces.Tuple([BOX, BOX])})


def zeros(space):
    return tf.nest.map_structure(lambda part: tf.zeros(part.shape, part.dtype), space_spec(space, (1,)))


def make(space, **fields):
    model = ModelHParams(**{"hidden": (6,), "part_hidden": (5,), "recurrent_units": 7, **fields})
    return make_torso(model, ObservationEncoder(space, False), Initializers(0), "torso")


def test_one_part_goes_straight_into_the_torso():
    assert type(make(BOX)) is Torso


def test_each_part_has_layers_of_its_own_before_they_are_joined():
    torso = make(PARTS)
    assert isinstance(torso, JoinedTorso)
    widths = [3, 3, 3, 4]  # near; others; way, by key
    assert [part.layers[0].kernel.shape[0] for part in torso.parts] == widths
    assert torso.joint.layers[0].kernel.shape == (20, 6)
    x = np.random.default_rng(0).normal(size=(2, 13)).astype(np.float32)
    pieces = np.split(x, np.cumsum(widths)[:-1], -1)
    joined = np.concatenate(
        [np.tanh(p @ t.layers[0].kernel.numpy()) for p, t in zip(pieces, torso.parts, strict=True)], -1
    )
    expected = np.tanh(joined @ torso.joint.layers[0].kernel.numpy())
    np.testing.assert_allclose(torso(tf.constant(x)), expected, rtol=1e-5, atol=1e-6)
    paths = [variable.path for variable in torso.variables]
    assert len(set(paths)) == len(paths)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_joined_parts_are_remembered_like_a_single_one(name):
    torso = make(PARTS, name=name)
    assert is_recurrent(torso) and torso.size == 7
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 2, 13)), tf.float32)
    state, outputs = initial_state(torso, 2), []
    for t in range(4):
        output, state = step(torso, x[t], state)
        outputs.append(output)
    found, last = unroll(torso, x, initial_state(torso, 2), tf.ones([4, 2]))
    np.testing.assert_allclose(found, tf.concat(outputs, 0), rtol=1e-5, atol=1e-6)
    for mine, theirs in zip(tf.nest.flatten(last), tf.nest.flatten(state), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_without_memory_unrolling_is_the_torso_on_all_steps_at_once():
    torso = make(PARTS)
    assert initial_state(torso, 2) == ()
    x = tf.constant(np.random.default_rng(0).normal(size=(4, 2, 13)), tf.float32)
    found, last = unroll(torso, x, (), tf.ones([4, 2]))
    assert last == ()
    np.testing.assert_allclose(found, torso(tf.reshape(x, [8, 13])), rtol=1e-6)


@pytest.mark.parametrize(("space", "name"), [(BOX, "mlp"), (PARTS, "mlp"), (IMAGE, "minatar_cnn")])
def test_bfloat16_rounds_what_is_computed_and_nothing_that_is_kept(space, name):
    narrow = make(space, name=name, precision="bfloat16", hidden=(32, 32))
    wide = make(space, name=name, hidden=(32, 32))
    inputs = sum(ObservationEncoder(space, False)(zeros(space)).shape[1:])
    x = tf.constant(np.random.default_rng(0).normal(size=(16, inputs)), tf.float32)
    found, expected = narrow(x), wide(x)
    assert found.dtype == tf.float32
    assert {variable.dtype for variable in narrow.variables} == {"float32"}
    pairs = zip(narrow.variables, wide.variables, strict=True)
    assert all((one.numpy() == other.numpy()).all() for one, other in pairs)
    error = np.abs(found - expected).max()  # bfloat16 keeps 8 bits: 2^-9 of each number, over three layers
    assert 1e-4 < error < 0.05
    assert keras.config.dtype_policy().name == "float32"


def test_bfloat16_is_not_for_what_adds_up_over_time():
    with pytest.raises(UsageError, match=r"model\.precision=bfloat16 is for models without memory"):
        make(BOX, name="lstm", precision="bfloat16")
    assert keras.config.dtype_policy().name == "float32"
