"""Layers that Keras lacks: the observation encoder and the noisy dense layer."""

from __future__ import annotations

import contextlib
import math
import random as python_random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any, NamedTuple

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces
from keras.src.backend.common import global_state  # of which Keras exports no more than clear_session

from rl.errors import UsageError
from rl.ops import random
from rl.ops.affine import affine
from rl.ops.distributions import parameter_count
from rl.ops.normalize import Moments, observe_moments
from rl.parallel.fused import fused
from rl.spaces import ACTION_MASK, space_leaves, space_structure
from rl.types import Nest, Tensor

_NUMBERS = "object_name_uids"  # Keras's count of objects by the name that it gives them
_POLICY = "dtype_policy"  # what its layers are of and compute in
ILLEGAL = -1e9  # action values and logits of illegal actions; finite, so that 0 * ILLEGAL is 0


class Initializers:
    """Seeded weight initialisers: each call gives one with a seed of its own, so that a run's seed alone
    decides its weights, whatever was built in the process before."""

    def __init__(self, seed: int, hidden: str = "orthogonal"):
        self._seeds = python_random.Random(seed)
        self._hidden, self._root = hidden, seed

    @contextlib.contextmanager
    def within(self) -> Iterator[None]:
        """Seeds what Keras draws by itself meanwhile, of layers that were given no initialiser of these; has
        it number the layers that were given no name from the start, so that variables are called the same
        whatever was built in the process before; and has it compute in float32, whatever the caller's program
        has set for models of its own."""
        state = python_random.getstate()  # from which Keras draws the seeds that nobody gave
        floats = keras.config.floatx()
        there = {name: global_state.get_global_attribute(name) for name in (_NUMBERS, _POLICY)}
        python_random.seed(f"Keras, {self._root}")
        global_state.set_global_attribute(_NUMBERS, defaultdict(int))
        keras.config.set_floatx("float32")
        keras.config.set_dtype_policy("float32")
        try:
            yield
        finally:
            keras.config.set_floatx(floats)
            for name, value in there.items():
                global_state.set_global_attribute(name, value)
            python_random.setstate(state)

    def _seed(self) -> int:
        return self._seeds.randrange(2**31)

    def hidden(self, activation: str) -> Any:
        """Returns the initializer of hidden layers: the family named in hparams, with the gain that suits the
        activation."""
        match self._hidden:
            case "orthogonal":
                return self.orthogonal(float(np.sqrt(2.0)) if activation != "linear" else 1.0)
            case "torch":
                # PyTorch's default for linear layers, U(+-1/sqrt(fan_in)): what most published
                # results of value-based agents on small networks were obtained with.
                return keras.initializers.VarianceScaling(1.0 / 3.0, "fan_in", "uniform", seed=self._seed())
        return keras.initializers.get({"class_name": self._hidden, "config": {"seed": self._seed()}})

    def output(self, gain: float) -> Any:
        """Returns the initializer of output layers: orthogonal with `gain`, or the hidden layers' family
        where that is not used."""
        return self.orthogonal(gain) if self._hidden == "orthogonal" else self.hidden("linear")

    def orthogonal(self, gain: float) -> Any:
        return keras.initializers.Orthogonal(gain, seed=self._seed())

    def uniform(self, limit: float) -> Any:
        return keras.initializers.RandomUniform(-limit, limit, seed=self._seed())


def encoded_size(space: spaces.Space) -> int:
    """Returns the width of `ObservationEncoder`'s output for `space`."""
    return sum(part.width for part in _parts(space))


def part_shapes(space: spaces.Space) -> list[tuple[int, ...]]:
    """Returns the shapes of an encoded observation's parts, in the order of `ObservationEncoder`'s output."""
    return [part.shape for part in _parts(space)]


def has_action_mask(observation_space: spaces.Space, action_space: spaces.Space) -> bool:
    """Returns whether observations say which discrete actions are legal, in a part called "action_mask".

    Raises:
        UsageError: the part has not one number per action.
    """
    discrete = isinstance(action_space, (spaces.Discrete, spaces.MultiDiscrete))
    parts = observation_space.spaces if isinstance(observation_space, spaces.Dict) else {}
    if not discrete or ACTION_MASK not in parts:
        return False
    count, shape = parameter_count(action_space), parts[ACTION_MASK].shape
    if shape != (count,):
        raise UsageError(
            f"the observation's {ACTION_MASK} has shape {shape}, the actions {action_space} "
            f"need ({count},): one number per action, 0 where it is illegal"
        )
    return True


