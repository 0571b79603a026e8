"""World Models: a controller that evolves in the dreams of a model alone.

Ha and Schmidhuber 2018, https://arxiv.org/abs/1803.10122. V, a variational autoencoder, makes a few numbers
z of each observation (section 2.1). M, an LSTM with a mixture density output, foresees the next z from z,
action and its memory h (2.2), and whether the episode ends (4). C, one linear layer, acts by z and h (2.3).
It is trained by evolution within what M dreams, at a `temperature` above or below that of what was learned
(4). What V and M learn from is played by C itself, with random actions mixed in, as in the iterative
procedure (5).

Deviations from the paper:

1. V, M and C learn side by side: each gradient step is one of V and M on replayed sequences, every
   `dream_period`-th is followed by a generation of C. The paper trains one after the other, on episodes of
   random actions, and in section 5 repeats that: here all is repeated after every rollout, and the share of
   random actions falls from all to a few (`exploration_epsilon_start`, `exploration_epsilon_end`).
2. C evolves by the ES of Salimans et al. 2017 (`rl/agents/algos/es.py`) with a fixed deviation; the paper has
   CMA-ES. All members of a generation dream from the same states with the same noise.
3. Dreams begin at the ends of replayed sequences, with M's recurrent state there, not at first observations.
4. The end of a dreamt episode is not sampled: later rewards are weighted by the probability that the episode
   has not ended before.
5. M predicts rewards too (mean of a normal distribution), which the paper's dreams do not need.
6. V is of dense layers, or what `model.name` says, and bytes are decoded with cross-entropy; the paper has
   convolutions and squared error. One Adam step takes V and M; no gradient of M reaches V.
7. C sees z and h, that of the paper's section 4 the LSTM's cell as well. Evaluations take the mean of z.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.grad_comp.registry import get_grad_comp
from rl.agents.algos.registry import register
from rl.agents.population import Members
from rl.errors import UsageError
from rl.hparams.world_models import WorldModelsHParams
from rl.models.continuous import DiscreteActions
from rl.models.population import Population
from rl.models.world_models import Heads, WorldModelsNetwork
from rl.ops import evolution, mixtures, random, sequence
from rl.ops.nests import flatten_time
from rl.ops.policy import masked_mean
from rl.parallel import replicas
from rl.types import Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Update

State = dict[str, Tensor]  # z [N, Z], h and c [N, H]


@register
class WorldModels(Agent[WorldModelsHParams]):
    """World Models: a linear controller that evolves in the dreams of a learned model."""

    experience = "sequence"
    action_spaces = (spaces.Discrete,)

    def build(self) -> None:
        hparams = self.hparams
        if self.encoder.masked:
            raise UsageError("world_models does not dream of which actions are legal: take dreamer")
        self.actions = DiscreteActions(self.action_space)
        self.network = WorldModelsNetwork(hparams, self.encoder, self.actions.size, self.initializers)
        self.heads = Heads(hparams, self.encoder.size, self.initializers)
        for name, network in (("network", self.network), ("heads", self.heads)):
            self.add_network(name, network)
        self.controller = self.network.controller
        evolved = {id(each) for each in self.controller.trainable_variables}
        both = self.network.trainable_variables + self.heads.trainable_variables
        self.add_optimizer("network", [each for each in both if id(each) not in evolved])
        self.add_optimizer("controller", self.controller.trainable_variables, hparams.controller_lr)
        self.population = Population(self.controller, hparams.population, hparams.perturbation_std)
        self.evolve = get_grad_comp("evolution")(hparams)
        self.updates = tf.Variable(0, dtype=tf.int64, trainable=False, name="updates")

    # -- acting ---------------------------------------------------------------------------------------

    def starting_state(self, count: int) -> Nest:
        return self.network.start(count)

    def policy(self, observation: Nest, recurrent_state: State, seed: Tensor, training: bool) -> PolicyOutput:
        z, log_std = self.network.see(self.encoder(observation))
        if training:
            z += tf.exp(log_std) * random.normal(seed, z.shape)
        state = recurrent_state | {"z": z}
        return PolicyOutput(q_values=self.controller(features(state)), recurrent_state=state)

    def carried(self, state: State, action: Nest) -> Nest:
        return self.network.remember(state, self.actions.encode(action))

    # -- learning -------------------------------------------------------------------------------------

    def update(self, batch: SequenceBatch, seed: Tensor) -> Update:
        model_seed, dream_seed = random.split(seed, 2)
        update = self.gradient_step(batch, model_seed)
        period = self.hparams.dream_period

        def dreamt() -> dict[str, Tensor]:
            found = self.generation(batch, dream_seed)
            return {name: value * float(period) for name, value in found.items()}

        def nothing() -> dict[str, Tensor]:  # with the factor above, means over updates are right
            return dict.fromkeys(("dream_return", "dream_return_max", "controller_norm"), tf.constant(0.0))

        self.updates.assign_add(1)
        return Update(update.metrics | tf.cond(self.updates % period == 0, dreamt, nothing))

    def latents(self, batch: SequenceBatch, seed: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Returns (encoded observations [(L + 1) N, F], a draw of z, its mean and log standard deviation
        [L + 1, N, Z])."""
        length, count = batch.trajectory.mask.shape
        x = self.encoder(flatten_time(batch.trajectory.observation))
        shape = [length + 1, count, self.hparams.latents]
        mean, log_std = (tf.reshape(each, shape) for each in self.network.see(x))
        noise = random.normal(random.rows(seed), [count, length + 1, shape[-1]])
        return x, mean + tf.exp(log_std) * tf.transpose(noise, [1, 0, 2]), mean, log_std

    def remembered_along(self, batch: SequenceBatch, z: Tensor) -> tuple[Tensor, Nest]:
        """Returns m's output after each action [L, N, H], and its state after the last one, (h, c) [N, H]."""
        t = batch.trajectory
        codes = tf.reshape(self.actions.encode(flatten_time(t.action)), [*t.mask.shape, self.actions.size])
        before = t.recurrent_state["h"], t.recurrent_state["c"]
        return self.network.memory.unroll(tf.concat([z[:-1], codes], -1), before, t.mask)

    def loss(self, batch: SequenceBatch, seed: Tensor) -> Loss:
        """Returns the losses of V and M, of each sequence."""
        t, hparams = batch.trajectory, self.hparams
        x, z, mean, log_std = self.latents(batch, seed)
        decoded = self.heads.decode(tf.reshape(z, [-1, hparams.latents]))
        bits = tf.nn.sigmoid_cross_entropy_with_logits(x, decoded)
        error = tf.where(self.encoder.real > 0.0, 0.5 * tf.square(decoded - x), bits)
        decoder_loss = tf.reshape(tf.reduce_sum(error, -1), z.shape[:2])  # [L + 1, N]
        kl = tf.reduce_sum(mixtures.standard_kl(mean, log_std), -1)
        z = tf.stop_gradient(z)
        following = self.heads.foresee(self.remembered_along(batch, z)[0])
        latent_loss = -tf.reduce_sum(mixtures.log_prob(z[1:], *following[:3]), -1)  # [L, N]
        reward_loss = 0.5 * tf.square(following.reward - t.reward)
        ended = tf.cast(t.terminated, tf.float32)
        ending = tf.nn.sigmoid_cross_entropy_with_logits(ended, following.ends)
        seen = sequence.observed(t, self.rows_of_env)
        decoder_loss, kl = decoder_loss * seen, kl * seen
        vision = tf.reduce_mean(decoder_loss + hparams.kl_coef * kl, 0)
        memory = tf.reduce_mean((latent_loss + reward_loss + ending) * t.mask, 0)
        metrics = {
            "decoder_loss": tf.reduce_mean(decoder_loss, 0),
            "kl": tf.reduce_mean(kl, 0),
            "latent_loss": tf.reduce_mean(latent_loss * t.mask, 0),
            "reward_loss": tf.reduce_mean(reward_loss * t.mask, 0),
            "end_loss": tf.reduce_mean(ending * t.mask, 0),
        }
        found = {name: masked_mean(each, batch.mask) for name, each in metrics.items()}
        return (vision + memory) * batch.sample_weight * batch.mask, found, None

    # -- dreaming -------------------------------------------------------------------------------------

    def generation(self, batch: SequenceBatch, seed: Tensor) -> dict[str, Tensor]:
        """Makes one step of evolution, by dreams that begin where the sequences end."""
        draw, noise, dream = random.split(seed, 3)
        _, z, _, _ = self.latents(batch, draw)
        h, c = self.remembered_along(batch, z)[1]
        goes_on = batch.mask * sequence.goes_on(batch.trajectory, self.rows_of_env)  # [N]
        state = {name: replicas.gathered(each) for name, each in (("z", z[-1]), ("h", h), ("c", c))}
        self.population.resample(noise)
        returns = self.dream(state, dream)  # [P, N]
        goes_on = replicas.gathered(goes_on)
        score = tf.linalg.matvec(returns, goes_on) / tf.maximum(tf.reduce_sum(goes_on), 1.0)
        score = replicas.gathered(score)  # [P]
        members = Members(score, tf.convert_to_tensor(self.population.noise))
        self.evolve(shaped, members, self.controller.trainable_variables, self.optimizers["controller"])
        norm = tf.norm(evolution.flatten(self.controller.trainable_variables))
        scores = {"dream_return": tf.reduce_mean(score), "dream_return_max": tf.reduce_max(score)}
        return scores | {"controller_norm": norm}

    def dream(self, state: State, seed: Tensor) -> Tensor:
        """Computes the returns [P, N] of each member of the population in dreams from N states."""
        hparams, length = self.hparams, self.hparams.dream_length
        count, size = state["z"].shape
        members = hparams.population // replicas.count()
        shape = [length, count, size]
        gumbel = random.gumbel(random.fold_in(seed, 0), [*shape, hparams.mixtures])
        normal = random.normal(random.fold_in(seed, 1), shape)
        state = {name: tf.repeat(each[None], members, 0) for name, each in state.items()}  # [P, N, ...]

        def body(t: Tensor, state: State, alive: Tensor, total: Tensor) -> tuple[Any, ...]:
            code = self.actions.greedy(self.population(features(state)))  # [P, N, A]
            state, reward, ends = self.imagine(state, code, tf.gather(gumbel, t), tf.gather(normal, t))
            return t + 1, state, alive * (1.0 - ends), total + alive * reward

        ones = tf.ones([members, count])
        return tf.while_loop(
            lambda t, *_: t < length,
            body,
            (tf.constant(0), state, ones, tf.zeros_like(ones)),
            maximum_iterations=length,
        )[-1]

    def imagine(
        self, state: State, code: Tensor, gumbel: Tensor, normal: Tensor
    ) -> tuple[State, Tensor, Tensor]:
        """Makes one step of dreams: states [P, N, ...] and codes of actions [P, N, A] to the next states,
        rewards and probabilities of the end [P, N]; noise [N, Z, K] and [N, Z], the same for all P."""
        lead = code.shape[:2]
        flat = {name: flatten_time(each) for name, each in state.items()}
        after = self.network.remember(flat, flatten_time(code))
        after = {name: tf.reshape(each, [*lead, -1]) for name, each in after.items()}
        found = self.heads.foresee(after["h"])
        z = mixtures.sample(found.logits, found.mean, found.log_std, gumbel, normal, self.hparams.temperature)
        return after | {"z": z}, found.reward, tf.sigmoid(found.ends)

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.population.variables | {"updates": self.updates}


def features(state: State) -> Tensor:
    """Returns c's input from states: z [..., Z] and h [..., H] joined, [..., Z + H]."""
    return tf.concat([state["z"], state["h"]], -1)


def shaped(members: Members) -> Loss:
    """Returns each member's negative rank by score, lower for a better one. Never differentiated."""
    return -evolution.centered_ranks(members.score), {}, None
