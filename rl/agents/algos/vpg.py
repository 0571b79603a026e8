"""VPG: the vanilla policy gradient, with the value as baseline or without.

Williams 1992, "Simple statistical gradient-following algorithms for connectionist reinforcement learning",
https://doi.org/10.1007/BF00992696; Sutton et al. 2000, "Policy gradient methods for reinforcement learning
with function approximation", https://papers.nips.cc/paper/1713; advantages by Schulman et al. 2016,
https://arxiv.org/abs/1506.02438. Laid out as in OpenAI's Spinning Up: for each rollout one step of the policy
on -log pi(a | s) * weight, then `value_updates` steps of the value on half its squared error. The
weight is chosen by `advantage`: the discounted return from that step on, or the generalised advantage.

Deviations from the papers:

1. Rollouts have a fixed length: an episode that is cut by the rollout's end or by its time limit bootstraps
   from the learned value, also where `advantage` is "reward_to_go" (which uses the value for nothing else).
2. Weights are standardised over the rollout (`normalize_advantage`, as in Spinning Up); for "reward_to_go"
   that subtracts a constant baseline.
3. Gradients are clipped by their global norm (`max_grad_norm`).
4. An entropy bonus can be added (`entropy_coef`, after Williams and Peng 1991; 0 by default).
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.groups import grouped
from rl.agents.policy_gradient import PolicyGradient
from rl.hparams.vpg import VPGHParams
from rl.ops import loops, random, returns
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean, standardize
from rl.types import Loss, Tensor, Trajectory, Update


@register
class VPG(PolicyGradient[VPGHParams]):
    """Vanilla policy gradient: discrete, multi-discrete, multi-binary and continuous actions."""

    def build(self) -> None:
        self.network = self.add_network("network", grouped(self, self.make_network, "network"))
        # Two optimizers over all variables: neither's momentum moves what the other's loss leaves out.
        variables, of_value = self.network.trainable_variables, self.network.value_variables
        rest = [each for each in variables if all(each is not other for other in of_value)]
        self.add_optimizer("network", variables, decayed=rest)
        self.add_optimizer("value", variables, self.hparams.value_lr, decayed=of_value)

    def loss(self, batch: Trajectory, seed: Tensor) -> Loss:
        output = self.unroll(batch)
        batch = flatten_time(batch._replace(observation=(), recurrent_state=()))  # [N, ...]
        policy_loss = -output.distribution.log_prob(batch.action) * batch.extras["advantage"]  # [N]
        entropy = output.distribution.entropy()  # [N]
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
        }
        return (policy_loss - self.annealed("entropy_coef") * entropy) * batch.mask, metrics, None

    def value_loss(self, batch: Trajectory, seed: Tensor) -> Loss:
        output = self.unroll(batch)
        batch = flatten_time(batch._replace(observation=(), recurrent_state=()))  # [N, ...]
        value_loss = 0.5 * tf.square(output.value - batch.extras["target"])  # [N]
        return value_loss * batch.mask, {"value_loss": masked_mean(value_loss, batch.mask)}, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes one step of the policy on the whole rollout, then `value_updates` steps of the value."""
        data = self._advantages(batch)
        metrics = self.gradient_step(data, seed).metrics

        def one_value_step(i: Tensor) -> dict[str, Tensor]:
            return self.gradient_step(data, random.fold_in(seed, i), "value", self.value_loss).metrics

        fitted, _ = loops.repeat(self.hparams.value_updates, one_value_step)
        return Update(metrics | {"value_loss": fitted["value_loss"], "updates": tf.constant(1.0)})

    def _advantages(self, trajectory: Trajectory) -> Trajectory:
        """The trajectory with "advantage" and "target" of the value among its extras, [T, B] each."""
        hparams = self.hparams
        ends, values = (trajectory.terminated, trajectory.truncated), self.rollout_values(trajectory)
        target = returns.discounted_return(trajectory.reward, values, *ends, hparams.gamma)  # [T, B]
        advantage = target
        if hparams.advantage == "gae":
            advantage = self.advantages(trajectory, values, hparams.gae_lambda)
        if hparams.normalize_advantage:
            advantage = standardize(advantage, trajectory.mask)
        return trajectory._replace(extras={"advantage": advantage, "target": target})
