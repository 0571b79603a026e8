"""A2C: advantage actor-critic, the synchronous form of A3C.

Mnih et al. 2016, "Asynchronous methods for deep reinforcement learning", https://arxiv.org/abs/1602.01783;
advantages by Schulman et al. 2016, https://arxiv.org/abs/1506.02438. Each rollout makes one gradient step on
-log pi(a | s) A + value_coef * (V - target)^2 / 2 - entropy_coef * entropy.

Deviations from the paper:

1. All environments act with the same weights, and one gradient is taken over all of them (OpenAI Baselines).
2. Advantages are lambda-weighted n-step estimates, n being what is left of the rollout; `gae_lambda=1` is the
   paper's n-step return.
3. Gradients are clipped by their global norm (`max_grad_norm`); advantages may be standardised over the
   rollout (`normalize_advantage`).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.policy_gradient import PolicyGradient
from rl.hparams.a2c import A2CHParams
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean, standardize
from rl.types import Loss, Tensor, Trajectory, Update


@register
class A2C(PolicyGradient[A2CHParams]):
    """Advantage actor-critic: discrete, multi-discrete, multi-binary and continuous actions."""

    def loss(self, batch: Trajectory, seed: Tensor) -> Loss:
        hparams = self.hparams
        output = self.unroll(batch)
        batch = flatten_time(batch._replace(observation=(), recurrent_state=()))  # [N, ...]
        policy_loss = -output.distribution.log_prob(batch.action) * batch.extras["advantage"]  # [N]
        value_loss = 0.5 * tf.square(output.value - batch.extras["target"])
        entropy = output.distribution.entropy()
        loss = policy_loss + hparams.value_coef * value_loss - self.annealed("entropy_coef") * entropy
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes one step of policy and value on the whole rollout."""
        return self.gradient_step(self._advantages(batch), seed)

    def _advantages(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with "advantage" and "target" of the value among its extras, [T, B] each."""
        hparams = self.hparams
        values = self.rollout_values(trajectory)
        advantage = self.advantages(trajectory, values, hparams.gae_lambda)
        target = advantage + values[:-1]
        if hparams.normalize_advantage:
            advantage = standardize(advantage, trajectory.mask)
        return trajectory._replace(extras={"advantage": advantage, "target": target})