class _Part(NamedTuple):
    """One leaf of an observation space."""

    shape: tuple[int, ...]  # of its encoding, before it is flattened
    real: bool  # whether it is of real numbers, worth normalising

    @property
    def width(self) -> int:
        return math.prod(self.shape)


def _parts(space: spaces.Space) -> list[_Part]:
    """The leaves in encoding order."""
    if isinstance(space, spaces.Dict):
        return [part for key in sorted(space.spaces) for part in _parts(space.spaces[key])]
    if isinstance(space, spaces.Tuple):
        return [part for each in space.spaces for part in _parts(each)]
    if isinstance(space, spaces.Discrete):
        return [_Part((int(space.n),), False)]
    if isinstance(space, spaces.MultiDiscrete):
        return [_Part((int(space.nvec.sum()),), False)]
    if isinstance(space, spaces.MultiBinary):
        return [_Part((math.prod(space.shape),), False)]
    if isinstance(space, spaces.Box):
        return [_Part(tuple(space.shape), space.dtype not in (np.uint8, np.bool_))]
    raise TypeError(f"no encoding for observations of {space}")


def _encode(observation: Nest, space: spaces.Space, precision: str = "float32") -> list[Tensor]:
    if isinstance(space, spaces.Dict):
        return [x for key in sorted(space.spaces) for x in _encode(observation[key], space.spaces[key])]
    if isinstance(space, spaces.Tuple):
        pairs = zip(observation, space.spaces, strict=True)
        return [x for each, part in pairs for x in _encode(each, part)]
    if isinstance(space, spaces.Discrete):
        shifted = tf.cast(observation, tf.int32) - int(space.start)
        return [tf.one_hot(shifted, int(space.n))]
    if isinstance(space, spaces.MultiDiscrete):
        shifted = tf.cast(observation, tf.int32) - space.start.astype(np.int32)
        flat = tf.reshape(shifted, [observation.shape[0], -1])
        return [tf.one_hot(flat[:, i], int(n)) for i, n in enumerate(space.nvec.reshape(-1))]
    if space.dtype == np.uint8:
        most = bytes_up_to(space)
        x = fused(lambda x: tf.cast(tf.cast(x, tf.float32) / most, precision), observation)
    else:
        x = tf.cast(observation, tf.float32)
    return [tf.reshape(x, [x.shape[0], int(np.prod(space.shape))])]


def bytes_up_to(space: spaces.Box) -> float:
    """Returns what bytes are divided by, to lie in [0, 1]: the greatest of a Box, 255 for pictures."""
    return float(max(space.high.max(initial=0), 1))


def _decode(columns: Iterator[Tensor], space: spaces.Space) -> Iterator[Tensor]:
    """The leaves of observations, of the next ones of the parts that they are encoded by."""
    if isinstance(space, spaces.Dict | spaces.Tuple):
        inner = (
            [each for _, each in sorted(space.items())] if isinstance(space, spaces.Dict) else space.spaces
        )
        for each in inner:
            yield from _decode(columns, each)
        return
    x, ((shape, dtype),) = next(columns), space_leaves(space)
    if isinstance(space, spaces.Discrete):
        x = tf.cast(tf.argmax(x, -1, output_type=tf.int32) + int(space.start), dtype)
    elif isinstance(space, spaces.MultiDiscrete):
        each = tf.split(x, [int(n) for n in space.nvec.reshape(-1)], -1)
        x = tf.stack([tf.argmax(part, -1, output_type=tf.int32) for part in each], -1)
        x = tf.cast(tf.reshape(x, [-1, *shape]) + space.start.astype(np.int32), dtype)
    else:
        x = tf.reshape(x, [-1, *shape])
        low, high = (space.low, space.high) if isinstance(space, spaces.Box) else (0.0, 1.0)
        x = x * bytes_up_to(space) if space.dtype == np.uint8 else x
        x = tf.clip_by_value(x, np.float32(low), np.float32(high))
        x = x if space.dtype.kind == "f" else tf.cast(tf.round(x), dtype)
    yield x


