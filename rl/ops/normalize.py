"""Running statistics in variables: of observations (a layer of the model) and of rewards."""

from __future__ import annotations

import tensorflow as tf

from rl.ops import replicas
from rl.ops.returns import reverse_linear_recurrence
from rl.types import Tensor


def merge_moments(
    mean: Tensor, variance: Tensor, count: Tensor, x: Tensor, weight: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Moments of the union of what was seen and a batch (Chan, Golub and LeVeque 1979, equation 2.1).

    mean, variance [F], count scalar; x [N, F], weight [N] of 0 or 1. Returns the three, updated. Of several
    learners the batch is what all of them have.
    """
    batch_count = replicas.total(tf.reduce_sum(weight))
    safe = tf.maximum(batch_count, 1.0)
    batch_mean = replicas.total(tf.reduce_sum(x * weight[:, None], 0)) / safe
    batch_variance = replicas.total(tf.reduce_sum(tf.square(x - batch_mean) * weight[:, None], 0)) / safe
    total = tf.maximum(count + batch_count, 1.0)
    delta = batch_mean - mean
    squares = variance * count + batch_variance * batch_count + tf.square(delta) * count * batch_count / total
    return mean + delta * batch_count / total, squares / total, count + batch_count


class RewardScale:
    """Divides rewards by the running standard deviation of the discounted return.

    The usual companion of PPO in continuous control (Engstrom et al. 2020, section 3). The mean is not
    subtracted: that would change which behaviour is best.

    Args:
        num_envs: B.
        gamma: discount factor.
        clip: largest absolute value of a scaled reward.
        workers: how many processes send rollouts of B environments each; None: one makes them all.
    """

    def __init__(self, num_envs: int, gamma: float, clip: float = 10.0, workers: int | None = None):
        self.gamma, self.clip, self._workers = gamma, clip, workers
        shape = [num_envs] if workers is None else [workers, num_envs]
        self.discounted_return = tf.Variable(tf.zeros(shape), trainable=False)  # of the running episodes
        self.mean = tf.Variable(tf.zeros([1]), trainable=False)
        self.variance = tf.Variable(tf.ones([1]), trainable=False)
        self.count = tf.Variable(1e-4, trainable=False)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """State by name, for checkpoints; the running episodes of workers are not resumed."""
        names = ["mean", "variance", "count"]
        if self._workers is None:
            names.insert(0, "discounted_return")
        return {f"reward_scale/{name}": getattr(self, name) for name in names}

    def __call__(
        self, reward: Tensor, episode_end: Tensor, mask: Tensor, worker: Tensor | None = None
    ) -> Tensor:
        """Takes in a rollout's rewards and scales them: `observe`, then `scaled`."""
        self.observe(reward, episode_end, mask, worker)
        return self.scaled(reward)

    def observe(
        self, reward: Tensor, episode_end: Tensor, mask: Tensor, worker: Tensor | None = None
    ) -> None:
        """Takes in a rollout's rewards.

        reward, episode_end (bool), mask [T, B]; worker: which one's rollout it is, int32 scalar.
        """
        # The forward recurrence R[t] = r[t] + gamma * R[t-1] * not_ended[t-1] is the reverse one on
        # time-reversed input.
        keep = self.gamma * (1.0 - tf.cast(episode_end, tf.float32))  # [T, B]
        carried = tf.concat([keep[:1] * 0.0 + self.gamma, keep[:-1]], 0)  # [T, B]
        reversed_return = reverse_linear_recurrence(
            tf.reverse(carried, [0]), tf.reverse(reward, [0]), self._running(worker)
        )
        returns = tf.reverse(reversed_return, [0])  # [T, B]
        self._go_on(returns[-1] * (1.0 - tf.cast(episode_end[-1], tf.float32)), worker)
        moments = merge_moments(
            self.mean.value(),
            self.variance.value(),
            self.count.value(),
            tf.reshape(returns, [-1, 1]),
            tf.reshape(mask, [-1]),
        )
        for variable, value in zip((self.mean, self.variance, self.count), moments, strict=True):
            variable.assign(value)

    def cut(self) -> None:
        """Ends the running episodes, for environments that are restarted. Eager, on the host."""
        self.discounted_return.assign(tf.zeros(self.discounted_return.shape))

    def scaled(self, reward: Tensor, steps: int = 1) -> Tensor:
        """Rewards of any shape in units of the present deviation, whenever they were received.

        steps: n, where each is a sum of gamma^k times the k-th of n rewards, which cannot be clipped one by
        one any more: it is clipped at what n clipped rewards can amount to, `clip` (1 + ... + gamma^(n-1)).
        """
        limit = self.clip * sum(self.gamma**k for k in range(steps))
        scale = tf.math.rsqrt(self.variance.value() + 1e-8)
        return tf.clip_by_value(reward * scale, -limit, limit)

    def _running(self, worker: Tensor | None) -> Tensor:
        value = self.discounted_return.value()
        return value if worker is None else tf.gather(value, worker)

    def _go_on(self, value: Tensor, worker: Tensor | None) -> None:
        if worker is None:
            self.discounted_return.assign(value)
        else:
            self.discounted_return.scatter_update(tf.IndexedSlices(value[None], worker[None]))
