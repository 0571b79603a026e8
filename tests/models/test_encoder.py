"""The observation encoder: every space by literal values, and the running normaliser."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.models.layers import ObservationEncoder, encoded_size

BOX = spaces.Box(-10.0, 10.0, (2,), np.float32)
BYTES = spaces.Box(0, 255, (1, 2), np.uint8)

# (space, batch of two observations, their encoding)
CASES = {
    "Box": (BOX, [[1.0, -2.0], [3.0, 4.0]], [[1, -2], [3, 4]]),
    "Box of two axes": (
        spaces.Box(-1.0, 1.0, (2, 2)),
        [[[0.1, 0.2], [0.3, 0.4]], [[0.5, 0.6], [0.7, 0.8]]],
        [[0.1, 0.2, 0.3, 0.4], [0.5, 0.6, 0.7, 0.8]],
    ),
    "bytes": (BYTES, [[[0, 255]], [[51, 102]]], [[0, 1], [0.2, 0.4]]),
    "bits in bytes": (spaces.Box(0, 1, (3,), np.uint8), [[0, 1, 0], [1, 1, 0]], [[0, 1, 0], [1, 1, 0]]),
    "small bytes": (spaces.Box(0, 4, (2,), np.uint8), [[0, 4], [1, 2]], [[0, 1], [0.25, 0.5]]),
    "Discrete": (spaces.Discrete(3), [2, 0], [[0, 0, 1], [1, 0, 0]]),
    "Discrete with a start": (spaces.Discrete(3, start=5), [7, 5], [[0, 0, 1], [1, 0, 0]]),
    "MultiDiscrete": (spaces.MultiDiscrete([2, 3]), [[1, 0], [0, 2]], [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]]),
    "MultiDiscrete with a start": (
        spaces.MultiDiscrete([2, 3], start=[4, -1]),
        [[5, -1], [4, 1]],
        [[0, 1, 1, 0, 0], [1, 0, 0, 0, 1]],
    ),
    "MultiBinary": (spaces.MultiBinary(3), [[1, 0, 1], [0, 0, 1]], [[1, 0, 1], [0, 0, 1]]),
    "Dict, its keys in order": (
        spaces.Dict({"b": BOX, "a": spaces.Discrete(2)}),
        {"b": [[1.0, -2.0], [3.0, 4.0]], "a": [1, 0]},
        [[0, 1, 1, -2], [1, 0, 3, 4]],
    ),
    "Tuple": (
        spaces.Tuple([spaces.Discrete(2), BYTES, BOX]),
        ([1, 0], [[[0, 255]], [[51, 0]]], [[1.0, -2.0], [3.0, 4.0]]),
        [[0, 1, 0, 1, 1, -2], [1, 0, 0.2, 0, 3, 4]],
    ),
    "Dict in a Tuple": (
        spaces.Tuple([BOX, spaces.Dict({"x": spaces.Discrete(2)})]),
        ([[1.0, -2.0], [3.0, 4.0]], {"x": [1, 0]}),
        [[1, -2, 0, 1], [3, 4, 1, 0]],
    ),
}


def batch(space, values):
    """Tensors [N, ...] of `values` in the dtypes of `space`."""
    if isinstance(space, spaces.Dict):
        return {key: batch(space.spaces[key], each) for key, each in values.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(batch(part, each) for part, each in zip(space.spaces, values, strict=True))
    return tf.constant(np.array(values, space.dtype))


@pytest.mark.parametrize("name", CASES)
def test_every_space_becomes_one_vector(name):
    space, values, expected = CASES[name]
    encoder = ObservationEncoder(space, normalize=False)
    found = encoder(batch(space, values))
    assert found.dtype == tf.float32
    assert found.shape[1] == encoder.size == encoded_size(space)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


@pytest.mark.parametrize("name", CASES)
def test_an_encoding_tells_what_was_observed(name):
    space, values, encoding = CASES[name]
    encoder = ObservationEncoder(space, normalize=False)
    found = encoder.decode(tf.constant(encoding, tf.float32))
    expected = batch(space, values)
    tf.nest.assert_same_structure(found, expected)
    for x, y in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-6)


def test_numbers_that_encode_nothing_give_the_nearest_observation():
    space = spaces.Tuple([spaces.Discrete(3, start=5), BYTES, spaces.MultiBinary(2), BOX])
    numbers = [[0.2, -0.4, 0.1, 0.39, 1.7, 0.6, -3.0, 4.0, -12.0]]
    number, pixels, bits, box = ObservationEncoder(space, normalize=False).decode(tf.constant(numbers))
    assert (number.dtype, pixels.dtype, bits.dtype) == (tf.int32, tf.uint8, tf.int32)
    np.testing.assert_array_equal(number, [5])
    np.testing.assert_array_equal(pixels, [[[99, 255]]])  # 0.39 * 255 = 99.45
    np.testing.assert_array_equal(bits, [[1, 0]])
    np.testing.assert_array_equal(box, [[4.0, -10.0]])


def test_a_space_without_an_encoding_is_refused():
    with pytest.raises(TypeError, match="no encoding"):
        ObservationEncoder(spaces.Text(5), normalize=False)


def test_a_fresh_normaliser_changes_nothing():
    encoder = ObservationEncoder(BOX, normalize=True)
    np.testing.assert_allclose(encoder(tf.constant([[1.0, -2.0]])), [[1.0, -2.0]], rtol=1e-6)


def test_the_normaliser_has_the_statistics_of_all_it_observed():
    encoder, generator = ObservationEncoder(BOX, normalize=True), np.random.default_rng(0)
    seen = []
    for size in (5, 1, 64, 17):
        x = generator.normal([3.0, -1.0], [0.5, 4.0], (size, 2)).astype(np.float32)
        weight = (generator.random(size) < 0.7).astype(np.float32)
        encoder.observe(tf.constant(x), tf.constant(weight))
        seen.append(x[weight > 0])
    seen = np.concatenate(seen)
    np.testing.assert_allclose(encoder.mean, seen.mean(0), rtol=1e-4)
    np.testing.assert_allclose(encoder.variance, seen.var(0), rtol=1e-4)
    assert float(encoder.count) == len(seen)
    x = np.array([[2.0, 5.0]], np.float32)
    np.testing.assert_allclose(encoder(tf.constant(x)), (x - seen.mean(0)) / seen.std(0), rtol=1e-4)


def test_normalised_observations_are_clipped_at_10_deviations():
    encoder = ObservationEncoder(BOX, normalize=True)
    encoder.observe(tf.constant([[0.0, 0.0], [2.0, 2.0]]), tf.ones(2))  # mean 1, deviation 1
    np.testing.assert_allclose(encoder(tf.constant([[100.0, -100.0]])), [[10.0, -10.0]])


def test_only_real_numbers_are_normalised():
    space = spaces.Dict({"a": spaces.Discrete(2), "b": BOX, "c": BYTES, "d": spaces.MultiBinary(1)})
    encoder = ObservationEncoder(space, normalize=True)
    values = {"a": [1, 1], "b": [[0.0, 4.0], [2.0, 8.0]], "c": [[[0, 255]], [[51, 255]]], "d": [[1], [0]]}
    encoder.observe(batch(space, values), tf.ones(2))
    # b: means 1 and 6, deviations 1 and 2; the rest as without a normaliser
    expected = [[0, 1, -1, -1, 0, 1, 1], [0, 1, 1, 1, 0.2, 1, 0]]
    np.testing.assert_allclose(encoder(batch(space, values)), expected, rtol=1e-5)


def test_a_normaliser_that_is_off_has_no_variables_and_observes_nothing():
    encoder = ObservationEncoder(BOX, normalize=False)
    encoder.observe(tf.constant([[1.0, 2.0]]), tf.ones(1))
    assert encoder.variables == []


def test_statistics_are_state_but_never_trained():
    encoder = ObservationEncoder(BOX, normalize=True)
    assert encoder.trainable_variables == []
    assert len(encoder.variables) == 5


def test_an_image_comes_out_as_the_model_computes_and_nothing_else_does():
    image = spaces.Box(0, 255, (2, 2, 1), np.uint8)
    bytes_ = np.array([[0, 51, 102, 255]], np.uint8).reshape(1, 2, 2, 1)
    encoder = ObservationEncoder(image, normalize=False, precision="bfloat16")
    narrow = encoder(tf.constant(bytes_))
    assert narrow.dtype == tf.bfloat16
    # Eight significant bits: of 0.2 and 0.4 in binary, 0.11001100|1100 times 2^-2 and 2^-1, rounded up.
    assert tf.cast(narrow, tf.float32).numpy().tolist() == [[0.0, 205 / 1024, 205 / 512, 1.0]]
    parts = spaces.Dict({"image": image, "speed": BOX})
    several = ObservationEncoder(parts, normalize=False, precision="bfloat16")
    assert several({"image": tf.constant(bytes_), "speed": tf.zeros([1, *BOX.shape])}).dtype == tf.float32
    assert ObservationEncoder(BOX, False, precision="bfloat16")(tf.zeros([1, *BOX.shape])).dtype == tf.float32


@pytest.mark.parametrize("jit_compile", [pytest.param(False, marks=pytest.mark.slow), True])
def test_statistics_go_on_however_many_observations_there_have_been(jit_compile):
    # float32 counts no single steps beyond 2^24, and adds no such small shares to a mean or a variance.
    encoder = ObservationEncoder(spaces.Box(-9.0, 9.0, (1,), np.float32), normalize=True)
    encoder.variance.assign([1.0])
    encoder.count.assign(2**24)

    @tf.function(jit_compile=jit_compile, autograph=False)
    def alternate(value, times):
        def body(i, sign):
            encoder.observe(tf.reshape(2.0 + sign * value, [1, 1]), tf.ones(1))
            return i + 1, -sign

        tf.while_loop(lambda i, _: i < times, body, (tf.constant(0), tf.constant(1.0)))

    encoder.mean.assign([2.0])
    alternate(tf.constant(1.0), tf.constant(2**14))  # deviation 1, as before
    assert int(encoder.count) == 2**24 + 2**14
    np.testing.assert_allclose(encoder.variance, [1.0], atol=2e-7)
    alternate(tf.constant(3.0), tf.constant(2**14))
    np.testing.assert_allclose(encoder.variance, [(2**10 + 1 + 9) / (2**10 + 2)], atol=4e-7)
    np.testing.assert_allclose(encoder.mean, [2.0], atol=1e-6)


def test_observations_of_nothing_but_an_action_mask_are_refused_in_words():
    space = spaces.Dict(action_mask=spaces.MultiBinary(3))
    with pytest.raises(UsageError, match="nothing to learn from but which actions are legal; add a part"):
        ObservationEncoder(space, False, spaces.Discrete(3))
