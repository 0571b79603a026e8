"""Acting for environments outside TensorFlow: numpy observations in, numpy actions out.

A call of a compiled tf.function from Python costs 100 to 250 microseconds however small the network;
LiteRT's interpreter runs the same graph in a few. So the agent's `act` is converted once, with the
weights, the random numbers and the step as inputs, and the weights are copied in when they change.
Where the conversion is refused (an operation LiteRT lacks), and for networks with convolutions, over which it
takes twice to four times as long, the compiled function is called instead.
"""

from __future__ import annotations

import contextlib
import logging
import os
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from rl.agents.agent import Agent, network_state
from rl.errors import UsageError
from rl.models.images import convolves
from rl.ops import random
from rl.spaces import space_spec
from rl.types import Nest

log = logging.getLogger("rl")


class Actor:
    """The policy for `num_envs` host environments.

    Args:
        agent: whose policy acts; its weights are read at `sync`.
        num_envs: B.
        training: whether it explores.
        seed: of its exploration.
        backend: "litert", "compiled", or "auto": LiteRT where it is faster and the conversion works.
    """

    def __init__(self, agent: Agent, num_envs: int, training: bool, seed: int, backend: str = "auto"):
        self.agent, self.num_envs, self.training, self.seed = agent, num_envs, training, seed
        self.extras = agent.trajectory_extras if training else ()
        self._observation_spec = tf.nest.flatten(space_spec(agent.observation_space, (num_envs,)))
        self._dtypes = [spec.dtype.as_numpy_dtype for spec in self._observation_spec]
        self._nested = isinstance(agent.observation_space, (spaces.Dict, spaces.Tuple))
        self._variables = list(acting_variables(agent, training).values())
        self._weights: list[np.ndarray] = []
        self._initial_state = agent.initial_state(num_envs)
        self._state = [np.array(each) for each in tf.nest.flatten(self._initial_state)]
        self._action_structure = space_spec(agent.action_space, ())
        self._actions = len(tf.nest.flatten(self._action_structure))
        self._program = self._make_program(backend)
        self.sync()

    @property
    def backend(self) -> str:
        return self._program.name

    def sync(self, flat: np.ndarray | None = None) -> None:
        """Takes over the agent's weights; `flat`: the same values, already read (`flat_weights`)."""
        if flat is None:
            flat = flat_weights(self.agent, self.training).numpy()
        self._weights = []
        start = 0
        for variable in self._variables:
            size = int(np.prod(variable.shape))
            self._weights.append(flat[start : start + size].reshape(variable.shape))
            start += size
        self._program.set_weights(self._weights)

    def begin(self, iteration: int, steps: int) -> None:
        """Draws the random numbers for `steps` steps; the same (seed, iteration) draws the same."""
        generator = np.random.Generator(np.random.Philox(key=[self.seed, iteration]))
        draws = []
        for kind, shape, maxval in self._program.wanted:
            full = (steps, *shape)
            if kind == "uniform":
                draws.append(generator.random(full, np.float32))
            elif kind == "normal":
                draws.append(generator.standard_normal(full, np.float32))
            else:
                draws.append(generator.integers(0, maxval, full, np.int32))
        self._draws = list(zip(*draws, strict=True)) if draws else [()] * steps

    def __call__(self, observation: Nest, t: int, step: int) -> tuple[Nest, list[np.ndarray]]:
        """(action [B, ...], the extras [B] in the order of `extras`) at the t-th step since `begin`.

        `step`: environment steps so far, for exploration schedules.
        """
        inputs = (*self._leaves(observation), *self._state, np.int64(step), *self._draws[t])
        outputs = self._program(inputs)
        if self._state:
            outputs, self._state = outputs[: -len(self._state)], outputs[-len(self._state) :]
        if self._actions == 1:
            return outputs[0], outputs[1:]
        action = tf.nest.pack_sequence_as(self._action_structure, outputs[: self._actions])
        return action, outputs[self._actions :]

    @property
    def network_state(self) -> list[np.ndarray]:
        """The leaves `[B, ...]` of the network's recurrent state now; empty for a feed-forward one."""
        state = network_state(tf.nest.pack_sequence_as(self._initial_state, self._state))
        return tf.nest.flatten(state)

    def forget(self, starts: np.ndarray | bool = True) -> None:
        """Starts the recurrent state anew where `starts` [B] (default: everywhere): a new episode."""
        for i, leaf in enumerate(self._state):
            keep = ~np.broadcast_to(starts, self.num_envs)
            self._state[i] = leaf * keep.reshape(-1, *[1] * (leaf.ndim - 1)).astype(leaf.dtype)

    def _leaves(self, observation: Nest) -> list[np.ndarray]:
        """The arrays of an observation in the policy's own types: integers of environments have 64 bits."""
        leaves = tf.nest.flatten(observation) if self._nested else [observation]
        return [x.astype(dtype, copy=False) for x, dtype in zip(leaves, self._dtypes, strict=True)]

    def _make_program(self, backend: str) -> Any:
        if backend == "compiled" or (backend == "auto" and convolves(self.agent.networks["network"])):
            return _CompiledProgram(self)
        try:
            return _LiteRTProgram(self)
        except UsageError:
            raise
        except Exception as error:  # the converter raises many kinds; none of them is the user's fault
            if backend == "litert":
                raise
            log.info("acting through the compiled function: LiteRT refused (%s)", str(error).split("\n")[0])
            return _CompiledProgram(self)

    def trace(self) -> tuple[Any, list[tuple[str, tuple[int, ...], int]]]:
        """(the act function over flat inputs as a concrete function, the random draws it wants).

        Inputs: observation leaves, recurrent state leaves, step, random draws, weights. Outputs: action
        leaves, extras, recurrent state leaves.
        """
        tape = random.NoiseTape()
        observation_count = len(self._observation_spec)
        structure = space_spec(self.agent.observation_space, (self.num_envs,))
        head = [*self._observation_spec, *(tf.TensorSpec(each.shape, each.dtype) for each in self._state)]

        def act(noise: random.NoiseTape, inputs: list, step: Any, weights: list) -> list:
            pairs = list(zip(self._variables, weights, strict=True))
            with keras.StatelessScope(state_mapping=pairs):
                observation = tf.nest.pack_sequence_as(structure, inputs[:observation_count])
                state = tf.nest.pack_sequence_as(self._initial_state, inputs[observation_count:])
                action, extras, state = self.agent.act(observation, state, noise, step, self.training)
            outputs = [*tf.nest.flatten(action), *(extras[name] for name in self.extras)]
            return [tf.identity(each) for each in (*outputs, *tf.nest.flatten(state))]

        # A first pass in a graph of its own finds out which random numbers are wanted.
        with tf.Graph().as_default():
            act(
                tape,
                [tf.zeros(spec.shape, spec.dtype) for spec in head],
                tf.constant(0, tf.int64),
                [tf.zeros(variable.shape) for variable in self._variables],
            )
        kinds = {"uniform": tf.float32, "normal": tf.float32, "randint": tf.int32}
        specs = [*head, tf.TensorSpec([], tf.int64)]
        specs += [tf.TensorSpec(shape, kinds[kind]) for kind, shape, _ in tape.wanted]
        specs += [tf.TensorSpec(variable.shape, tf.float32) for variable in self._variables]
        specs = [tf.TensorSpec(spec.shape, spec.dtype, f"x{i}") for i, spec in enumerate(specs)]

        def flat(*inputs: Any) -> list:
            step, rest = inputs[len(head)], list(inputs[len(head) + 1 :])
            draws, weights = rest[: len(tape.wanted)], rest[len(tape.wanted) :]
            return act(random.NoiseTape(draws), list(inputs[: len(head)]), step, weights)

        return tf.function(flat, input_signature=specs, autograph=False), tape.wanted


