"""Acting for environments outside TensorFlow: numpy observations in, numpy actions out.

A call of a compiled tf.function from Python costs 100 to 250 microseconds however small the network;
LiteRT's interpreter runs the same graph in a few. So the agent's `act` is converted once, with the
weights, the random numbers and the step as inputs, and the weights are copied in when they change. Matrices
come in transposed: as the converter sees them multiplied, LiteRT takes such as they are, and turns others
around in each call, which takes longer than the product for few environments.
Where the conversion fails (an operation LiteRT lacks), and for networks with convolutions, for which LiteRT
takes two to four times as long, the compiled function is called instead.
"""

from __future__ import annotations

import logging
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
from rl.ops.affine import bias_apart
from rl.parallel.devices import called
from rl.runners.acting import Acting, LiteRTProgram, Portable, Signature, quiet, turned
from rl.spaces import space_leaves, space_spec, space_structure

CHECKED = 16  # actions of a conversion at least, each for another random observation

log = logging.getLogger("rl")


class Actor(Acting):
    """The policy of an agent for `num_envs` host environments.

    Args:
        agent: whose policy acts; its weights are read at `sync`.
        num_envs: B.
        training: whether it explores.
        seed: of its exploration.
        backend: "litert", "compiled", or "auto": LiteRT where it is faster and the conversion works.
        sampled: whether it samples its actions when `training` is false.

    Raises:
        UsageError: `sampled`, of a policy that is not stochastic.
    """

    def __init__(
        self,
        agent: Agent,
        num_envs: int,
        training: bool,
        seed: int,
        backend: str = "auto",
        sampled: bool = False,
    ):
        self.agent, self.training = agent, training
        tracer = _Tracer(agent, num_envs, training, sampled)
        super().__init__(_program(tracer, backend), tracer.signature, seed)
        self.sync()

    def sync(self, flat: np.ndarray | None = None) -> None:
        """Takes over the agent's weights; `flat`: the same values, already read (`flat_weights`)."""
        super().sync(flat_weights(self.agent, self.training).numpy() if flat is None else flat)

    def portable(self) -> Portable | None:
        """Returns the policy for another process; None where it acts through TensorFlow."""
        program = self._program
        if not isinstance(program, LiteRTProgram):
            return None
        return Portable(self._signature, program.model, program.names)


class _Tracer:
    """The act function over flat inputs: observation leaves, recurrent state leaves, step, random draws,
    weights. Its outputs: action leaves, extras, recurrent state leaves."""

    def __init__(self, agent: Agent, num_envs: int, training: bool, sampled: bool):
        self.agent, self.training, self.sampled = agent, training, sampled
        self.variables = list(acting_variables(agent, training).values())
        self._initial_state = agent.initial_state(num_envs)
        leaves = tf.nest.flatten(self._initial_state)
        self._structure = space_spec(agent.observation_space, (num_envs,))
        self._head = [*tf.nest.flatten(self._structure), *(tf.TensorSpec(x.shape, x.dtype) for x in leaves)]
        self.observations = len(self._head) - len(leaves)
        drawn = ("log_prob",) if sampled and "log_prob" in agent.trajectory_extras else ()
        self._extras = agent.trajectory_extras if training else drawn
        tape = random.NoiseTape()
        self._first: Any = self._traced(tape, [])  # finds out which random numbers are wanted
        order = tf.nest.pack_sequence_as(self._initial_state, list(range(len(leaves))))
        self.signature = Signature(
            num_envs=num_envs,
            dtypes=[dtype for _, dtype in space_leaves(agent.observation_space)],
            nested=isinstance(agent.observation_space, (spaces.Dict, spaces.Tuple)),
            action=space_structure(agent.action_space),
            weights=[turned(variable.shape) for variable in self.variables],
            state=[np.array(each) for each in leaves],
            network_state=tf.nest.flatten(network_state(order)),
            extras=self._extras,
            wanted=tape.wanted,
        )

    def function(self) -> Any:
        """Returns it as a concrete function."""
        if self.signature.wanted:  # which are inputs then
            self._first = self._traced(None, self.signature.wanted)
        return self._first

    def _traced(self, tape: random.NoiseTape | None, wanted: list[tuple[str, tuple[int, ...], int]]) -> Any:
        """Traces it with `tape` in place of the random numbers, or with those that are `wanted` as inputs."""
        kinds = {"uniform": tf.float32, "normal": tf.float32, "randint": tf.int32}
        head = len(self._head)
        specs = [*self._head, tf.TensorSpec([], tf.int64)]
        specs += [tf.TensorSpec(shape, kinds[kind]) for kind, shape, _ in wanted]
        specs += [tf.TensorSpec(turned(variable.shape), tf.float32) for variable in self.variables]
        specs = [tf.TensorSpec(spec.shape, spec.dtype, f"x{i}") for i, spec in enumerate(specs)]

        def flat(*inputs: Any) -> list[Any]:
            step, rest = inputs[head], list(inputs[head + 1 :])
            draws, weights = rest[: len(wanted)], [_transposed(each) for each in rest[len(wanted) :]]
            noise = random.NoiseTape(draws) if tape is None else tape
            return self._act(noise, list(inputs[:head]), step, weights)

        return tf.function(flat, input_signature=specs, autograph=False).get_concrete_function()

    def _act(self, noise: random.NoiseTape, inputs: list[Any], step: Any, weights: list[Any]) -> list[Any]:
        pairs = list(zip(self.variables, weights, strict=True))
        # A bias that is a row of its kernel leaves a product with no addition before the activation, and
        # LiteRT's converter loses a relu there: the product of two tensors has no place for it.
        with keras.StatelessScope(state_mapping=pairs), bias_apart():
            observation = tf.nest.pack_sequence_as(self._structure, inputs[: self.observations])
            state = tf.nest.pack_sequence_as(self._initial_state, inputs[self.observations :])
            flags = self.training, self.sampled
            action, extras, state = self.agent.act(observation, state, noise, step, *flags)
        outputs = [*tf.nest.flatten(action), *(extras[name] for name in self._extras)]
        return [tf.identity(each) for each in (*outputs, *tf.nest.flatten(state))]


