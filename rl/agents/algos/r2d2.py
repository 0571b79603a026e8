"""R2D2: recurrent Q-learning from a replay memory of sequences.

Kapturowski et al. 2019, "Recurrent experience replay in distributed reinforcement learning",
https://openreview.net/forum?id=r1lyTjAqYX. Its parts:

* stored state and burn-in, section 3: both networks go through the first `burn_in` steps of a sequence from
  the state that the policy had there, without gradient, before `unroll_length` steps are learned from.
* n-step double Q-learning along the sequence in rescaled units, section 2.3 (after Pohlen et al. 2018,
  https://arxiv.org/abs/1805.11593): h(r + ... + gamma^n h^-1(Q_target(s', a*))) with
  h(x) = sign(x) (sqrt(|x| + 1) - 1) + epsilon x. `retrace_lambda` replaces the n steps by Retrace (Munos et
  al. 2016, https://arxiv.org/abs/1606.02647) for the greedy policy.
* sequence priorities, section 2.3: eta * max |error| + (1 - eta) * mean |error| over the steps that count; a
  new sequence has the largest so far (`rl/ops/sequence.py`, `rl/memory/sequence.py`).

A sequence begins with each rollout, so `rollout_length` decides how much they overlap: with half of
`unroll_length` every step is learned from twice. The other switches are DQN's.

Deviations from the paper:

1. Sequences begin at rollout boundaries and may span several episodes; the state starts anew in between. So
   the first steps of an episode are learned from as often as all others.
2. Steps with fewer than n successors in their sequence bootstrap from its last observation.
3. The online network chooses the action that the target network rates, as in double Q-learning; the paper's
   equation has the two the other way round.
4. One epsilon for all environments, annealed, in place of one per worker.
5. Huber loss by default, as in DQN (`loss=mse` for the square).
6. Truncated episodes bootstrap from the last observation; only terminal states do not.
7. The last action and reward are inputs only with `previous_action_reward`.
"""

from __future__ import annotations

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.value import ValueAgent, sequences_loss, steps_after, unrolled
from rl.hparams.r2d2 import R2D2HParams
from rl.models.networks import QNetwork
from rl.ops import sequence, value
from rl.types import Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory


@register
class R2D2(ValueAgent[R2D2HParams]):
    """Recurrent replay distributed DQN: stored state, burn-in, value rescaling, sequence priorities."""

    experience = "sequence"
    recurrent = True

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        q_values, state = self.network.step(observation, recurrent_state, training)
        return PolicyOutput(q_values=q_values, recurrent_state=state)

    def unroll(self, network: QNetwork, trajectory: Trajectory) -> Tensor:
        """Returns action values `[U+1, N, A]` of the observations after the burn-in."""
        return unrolled(network, trajectory, self.hparams.burn_in)

    def loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:
        hparams = self.hparams
        self.resample_noise(seed)
        q_values = self.unroll(self.network, batch.trajectory)  # [U+1, N, A]
        next_q_values = self.unroll(self.target_network, batch.trajectory)  # [U+1, N, A]
        steps = steps_after(batch.trajectory, hparams.burn_in)  # [U, N]
        target = self.target(steps, next_q_values, q_values if hparams.double else next_q_values)
        mask = steps.mask * batch.mask  # [U, N]
        chosen = value.select(q_values[:-1], steps.action)  # [U, N]
        error = tf.stop_gradient(target) - chosen
        loss = value.huber(error, hparams.huber_delta) if hparams.loss == "huber" else tf.square(error)
        return sequences_loss(loss, chosen, error, batch, mask, hparams.priority_eta)

    def target(self, steps: Trajectory, q_values: Tensor, selector: Tensor) -> Tensor:
        """Returns rescaled targets `[U, N]`: `q_values` `[U+1, N, A]` rate the actions that `selector`
        chooses."""
        hparams, epsilon = self.hparams, self.hparams.value_rescaling_epsilon
        best = tf.argmax(selector, -1, output_type=tf.int32)  # [U+1, N]
        following = value.select(q_values, best)
        if hparams.value_rescaling:
            following = sequence.unscale_value(following, epsilon)
        ends = steps.terminated, steps.truncated
        if hparams.retrace_lambda is None:
            target = sequence.n_step_target(steps.reward, following, *ends, hparams.gamma, hparams.n_step)
        else:
            taken = value.select(q_values[:-1], steps.action)  # [U, N]
            if hparams.value_rescaling:
                taken = sequence.unscale_value(taken, epsilon)
            trace = hparams.retrace_lambda * tf.cast(best[:-1] == steps.action, tf.float32)
            target = sequence.retrace_target(steps.reward, following, taken, trace, *ends, hparams.gamma)
        return sequence.rescale_value(target, epsilon) if hparams.value_rescaling else target
