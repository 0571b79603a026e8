"""MBPO: SAC that learns from short rollouts in learned dynamics.

Janner et al. 2019, "When to trust your model: model-based policy optimization",
https://arxiv.org/abs/1906.08253 (algorithm 2). An ensemble of networks, each on a bootstrap sample of what
was played, predicts a Gaussian of the observation's difference and the reward (`rl/models/dynamics.py`). From
replayed states the present policy makes `horizon` steps, each predicted by a random one of the `elites` best
networks. SAC (`rl/agents/algos/sac.py`) learns from these transitions and a `real_share` of replayed ones,
with many updates for every environment step: imagined data are plentiful, and their error is small after few
steps.

Deviations from the paper:

1. Nothing imagined is stored: every update imagines its own batch by the policy and the networks of that
   moment, from states that were sampled for it. The paper keeps what older ones have imagined.
2. The ensemble makes a gradient step in every `dynamics_period`-th update, in the first `dynamics_warmup` in
   each; the paper trains it until it no longer gets better, every so many steps.
3. A network's bootstrap sample, and what is held out to choose the elites, are decided by a transition's
   place in the memory; the elites have the least running mean of errors.
4. Terminal states are learned, as one more output; the authors' code is told the task's own rule. A chance to
   go on discounts, and weighs the steps after it.
5. The horizon stays the same. The paper lets it grow in some tasks.
6. Predictions are standardised, variances have fixed soft bounds, weights do not decay. What is predicted is
   brought within the observations' space, categories by the largest number.
7. Those of SAC that are not about n-step and prioritized replay.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.algos.sac import SAC
from rl.hparams.mbpo import MBPOHParams
from rl.models.dynamics import Dynamics
from rl.ops import dynamics as ops
from rl.ops import loops, random
from rl.ops.policy import masked_mean
from rl.ops.rows import Rows
from rl.parallel import replicas
from rl.types import Batch, Loss, Nest, Tensor, Update

ERROR_TAU = 0.02  # by which the running mean of a member's errors follows


@register
class MBPO(SAC):
    """Soft actor-critic in learned dynamics: bounded continuous actions."""

    hparams: MBPOHParams
    hparams_type = MBPOHParams

    def build(self) -> None:
        super().build()
        hparams = self.hparams
        ensemble = Dynamics(
            hparams.members,
            hparams.dynamics_hidden,
            self.observation_space,
            self.actions.size,
            self.initializers,
        )
        self.dynamics = self.add_network("dynamics", ensemble)
        self.add_optimizer("dynamics", self.dynamics.trainable_variables, hparams.dynamics_lr)
        self.errors = tf.Variable(tf.zeros([hparams.members]), trainable=False, name="errors")
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")

    def update(self, batch: Batch, seed: Tensor) -> Update:
        """Makes a step of the ensemble where it is due, then SAC's on what is imagined and what is real."""
        model_seed, imagine_seed, mix_seed, policy_seed = random.split(seed, 4)
        self.updates.assign_add(1)
        learned = self.dynamics_step(batch, model_seed)
        imagined = self.imagine(batch, imagine_seed)
        update = super().update(self.mixed(batch, imagined, mix_seed), policy_seed)
        told = {"imagined_reward": masked_mean(imagined.reward, imagined.mask)}
        return Update(update.metrics | learned | told)

    # -- the ensemble ---------------------------------------------------------------------------------

    @property
    def warming_up(self) -> Tensor:
        """Whether this is one of the first updates, bool scalar."""
        return self.updates <= self.hparams.dynamics_warmup

    def dynamics_step(self, batch: Batch, seed: Tensor) -> dict[str, Any]:
        """Makes a gradient step of the ensemble where one is due; returns its metrics, of the last one."""

        def step() -> tuple[Tensor, ...]:
            self.dynamics.observe(batch, self.actions.encode(batch.action))
            self.rank(batch)
            metrics = self.gradient_step(batch, seed, "dynamics", self.dynamics_loss).metrics
            error = tf.reduce_mean(tf.gather(self.errors, ops.elites(self.errors, self.hparams.elites)))
            return metrics["loss"], metrics["grad_norm"], error

        due = self.warming_up | (self.updates % self.hparams.dynamics_period == 0)
        found = tf.cond(due, step, lambda: (tf.constant(loops.NONE),) * 3)
        names = "dynamics_loss", "dynamics_grad_norm", "dynamics_error"
        return {name: loops.Last(value) for name, value in zip(names, found, strict=True)}

    def dynamics_loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the ensemble's loss: of each member, a transition counts as often as it is in its bootstrap
        sample."""
        losses = self.dynamics.losses(batch, self.actions.encode(batch.action))  # [M, N]
        loss = tf.reduce_mean(ops.bootstrap(batch.index, self.hparams.members) * losses, 0)
        return loss * (1.0 - ops.held_out(batch.index, self.hparams.held_out)) * batch.mask, {}, None

    def rank(self, batch: Batch) -> None:
        """Updates `errors`, each member's running squared error of its mean on held-out transitions."""
        predicted = self.dynamics(batch.observation, self.actions.encode(batch.action))
        error = tf.reduce_mean(tf.square(predicted.mean - self.dynamics.target(batch)), -1)  # [M, N]
        weight = ops.held_out(batch.index, self.hparams.held_out) * batch.mask  # [N]
        count, total = (replicas.total(x) for x in (tf.reduce_sum(weight), tf.reduce_sum(error * weight, -1)))
        change = ERROR_TAU * (total / tf.maximum(count, 1.0) - self.errors)
        self.errors.assign_add(tf.where(count > 0.0, change, 0.0))

    # -- what it imagines -----------------------------------------------------------------------------

    def imagine(self, batch: Batch, seed: Tensor) -> Batch:
        """Imagines as many transitions as the batch has: `horizon` steps from each of its first
        observations."""
        horizon, count = self.hparams.horizon, batch.mask.shape[0]
        rows = -(-count // horizon)
        seeds = random.split_array(seed, [horizon, 3])
        trusted = ops.elites(self.errors, self.hparams.elites)
        first, mask = tf.nest.map_structure(lambda x: x[:rows], (batch.observation, batch.mask))
        specs = tf.nest.map_structure(
            lambda x: tf.TensorSpec([rows, *x.shape[1:]], x.dtype), batch._replace(next_action=())
        )
        kept = Rows(specs, horizon)

        def body(t: Tensor, observation: Nest, mask: Tensor, arrays: list[Any]) -> tuple[Any, ...]:
            step, goes_on = self.imagined_step(observation, mask, trusted, tf.gather(seeds, t))
            return t + 1, step.next_observation, mask * goes_on, kept.write(arrays, t, step)

        state = (tf.constant(0), first, mask, kept.arrays())
        *_, arrays = tf.while_loop(lambda t, *_: t < horizon, body, state, maximum_iterations=horizon)
        found: Batch = tf.nest.map_structure(
            lambda x: tf.stop_gradient(tf.reshape(x, [horizon * rows, *x.shape[2:]])[:count]),
            kept.stack(arrays),  # [H, rows, ...]
        )
        return found

    def imagined_step(
        self, observation: Nest, mask: Tensor, members: Tensor, seeds: Tensor
    ) -> tuple[Batch, Tensor]:
        """Returns (a step of the policy from observations [N, ...], each by one of `members`; the chance [N]
        to go on)."""
        act_seed, member_seed, noise_seed = (random.rows(each) for each in tf.unstack(seeds))
        count = mask.shape[0]
        code, _ = self.actions.squashed_gaussian(self.network(observation)).unit_sample(act_seed)
        predicted = self.dynamics(observation, code, members)
        chosen = tf.one_hot(random.randint(member_seed, [count], members.shape[0]), members.shape[0], axis=0)
        mean, log_variance = (tf.reduce_sum(x * chosen[..., None], 0) for x in predicted[:2])  # [N, F + 1]
        noise = random.normal(noise_seed, mean.shape)
        following, reward = self.dynamics.following(observation, mean + tf.exp(0.5 * log_variance) * noise)
        goes_on = tf.sigmoid(-tf.reduce_sum(predicted.ends * chosen, 0))  # [N]
        step = Batch(
            observation=observation,
            action=self.actions.certain(code).mode(),
            reward=reward,
            discount=self.hparams.gamma * goes_on,
            next_observation=following,
            sample_weight=tf.ones([count]),
            index=tf.zeros([count], tf.int32),
            mask=mask,
        )
        return step, goes_on

    def mixed(self, real: Batch, imagined: Batch, seed: Tensor) -> Batch:
        """Returns rows of both: real ones with the chance `real_share`, all of them in the warm-up."""
        drawn = random.uniform(random.rows(seed), [real.mask.shape[0]])
        is_real = (drawn < self.hparams.real_share) | self.warming_up  # [N]

        def chosen(x: Tensor, y: Tensor) -> Tensor:
            return tf.where(tf.reshape(is_real, [-1] + [1] * (x.shape.rank - 1)), x, y)

        found: Batch = tf.nest.map_structure(chosen, real._replace(next_action=()), imagined)
        return found

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | {"errors": self.errors, "updates": self.updates}
