"""The values that travel between environment, memory, algorithm and runner.

`Nest` stands for a tensor or a nested dict / tuple of tensors; leading axes are
`B` (environments), `T` (time), `N` (a sampled batch). Shapes are static.
"""

from __future__ import annotations

from typing import Any, NamedTuple

Tensor = Any  # tf.Tensor, or numpy.ndarray on the host side
Nest = Any  # a Tensor or a nested structure of Tensors
# What a loss returns: of each example [N], metrics (scalars, or scalars in `rl.ops.loops.Sum` and its like),
# new priorities [N] or None.
Loss = tuple[Tensor, dict[str, Any], Tensor | None]


class TimeStep(NamedTuple):
    """What an environment returns: the observation and how it was reached.

    With next-step autoreset, the step after an episode end ignores the action and
    returns the reset observation with reward 0 and both flags False.
    """

    observation: Nest  # [B, ...]
    reward: Tensor  # [B] float32
    terminated: Tensor  # [B] bool: the episode ended in a terminal state, nothing follows
    truncated: Tensor  # [B] bool: the episode was cut (time limit), values still follow


class Trajectory(NamedTuple):
    """A rollout, time-major. `observation[t + 1]` is the true successor of `observation[t]`."""

    observation: Nest  # [T+1, B, ...]
    action: Nest  # [T, B, ...]
    reward: Tensor  # [T, B] float32, received after action[t]
    terminated: Tensor  # [T, B] bool, of observation[t+1]
    truncated: Tensor  # [T, B] bool, of observation[t+1]
    # [T, B] float32: 0 where action[t] was the ignored autoreset step, else 1. Where it is 0 and terminated
    # is true, observation[t + 1] is none: it fills a sequence of stored data up, beyond its episode's end.
    mask: Tensor
    extras: dict[str, Tensor]  # [T, B, ...]: what the algorithm asked to keep (log_prob, value ...)
    recurrent_state: Nest = ()  # [B, ...]: the network's state before observation[0]


class Batch(NamedTuple):
    """Sampled transitions, n-step where the memory was asked for it."""

    observation: Nest  # [N, ...]
    action: Nest  # [N, ...]
    reward: Tensor  # [N] sum of gamma^k * reward over the m <= n steps of the transition
    discount: Tensor  # [N] gamma^m * (1 - terminated)
    next_observation: Nest  # [N, ...] the observation m steps later
    sample_weight: Tensor  # [N] importance-sampling weight, 1 for uniform sampling
    index: Tensor  # [N] int32 place in the memory, for priority updates
    mask: Tensor  # [N] float32: 0 where the place holds no transition
    next_action: Nest = ()  # [N, ...] what was done at next_observation, of data; () of what is played


class SequenceBatch(NamedTuple):
    """Sampled pieces of trajectories, for algorithms with memory."""

    trajectory: Trajectory  # [L, N, ...], observation [L+1, N, ...]
    sample_weight: Tensor  # [N] importance-sampling weight, 1 for uniform sampling
    index: Tensor  # [N] int32 place in the memory, for priority updates
    mask: Tensor  # [N] float32: 0 where the place holds no sequence


class PolicyOutput(NamedTuple):
    """What a policy says of a batch of observations; `act_select` turns it into actions."""

    q_values: Any = None  # [B, A] action values; [B, agents, A] of agents who act together
    distribution: Any = None  # rl.ops.distributions.Distribution over actions
    value: Any = None  # [B] state value, for actor-critic algorithms
    recurrent_state: Nest = ()  # of the network, after these observations
    action_mask: Any = None  # [B, A] bool: which actions are legal, None: all
    extras: Any = None  # by name, [B] each: what else `Agent.trajectory_extras` may name


class Update(NamedTuple):
    """What one gradient update reports."""

    metrics: dict[str, Any]  # float32 scalars: means, or in a `Sum`, `Max`, `Min` or `Last` (rl.ops.loops)
    priorities: Any = None  # [N] new priorities of the batch, None where the algorithm has none
