"""Any in-graph environment as a Gymnasium environment: one copy of it, stepped by a compiled function.

TensorFlow is imported when such an environment is made, not with this file.
"""

from __future__ import annotations

import colorsys
import functools
from typing import Any

import gymnasium
import numpy as np

from rl.envs.board import CELL
from rl.envs.gym_ids import NEVER
from rl.envs.registry import get_env
from rl.errors import UsageError

BACKGROUND = 32  # grey level of cells with nothing in them
BY_XLA = True  # whether it compiles what is stepped from the host; traced functions make the same steps


class GraphEnvGym(gymnasium.Env[Any, Any]):
    """The in-graph environment `env_id` for Gymnasium.

    `reset(seed=s)` starts as `GraphEnv.reset(random.key(s))`, and the n-th step after it, counted from 0 and
    later resets included, draws from `random.fold_in(random.key(s), n)`. A reset without a seed is a step
    that resets, so that whatever an environment carries over from one episode to the next is carried over
    here too.

    Args:
        env_id: id of a registered in-graph environment.
        render_mode: None or "rgb_array".
        limit: steps after which an episode is truncated; None: the environment's own limit, -1: never.
        env_kwargs: options of that environment.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 15}  # noqa: RUF012 (Gymnasium's own convention)

    def __init__(
        self, env_id: str, render_mode: str | None = None, limit: int | None = None, **env_kwargs: Any
    ) -> None:
        if render_mode not in (None, "rgb_array"):
            raise UsageError(f"environment {env_id} has no render mode {render_mode!r}: only rgb_array")
        if limit is not None:
            env_kwargs["max_episode_steps"] = NEVER if limit == -1 else limit
        env = get_env(env_id)(1, **env_kwargs)
        self.render_mode = render_mode
        self.observation_space, self.action_space = env.observation_space, env.action_space
        options = tuple(sorted(env_kwargs.items()))
        self._start, self._step = _compiled(env_id, options)
        self._state: Any = None
        self._observation: Any = None
        self._key: Any = None
        self._count = 0  # steps since the last seed

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Starts an episode."""
        super().reset(seed=seed)
        if seed is None and self._state is not None:
            over = self._state._replace(episode_end=np.ones([1], bool))
            self._move(over, np.stack([self.action_space.sample()]))  # the action is ignored
        else:
            from rl.ops import random

            self._key = random.key(int(self.np_random.integers(2**62)) if seed is None else seed)
            self._count = 0
            self._state, time_step = self._start(self._key)
            self._observation = _first(time_step.observation)
        return self._observation, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict]:
        """Makes one step."""
        if self._state is None:
            raise gymnasium.error.ResetNeeded("step() was called before reset()")
        time_step, info = self._move(self._state, np.asarray(action)[None])
        flags = bool(time_step.terminated[0]), bool(time_step.truncated[0])
        return self._observation, float(time_step.reward[0]), *flags, _first(info)

    def render(self) -> np.ndarray:
        """Returns the observation as a picture, uint8 [rows * 32, columns * 32, 3], a colour for each
        channel; one that is no board is a row of cells, its least number dark and its greatest lit."""
        if isinstance(self._observation, dict) or self._observation.ndim < 2:
            return draw_channels(_row(self._observation))
        return draw_channels(self._observation)

    def _move(self, state: Any, action: np.ndarray) -> Any:
        import tensorflow as tf

        action = tf.constant(action, self.action_space.dtype)
        moved = self._step(state, action, self._key, tf.constant(self._count))
        self._state, time_step, info = moved
        self._count += 1
        self._observation = _first(time_step.observation)
        return time_step, info


class DrawnChannels(gymnasium.Wrapper):
    """Draws an environment's observation, a board with channels, in place of its own pictures.

    MinAtar's own are of 10 x 10 pixels, in floats.
    """

    def __init__(self, env: gymnasium.Env) -> None:
        super().__init__(env)
        self.metadata = {**env.metadata, "render_fps": GraphEnvGym.metadata["render_fps"]}
        self._board: Any = None

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict]:
        """Resets the environment, and keeps the board for `render`; returns observation and info, as
        Gymnasium's `reset` does."""
        self._board, info = self.env.reset(seed=seed, options=options)
        return self._board, info

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict]:
        """Steps the environment, and keeps the board for `render`; returns what Gymnasium's `step` does."""
        self._board, *rest = self.env.step(action)
        return self._board, *rest

    def render(self) -> Any:
        """Returns the board as a picture (`draw_channels`)."""
        return draw_channels(self._board)


def draw_channels(board: np.ndarray) -> np.ndarray:
    """Returns uint8 [rows * 32, columns * 32, 3] of `board` [rows, columns] or [rows, columns, channels] in
    [0, 1].

    Where several channels are set, the last one is seen.

    Raises:
        UsageError: the board has another number of axes.
    """
    board = np.asarray(board, np.float32)
    if board.ndim == 2:
        board = board[..., None]
    if board.ndim != 3:
        raise UsageError("only observations with 2 or 3 axes can be drawn")
    channels = board.shape[2]
    picture = np.full((*board.shape[:2], 3), BACKGROUND, np.float32)
    for channel in range(channels):
        colour = np.array(colorsys.hsv_to_rgb(channel / channels, 0.7, 1.0)) * 255  # hues round the circle
        share = np.clip(board[..., channel : channel + 1], 0.0, 1.0)
        picture = share * colour + (1 - share) * picture
    pixels = picture.astype(np.uint8).repeat(CELL, 0).repeat(CELL, 1)
    pixels[::CELL] = pixels[:, ::CELL] = 0
    return pixels


def _row(observation: Any) -> np.ndarray:
    """Returns all numbers of an observation, of parts or not, as a board [1, n] in [0, 1]."""
    parts = observation.values() if isinstance(observation, dict) else [observation]
    numbers = np.concatenate([np.ravel(each).astype(np.float32) for each in parts])
    return ((numbers - numbers.min()) / max(float(np.ptp(numbers)), 1e-6))[None]


@functools.cache
def _compiled(env_id: str, options: tuple[tuple[str, Any], ...]) -> tuple[Any, Any]:
    """Returns `start(key)` and `step(state, action, key, count)`, compiled once for all copies of an
    environment."""
    import tensorflow as tf

    from rl.ops import random

    env = get_env(env_id)(1, **dict(options))
    key, count = tf.TensorSpec([2], tf.int32), tf.TensorSpec([], tf.int32)
    start = tf.function(env.reset, jit_compile=BY_XLA, autograph=False).get_concrete_function(key)
    state = tf.nest.map_structure(tf.TensorSpec.from_tensor, start(random.key(0))[0])
    action = tf.TensorSpec([1, *env.action_space.shape], env.action_space.dtype)

    def move(state: Any, action: Any, key: Any, count: Any) -> Any:
        moved, step = env.step(state, action, random.fold_in(key, count))
        return moved, step, env.info(moved)

    compiled = tf.function(move, jit_compile=BY_XLA, autograph=False)
    step = compiled.get_concrete_function(state, action, key, count)
    return start, step


def _first(observation: Any) -> Any:
    """Returns the one element of a nest's batches of one, as numpy."""
    import tensorflow as tf

    return tf.nest.map_structure(lambda each: each.numpy()[0], observation)
