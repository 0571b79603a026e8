"""One iteration, from top to bottom, as every runner, peer and buffer makes it:

    rollout -> episode sums -> reward -> memory.add -> sample -> update -> metrics -> next seeds

A runner says where its rollouts come from, and compiles `Iteration.run`. All steps are tensor functions: they
run eagerly, or within one compiled function. Random numbers are folded from (run seed, iteration, purpose),
as `rl/runners/seeds.py` says: a run restored to iteration 700 draws what it would have drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from rl.agents.agent import Agent
from rl.agents.curiosity import Curiosity, rewarded
from rl.memory.samples import Samples
from rl.ops import episodes, loops, random
from rl.ops.normalize import RewardScale, scaled_rewards
from rl.ops.trajectories import augmented, closed, newest
from rl.runners.seeds import iteration_seeds, update_seeds
from rl.types import Tensor, Trajectory


class Iteration:
    """Joins an agent and its memory.

    Args:
        agent: what learns.
        memory: what agents of experience "transition" or "sequence" sample from; empty for others.
        seed: of everything random in the run.
        augment: reward augmentation (rl.envs.rewards); None: the environment's own reward.
        workers: how many processes send rollouts, in any order; None if each rollout continues the last one.
        late: whether the rollouts come from older weights; then their values are recomputed.
        in_graph: True if `run` plays the rollout, or if there is none (offline). If False, the rollout comes
            from outside, and `run` ends by resampling the network's noise for the next one.
        curiosity: adds intrinsic rewards; None: there are none.
    """

    def __init__(self, agent: Agent, memory: Any, seed: int = 0, augment: Any = None,
                 workers: int | None = None, late: bool = False, in_graph: bool = False,
                 curiosity: Curiosity | None = None):  # fmt: skip
        self.agent, self.memory, self.seed, self.root_seed = agent, memory, seed, random.key(seed)
        self.number = tf.Variable(0, dtype=tf.int64, trainable=False, name="iteration")  # made so far
        self._root = tf.Variable(self.root_seed, trainable=False, name="root_seed")
        self._augment, self._closes, self._in_graph = augment, workers is not None, in_graph
        self._curiosity = curiosity
        self.steps_per_iteration: int = agent.steps_per_iteration
        self._values_anew = late and "value" in agent.trajectory_extras
        self._pack, self.reward_scale = loops.MetricPack(), RewardScale.of(agent.hparams, workers)

    @property
    def variables(self) -> dict[str, Any]:
        """All state by name, for checkpoints."""
        memory = {f"memory/{name}": each for name, each in self.memory.variables.items()}
        scale = {} if self.reward_scale is None else self.reward_scale.variables
        curious = {} if self._curiosity is None else self._curiosity.variables
        return {"iteration": self.number, **self.agent.variables, **memory, **scale, **curious}

    def step(self) -> Tensor:
        """Returns environment steps before this iteration (updates where nothing is played), int64 scalar."""
        return self.number * self.steps_per_iteration

    def reseed(self, seed: int) -> None:
        """Sets another seed, for a new run that reuses the compiled functions."""
        self.seed, self.root_seed = seed, random.key(seed)
        self._root.assign(self.root_seed)

    def run(self, source: Callable[..., Any] | Samples | None, worker: Any = None) -> loops.Metrics:
        """Makes one iteration; returns sums: over finished episodes, and of each metric over the updates.

        source: a function from (seed, environment steps so far) to the rollout's trajectory and its
            `episodes.Episodes` (None if whoever played it sums up the episodes); or the batches that buffers
            in other processes have sampled; or None: nothing is played.
        worker: the number of the worker that played the rollout, int32 scalar.
        """
        seed, learn_seed = iteration_seeds(self._root.value(), self.number)
        step = self.step()
        if source is None or isinstance(source, Samples):
            self.agent.schedule(step)
            metrics = _summed(self._updates(learn_seed, step, source))
        else:
            trajectory, played = source(seed, step)
            metrics = {} if played is None else episodes.sums(played, trajectory.mask)
            metrics |= self.learn(trajectory, learn_seed, step, worker)
        if not self._in_graph:
            self.agent.resample_noise(seed)
        self.number.assign_add(1)
        return metrics

    def learn(self, trajectory: Trajectory, seed: Tensor, step: Tensor, worker: Any = None) -> loops.Metrics:
        """Learns from a rollout, at once or through the memory; returns sums of metrics as `run`. With
        `normalize_reward`, rewards are divided by the present deviation when they are learned from; a memory
        stores them unscaled, since the deviation drifts."""
        agent, hparams = self.agent, self.agent.hparams
        agent.schedule(step)
        trajectory = trajectory._replace(reward=augmented(trajectory, self._augment, hparams.gamma))
        unseen = newest(trajectory, hparams.rollout_length)  # a worker has sent the earlier steps before
        if self.reward_scale is not None:
            ended = tf.logical_or(unseen.terminated, unseen.truncated)
            self.reward_scale.observe(unseen.reward, ended, unseen.mask, worker)
        if self._curiosity is not None:
            self._curiosity.observe(unseen, worker)
        if agent.experience in ("rollout", "parameters"):
            if self._values_anew:
                value = {"value": agent.values(trajectory, seed)}
                trajectory = trajectory._replace(extras=trajectory.extras | value)
            trajectory = scaled_rewards(self.reward_scale, trajectory, hparams)
            trajectory, more = rewarded(self._curiosity, trajectory, seed)
            metrics = agent.learn(trajectory, seed).metrics | more
        else:
            kept = agent.remembered(trajectory, seed)
            self.memory.add(closed(kept) if self._closes else kept)
            metrics = loops.where(self.memory.can_sample(), self._pack, lambda: self._updates(seed, step))
        agent.observe(unseen)
        return _summed(metrics)

    def _updates(self, seed: Tensor, step: Tensor, samples: Samples | None = None) -> loops.Metrics:
        """Makes the updates on batches of the memory, or of `samples`; returns the means of their metrics,
        and their number as "updates"."""

        def one_update(i: Tensor) -> loops.Metrics:
            sample_seed, update_seed = update_seeds(seed, i)
            batch = self.memory.sample(sample_seed, step) if samples is None else samples.sample(i)
            batch = scaled_rewards(self.reward_scale, batch, self.agent.hparams)
            batch, more = rewarded(self._curiosity, batch, update_seed)
            update = self.agent.learn(batch, update_seed)  # the gradient of `loss` by `grad_comp`, mostly
            if update.priorities is not None:
                if samples is None:
                    self.memory.update_priorities(batch, update.priorities)
                else:
                    samples.update_priorities(i, batch, update.priorities)
            return update.metrics | more

        metrics, made = loops.repeat(self.agent.updates_per_iteration(), one_update)
        return metrics | {"updates": made, "finite": metrics["updates"]}


def _summed(metrics: loops.Metrics) -> loops.Metrics:
    """Returns means over updates as sums; "updates" then counts only updates that were not skipped."""
    found = loops.summed(metrics)
    return found if "finite" not in found else found | {"updates": found.pop("finite")}
