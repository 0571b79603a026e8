"""The one storage of replay memories: the last C rows of B environments, each observation held once.

Row t of environment b holds the observation o_t, the action a_t, what followed it (reward r_{t+1},
terminated, truncated) and whether a_t was a transition at all (mask 0: the ignored step of an autoreset). The
successor o_{t+1} is the next row's observation, so a replay memory needs half of what storing pairs would
need.

Stacked pictures (`MemorySpec.frame_stack`) are stored once each: a row keeps the newest picture of its stack,
and the stack is rebuilt from the rows before when it is read. The first row after an autoreset step begins an
episode, whose stacks hold no older picture (`rl.envs.frames`). In a full ring the oldest `frame_stack` - 1
rows may lack pictures of their stacks: `history` rows that memories must not sample.

Everything is flat, `[C * B, ...]`, place = row * B + environment: XLA compiles gather and scatter of
first-axis indices to plain loops that work in place, and TensorFlow's own kernels (without XLA) read and
write the variable without copying it. A scatter costs about 3 ns an element, as cheap as a slice, and needs
no case for the end of the ring.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from rl.memory.spec import MemorySpec, leaf_names
from rl.spaces import space_spec
from rl.types import Nest, Tensor, Trajectory

TERMINATED, TRUNCATED, TRANSITION = 1, 2, 4  # bits of `flags`
EPISODE_END = TERMINATED | TRUNCATED


class Ring:
    """Rows of B environments in variables, the oldest overwritten first.

    Args:
        spec: spaces and number of environments B.
        rows: C, how many rows are kept.

    Raises:
        ValueError: a picture's channels are no multiple of the frame stack.
    """

    def __init__(self, spec: MemorySpec, rows: int) -> None:
        self.rows = rows
        self.frames, self.history = spec.frame_stack, spec.frame_stack - 1
        self.num_envs = spec.num_envs
        self.places = rows * spec.num_envs  # L = C * B
        self._observation_spec = space_spec(spec.observation_space)
        self._action_spec = space_spec(spec.action_space)
        stored = tf.nest.map_structure(self._newest_spec, self._observation_spec)
        self._observation = self._storage("observation", stored)
        self._action = self._storage("action", self._action_spec)
        self._reward = tf.Variable(tf.zeros([self.places]), trainable=False, name="reward")  # [L]
        extras = {f"extras/{name}": tf.TensorSpec([], tf.float32) for name in spec.extras}
        self._extras = self._storage_of(extras)
        self._flags = tf.Variable(tf.zeros([self.places], tf.uint8), trainable=False, name="flags")  # [L]
        # int64: int32 variables live on the host, where code compiled for an accelerator cannot reach them.
        self._written = tf.Variable(0, dtype=tf.int64, trainable=False, name="written")  # rows, ever

    def _storage(self, root: str, spec: Nest) -> dict[str, tf.Variable]:
        return self._storage_of(dict(zip(leaf_names(root, spec), tf.nest.flatten(spec), strict=True)))

    def _storage_of(self, specs: dict[str, Any]) -> dict[str, tf.Variable]:
        return {
            name: tf.Variable(tf.zeros([self.places, *each.shape], each.dtype), trainable=False, name=name)
            for name, each in specs.items()
        }

    def _stacked(self, spec: Any) -> bool:
        """Whether a leaf of observations is a stack of frames."""
        return self.frames > 1 and len(spec.shape) == 3

    def _newest_spec(self, spec: tf.TensorSpec) -> tf.TensorSpec:
        """The spec of what is stored for a leaf of observations: of a stack, only the newest frame."""
        if not self._stacked(spec):
            return spec
        *sides, channels = spec.shape
        if channels % self.frames:
            raise ValueError(f"pictures of {channels} channels are no stack of {self.frames}")
        return tf.TensorSpec([*sides, channels // self.frames], spec.dtype)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """All state by name, for checkpoints."""
        own = {
            "reward": self._reward,
            "flags": self._flags,
            "written": self._written,
        }
        return {**self._observation, **self._action, **self._extras, **own}

    @property
    def position(self) -> Tensor:
        """The row that will be written next, int32 scalar."""
        return tf.cast(self._written.read_value() % self.rows, tf.int32)

    @property
    def filled(self) -> Tensor:
        """Rows that hold something, int32 scalar, at most C."""
        return tf.cast(tf.minimum(self._written.read_value(), self.rows), tf.int32)

    @property
    def written(self) -> Tensor:
        """Rows ever added, int64 scalar."""
        return self._written.read_value()

    def overwritten(self, row: Tensor, written: Tensor) -> Tensor:
        """Says whether the rows `row` (int32, any shape) were overwritten since `written` rows had been
        added; bool of its shape."""
        order = (tf.cast(row, tf.int64) - written) % self.rows  # 0: the first that was written since
        return order < self.written - written

    def appended(self) -> dict[str, int]:
        """Returns the append-only variables, by name, each with the number of places ever written. Eager."""
        places = int(self._written.numpy()) * self.num_envs
        return dict.fromkeys([*self._observation, *self._action, *self._extras], places)

    @property
    def incomplete(self) -> Tensor:
        """How many of the filled rows, from the oldest on, may lack frames of their stacks, int32 scalar."""
        return tf.maximum(self.filled + self.history - self.rows, 0)

    def wrap(self, place: Tensor) -> Tensor:
        """Brings `place` from [-L, 2 L) into [0, L), of L places; by comparing: an integer division costs
        more."""
        place = tf.where(place >= self.places, place - self.places, place)
        return tf.where(place < 0, place + self.places, place)

    def add(self, trajectory: Trajectory) -> None:
        """Writes the T rows of `trajectory` (T static, at most C), over the oldest ones when the ring is
        full.

        Raises:
            ValueError: the trajectory has not B environments, or more rows than the ring.
        """
        steps, batch = trajectory.reward.shape
        if batch != self.num_envs or steps > self.rows:
            raise ValueError(
                f"cannot add {steps} x {batch} transitions to a ring of {self.rows} x {self.num_envs}"
            )
        count = steps * batch
        place = self.wrap(self.position * batch + tf.range(count))  # [T * B]

        def write(variable: tf.Variable, value: Tensor) -> None:
            value = tf.cast(tf.convert_to_tensor(value), variable.dtype)  # [T, B, ...]
            flat = tf.reshape(value, [count, *variable.shape[1:]])  # [T * B, ...]
            variable.scatter_update(tf.IndexedSlices(flat, place))

        leaves = tf.nest.flatten(trajectory.observation), tf.nest.flatten(self._observation_spec)
        for variable, value, spec in zip(self._observation.values(), *leaves, strict=True):
            newest = value[:steps, ..., -variable.shape[-1] :] if self._stacked(spec) else value[:steps]
            write(variable, newest)
        for variable, value in zip(self._action.values(), tf.nest.flatten(trajectory.action), strict=True):
            write(variable, value)
        for name, variable in self._extras.items():
            write(variable, trajectory.extras[name.removeprefix("extras/")])
        write(self._reward, trajectory.reward)
        write(self._flags, _pack_flags(trajectory))
        self._written.assign_add(steps)

    def observation(self, place: Tensor) -> Nest:
        """Returns the observations at `place` [N] (or of any shape), each [N, ...]; pictures with their
        stacks."""
        pairs = zip(self._observation.values(), tf.nest.flatten(self._observation_spec), strict=True)
        back = self._history_places(place) if self.frames > 1 else []
        found = []
        for variable, spec in pairs:
            if self._stacked(spec):
                found.append(tf.concat([tf.gather(variable, each) for each in back], -1))
            else:
                found.append(tf.gather(variable, place))
        return tf.nest.pack_sequence_as(self._observation_spec, found)

    def _history_places(self, place: Tensor) -> list[Tensor]:
        """Where the pictures of the stacks at `place` are, oldest first; the last is `place` itself."""
        found = [place]
        within = tf.ones_like(place, tf.bool)  # whether the row before belongs to the same episode
        for _ in range(self.history):
            before = self.wrap(found[0] - self.num_envs)
            within = tf.logical_and(within, (self.flags(before) & TRANSITION) != 0)
            found.insert(0, tf.where(within, before, found[0]))
        return found

    def action(self, place: Tensor) -> Nest:
        """Returns the actions at `place` [N], each [N, ...]."""
        found = [tf.gather(each, place) for each in self._action.values()]
        return tf.nest.pack_sequence_as(self._action_spec, found)

    def extras(self, place: Tensor) -> dict[str, Tensor]:
        """Returns the trajectory extras of the transitions at `place`, by name, float32 of its shape each."""
        return {name.removeprefix("extras/"): tf.gather(each, place) for name, each in self._extras.items()}

    def reward(self, place: Tensor) -> Tensor:
        """Returns the rewards that followed the actions at `place`, float32 of its shape."""
        return tf.gather(self._reward, place)

    def flags(self, place: Tensor) -> Tensor:
        """Returns the bits TERMINATED, TRUNCATED, TRANSITION of `place`, uint8 of its shape; 0 if never
        written."""
        return tf.gather(self._flags, place)

    def cut(self) -> None:
        """Marks the newest row truncated where its episode was running. Eager, on the host.

        For environments that restart in the middle of their episodes: the next row to be added must then be
        an autoreset step with the last observations of these episodes.
        """
        if not int(self._written.numpy()):
            return
        newest = (int(self._written.numpy()) - 1) % self.rows
        place = np.arange(self.num_envs) + newest * self.num_envs  # [B]
        for own in getattr(self._flags, "values", (self._flags,)):  # each device's
            flags = own.numpy()[place]  # [B]
            running = ((flags & TRANSITION) != 0) & ((flags & EPISODE_END) == 0)
            cut = np.where(running, flags | TRUNCATED, flags).astype(np.uint8)
            own.scatter_update(tf.IndexedSlices(cut, place))

    def check_valid(self) -> None:
        """Reads everything on the host and raises ValueError at the first broken invariant. Eager only."""
        written = int(self._written.numpy())
        if written < 0:
            raise ValueError(f"replay claims {written} rows")
        position, filled = written % self.rows, min(written, self.rows)
        flags = self._flags.numpy().reshape(self.rows, self.num_envs)  # [C, B]
        if filled < self.rows and flags[filled:].any():
            raise ValueError(f"replay has flags on rows from {filled} on, which were never written")
        order = (position - filled + np.arange(filled)) % self.rows  # oldest first
        _check_rows(order, flags[order], self._reward.numpy().reshape(self.rows, self.num_envs)[order])


def _pack_flags(trajectory: Trajectory) -> Tensor:
    """uint8 [T, B] of the three booleans of each step."""
    terminated = tf.cast(trajectory.terminated, tf.uint8) * TERMINATED
    truncated = tf.cast(trajectory.truncated, tf.uint8) * TRUNCATED
    return terminated + truncated + tf.cast(tf.convert_to_tensor(trajectory.mask) > 0, tf.uint8) * TRANSITION


def _check_rows(order: np.ndarray, flags: np.ndarray, reward: np.ndarray) -> None:
    """Invariants of the filled rows, given oldest first: row numbers [R], flags and rewards [R, B]."""

    def fail(bad: np.ndarray, message: str) -> None:
        if bad.any():
            row, env = np.argwhere(bad)[0]
            raise ValueError(f"replay row {order[row]}, environment {env}: {message}")

    fail(flags > (EPISODE_END | TRANSITION), "unknown flag bits")
    masked = (flags & TRANSITION) == 0
    fail(masked & ((flags & EPISODE_END) != 0), "an autoreset step ends an episode")
    fail(~np.isfinite(reward), "the reward is not finite")
    follows_end = np.zeros_like(masked)
    follows_end[1:] = (flags[:-1] & EPISODE_END) != 0
    fail(follows_end & ~masked, "the step after an episode end is not masked as an autoreset")
    follows_end[:1] = True  # the row before the oldest one is not stored
    follows_end[1:] |= masked[:-1]  # two resets in a row: a run was resumed right after the first (`cut`)
    fail(masked & ~follows_end, "an autoreset step follows no episode end")
