"""MAML: model-agnostic meta-learning, weights from which one gradient step solves a task.

Finn et al. 2017, "Model-agnostic meta-learning for fast adaptation of deep networks",
https://arxiv.org/abs/1703.03400, algorithm 3. Each iteration draws tasks i. In each the policy of the weights
theta plays `task_episodes` episodes, of which a policy gradient step makes weights of the task's own,

    theta_i = theta + inner_lr * gradient by theta of the mean of log pi_theta(a | s) * advantage,

`inner_steps` times in all, and these play as many episodes again. Theta then follows the gradient, by theta,
of how good the adapted policies are: through the inner steps, hence of second order, or with `second_order`
off past them, as if theta_i - theta were a constant (first-order MAML, section 5.2). Advantages are
discounted returns less a baseline, linear in features of observation and time, that is fitted to each task's
episodes (Duan et al. 2016, https://arxiv.org/abs/1604.06778), and standardised over them.

In training the policy of each task acts. Evaluations, exports and tests use theta, before it adapts;
`benchmarks/adaptation.py RUN` adapts a trained run to new tasks.

Deviations from the paper:

1. Theta makes `epochs` steps of an optimizer on PPO's clipped surrogate (Schulman et al. 2017) of the adapted
   policies in place of one step of TRPO: the ratio is of theta_i, made anew of the present theta, to the
   theta_i that acted.
2. Only an environment's first episode in each part of the rollout counts. An episode that is longer than the
   part is cut there, and its return is that of the steps until then.
3. Means of continuous actions pass through tanh into the action space's bounds.
"""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple, TypeVar

import keras
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.hparams.maml import MAMLHParams, MetaHParams
from rl.models.policies import PolicyNetwork
from rl.models.population import with_weights
from rl.ops import baseline, distributions, loops, random, returns, trajectories
from rl.ops.distributions import Distribution
from rl.ops.episodes import of_first, part_returns
from rl.ops.nests import flatten_time, swap_time, without_last
from rl.ops.policy import approximate_kl, clipped_surrogate, masked_mean
from rl.types import Loss, Nest, PolicyOutput, Tensor, Trajectory, Update

AnyMeta = TypeVar("AnyMeta", bound=MetaHParams)


class Steps(NamedTuple):
    """M steps of each of P tasks."""

    observation: Nest  # [P, M, ...]
    action: Nest  # [P, M, ...]
    log_prob: Tensor  # [P, M] by the policy that acted
    advantage: Tensor  # [P, M]
    mask: Tensor  # [P, M]


class Trials(NamedTuple):
    """What P tasks were adapted by, and what the adapted policies did."""

    inner: tuple[Steps, ...]  # one for each inner step
    outer: Steps

    @property
    def mask(self) -> Tensor:
        """Which steps the loss is of, [P, M]."""
        return self.outer.mask


