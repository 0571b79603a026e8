"""The interface of memories, as runners and buffer processes use it."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from rl.types import Nest, Tensor, Trajectory


class Memory(Protocol):
    """A memory of experience, made as `Kind(spec, hparams)` from a `MemorySpec`.

    All its state is in variables, so that checkpoints hold it, and its methods are tensor functions.
    """

    experiences: ClassVar[tuple[str, ...]]  # the kinds of `Agent.experience` that it supports

    @property
    def variables(self) -> dict[str, Any]:
        """All state by name, for checkpoints."""

    def add(self, trajectory: Trajectory) -> None:
        """Takes in a rollout [T, B]; T is static."""

    def sample(self, seed: Tensor, step: Tensor) -> Nest:
        """Draws a batch, of one static shape: a `Batch` or a `SequenceBatch`.

        seed: int32 [2]; step: environment steps so far, for schedules.
        """

    def update_priorities(self, batch: Nest, priorities: Tensor, written: Tensor | None = None) -> None:
        """Sets the priorities [N] of a batch's entries. written: the value of `written` when the batch was
        sampled (default: now)."""

    def can_sample(self) -> Tensor:
        """Says whether `min_replay_size` is reached, bool scalar."""

    def size(self) -> Tensor:
        """Returns how many places may be sampled, int32 scalar."""

    def written(self) -> Tensor:
        """Returns how many rows were ever added, int64 scalar."""

    def appended(self) -> dict[str, int]:
        """Returns the append-only variables (`Ring.appended`), by name, each with the number of places ever
        written."""

    def cut(self) -> None:
        """Ends the running episodes as truncated, for environments that are restarted."""


class RingHParams(Protocol):
    """The hyperparameters that every memory with a ring reads."""

    replay_capacity: int
    min_replay_size: int
    batch_size: int


class PriorityHParams(Protocol):
    """The hyperparameters of priorities."""

    train_steps: int
    priority_exponent: float
    priority_epsilon: float
    importance_sampling_exponent: float
    importance_sampling_exponent_end: float


class ReplayHParams(RingHParams, Protocol):
    """The hyperparameters that a memory of transitions reads."""

    gamma: float
    n_step: int


class HindsightHParams(ReplayHParams, Protocol):
    """The hyperparameters that a memory of transitions with goals in hindsight reads."""

    hindsight_goals: int


class DatasetHParams(Protocol):
    """The hyperparameters that a memory of transitions from files reads; `n_step` too, and `prioritized` with
    those of priorities, where the algorithm has them."""

    batch_size: int
    gamma: float


class DatasetSequencesHParams(Protocol):
    """The hyperparameters that a memory of sequences from files reads; `prioritized` too, with those of
    priorities, where the algorithm has them."""

    batch_size: int
    burn_in: int
    unroll_length: int


class PrioritizedHParams(ReplayHParams, PriorityHParams, Protocol):
    """The hyperparameters that a prioritized memory of transitions reads."""


class SequenceHParams(RingHParams, PriorityHParams, Protocol):
    """The hyperparameters that a memory of sequences reads."""

    prioritized: bool
    burn_in: int
    unroll_length: int
