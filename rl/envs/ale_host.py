"""Atari through ale-py (the extra `atari`, GPL-2.0): Gymnasium's ids "ALE/Pong-v5" and the like.

`ALEHost` steps ale-py's own vector environment (C++ threads); `drawn` is one game made of Gymnasium's parts,
slower, for films. Both give pictures [H, W, 1] of every fourth frame, which `rl.envs.frames` stacks. The
options are those of `ale_py.vector_env.AtariVectorEnv`; sticky actions (0.25) are on, as Gymnasium's ids say.
"""

from __future__ import annotations

from typing import Any

import ale_py
import gymnasium
import numpy as np
from gymnasium import spaces

from rl.envs.host import HostEnv, HostStep, action_encoder, action_view, env_seeds
from rl.errors import UsageError
from rl.types import Nest

DEFAULTS = {"frameskip": 4, "noop_max": 30, "img_height": 84, "img_width": 84, "use_fire_reset": True}
LIMIT = 108_000  # frames after which an episode is cut
OTHERWISE = {"reward_clipping": "reward_augmentation=clip_sign", "stack_num": "frame_stack"}
FIXED = {"autoreset_mode", "batch_size", "life_loss_info"}  # what resets and lives are made of here
ENVPOOL_NAMES = {"frame_skip": "frameskip", "gray_scale": "grayscale"}  # the sets of `rl/hparams/atari.py`


