"""Whether an exported file acts as the trained agent, asked about observations of episodes that it plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium.vector.utils import batch_space

from rl.envs.host import HostEnv, Purpose, purpose_seed
from rl.export.program import ACTION, NEXT, SCORES, STATE, Program
from rl.models.layers import ILLEGAL

TOLERANCE = 1e-5  # absolute, and relative to the greatest number of an output where that is above 1
Arrays = dict[str, np.ndarray]


class Parity(NamedTuple):
    """How a file's answers differ from the agent's."""

    observations: int
    difference: float  # the greatest of any number, relative to its output's greatest where that is above 1
    other_actions: int  # rows with another discrete action, of scores that do not tie
    ties: int  # rows with another one among scores that lie within the tolerance

    @property
    def holds(self) -> bool:
        return self.difference <= TOLERANCE and not self.other_actions


class Sample(NamedTuple):
    """What the agent was asked, and what it answered, call by call."""

    inputs: list[Arrays]
    outputs: list[Arrays]


def play(program: Program, env: HostEnv | None, observations: int, space: Any) -> Sample:
    """Asks the agent's own function about at least so many observations: of episodes that it plays in `env`,
    or, without one, drawn from their space.

    Random numbers that the policy draws are drawn here, from a fixed seed.
    """
    generator = np.random.Generator(np.random.Philox(key=[0, 0]))
    rows = program.inputs[0].shape[0]
    drawing = batch_space(space, rows)
    drawing.seed(0)
    shown = drawing.sample() if env is None else env.reset(purpose_seed(Purpose.USER))
    memory, sample = program.initial_state, Sample([], [])
    for _ in range(-(-observations // rows)):
        inputs = _inputs(program, shown, memory, generator)
        outputs = {
            name: each.numpy()
            for name, each in program.function({k: tf.constant(x) for k, x in inputs.items()}).items()
        }
        sample.inputs.append(inputs)
        sample.outputs.append(outputs)
        if env is None:
            shown, ended = drawing.sample(), np.zeros(rows, bool)
        else:
            actions = program.unpacked(
                [outputs[each.name] for each in program.outputs if each.kind == ACTION]
            )
            shown, _, terminated, truncated = env.step(actions)
            ended = terminated | truncated
        memory = {
            name: np.where(
                ended.reshape(-1, *[1] * (start.ndim - 1)), start, outputs[NEXT + name[len(STATE) :]]
            )
            for name, start in program.initial_state.items()
        }
    return sample


def parity(sample: Sample, run: Callable[[Arrays], Arrays]) -> Parity:
    """Returns how the answers of `run` to the sample's questions differ from the sample's."""
    difference, others, ties, count = 0.0, 0, 0, 0
    scales = _scales(sample)
    for inputs, outputs in zip(sample.inputs, sample.outputs, strict=True):
        found = run(inputs)
        for name, expected in outputs.items():
            if expected.dtype.kind == "f":
                scale = np.maximum(np.abs(expected), scales[name])
                with np.errstate(invalid="ignore"):
                    apart = np.where(expected == found[name], 0.0, np.abs(expected - found[name]) / scale)
                difference = max(difference, float(np.nan_to_num(apart, nan=np.inf).max(initial=0.0)))
                continue
            unlike = (expected != found[name]).reshape(len(expected), -1).any(1)  # [N]
            tie = unlike & _tied(outputs, expected, scales)
            others, ties = others + int((unlike & ~tie).sum()), ties + int(tie.sum())
        count += len(next(iter(outputs.values())))
    return Parity(count, difference, others, ties)


def _inputs(program: Program, shown: Any, memory: Arrays, generator: np.random.Generator) -> Arrays:
    """One call's inputs by name."""
    leaves = iter(tf.nest.flatten(shown))
    found: Arrays = {}
    for port in program.inputs:
        if port.kind == STATE:
            value = memory[port.name]
        elif port.kind == "uniform":
            value = generator.random(port.shape, np.float32)
        elif port.kind == "normal":
            value = generator.standard_normal(port.shape, np.float32)
        elif port.kind == "randint":
            value = generator.integers(0, program.limits[port.name], port.shape)
        else:
            value = next(leaves)
        found[port.name] = np.asarray(value).astype(port.dtype, copy=False)
    return found


def _scales(sample: Sample) -> dict[str, float]:
    """Returns by what the numbers of each output are judged: the greatest that it has, at least 1. A network
    rounds by the size of its sums: where values reach 90, one near 0 is what is left of terms that large."""
    found: dict[str, float] = {}
    for outputs in sample.outputs:
        for name, each in outputs.items():
            if each.dtype.kind == "f":
                sizes = np.abs(each)
                legal = sizes < -0.5 * ILLEGAL  # NaN is not, either
                found[name] = max(found.get(name, 1.0), float(sizes.max(initial=0.0, where=legal)))
    return found


def _tied(outputs: Arrays, action: np.ndarray, scales: dict[str, float]) -> np.ndarray:
    """Rows whose two best scores lie within the tolerance, [N] bool."""
    scores = outputs.get(SCORES)
    if scores is None or scores.shape[-1] < 2:
        return np.zeros(len(action), bool)
    best = np.sort(scores, -1)
    return np.asarray(best[:, -1] - best[:, -2] <= TOLERANCE * scales[SCORES])