class _CompiledProgram:
    """The act function called through TensorFlow."""

    name = "compiled"

    def __init__(self, actor: Actor):
        function, self.wanted = actor.trace()
        self._function = function.get_concrete_function()

    def set_weights(self, weights: list[np.ndarray]) -> None:
        self._weights = [tf.constant(each) for each in weights]

    def __call__(self, inputs: tuple) -> list[np.ndarray]:
        outputs = self._function(*[tf.constant(each) for each in inputs], *self._weights)
        return [each.numpy() for each in outputs]


class _LiteRTProgram:
    """The act function in LiteRT's interpreter."""

    name = "litert"

    def __init__(self, actor: Actor):
        function, self.wanted = actor.trace()
        concrete = function.get_concrete_function()
        with _quiet():
            from ai_edge_litert.interpreter import Interpreter

            converter = tf.lite.TFLiteConverter.from_concrete_functions([concrete])
            self._interpreter = Interpreter(model_content=converter.convert(), num_threads=1)
            self._interpreter.allocate_tensors()
        by_name = {
            each["name"].split(":")[0]: each["index"] for each in self._interpreter.get_input_details()
        }
        # An input that the graph does not use (the step, for a policy without schedule) is dropped.
        names = [tensor.op.name for tensor in concrete.inputs[: len(concrete.structured_input_signature[0])]]
        indices = [by_name.get(name) for name in names]
        head = len(names) - len(actor._variables)
        self._inputs, self._weight_inputs = indices[:head], indices[head:]
        details = self._interpreter.get_output_details()
        self._outputs = [each["index"] for each in details]
        self._check(concrete, actor)

    def set_weights(self, weights: list[np.ndarray]) -> None:
        for index, value in zip(self._weight_inputs, weights, strict=True):
            if index is not None:
                self._interpreter.set_tensor(index, np.asarray(value, np.float32, order="C"))

    def __call__(self, inputs: tuple) -> list[np.ndarray]:
        interpreter = self._interpreter
        for index, value in zip(self._inputs, inputs, strict=True):
            if index is not None:
                interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in self._outputs]

    def _check(self, concrete: Any, actor: Actor) -> None:
        """Raises RuntimeError unless the converted graph says what the original says of random input."""
        generator = np.random.Generator(np.random.Philox(key=[0, 0]))
        observations = batch_space(actor.agent.observation_space, actor.num_envs)
        observations.seed(0)
        values = actor._leaves(observations.sample())
        for spec in concrete.structured_input_signature[0][len(values) :]:
            shape = tuple(spec.shape)
            if spec.dtype == tf.float32:
                values.append(generator.random(shape, np.float32))
            else:
                values.append(np.zeros(shape, spec.dtype.as_numpy_dtype))
        for index, value in zip([*self._inputs, *self._weight_inputs], values, strict=True):
            if index is not None:
                self._interpreter.set_tensor(index, value)
        self._interpreter.invoke()
        expected = concrete(*[tf.constant(value) for value in values])
        found = [self._interpreter.get_tensor(index) for index in self._outputs]
        same = len(expected) == len(found) and all(
            a.shape == b.shape and np.allclose(a.numpy(), b, rtol=1e-3, atol=1e-3)
            for a, b in zip(expected, found, strict=True)
        )
        if not same:
            raise RuntimeError("the converted policy disagrees with the original")


def acting_variables(agent: Agent, training: bool) -> dict[str, Any]:
    """The variables that acting reads, in training or without exploration."""
    return agent.acting_variables if training else agent.policy_variables


def flat_weights(agent: Agent, training: bool = True) -> Any:
    """All acting variables in one float32 vector: one read from Python instead of one per variable."""
    variables = acting_variables(agent, training).values()
    return tf.concat([tf.reshape(tf.cast(each.value, tf.float32), [-1]) for each in variables], 0)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Silences the converter's and the interpreter's chatter on the C side of standard error."""
    absl = logging.getLogger("absl")
    level = absl.level
    absl.setLevel(logging.ERROR)
    saved = os.dup(2)
    sink = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(sink, 2)
        yield
    finally:
        os.dup2(saved, 2)
        os.close(saved)
        os.close(sink)
        absl.setLevel(level)
