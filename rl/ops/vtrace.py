"""V-trace: off-policy corrected returns and advantages along a trajectory.

Espeholt et al. 2018, "IMPALA: Scalable distributed deep-RL with importance weighted actor-learner
architectures", https://arxiv.org/abs/1802.01561. Episode ends as in `rl.ops.returns`: `terminated` cuts the
bootstrap, `truncated` only cuts the trace.
"""

from __future__ import annotations

from typing import NamedTuple

import tensorflow as tf

from rl.ops.returns import reverse_linear_recurrence
from rl.types import Tensor


class VTrace(NamedTuple):
    """V-trace's targets and advantages for a rollout."""

    target: Tensor  # [T, B] v_s, the target of the value (equation 1)
    advantage: Tensor  # [T, B] of the policy gradient, its ratio included (section 4.2)


def vtrace(
    log_ratio: Tensor,
    reward: Tensor,
    value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    trace_lambda: float = 1.0,
    rho_clip: float = 1.0,
    trace_clip: float = 1.0,
    advantage_rho_clip: float = 1.0,
) -> VTrace:
    """Computes V-trace's value targets and policy-gradient advantages; neither lets a gradient through.

    With log_ratio = 0 and clips of at least 1, the targets are the lambda-returns of the acting policy (for
    lambda = 1 the n-step returns, `discounted_return`), the advantages `generalized_advantage`.

    Args:
        log_ratio: [T, B] of the action: log_prob of the policy to be evaluated, less that of the acting
            policy.
        reward, terminated, truncated: [T, B].
        value: [T+1, B], value[t] of observation[t].
        gamma: the discount.
        trace_lambda: lambda in c_i = lambda min(c_clip, ratio_i) (remark 2).
        rho_clip: rho-bar, the largest ratio in the TD errors; determines which policy is evaluated.
        trace_clip: c-bar, the largest ratio in the trace; determines how fast the values converge.
        advantage_rho_clip: the largest ratio of the policy gradient.

    Returns:
        Both [T, B]; meaningless where the step was an autoreset (mask 0).
    """
    value, ratio = tf.stop_gradient(value), tf.exp(tf.stop_gradient(log_ratio))
    discount = gamma * (1.0 - tf.cast(terminated, tf.float32))  # [T, B] of the bootstrap
    unbroken = discount * (1.0 - tf.cast(truncated, tf.float32))  # [T, B] of the trace
    difference = tf.minimum(rho_clip, ratio) * (reward + discount * value[1:] - value[:-1])  # [T, B]
    trace = trace_lambda * tf.minimum(trace_clip, ratio)  # [T, B] c
    correction = reverse_linear_recurrence(unbroken * trace, difference, tf.zeros_like(reward[0]))  # v_s - V
    # Beyond a truncation lies another episode: there the value bootstraps as it is, uncorrected.
    following = tf.concat([correction[1:], tf.zeros_like(correction[:1])], 0)  # [T, B]
    outcome = reward + discount * value[1:] + unbroken * trace_lambda * following  # [T, B]
    advantage = tf.minimum(advantage_rho_clip, ratio) * (outcome - value[:-1])
    return VTrace(value[:-1] + correction, advantage)
