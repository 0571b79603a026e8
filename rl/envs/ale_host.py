"""Atari through ale-py (the extra `atari`, GPL-2.0): Gymnasium's ids "ALE/Pong-v5" and the like.

`ALEHost` steps ale-py's own vector environment (C++ threads); `drawn` is one game made of Gymnasium's parts,
slower, for films. Both give pictures [H, W, 1] of every fourth frame, which `rl.envs.frames` stacks. The
options are those of `ale_py.vector_env.AtariVectorEnv`; sticky actions (0.25) are on, as Gymnasium's ids say.
"""

from __future__ import annotations

import math
from typing import Any

import ale_py
import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.host import HostStep, action_encoder, action_view, env_seeds
from rl.errors import UsageError
from rl.types import Nest

DEFAULTS = {"frameskip": 4, "noop_max": 30, "img_height": 84, "img_width": 84, "use_fire_reset": True}
LIMIT = 108_000  # frames after which an episode is cut


class ALEHost:
    """A `HostEnv` of `num_envs` games.

    Args:
        env_id: such as "ALE/Pong-v5".
        num_envs: B.
        env_kwargs: options of `AtariVectorEnv`, and `episodic_life`: a lost life is an end (`life_lost`).
        max_episode_steps: steps after which an episode is truncated; None: 108,000 frames.

    Raises:
        UsageError: options that ale-py does not know, or that are not to be changed here.
    """

    backend = "gym"
    frame_stack = 1
    step_limit = math.inf

    def __init__(
        self,
        env_id: str,
        num_envs: int,
        env_kwargs: dict[str, Any] | None = None,
        max_episode_steps: int | None = None,
    ) -> None:
        options, episodic = _options(env_id, env_kwargs or {})
        if max_episode_steps is not None:
            options["max_num_frames_per_episode"] = max_episode_steps * options["frameskip"]
        game = gymnasium.spec(env_id).kwargs["game"]
        try:
            self._env = ale_py.vector_env.AtariVectorEnv(
                game, num_envs, stack_num=1, reward_clipping=False, **options
            )
        except (TypeError, ValueError, RuntimeError) as error:
            raise UsageError(f"ale-py cannot make {env_id} with {env_kwargs}: {error}") from error
        self.num_envs = num_envs
        shape = (options["img_height"], options["img_width"], 1 if options.get("grayscale", True) else 3)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = action_view(self._env.single_action_space)
        self.encode = action_encoder(self._env.single_action_space)
        self.life_lost: np.ndarray | None = np.zeros(num_envs, np.bool_) if episodic else None
        self.fps = 60.0 / options["frameskip"]
        self._lives = np.zeros(num_envs, np.int64)

    def reset(self, seed: int) -> Nest:
        """Observation [B, H, W, C]; game i has the seed `env_seeds(seed, B)[i]`."""
        observation, info = self._env.reset(seed=np.array(env_seeds(seed, self.num_envs)))
        self._lives = np.array(info["lives"])
        if self.life_lost is not None:
            self.life_lost = np.zeros(self.num_envs, np.bool_)
        return self._turned(observation)

    def step(self, action: Nest) -> HostStep:
        """See `HostEnv.step`. ale-py itself would restart the game at each lost life: that is done here."""
        observation, reward, terminated, truncated, info = self._env.step(self.encode(action))
        terminated, truncated = np.array(terminated), np.array(truncated)
        lives = np.array(info["lives"])
        if self.life_lost is not None:
            self.life_lost = (lives < self._lives) & ~terminated & ~truncated
            terminated = terminated | self.life_lost
        self._lives = lives
        return self._turned(observation), np.array(reward, np.float32), terminated, truncated

    def render(self) -> np.ndarray:
        """Not to be had: `drawn` is for that."""
        raise UsageError("ale-py's vector environment cannot be drawn")

    def close(self) -> None:
        """Ends the games' threads."""
        self._env.close()

    def _turned(self, observation: np.ndarray) -> np.ndarray:
        if observation.ndim == 5:  # [B, 1, H, W, 3], in colour
            return np.array(observation[:, 0])
        return np.array(np.moveaxis(observation, 1, -1), order="C")


def drawn(env_id: str, env_kwargs: dict[str, Any], render_mode: str) -> gymnasium.Env:
    """One game for films, with the pictures that `ALEHost` gives agents."""
    options, _ = _options(env_id, env_kwargs)
    frameskip = options["frameskip"]
    env = gymnasium.make(
        env_id,
        render_mode=render_mode,
        frameskip=1,
        repeat_action_probability=options["repeat_action_probability"],
        max_num_frames_per_episode=LIMIT,
        disable_env_checker=True,
    )
    env.metadata = {**env.metadata, "render_fps": 60.0 / frameskip}
    return gymnasium.wrappers.AtariPreprocessing(
        env,
        noop_max=options["noop_max"],
        frame_skip=frameskip,
        screen_size=(options["img_width"], options["img_height"]),
        grayscale_obs=options.get("grayscale", True),
        grayscale_newaxis=True,
    )


def _options(env_id: str, env_kwargs: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """The options of ale-py's environment, and whether a lost life is an end."""
    for name, instead in (("reward_clipping", "reward_augmentation=clip_sign"), ("stack_num", "frame_stack")):
        if name in env_kwargs:
            raise UsageError(f"environment {env_id}: give {instead} in place of the option {name}")
    sticky = gymnasium.spec(env_id).kwargs["repeat_action_probability"]
    options = {"repeat_action_probability": sticky, **DEFAULTS, **env_kwargs}
    return options, bool(options.pop("episodic_life", False))
