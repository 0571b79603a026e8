"""Targets and priorities along sequences, time-major. Pure functions, conventions of `rl.types.Trajectory`.

reward[t], terminated[t], truncated[t] belong to the step from observation[t] to observation[t+1]; `value[t]`
belongs to observation[t]. `terminated` cuts the bootstrap; `truncated` only cuts the trace, and so does the
end of the sequence. Results for a masked step (an autoreset) are meaningless.
"""

from __future__ import annotations

from collections.abc import Callable

import tensorflow as tf

from rl.ops.returns import reverse_linear_recurrence
from rl.types import Nest, Tensor, Trajectory


def observed(trajectory: Trajectory, agents: int = 1) -> Tensor:
    """Returns which observations of sequences [L, N] are real, float32 [L+1, N]: 0 for the padding of a
    sequence of stored data after the end of its episode, and for agents that have left.

    agents: rows of an environment. With several, an agent that has left makes steps of mask 0 until all have:
    then only observations before or after a step of mask 1 are real.
    """
    if agents > 1:
        none = tf.zeros_like(trajectory.mask[:1])
        return tf.maximum(tf.concat([trajectory.mask, none], 0), tf.concat([none, trajectory.mask], 0))
    filling = (1.0 - trajectory.mask) * tf.cast(trajectory.terminated, tf.float32)
    return tf.concat([tf.ones_like(filling[:1]), 1.0 - filling], 0)


def goes_on(trajectory: Trajectory, agents: int = 1) -> Tensor:
    """Returns whether an episode continues after the end of sequences [L, N], float32 [N]: not after a
    terminal observation, nor, with several `agents`, after a last step of mask 0, since the agent may have
    left."""
    last = 1.0 - tf.cast(trajectory.terminated[-1], tf.float32)
    return last * trajectory.mask[-1] if agents > 1 else last


def after_burn_in(
    trajectory: Trajectory, burn_in: int, unroll: Callable[[Nest, Nest, Tensor], Nest]
) -> tuple[Nest, Nest, Tensor]:
    """Brings a recurrent network's state up to date by the first steps of sequences, without gradient (R2D2,
    section 3).

    Args:
        trajectory: L = burn_in + U steps, [L, N].
        burn_in: steps, 0: none.
        unroll: (observation [burn_in, N, ...], state [N, ...], mask [burn_in, N]) to the state after them.

    Returns:
        The observations after the burn-in [U+1, N, ...], the state before them, and their mask [U+1, N], 1 at
        the last one.
    """
    state = trajectory.recurrent_state
    mask = tf.concat([trajectory.mask, tf.ones_like(trajectory.mask[:1])], 0)  # [L+1, N]
    if burn_in and tf.nest.flatten(state):
        before = tf.nest.map_structure(lambda x: x[:burn_in], trajectory.observation)
        state = tf.nest.map_structure(tf.stop_gradient, unroll(before, state, mask[:burn_in]))
    return tf.nest.map_structure(lambda x: x[burn_in:], trajectory.observation), state, mask[burn_in:]


def rescale_value(x: Tensor, epsilon: float = 1e-3) -> Tensor:
    """Computes h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x: large returns squeezed, small ones kept.

    Pohlen et al. 2018, https://arxiv.org/abs/1805.11593, proposition A.2; R2D2, section 2.3. Elementwise.
    """
    return x / (tf.sqrt(tf.abs(x) + 1.0) + 1.0) + epsilon * x  # the same without the cancellation near 0


def unscale_value(x: Tensor, epsilon: float = 1e-3) -> Tensor:
    """Returns the inverse of `rescale_value`, for epsilon >= 0 (Pohlen et al. 2018, proposition A.2).
    Elementwise.

    With y = sqrt(|h^-1(x)| + 1) - 1, |x| = y + epsilon (y^2 + 2 y). Solved for y by the form of the quadratic
    formula that loses no digits: as the paper writes it, float32 is off by 1e-4 near 0.
    """
    size, linear = tf.abs(x), 1.0 + 2.0 * epsilon
    root = 2.0 * size / (linear + tf.sqrt(linear * linear + 4.0 * epsilon * size))
    return tf.sign(x) * root * (root + 2.0)


def n_step_target(
    reward: Tensor, value: Tensor, terminated: Tensor, truncated: Tensor, gamma: float, n_step: int
) -> Tensor:
    """Computes the n-step return of every step of a sequence (Sutton and Barto 2018, equation 7.1).

    Steps with fewer than n successors, before a truncation or the sequence's end, have as many rewards as
    there are.

    Args:
        reward, terminated, truncated: [T, N].
        value: [T+1, N].
        gamma: discount factor of one step.
        n_step: n, at least 1.

    Returns:
        [T, N].
    """
    discount = gamma * (1.0 - tf.cast(terminated, tf.float32))  # [T, N]
    target = value[:-1]
    for _ in range(min(n_step, reward.shape[0])):
        later = tf.concat([target[1:], value[-1:]], 0)  # [T, N] the next step's, one reward shorter
        target = reward + discount * tf.where(truncated, value[1:], later)
    return target


def retrace_target(
    reward: Tensor,
    value: Tensor,
    chosen: Tensor,
    trace: Tensor,
    terminated: Tensor,
    truncated: Tensor,
    gamma: float,
) -> Tensor:
    """Returns Retrace's target Q + delta Q for the action value of every step.

    Munos et al. 2016, https://arxiv.org/abs/1606.02647, equation 4: delta Q[t] is the sum over s >= t of
    gamma^(s - t) c[t+1] ... c[s] (reward[s] + gamma value[s+1] - chosen[s]).

    Args:
        reward, terminated, truncated: [T, N].
        value: [T+1, N], the mean of Q(x, .) under the target policy.
        chosen: [T, N], Q(x, a) of the action taken.
        trace: [T, N], the coefficient c = lambda min(1, pi(a | x) / mu(a | x)) of the action taken; the first
            is not used. For a greedy target policy: lambda where the action is greedy, else 0.
        gamma: discount factor of one step.

    Returns:
        [T, N].
    """
    discount = gamma * (1.0 - tf.cast(terminated, tf.float32))  # [T, N]
    error = reward + discount * value[1:] - chosen  # [T, N]
    following = tf.concat([trace[1:], tf.zeros_like(trace[:1])], 0)  # [T, N] c of the next step
    decay = tf.where(truncated, 0.0, discount * following)
    return chosen + reverse_linear_recurrence(decay, error, tf.zeros_like(reward[0]))


def sequence_priority(error: Tensor, mask: Tensor, eta: float) -> Tensor:
    """Computes eta max_t |error[t]| + (1 - eta) mean_t |error[t]| over the steps that count (R2D2, section
    2.3).

    error, mask [T, N]. Returns [N]; 0 where no step counts.
    """
    size = tf.abs(error) * mask  # [T, N]
    mean = tf.reduce_sum(size, 0) / tf.maximum(tf.reduce_sum(mask, 0), 1.0)
    return eta * tf.reduce_max(size, 0) + (1.0 - eta) * mean
