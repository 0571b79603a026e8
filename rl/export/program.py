"""A policy as one function of named tensors: normaliser and the environment's form of actions within."""

from __future__ import annotations

import keyword
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent, network_state
from rl.envs.wrappers import PREVIOUS_REWARD
from rl.ops import random
from rl.ops.affine import bias_apart
from rl.runners.judge import action_scores
from rl.spaces import space_leaves, space_spec
from rl.types import Nest, Tensor

OBSERVATION, ACTION, SCORES, STATE, NEXT = "observation", "action", "scores", "state", "next_state"
_DRAWN = {
    "uniform": "in [0, 1)",
    "normal": "of the standard normal distribution",
    "randint": "integers in [0, {})",
}


_MEANINGS = {
    ACTION: "for the environment",
    SCORES: "of each action: the greatest is the best",
    NEXT: "memory after the step",
}


class Port(NamedTuple):
    """An input or output of the exported function."""

    name: str
    kind: str  # observation, action, scores, state, next_state; uniform, normal, randint: numbers to draw
    shape: tuple[int, ...]
    dtype: str
    meaning: str


class Program(tf.Module):
    """The policy of an agent, for `batch` observations at a time.

    Inputs, by name: "observation", or the keys of a Dict; "state_0" ... of a recurrent policy, before the
    first step `initial_state`; "uniform_0" and the like, random numbers to draw, of a policy that acts at
    random. Outputs: "action" (or "action_KEY") as the environment takes it; "scores" of
    discrete actions, values or logarithms of probabilities; "next_state_0" ...

    Attributes:
        inputs, outputs: what goes in and comes out.
        initial_state: arrays by name.

    Args:
        agent: whose policy; its `eval_policy` says whether actions are drawn.
        batch: N, how many observations a call is for.
        encode: the agent's actions, of which discrete ones count from 0, as the environment takes them.
    """

    def __init__(self, agent: Agent[Any], batch: int, encode: Callable[[Nest], Nest]):
        super().__init__("policy")
        self._agent, self._batch = agent, batch
        self._actions = _leaves(ACTION, agent.action_space)
        self._firsts = _firsts(agent.action_space, encode)
        self._kept = [getattr(each, "value", each) for each in agent.policy_variables.values()]
        self._observed = space_spec(agent.observation_space, (batch,))
        self._memory = agent.initial_state(batch)
        self._draws = self._random()
        self.inputs = [*self._observation_ports(), *self._state_ports(STATE), *self._random_ports()]
        leaves = tf.nest.flatten(self._memory)
        self.initial_state = {f"{STATE}_{i}": np.array(each) for i, each in enumerate(leaves)}
        specs = {each.name: tf.TensorSpec(each.shape, each.dtype, each.name) for each in self.inputs}
        self.function = tf.function(self._act, input_signature=[specs], autograph=False)
        self.concrete = self.function.get_concrete_function()
        self.outputs = self._output_ports()

    @property
    def limits(self) -> dict[str, int]:
        """Returns below what number random integers must lie, by the name of their input."""
        ports = zip(self._random_ports(), self._draws, strict=True)
        return {port.name: maxval for port, (kind, _, maxval) in ports if kind == "randint"}

    def unpacked(self, actions: list[np.ndarray]) -> Nest:
        """Returns the agent's own actions [N, ...] from outputs, for an environment that takes those."""
        pairs = zip(actions, self._firsts, strict=True)
        return tf.nest.pack_sequence_as(
            space_spec(self._agent.action_space), [x - first for x, first in pairs]
        )

    def _random(self) -> list[tuple[str, tuple[int, ...], int]]:
        """What acting draws; nothing where the actions do not depend on it."""
        if not self._agent.evaluates_with_noise:
            return []
        tape = random.NoiseTape()

        @tf.function(autograph=False)
        def act() -> None:
            zeros = tf.nest.map_structure(lambda each: tf.zeros(each.shape, each.dtype), self._observed)
            self._chosen(zeros, self._memory, tape)

        act.get_concrete_function()  # traced to see what it draws
        return tape.wanted

    def _chosen(self, observation: Nest, memory: Nest, seed: Any) -> tuple[Nest, Nest]:
        sampled = self._agent.hparams.eval_policy == "sample"
        step = tf.constant(0, tf.int64)
        with bias_apart():  # as policies on the host, for the converter's sake (`rl/runners/actor.py`)
            action, _, memory = self._agent.act(observation, memory, seed, step, False, sampled)
        return action, memory

    def _act(self, inputs: dict[str, Tensor]) -> dict[str, Tensor]:
        names = [each.name for each in self._observation_ports()]
        observation = tf.nest.pack_sequence_as(self._observed, [inputs[name] for name in names])
        states = [inputs[each.name] for each in self._state_ports(STATE)]
        memory = tf.nest.pack_sequence_as(self._memory, states)
        drawn = [inputs[each.name] for each in self._random_ports()]
        seeds = [random.NoiseTape(drawn) if drawn else random.key(0) for _ in range(2)]
        action, following = self._chosen(observation, memory, seeds[0])
        found = {}
        for (name, space), first, x in zip(self._actions, self._firsts, tf.nest.flatten(action), strict=True):
            if isinstance(space, spaces.Box):
                found[name] = tf.clip_by_value(x, space.low, space.high)
            else:
                found[name] = x + tf.constant(first, x.dtype) if np.any(first) else x
        output = self._agent.policy(observation, network_state(memory), seeds[1], False)
        if (scores := action_scores(self._agent, output)) is not None:  # by the same draws of the policy
            found[SCORES] = scores
        for i, leaf in enumerate(tf.nest.flatten(following)):
            found[f"{NEXT}_{i}"] = leaf
        return {name: tf.identity(each, name) for name, each in found.items()}

    def _observation_ports(self) -> list[Port]:
        space = self._agent.observation_space
        frames = self._agent.hparams.frame_stack
        wrappers = ", ".join(self._agent.hparams.env_wrappers)
        usual = "as the environment gives it" + (f" within its wrappers {wrappers}" if wrappers else "")
        usual += f", the last {frames} pictures" if frames else ""
        others = [*self._state_ports(STATE), *self._state_ports(NEXT), *self._random_ports()]
        taken = [each.name for each in others] + [name for name, _ in self._actions] + [SCORES]
        leaves = zip(_leaves(OBSERVATION, space, taken), space_leaves(space), strict=True)
        meanings = self._meanings_before() if self._agent.hparams.previous_action_reward else {}
        return [
            Port(name, OBSERVATION, (self._batch, *shape), dtype, meanings.get(name, usual))
            for (name, _), (shape, dtype) in leaves
        ]

    def _meanings_before(self) -> dict[str, str]:
        """What inputs mean that tell of the step before, which no environment gives."""
        found = {PREVIOUS_REWARD: "the reward before; 0 where an episode begins"}
        for (name, space), first in zip(self._actions, self._firsts, strict=True):
            what = f"the {name} before"
            if isinstance(space, spaces.Discrete | spaces.MultiDiscrete):
                less = np.asarray(first) - 1
                what += f", less {less.tolist()}" if np.any(less) else ""
            found[f"previous_{name}"] = f"{what}; 0 where an episode begins"
        return found

    def _state_ports(self, name: str) -> list[Port]:
        meaning = "memory before the step" if name == STATE else "memory after it"
        leaves = enumerate(tf.nest.flatten(self._memory))
        return [Port(f"{name}_{i}", name, tuple(each.shape), each.dtype.name, meaning) for i, each in leaves]

    def _random_ports(self) -> list[Port]:
        ports = []
        for i, (kind, shape, maxval) in enumerate(self._draws):
            dtype = "int32" if kind == "randint" else "float32"
            meaning = f"random numbers {_DRAWN[kind].format(maxval)}"
            ports.append(Port(f"{kind}_{i}", kind, shape, dtype, meaning))
        return ports

    def _output_ports(self) -> list[Port]:
        ports = []
        for name, spec in self.concrete.structured_outputs.items():
            kind = name if name == SCORES else NEXT if name.startswith(NEXT) else ACTION
            ports.append(Port(name, kind, tuple(spec.shape), spec.dtype.name, _MEANINGS[kind]))
        return ports


