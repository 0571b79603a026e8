"""PPO: proximal policy optimisation with a clipped surrogate.

Schulman et al. 2017, "Proximal Policy Optimization Algorithms", https://arxiv.org/abs/1707.06347;
advantages by Schulman et al. 2016, https://arxiv.org/abs/1506.02438. Each rollout is passed over `epochs`
times in `minibatches` parts, on -min(r A, clip(r, 1 - clip_range, 1 + clip_range) A) + value_coef * value
loss - entropy_coef * entropy, where r is the ratio of the policy to the one that acted.

With a recurrent model (lstm, gru) minibatches are whole sequences: groups of environments, shuffled anew in
every epoch, each unrolled from the state that the rollout began with; `minibatches` has to divide `num_envs`.

Deviations from the paper (1 to 4 are the reference implementation's: Engstrom et al. 2020,
https://arxiv.org/abs/2005.12729; Huang et al. 2022, "The 37 implementation details of PPO"):

1. Advantages are standardised per minibatch (`normalize_advantage`), or per microbatch
   (`grad_comp=accumulate`).
2. The value loss may be clipped like the policy's (`clip_value_range`).
3. Gradients are clipped by their global norm (`max_grad_norm`).
4. An iteration's updates end early once the policy has moved by 1.5 `target_kl`: the minibatch that shows it
   is not applied (Spinning Up, SB3). It counts in the metrics' means, not among the updates; an iteration
   without any, which rollouts of older weights may bring about, is left out of the row.
5. In recurrent PPO the stored states are not renewed between the epochs of an iteration.
6. Minibatches of power-of-two rollouts are shuffled by a keyed Feistel permutation, others by sorting.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.policy_gradient import PolicyGradient, check_sequences, shuffled
from rl.hparams.ppo import PPOHParams, check_minibatches
from rl.ops import loops, random
from rl.ops.nests import flatten_time, swap_time, without_last
from rl.ops.policy import approximate_kl, clipped_surrogate, clipped_value_loss, masked_mean, standardize
from rl.parallel import replicas
from rl.types import Loss, Nest, PolicyOutput, Tensor, Trajectory, Update


class Minibatch(NamedTuple):
    """Single steps; of a recurrent model whole sequences, [B, T, ...] in place of [N, ...]."""

    observation: Nest  # [N, ...]
    action: Nest  # [N, ...]
    log_prob: Tensor  # [N] by the policy that acted
    value: Tensor  # [N] by the network before the updates
    advantage: Tensor  # [N]
    target: Tensor  # [N] of the value
    mask: Tensor  # [N]
    recurrent_state: Nest = ()  # [B, ...] of the network before the sequences


@register
class PPO(PolicyGradient[PPOHParams]):
    """Proximal policy optimisation: discrete, multi-discrete, multi-binary and continuous actions."""

    trajectory_extras = ("log_prob", "value")

    def build(self) -> None:
        check_minibatches(self.hparams)
        super().build()
        self.sequences = self.network.initial_state(1) != ()  # whether minibatches are of whole sequences
        if self.sequences:
            check_sequences(self.hparams)

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs * self.hparams.minibatches

    def unroll_sequences(self, batch: Minibatch) -> tuple[Minibatch, PolicyOutput]:
        """Returns whole sequences as one flat batch of steps [T * B], and the current policy there."""
        state = batch.recurrent_state
        batch = swap_time(batch._replace(recurrent_state=()))  # [T, B, ...]
        output = self.network.unroll(batch.observation, state, batch.mask)
        return flatten_time(batch), self.output(output)

    def loss(self, batch: Minibatch, seed: Tensor) -> Loss:
        hparams, clip_range = self.hparams, self.annealed("clip_range")
        if self.sequences:
            batch, output = self.unroll_sequences(batch)
        else:
            output = self.policy(batch.observation, (), seed, training=True)
        log_ratio = output.distribution.log_prob(batch.action) - batch.log_prob  # [N]
        ratio = tf.exp(log_ratio)
        advantage = batch.advantage
        if hparams.normalize_advantage:
            advantage = standardize(advantage, batch.mask)
        policy_loss = clipped_surrogate(ratio, advantage, clip_range)
        value_range = self.annealed("clip_value_range")
        value_loss = clipped_value_loss(output.value, batch.value, batch.target, value_range)
        entropy = output.distribution.entropy()
        loss = policy_loss + hparams.value_coef * value_loss - self.annealed("entropy_coef") * entropy
        clipped = tf.cast(tf.abs(ratio - 1.0) > clip_range, tf.float32)
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
            "approximate_kl": masked_mean(approximate_kl(log_ratio), batch.mask),
            "clip_fraction": masked_mean(clipped, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        return self.learn_from(self._advantages(batch), seed)

    def learn_from(self, data: Minibatch, seed: Tensor) -> Update:
        """Makes `epochs` passes over a trajectory's data in `minibatches` parts, shuffled anew in every
        pass."""
        hparams = self.hparams
        size = hparams.num_envs * (1 if self.sequences else hparams.rollout_length)
        parts = hparams.minibatches

        limited = hparams.target_kl is not None
        stop = (lambda metrics: metrics["refused"] > 0.0) if limited else None

        def one_epoch(epoch: Tensor) -> dict[str, Tensor]:
            rows = shuffled(data, size, parts, random.fold_in(seed, epoch))

            def one_minibatch(i: Tensor) -> dict[str, Tensor]:
                part = tf.nest.map_structure(lambda x: tf.gather(x, i), rows)
                option: dict[str, Any] = {"unless": self._moved_too_far} if limited else {}
                return self.gradient_step(part, seed, **option).metrics

            metrics, made = loops.repeat(parts, one_minibatch, stop)
            if not limited:
                return metrics | {"updates": made}
            applied = made - tf.cast(metrics["refused"] > 0.0, tf.float32)  # the last one may be refused
            # Epochs may be cut short: their means count by the minibatches examined.
            return loops.weighted(metrics, made) | {"updates": applied, "examined": made}

        metrics, made = loops.repeat(hparams.epochs, one_epoch, stop)
        updates = metrics.pop("updates") * made
        if limited:
            del metrics["refused"]
            examined = metrics.pop("examined")
            metrics = loops.weighted(metrics, 1.0 / examined)
            updates = tf.round(updates)  # a mean times its number
        return Update(metrics | {"updates": updates})

    def _moved_too_far(self, metrics: dict[str, Tensor]) -> Tensor:
        """Whether a minibatch's step would begin further than `target_kl` from the policy that acted."""
        target_kl = self.hparams.target_kl
        assert target_kl is not None  # or this is not asked
        return replicas.mean(metrics["approximate_kl"]) > 1.5 * target_kl

    def _advantages(self, trajectory: Trajectory) -> Minibatch:
        """The trajectory as a flat batch `[T * B]`, or `[B, T]` of sequences, with advantages and targets."""
        values = self.rollout_values(trajectory)  # [T+1, B]
        value, advantage = values[:-1], self.advantages(trajectory, values, self.hparams.gae_lambda)
        observation = without_last(trajectory.observation)
        log_prob = trajectory.extras["log_prob"]
        data = Minibatch(
            observation, trajectory.action, log_prob, value, advantage, advantage + value, trajectory.mask
        )
        if self.sequences:
            sequences: Minibatch = swap_time(data)
            return sequences._replace(recurrent_state=trajectory.recurrent_state)
        steps: Minibatch = flatten_time(data)
        return steps
