"""Models of images: against convolutions written out in numpy, sizes from the papers, clear refusals."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.hparams.hparams import ModelHParams
from rl.models.images import PatchConvolution
from rl.models.layers import Initializers, ObservationEncoder
from rl.models.mlp import Torso
from rl.models.registry import get_model
from rl.models.torso import JoinedTorso, initial_state, make_torso, step, unroll
from rl.spaces import channels_first

ATARI, PROCGEN, BOARD = (84, 84, 4), (64, 64, 3), (10, 10, 5)


def image(shape):
    return spaces.Box(0, 255, shape, np.uint8)


def make(space, **fields):
    model = ModelHParams(**{"activation": "relu", **fields})
    encoder = ObservationEncoder(space, False)
    return encoder, make_torso(model, encoder, Initializers(0), "torso")


def convolve(x, kernel, bias, stride=1, pad=0):
    """The definition: [N, H, W, C] with kernel [K, K, C, F]."""
    x = np.pad(x, ((0, 0), (pad, pad), (pad, pad), (0, 0)))
    size = kernel.shape[0]
    height, width = ((side - size) // stride + 1 for side in x.shape[1:3])
    out = np.zeros((len(x), height, width, kernel.shape[3]))
    for i in range(height):
        for j in range(width):
            patch = x[:, i * stride : i * stride + size, j * stride : j * stride + size]
            out[:, i, j] = np.tensordot(patch, kernel, 3) + bias
    return out


def halve(x):
    """Maxima over 3 x 3 at stride 2; an even side is padded at its end, as TensorFlow's "same" does."""
    odd = [side % 2 for side in x.shape[1:3]]
    pads = [(1, 1) if each else (0, 1) for each in odd]
    x = np.pad(x, ((0, 0), *pads, (0, 0)), constant_values=-np.inf)
    height, width = ((side - 3) // 2 + 1 for side in x.shape[1:3])
    rows = [
        [x[:, 2 * i : 2 * i + 3, 2 * j : 2 * j + 3].max((1, 2)) for j in range(width)] for i in range(height)
    ]
    return np.stack([np.stack(row, 1) for row in rows], 1)


def relu(x):
    return np.maximum(x, 0.0)


def weights(layer):
    return layer.kernel.numpy(), layer.bias.numpy()


def dense(torso, x):
    for layer in torso.dense.layers:
        x = relu(x @ layer.kernel.numpy() + layer.bias.numpy())
    return x


def pixels(shape, count=2):
    return np.random.default_rng(0).integers(0, 256, (count, *shape), np.uint8)


def randomize_biases(torso):
    for variable in torso.trainable_variables:
        if variable.path.endswith("bias"):
            variable.assign(np.random.default_rng(1).normal(size=variable.shape) * 0.1)


@pytest.mark.parametrize(
    ("name", "shape", "hidden", "parameters"),
    [
        # 32 * (8 * 8 * 4 + 1) + 64 * (4 * 4 * 32 + 1) + 64 * (3 * 3 * 64 + 1) + 512 * (7 * 7 * 64 + 1)
        ("nature_cnn", ATARI, (512,), 1_684_128),
        # 15 convolutions, 256 * (8 * 8 * 32 + 1): as counted from the figure of the paper
        ("impala_cnn", PROCGEN, (256,), 622_144),
        # 16 * (3 * 3 * 5 + 1) + 128 * (8 * 8 * 16 + 1)
        ("minatar_cnn", BOARD, (128,), 131_936),
    ],
)
def test_sizes_are_those_of_the_papers(name, shape, hidden, parameters):
    _, torso = make(image(shape), name=name, hidden=hidden)
    assert sum(int(np.prod(each.shape)) for each in torso.trainable_variables) == parameters
    assert torso.size == hidden[-1]
    paths = [each.path for each in torso.variables]
    assert len(set(paths)) == len(paths)


def test_the_nature_network_is_three_convolutions_and_a_dense_layer():
    encoder, torso = make(image((36, 44, 2)), name="nature_cnn", hidden=(7,), filters=(3, 4, 5))
    randomize_biases(torso)
    observation = pixels((36, 44, 2))
    x = observation / 255.0
    for stage, stride in zip(torso.stages, (4, 2, 1), strict=True):
        x = relu(convolve(x, *weights(stage), stride))
    expected = dense(torso, x.reshape(2, -1))
    np.testing.assert_allclose(torso(encoder(tf.constant(observation))), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "shape"),
    [("nature_cnn", (4, 36, 44)), ("impala_cnn", (3, 12, 16)), ("minatar_cnn", (4, 10, 10))],
)
def test_pictures_whose_channels_come_first_are_turned_round(name, shape):
    observation = pixels(shape)
    turned = np.moveaxis(observation, 1, -1)
    found, expected = (
        (encoder(tf.constant(x)), torso)
        for x, (encoder, torso) in (
            (observation, make(image(shape), name=name)),
            (turned, make(image(turned.shape[1:]), name=name)),
        )
    )
    assert found[1].variables[0].shape == expected[1].variables[0].shape
    np.testing.assert_allclose(found[1](found[0]), expected[1](expected[0]), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("shape", [(84, 84, 4), (6, 7, 2), (3, 3, 2), (8, 8, 119), (1, 10, 3), (9, 9, 17)])
def test_pictures_and_boards_whose_channels_come_last_are_left(shape):
    assert not channels_first(shape)


@pytest.mark.parametrize("shape", [(12, 16, 3), (11, 9, 3)])
def test_the_residual_network_is_that_of_the_figure(shape):
    encoder, torso = make(image(shape), name="impala_cnn", hidden=(6,), filters=(4, 5))
    randomize_biases(torso)
    observation = pixels(shape)
    x = observation / 255.0
    for section in torso.stages[:-1]:
        x = halve(convolve(x, *weights(section.enter), pad=1))
        for (first, second), bias in zip(section.blocks, section.biases, strict=True):
            inner = convolve(relu(x), *weights(first), pad=1)
            x = x + convolve(relu(inner), second.kernel.numpy(), bias.numpy(), pad=1)
    expected = dense(torso, relu(x).reshape(2, -1))
    np.testing.assert_allclose(torso(encoder(tf.constant(observation))), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_patches_give_the_convolution_and_its_gradient(jit_compile):
    layer = PatchConvolution(4, 3, Initializers(0).hidden("relu"), "conv", "tanh")
    layer.build((None, 6, 7, 2))
    layer.bias.assign([0.1, -0.2, 0.3, 0.0])
    x = tf.constant(np.random.default_rng(0).normal(size=(3, 6, 7, 2)), tf.float32)

    def both(kernel):
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(kernel)
            layer.kernel.assign(kernel)
            found = layer(x)
            expected = tf.tanh(tf.nn.conv2d(x, kernel, 1, "VALID") + tf.convert_to_tensor(layer.bias))
            size = tf.reduce_sum(found**2), tf.reduce_sum(expected**2)
        return found, expected, tape.gradient(size[0], layer.kernel.value), tape.gradient(size[1], kernel)

    function = tf.function(both, jit_compile=jit_compile, autograph=False)
    found, expected, gradient, expected_gradient = function(tf.identity(layer.kernel.value))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-4, atol=1e-4)
    np.testing.assert_allclose(found, np.tanh(convolve(x.numpy(), *weights(layer))), rtol=1e-5, atol=1e-5)


def test_an_image_reaches_the_convolution_with_height_width_and_channels_in_place():
    encoder, torso = make(image((4, 5, 3)), name="minatar_cnn", hidden=(), filters=(1,))
    kernel = np.zeros((3, 3, 3, 1), np.float32)
    kernel[2, 0, 1, 0] = 1.0  # two rows below, same column, channel 1
    torso.stages[0].kernel.assign(kernel)
    observation = pixels((4, 5, 3), 1)
    found = torso(encoder(tf.constant(observation))).numpy().reshape(2, 3)
    np.testing.assert_allclose(found, observation[0, 2:4, 0:3, 1] / 255.0, rtol=1e-6)


def test_boards_of_booleans_are_not_normalised():
    space = spaces.Box(0, 1, (3, 3, 2), np.bool_)
    encoder = ObservationEncoder(space, normalize=True)
    board = tf.constant(np.random.default_rng(0).random((4, 3, 3, 2)) > 0.5)
    encoder.observe(board, tf.ones([4]))
    np.testing.assert_array_equal(encoder(board), tf.reshape(tf.cast(board, tf.float32), [4, 18]))


def test_an_image_among_other_parts_has_convolutions_of_its_own():
    space = spaces.Dict({"seen": image(PROCGEN), "known": spaces.Box(-1.0, 1.0, (3,), np.float32)})
    encoder, torso = make(space, name="impala_cnn", part_hidden=(5,), hidden=(9,))
    assert isinstance(torso, JoinedTorso)
    known, seen = torso.parts
    assert type(known) is Torso and type(seen).__name__ == "ImpalaCNN" and torso.size == 9
    values = {"seen": pixels(PROCGEN), "known": np.ones((2, 3), np.float32)}
    x = encoder(tf.nest.map_structure(tf.constant, values))
    own = tf.concat([known(values["known"]), seen(tf.constant(values["seen"] / 255.0, tf.float32))], -1)
    np.testing.assert_allclose(torso(x), torso.joint(own), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["lstm", "gru"])
def test_a_torso_that_remembers_sees_images_through_convolutions(name):
    encoder, torso = make(image(BOARD), name=name, image="minatar_cnn", hidden=(8,), recurrent_units=6)
    assert type(torso.dense).__name__ == "MinAtarCNN"
    x = encoder(tf.constant(pixels(BOARD, 6)))
    x = tf.reshape(x, [3, 2, -1])
    state, outputs = initial_state(torso, 2), []
    for t in range(3):
        output, state = step(torso, x[t], state)
        outputs.append(output)
    found, _ = unroll(torso, x, initial_state(torso, 2), tf.ones([3, 2]))
    np.testing.assert_allclose(found, tf.concat(outputs, 0), rtol=1e-5, atol=1e-5)


def test_the_multi_layer_perceptron_flattens_images():
    _, torso = make(image(BOARD), name="mlp", hidden=(8,))
    assert torso.layers[0].kernel.shape == (500, 8)


def test_what_remembers_cannot_be_what_looks_at_pictures():
    with pytest.raises(UsageError, match=r"model.image='gru': needs a model for images"):
        make(image(BOARD), name="lstm", image="gru")
    _, torso = make(image(BOARD), name="lstm", image="mlp", hidden=(8,))
    assert torso.dense.layers[0].kernel.shape == (500, 8)


def test_pictures_too_small_for_what_looks_at_them_name_that_model():
    with pytest.raises(UsageError, match="10 x 10 are too small for the convolutions of model nature_cnn"):
        make(image(BOARD), name="lstm")


@pytest.mark.parametrize("name", ["nature_cnn", "impala_cnn", "minatar_cnn"])
def test_observations_that_are_no_images_are_refused(name):
    with pytest.raises(UsageError, match=rf"{name} is for images .* shape \[4\]: take model.name=mlp"):
        get_model(name)(ModelHParams(name=name), (4,), Initializers(0), "torso")


@pytest.mark.parametrize(("name", "side"), [("nature_cnn", 35), ("minatar_cnn", 2)])
def test_images_that_are_too_small_are_refused(name, side):
    with pytest.raises(
        UsageError, match=f"{side} x {side} are too small for the convolutions of model {name}"
    ):
        get_model(name)(ModelHParams(name=name), (side, side, 1), Initializers(0), "torso")


def test_another_number_of_convolutions_than_the_papers_is_refused():
    with pytest.raises(UsageError, match=r"has 3 convolutions, model.filters=\[8, 8\]"):
        make(image(ATARI), name="nature_cnn", filters=(8, 8))


def test_each_line_of_four_lies_in_one_place_of_a_boards_convolution():
    _, torso = make(image((6, 7, 2)), name="board_cnn", hidden=(8,))
    (layer,) = torso.stages
    assert layer.kernel.shape == (4, 4, 2, 64)
    assert layer(tf.zeros([5, 6, 7, 2])).shape == (5, 3, 4, 64)
    with pytest.raises(UsageError, match="board_cnn"):
        make(image((3, 3, 2)), name="board_cnn")
