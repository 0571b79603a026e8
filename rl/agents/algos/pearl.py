"""PEARL: SAC that infers from experience which task it is in, and learns off-policy over many tasks.

Rakelly et al. 2019, "Efficient off-policy meta-reinforcement learning via probabilistic context variables",
https://arxiv.org/abs/1903.08254. A latent variable z identifies the task. Its posterior ("belief") after some
transitions c_n = (s, a, r, s') of the task, the context, is a product of Gaussian factors (section 4.1),

    q(z | c_1 ... c_N)  proportional to  product over n of N(f_mean(c_n), f_variance(c_n)),

whatever their order; without any it is the prior N(0, 1). To policy and critics, which are those of SAC
(`rl/agents/algos/sac.py`), z is a part of the observation. Algorithm 1: in each task z is drawn from the
belief for a whole episode, so that the policy explores by acting as in one task that is possible (posterior
sampling), and what it sees is added to the context. Updates draw tasks from the memory, and of each a
context, from which z is inferred, and other transitions, from which SAC learns with that z. The encoder f
learns from the critics' loss, through a sample of z (Kingma and Welling 2014), and from `kl_lambda` times
KL(q(z | c) || N(0, 1)), which keeps in z no more than the critics need; the actor's loss takes z as it is.

A rollout is a trial: of `inner_steps` + 1 parts in the same task, the first played with the prior, each other
one with the belief from the parts before. The memory keeps trials, each as a task of its own. A product of
normal distributions is a sum of natural parameters, so acting needs only two sums of a context, each of the
size of z (`rl/ops/gaussians.py`). Evaluations, exports and tests have no context, and use 0 for z;
`benchmarks/adaptation.py RUN` adapts a trained run to new tasks.

Deviations from the paper:

1. Tasks are drawn anew for each trial; the paper has a fixed set of them, each with a buffer of many trials.
2. In an update the context is drawn from the first k parts of a trial, k random in 1 ... `inner_steps`: what
   the policy's own belief is from. The paper draws it from what was collected last, of all of a task.
3. SAC is the later one, with a learned temperature and without a network for state values; the mean over a
   task's transitions is its loss, and the mean over tasks that of an update. The critics' squared error has
   SAC's 1/2, so `kl_lambda` weighs twice what the paper's does (the authors' code sums KL over the tasks).
4. Encoder and critics make one step of one optimizer, so that `max_grad_norm` is of both together.
5. Rewards are not scaled. The authors' code multiplies them by 5 or more, so that squared errors count 25
   times or more beside the KL: where rewards are small, `kl_lambda` has to be small too.
6. Without context, evaluations have the prior's mean for z, where training draws from the prior.
7. Those of SAC that are not about n-step and prioritized replay.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from rl.agents.algos.registry import register
from rl.agents.algos.sac import SAC
from rl.hparams.pearl import PEARLHParams
from rl.models.context import ContextEncoder, TaskEncoder
from rl.models.continuous import Actor, Critic
from rl.models.contracts import named_variables
from rl.ops import gaussians, mixtures, random
from rl.ops.episodes import part_returns
from rl.ops.nests import flatten_time, without_last
from rl.ops.policy import masked_mean
from rl.types import Batch, Loss, Nest, PolicyOutput, SequenceBatch, Tensor, Trajectory, Update


class Tasks(NamedTuple):
    """The context of N tasks, from which z is inferred, and the transitions from which SAC learns."""

    context: Batch  # [N, C, ...]
    replayed: Batch  # [N, M, ...]
    mask: Tensor  # [N]


@register
class PEARL(SAC):
    """Probabilistic embeddings of tasks for actor-critic: bounded continuous actions."""

    hparams: PEARLHParams
    hparams_type = PEARLHParams
    experience = "sequence"
    transient = ("returns",)  # a rollout sets them before its updates tell of them

    def build(self) -> None:
        hparams = self.hparams
        self.seen = TaskEncoder(self.encoder, hparams.latent_size)
        super().build()
        size, inputs = hparams.latent_size, self.actions.size
        context = ContextEncoder(hparams, self.encoder, inputs, size, self.initializers)
        self.context = self.add_network("context", context)
        variables = [*self.critic.trainable_variables, *context.trainable_variables]
        self.add_optimizer("critic", variables, hparams.critic_lr)
        # In no checkpoint: every rollout begins without context, and ends before updates tell of its returns.
        none = tf.zeros([hparams.num_envs, size])
        self.belief = gaussians.Sums(
            *(tf.Variable(none, trainable=False, name=name) for name in gaussians.Sums._fields)
        )
        self.returns = tf.Variable([0.0, 0.0], trainable=False, name="returns")  # before and after adapting

    def make_actor(self, name: str) -> Actor:
        return Actor(self.hparams, self.seen, 2 * self.actions.size, self.initializers, name)

    def make_critic(self, name: str) -> Critic:
        return Critic(self.hparams, self.seen, self.actions.size, self.initializers, self.critics, name=name)

    # -- acting ---------------------------------------------------------------------------------------

    def starting_state(self, count: int) -> Nest:
        return {"z": tf.zeros([count, self.hparams.latent_size]), "drawn": tf.zeros([count, 1])}

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        """Acts as `Agent.policy` says: in training z is drawn from the belief where an episode begins, and
        stays."""
        state = recurrent_state
        if training:
            mean, log_std = gaussians.product(gaussians.Sums(*map(tf.convert_to_tensor, self.belief)))
            drawn = mean + tf.exp(log_std) * random.normal(seed, mean.shape)
            z = tf.where(state["drawn"] > 0.0, state["z"], drawn)
            state = {"z": z, "drawn": tf.ones_like(state["drawn"])}
        output = super().policy((observation, state["z"]), (), seed, training)
        return output._replace(recurrent_state=state)

    def resample_noise(self, seed: Tensor) -> None:
        """Forgets all context: a trial begins in every environment."""
        super().resample_noise(seed)
        for each in self.belief:
            each.assign(tf.zeros_like(each))

    @property
    def acts_with_noise(self) -> bool:
        return True

    def adapt(self, trajectory: Trajectory) -> None:
        """Does what `rl.agents.contracts.Adapts` says: adds what was seen to the belief of each task."""
        seen = without_last(trajectory.observation)
        following = tf.nest.map_structure(lambda x: x[1:], trajectory.observation)
        flat = flatten_time((seen, trajectory.action, trajectory.reward, following))
        mean, variance = (tf.reshape(x, [*trajectory.mask.shape, -1]) for x in self.factors(*flat))
        episodes = self.hparams.task_episodes
        for variable, x in zip(
            self.belief, gaussians.sums(mean, variance, trajectory.mask, axis=0), strict=True
        ):
            of_task = tf.reduce_sum(tf.reshape(x, [-1, episodes, x.shape[1]]), 1)
            variable.assign_add(tf.repeat(of_task, episodes, 0))

    def factors(
        self, observation: Nest, action: Tensor, reward: Tensor, following: Nest
    ) -> tuple[Tensor, Tensor]:
        """Returns (mean, variance) [N, Z] of the factors that N transitions are to the belief."""
        code = self.actions.clipped_code(action)
        found: tuple[Tensor, Tensor] = self.context(observation, code, reward, following)
        return found

    def remembered(self, trajectory: Trajectory, seed: Tensor) -> Trajectory:
        """Returns the rollout as it was played; notes what it returned before and after it was adapted to."""
        played = tf.reduce_mean(part_returns(trajectory, self.hparams.inner_steps + 1), 1)
        self.returns.assign(tf.stack([played[0], played[-1]]))
        return trajectory

    # -- learning -------------------------------------------------------------------------------------

    def update(self, batch: Any, seed: Tensor) -> Update:
        """Makes a step of critics and encoder, one of the actor, and what follows them, on a
        `SequenceBatch`."""
        draw_seed, critic_seed, policy_seed = random.split(seed, 3)
        tasks: Any = self.drawn(batch, draw_seed)
        critic = self.gradient_step(tasks, critic_seed, "critic")
        kept = self.policy_step(tasks, policy_seed)
        self.after_update()
        returns = tf.convert_to_tensor(self.returns)
        told = {"return_before": returns[0], "return_after": returns[1]}
        return Update(critic.metrics | kept | told)

    def drawn(self, batch: SequenceBatch, seed: Tensor) -> Tasks:
        """Returns, of N trials [L, N], the context and the transitions that an update is of."""
        hparams, trajectory = self.hparams, batch.trajectory
        count_seed, context_seed, replay_seed = (random.rows(each) for each in random.split(seed, 3))
        mask = tf.transpose(trajectory.mask)  # [N, L]
        count = mask.shape[0]
        parts = 1 + random.randint(count_seed, [count, 1], hparams.inner_steps)  # [N, 1]
        early = tf.range(mask.shape[1]) < parts * hparams.part_length  # [N, L]
        of_context = random.places(context_seed, mask * tf.cast(early, tf.float32), hparams.context_size)
        of_replay = random.places(replay_seed, mask, hparams.replay_size)
        return Tasks(
            self.transitions(trajectory, of_context), self.transitions(trajectory, of_replay), batch.mask
        )

    def transitions(self, trajectory: Trajectory, place: Tensor) -> Batch:
        """Returns what trajectories [L, N] have at the steps `place` [N, M], as [N, M, ...]."""
        count = place.shape[0]
        index = place * count + tf.range(count)[:, None]  # [N, M] of time and task as one axis

        def at(nest: Nest, index: Tensor) -> Nest:
            return tf.nest.map_structure(lambda x: tf.gather(tf.reshape(x, [-1, *x.shape[2:]]), index), nest)

        going = 1.0 - tf.cast(at(trajectory.terminated, index), tf.float32)
        return Batch(
            observation=at(trajectory.observation, index),
            action=at(trajectory.action, index),
            reward=at(trajectory.reward, index),
            discount=self.hparams.gamma * going,
            next_observation=at(trajectory.observation, index + count),
            sample_weight=tf.ones(place.shape),
            index=index,
            mask=at(trajectory.mask, index),
        )

    def infer(self, context: Batch, seed: Tensor) -> tuple[Tensor, Tensor]:
        """Returns (z [N, Z] drawn from the belief, through which gradients flow, its KL from the prior
        [N])."""
        flat = flatten_time((context.observation, context.action, context.reward, context.next_observation))
        mean, variance = (tf.reshape(x, [*context.mask.shape, -1]) for x in self.factors(*flat))
        mean, log_std = gaussians.product(gaussians.sums(mean, variance, context.mask, axis=1))
        z = mean + tf.exp(log_std) * random.normal(random.rows(seed), mean.shape)
        return z, tf.reduce_sum(mixtures.standard_kl(mean, log_std), -1)

    def beside(self, tasks: Tasks, z: Tensor) -> Batch:
        """Returns the transitions SAC learns from, [N * M, ...], with the z of their task in the
        observations."""
        batch: Batch = flatten_time(tasks.replayed)
        each = tf.repeat(z, tasks.replayed.mask.shape[1], 0)
        mask = tf.repeat(tasks.mask, tasks.replayed.mask.shape[1], 0)
        return batch._replace(
            observation=(batch.observation, each),
            next_observation=(batch.next_observation, each),
            mask=batch.mask * mask,
        )

    def loss(self, batch: Any, seed: Tensor) -> Loss:
        """Returns the loss of critics and encoder for each of the `Tasks`."""
        z_seed, critic_seed = random.split(seed, 2)
        z, kl = self.infer(batch.context, z_seed)
        loss, metrics, _ = super().loss(self.beside(batch, z), critic_seed)
        metrics |= {"kl": masked_mean(kl, batch.mask)}
        return self.of_tasks(loss, batch) + self.hparams.kl_lambda * kl * batch.mask, metrics, None

    def policy_loss(self, batch: Any, seed: Tensor) -> Loss:
        z_seed, policy_seed = random.split(seed, 2)
        z = tf.stop_gradient(self.infer(batch.context, z_seed)[0])
        loss, metrics, _ = super().policy_loss(self.beside(batch, z), policy_seed)
        return self.of_tasks(loss, batch), metrics, None

    def of_tasks(self, loss: Tensor, tasks: Tasks) -> Tensor:
        """Returns the mean over the transitions of each task, [N], of a loss [N * M]."""
        return tf.reduce_mean(tf.reshape(loss, tasks.replayed.mask.shape), 1)

    @property
    def policy_variables(self) -> dict[str, Any]:
        """As `Agent.policy_variables`: whoever acts in a task adapts to it, too."""
        return super().policy_variables | named_variables("context", self.context.variables)

    @property
    def acting_variables(self) -> dict[str, Any]:
        belief = {f"belief/{name}": x for name, x in self.belief._asdict().items()}
        return super().acting_variables | belief
