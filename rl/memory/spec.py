"""The parameters of a memory that come from the run: spaces, number of environments, rollout length."""

from __future__ import annotations

from typing import Any, NamedTuple

import gymnasium

from rl.types import Nest


class MemorySpec(NamedTuple):
    """The single (unbatched) spaces, and the shape `[T, B]` of the trajectories that will be added."""

    observation_space: gymnasium.Space[Any]
    action_space: gymnasium.Space[Any]
    num_envs: int  # B
    rollout_length: int  # T
    recurrent_state: Nest = ()  # [B, ...] zeros like the state of the agent's network
    frame_stack: int = 1  # frames of an observation, along its last axis, oldest first
    extras: tuple[str, ...] = ()  # names of the trajectories' extras (Agent.trajectory_extras)
    data: Any = None  # columns of the data set that `memory=dataset` holds (rl.data.dataset.Dataset)
    # memory=hindsight: (achieved_goal, desired_goal) [N, ...] -> reward [N] float32, terminated [N] bool
    goal_reward: Any = None


def leaf_names(root: str, spec: Nest) -> list[str]:
    """Returns one name per tensor of the nest, in `tf.nest` order: `root`, or `root/key/0` where it is
    nested."""
    if isinstance(spec, dict):
        return [name for key in sorted(spec) for name in leaf_names(f"{root}/{key}", spec[key])]
    if isinstance(spec, tuple):
        return [name for i, each in enumerate(spec) for name in leaf_names(f"{root}/{i}", each)]
    return [root]