@register
class MAML(Agent[AnyMeta]):
    """Model-agnostic meta-learning: discrete, multi-discrete, multi-binary and continuous actions."""

    hparams_type = MAMLHParams
    experience = "rollout"
    action_spaces: ClassVar[tuple[type, ...]] = (
        spaces.Discrete,
        spaces.MultiDiscrete,
        spaces.MultiBinary,
        spaces.Box,
    )
    trajectory_extras: tuple[str, ...] = ("log_prob",)

    def build(self) -> None:
        hparams = self.hparams
        network = PolicyNetwork(hparams, self.encoder, self.action_space, self.initializers)
        if network.log_std is not None:
            network.log_std.assign(tf.fill(network.log_std.shape, hparams.log_std_init))
        self.network = self.add_network("network", network)
        self.add_optimizer("network", network.trainable_variables)
        # What acts in training, [P, *shape] each; in no checkpoint, since every rollout begins with theta.
        self.task_weights = [
            keras.Variable(each, trainable=False, name=f"weight_{i}")
            for i, each in enumerate(self._unadapted())
        ]

    @property
    def tasks(self) -> int:
        """How many are played side by side, P."""
        return self.hparams.num_envs // self.hparams.task_episodes

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        if not training:
            return PolicyOutput(distribution=self.network(observation))
        weights = [tf.convert_to_tensor(each) for each in self.task_weights]
        grouped = tf.nest.map_structure(
            lambda x: tf.reshape(x, [self.tasks, self.hparams.task_episodes, *x.shape[1:]]), observation
        )
        return PolicyOutput(distribution=self.distribution(weights, grouped))

    def distribution(self, weights: list[Tensor], observation: Nest) -> Distribution:
        """Returns the policies of tasks with these weights [P, ...] at observations [P, M, ...], flat: [P *
        M]."""
        found = with_weights(self.network, weights, observation, self.network.numbers)
        return distributions.of_space(self.action_space, *flatten_time(found))

    def resample_noise(self, seed: Tensor) -> None:
        """Lets every task begin with the network's own weights."""
        super().resample_noise(seed)
        self._assign(self._unadapted())

    @property
    def acts_with_noise(self) -> bool:
        return True

    def adapt(self, trajectory: Trajectory) -> None:
        """Does what `rl.agents.contracts.Adapts` says."""
        weights = [tf.convert_to_tensor(each) for each in self.task_weights]
        self._assign(self.inner_step(weights, self.steps(trajectory)))

    def inner_step(self, weights: list[Tensor], steps: Steps) -> list[Tensor]:
        """Returns weights [P, *shape] after one step along the policy gradient of each task, by its steps
        alone."""
        with tf.GradientTape() as tape:
            tape.watch(weights)
            distribution = self.distribution(weights, steps.observation)
            log_prob = tf.reshape(distribution.log_prob(flatten_time(steps.action)), steps.mask.shape)
            counted = tf.maximum(tf.reduce_sum(steps.mask, 1), 1.0)
            gain = tf.reduce_sum(log_prob * steps.advantage * steps.mask, 1) / counted  # [P]
        gradients = tape.gradient(gain, weights, unconnected_gradients=tf.UnconnectedGradients.ZERO)
        gradients = [tf.convert_to_tensor(each) for each in gradients]  # of one task alone they are slices
        if not self.hparams.second_order:
            gradients = [tf.stop_gradient(each) for each in gradients]
        return [each + self.hparams.inner_lr * slope for each, slope in zip(weights, gradients, strict=True)]

    def loss(self, batch: Trials, seed: Tensor) -> Loss:
        hparams, outer = self.hparams, batch.outer
        weights = self._unadapted(outer.mask.shape[0])
        for steps in batch.inner:
            weights = self.inner_step(weights, steps)
        distribution = self.distribution(weights, outer.observation)
        action, old, advantage, mask = flatten_time(
            (outer.action, outer.log_prob, outer.advantage, outer.mask)
        )
        log_ratio = distribution.log_prob(action) - old  # [P * M]
        ratio, entropy = tf.exp(log_ratio), distribution.entropy()
        policy_loss = clipped_surrogate(ratio, advantage, hparams.clip_range)
        clipped = tf.cast(tf.abs(ratio - 1.0) > hparams.clip_range, tf.float32)
        metrics = {
            "policy_loss": masked_mean(policy_loss, mask),
            "entropy": masked_mean(entropy, mask),
            "approximate_kl": masked_mean(approximate_kl(log_ratio), mask),
            "clip_fraction": masked_mean(clipped, mask),
        }
        return (policy_loss - hparams.entropy_coef * entropy) * mask, metrics, None

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes `epochs` steps on the whole rollout."""
        count = self.hparams.inner_steps + 1
        parts = trajectories.side_by_side(batch, count)  # [T / count, count * B]
        *inner, outer = _split(self.steps(parts), count)
        trials = Trials(tuple(inner), outer)
        metrics, made = self.meta_steps(trials, seed)
        played = part_returns(batch, count)  # [count, B]
        of_parts = {"return_before": tf.reduce_mean(played[0]), "return_after": tf.reduce_mean(played[-1])}
        return Update(metrics | of_parts | {"updates": made})

    def meta_steps(self, trials: Trials, seed: Tensor) -> tuple[dict[str, Any], Tensor]:
        """Makes the meta-update's steps on the played trials; returns (metrics, number of steps)."""
        return loops.repeat(
            self.hparams.epochs, lambda i: self.gradient_step(trials, random.fold_in(seed, i)).metrics
        )

    def steps(self, trajectory: Trajectory) -> Steps:
        """Returns one part of a rollout [T, B] by tasks, with advantages."""
        ended = tf.logical_or(trajectory.terminated, trajectory.truncated)
        mask = trajectory.mask * of_first(ended)  # [T, B]
        ends = trajectory.terminated, trajectory.truncated
        none = tf.zeros([mask.shape[0] + 1, mask.shape[1]])
        outcome = returns.discounted_return(trajectory.reward * mask, none, *ends, self.hparams.gamma)
        seen = without_last(trajectory.observation)
        data = seen, trajectory.action, trajectory.extras["log_prob"], outcome, mask
        seen, action, log_prob, outcome, mask = tf.nest.map_structure(self._by_task, data)
        x = tf.cast(self.encoder(flatten_time(seen)), tf.float32)
        x = tf.reshape(x, [*mask.shape, x.shape[-1]])  # [P, M, F]
        length = trajectory.mask.shape[0]
        time = tf.broadcast_to(tf.range(float(length))[:, None] / length, trajectory.mask.shape)
        expected = baseline.fitted(baseline.features(x, self._by_task(time)), outcome, mask)
        return Steps(seen, action, log_prob, _standardized(outcome - expected, mask), mask)

    def _by_task(self, x: Tensor) -> Tensor:
        """[T, B, ...] as [P, T * task_episodes, ...]."""
        length, episodes = x.shape[0], self.hparams.task_episodes
        x = tf.reshape(x, [length, -1, episodes, *x.shape[2:]])
        x = swap_time(x)
        return tf.reshape(x, [x.shape[0], length * episodes, *x.shape[3:]])

    def _unadapted(self, tasks: int | None = None) -> list[Tensor]:
        """The network's own weights for each task, [P, *shape]."""
        tasks = self.tasks if tasks is None else tasks
        variables = self.network.trainable_variables
        return [tf.repeat(tf.convert_to_tensor(each)[None], tasks, 0) for each in variables]

    def _assign(self, weights: list[Tensor]) -> None:
        for variable, value in zip(self.task_weights, weights, strict=True):
            variable.assign(value)

    @property
    def acting_variables(self) -> dict[str, object]:
        return super().acting_variables | {f"tasks/weight_{i}": x for i, x in enumerate(self.task_weights)}


def _split(nest: Nest, count: int) -> list[Nest]:
    """`count` equal parts of the first axis of every tensor."""
    columns = [tf.split(x, count) for x in tf.nest.flatten(nest)]
    return [tf.nest.pack_sequence_as(nest, list(row)) for row in zip(*columns, strict=True)]


def _standardized(x: Tensor, mask: Tensor) -> Tensor:
    """x [P, M] with mean 0 and deviation 1 over what counts of each task."""
    count = tf.maximum(tf.reduce_sum(mask, 1, keepdims=True), 1.0)
    x = (x - tf.reduce_sum(x * mask, 1, keepdims=True) / count) * mask
    deviation = tf.sqrt(tf.reduce_sum(tf.square(x), 1, keepdims=True) / count)
    return x / (deviation + 1e-8)
