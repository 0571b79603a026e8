"""IMPALA: actor-critic whose learner corrects for the lag of the policy that acted (V-trace).

Espeholt et al. 2018, "IMPALA: Scalable distributed deep-RL with importance weighted actor-learner
architectures", https://arxiv.org/abs/1802.01561. With the ratio pi / mu of the policy to the one that acted,
the value's targets (`rl/ops/vtrace.py`) are

    v_s = V(s) + sum_t gamma^(t-s) (c_s ... c_(t-1)) rho_t (r_t + gamma V(s_(t+1)) - V(s_t)),
    rho = min(rho_clip, pi / mu),    c = trace_lambda * min(trace_clip, pi / mu)

and log pi is weighed by min(advantage_rho_clip, pi / mu) (r + gamma v_(s+1) - V(s)).

Deviations from the paper:

1. Actors and learner alternate, so that the lag is of the updates within an iteration: `epochs` passes over a
   rollout in `minibatches` groups of environments, each update with V-trace anew.
2. `trace_lambda` (the paper's remark 2) weighs the trace; 1 is the algorithm of the experiments.
3. Gradients are clipped by their global norm (`max_grad_norm`).
4. Adam by default, not the paper's RMSProp (`optimizer=rmsprop`).
5. The loss is the mean over a rollout's steps; the paper sums over them, which is another learning rate.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.policy_gradient import VTraceAgent
from rl.hparams.impala import IMPALAHParams
from rl.ops.nests import flatten_time
from rl.ops.policy import bounded_ratio, masked_mean
from rl.types import Loss, Tensor, Trajectory


@register
class IMPALA(VTraceAgent[IMPALAHParams]):
    """Actor-critic with V-trace: discrete, multi-discrete, multi-binary and continuous actions."""

    def loss(self, batch: Trajectory, seed: Tensor) -> Loss:
        hparams = self.hparams
        output = self.unroll_whole(self.network, batch)
        found = (output.distribution.log_prob(flatten_time(batch.action)), output.distribution.entropy())
        log_prob, entropy = (tf.reshape(x, batch.mask.shape) for x in found)  # [T, B]
        log_ratio = log_prob - batch.extras["log_prob"]  # [T, B]
        target, advantage = self.vtrace(batch, log_ratio, output.value)
        policy_loss = -log_prob * advantage
        value_loss = 0.5 * tf.square(output.value[:-1] - target)
        loss = policy_loss + hparams.value_coef * value_loss - self.annealed("entropy_coef") * entropy
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
            "importance_ratio": masked_mean(bounded_ratio(log_ratio), batch.mask),
        }
        return loss * batch.mask, metrics, None
