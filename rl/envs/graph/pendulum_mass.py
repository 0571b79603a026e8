"""PendulumMass: Pendulum-v1 with a mass that is drawn for each episode, and not seen."""

from __future__ import annotations

from rl.envs.graph import pendulum
from rl.envs.graph.tasks import TaskEnv, TaskPhysics, part
from rl.envs.registry import register
from rl.errors import UsageError
from rl.ops import random
from rl.types import Tensor

ENV_ID = "PendulumMass-v0"


@register
class PendulumMass(TaskEnv):
    """Swing up a pendulum of unknown mass: as Pendulum-v1, whose mass is 1 kg.

    A task is a mass [1] in kg, uniform in [`lightest`, `heaviest`); `tasks` divides that range
    (`rl.envs.graph.tasks.part`). Gravity accelerates all alike; a torque moves the heavier less.

    Args:
        lightest, heaviest: in kg.
        tasks: "all", "train" or "test".

    Raises:
        UsageError: a range of masses that is none.
    """

    max_episode_steps = 200

    def __init__(
        self,
        num_envs: int,
        max_episode_steps: int | None = None,
        lightest: float = 0.5,
        heaviest: float = 2.0,
        tasks: str = "all",
    ) -> None:
        super().__init__(num_envs, max_episode_steps, tasks)
        if not 0.0 < lightest <= heaviest:
            raise UsageError(f"{ENV_ID}: needs 0 < lightest <= heaviest, not {lightest} and {heaviest}")
        self._range = lightest, heaviest
        self._pendulum = pendulum.Pendulum(num_envs)
        self.observation_space = self._pendulum.observation_space
        self.action_space = self._pendulum.action_space

    def draw(self, seed: Tensor) -> Tensor:
        """Draws masses [B, 1]."""
        lightest, heaviest = self._range
        unit = random.uniform(random.fold_in(seed, 1), [self.num_envs, 1])
        return lightest + (heaviest - lightest) * part(self.tasks, unit)

    def begin(self, task: Tensor, seed: Tensor) -> Tensor:
        """Returns angles and velocities [B, 2], drawn as Pendulum-v1's."""
        return self._pendulum.initial(seed)

    def move(
        self, task: Tensor, place: Tensor, action: Tensor, seed: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Makes a step of Pendulum-v1."""
        return self._pendulum.swung(place, action, task[:, 0])

    def observe(self, physics: TaskPhysics) -> Tensor:
        """Returns float32 [B, 3], as Pendulum-v1."""
        return self._pendulum.observe(physics.place)
