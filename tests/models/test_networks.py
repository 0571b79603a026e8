"""Networks: dueling and noisy heads, seeded initial weights, names that stay the same."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from gymnasium import spaces

from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.models.continuous import BoxActions, Critic
from rl.models.contracts import named_variables
from rl.models.layers import Initializers, NoisyDense, ObservationEncoder, dense, resample_noise
from rl.models.mlp import mlp
from rl.models.networks import ActorCritic, QNetwork
from rl.models.policies import PolicyNetwork
from rl.ops import random

BOX = spaces.Box(-1.0, 1.0, (3,), np.float32)
OBSERVATION = tf.constant(np.random.default_rng(0).normal(size=(5, 3)), tf.float32)


def hparams(**model):
    found = HParams(algo="x", env="x")
    for name, value in model.items():
        setattr(found.model, name, value)
    return found


def q_network(seed=0, actions=4, atoms=1, model=None, **kwargs):
    encoder = ObservationEncoder(BOX, normalize=False)
    initializers = Initializers(seed)
    return QNetwork(hparams(**(model or {})), encoder, actions, initializers, atoms, **kwargs)


def actor_critic(seed=0, space=None, log_std_init=0.0, **model):
    encoder = ObservationEncoder(BOX, normalize=False)
    action_space = spaces.Discrete(2) if space is None else space
    return ActorCritic(hparams(**model), encoder, action_space, Initializers(seed), log_std_init)


def weights(network):
    return {name: variable.numpy() for name, variable in named_variables("n", network.variables).items()}


@pytest.mark.parametrize(("atoms", "shape"), [(1, (5, 4)), (7, (5, 4, 7))])
@pytest.mark.parametrize("dueling", [False, True])
@pytest.mark.parametrize("noisy_sigma", [None, 0.5])
def test_q_networks_have_one_value_or_row_of_atoms_for_each_action(atoms, shape, dueling, noisy_sigma):
    network = q_network(atoms=atoms, dueling=dueling, noisy_sigma=noisy_sigma)
    for training in (False, True):
        assert network(OBSERVATION, training=training).shape == shape


def test_a_mlp_is_its_layers_multiplied_out():
    torso = mlp(hparams(hidden=(4, 2), activation="relu").model, (3,), Initializers(0), "torso")
    x = OBSERVATION.numpy()
    for layer in torso.layers:
        layer.bias.assign(tf.random.normal(layer.bias.shape))
        x = np.maximum(x @ layer.kernel.numpy() + layer.bias.numpy(), 0.0)
    assert torso.size == 2
    np.testing.assert_allclose(torso(OBSERVATION), x, rtol=1e-5, atol=1e-6)


def normalized(x, scale, offset):
    """Ba et al. 2016, equation 4, over the last axis."""
    mean, variance = x.mean(-1, keepdims=True), x.var(-1, keepdims=True)
    return (x - mean) / np.sqrt(variance + 1e-5) * scale + offset


def test_layer_norm_is_between_each_dense_layer_and_its_activation():
    model = hparams(hidden=(4, 2), activation="relu", layer_norm=True).model
    torso = mlp(model, (3,), Initializers(0), "torso")
    x = OBSERVATION.numpy()
    for linear, norm, _ in zip(*[iter(torso.layers)] * 3, strict=True):
        for variable in (linear.bias, norm.gamma, norm.beta):
            variable.assign(tf.random.normal(variable.shape))
        x = x @ linear.kernel.numpy() + linear.bias.numpy()
        x = np.maximum(normalized(x, norm.gamma.numpy(), norm.beta.numpy()), 0.0)
    np.testing.assert_allclose(torso(OBSERVATION), x, rtol=1e-4, atol=1e-5)
    names = [name for name in named_variables("n", torso.variables) if "norm" in name]
    assert names == [f"n/torso/dense_{i}_norm/{part}" for i in (0, 1) for part in ("gamma", "beta")]


def test_layer_norm_of_critics_side_by_side_is_each_critics_own():
    encoder = ObservationEncoder(BOX, normalize=False)
    critics = Critic(hparams(hidden=(4,), activation="tanh", layer_norm=True), encoder, 2, Initializers(0), 3)
    hidden = critics.hidden[0]
    for variable in (hidden.bias, hidden.scale, hidden.offset):
        variable.assign(tf.random.normal(variable.shape))
    action = np.random.default_rng(1).normal(size=(5, 2)).astype(np.float32)
    x = np.concatenate([OBSERVATION.numpy(), action], -1)
    values = critics(OBSERVATION, tf.constant(action))
    for i in range(3):
        kernel, bias, scale, offset = (
            each.numpy()[i] for each in (hidden.kernel, hidden.bias, hidden.scale, hidden.offset)
        )
        y = np.tanh(normalized(x @ kernel + bias, scale, offset))
        y = y @ critics.value.kernel.numpy()[i] + critics.value.bias.numpy()[i]
        np.testing.assert_allclose(values[i], y, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(critics(OBSERVATION, tf.constant(action), members=2), values[:2])


def test_values_and_critics_have_layers_of_their_own_size_where_they_are_given():
    encoder, given = ObservationEncoder(BOX, False), hparams(hidden=(8,), value_hidden=(16, 4))
    network = ActorCritic(given, encoder, spaces.Discrete(2), Initializers(0), 0.0)
    own = [
        [tuple(each.shape) for each in torso.trainable_variables if each.name == "kernel"]
        for torso in (network.torso, network.value_torso)
    ]
    assert own == [[(3, 8)], [(3, 16), (16, 4)]]
    assert (network.policy.kernel.shape, network.value.kernel.shape) == ((8, 2), (4, 1))
    assert network(OBSERVATION).value.shape == (5,)
    critic = Critic(given, encoder, 1, Initializers(0), count=2)
    assert [tuple(each.kernel.shape) for each in critic.hidden] == [(2, 4, 16), (2, 16, 4)]
    assert critic(OBSERVATION, tf.ones([5, 1])).shape == (2, 5, 1)


def test_a_mlp_without_hidden_layers_passes_its_input_on():
    torso = mlp(hparams(hidden=()).model, (3,), Initializers(0), "torso")
    assert torso.size == 3
    np.testing.assert_array_equal(torso(OBSERVATION), OBSERVATION)


@pytest.mark.parametrize("atoms", [1, 7])
def test_dueling_advantages_have_mean_zero_so_that_the_mean_is_the_value(atoms):
    network = q_network(atoms=atoms, dueling=True)
    network.value.bias.assign(tf.range(atoms, dtype=tf.float32) + 1.0)
    value = network.value(network.value_hidden(network.torso(OBSERVATION)))  # [N, atoms]
    q_values = tf.reshape(network(OBSERVATION), [5, 4, atoms])
    np.testing.assert_allclose(tf.reduce_mean(q_values, 1), value, rtol=1e-4, atol=1e-5)


def test_dueling_q_values_differ_between_actions_as_the_advantages_do():
    network = q_network(dueling=True)
    advantage = network.advantage(network.advantage_hidden(network.torso(OBSERVATION)))
    q_values = network(OBSERVATION)
    np.testing.assert_allclose(
        q_values[:, 1:] - q_values[:, :1], advantage[:, 1:] - advantage[:, :1], rtol=1e-4, atol=1e-5
    )


def noisy_layer(inputs=3, units=2, sigma=0.5):
    return NoisyDense(inputs, units, Initializers(0), sigma, "noisy")


def test_a_noisy_layer_starts_as_the_paper_says():
    layer = noisy_layer(inputs=400, units=300)
    # mu ~ U(-1/sqrt(p), 1/sqrt(p)), sigma = sigma_0 / sqrt(p), p = 400 inputs
    for mean in (layer.kernel, layer.bias):
        assert np.abs(mean).max() <= 1 / 20
        np.testing.assert_allclose(np.std(mean), 1 / 20 / np.sqrt(3), rtol=0.1)
    for sigma in (layer.kernel_sigma, layer.bias_sigma):
        np.testing.assert_allclose(sigma, 0.5 / 20, rtol=1e-6)


def test_a_noisy_layer_in_evaluation_has_its_mean_weights():
    layer = noisy_layer()
    layer.resample(random.key(1))
    expected = OBSERVATION @ layer.kernel.numpy() + layer.bias.numpy()
    np.testing.assert_allclose(layer(OBSERVATION, training=False), expected, rtol=1e-6)


def test_noise_is_factorised_and_scaled_by_sigma():
    layer = noisy_layer()
    layer.kernel_sigma.assign([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    layer.bias_sigma.assign([0.5, 0.25])
    layer.noise_in.assign([1.0, -2.0, 0.5])
    layer.noise_out.assign([3.0, -1.0])
    # kernel noise [i, j] = noise_in[i] * noise_out[j], bias noise [j] = noise_out[j] (equations 10, 11)
    kernel = layer.kernel.numpy() + layer.kernel_sigma.numpy() * np.outer([1.0, -2.0, 0.5], [3.0, -1.0])
    bias = layer.bias.numpy() + np.array([0.5, 0.25]) * np.array([3.0, -1.0])
    np.testing.assert_allclose(layer(OBSERVATION, training=True), OBSERVATION @ kernel + bias, rtol=1e-5)


def test_noise_is_the_signed_root_of_a_standard_normal():
    layer = noisy_layer(inputs=20_000, units=1)
    layer.resample(random.key(2))
    noise = layer.noise_in.numpy()
    normal = np.sign(noise) * noise**2  # f(x) = sign(x) sqrt(|x|) undone
    np.testing.assert_allclose([normal.mean(), normal.std()], [0.0, 1.0], atol=0.03)


def test_noise_is_shared_by_the_batch_and_changes_only_with_resample():
    network = q_network(noisy_sigma=0.5)
    same = tf.repeat(OBSERVATION[:1], 5, 0)
    resample_noise(network, random.key(3))
    first = network(same, training=True).numpy()
    np.testing.assert_allclose(first, np.repeat(first[:1], 5, 0), rtol=1e-6)
    np.testing.assert_array_equal(network(same, training=True), first)
    resample_noise(network, random.key(4))
    assert np.abs(network(same, training=True) - first).min() > 0.0
    resample_noise(network, random.key(3))
    np.testing.assert_array_equal(network(same, training=True), first)


def test_the_noisy_layers_of_a_network_have_noise_of_their_own():
    network = q_network(dueling=True, noisy_sigma=0.5)
    resample_noise(network, random.key(3))
    assert (network.value.noise_in.numpy() != network.advantage.noise_in.numpy()).all()


def test_gradients_reach_the_noise_scale_but_not_the_noise():
    network = q_network(noisy_sigma=0.5)
    trained = {variable.name for variable in network.advantage.trainable_variables}
    assert trained == {"kernel", "bias", "kernel_sigma", "bias_sigma"}
    resample_noise(network, random.key(0))
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(network(OBSERVATION, training=True))
    assert np.abs(tape.gradient(loss, network.advantage.kernel_sigma.value)).sum() > 0.0


def test_actor_critic_starts_close_to_the_uniform_policy():
    output = actor_critic()(OBSERVATION)
    assert np.abs(output.parameters).max() < 0.05
    assert np.abs(output.value).max() > 0.05
    assert output.value.shape == (5,)


def test_log_std_is_a_parameter_of_its_own_for_box_actions_only():
    network = actor_critic(space=spaces.Box(-1.0, 1.0, (2,)), log_std_init=-0.5)
    np.testing.assert_allclose(network(OBSERVATION).log_std, [-0.5, -0.5])
    assert any(variable.name == "log_std" for variable in network.trainable_variables)
    assert actor_critic()(OBSERVATION).log_std is None


def test_shared_networks_have_one_torso_and_separate_ones_two():
    shared, separate = weights(actor_critic(shared=True)), weights(actor_critic(shared=False))
    assert set(separate) - set(shared) == {
        f"n/value_torso/dense_{i}/{name}" for i in range(2) for name in ("kernel", "bias")
    }
    kernels = separate["n/torso/dense_0/kernel"], separate["n/value_torso/dense_0/kernel"]
    assert (kernels[0] != kernels[1]).all()


@pytest.mark.parametrize("make", [q_network, actor_critic])
def test_the_seed_alone_decides_the_initial_weights(make):
    first, again, other = weights(make(seed=7)), weights(make(seed=7)), weights(make(seed=8))
    assert list(first) == list(again)
    for name, value in first.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)
    kernels = [name for name in first if name.endswith("kernel")]
    assert kernels and all((first[name] != other[name]).any() for name in kernels)


def test_names_are_unique_and_the_same_for_every_build_in_a_process():
    builds = [
        [*weights(q_network(dueling=True, noisy_sigma=0.5)), *weights(actor_critic(shared=False))]
        for _ in range(2)
    ]
    assert builds[0] == builds[1]
    assert "n/torso/dense_0/kernel" in builds[0] and "n/advantage/kernel_sigma" in builds[0]


def test_two_variables_of_one_name_are_refused():
    layers = [dense(2, 2, "zeros", "same") for _ in range(2)]
    with pytest.raises(ValueError, match="two variables are called"):
        named_variables("n", [layer.kernel for layer in layers])


GAINS = [("relu", np.sqrt(2.0)), ("tanh", np.sqrt(2.0)), ("linear", 1.0)]


@pytest.mark.parametrize(("activation", "gain"), GAINS)
def test_orthogonal_weights_have_orthogonal_columns_of_the_gain(activation, gain):
    kernel = np.array(Initializers(0).hidden(activation)((32, 8)))
    np.testing.assert_allclose(kernel.T @ kernel, gain**2 * np.eye(8), atol=1e-5)


def test_output_gains():
    for gain in (0.01, 1.0):
        kernel = np.array(Initializers(0).output(gain)((32, 4)))
        np.testing.assert_allclose(kernel.T @ kernel, gain**2 * np.eye(4), atol=1e-5)


# limit of the uniform distribution for 48 inputs and 24 outputs
LIMITS = {
    "glorot_uniform": np.sqrt(6 / (48 + 24)),
    "lecun_uniform": np.sqrt(3 / 48),
    "he_uniform": np.sqrt(6 / 48),
    "torch": np.sqrt(1 / 48),
}


@pytest.mark.parametrize("family", LIMITS)
def test_uniform_families_have_their_limits(family):
    initializers = Initializers(0, family)
    for kernel in (initializers.hidden("relu")((48, 24)), initializers.output(0.01)((48, 24))):
        largest = np.abs(kernel).max()
        assert largest <= LIMITS[family] and largest > 0.98 * LIMITS[family]


def test_each_initialiser_has_a_seed_of_its_own():
    initializers = Initializers(0)
    first, second = (np.array(initializers.hidden("relu")((8, 8))) for _ in range(2))
    assert (first != second).all()


def test_critics_compute_in_the_precision_of_the_model():
    def values(precision):
        settings = hparams(precision=precision, hidden=(32, 32))
        critic = Critic(settings, ObservationEncoder(BOX, normalize=False), 2, Initializers(0), count=2)
        found = critic(OBSERVATION, OBSERVATION[:, :2])
        assert found.dtype == tf.float32 and critic.hidden[0].kernel.dtype == "float32"
        return found.numpy()

    expected = values("float32")
    error = np.abs(values("bfloat16") - expected).max()  # bfloat16 keeps 8 bits: 2^-9 of each number, twice
    assert 0.0 < error < 0.02 * np.abs(expected).max()


FIXED = spaces.Box(np.array([-1.0, 0.5], np.float32), np.array([1.0, 0.5], np.float32))


def test_actions_of_which_a_part_can_be_one_number_alone_have_codes_and_densities():
    space, played = BoxActions(FIXED, "sac"), tf.constant([[0.25, 0.5]])
    np.testing.assert_allclose(space.encode(played), [[0.25, -1.0]])
    for found in (space.stochastic(tf.zeros([1, 4])), space.certain(tf.constant([[0.25, 0.7]]))):
        assert np.isfinite(found.log_prob(played)).all()
        assert found.mode().numpy()[0, 1] == 0.5
    policy = PolicyNetwork(hparams(), ObservationEncoder(BOX, normalize=False), FIXED, Initializers(0))
    assert np.isfinite(policy(OBSERVATION).log_prob(tf.repeat(played, 5, 0))).all()


def test_ranges_that_float32_cannot_tell_are_no_bounds():
    space = spaces.Box(np.float32(-3e38), np.float32(3e38), (2,))
    with pytest.raises(
        UsageError, match=r"sac squashes its actions into the space's bounds, and .* has none"
    ):
        BoxActions(space, "sac")
    policy = PolicyNetwork(hparams(), ObservationEncoder(BOX, normalize=False), space, Initializers(0))
    assert np.isfinite(policy(OBSERVATION).mode()).all()
