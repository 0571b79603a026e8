"""MuZero: a model that predicts rewards, values and the policy, searched before each action.

Schrittwieser et al. 2020, "Mastering Atari, Go, chess and shogi by planning with a learned model",
https://arxiv.org/abs/1911.08265. The model (`rl/models/muzero.py`) encodes an observation as a hidden state
(h), predicts the next state and the reward of an action (g), and a state's policy and value (f). A tree
search over hidden states (`rl.ops.search`) chooses every action, in evaluations too, without noise there.
Rollouts store the search's policy pi and value nu. From each step t of a replayed sequence the model is
unrolled for K = `unroll_steps` of the actions that were taken, and at each of these steps k it minimises

    reward_coef * l(u_t+k, r^k) + value_coef * l(z_t+k, v^k) - pi_t+k^T log p^k

where u is the reward, z the n-step return that ends with nu, and l the cross-entropy of categorical
predictions. The losses of k > 0 are scaled by 1 / K, the gradients that enter g by 1 / 2. After a terminal
step rewards and values are 0, and there is no policy to learn.

With `search=gumbel`, the default, it is Gumbel MuZero (Danihelka et al. 2022, "Policy improvement by planning
with Gumbel", https://openreview.net/forum?id=bERaNdoegnO; `rl.ops.gumbel_search`), which needs few
simulations; `puct` is the paper's.

Deviations from the paper:

1. Rewards and values are two-hot distributions over bins of symlog (DreamerV3's, `rl.ops.world_model`) in
   place of h(x) = sign(x) (sqrt(|x| + 1) - 1) + 0.001 x.
2. Sequences are replayed with equal probabilities, and the model is unrolled from each step of the rollout
   that begins one. A return has fewer than n rewards where the sequence ends before.
3. puct: Q is normalised among the moves of a node and its value, not over the whole tree; c is constant; the
   temperature is the same throughout.
4. The network is dense, and one observation is all that it sees; there is no L2 term (`optimizer=adamw` with
   `weight_decay` decays the weights). One player, not two.
5. After a truncation nothing is learned of steps that were not taken.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.agents.tree_search import acting_logits, found_by
from rl.hparams.muzero import MuZeroHParams
from rl.models.muzero import MuZeroNetwork
from rl.ops import random, search
from rl.ops import world_model as wm
from rl.ops.distributional import cross_entropy
from rl.ops.distributions import Categorical
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean
from rl.ops.sequence import n_step_target
from rl.types import Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory

VALUE = "search_value"  # name of the search's value among a trajectory's extras


class Targets(NamedTuple):
    """Targets of the predictions k = 0 ... K steps after each of S steps of N sequences."""

    policy: Tensor  # [K+1, S, N, A] of the search there
    value: Tensor  # [K+1, S, N]
    reward: Tensor  # [K, S, N] of the steps that lead to the last K
    has_policy: Tensor  # [K+1, S, N] 1 or 0: whether that is known
    has_value: Tensor  # [K+1, S, N]
    has_reward: Tensor  # [K, S, N]


@register
class MuZero(Agent[MuZeroHParams]):
    """Search in a model that is learned: any environment with discrete actions."""

    experience = "sequence"
    action_spaces = (spaces.Discrete,)

    def build(self) -> None:
        hparams, self.moves = self.hparams, int(self.action_space.n)
        self.network = MuZeroNetwork(hparams, self.encoder, self.moves, self.initializers)
        self.add_network("network", self.network)
        self.add_optimizer("network", self.network.trainable_variables)
        self.bins = wm.bins(hparams.bins, hparams.bin_limit)
        self.weights = tuple(f"weight_{i}" for i in range(self.moves))
        self.trajectory_extras = (*self.weights, VALUE)

    # -- acting ---------------------------------------------------------------------------------------

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        state = self.network.represent(observation)
        logits, value = self._predicted(state)
        legal = self.encoder.action_mask(observation)
        prior = search.legal_prior(logits, tf.ones_like(logits, tf.bool) if legal is None else legal)
        seeds = random.split(seed, 2)
        found = found_by(self.hparams, self._step, state, prior, value, seeds, training, within_unit=False)
        kept = dict(zip(self.weights, tf.unstack(found.weights, axis=-1), strict=True)) | {VALUE: found.value}
        distribution = Categorical(acting_logits(self.hparams, found.acting))
        return PolicyOutput(distribution=distribution, value=found.value, extras=kept)

    def _step(self, state: Tensor, move: Tensor, seed: Tensor) -> search.Step:
        """Where moves [B] lead in the model, in which all are legal and nothing ends."""
        state, reward = self.network.follow(state, tf.one_hot(move, self.moves))
        logits, value = self._predicted(state)
        prior = search.legal_prior(logits, tf.ones_like(logits, tf.bool))
        discount = tf.fill([state.shape[0]], self.hparams.gamma)
        return search.Step(state, wm.twohot_mean(reward, self.bins), discount, prior, value)

    def _predicted(self, state: Tensor) -> tuple[Tensor, Tensor]:
        """Logits of the policy [N, A] and the value [N] in hidden states."""
        logits, value = self.network.predict(state)
        return logits, wm.twohot_mean(value, self.bins)

    # -- learning -------------------------------------------------------------------------------------

    def loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:
        """Returns the loss of each sequence, the mean over the steps that the model is unrolled from."""
        hparams, targets = self.hparams, self._targets(batch.trajectory)
        lead = targets.value.shape  # K + 1, S, N
        states, rewards = self._unrolled(batch.trajectory, lead)
        logits, values = self.network.predict(tf.reshape(states, [-1, hparams.state_size]))
        found = {
            "policy_loss": cross_entropy(targets.policy, tf.reshape(logits, targets.policy.shape))
            * targets.has_policy,
            "value_loss": self._distance(targets.value, values) * targets.has_value,
            "reward_loss": self._distance(targets.reward, rewards) * targets.has_reward,
        }
        scale = tf.constant([1.0, *[1.0 / hparams.unroll_steps] * hparams.unroll_steps])
        each = {name: _of_sequences(x, scale[-x.shape[0] :]) for name, x in found.items()}
        total = each["policy_loss"] + hparams.value_coef * each["value_loss"]
        total += hparams.reward_coef * each["reward_loss"]
        entropy = -tf.reduce_sum(targets.policy * tf.math.log(targets.policy + 1e-9), -1)[0]
        more = {"value": targets.value[0], "entropy": entropy}
        metrics = each | {name: tf.reduce_mean(x, 0) for name, x in more.items()}
        shown = {name: masked_mean(x, batch.mask) for name, x in metrics.items()}
        return total * batch.sample_weight * batch.mask, shown, None

    def _distance(self, target: Tensor, logits: Tensor) -> Tensor:
        """The cross-entropy with two-hot targets, of their shape."""
        shaped = tf.reshape(logits, [*target.shape, self.hparams.bins])
        return cross_entropy(wm.twohot(target, self.bins), shaped)

    def _unrolled(self, trajectory: Trajectory, lead: Any) -> tuple[Tensor, Tensor]:
        """Hidden states [K+1, S N, W] and logits of rewards [K, S N, bins] along the actions taken."""
        steps, starts, count = lead[0] - 1, lead[1], lead[1] * lead[2]
        first = tf.nest.map_structure(lambda x: x[:starts], trajectory.observation)
        state = self.network.represent(flatten_time(first))
        rows = np.arange(steps)[:, None] + np.arange(starts)
        taken = tf.one_hot(tf.gather(trajectory.action, rows), self.moves)
        taken = tf.reshape(taken, [steps, count, self.moves])
        states, rewards = (
            tf.TensorArray(tf.float32, steps, element_shape=[count, width])
            for width in (self.hparams.state_size, self.hparams.bins)
        )

        def body(k: Tensor, now: Tensor, states: tf.TensorArray, rewards: tf.TensorArray) -> tuple[Any, ...]:
            halved = 0.5 * now + 0.5 * tf.stop_gradient(now)
            after, reward = self.network.follow(halved, tf.gather(taken, k))
            return k + 1, after, states.write(k, after), rewards.write(k, reward)

        start = (tf.constant(0), state, states, rewards)
        _, _, states, rewards = tf.while_loop(lambda k, *_: k < steps, body, start, maximum_iterations=steps)
        return tf.concat([state[None], states.stack()], 0), rewards.stack()

    def _targets(self, trajectory: Trajectory) -> Targets:
        """The targets from the steps of sequences [L, N] and the searches that were made there."""
        hparams, extras = self.hparams, trajectory.extras
        reward, terminated, truncated = trajectory.reward, trajectory.terminated, trajectory.truncated
        value = extras[VALUE]
        returns = n_step_target(
            reward[:-1], value, terminated[:-1], truncated[:-1], hparams.gamma, hparams.n_step
        )
        # At an episode's last observation the step is an autoreset: only the search's value is known there.
        returns = tf.where(trajectory.mask > 0.0, tf.concat([returns, value[-1:]], 0), value)
        rows = np.arange(hparams.unroll_steps + 1)[:, None] + np.arange(hparams.rollout_length)  # [K+1, S]
        ends, mask = tf.gather(tf.cast(terminated, tf.float32), rows), tf.gather(trajectory.mask, rows)
        within = mask[:1] * tf.math.cumprod(mask * (1.0 - ends), 0, exclusive=True)  # of the same episode
        over = tf.math.cumsum(within * ends, 0, exclusive=True)  # after its terminal step
        policy = tf.stack([extras[name] for name in self.weights], -1)  # [L, N, A]
        return Targets(
            tf.gather(policy, rows),
            within * tf.gather(returns, rows),
            within[:-1] * tf.gather(reward, rows[:-1]),
            within,
            within + over,
            (within * mask + over)[:-1],
        )


def _of_sequences(x: Tensor, scale: Tensor) -> Tensor:
    """Losses [K, S, N], each k scaled, of sequences [N]: their sum over k, the mean over S."""
    return tf.reduce_mean(tf.reduce_sum(x * scale[:, None, None], 0), 0)