def _program(tracer: _Tracer, backend: str) -> Any:
    concrete = tracer.function()
    if backend == "compiled" or (backend == "auto" and convolves(tracer.agent.networks["network"])):
        return _CompiledProgram(concrete)
    try:
        return _converted(concrete, tracer)
    except UsageError:
        raise
    except Exception as error:  # the converter raises many kinds; none of them is the user's fault
        if backend == "litert":
            raise
        log.info("acting through the compiled function: LiteRT refused (%s)", str(error).split("\n")[0])
        return _CompiledProgram(concrete)


class _CompiledProgram:
    """The act function called through TensorFlow."""

    name = "compiled"

    def __init__(self, concrete: Any):
        self._function = concrete

    def set_weights(self, weights: list[np.ndarray]) -> None:
        self._weights = [tf.constant(each) for each in weights]

    def __call__(self, inputs: tuple[Any, ...]) -> list[np.ndarray]:
        outputs = called(self._function, [tf.constant(each) for each in inputs] + self._weights)
        return [each.numpy() for each in outputs]


def _converted(concrete: Any, tracer: _Tracer) -> LiteRTProgram:
    """Converts the act function to LiteRT, and checks its outputs on random inputs against the original's.

    Raises:
        RuntimeError: the outputs differ.
    """
    with quiet():
        model = tf.lite.TFLiteConverter.from_concrete_functions([concrete]).convert()
    names = [tensor.op.name for tensor in concrete.inputs[: len(concrete.structured_input_signature[0])]]
    weights = len(tracer.variables)
    program = LiteRTProgram(model, names, weights)
    split = len(names) - weights
    for seed in range(max(4, CHECKED // tracer.signature.num_envs)):  # weights are others each time
        values = _random_inputs(concrete, tracer, seed)
        expected = concrete(*[tf.constant(value) for value in values])
        program.set_weights(values[split:])
        found = program(tuple(values[:split]))
        same = len(expected) == len(found) and all(
            a.shape == b.shape and np.allclose(a.numpy(), b, rtol=1e-3, atol=1e-3)
            for a, b in zip(expected, found, strict=True)
        )
        if not same:
            raise RuntimeError("the converted policy disagrees with the original")
    return program


def _random_inputs(concrete: Any, tracer: _Tracer, seed: int) -> list[np.ndarray]:
    """Returns observations of the space, a step of 0, weights that are matrices of both signs, which bring
    activations to both of their sides, and all else, of which some is never negative, from 0 to 1."""
    generator = np.random.Generator(np.random.Philox(key=[0, seed]))
    observations = batch_space(tracer.agent.observation_space, tracer.signature.num_envs)
    observations.seed(seed)
    leaves = tf.nest.flatten(observations.sample())
    values = [x.astype(dtype) for x, dtype in zip(leaves, tracer.signature.dtypes, strict=True)]
    specs = concrete.structured_input_signature[0]
    first = len(specs) - len(tracer.variables)
    for i, spec in enumerate(specs[len(values) :], len(values)):
        shape = tuple(spec.shape)
        if spec.dtype != tf.float32:
            values.append(np.zeros(shape, spec.dtype.as_numpy_dtype))
        elif i >= first and len(shape) > 1:
            values.append((generator.standard_normal(shape) / shape[-1] ** 0.5).astype(np.float32))
        else:
            values.append(generator.random(shape, np.float32))
    return values


def acting_variables(agent: Agent, training: bool) -> dict[str, Any]:
    """Returns the variables that acting reads, in training or without exploration."""
    return agent.acting_variables if training else agent.policy_variables


def flat_weights(agent: Agent, training: bool = True) -> Any:
    """Returns all acting variables in one float32 vector, matrices transposed: one read from Python instead
    of one per variable."""
    variables = acting_variables(agent, training).values()
    values = (_transposed(tf.cast(each.value, tf.float32)) for each in variables)
    return tf.concat([tf.reshape(each, [-1]) for each in values], 0)


def _transposed(value: Any) -> Any:
    """Returns a matrix transposed, another tensor as it is."""
    return tf.transpose(value) if len(value.shape) == 2 else value