def _leaves(root: str, space: spaces.Space, taken: Sequence[str] = ()) -> list[tuple[str, spaces.Space]]:
    """A name and the space of each array of the space's elements, other than those that are taken; in names
    "_" stands for what TensorFlow's cannot have, and follows one that would be a second of its kind."""
    found, names = [], {_argument(each) for each in (*taken, "self", *keyword.kwlist)}
    for name, each in _named(root, space):
        short = name.removeprefix(f"{OBSERVATION}_")
        name = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", short if re.match("[A-Za-z0-9]", short) else name)
        while _argument(name) in names:
            name += "_"
        names.add(_argument(name))
        found.append((name, each))
    return found


def _argument(name: str) -> str:
    """What TensorFlow's signatures call an argument of that name, which are Python's names; two that differ
    in capitals alone are one to its graphs."""
    found = re.sub(r"[^A-Za-z0-9]", "_", name).lower()
    return found if found[:1].isalpha() else f"arg_{found}"


def _named(root: str, space: spaces.Space) -> Iterator[tuple[str, spaces.Space]]:
    if isinstance(space, spaces.Dict):
        for key in sorted(space.spaces):
            yield from _named(f"{root}_{key}", space[key])
    elif isinstance(space, spaces.Tuple):
        for i, each in enumerate(space.spaces):
            yield from _named(f"{root}_{i}", each)
    else:
        yield root, space


def _firsts(space: spaces.Space, encode: Callable[[Nest], Nest]) -> list[Any]:
    """The environment's number of the agent's action 0, of each discrete array of an action; 0 for others."""
    zeros = tf.nest.map_structure(
        lambda each: np.zeros(each.shape, each.dtype.as_numpy_dtype), space_spec(space, (1,))
    )
    pairs = zip(_leaves("", space), tf.nest.flatten(encode(zeros)), strict=True)
    return [0 if isinstance(each, spaces.Box) else np.asarray(first)[0] for (_, each), first in pairs]
