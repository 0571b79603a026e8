"""RSAC: soft actor-critic with memory, learned from replayed sequences.

SAC (`rl/agents/algos/sac.py`) whose actor and critics see what came before through recurrent networks of
their own: Yang and Nguyen 2021, "Recurrent off-policy baselines for memory-based continuous control",
https://arxiv.org/abs/2110.12628, and Ni et al. 2022, "Recurrent model-free RL can be a strong baseline for
many POMDPs", https://arxiv.org/abs/2110.05038, who found that actor and critics should not share theirs. The
losses are SAC's at every step of a sequence. What sequences need is R2D2's (Kapturowski et al. 2019,
https://openreview.net/forum?id=r1lyTjAqYX): the first `burn_in` steps only bring the states up to date, from
those that both networks had there, which acting therefore carries along for the critics too.

Deviations from these papers:

1. Sequences of fixed length begin at rollout boundaries and may span several episodes, the state starts anew
   in between; both papers replay whole episodes, or begin pieces of them with zeros.
2. One recurrent network for all critics, then a hidden layer and an output for each; the action enters after
   the memory. What was done before is in the observation by `previous_action_reward` (the set's default).
3. Targets may be n-step (without the entropy of the steps between), and sequences prioritized, as in R2D2.
4. SAC's own deviations 1 to 3, 5 and 6.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.algos.sac import SAC
from rl.agents.value import sequences_loss, steps_after
from rl.hparams.rsac import RSACHParams
from rl.models.continuous import Actor, Critic
from rl.ops import random, sequence
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean
from rl.types import Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory, Update


@register
class RSAC(SAC):
    """Recurrent soft actor-critic: bounded continuous actions, sequences with stored states."""

    hparams: RSACHParams
    hparams_type = RSACHParams
    experience = "sequence"
    recurrent = True

    def starting_state(self, count: int) -> Nest:
        """Returns the states of (actor, critics) at the start of `count` episodes; () if they keep none."""
        state = (self.network.initial_state(count), self.critic.initial_state(count))
        return state if tf.nest.flatten(state) else ()

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        actor, critic = recurrent_state or ((), ())
        output, actor = self.network.step(observation, actor)
        if training and recurrent_state:  # sequences begin with it; an evaluation has no use for it
            critic = self.critic.step(observation, critic, action=self.nothing(output.shape[:1]))[1]
        state = (actor, critic) if recurrent_state else ()
        return PolicyOutput(distribution=self.actions.stochastic(output), recurrent_state=state)

    def update(self, batch: Any, seed: Tensor) -> Update:
        """Makes a step of the critics, one of the actor, one of the temperature, on what follows the
        burn-in."""
        return super().update(batch._replace(trajectory=self.warmed(batch.trajectory)), seed)

    def warmed(self, trajectory: Trajectory) -> Trajectory:
        """Returns the last U steps, with the states of actor, critics and target critics before them, by the
        names of the networks."""
        burn_in, (actor, critic) = self.hparams.burn_in, trajectory.recurrent_state or ((), ())

        def after(network: Actor | Critic, state: Nest, **options: Tensor) -> Nest:
            def unroll(*steps: Nest) -> Nest:
                return network.unroll(*steps, **options)[1]

            return sequence.after_burn_in(trajectory._replace(recurrent_state=state), burn_in, unroll)[:2]

        code = self.nothing([burn_in, trajectory.mask.shape[1]])
        observation, actor = after(self.network, actor)
        critics = [after(each, critic, action=code)[1] for each in (self.critic, self.target_critic)]
        steps = steps_after(trajectory, burn_in)  # [U, N]
        states = dict(zip(("network", "critic", "target_critic"), (actor, *critics), strict=True))
        return steps._replace(observation=observation, recurrent_state=states)

    def nothing(self, shape: Any) -> Tensor:
        """Returns codes [*shape, K] of actions where critics are asked for their state, not for values."""
        return tf.zeros([*shape, self.actions.size])

    def values_along(self, critic: str, trajectory: Trajectory, action: Tensor) -> Tensor:
        """Returns values [C, U+1, N] of actions' codes [U+1, N, K], by the network "critic" or
        "target_critic"."""
        state, mask = trajectory.recurrent_state[critic], _with_last(trajectory.mask)
        values = self.networks[critic].unroll(trajectory.observation, state, mask, action=action)[0]
        return values[..., 0]

    def drawn(self, trajectory: Trajectory, seed: Tensor) -> tuple[Tensor, Tensor]:
        """Returns the policy's draws: codes [U+1, N, K] and their log densities [U+1, N]."""
        mask = _with_last(trajectory.mask)
        output = self.network.unroll(trajectory.observation, trajectory.recurrent_state["network"], mask)[0]
        distribution = self.actions.squashed_gaussian(flatten_time(output))
        action, log_prob = distribution.unit_sample(random.rows(seed))
        return tf.reshape(action, [*mask.shape, self.actions.size]), tf.reshape(log_prob, mask.shape)

    def sequence_target(self, trajectory: Trajectory, seed: Tensor) -> Tensor:
        """Returns what the critics' values are to become, [U, N]."""
        action, log_prob = self.drawn(trajectory, seed)
        value = tf.reduce_min(self.values_along("target_critic", trajectory, action), 0)  # [U+1, N]
        value -= self.temperature * log_prob
        steps = trajectory.reward, value, trajectory.terminated, trajectory.truncated
        return sequence.n_step_target(*steps, self.hparams.gamma, self.hparams.n_step)

    def loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:  # type: ignore[override]
        """Returns the critics' loss, and the sequences' priorities, of a `warmed` trajectory."""
        trajectory, mask = batch.trajectory, batch.trajectory.mask * batch.mask  # [U, N]
        code = self.actions.encode(flatten_time(trajectory.action))
        code = _with_last(tf.reshape(code, [*mask.shape, self.actions.size]))
        q_values = self.values_along("critic", trajectory, code)[:, :-1]  # [C, U, N]
        error = tf.stop_gradient(self.sequence_target(trajectory, seed)) - q_values
        loss = 0.5 * tf.reduce_sum(tf.square(error), 0)  # [U, N]
        q_value, size = tf.reduce_mean(q_values, 0), tf.reduce_mean(tf.abs(error), 0)
        return sequences_loss(loss, q_value, size, batch, mask, self.hparams.priority_eta)

    def policy_loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:  # type: ignore[override]
        trajectory, mask = batch.trajectory, batch.trajectory.mask * batch.mask  # [U, N]
        action, log_prob = self.drawn(trajectory, seed)
        q_value = tf.reduce_min(self.values_along("critic", trajectory, action), 0)  # [U+1, N]
        loss = (tf.stop_gradient(self.temperature) * log_prob - q_value)[:-1]  # [U, N]
        metrics = {
            "policy_loss": masked_mean(loss, mask),
            "entropy": -masked_mean(log_prob[:-1], mask),
        }
        return tf.reduce_mean(loss * mask, 0), metrics, None


def _with_last(x: Tensor) -> Tensor:
    """Returns [U + 1, ...] for [U, ...]: ones for the last observation, which no action follows."""
    return tf.concat([x, tf.ones_like(x[:1])], 0)