class ALEHost(HostEnv):
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
        except (TypeError, ValueError, RuntimeError, gymnasium.error.Error) as error:
            raise UsageError(f"ale-py cannot make {env_id} with {env_kwargs}: {error}") from error
        self.num_envs = num_envs
        shape = (options["img_height"], options["img_width"], 1 if options.get("grayscale", True) else 3)
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = action_view(self._env.single_action_space)
        self.encode = action_encoder(self._env.single_action_space)
        self.life_lost: np.ndarray | None = np.zeros(num_envs, np.bool_) if episodic else None
        self.fps = 60.0 / options["frameskip"]
        self._lives = np.zeros(num_envs, np.int64)
        self._idle = np.zeros(num_envs, np.bool_)  # whether the next step follows an end that was told here
        self._carried = np.zeros(num_envs, np.float32)  # rewards of idle steps
        self._ended_unseen = np.zeros(num_envs, np.bool_)  # games that ended in an idle step

    def reset(self, seed: int) -> Nest:
        """Returns observation [B, H, W, C]; game i has the seed `env_seeds(seed, B)[i]`."""
        observation, info = self._env.reset(seed=np.array(env_seeds(seed, self.num_envs)))
        self._lives = np.array(info["lives"])
        self._carried = np.zeros(self.num_envs, np.float32)
        self._idle, self._ended_unseen = (np.zeros(self.num_envs, np.bool_) for _ in range(2))
        if self.life_lost is not None:
            self.life_lost = np.zeros(self.num_envs, np.bool_)
        return self._turned(observation)

    def step(self, action: Nest) -> HostStep:
        """Steps all games once, as `HostEnv.step` says. With `episodic_life` the step after the loss of a
        life does nothing, and what it earns is told a step later."""
        action = self.encode(action)
        if self.life_lost is not None:
            action = np.where(self._idle, 0, action)  # nothing is done
        observation, reward, terminated, truncated, info = self._env.step(action)
        results = np.array(reward, np.float32), np.array(terminated), np.array(truncated)
        if self.life_lost is not None:
            results = self._with_lives(*results, np.array(info["lives"]))
        return self._turned(observation), *results

    def _with_lives(
        self, reward: np.ndarray, terminated: np.ndarray, truncated: np.ndarray, lives: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns the results [B] with a lost life as an end. (ale-py's own option would start the game
        anew.)

        The game goes on in the step after it, which is to have neither reward nor end: what it has is told a
        step later.
        """
        idle, reward = self._idle, reward + self._carried
        self._carried = np.where(idle, reward, 0.0).astype(np.float32)
        late, self._ended_unseen = self._ended_unseen, idle & (terminated | truncated)
        terminated, truncated = (terminated | late) & ~idle, truncated & ~late & ~idle
        self.life_lost = (lives < self._lives) & (lives > 0) & ~terminated & ~truncated & ~idle
        self._lives, self._idle = lives, self.life_lost | late
        return np.where(idle, 0.0, reward).astype(np.float32), terminated | self.life_lost, truncated

    def render(self) -> np.ndarray:
        """Raises UsageError: `drawn` is for that."""
        raise UsageError("ale-py's vector environment cannot be drawn")

    def close(self) -> None:
        """Ends the games' threads."""
        self._env.close()

    def _turned(self, observation: np.ndarray) -> np.ndarray:
        if observation.ndim == 5:  # [B, 1, H, W, 3], in colour
            return np.array(observation[:, 0])
        return np.array(np.moveaxis(observation, 1, -1), order="C")


class FireReset(gymnasium.Wrapper):
    """Presses fire after a reset, where the game waits for it."""

    def reset(self, **kwargs: Any) -> tuple[Any, dict]:
        """Resets the environment, and presses fire where the game waits for it; returns observation and info,
        as Gymnasium's `reset` does."""
        observation, info = self.env.reset(**kwargs)
        meanings = self.env.unwrapped.get_action_meanings()
        if len(meanings) >= 3 and meanings[1] == "FIRE":
            observation, _, terminated, truncated, info = self.env.step(1)
            if terminated or truncated:
                observation, info = self.env.reset(**kwargs)
        return observation, info


def drawn(
    env_id: str, env_kwargs: dict[str, Any], render_mode: str, max_episode_steps: int | None = None
) -> gymnasium.Env:
    """Returns one game for films, with the pictures that `ALEHost` gives agents.

    Raises:
        UsageError: options that only the vector environment has.
    """
    options, _ = _options(env_id, env_kwargs)
    frameskip = options["frameskip"]
    unknown = options.keys() - {*DEFAULTS, "repeat_action_probability", "grayscale", "full_action_space"}
    if unknown:
        raise UsageError(f"environment {env_id} cannot be filmed with the option {sorted(unknown)[0]}")
    env = gymnasium.make(
        env_id,
        render_mode=render_mode,
        frameskip=1,
        repeat_action_probability=options["repeat_action_probability"],
        full_action_space=options.get("full_action_space", False),
        max_num_frames_per_episode=LIMIT if max_episode_steps is None else max_episode_steps * frameskip,
        disable_env_checker=True,
    )
    env.metadata = {**env.metadata, "render_fps": 60.0 / frameskip}
    env = gymnasium.wrappers.AtariPreprocessing(
        env,
        noop_max=options["noop_max"],
        frame_skip=frameskip,
        screen_size=(options["img_width"], options["img_height"]),
        grayscale_obs=options.get("grayscale", True),
        grayscale_newaxis=True,
    )
    return FireReset(env) if options["use_fire_reset"] else env


def _options(env_id: str, env_kwargs: dict[str, Any]) -> tuple[dict[str, Any], bool]:
    """Returns the options of ale-py's environment, and whether a lost life is an end."""
    for name, instead in OTHERWISE.items():
        if name in env_kwargs:
            raise UsageError(f"environment {env_id}: give {instead} in place of the option {name}")
    for name in FIXED & env_kwargs.keys():
        raise UsageError(f"environment {env_id}: the option {name} is not to be changed")
    given = {ENVPOOL_NAMES.get(name, name): value for name, value in env_kwargs.items()}
    sticky = gymnasium.spec(env_id).kwargs["repeat_action_probability"]
    options = {"repeat_action_probability": sticky, **DEFAULTS, **given}
    if not 0.0 <= options["repeat_action_probability"] <= 1.0:
        raise UsageError(f"environment {env_id}: repeat_action_probability must be in [0, 1]")
    return options, bool(options.pop("episodic_life", False))
