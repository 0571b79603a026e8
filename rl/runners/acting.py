"""Acting with a converted policy: numpy observations in, numpy actions out, and no TensorFlow.

`rl.runners.actor.Actor` converts an agent for this. Worker processes receive the converted policy
(`Portable`): they start in a second, with a third of the memory that a process with TensorFlow takes.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import optree

from rl.types import Nest


class Signature(NamedTuple):
    """Describes the inputs and outputs of the act function."""

    num_envs: int  # B
    dtypes: list[str]  # of the observation's arrays, as the policy takes them
    nested: bool  # whether observations are nests
    action: Nest  # the structure of actions
    weights: list[tuple[int, ...]]  # shapes of the variables that acting reads, as they are sent (`turned`)
    state: list[np.ndarray]  # [B, ...] what is carried from step to step, at the start of episodes
    network_state: list[int]  # which of `state` are the network's
    extras: tuple[str, ...]  # names of the extra outputs that a trajectory stores, such as log_prob
    wanted: list[tuple[str, tuple[int, ...], int]]  # random draws of a step: kind, shape, limit


class Portable(NamedTuple):
    """A policy converted to LiteRT, for another process."""

    signature: Signature
    model: bytes
    names: list[str]  # of its inputs


class Acting:
    """The policy for B host environments.

    Args:
        program: the act function: inputs (observation leaves, state leaves, step, draws) to outputs
            (action leaves, extras, state leaves); `set_weights`.
        signature: what it takes and gives.
        seed: of its exploration.
    """

    def __init__(self, program: Any, signature: Signature, seed: int):
        self._program, self._signature, self._seed = program, signature, seed
        self.extras, self.num_envs = signature.extras, signature.num_envs
        self._nested, self._dtypes = signature.nested, [np.dtype(each) for each in signature.dtypes]
        self._state = [each.copy() for each in signature.state]
        self._weights: list[np.ndarray] = []
        structure = optree.tree_structure(signature.action)
        self._actions, self._pack_action = structure.num_leaves, structure.unflatten

    @staticmethod
    def of(portable: Portable, seed: int) -> Acting:
        """Returns the acting policy of what another process has converted; `sync` sets its weights."""
        signature = portable.signature
        program = LiteRTProgram(portable.model, portable.names, len(signature.weights))
        return Acting(program, signature, seed)

    @property
    def backend(self) -> str:
        name: str = self._program.name
        return name

    def sync(self, flat: np.ndarray) -> None:
        """Takes over weights, all in one vector (`flat_weights`)."""
        self._weights = split_flat(flat, self._signature.weights)
        self._program.set_weights(self._weights)

    def begin(self, iteration: int, steps: int) -> None:
        """Draws the random numbers for `steps` steps; the same (seed, iteration) draws the same."""
        generator = np.random.Generator(np.random.Philox(key=[self._seed, iteration]))
        draws = []
        for kind, shape, maxval in self._signature.wanted:
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
        return self._pack_action(outputs[: self._actions]), outputs[self._actions :]

    @property
    def network_state(self) -> list[np.ndarray]:
        """The leaves `[B, ...]` of the network's recurrent state now; empty for a feed-forward one."""
        return [self._state[i] for i in self._signature.network_state]

    def restart(self, seed: int) -> None:
        """Resets to the state after construction with that seed, in [0, 2^64); the weights stay."""
        self._seed = seed
        self.forget()

    def forget(self, starts: np.ndarray | bool = True) -> None:
        """Resets the recurrent state where `starts` [B] (default: everywhere), for a new episode."""
        if not self._state or not np.any(starts):
            return
        for i, leaf in enumerate(self._state):
            keep = ~np.broadcast_to(starts, self.num_envs)
            self._state[i] = leaf * keep.reshape(-1, *[1] * (leaf.ndim - 1)).astype(leaf.dtype)

    def _leaves(self, observation: Nest) -> list[np.ndarray]:
        """The arrays of an observation in the policy's own types: integers of environments have 64 bits."""
        if not self._nested:
            return [observation.astype(self._dtypes[0], copy=False)]
        leaves = optree.tree_leaves(observation)
        return [x.astype(dtype, copy=False) for x, dtype in zip(leaves, self._dtypes, strict=True)]


def turned(shape: Sequence[int]) -> tuple[int, ...]:
    """Returns the shape that a variable of `shape` is sent in: of a matrix, the transposed one's."""
    return tuple(shape)[::-1] if len(shape) == 2 else tuple(shape)


def split_flat(flat: np.ndarray, shapes: list[tuple[int, ...]]) -> list[np.ndarray]:
    """Returns the arrays of these shapes that were joined in one vector."""
    found, start = [], 0
    for shape in shapes:
        end = start + math.prod(shape)
        found.append(flat[start:end].reshape(shape))
        start = end
    return found


class LiteRTProgram:
    """The act function in LiteRT's interpreter.

    Args:
        model: the converted function.
        names: of its inputs, the last `weights` of them variables.
    """

    name = "litert"

    def __init__(self, model: bytes, names: list[str], weights: int):
        with quiet():
            from ai_edge_litert.interpreter import Interpreter

            self._interpreter = Interpreter(model_content=model, num_threads=1)
            self._interpreter.allocate_tensors()
        self.model, self.names = model, names
        by_name = {
            each["name"].split(":")[0]: each["index"] for each in self._interpreter.get_input_details()
        }
        # An input that the graph does not use (the step, for a policy without schedule) is dropped.
        indices = [by_name.get(name) for name in names]
        head = len(names) - weights
        self._inputs, self._weight_inputs = indices[:head], indices[head:]
        self._outputs = [each["index"] for each in self._interpreter.get_output_details()]

    def set_weights(self, weights: list[np.ndarray]) -> None:
        for index, value in zip(self._weight_inputs, weights, strict=True):
            if index is not None:
                self._interpreter.set_tensor(index, np.asarray(value, np.float32, order="C"))

    def __call__(self, inputs: tuple[Any, ...]) -> list[np.ndarray]:
        interpreter = self._interpreter
        for index, value in zip(self._inputs, inputs, strict=True):
            if index is not None:
                interpreter.set_tensor(index, value)
        interpreter.invoke()
        return [interpreter.get_tensor(index) for index in self._outputs]


@contextlib.contextmanager
def quiet() -> Iterator[None]:
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
