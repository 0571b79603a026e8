"""DreamerV3: a world model learned from replayed sequences, and an actor and a critic learned within it.

Hafner et al. 2023, "Mastering diverse domains through world models", https://arxiv.org/abs/2301.04104. The
model (`rl/models/rssm.py`) reads a sequence with categorical latents (one per cent uniform, straight-through
gradients) and predicts observation, reward and continuation; its losses (prediction, dynamics,
representation) have weights 1, 1 and 0.1, the last two with a free nat. From every replayed state, `horizon`
steps are imagined without the environment. The critic fits their lambda-returns as a two-hot distribution
over symlog bins, kept near an average of itself; the actor climbs them by REINFORCE, divided by the running
range of returns between their 5th and 95th percentiles where that is above 1, with a small bonus for entropy.
As in the paper's later version (Nature 640, 2025), the critic also learns at replayed steps, with weight 0.3,
from lambda-returns of their own rewards whose values are the imagined returns; so do the model's states.

Deviations from the paper:

1. One Adam step for the sum of all losses, whose parts reach different weights, with a global norm of
   gradients; the paper has an optimizer each for model, actor and critic, later versions LaProp with adaptive
   clipping.
2. Sequences begin at rollout boundaries, in the state that the policy had there; the paper's begin in zeros.
3. Bytes, bits and categories are decoded by a dense layer with cross-entropy for values within [0, 1], no
   transposed convolutions and squared error: right for small pictures, too wide for large ones.
4. The range of returns, in which the actor's loss is measured, is that of before the update.
5. Where observations tell which actions are legal, the model learns to say so, and imagined actors obey that.
6. The networks are small (`deter`, `groups`, `classes`, `units`, `layers`), and so is the train ratio.
7. Evaluations take the policy's mode. Latents are drawn in them, too: the model has not learned from the
   likeliest ones, with which an agent returned 213 on CartPole whose training episodes returned 425.
8. Rewards and continuation are learned at steps that were taken, not at the first state of an episode.
9. Rewards and values are the symexp of a mean over bins that are evenly spaced in symlog, as in the paper's
   first version; later the bins are spaced by symexp, and the mean is of these.
"""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.registry import register
from rl.agents.targets import copy_weights
from rl.hparams.dreamer import DreamerHParams
from rl.models.continuous import DiscreteActions, actions_of
from rl.models.layers import ILLEGAL
from rl.models.rssm import Critic, DreamerNetwork, Heads, Observed
from rl.ops import random, returns, sequence
from rl.ops import world_model as wm
from rl.ops.distributional import cross_entropy
from rl.ops.distributions import Categorical, DiagonalGaussian
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean
from rl.parallel import replicas
from rl.types import Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory, Update

DEVIATIONS = (0.1, 1.0)  # of continuous actions, in half ranges


