"""TRPO: trust region policy optimisation, a natural gradient step within a KL limit.

Schulman et al. 2015, "Trust region policy optimization", https://arxiv.org/abs/1502.05477; advantages by
Schulman et al. 2016, https://arxiv.org/abs/1506.02438. For each rollout the policy makes one step that
raises the surrogate, mean(r A) with r the ratio of the policy to the one that acted, under mean
KL(old || new) <= `max_kl` (equation 14). Its direction x solves F x = g by conjugate gradients: g is the
surrogate's gradient, F the Fisher matrix, the mean KL's second derivative, known by its products with vectors
(appendix C.1). Its length is sqrt(2 max_kl / x^T F x), shortened until the surrogate rises and the KL is
within its limit; if no length that is tried does that, the policy stays as it is. Then the value is fitted,
in `epochs` passes over the rollout.

Deviations from the paper (1 to 4 are those of the implementations that came after it):

1. Advantages are generalised ones and standardised over the rollout (`normalize_advantage`), the value is a
   network fitted by an optimizer; the paper sums rewards along its "single path".
2. `cg_damping` times the identity is added to F.
3. The line search takes no step beyond the KL limit, which is computed over the whole rollout.
4. Products with F are over all of a rollout's steps, not over a part of them.
5. With `model.shared` the value fits its last layer alone: hidden layers are the policy's, which moves only
   within the limit.
6. An entropy bonus can be added to the surrogate (`entropy_coef`, as in A2C; 0 by default).
7. After a run has gone back for NaN the limit falls with the learning rates (`nan_lr_factor`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.groups import grouped
from rl.agents.guard import checked_numerics, current, unfit
from rl.agents.policy_gradient import PolicyGradient, over_minibatches
from rl.hparams.ppo import check_minibatches
from rl.hparams.trpo import TRPOHParams
from rl.ops.distributions import Distribution
from rl.ops.evolution import flatten, unflatten
from rl.ops.natural_gradient import conjugate_gradient, step_to_limit
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean, standardize
from rl.parallel import replicas
from rl.types import Loss, Nest, Tensor, Trajectory, Update


class Steps(NamedTuple):
    """Single steps of a rollout."""

    observation: Nest  # [N, ...]
    action: Nest  # [N, ...]
    log_prob: Tensor  # [N] by the policy that acted
    advantage: Tensor  # [N]
    target: Tensor  # [N] of the value
    mask: Tensor  # [N]


class Searched(NamedTuple):
    """The state of a line search."""

    tries: Tensor  # int32
    fraction: Tensor  # of the whole step, to be tried next
    accepted: Tensor  # bool: the last one tried is taken
    surrogate: Tensor  # after it
    kl: Tensor  # to it


@register
class TRPO(PolicyGradient[TRPOHParams]):
    """Trust region policy optimisation: discrete, multi-discrete, multi-binary and continuous actions."""

    trajectory_extras = ("log_prob", "value")
    recurrent = False  # products with the Fisher matrix would differentiate an unrolled network twice

    def build(self) -> None:
        check_minibatches(self.hparams)
        self.network = self.add_network("network", grouped(self, self.make_network, "network"))
        of_value = self.network.value_variables
        own = {id(each) for each in of_value}
        self.policy_weights = [each for each in self.network.trainable_variables if id(each) not in own]
        self.add_optimizer("value", of_value)

    def loss(self, batch: Steps, seed: Tensor) -> Loss:
        """Returns the value's loss, half the squared error; the policy has no optimizer."""
        value = self.policy(batch.observation, (), seed, training=True).value
        loss = 0.5 * tf.square(value - batch.target) * batch.mask  # [N]
        return loss, {"value_loss": masked_mean(loss, batch.mask)}, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes one step of the policy on the whole rollout, then `epochs` passes of the value over it."""
        hparams = self.hparams
        data = self._steps(batch)
        with checked_numerics(hparams.check_numerics):
            metrics = self.policy_step(data)

        def value_step(part: Steps) -> dict[str, Tensor]:
            return self.gradient_step(part, seed, "value").metrics

        fitted = over_minibatches(value_step, data, hparams.epochs, hparams.minibatches, seed)
        return Update(metrics | {"value_loss": fitted["value_loss"], "updates": tf.constant(1.0)})

    def policy_step(self, data: Steps) -> dict[str, Tensor]:
        """Moves the policy within the limit, or not at all; returns metrics, the same for all learners."""
        limit = self.hparams.max_kl * tf.convert_to_tensor(self.guard.lr_scale)
        start = flatten(self.policy_weights)  # [n]
        old = self._distribution(data)
        with tf.GradientTape() as tape:
            share = self._share(self._gain(data), data)
        (before, gradient), flags = self._summed(share, tape)
        product = self.fisher_product(data, old)
        direction = conjugate_gradient(product, gradient, self.hparams.cg_steps)
        step = step_to_limit(direction, tf.tensordot(direction, product(direction), 1), limit)
        guard = current()
        if guard is not None:
            guard.note_loss("network", {"loss": before}, flags)
            guard.note_gradient("network", [gradient, step], None)
        found = self.line_search(data, old, start, step, before, limit)
        entropies = [self._share(each.entropy(), data) for each in (old, self._distribution(data))]
        entropy_before, entropy = tf.unstack(replicas.total(tf.stack(entropies)))
        return {
            "loss": -before,
            "policy_loss": self.annealed("entropy_coef") * entropy_before - before,
            "entropy": entropy,
            "grad_norm": tf.linalg.norm(gradient),
            "kl": found.kl,
            "accepted": tf.cast(found.accepted, tf.float32),
            "surrogate_gain": found.surrogate - before,
            "line_search_tries": tf.cast(found.tries, tf.float32),
        }

    def fisher_product(self, data: Steps, old: Distribution) -> Callable[[Tensor], Tensor]:
        """Returns the function from a vector [n] to (F + damping) times it, F over all learners' steps.

        old: the present policy's distribution, as constants: F is the second derivative of the divergence
            from it.
        """
        variables = [each.value for each in self.policy_weights]
        shapes = [tuple(each.shape) for each in self.policy_weights]

        def product(vector: Tensor) -> Tensor:
            parts = unflatten(vector, shapes)
            with tf.GradientTape() as outer:
                with tf.GradientTape() as inner:
                    divergence = self._share(old.kl(self._distribution(data)), data)
                slope = inner.gradient(divergence, variables, unconnected_gradients="zero")
                along = tf.add_n([tf.reduce_sum(x * y) for x, y in zip(slope, parts, strict=True)])
            found = outer.gradient(along, variables, unconnected_gradients="zero")
            return replicas.total(flatten(found)) + self.hparams.cg_damping * vector

        return product

    def line_search(
        self, data: Steps, old: Distribution, start: Tensor, step: Tensor, before: Tensor, limit: Tensor
    ) -> Searched:
        """Adds the longest part of `step` [n] to the policy's weights `start` that raises the surrogate above
        `before` and keeps mean KL(old || new) to the limit; none where no part that is tried does."""
        hparams = self.hparams

        def one_try(found: Searched) -> tuple[Searched]:
            self._assign(start + found.fraction * step)
            new = self._distribution(data)
            surrogate, kl = tf.unstack(
                replicas.total(
                    tf.stack([self._share(self._gain(data, new), data), self._share(old.kl(new), data)])
                )
            )
            accepted = tf.logical_and(surrogate > before, kl <= limit)
            shrunk = found.fraction * hparams.line_search_shrink
            return (Searched(found.tries + 1, shrunk, accepted, surrogate, kl),)

        first = Searched(tf.constant(0), tf.constant(1.0), tf.constant(False), before, tf.constant(0.0))
        (searched,) = tf.while_loop(
            lambda found: tf.logical_and(
                found.tries < hparams.line_search_steps, tf.logical_not(found.accepted)
            ),
            one_try,
            (first,),
            maximum_iterations=hparams.line_search_steps,
        )
        found: Searched = searched
        taken = found.accepted
        self._assign(tf.where(taken, flatten(self.policy_weights), start))
        return found._replace(
            surrogate=tf.where(taken, found.surrogate, before), kl=tf.where(taken, found.kl, 0.0)
        )

    def _distribution(self, data: Steps) -> Any:
        return self.output(self.network(data.observation)).distribution

    def _gain(self, data: Steps, distribution: Any = None) -> Tensor:
        """The terms r A whose mean is the surrogate, with the bonus on entropy, [N]."""
        distribution = self._distribution(data) if distribution is None else distribution
        gain = tf.exp(distribution.log_prob(data.action) - data.log_prob) * data.advantage
        return gain + self.annealed("entropy_coef") * distribution.entropy()

    def _share(self, x: Tensor, data: Steps) -> Tensor:
        """Returns this learner's part of the mean of x [N] over what counts of all learners' steps."""
        counted = replicas.total(tf.reduce_sum(data.mask))
        return tf.reduce_sum(x * data.mask) / tf.maximum(counted, 1.0)

    def _summed(self, share: Tensor, tape: tf.GradientTape) -> tuple[tuple[Tensor, Tensor], Tensor]:
        """((the surrogate, its gradient [n]) over all learners, whether it is NaN or infinite for one)."""
        variables = [each.value for each in self.policy_weights]
        gradient = flatten(tape.gradient(share, variables, unconnected_gradients="zero"))
        surrogate, gradient, flags = replicas.totals([share, gradient, unfit({"loss": share})])
        return (surrogate, gradient), flags

    def _assign(self, weights: Tensor) -> None:
        shapes = [tuple(each.shape) for each in self.policy_weights]
        for variable, value in zip(self.policy_weights, unflatten(weights, shapes), strict=True):
            variable.assign(value)

    def _steps(self, trajectory: Trajectory) -> Steps:
        """The trajectory as a flat batch [T * B], with advantages and targets of the value."""
        hparams = self.hparams
        values = self.rollout_values(trajectory)
        advantage = self.advantages(trajectory, values, hparams.gae_lambda)  # [T, B]
        target, mask = advantage + values[:-1], trajectory.mask
        if hparams.normalize_advantage:
            advantage = standardize(advantage, mask)
        observation = without_last(trajectory.observation)
        log_prob = trajectory.extras["log_prob"]
        steps: Steps = flatten_time(Steps(observation, trajectory.action, log_prob, advantage, target, mask))
        return steps
