"""In-graph runs whose algorithm adapts to tasks while it plays (`rl.agents.contracts.Adapts`)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.contracts import Adapts
from rl.envs.graph.tasks import TaskEnv
from rl.envs.graph.wrappers import PreviousActionReward
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.ops.episodes import part_returns
from rl.parallel import replicas
from rl.parallel.devices import Devices
from rl.runners.in_graph import Carry, InGraphRunner, Record, trajectory_of
from rl.runners.iteration import Iteration
from rl.runners.parts import check_compiled_loop, check_own_rewards
from rl.types import Tensor


def check_adapts_here(hparams: HParams, workers: Any) -> None:
    """Raises UsageError where tasks would change during adaptation, or rewards are not the environment's
    own."""
    check_compiled_loop(hparams, workers, "adapts", " to tasks, which in-graph environments alone keep")
    check_own_rewards(hparams, "adapts by")


class AdaptingRunner(InGraphRunner):
    """Runs an environment whose tasks stay the same for a rollout, in which the algorithm adapts to them.

    A rollout has `inner_steps` + 1 parts of equal length. Each begins with new episodes of the same tasks.
    Its last step resets all environments, and truncates the episodes that are still running. After each part
    but the last the algorithm adapts; after the last, new tasks are drawn.

    Args: as of `InGraphRunner`.

    Raises:
        UsageError: an environment of many agents.
    """

    def __init__(self, env: Any, iteration: Iteration, jit_compile: bool, devices: Devices):
        agent = iteration.agent
        assert isinstance(agent, Adapts)  # or another runner would run it
        if env.agents > 1:
            raise UsageError(
                f"{agent.hparams.algo} adapts to tasks of one agent, {agent.hparams.env} is played by "
                f"{env.agents} together: take another algorithm, such as ppo"
            )
        self._adapting: Adapts = agent
        self._parts = agent.hparams.inner_steps + 1
        inner = env.env if isinstance(env, PreviousActionReward) else env
        self._tasks = inner if isinstance(inner, TaskEnv) else None
        if self._tasks is not None:
            self._tasks.rows_of_task = agent.hparams.task_episodes
        super().__init__(env, iteration, jit_compile, devices)

    def returns_of_tasks(self, seed: Tensor) -> Tensor:
        """Plays a rollout; returns the mean return on each task before and after each adaptation, [steps + 1,
        tasks]: of the first episode of every environment in each part, as far as it was played."""
        hparams = self.agent.hparams
        trajectory, _ = self._rollout(seed, tf.constant(hparams.train_steps, tf.int64))
        found = part_returns(trajectory, self._parts)  # [parts, B]
        return tf.reduce_mean(tf.reshape(found, [self._parts, -1, hparams.task_episodes]), 2)

    def _played(self, start: Carry, seeds: Tensor, step: Tensor) -> tuple[Carry, Record]:
        """The parts one after another, and what is adapted between them."""
        carry, rows, length = start, [], seeds.shape[0] // self._parts
        for i in range(self._parts):
            now = step + replicas.count() * i * length * self.env.num_envs
            own, last = seeds[i * length : (i + 1) * length], i == self._parts - 1
            before, (carry, part) = carry, self._part(carry, own, now, keeps_tasks=not last)
            rows.append(part)
            if not last:
                self._adapting.adapt(trajectory_of(part, carry, before, self._team)[0])
        return carry, tf.nest.map_structure(lambda *parts: tf.concat(parts, 0), *rows)

    def _part(self, start: Carry, seeds: Tensor, step: Tensor, keeps_tasks: bool) -> tuple[Carry, Record]:
        """One part, whose last step resets all environments."""
        self._keep_tasks(True)
        carry, rows = super()._played(start, seeds[:-1], step)
        cut = tf.logical_and(rows.mask[-1] > 0.0, tf.logical_not(carry.ended))
        truncated = tf.concat([rows.truncated[:-1], tf.logical_or(rows.truncated[-1], cut)[None]], 0)
        over = tf.ones_like(carry.ended)
        carry = carry._replace(state=carry.state._replace(episode_end=over), ended=over)
        self._keep_tasks(keeps_tasks)
        carry, reset = self._step(carry, seeds[-1], step)
        rows = rows._replace(truncated=truncated)
        return carry, tf.nest.map_structure(lambda x, row: tf.concat([x, row[None]], 0), rows, reset)

    def _keep_tasks(self, keeps: bool) -> None:
        """Sets whether the code that is traced next keeps an environment's task when its episode ends."""
        if self._tasks is not None:
            self._tasks.keeps_tasks = keeps
