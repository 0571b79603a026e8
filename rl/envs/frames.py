"""Pictures stacked in time: the last few, along the channel axis, oldest first (Mnih et al. 2015, "Methods").

Done here for every environment alike, so that memories know how a stack comes about and need to keep each
picture once (`rl/memory/ring.py`): a stack holds pictures of one episode only; at its start the first one
stands for those before it. The loss of a life (`HostEnv.life_lost`) starts a stack anew as well.
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces

from rl.envs.host import HostEnv, HostStep, HostWrapper
from rl.errors import UsageError
from rl.spaces import channels_first
from rl.types import Nest


class FrameStackHost(HostWrapper):
    """A `HostEnv` whose observations are the last `frames` pictures: [H, W, C] become [H, W, frames * C].

    Raises:
        UsageError: the observations are no pictures, or their channels come first.
    """

    def __init__(self, env: HostEnv, frames: int) -> None:
        space = env.observation_space
        if not isinstance(space, spaces.Box) or len(space.shape) != 3:
            raise UsageError(
                f"frame_stack={frames} is for pictures [height, width, channels], not {space}: others "
                "are stacked by Gymnasium's FrameStackObservation, in a wrapper: docs/environments.md"
            )
        if channels_first(space.shape):
            raise UsageError(
                f"frame_stack={frames} is for pictures [height, width, channels], these are "
                f"{list(space.shape)}: turn them round by a wrapper, or stack them there"
            )
        super().__init__(env)
        self.frame_stack = frames
        low, high = (np.concatenate([limit] * frames, -1) for limit in (space.low, space.high))
        self.observation_space = spaces.Box(low, high, dtype=space.dtype)
        self._channels = space.shape[-1]
        self._starts = np.ones(env.num_envs, np.bool_)  # whether the next picture is an episode's first
        self._stack = np.zeros((env.num_envs, *self.observation_space.shape), space.dtype)

    def reset(self, seed: int) -> Nest:
        """Starts all episodes anew; returns stacks [B, H, W, frames * C] of each one's first picture."""
        self._starts = np.ones(self.num_envs, np.bool_)
        stacked = self._push(super().reset(seed))
        self._starts = np.zeros(self.num_envs, np.bool_)
        return stacked

    def step(self, action: Nest) -> HostStep:
        """Steps all environments once, as `HostEnv.step` says; observation: stacks [B, H, W, frames * C]."""
        observation, reward, terminated, truncated = super().step(action)
        stacked = self._push(observation)
        self._starts = terminated | truncated
        return stacked, reward, terminated, truncated

    def _push(self, picture: np.ndarray) -> np.ndarray:
        """Returns the stack with `picture` [B, H, W, C] as its newest; a fresh array."""
        stack, size = np.empty_like(self._stack), self._channels
        for first in range(0, size * (self.frame_stack - 1), size):  # all at once numpy copies pixel by pixel
            stack[..., first : first + size] = self._stack[..., first + size : first + 2 * size]
        stack[..., -size:] = picture
        for i in np.flatnonzero(self._starts):
            stack[i] = np.concatenate([picture[i]] * self.frame_stack, -1)
        self._stack = stack
        return stack
