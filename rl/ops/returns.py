"""Returns and advantages along a trajectory, time-major, correct at every kind of episode end.

All functions follow the contract of `rl.types.Trajectory`: reward[t] and the flags [t] belong to the
step from observation[t] to observation[t+1], and observation[t+1] is that step's true successor even
where the episode ended. `terminated` cuts the bootstrap; `truncated` only cuts the trace.
"""

from __future__ import annotations

import tensorflow as tf

from rl.types import Tensor


def reverse_linear_recurrence(decay: Tensor, increment: Tensor, last: Tensor) -> Tensor:
    """Computes x[t] = increment[t] + decay[t] * x[t+1] from t = T-1 down, with x[T] = last.

    decay, increment [T, B]; last [B]. Returns x [T, B].
    """
    length = increment.shape[0]
    buffer = tf.TensorArray(tf.float32, length, element_shape=increment.shape[1:])

    def body(i: Tensor, x: Tensor, buffer: tf.TensorArray) -> tuple:
        t = length - 1 - i
        x = tf.gather(increment, t) + tf.gather(decay, t) * x  # [B]
        return i + 1, x, buffer.write(t, x)

    state = (tf.constant(0), last, buffer)
    _, _, buffer = tf.while_loop(lambda i, *_: i < length, body, state, maximum_iterations=length)
    return buffer.stack()  # [T, B]


def generalized_advantage(
    reward: Tensor,
    value: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Computes the generalized advantage of every step of a rollout (Schulman et al. 2016, equation 16).

    reward, terminated, truncated [T, B]; value [T+1, B], value[t] of observation[t].
    Returns the advantage [T, B]; meaningless where the step was an autoreset (mask 0).
    """
    alive = 1.0 - tf.cast(terminated, tf.float32)  # [T, B]
    unbroken = alive * (1.0 - tf.cast(truncated, tf.float32))  # [T, B]
    delta = reward + gamma * alive * value[1:] - value[:-1]  # [T, B]
    return reverse_linear_recurrence(gamma * gae_lambda * unbroken, delta, tf.zeros_like(reward[0]))


def discounted_return(
    reward: Tensor, value: Tensor, terminated: Tensor, truncated: Tensor, gamma: float
) -> Tensor:
    """Computes the discounted sum of rewards from every step to its episode's end, bootstrapped where it was
    cut.

    Shapes as in `generalized_advantage`, of which this is `lambda = 1` plus the value (Sutton and
    Barto 2018, equation 3.9). Returns [T, B].
    """
    terminated_f, truncated_f = tf.cast(terminated, tf.float32), tf.cast(truncated, tf.float32)
    cut = gamma * (1.0 - terminated_f) * truncated_f * value[1:]  # [T, B]
    return reverse_linear_recurrence(
        gamma * (1.0 - terminated_f) * (1.0 - truncated_f), reward + cut, value[-1]
    )


def lambda_return(reward: Tensor, discount: Tensor, value: Tensor, trace: float | Tensor) -> Tensor:
    """Computes the TD(lambda) return of every step (Sutton and Barto 2018, equation 12.20): R[t] = reward[t]
    + discount[t] ((1 - trace) value[t+1] + trace R[t+1]), with R[T] = value[T].

    reward, discount [T, B]: of the step from t to t+1, the discount 0 where nothing follows; value [T+1, B];
    trace: lambda, of all steps or [T, B]. Returns [T, B].
    """
    increment = reward + discount * (1.0 - trace) * value[1:]
    return reverse_linear_recurrence(discount * trace, increment, value[-1])
