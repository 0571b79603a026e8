"""Neural-linear Thompson sampling: linear Thompson sampling on the last hidden layer of a network.

Riquelme et al. 2018, "Deep Bayesian bandits showdown", https://arxiv.org/abs/1802.09127, section 3
("Neural Linear"): a network is trained on the squared errors of the chosen arms' rewards. Its last hidden
layer's output for a context are the features of a Bayesian linear regression for each arm, from whose
posterior parameters are drawn. After every rollout, layers and posterior are recomputed from all stored
steps.

Deviations from the paper:

1. The noise of rewards is not inferred: parameters are drawn from N(A^-1 b, v^2 A^-1), with v a
   hyperparameter, `posterior_scale`, as linear Thompson sampling does (`rl/agents/algos/linear_thompson.py`).
2. The posterior is always computed with the present layers; between these computations the paper's code adds
   to a posterior of older layers.
3. Only the last `replay_capacity` steps are learned from.
4. Features have a constant 1 beside the layer.
5. Evaluations choose by x^T A^-1 b alone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.linear_bandit import LinearBandit
from rl.errors import UsageError
from rl.hparams.neural_linear import NeuralLinearHParams
from rl.models.posterior import NeuralPosterior
from rl.ops import linear_bandit, loops, random
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean
from rl.ops.trajectories import take
from rl.parallel import replicas
from rl.types import Loss, Nest, Tensor, Trajectory, Update


class Observed(NamedTuple):
    """Steps, each a choice and what it paid."""

    x: Tensor  # [N, F] encoded observation
    arm: Tensor  # [N] int32
    reward: Tensor  # [N]
    mask: Tensor  # [N] 0: an autoreset step, or none


@register
class NeuralLinear(LinearBandit[NeuralLinearHParams]):
    """Thompson sampling of rewards linear in learned features: contextual bandits with discrete actions."""

    def build(self) -> None:
        hparams, arms = self.hparams, int(self.action_space.n)
        learners = replicas.count()
        if hparams.batch_size % learners:
            raise UsageError(f"{learners} learners cannot share batch_size={hparams.batch_size}")
        hparams.check_rollout(learners)  # each of them keeps the rollouts of all
        self.network = NeuralPosterior(
            hparams, self.encoder, arms, hparams.prior_precision, self.initializers
        )
        self.add_network("network", self.network)
        self.add_optimizer("network", self.network.trainable_variables)
        size = hparams.replay_capacity
        numbers, nothing = tf.zeros([size, self.encoder.size]), tf.zeros([size])
        rows = Observed(numbers, tf.zeros([size], tf.int32), nothing, nothing)
        self.table = Observed(*(tf.Variable(each, trainable=False) for each in rows))
        self.count = tf.Variable(0, dtype=tf.int64, trainable=False)  # steps ever observed

    @property
    def variables(self) -> dict[str, Any]:
        own = {f"observed/{name}": each for name, each in self.table._asdict().items()}
        return super().variables | own | {"observed/count": self.count}

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    def valued(self, expected: Tensor, deviation: Tensor, seed: Tensor) -> Tensor:
        return expected + self.hparams.posterior_scale * deviation * random.normal(seed, expected.shape)

    def loss(self, batch: Observed, seed: Tensor) -> Loss:
        """Returns the squared error of the rewards that the network expects of the chosen arms."""
        error = tf.gather(self.network.fitted(batch.x), batch.arm, batch_dims=1) - batch.reward
        loss = tf.square(error) * batch.mask  # [N]
        return loss, {"loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Keeps the rollout, trains the layers on what is kept, and makes the posterior of it anew."""
        new = self._observed(batch)
        before, deviation = (
            tf.gather(y, new.arm, batch_dims=1) for y in self.network(self.network.features(new.x))
        )
        filled = self._keep(new)

        def one_update(i: Tensor) -> dict[str, Tensor]:
            count = self.hparams.batch_size // replicas.count()
            place = random.randint(random.rows(random.fold_in(seed, i)), [count], filled)
            return self.gradient_step(take(self._kept(), place), seed).metrics

        metrics, made = loops.repeat(self.updates_per_iteration(), one_update)
        self._renew()
        self.note_posterior()
        found = {"error": tf.abs(new.reward - before), "deviation": deviation, "reward": new.reward}
        more = {name: masked_mean(each, new.mask) for name, each in found.items()}
        return Update(metrics | more | {"updates": made})

    def _observed(self, trajectory: Trajectory) -> Observed:
        """The steps of all learners' rollouts, environment by environment."""
        length, count = trajectory.reward.shape
        x = tf.cast(self.encoder(flatten_time(without_last(trajectory.observation))), tf.float32)
        action = tf.cast(trajectory.action, tf.float32)  # numbers of arms, which float32 holds

        def rows(y: Tensor) -> Tensor:
            by_env = tf.reshape(y, [length, count, -1])  # [T, B, F]
            every = replicas.gathered(tf.transpose(by_env, [1, 0, 2]))
            return tf.reshape(every, [-1, every.shape[-1]])

        arm, reward, mask = (rows(y)[:, 0] for y in (action, trajectory.reward, trajectory.mask))
        return Observed(rows(x), tf.cast(arm, tf.int32), reward, mask)

    def _keep(self, new: Observed) -> Tensor:
        """Writes steps over the oldest; returns how many are kept, int32 scalar."""
        size, added = self.hparams.replay_capacity, new.mask.shape[0]
        start = tf.cast(self.count % size, tf.int32)
        place = ((start + tf.range(added)) % size)[:, None]
        for variable, value in zip(self.table, new, strict=True):
            variable.assign(tf.tensor_scatter_nd_update(variable, place, value))
        self.count.assign_add(added)
        return tf.cast(tf.minimum(self.count.value(), size), tf.int32)

    def _kept(self) -> Observed:
        return Observed(*map(tf.convert_to_tensor, self.table))

    def _renew(self) -> None:
        """Makes the posterior of all that is kept, by the layers as they are."""
        kept, arms, network = self._kept(), int(self.action_space.n), self.network
        x = network.features(kept.x)
        precision, b = linear_bandit.observed(x, kept.arm, kept.reward, kept.mask, arms)
        network.renew(precision + self.hparams.prior_precision * tf.eye(x.shape[-1]), b)

    def _features(self, observation: Nest) -> Tensor:
        return self.network.features(self.encoder(observation))
