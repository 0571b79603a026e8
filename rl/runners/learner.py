"""What follows every rollout, the same under every runner: rewards, memory, updates, statistics."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from rl.agents.agent import Agent
from rl.memory.samples import Samples
from rl.ops import loops, random
from rl.ops.normalize import RewardScale
from rl.ops.trajectories import closed, newest
from rl.parallel import replicas
from rl.types import Batch, Nest, SequenceBatch, Tensor, Trajectory


class Learner:
    """Joins an agent and its memory: `learn` takes in one trajectory and makes the updates that are due.

    With `normalize_reward` an agent learns from rewards in units of their present deviation. A memory keeps
    them as they came (after augmentation): the deviation drifts, most of all in the beginning.

    Args:
        agent: what learns.
        memory: what agents of experience "transition" or "sequence" sample from; keeps nothing for others.
        augment: reward augmentation (rl.envs.rewards), None for the environment's own reward.
        workers: how many processes send rollouts, in any order; None where each goes on from the last.
        late: whether rollouts come that older weights acted in. Their values (extra "value") are then
            computed anew: algorithms value what follows the last step by the present network and
            normaliser, and advantages are differences of values. Their log_prob stays that of acting.
    """

    def __init__(
        self,
        agent: Agent,
        memory: Any,
        augment: Any = None,
        workers: int | None = None,
        late: bool = False,
    ):
        self.agent, self.memory, self.augment = agent, memory, augment
        self._values_anew = late and "value" in agent.trajectory_extras
        self._closes = workers is not None
        hparams = agent.hparams
        self._pack = loops.MetricPack()
        self.reward_scale = (
            RewardScale(hparams.num_envs, hparams.gamma, workers=workers)
            if hparams.normalize_reward
            else None
        )

    @property
    def variables(self) -> dict[str, Any]:
        """All state of agent, memory and reward scale, by name."""
        found = dict(self.agent.variables)
        found |= {f"memory/{name}": each for name, each in self.memory.variables.items()}
        if self.reward_scale is not None:
            found |= self.reward_scale.variables
        return found

    def appended(self) -> dict[str, int]:
        """Variables that change nowhere but where rows are appended, by name, with the rows ever appended."""
        return {f"memory/{name}": rows for name, rows in self.memory.appended().items()}

    def cut(self) -> None:
        """Ends the running episodes as truncated, for environments that are restarted."""
        self.memory.cut()
        if self.reward_scale is not None:
            self.reward_scale.cut()

    def learn(
        self, trajectory: Trajectory, seed: Tensor, step: Tensor, worker: Tensor | None = None
    ) -> dict[str, Tensor]:
        """One iteration's learning.

        step: environment steps so far, int64 scalar; worker: which one made the trajectory, int32 scalar.

        Returns sums to be divided by `updates`: each metric times the number of updates it is a mean of.
        """
        self.agent.schedule(step)
        hparams = self.agent.hparams
        raw = trajectory._replace(reward=augmented(trajectory, self.augment, hparams.gamma))
        # Rollouts that a worker sends as one: all but the last were taken in before.
        unseen = newest(raw, hparams.rollout_length)
        if self.reward_scale is not None:
            episode_end = tf.logical_or(unseen.terminated, unseen.truncated)
            self.reward_scale.observe(unseen.reward, episode_end, unseen.mask, worker)
        if self.agent.experience in ("rollout", "parameters"):
            if self._values_anew:
                raw = raw._replace(extras=raw.extras | {"value": self.agent.values(raw, seed)})
            metrics = self.agent.update(self._scaled(raw), seed).metrics
            metrics = {"updates": tf.constant(1.0), **metrics}
        else:
            self.memory.add(closed(raw) if self._closes else raw)
            metrics = self._replay(seed, step)
        self.agent.observe(unseen)
        return _sums(metrics)

    def learn_sampled(self, samples: Samples, seed: Tensor, step: Tensor) -> dict[str, Tensor]:
        """One iteration's learning from batches that were sampled elsewhere; step as in `learn`, returns what
        it returns."""
        self.agent.schedule(step)
        metrics, made = self._updates(seed, lambda i, _: samples.sample(i), samples.update_priorities)
        return _sums(metrics | {"updates": made})

    def _updates(
        self,
        seed: Tensor,
        sample: Callable[[Tensor, Tensor], Nest],
        prioritize: Callable[[Tensor, Nest, Tensor], None],
    ) -> tuple[dict[str, Tensor], Tensor]:
        """The updates of an iteration: (means of their metrics, how many).

        sample: (number of the update, seed) to a batch; prioritize: takes the number, the batch and its new
        priorities.
        """

        def one_update(i: Tensor) -> dict[str, Tensor]:
            sample_seed, update_seed = random.split(random.fold_in(seed, i), 2)
            if replicas.count() > 1:  # each samples its own memory
                sample_seed = random.fold_in(sample_seed, replicas.rank())
            batch = self._scaled(sample(i, sample_seed))
            update = self.agent.update(batch, update_seed)
            if update.priorities is not None:
                prioritize(i, batch, update.priorities)
            return update.metrics

        return loops.repeat(self.agent.updates_per_iteration(), one_update)

    def _replay(self, seed: Tensor, step: Tensor) -> dict[str, Tensor]:
        pack = self._pack

        def updates() -> Tensor:
            memory = self.memory
            metrics, made = self._updates(
                seed,
                lambda _, each: memory.sample(each, step),
                lambda _, batch, priorities: memory.update_priorities(batch, priorities),
            )
            return pack.pack(metrics | {"updates": made})

        if tf.executing_eagerly() and not pack.names:
            # Nothing may be due yet, but rows of metrics need the names: trace without running.
            tf.function(updates, autograph=False).get_concrete_function()
        return pack.unpack(tf.cond(self.memory.can_sample(), updates, pack.zeros))

    def _scaled(self, batch: Any) -> Any:
        """A trajectory, or what a memory has sampled, its rewards in units of their present deviation."""
        if self.reward_scale is None:
            return batch
        if isinstance(batch, SequenceBatch):
            return batch._replace(trajectory=self._scaled(batch.trajectory))
        steps = self.agent.hparams.n_step if isinstance(batch, Batch) else 1
        return batch._replace(reward=self.reward_scale.scaled(batch.reward, steps))


def augmented(trajectory: Trajectory, augment: Any, gamma: float) -> Tensor:
    """The rewards [T, B] after reward augmentation; the environment's own where `augment` is None."""
    if augment is None:
        return trajectory.reward
    now = tf.nest.map_structure(lambda x: x[:-1], trajectory.observation)
    following = tf.nest.map_structure(lambda x: x[1:], trajectory.observation)
    reward = augment(now, trajectory.action, trajectory.reward, following, trajectory.terminated, gamma)
    return reward * trajectory.mask


def _sums(metrics: dict[str, Tensor]) -> dict[str, Tensor]:
    """Each metric times the number of updates that it is a mean of."""
    updates = metrics.pop("updates")
    return {name: value * updates for name, value in metrics.items()} | {"updates": updates}