class ObservationEncoder(keras.layers.Layer):
    """Any observation space to one float vector: `[N, ...]` nests to `[N, F]`.

    Numbers are flattened (`shapes` says what from: images are [H, W, C]), bytes scaled to [0, 1], categories
    become one-hot rows, the parts of Dict and Tuple observations are joined. With `normalize`, real-valued
    parts are standardised by running statistics that live in this layer, so that a saved or exported model
    carries its normaliser. An action mask (`has_action_mask`) is no feature: it is left out, and
    `mask_illegal` applies it.

    Args:
        space: of the observations.
        normalize: whether real-valued parts are standardised.
        action_space: where given and discrete, "action_mask" in a Dict observation is its mask.
        precision: of the output where observations are bytes alone: what reads them computes in it.
    """

    def __init__(
        self,
        space: spaces.Space,
        normalize: bool,
        action_space: spaces.Space | None = None,
        name: str = "encoder",
        precision: str = "float32",
    ):
        super().__init__(name=name, trainable=False)
        self.masked = action_space is not None and has_action_mask(space, action_space)
        if self.masked:
            space = spaces.Dict({key: each for key, each in space.items() if key != ACTION_MASK})
        self.space, self.normalize = space, normalize
        of_bytes = isinstance(space, spaces.Box) and space.dtype == np.uint8
        self.precision = precision if of_bytes and not normalize else "float32"
        parts = _parts(space)
        if not parts:
            raise UsageError(
                f"observations {space}: there is nothing to learn from but which actions are legal; add a "
                "part, such as a Box of one constant number"
            )
        self.shapes = [part.shape for part in parts]  # of each part, in the order of the output
        self.size = encoded_size(space)
        # [F]: 1 where the output is a real number, 0 where it is within [0, 1]: bytes, bits, categories.
        self.real = np.concatenate([np.full(part.width, part.real, np.float32) for part in parts])
        if normalize:
            row, add = (self.size,), self.add_weight
            self.mean = add(shape=row, initializer="zeros", name="mean")
            self.variance = add(shape=row, initializer="ones", name="variance")
            self.count = add(shape=(), initializer="zeros", dtype="int64", name="count")
            self.mean_rest = add(shape=row, initializer="zeros", name="mean_rest")
            self.variance_rest = add(shape=row, initializer="zeros", name="variance_rest")
        self.built = True

    def call(self, observation: Nest) -> Tensor:
        parts = _encode(observation, self.space, self.precision)
        x = parts[0] if len(parts) == 1 else tf.concat(parts, -1)  # [N, F]
        if not self.normalize:
            return x
        mean, variance = tf.convert_to_tensor(self.mean), tf.convert_to_tensor(self.variance)
        standard = tf.clip_by_value((x - mean) * tf.math.rsqrt(variance + 1e-8), -10.0, 10.0)
        return tf.where(self.real > 0.0, standard, x)

    def decode(self, x: Tensor) -> Nest:
        """Returns observations `[N, ...]` of numbers [N, F] as an encoder that does not normalise gives them:
        the nearest ones of the space, where the numbers encode none."""
        columns = iter(tf.split(x, [part.width for part in _parts(self.space)], -1))
        return tf.nest.pack_sequence_as(space_structure(self.space), list(_decode(columns, self.space)))

    def parts(self, observation: Nest) -> dict[str, Tensor]:
        """Returns the encoded parts of a Dict observation `[N, ...]` by their names: `[N, F]` each."""
        names = sorted(self.space.spaces)
        sizes = [encoded_size(self.space.spaces[name]) for name in names]
        return dict(zip(names, tf.split(self(observation), sizes, -1), strict=True))

    def action_mask(self, observation: Nest) -> Tensor | None:
        """Returns which actions are legal, bool [N, A]; None where observations do not say."""
        return tf.cast(observation[ACTION_MASK], tf.bool) if self.masked else None

    def mask_illegal(self, values: Tensor, observation: Nest) -> Tensor:
        """Returns action values or logits [N, A], those of illegal actions replaced by `ILLEGAL`."""
        if not self.masked:
            return values
        return tf.where(self.action_mask(observation), values, ILLEGAL)

    def observe(self, observation: Nest, weight: Tensor) -> None:
        """Takes observations `[N, ...]` into the statistics; weight [N] of 0 or 1."""
        if not self.normalize:
            return
        x = tf.concat(_encode(observation, self.space), -1)
        state = Moments(self.mean, self.variance, self.count, self.mean_rest, self.variance_rest)
        observe_moments(state, x, weight)


