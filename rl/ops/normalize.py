"""Running statistics in variables: of observations (a layer of the model) and of rewards."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from rl.ops import loops
from rl.ops.returns import reverse_linear_recurrence
from rl.parallel import replicas
from rl.types import Batch, SequenceBatch, Tensor


class Moments(NamedTuple):
    """Mean and variance of all rows [F] that were seen, as tensors or as the variables that hold them.

    After 2^24 rows, the contribution of one row is below float32's precision: `mean_rest` and `variance_rest`
    hold the rounding errors. A float32 count would stop there too, so the count is int64.
    """

    mean: Any  # [F]
    variance: Any  # [F]
    count: Any  # int64 scalar
    mean_rest: Any  # [F]
    variance_rest: Any  # [F]


def no_moments(size: int) -> Moments:
    """Returns the moments of no rows of `size` numbers: mean 0 and variance 1, [size] each."""
    zeros = tf.zeros([size])
    return Moments(zeros, tf.ones([size]), tf.constant(0, tf.int64), zeros, zeros)


def merge_moments(moments: Moments, x: Tensor, weight: Tensor) -> Moments:
    """Updates moments with a batch (Chan, Golub and LeVeque 1979, equation 2.1).

    x [N, F], weight [N] of 0 or 1. With several learners, the batch is that of all of them together.
    """
    batch_count = replicas.total(tf.reduce_sum(weight))
    safe = tf.maximum(batch_count, 1.0)
    batch_mean = replicas.total(tf.reduce_sum(x * weight[:, None], 0)) / safe
    batch_variance = replicas.total(tf.reduce_sum(tf.square(x - batch_mean) * weight[:, None], 0)) / safe
    count = moments.count + tf.cast(tf.round(batch_count), tf.int64)
    share = batch_count / tf.maximum(tf.cast(count, tf.float32), 1.0)  # of the batch in all
    first = tf.logical_and(tf.equal(moments.count, 0), batch_count > 0.0)
    variance = tf.where(first, 0.0, moments.variance)
    delta = batch_mean - moments.mean
    change = share * (batch_variance - variance + tf.square(delta) * (1.0 - share))
    mean, mean_rest = _exact_sum(moments.mean, moments.mean_rest + delta * share)
    variance, variance_rest = _exact_sum(variance, moments.variance_rest + change)
    return Moments(mean, variance, count, mean_rest, variance_rest)


def _exact_sum(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """a + b as float32 holds it, and what that lacks (Knuth, The Art of Computer Programming, 4.2.2)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def assign_moments(variables: Moments, values: Moments) -> None:
    """Assigns the values to the variables, unless one is NaN or infinite: then the new batch is ignored."""
    before = [(variable, tf.convert_to_tensor(variable)) for variable in variables]
    for variable, value in zip(variables, values, strict=True):
        variable.assign(value)
    finite = tf.math.is_finite(values.mean) & tf.math.is_finite(values.variance)
    loops.put_back(tf.logical_not(tf.reduce_all(finite)), before)


def observe_moments(variables: Moments, x: Tensor, weight: Tensor) -> None:
    """Takes rows x [N, F] into the variables of moments; weight [N] of 0 or 1."""
    before = Moments(*(tf.convert_to_tensor(each) for each in variables))
    assign_moments(variables, merge_moments(before, x, weight))


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
        self.moments = Moments(*(tf.Variable(each, trainable=False) for each in no_moments(1)))

    @classmethod
    def of(cls, hparams: Any, workers: int | None) -> RewardScale | None:
        """Makes the reward scale of a run; None without `normalize_reward`."""
        if not hparams.normalize_reward:
            return None
        return cls(hparams.num_envs, hparams.gamma, workers=workers)

    @property
    def variables(self) -> dict[str, tf.Variable]:
        """State by name, for checkpoints; the running episodes of workers are not resumed."""
        found = {} if self._workers is not None else {"discounted_return": self.discounted_return}
        return {f"reward_scale/{name}": each for name, each in (found | self.moments._asdict()).items()}

    def observe(
        self, reward: Tensor, episode_end: Tensor, mask: Tensor, worker: Tensor | None = None
    ) -> None:
        """Updates the statistics with a rollout's rewards.

        reward, episode_end (bool), mask [T, B]; worker: the number of the rollout's worker, int32 scalar.
        Rewards with mask 0 are ignored: an agent that has left may still receive its team's reward.
        """
        # The forward recurrence R[t] = r[t] + gamma * R[t-1] * not_ended[t-1] is the reverse one on
        # time-reversed input.
        reward = tf.where(mask > 0.0, reward, 0.0)
        keep = self.gamma * (1.0 - tf.cast(episode_end, tf.float32))  # [T, B]
        carried = tf.concat([keep[:1] * 0.0 + self.gamma, keep[:-1]], 0)  # [T, B]
        reversed_return = reverse_linear_recurrence(
            tf.reverse(carried, [0]), tf.reverse(reward, [0]), self._running(worker)
        )
        returns = tf.reverse(reversed_return, [0])  # [T, B]
        running = returns[-1] * (1.0 - tf.cast(episode_end[-1], tf.float32))
        self._go_on(tf.where(tf.math.is_finite(running), running, 0.0), worker)
        observe_moments(self.moments, tf.reshape(returns, [-1, 1]), tf.reshape(mask, [-1]))

    def cut(self) -> None:
        """Ends the running episodes, for environments that are restarted. Eager, on the host."""
        self.discounted_return.assign(tf.zeros(self.discounted_return.shape))

    def scaled(self, reward: Tensor, steps: int = 1) -> Tensor:
        """Returns rewards of any shape in units of the return's present deviation, whenever they were
        received, clipped to [-clip, clip].

        steps: n, if each reward is an n-step sum of gamma^k times the k-th reward. Its terms can no longer be
        clipped one by one, so the sum is clipped at the largest sum of n clipped rewards, `clip` (1 + ... +
        gamma^(n-1)).
        """
        limit = self.clip * sum(self.gamma**k for k in range(steps))
        scale = tf.math.rsqrt(self.moments.variance.value() + 1e-8)
        return tf.clip_by_value(reward * scale, -limit, limit)

    def _running(self, worker: Tensor | None) -> Tensor:
        value = self.discounted_return.value()
        return value if worker is None else tf.gather(value, worker)

    def _go_on(self, value: Tensor, worker: Tensor | None) -> None:
        if worker is None:
            self.discounted_return.assign(value)
        else:
            self.discounted_return.scatter_update(tf.IndexedSlices(value[None], worker[None]))


def scaled_rewards(scale: RewardScale | None, batch: Any, hparams: Any) -> Any:
    """Returns a `Trajectory`, `Batch` (of rewards of `hparams.n_step` steps) or `SequenceBatch` with its
    rewards in units of the return's present deviation (`RewardScale.scaled`); as it is where `scale` is
    None."""
    if scale is None:
        return batch
    if isinstance(batch, SequenceBatch):
        return batch._replace(trajectory=scaled_rewards(scale, batch.trajectory, hparams))
    steps = hparams.n_step if isinstance(batch, Batch) else 1
    return batch._replace(reward=scale.scaled(batch.reward, steps))
