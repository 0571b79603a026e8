"""Parts of a run that are the same wherever it is built: memory, reward augmentation, compilation."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent, network_state
from rl.agents.contracts import Imitates
from rl.envs.make import chosen_backend
from rl.envs.rewards import get_reward_augmentation
from rl.errors import UsageError
from rl.hparams.hparams import HParams, refuse_given
from rl.memory.dataset import Dataset
from rl.memory.mixed import Mixed
from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.models.images import convolves
from rl.parallel import replicas


def check_compiled_loop(hparams: HParams, workers: Any, does: str, why: str) -> None:
    """Raises UsageError where an algorithm that needs the compiled loop would run outside of it. does, why:
    the verb and the reason, for the message."""
    algo = hparams.algo
    if workers is not None:
        raise UsageError(f"{algo} {does} in the compiled loop: leave --num_workers out")
    if chosen_backend(hparams.env, hparams.env_backend, hparams.env_wrappers) != "graph":
        raise UsageError(
            f"{algo} {does}{why}: {hparams.env} is played elsewhere (--list envs shows which are in-graph)"
        )


def check_own_rewards(hparams: HParams, what: str) -> None:
    """Raises UsageError where an algorithm that does `what` would get other rewards than the
    environment's."""
    given = "normalize_reward", "reward_augmentation", "curiosity"
    refuse_given(hparams, f"{what} the environment's own rewards", *given)


def of_rows(hparams: HParams, agents: int, experience: str) -> HParams:
    """Returns the hyperparameters of an algorithm that treats each agent of an environment as a batch row.

    Raises:
        UsageError: an algorithm that plays every environment by parameters of its own.
    """
    if agents == 1:
        return hparams
    if experience == "parameters":
        raise UsageError(
            f"{hparams.algo} compares parameters, {hparams.env} is played by {agents} agents together: "
            "take another algorithm, such as ppo"
        )
    own = type(hparams).from_dict(hparams.to_dict())
    own.num_envs *= agents
    return own.freeze()


def make_memory(
    agent: Agent, num_envs: int, length: int, frame_stack: int, data: Any = None, goal_reward: Any = None
) -> Any:
    """Returns the memory by hparams, for trajectories `[length, num_envs]`; one that mixes them with `data`
    (rl.data.dataset.Dataset) where there are some, or gives these to an agent that learns from rollouts.
    goal_reward: `MemorySpec.goal_reward`.

    Raises:
        UsageError: it is not one for that algorithm.
    """
    kind, spec = memory_class(agent), memory_spec(agent, num_envs, length, frame_stack)
    spec = spec._replace(goal_reward=goal_reward)
    if data is None:
        return kind(spec, agent.hparams)
    if agent.experience == "transition":
        return Mixed(kind, spec._replace(data=data), agent.hparams)
    if not isinstance(agent, Imitates):
        raise UsageError(f"data={agent.hparams.data}: {agent.hparams.algo} learns from no transitions")
    agent.take_demonstrations(Dataset(spec._replace(data=data), agent.hparams))
    return kind(spec, agent.hparams)


def memory_class(agent: Agent) -> Any:
    """Returns the class of the memory by hparams. Raises UsageError where it is not one for that
    algorithm."""
    return memory_for(agent.hparams, agent.experience)


def memory_for(hparams: HParams, experience: str) -> Any:
    """Returns what `memory_class` does, of an algorithm that is not built yet."""
    found = get_memory(hparams.memory_name)
    if experience not in found.experiences:
        kinds = " or ".join(found.experiences)
        raise UsageError(
            f"memory {hparams.memory_name} is for {kinds} experience, {hparams.algo} learns "
            f"from {experience} experience: take another memory (--list memory)"
        )
    return found


def memory_spec(agent: Agent, num_envs: int, length: int, frame_stack: int) -> MemorySpec:
    """Returns the spec of the memory; its recurrent state is of numpy arrays, so that it can be sent to other
    processes."""
    state = tf.nest.map_structure(np.array, network_state(agent.initial_state(num_envs)))
    spaces, extras = (agent.observation_space, agent.action_space), agent.trajectory_extras
    return MemorySpec(*spaces, num_envs, length, state, frame_stack, extras)


def reward_augmentation(agent: Agent) -> Any:
    """Returns the reward augmentation by hparams, or None. Raises UsageError where it is for another
    environment."""
    name = agent.hparams.reward_augmentation
    if name is None:
        return None
    if name.startswith("mountain_car") and agent.observation_space.shape != (2,):
        raise UsageError(
            f"reward_augmentation {name} reads position and velocity, {agent.hparams.env} "
            f"observes {agent.observation_space}: leave it out"
        )
    return get_reward_augmentation(name)


def start_mode(agent: Agent, in_graph: bool) -> str:
    """Returns `compile_mode` and sets TensorFlow up for it; with several learners never "xla", which cannot
    compile the exchange between them."""
    mode = compile_mode(agent, in_graph)
    tf.config.run_functions_eagerly(mode == "eager")
    return "graph" if mode == "xla" and replicas.count() > 1 else mode


def compile_mode(agent: Agent, in_graph: bool) -> str:
    """Returns "xla", "graph" or "eager".

    `auto` looks at the networks: XLA wins where they are made of dense layers; TensorFlow's own kernels
    (oneDNN) are twice as fast for convolutions on a CPU. In-graph environments need XLA: their many small
    operations would cost more than any convolution.
    """
    if agent.hparams.compile != "auto":
        return str(agent.hparams.compile)
    on_cpu = not tf.config.list_logical_devices("GPU")
    slow = on_cpu and not in_graph and any(convolves(network) for network in agent.networks.values())
    return "graph" if slow else "xla"
