"""V-MPO: maximum a posteriori policy optimisation from rollouts, with a learned state value.

Song et al. 2019, "V-MPO: On-policy maximum a posteriori policy optimization for discrete and continuous
control", https://arxiv.org/abs/1909.12238. The half of the steps with the largest advantages A gets the
weights psi, proportional to exp(A / temperature); the other half gets none. The policy is fitted to these
steps by weighted maximum likelihood, with a penalty on the KL divergence from the policy that acted:

    -sum psi log pi(a|s) + penalty * mean KL(old || pi) + value_coef * value loss

The penalty (alpha in the paper) grows while the divergence is above `max_kl`. The temperature (eta) grows
while the divergence of psi from equal weights is above `weights_kl`. For Gaussian actions, mean and standard
deviation have a penalty each; each divergence is computed with the other parameter of the old policy
(section 4.2).

MPO itself (Abdolmaleki et al. 2018, https://arxiv.org/abs/1806.06920), which learns from replayed steps by
action values, is not here.

Deviations from the paper:

1. Value targets and advantages are V-trace's of the old policy: for rollouts by that policy they are its
   lambda-returns, n-step returns where `trace_lambda` is 1. Rollouts of older weights are corrected.
2. Temperature and penalties are learned as logarithms, by Adam with `dual_lr` of their own; their gradients,
   `weights_kl` less the weights' divergence and `max_kl` less the policy's, are in closed form.
3. The old policy is renewed after each rollout's updates, which stand for the paper's T_target.
4. The half is chosen, and its weights are normalised, within a minibatch, or within a microbatch
   (`grad_comp=accumulate`).
5. Gradients are clipped by their global norm (`max_grad_norm`), rewards may be scaled by the deviation of
   returns (`normalize_reward`) in place of PopArt, and an entropy bonus can be added (`entropy_coef`).
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.grad_comp.backprop import apply_gradients
from rl.agents.algos.registry import register
from rl.agents.groups import grouped
from rl.agents.policy_gradient import VTraceAgent
from rl.agents.targets import copy_weights
from rl.hparams.vmpo import VMPOHParams
from rl.ops.best_half import improved
from rl.ops.distributions import kl_parts
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean, mean_of_all
from rl.types import Loss, Tensor, Trajectory, Update


@register
class VMPO(VTraceAgent[VMPOHParams]):
    """V-MPO: discrete, multi-discrete, multi-binary and continuous actions."""

    def build(self) -> None:
        super().build()
        hparams, size = self.hparams, len(self.limits)
        target_network = grouped(self, self.make_network, "target_network")
        self.target_network = self.add_network("target_network", target_network)
        copy_weights(self.network, self.target_network, 1.0)
        self.log_temperature = keras.Variable(math.log(hparams.temperature), name="log_temperature")
        self.log_penalty = keras.Variable([math.log(hparams.penalty)] * size, name="log_penalty")
        self.add_optimizer("duals", [self.log_temperature, self.log_penalty], hparams.dual_lr)

    @property
    def limits(self) -> dict[str, float]:
        """Returns the limit of each divergence from the old policy, in nats, by the metric's name."""
        mean, std = self.hparams.max_kl, self.hparams.max_std_kl
        gaussian = isinstance(self.action_space, spaces.Box)
        return {"kl_mean": mean, "kl_std": std} if gaussian else {"kl": mean}

    @property
    def temperature(self) -> Tensor:
        """The temperature of advantages in the weights, scalar."""
        return tf.exp(tf.convert_to_tensor(self.log_temperature))

    @property
    def penalty(self) -> Tensor:
        """The weights of the divergences, in the order of `limits`: [1] or [2]."""
        return tf.exp(tf.convert_to_tensor(self.log_penalty))

    def loss(self, batch: Trajectory, seed: Tensor) -> Loss:
        hparams, mask = self.hparams, tf.reshape(batch.mask, [-1])  # [T * B]
        output = self.unroll_whole(self.network, batch)
        old = self.unroll_whole(self.target_network, batch).distribution
        action = flatten_time(batch.action)
        log_prob = output.distribution.log_prob(action)
        lag = tf.reshape(old.log_prob(action), batch.mask.shape) - batch.extras["log_prob"]
        target, advantage = self.vtrace(batch, lag, output.value)
        weights = improved(tf.reshape(advantage, [-1]), mask, self.temperature)
        policy_loss = -weights.weight * log_prob
        divergences = kl_parts(old, output.distribution)
        penalties = dict(zip(self.limits, tf.unstack(self.penalty), strict=True))
        pull = tf.add_n([weight * divergences[name] for name, weight in penalties.items()])
        value_loss = tf.reshape(0.5 * tf.square(output.value[:-1] - target), [-1])
        entropy = output.distribution.entropy()
        loss = policy_loss + pull + hparams.value_coef * value_loss - self.annealed("entropy_coef") * entropy
        metrics = {
            "policy_loss": masked_mean(policy_loss, mask),
            "value_loss": masked_mean(value_loss, mask),
            "entropy": masked_mean(entropy, mask),
            "temperature": self.temperature,
            "weights_kl": weights.kl,
        }
        metrics |= {name: masked_mean(each, mask) for name, each in divergences.items()}
        metrics |= {name.replace("kl", "penalty"): each for name, each in penalties.items()}
        return tf.reshape(loss * mask, batch.mask.shape), metrics, None

    def learn_part(self, batch: Trajectory, seed: Tensor) -> dict[str, Tensor]:
        """Updates the network, then temperature and penalties, and returns the metrics."""
        metrics = super().learn_part(batch, seed)
        slack = tf.stack(
            [limit - mean_of_all(metrics[name], batch.mask) for name, limit in self.limits.items()]
        )
        gradients = [
            self.temperature * (self.hparams.weights_kl - metrics["weights_kl"]),
            self.penalty * slack,
        ]
        apply_gradients(gradients, [self.log_temperature, self.log_penalty], self.optimizers["duals"], None)
        return metrics

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Updates as every V-trace agent; then the target network, the old policy, is renewed."""
        update = super().update(batch, seed)
        copy_weights(self.network, self.target_network, 1.0)
        return update

    @property
    def learned_beside(self) -> dict[str, Any]:
        """See `rl.agents.contracts.LearnsBeside`."""
        return {"log_temperature": self.log_temperature, "log_penalty": self.log_penalty}

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.learned_beside