class NoisyDense(keras.layers.Layer):
    """Dense layer with factorised Gaussian parameter noise (Fortunato et al. 2018, equations 9 to 11).

    The noise is held in variables and drawn anew by `resample`, once before each rollout and each update:
    all examples of a batch share it. With `training=False` the mean weights act alone.
    """

    def __init__(
        self,
        inputs: int,
        units: int,
        initializers: Initializers,
        sigma: float,
        name: str,
        activation: str | None = None,
    ):
        super().__init__(name=name)
        self.activation = keras.activations.get(activation)
        bound = 1.0 / float(np.sqrt(inputs))
        spread = keras.initializers.Constant(sigma * bound)
        add = self.add_weight
        self.kernel = add(shape=(inputs, units), initializer=initializers.uniform(bound), name="kernel")
        self.bias = add(shape=(units,), initializer=initializers.uniform(bound), name="bias")
        self.kernel_sigma = add(shape=(inputs, units), initializer=spread, name="kernel_sigma")
        self.bias_sigma = add(shape=(units,), initializer=spread, name="bias_sigma")
        self.noise_in = add(shape=(inputs,), initializer="zeros", trainable=False, name="noise_in")
        self.noise_out = add(shape=(units,), initializer="zeros", trainable=False, name="noise_out")
        self.built = True

    def resample(self, seed: Tensor) -> None:
        """Draws new noise; f(x) = sign(x) sqrt(|x|) of standard normals."""
        for variable, each in zip((self.noise_in, self.noise_out), random.split(seed, 2), strict=True):
            x = random.normal(each, variable.shape)
            variable.assign(tf.sign(x) * tf.sqrt(tf.abs(x)))

    def call(self, x: Tensor, training: bool = False) -> Tensor:
        kernel, bias = tf.convert_to_tensor(self.kernel), tf.convert_to_tensor(self.bias)
        if training:
            noise_in, noise_out = tf.convert_to_tensor(self.noise_in), tf.convert_to_tensor(self.noise_out)
            kernel += tf.convert_to_tensor(self.kernel_sigma) * noise_in[:, None] * noise_out[None, :]
            bias += tf.convert_to_tensor(self.bias_sigma) * noise_out
        return self.activation(affine(x, kernel, bias))


class Dense(keras.layers.Dense):
    """Keras's dense layer, with `affine` for rows `[N, F]`."""

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        if inputs.shape.rank != 2:
            return super().call(inputs, training)
        return self.activation(affine(inputs, *map(tf.convert_to_tensor, (self.kernel, self.bias))))


def dense(inputs: int, units: int, initializer: Any, name: str, activation: str | None = None) -> Dense:
    """Returns a built dense layer."""
    layer = Dense(units, activation=activation, kernel_initializer=initializer, name=name)
    layer.build((None, inputs))
    return layer


def normalized_dense(
    inputs: int, units: int, initializer: Any, name: str, activation: str
) -> list[keras.layers.Layer]:
    """Returns a dense layer, layer normalisation (Ba et al. 2016, https://arxiv.org/abs/1607.06450) and an
    activation, built, to be applied one after another."""
    norm = keras.layers.LayerNormalization(epsilon=1e-5, name=f"{name}_norm")
    norm.build((None, units))
    return [dense(inputs, units, initializer, name), norm, keras.layers.Activation(activation)]


def resample_noise(layer: keras.layers.Layer, seed: Tensor) -> None:
    """Draws new noise in every noisy layer inside `layer`; nothing where there is none."""
    for i, each in enumerate(_noisy_layers(layer)):
        each.resample(random.fold_in(seed, i))


def has_noise(layer: keras.layers.Layer) -> bool:
    """Returns whether there is a noisy layer inside `layer`."""
    return bool(_noisy_layers(layer))


def _noisy_layers(layer: keras.layers.Layer) -> list[NoisyDense]:
    return [each for each in layer._flatten_layers() if isinstance(each, NoisyDense)]
