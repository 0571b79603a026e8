"""Torsos over observations of several parts."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.hparams.hparams import ModelHParams
from rl.models.layers import Initializers, ObservationEncoder
from rl.models.mlp import Torso
from rl.models.torso import JoinedTorso, initial_state, is_recurrent, make_torso, step, unroll

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
PARTS = spaces.Dict({"near": BOX, "way": spaces.Discrete(4), "others": spaces.Tuple([BOX, BOX])})


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
