"""simple_tag for the hunters alone: the prey plays a policy of EPyMARL's, learned by DDPG.

    python train.py --user_modules benchmarks/hunt.py --hparams qmix --env Hunt-v0

needs build/prey.npz, which `python benchmarks/teams.py --tasks tag ...` makes of EPyMARL's `prey_params.pt`
(benchmarks/peers/epymarl_prey.py). The rules are those of its wrapper PretrainedTag: the prey takes the
action of the highest output for what it saw last, and hunters are paid as in simple_tag.
"""

from __future__ import annotations

from rl.imports import import_tensorflow

import_tensorflow()  # as the command line does, where this is the first to import it

import numpy as np  # noqa: E402
import tensorflow as tf  # noqa: E402
from gymnasium import spaces  # noqa: E402
from shared import PREY  # noqa: E402

from rl.envs.graph.multi_agent import MultiAgentEnv  # noqa: E402
from rl.envs.graph.particles import ParticlesPhysics  # noqa: E402
from rl.envs.graph.simple_tag import SimpleTag  # noqa: E402
from rl.envs.registry import register  # noqa: E402
from rl.errors import UsageError  # noqa: E402
from rl.types import Tensor  # noqa: E402

ENV_ID = "Hunt-v0"
VARIANCE = 1e-5  # added before the root, in PyTorch's batch normalisation


class Prey:
    """A policy of two hidden layers behind a batch normalisation that no longer learns.

    Args:
        arrays: by the names of PyTorch's state: `in_fn.running_mean`, `fc1.weight` and so on.
    """

    def __init__(self, arrays: dict[str, np.ndarray]):
        scale = arrays["in_fn.weight"] / np.sqrt(arrays["in_fn.running_var"] + VARIANCE)
        self._scale, self._offset = scale, arrays["in_fn.bias"] - arrays["in_fn.running_mean"] * scale
        self._layers = [(arrays[f"fc{i}.weight"].T, arrays[f"fc{i}.bias"]) for i in (1, 2, 3)]

    def act(self, observation: Tensor) -> Tensor:
        """Returns actions [B], int32, for observations [B, 14]."""
        x = observation * self._scale + self._offset
        for i, (kernel, bias) in enumerate(self._layers):
            x = (tf.nn.relu(x) if i else x) @ kernel + bias
        return tf.argmax(x, -1, tf.int32)


@register
class Hunt(MultiAgentEnv):
    """Hunt a trained prey: 3 hunters among 2 obstacles; 16 numbers, 5 actions, 10 for a catch, 25 steps.

    Observations of the hunters, and what each is paid, are those of SimpleTag-v0.
    """

    max_episode_steps = SimpleTag.max_episode_steps
    action_space = spaces.Discrete(5)

    def __init__(self, num_envs: int, max_episode_steps: int | None = None):
        super().__init__(num_envs, max_episode_steps)
        if not PREY.is_file():
            raise UsageError(f"there is no {PREY}: benchmarks/teams.py --tasks tag makes it")
        with np.load(PREY) as arrays:
            self.prey = Prey(dict(arrays))
        self.game = SimpleTag(num_envs)
        self.agent_names = self.game.agent_names[: self.game.hunters]
        self.observation_space = self.game.observation_space

    def initial(self, seed: Tensor) -> ParticlesPhysics:
        """Draws the places of all."""
        return self.game.initial(seed)

    def dynamics(
        self, physics: ParticlesPhysics, action: Tensor, seed: Tensor
    ) -> tuple[ParticlesPhysics, Tensor, Tensor]:
        """Moves the hunters as they say, [B, 3], and the prey as it will."""
        seen = self.game.observe(physics)[:, -1, :-2]  # what it sees is shorter than what hunters do
        action = tf.concat([tf.cast(action, tf.int32), self.prey.act(seen)[:, None]], 1)
        physics, *rest = self.game.dynamics(physics, action, seed)
        reward, terminated = (each[:, : self.game.hunters] for each in rest)
        return physics, reward, terminated

    def observe(self, physics: ParticlesPhysics) -> Tensor:
        """Returns [B, 3, 16]."""
        return self.game.observe(physics)[:, : self.game.hunters]

    def draw(self, physics: ParticlesPhysics) -> np.ndarray:
        """Returns a picture of the first field."""
        return self.game.draw(physics)
