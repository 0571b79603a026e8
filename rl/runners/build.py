"""Environment, agent, memory and runner of a run, put together by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent, network_state
from rl.agents.algos.registry import get_algo
from rl.envs.make import chosen_backend, make_env
from rl.envs.rewards import get_reward_augmentation
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.memory.registry import get_memory
from rl.memory.spec import MemorySpec
from rl.models.images import convolves
from rl.parallel import replicas
from rl.parallel.devices import Devices
from rl.runners.base import Runner
from rl.runners.learner import Learner
from rl.workers.plan import Workers, check_roles


def build_runner(hparams: HParams, seed: int, workers: Workers | None = None, strategy: Any = None) -> Runner:
    """Environment, agent, memory and runner from hparams; with `workers` the environments are theirs.

    strategy: of `tf.distribute`, whose devices share the environments; None: one device.

    Raises:
        UsageError: parts that do not fit together.
    """
    make_agent = get_algo(hparams.algo)
    check_roles(make_agent, hparams, workers)
    if workers is not None:
        from rl.workers.build_async import build_async

        return build_async(hparams, seed, workers)
    devices = Devices(strategy)
    own = devices.part(hparams, make_agent.experience)
    options = hparams.env_kwargs | hparams.train_env_kwargs
    limit, extended = hparams.max_episode_steps, hparams.previous_action_reward
    backend = hparams.env_backend
    played = hparams.num_envs
    wrappers = hparams.env_wrappers
    if devices.count > 1 and chosen_backend(hparams.env, backend, wrappers) == "graph":
        played //= devices.count  # each device plays its own; those of the host are played together
    env = make_env(hparams.env, backend, played, options, limit, extended, hparams.frame_stack, wrappers)
    with devices.scope():
        agent: Agent = make_agent(own, env.observation_space, env.action_space, seed)
        frame_stack = getattr(env, "frame_stack", 1)
        memory = make_memory(agent, own.num_envs, hparams.rollout_length, frame_stack)
        in_graph = hasattr(env, "dynamics")
        late = hparams.overlap and not in_graph
        learner = Learner(agent, memory, reward_augmentation(agent), late=late)
    jit_compile = start_mode(agent, in_graph) == "xla"
    if in_graph:
        from rl.runners.in_graph import InGraphRunner

        runner: Runner = InGraphRunner(env, learner, seed, jit_compile, devices)
    else:
        from rl.runners.sync import SyncRunner

        runner = SyncRunner(env, learner, seed, jit_compile, devices)
    runner.backend = env.backend
    return runner


def make_memory(agent: Agent, num_envs: int, length: int, frame_stack: int) -> Any:
    """The memory by hparams, for trajectories `[length, num_envs]`.

    Raises:
        UsageError: it is not one for that algorithm.
    """
    return memory_class(agent)(memory_spec(agent, num_envs, length, frame_stack), agent.hparams)


def memory_class(agent: Agent) -> Any:
    """The class of the memory by hparams. Raises UsageError where it is not one for that algorithm."""
    hparams = agent.hparams
    found = get_memory(hparams.memory_name)
    if agent.experience not in found.experiences:
        kinds = " or ".join(found.experiences)
        raise UsageError(
            f"memory {hparams.memory_name} is for {kinds} experience, {hparams.algo} learns "
            f"from {agent.experience} experience: take another memory (--list memory)"
        )
    return found


def memory_spec(agent: Agent, num_envs: int, length: int, frame_stack: int) -> MemorySpec:
    """What a memory must know; the recurrent state in it is of numpy arrays, for other processes too."""
    state = tf.nest.map_structure(np.array, network_state(agent.initial_state(num_envs)))
    return MemorySpec(agent.observation_space, agent.action_space, num_envs, length, state, frame_stack)


def reward_augmentation(agent: Agent) -> Any:
    """The reward augmentation by hparams, or None. Raises UsageError where it is for another environment."""
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
    """`compile_mode`, which TensorFlow is told; with several learners never "xla", which cannot compile what
    they exchange."""
    mode = compile_mode(agent, in_graph)
    tf.config.run_functions_eagerly(mode == "eager")
    return "graph" if mode == "xla" and replicas.count() > 1 else mode


def compile_mode(agent: Agent, in_graph: bool) -> str:
    """ "xla", "graph" or "eager".

    `auto` looks at the networks: XLA wins where they are made of dense layers; TensorFlow's own kernels
    (oneDNN) are twice as fast for convolutions on a CPU. In-graph environments need XLA: their many small
    operations would cost more than any convolution.
    """
    if agent.hparams.compile != "auto":
        return agent.hparams.compile
    on_cpu = not tf.config.list_logical_devices("GPU")
    slow = on_cpu and not in_graph and any(convolves(network) for network in agent.networks.values())
    return "graph" if slow else "xla"
