"""Bases of the replay memories: the ring, its limits, and n-step transitions built when sampled."""

from __future__ import annotations

import tensorflow as tf

from rl.errors import UsageError
from rl.memory.contract import ReplayHParams
from rl.memory.ring import EPISODE_END, TERMINATED, Ring
from rl.memory.spec import MemorySpec
from rl.registry import check_hparams
from rl.types import Batch, Tensor, Trajectory


class RingMemory:
    """Base of memories with a ring; the methods are those of `rl.memory.contract.Memory`."""

    ring: Ring
    min_size: int

    @property
    def variables(self) -> dict[str, tf.Variable]:
        return self.ring.variables

    def add(self, trajectory: Trajectory) -> None:
        self.ring.add(trajectory)

    def written(self) -> Tensor:
        return self.ring.written

    def appended(self) -> dict[str, int]:
        return self.ring.appended()

    def cut(self) -> None:
        self.ring.cut()

    def size(self) -> Tensor:
        raise NotImplementedError

    def can_sample(self) -> Tensor:
        return self.size() >= self.min_size

    def check_valid(self) -> None:
        """Raises ValueError when an invariant of the stored data is broken. Eager, on the host: slow."""
        self.ring.check_valid()


class Replay(RingMemory):
    """A ring and its n-step transitions; a subclass decides which places to sample.

    The newest n rows cannot be sampled: the observation n steps after them is not stored yet. Nor can the
    oldest rows that lack frames of their stacks (`Ring.history`).

    Where adding and sampling are compiled into one function, add first: XLA copies the whole storage (1 ms
    for a million places) when it finds a write that does not depend on an earlier read. Adding first needs no
    copy.

    Raises:
        UsageError: the hparams do not fit together.
    """

    experiences = ("transition",)  # of the agents that it serves

    def __init__(self, spec: MemorySpec, hparams: ReplayHParams) -> None:
        check_hparams(hparams, ReplayHParams, f"memory {type(self).__name__.lower()}")
        rows = _rows(spec, hparams)
        self.n_step = hparams.n_step
        self.gamma = hparams.gamma
        self.batch_size = hparams.batch_size
        self.min_size = max(hparams.min_replay_size, 1)
        self.ring = Ring(spec, rows)

    def sample(self, seed: Tensor, step: Tensor) -> Batch:
        """Draws a batch of `batch_size` transitions: `transitions(place, ...)` of the places that a subclass
        chooses. seed: int32 [2]; step: environment steps so far."""
        raise NotImplementedError

    def update_priorities(self, batch: Batch, priorities: Tensor, written: Tensor | None = None) -> None:
        """Does nothing; prioritized memories override it."""

    def size(self) -> Tensor:
        """Returns how many places may be sampled, int32 scalar; autoreset steps among them count."""
        return tf.maximum(self.ring.filled - self.n_step - self.ring.incomplete, 0) * self.ring.num_envs

    def transitions(self, place: Tensor, sample_weight: Tensor, mask: Tensor) -> Batch:
        """Builds the n-step transitions that start at `place` [N], which may be sampled; sample_weight and
        mask [N] become the batch's."""
        ring, n = self.ring, self.n_step
        if n == 1:
            flags = ring.flags(place)  # [N]
            reward = ring.reward(place)  # [N]
            discount = tf.where(_has(flags, TERMINATED), 0.0, self.gamma)  # [N]
            following = ring.wrap(place + ring.num_envs)  # [N]
        else:
            window = ring.wrap(place[:, None] + tf.range(n) * ring.num_envs)  # [N, n]
            reward, discount, steps = n_step_return(ring.reward(window), ring.flags(window), self.gamma)
            following = ring.wrap(place + steps * ring.num_envs)  # [N]
        return Batch(
            observation=ring.observation(place),
            action=ring.action(place),
            reward=reward,
            discount=discount,
            next_observation=ring.observation(following),
            sample_weight=sample_weight,
            index=place,
            mask=mask,
        )


def n_step_return(reward: Tensor, flags: Tensor, gamma: float) -> tuple[Tensor, Tensor, Tensor]:
    """Computes n-step returns (Sutton & Barto 2018, section 7.1), cut after the first episode end.

    Args:
        reward: float32 [N, n].
        flags: uint8 [N, n], bits of `rl.memory.ring`.
        gamma: discount factor of one step.

    Returns:
        reward: float32 [N], the sum of gamma^k reward_k over the m steps up to an episode end, or all n.
        discount: float32 [N], gamma^m, or 0 where the last of them terminated (truncation keeps the
        bootstrap).
        steps: int32 [N], m.
    """
    total = tf.zeros_like(reward[:, 0])
    discount = tf.ones_like(total)  # [N] gamma^k while the trace lasts, gamma^m after it was cut
    running = tf.ones_like(total, tf.bool)
    terminated = tf.zeros_like(running)
    steps = tf.zeros_like(total, tf.int32)
    columns = (tf.unstack(x, axis=1) for x in (reward, _has(flags, TERMINATED), ~_has(flags, EPISODE_END)))
    for step_reward, terminal, goes_on in zip(*columns, strict=True):
        total += tf.where(running, discount * step_reward, 0.0)
        discount = tf.where(running, discount * gamma, discount)
        steps += tf.cast(running, tf.int32)
        terminated |= running & terminal
        running &= goes_on
    return total, tf.where(terminated, 0.0, discount), steps


def _has(flags: Tensor, bits: int) -> Tensor:
    return (flags & bits) != 0


def _rows(spec: MemorySpec, hparams: ReplayHParams) -> int:
    """Rows of the ring, after checking the hparams against each other."""
    if hparams.n_step < 1:
        raise UsageError(f"n_step is {hparams.n_step}: a transition spans at least 1 step")
    if hparams.replay_capacity >= 2**30:
        raise UsageError(f"replay_capacity is {hparams.replay_capacity}: places are int32, stay below 2^30")
    rows = hparams.replay_capacity // spec.num_envs
    history = spec.frame_stack - 1
    least = spec.rollout_length + hparams.n_step + 1 + history
    if rows < least:
        raise UsageError(
            f"replay_capacity {hparams.replay_capacity} is too small: {spec.num_envs} environments with "
            f"rollout_length {spec.rollout_length} and n_step {hparams.n_step} "
            f"need {least * spec.num_envs} or more"
        )
    most = (rows - hparams.n_step - history) * spec.num_envs
    if hparams.min_replay_size > most:
        raise UsageError(
            f"min_replay_size {hparams.min_replay_size} is never reached: a replay_capacity of "
            f"{hparams.replay_capacity} keeps at most {most} transitions that can be sampled"
        )
    return rows