@register
class Dreamer(Agent[DreamerHParams]):
    """DreamerV3: an actor and a critic that learn in the imagination of a world model."""

    experience = "sequence"
    action_spaces = (spaces.Discrete, spaces.Box)

    def build(self) -> None:
        hparams = self.hparams
        self.discrete = isinstance(self.action_space, spaces.Discrete)
        self.actions = actions_of(self.action_space, "dreamer")
        size = self.actions.size
        outputs = size if self.discrete else 2 * size
        self.network = DreamerNetwork(hparams, self.encoder, size, outputs, self.initializers)
        width = self.network.rssm.size
        self.heads = Heads(hparams, width, self.encoder, size, self.initializers)
        for name, network in (("network", self.network), ("heads", self.heads)):
            self.add_network(name, network)
        self.critic, self.slow_critic = (
            self.add_network(name, Critic(hparams, width, self.initializers, name))
            for name in ("critic", "target_critic")
        )
        copy_weights(self.critic, self.slow_critic, 1.0)
        networks = (self.network, self.heads, self.critic)
        self.add_optimizer("network", [x for network in networks for x in network.trainable_variables])
        self.return_range = tf.Variable([0.0, 0.0], trainable=False, name="return_range")
        self.bins = wm.bins(hparams.bins, hparams.bin_limit)

    # -- acting ---------------------------------------------------------------------------------------

    def starting_state(self, count: int) -> Nest:
        return self.network.start(count)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        count = recurrent_state["deter"].shape[0]
        noise = random.gumbel(seed, [count, self.network.rssm.stoch])
        features, state = self.network.step(observation, recurrent_state, noise)
        output = self.network.actor(features)
        if isinstance(self.actions, DiscreteActions):
            logits = self.encoder.mask_illegal(wm.mixed_logits(output), observation)
            return PolicyOutput(distribution=Categorical(logits), recurrent_state=state)
        return PolicyOutput(
            distribution=self.actions.gaussian(self.unit_gaussian(output)), recurrent_state=state
        )

    @property
    def evaluates_with_noise(self) -> bool:
        return True

    def carried(self, state: Nest, action: Nest) -> Nest:
        return state | {"action": self.actions.clipped_code(action)}

    def unit_gaussian(self, output: Tensor) -> DiagonalGaussian:
        """Returns the distribution over codes by the actor's output [N, 2 K] for continuous actions."""
        mean, spread = tf.split(output, 2, -1)
        low, high = DEVIATIONS
        return DiagonalGaussian(tf.tanh(mean), tf.math.log(low + (high - low) * tf.sigmoid(spread + 2.0)))

    # -- learning -------------------------------------------------------------------------------------

    def update(self, batch: SequenceBatch, seed: Tensor) -> Update:
        update = self.gradient_step(batch, seed)
        metrics, tau = dict(update.metrics), self.hparams.return_tau
        found = tf.stack([metrics.pop("return_low"), metrics.pop("return_high")])
        self.return_range.assign_add(tau * (found - self.return_range))
        copy_weights(self.critic, self.slow_critic, self.hparams.slow_critic_tau)
        return Update(metrics | {"return_scale": self.return_scale()})

    def return_scale(self) -> Tensor:
        """Returns the divisor of advantages, scalar: the range of returns, but at least 1."""
        return tf.maximum(1.0, self.return_range[1] - self.return_range[0])

    def loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:
        """Returns the loss of each sequence: the model's, the actor's and the critic's."""
        model_seed, imagination_seed = random.split(seed, 2)
        observed, loss, metrics = self.model_loss(batch, model_seed)
        behaviour, imagined, more = self.behaviour_loss(batch, observed.features, imagination_seed)
        replayed = self.replayed_value_loss(batch.trajectory, observed.features, imagined)
        metrics |= more | {"replayed_value_loss": masked_mean(replayed, batch.mask)}
        total = loss + behaviour + self.hparams.replay_critic_coef * replayed
        return total * batch.sample_weight * batch.mask, metrics, None

    def observe_sequences(self, trajectory: Trajectory, target: Tensor, seed: Tensor) -> Observed:
        """Returns states of the L + 1 observations, whose `DreamerNetwork.target` is given, [(L + 1) N,
        F]."""
        network, state, mask = self.network, trajectory.recurrent_state, trajectory.mask
        length, count = mask.shape
        embedding = tf.reshape(network.torso(target), [length + 1, count, network.torso.size])
        codes = self.actions.clipped_code(flatten_time(trajectory.action))
        codes = tf.reshape(codes, [length, count, self.actions.size])
        action = tf.concat([state["action"][None], codes], 0)  # [L+1, N, A] before each observation
        alive = tf.concat([tf.ones_like(mask[:1]), mask], 0)  # [L+1, N]
        noise = random.gumbel(random.rows(seed), [count, length + 1, network.rssm.stoch])
        before = state["deter"], state["stoch"]
        return network.rssm.observe(embedding, action, alive, before, tf.transpose(noise, [1, 0, 2]))

    def model_loss(self, batch: SequenceBatch, seed: Tensor) -> tuple[Observed, Tensor, dict[str, Tensor]]:
        """Returns (the states, the world model's loss [N], metrics) of sequences."""
        hparams, heads, trajectory = self.hparams, self.heads, batch.trajectory
        flat = flatten_time(trajectory.observation)
        target = self.network.target(flat)  # [(L + 1) N, F]
        observed = self.observe_sequences(trajectory, target, seed)
        features, lead = observed.features, observed.features.shape[:2]
        decoded = tf.reshape(heads.decoder(features), target.shape)
        bits = tf.nn.sigmoid_cross_entropy_with_logits(target, decoded)
        error = tf.where(self.encoder.real > 0.0, tf.square(decoded - target), bits)
        decoding = tf.reshape(tf.reduce_sum(error, -1), lead)  # [L+1, N]
        if heads.legal is not None:
            legal = tf.cast(self.encoder.action_mask(flat), tf.float32)  # [(L + 1) N, A]
            told = tf.reshape(heads.legal(features), legal.shape)
            wrong = tf.nn.sigmoid_cross_entropy_with_logits(legal, told)
            decoding += tf.reshape(tf.reduce_sum(wrong, -1), lead)
        rewarded = cross_entropy(wm.twohot(trajectory.reward, self.bins), heads.reward(features[1:]))
        going = 1.0 - tf.cast(trajectory.terminated, tf.float32)  # [L, N]
        ending = tf.nn.sigmoid_cross_entropy_with_logits(going, heads.goes_on(features[1:])[..., 0])
        weights = hparams.dynamics_coef, hparams.representation_coef, hparams.free_nats
        kl_loss, kl = wm.balanced_kl(observed.posterior, observed.prior, *weights)
        steps = tf.reduce_mean((rewarded + ending) * trajectory.mask, 0)
        seen = sequence.observed(trajectory, self.rows_of_env)
        metrics = {
            "decoder_loss": tf.reduce_mean(decoding * seen, 0),
            "reward_loss": tf.reduce_mean(rewarded * trajectory.mask, 0),
            "continue_loss": tf.reduce_mean(ending * trajectory.mask, 0),
            "kl": tf.reduce_mean(kl * seen, 0),
        }
        found = {name: masked_mean(each, batch.mask) for name, each in metrics.items()}
        return observed, steps + tf.reduce_mean((decoding + kl_loss) * seen, 0), found

    def imagine(self, features: Tensor, seed: Tensor) -> tuple[Tensor, Tensor]:
        """Imagines what the actor does from the states of sequences, `[L+1, N, D + S]`: features [H+1, M, D +
        S] and the codes of its actions [H, M, A], M = (L + 1) N in that order."""
        rssm, horizon = self.network.rssm, self.hparams.horizon
        length, count = features.shape[:2]
        rows = random.rows(seed)

        def noise(draw: Any, number: int, width: int) -> Tensor:
            drawn = draw(random.fold_in(rows, number), [count, length, horizon, width])
            return tf.reshape(tf.transpose(drawn, [2, 1, 0, 3]), [horizon, length * count, width])

        def act(now: Tensor, noise: Tensor) -> Tensor:
            policy = self.imagined_policy(now)
            if isinstance(policy, Categorical):
                return self.actions.greedy(policy.logits + noise)
            return policy.mean + tf.exp(policy.log_std) * noise

        drawn = noise(random.gumbel if self.discrete else random.normal, 0, self.actions.size)
        start = tf.reshape(features, [length * count, rssm.size])
        return rssm.imagine(start, act, drawn, noise(random.gumbel, 1, rssm.stoch))

    def imagined_policy(self, features: Tensor) -> Categorical | DiagonalGaussian:
        """Returns the distribution over the codes of actions at states [M, D + S]."""
        output = self.network.actor(features)
        if not self.discrete:
            return self.unit_gaussian(output)
        logits = wm.mixed_logits(output)
        if self.heads.legal is not None:
            legal = tf.stop_gradient(self.heads.legal(features)) > 0.0
            logits = tf.where(legal, logits, ILLEGAL)
        return Categorical(logits)

    def behaviour_loss(
        self, batch: SequenceBatch, features: Tensor, seed: Tensor
    ) -> tuple[Tensor, Tensor, dict[str, Tensor]]:
        """Returns (actor's and critic's loss [N], return [L+1, N], metrics), of what is imagined from
        `features` [L+1, N, D + S]."""
        hparams, heads, trajectory = self.hparams, self.heads, batch.trajectory
        lead = features.shape[:2]
        states, codes = self.imagine(features, seed)  # [H+1, M, D + S], [H, M, A]; no gradients
        reward = wm.twohot_mean(heads.reward(states[1:]), self.bins)  # [H, M]
        discount = hparams.gamma * tf.sigmoid(heads.goes_on(states[1:])[..., 0])
        logits = self.critic(states)  # [H+1, M, K]
        value = wm.twohot_mean(logits, self.bins)
        target = tf.stop_gradient(returns.lambda_return(reward, discount, value, hparams.gae_lambda))
        # An observation whose next step is an autoreset was the last one of its episode.
        last = sequence.goes_on(trajectory, self.rows_of_env)
        begins = tf.reshape(tf.concat([trajectory.mask, last[None]], 0), [1, math.prod(lead)])  # [1, M]
        weight = tf.stop_gradient(tf.math.cumprod(tf.concat([begins, discount[:-1]], 0), 0))  # [H, M]

        acting = states[:-1]
        policy = self.imagined_policy(tf.reshape(acting, [-1, acting.shape[-1]]))
        chosen = tf.reshape(codes, [-1, codes.shape[-1]])
        taken = tf.argmax(chosen, -1, output_type=tf.int32) if self.discrete else chosen
        log_prob, entropy = (tf.reshape(x, target.shape) for x in (policy.log_prob(taken), policy.entropy()))
        advantage = tf.stop_gradient((target - value[:-1]) / self.return_scale())
        policy_loss = -(advantage * log_prob + hparams.entropy_coef * entropy) * weight

        value_loss = self.value_loss(acting, logits[:-1], target) * weight

        def each(x: Tensor) -> Tensor:  # [H, M] to the mean of each sequence, [N]
            return tf.reduce_mean(tf.reshape(x, [hparams.horizon, *lead]), [0, 1])

        parts = {
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "value": value[:-1],
        }
        metrics = {name: masked_mean(each(x), batch.mask) for name, x in parts.items()}
        low, high = wm.percentiles(replicas.gathered(target), (0.05, 0.95))
        begun = tf.reshape(target[0], lead)
        return each(policy_loss + value_loss), begun, metrics | {"return_low": low, "return_high": high}

    def value_loss(self, states: Tensor, logits: Tensor, target: Tensor) -> Tensor:
        """Returns the critic's loss [T, M] at states [T, M, D + S]: the cross-entropy of its `logits` with
        `target`, and with the slow critic's value."""
        slow = wm.twohot_mean(self.slow_critic(states), self.bins)
        wanted = wm.twohot(target, self.bins) + wm.twohot(slow, self.bins)
        return cross_entropy(tf.stop_gradient(wanted), logits)

    def replayed_value_loss(self, trajectory: Trajectory, features: Tensor, imagined: Tensor) -> Tensor:
        """Returns the critic's loss [N] at the steps of replayed sequences; its gradient reaches the model's
        states, too.

        features: [L+1, N, D + S]; imagined: [L+1, N], the returns imagined from these states.
        """
        states, mask = features[:-1], trajectory.mask
        target = self.replayed_return(trajectory, imagined)
        return tf.reduce_mean(self.value_loss(states, self.critic(states), target) * mask, 0)

    def replayed_return(self, trajectory: Trajectory, imagined: Tensor) -> Tensor:
        """Returns the lambda-returns [L, N] of the steps that were taken; `imagined` as above."""
        discount = self.hparams.gamma * (1.0 - tf.cast(trajectory.terminated, tf.float32))
        # The step after an episode's last one is an autoreset, which does not belong to the episode.
        follows = tf.concat([trajectory.mask[1:], tf.ones_like(trajectory.mask[:1])], 0)
        return returns.lambda_return(trajectory.reward, discount, imagined, self.hparams.gae_lambda * follows)

    @property
    def learned_beside(self) -> dict[str, Any]:
        """See `rl.agents.contracts.LearnsBeside`: the scale of returns, by which advantages are divided."""
        return {"return_range": self.return_range}

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.learned_beside
