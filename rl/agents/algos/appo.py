"""APPO: PPO's clipped surrogate on V-trace advantages, against a policy that lags behind the learner's.

Luo et al. 2020, "IMPACT: Importance weighted asynchronous architectures with clipped target networks",
https://arxiv.org/abs/1912.00167, in the form that RLlib ships as APPO (appo_torch_learner.py). Between the
policy that acted and the current one stands the target policy, a copy that is renewed every
`target_update_period` updates: V-trace evaluates it, and the surrogate's ratio is that of the current policy
to it.

Deviations from the paper:

1. Actors and learner alternate: `epochs` passes over a rollout in `minibatches` groups of environments stand
   for the paper's circular buffer.
2. As in RLlib, the ratio is min(behaviour / target, `behaviour_ratio_clip`) * current / behaviour; with 2 it
   is the paper's current / max(target, beta * behaviour) at beta = 1/2.
3. RLlib's optional KL penalty (off by default there) is left out.
4. Gradients are clipped by their global norm (`max_grad_norm`).
5. Advantages are standardised per minibatch (`normalize_advantage`), as PPO's are.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.groups import grouped
from rl.agents.policy_gradient import VTraceAgent
from rl.agents.targets import copy_weights, update_target
from rl.hparams.appo import APPOHParams
from rl.ops.nests import flatten_time
from rl.ops.policy import approximate_kl, bounded_ratio, clipped_surrogate, masked_mean, standardize
from rl.types import Loss, Tensor, Trajectory


@register
class APPO(VTraceAgent[APPOHParams]):
    """PPO with V-trace and a target policy: discrete, multi-discrete, multi-binary and continuous actions."""

    def build(self) -> None:
        super().build()
        target_network = grouped(self, self.make_network, "target_network")
        self.target_network = self.add_network("target_network", target_network)
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
        copy_weights(self.network, self.target_network, 1.0)

    def loss(self, batch: Trajectory, seed: Tensor) -> Loss:
        hparams, clip_range = self.hparams, self.annealed("clip_range")
        output = self.unroll_whole(self.network, batch)
        lagged = self.unroll_whole(self.target_network, batch)
        action = flatten_time(batch.action)
        log_prob, target_log_prob = output.distribution.log_prob(action), lagged.distribution.log_prob(action)
        found = (log_prob, tf.stop_gradient(target_log_prob), output.distribution.entropy())  # [T * B]
        log_prob, target_log_prob, entropy = (tf.reshape(x, batch.mask.shape) for x in found)
        behaviour = batch.extras["log_prob"]  # [T, B]
        target, advantage = self.vtrace(batch, target_log_prob - behaviour, output.value)
        if hparams.normalize_advantage:
            advantage = standardize(advantage, batch.mask)
        # In logarithms: either ratio may be beyond float32 where their product, current to target, is not.
        lag = tf.minimum(behaviour - target_log_prob, math.log(hparams.behaviour_ratio_clip))
        ratio = tf.exp(lag + log_prob - behaviour)
        policy_loss = clipped_surrogate(ratio, advantage, clip_range)
        value_loss = 0.5 * tf.square(output.value[:-1] - target)
        loss = policy_loss + hparams.value_coef * value_loss - self.annealed("entropy_coef") * entropy
        clipped = tf.cast(tf.abs(ratio - 1.0) > clip_range, tf.float32)
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
            "importance_ratio": masked_mean(bounded_ratio(log_prob - behaviour), batch.mask),
            "approximate_kl": masked_mean(approximate_kl(log_prob - target_log_prob), batch.mask),
            "clip_fraction": masked_mean(clipped, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def after_update(self) -> None:
        period, tau = self.hparams.target_update_period, self.hparams.tau
        self.updates.assign_add(1)
        update_target(self.network, self.target_network, self.updates, period, tau)

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | {"updates": self.updates}
