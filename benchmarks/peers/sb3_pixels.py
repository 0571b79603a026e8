"""Stable-Baselines3's PPO on pictures; argument: pong (ale-py, its NatureCNN) or coinrun (EnvPool, IMPALA's
residual network). 8 environments of Pong, 16 of CoinRun; 4 epochs of minibatches of 256."""

from __future__ import annotations

import importlib.metadata
from typing import Any

import arguments
import gymnasium
import numpy as np
import torch
from meter import Meter
from sb3_marks import UPDATES_PER_ROLLOUT, RolloutMarks
from stable_baselines3 import PPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecMonitor

SETTINGS = {
    "batch_size": 256,
    "n_epochs": 4,
    "gae_lambda": 0.95,
    "ent_coef": 0.01,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
}
PONG = {"n_steps": 128, "learning_rate": 2.5e-4, "clip_range": 0.1, "gamma": 0.99}
COINRUN = {"n_steps": 64, "learning_rate": 5e-4, "clip_range": 0.2, "gamma": 0.999}
LEVELS = 100


class Residual(torch.nn.Module):
    """x + conv(relu(conv(relu(x))))."""

    def __init__(self, channels: int):
        super().__init__()
        convolutions = [torch.nn.Conv2d(channels, channels, 3, padding=1) for _ in range(2)]
        self.layers = torch.nn.Sequential(
            *(part for each in convolutions for part in (torch.nn.ReLU(), each))
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.layers(x)


class Impala(BaseFeaturesExtractor):
    """The network of Espeholt et al. 2018, figure 3 right, 256 units behind it."""

    def __init__(self, space: gymnasium.Space, features_dim: int = 256):
        super().__init__(space, features_dim)
        channels, layers = space.shape[0], []
        for filters in (16, 32, 32):
            layers += [torch.nn.Conv2d(channels, filters, 3, padding=1), torch.nn.MaxPool2d(3, 2, 1)]
            layers += [Residual(filters), Residual(filters)]
            channels = filters
        self.layers = torch.nn.Sequential(
            *layers, torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(2048, features_dim), torch.nn.ReLU()
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layers(x)


class EnvPool(VecEnv):
    """EnvPool's environments, reset in the step that ends an episode, as this library wants it."""

    def __init__(self, pool: Any, num_envs: int):
        self.pool = pool
        spaces = pool.observation_space, pool.action_space
        super().__init__(num_envs, *spaces)

    def reset(self) -> np.ndarray:
        return self.pool.reset()[0]

    def step_async(self, actions: np.ndarray) -> None:
        self.actions = actions

    def step_wait(self) -> tuple:
        observation, reward, terminated, truncated, _ = self.pool.step(self.actions)
        done = terminated | truncated
        infos: list[dict[str, Any]] = [{} for _ in range(self.num_envs)]
        for i in np.flatnonzero(done):
            infos[i] = {"terminal_observation": observation[i].copy(), "TimeLimit.truncated": truncated[i]}
        if done.any():
            which = np.flatnonzero(done)
            observation[which] = self.pool.reset(which)[0]
        return observation, reward, done, infos

    def close(self) -> None:
        self.pool.close()

    def get_attr(self, attr_name: str, indices: Any = None) -> list:
        return [None] * self.num_envs

    def set_attr(self, *_: Any) -> None:
        raise NotImplementedError

    def env_method(self, *_: Any, **__: Any) -> None:
        raise NotImplementedError

    def env_is_wrapped(self, *_: Any, **__: Any) -> list:
        return [False] * self.num_envs


def pong(seed: int) -> VecEnv:
    import ale_py  # noqa: F401 (registers the environments)
    from stable_baselines3.common.env_util import make_atari_env

    return VecFrameStack(make_atari_env("PongNoFrameskip-v4", n_envs=8, seed=seed), n_stack=4)


def coinrun(seed: int) -> VecEnv:
    import ctypes
    from pathlib import Path

    import PyQt5

    for name in ("libQt5Core.so.5", "libQt5Gui.so.5"):
        ctypes.CDLL(str(Path(PyQt5.__path__[0]) / "Qt5" / "lib" / name), mode=ctypes.RTLD_GLOBAL)
    import envpool

    pool = envpool.make("CoinrunEasy-v0", "gymnasium", num_envs=16, seed=seed, num_levels=LEVELS)
    return VecMonitor(EnvPool(pool, 16))


def main() -> None:
    args = arguments.parse(__doc__, 0, game=str)
    make, own = {"pong": (pong, PONG), "coinrun": (coinrun, COINRUN)}[args.game]
    steps, warmup = args.steps or (8_192 if args.game == "pong" else 4_096), 2_048
    meter = Meter("sb3", importlib.metadata.version("stable-baselines3"), f"ppo_{args.game}", warmup)
    policy = {"features_extractor_class": Impala, "net_arch": []} if args.game == "coinrun" else {}
    model = PPO(
        "CnnPolicy",
        make(args.seed),
        seed=args.seed,
        device="cpu",
        policy_kwargs=policy,
        **SETTINGS,
        **own,
    )
    meter.start()
    model.learn(steps, callback=RolloutMarks(meter))
    meter.mark(
        model.num_timesteps, UPDATES_PER_ROLLOUT * (model.num_timesteps // 1_024)
    )  # no rollout follows the last updates
    returns = [info["r"] for info in model.ep_info_buffer]
    mean = float(sum(returns) / len(returns)) if returns else None
    meter.report(mean, torch_threads=torch.get_num_threads())


main()
