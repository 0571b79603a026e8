"""APPO: PPO's clipped surrogate on V-trace advantages, against a policy that lags behind the learner's.

Luo et al. 2020, "IMPACT: Importance weighted asynchronous architectures with clipped target networks",
https://arxiv.org/abs/1912.00167, in the form that RLlib ships as APPO (appo_torch_learner.py). Between the
policy that acted and the current one stands the target policy, a copy that is renewed every
`target_update_period` updates: V-trace evaluates it, and the surrogate's ratio is that of the current policy
to it.

Deviations from the paper:

1. Actors and learner alternate: `epochs` passes over a rollout in `minibatches` groups of environments stand
   for the paper's circular buffer.
2. As in RLlib, the ratio is min(behaviour / target, `behaviour_ratio_clip`) * current / behaviour; with 2 it
   is the paper's current / max(target, beta * behaviour) at beta = 1/2.
3. RLlib's optional KL penalty (off by default there) is left out.
4. Gradients are clipped by their global norm (`max_grad_norm`).
5. Advantages are standardised per minibatch (`normalize_advantage`), as PPO's are.
"""

from __future__ import annotations

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent, copy_weights, update_target
from rl.agents.algos.registry import register
from rl.hparams.appo import APPOHParams
from rl.models.networks import ActorCritic, ActorCriticOutput
from rl.ops import distributions, loops, random, trajectories
from rl.ops.nests import flatten_time
from rl.ops.policy import approximate_kl, clipped_surrogate, masked_mean, standardize
from rl.ops.vtrace import vtrace
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update


@register
class APPO(Agent):
    """PPO with V-trace and a target policy: discrete, multi-discrete, multi-binary and continuous actions."""

    experience = "rollout"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    hparams_type = APPOHParams
    trajectory_extras = ("log_prob",)
    recurrent = True

    def build(self) -> None:
        self.network = self.add_network("network", self.make_network("network"))
        self.target_network = self.add_network("target_network", self.make_network("target_network"))
        self.optimizer = self.add_optimizer("network", self.network.trainable_variables)
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")
        copy_weights(self.network, self.target_network, 1.0)

    def make_network(self, name: str) -> ActorCritic:
        hparams = self.hparams
        return ActorCritic(
            hparams, self.encoder, self.action_space, self.initializers, hparams.log_std_init, name
        )

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs * self.hparams.minibatches

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return self._output(self.network(observation, recurrent_state))

    def _output(self, output: ActorCriticOutput) -> PolicyOutput:
        distribution = distributions.of_space(self.action_space, output.parameters, output.log_std)
        return PolicyOutput(distribution=distribution, value=output.value, recurrent_state=output.state)

    def _unroll(self, network: ActorCritic, batch: Trajectory) -> PolicyOutput:
        """A policy along a trajectory: its distribution flat, [T * B, ...], its value [T+1, B]."""
        mask = tf.concat([batch.mask, tf.ones_like(batch.mask[:1])], 0)  # [T+1, B]
        output = network.unroll(batch.observation, batch.recurrent_state, mask)
        acted = self._output(output._replace(parameters=output.parameters[: batch.mask.shape.num_elements()]))
        return acted._replace(value=tf.reshape(output.value, mask.shape))

    def loss(self, batch: Trajectory, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        hparams = self.hparams
        output = self._unroll(self.network, batch)
        lagged = self._unroll(self.target_network, batch)
        action = flatten_time(batch.action)
        log_prob, target_log_prob = output.distribution.log_prob(action), lagged.distribution.log_prob(action)
        found = (log_prob, tf.stop_gradient(target_log_prob), output.distribution.entropy())  # [T * B]
        log_prob, target_log_prob, entropy = (tf.reshape(x, batch.mask.shape) for x in found)
        behaviour = batch.extras["log_prob"]  # [T, B]
        target, advantage = self._vtrace(batch, target_log_prob - behaviour, output.value)
        if hparams.normalize_advantage:
            advantage = standardize(advantage, batch.mask)
        lag = tf.minimum(tf.exp(behaviour - target_log_prob), hparams.behaviour_ratio_clip)
        ratio = lag * tf.exp(log_prob - behaviour)  # of current to target policy
        policy_loss = clipped_surrogate(ratio, advantage, hparams.clip_range)
        value_loss = 0.5 * tf.square(output.value[:-1] - target)
        loss = policy_loss + hparams.value_coef * value_loss - hparams.entropy_coef * entropy
        clipped = tf.cast(tf.abs(ratio - 1.0) > hparams.clip_range, tf.float32)
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
            "importance_ratio": masked_mean(tf.exp(log_prob - behaviour), batch.mask),
            "approximate_kl": masked_mean(approximate_kl(log_prob - target_log_prob), batch.mask),
            "clip_fraction": masked_mean(clipped, batch.mask),
        }
        return loss * batch.mask, metrics, None

    def _vtrace(self, batch: Trajectory, log_ratio: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Targets of the value and advantages, [T, B]."""
        hparams = self.hparams
        return vtrace(
            log_ratio,
            batch.reward,
            value,
            batch.terminated,
            batch.truncated,
            hparams.gamma,
            hparams.trace_lambda,
            hparams.rho_clip,
            hparams.trace_clip,
            hparams.advantage_rho_clip,
        )

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """`epochs` passes over the trajectory in `minibatches` groups of environments, shuffled anew."""
        hparams = self.hparams
        size = hparams.num_envs // hparams.minibatches

        def one_update(i: Tensor) -> dict[str, Tensor]:
            part = batch
            if hparams.minibatches > 1:
                epoch, place = i // hparams.minibatches, i % hparams.minibatches
                order = random.permutation(random.fold_in(seed, epoch), hparams.num_envs)
                part = trajectories.take(batch, tf.gather(order, place * size + tf.range(size)))
            metrics = self.gradient_step(part, random.fold_in(seed, i)).metrics
            self.after_update()
            return metrics

        metrics, made = loops.repeat(self.updates_per_iteration(), one_update)
        return Update(metrics | {"updates": made})

    def after_update(self) -> None:
        self.updates.assign_add(1)
        update_target(self.network, self.target_network, self.updates, self.hparams)

    @property
    def variables(self) -> dict:
        return super().variables | {"updates": self.updates}
