"""The offline runner: iterations without a rollout, on a memory that was filled from files.

    sample -> update -> metrics -> next seeds

A whole window is compiled, as with in-graph environments, and the data are in variables like the weights.
Nothing is played, so steps are gradient updates: `train_steps`, periods, learning rates, rows and checkpoints
count these.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent
from rl.agents.algos.registry import get_algo
from rl.data.dataset import Dataset
from rl.envs.host import action_view
from rl.envs.of_data import check_data
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.memory.dataset_sequences import DatasetSequences
from rl.ops.normalize import observe_moments
from rl.parallel.devices import Devices
from rl.runners.from_data import Fingerprint, checked_data, fingerprint
from rl.runners.in_graph import LoopRunner
from rl.runners.iteration import Iteration
from rl.runners.parts import memory_class, memory_spec, start_mode
from rl.spaces import space_spec

# Rows whose moments are computed at once: float32 sums of 20 million had a mean that was 5 % too large.
BLOCK = 1 << 16


class OfflineRunner(LoopRunner):
    """Learns from a memory that holds a data set.

    Args:
        iteration: agent and memory.
        jit_compile: whether XLA compiles the loop.
    """

    backend = "data"

    def __init__(self, iteration: Iteration, jit_compile: bool):
        super().__init__(iteration)
        self.compile(None, jit_compile)


def build_offline(hparams: HParams, seed: int, workers: Any = None, strategy: Any = None) -> OfflineRunner:
    """Reads the data set of the hparams, and builds agent, memory and runner for it.

    Raises:
        UsageError: there are no data, they do not fit the algorithm, or something is asked for that plays.
    """
    check_offline(hparams, workers, strategy)
    data = checked_data(hparams)
    agent = agent_for(hparams, data, seed)
    return on_data(agent, data, seed)


def agent_for(hparams: HParams, data: Dataset, seed: int) -> Agent:
    """Makes the agent for the spaces of data. Raises UsageError where it cannot act in them."""
    make_agent = get_algo(hparams.algo)
    if not isinstance(data.action_space, make_agent.action_spaces):
        fits = " or ".join(each.__name__ for each in make_agent.action_spaces)
        raise UsageError(
            f"{hparams.algo} acts in {fits} action spaces, the data in {hparams.data} are of "
            f"{data.action_space}: choose another algorithm (--list algos)"
        )
    try:
        action_view(data.action_space)  # as where it is played
    except UsageError as error:
        raise UsageError(f"the data in {hparams.data}: {error}") from error
    agent: Agent = make_agent(hparams, data.observation_space, data.action_space, seed)
    return agent


def on_data(agent: Agent, data: Dataset, seed: int) -> OfflineRunner:
    """Builds memory and runner for an agent that learns from data which have been read.

    seed: of everything random but the initial weights.
    """
    hparams = agent.hparams
    spec = memory_spec(agent, 1, 1, 1)._replace(data=data)
    sequences = agent.experience == "sequence"
    memory = (DatasetSequences if sequences else memory_class(agent))(spec, hparams)
    iteration = Iteration(agent, memory, seed, in_graph=True)
    observe_data(iteration, data)
    jit_compile = start_mode(agent, in_graph=False) == "xla"
    runner = OfflineRunner(iteration, jit_compile)
    runner.fingerprint = Fingerprint(fingerprint(data), hparams.data)
    return runner


def observe_data(iteration: Iteration, data: Dataset) -> None:
    """Takes data into the statistics that observations and rewards are normalised by."""
    agent = iteration.agent
    if iteration.reward_scale is not None:
        returns = running_returns(data.reward, data.lengths, agent.hparams.gamma)
        for part in _blocks(len(returns)):
            rows = tf.constant(returns[part, None])
            observe_moments(iteration.reward_scale.moments, rows, tf.ones(rows.shape[:1]))
    if agent.encoder.normalize:
        specs = space_spec(data.observation_space)
        for part in _blocks(len(data.reward) + len(data.lengths)):
            rows = tf.nest.map_structure(
                lambda each, x, part=part: tf.constant(x[part], each.dtype), specs, data.observation
            )
            agent.encoder.observe(rows, tf.ones([part.stop - part.start]))


def _blocks(count: int) -> list[slice]:
    """Returns slices of at most `BLOCK` rows, which together are `count` rows."""
    return [slice(i, min(i + BLOCK, count)) for i in range(0, count, BLOCK)]


def running_returns(reward: np.ndarray, lengths: np.ndarray, gamma: float) -> np.ndarray:
    """Returns the discounted sum of the episode's rewards so far at each step, float32 [N]: the recurrence
    R[t] = r[t] + gamma R[t-1] of `RewardScale`."""
    found, step, total = np.zeros(len(reward)), 0, 0.0
    for length in lengths:
        total = 0.0
        for _ in range(length):
            total = float(reward[step]) + gamma * total
            found[step] = total
            step += 1
    return found.astype(np.float32)


def check_offline(hparams: HParams, workers: Any, strategy: Any) -> None:
    """Raises UsageError where there are no data, or the hparams ask for something that offline runs lack."""
    if hparams.curiosity is not None:
        raise UsageError(
            f"curiosity={hparams.curiosity} rewards what is played, and memory=dataset plays nothing"
        )
    check_data(hparams)
    if workers is not None:
        raise UsageError("memory=dataset plays nothing that workers could play: leave --num_workers out")
    count = Devices(strategy).count
    if count > 1:
        raise UsageError(f"memory=dataset learns on one device, here are {count}: show it one of them")
    if hparams.reward_augmentation is not None:
        raise UsageError("reward_augmentation changes what is played, and memory=dataset plays nothing")
