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
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.hparams.impala import IMPALAHParams
from rl.models.networks import ActorCritic, ActorCriticOutput
from rl.ops import distributions, loops, random, trajectories
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean
from rl.ops.vtrace import vtrace
from rl.types import Nest, PolicyOutput, Tensor, Trajectory, Update


@register
class IMPALA(Agent):
    """Actor-critic with V-trace: discrete, multi-discrete, multi-binary and continuous actions."""

    experience = "rollout"
    action_spaces = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    hparams_type = IMPALAHParams
    trajectory_extras = ("log_prob",)
    recurrent = True

    def build(self) -> None:
        hparams = self.hparams
        network = ActorCritic(
            hparams, self.encoder, self.action_space, self.initializers, hparams.log_std_init
        )
        self.network = self.add_network("network", network)
        self.optimizer = self.add_optimizer("network", self.network.trainable_variables)

    def updates_per_iteration(self) -> int:
        return self.hparams.epochs * self.hparams.minibatches

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        return self._output(self.network(observation, recurrent_state))

    def _output(self, output: ActorCriticOutput) -> PolicyOutput:
        distribution = distributions.of_space(self.action_space, output.parameters, output.log_std)
        return PolicyOutput(distribution=distribution, value=output.value, recurrent_state=output.state)

    def _unroll(self, batch: Trajectory) -> PolicyOutput:
        """The current policy along a trajectory: its distribution flat, [T * B, ...], its value [T+1, B]."""
        mask = tf.concat([batch.mask, tf.ones_like(batch.mask[:1])], 0)  # [T+1, B]
        output = self.network.unroll(batch.observation, batch.recurrent_state, mask)
        acted = self._output(output._replace(parameters=output.parameters[: batch.mask.shape.num_elements()]))
        return acted._replace(value=tf.reshape(output.value, mask.shape))

    def loss(self, batch: Trajectory, seed: Tensor) -> tuple[Tensor, dict[str, Tensor], Tensor | None]:
        hparams = self.hparams
        output = self._unroll(batch)
        found = (output.distribution.log_prob(flatten_time(batch.action)), output.distribution.entropy())
        log_prob, entropy = (tf.reshape(x, batch.mask.shape) for x in found)  # [T, B]
        log_ratio = log_prob - batch.extras["log_prob"]  # [T, B]
        target, advantage = self._vtrace(batch, log_ratio, output.value)
        policy_loss = -log_prob * advantage
        value_loss = 0.5 * tf.square(output.value[:-1] - target)
        loss = policy_loss + hparams.value_coef * value_loss - hparams.entropy_coef * entropy
        metrics = {
            "policy_loss": masked_mean(policy_loss, batch.mask),
            "value_loss": masked_mean(value_loss, batch.mask),
            "entropy": masked_mean(entropy, batch.mask),
            "importance_ratio": masked_mean(tf.exp(log_ratio), batch.mask),
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
