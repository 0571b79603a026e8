"""MB-MPO: a policy that adapts to each model of an ensemble by one step of its gradient.

Clavera et al. 2018, "Model-based reinforcement learning via meta-policy optimization",
https://arxiv.org/abs/1809.05214 (algorithm 1). An ensemble of networks learns the environment's dynamics,
each from a bootstrap sample of what was played (`rl/models/dynamics.py`). Each member k is a task of MAML
(`rl/agents/algos/maml.py`): in it the policy of the weights theta plays imagined episodes, of which a policy
gradient step makes weights of the member's own, theta_k. These imagine as many episodes again, and theta
follows the gradient of their return through that step. So theta need not be optimal in any of the models,
which are all wrong in different ways: one gradient step away from an optimum in each is enough. The next
rollout is played by the weights that the last meta-update adapted, environment i by those of member i modulo
`members`.

Evaluations, exports and tests use theta, before it adapts.

Deviations from the paper:

1. Members predict Gaussians, of rewards too, and the chance of a terminal state; the paper's are
   deterministic, and the task's reward is known. What is predicted is brought within the observations' space.
2. Before each meta-update the ensemble makes `dynamics_steps` gradient steps. The paper trains it after every
   rollout, until its error on held-out data no longer falls; nothing is held out here.
3. A member's bootstrap sample is decided by a transition's place in the memory.
4. Imagined episodes begin in replayed states, those before and after the step in the same ones, and are
   `horizon` steps long at most, after which nothing counts; the paper's begin where the environment's do.
5. Rollouts are of fixed length, and go on where the last one stopped, by whatever weights are adapted then.
6. Those of MAML about PPO's surrogate in place of TRPO, and about continuous actions.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.maml import MAML, Steps, Trials
from rl.agents.algos.registry import register
from rl.errors import UsageError
from rl.hparams.mbmpo import MBMPOHParams
from rl.models.continuous import actions_of
from rl.models.dynamics import Dynamics
from rl.models.images import for_images
from rl.models.population import with_weights
from rl.ops import distributions, loops, random
from rl.ops import dynamics as ops
from rl.ops.rows import Rows
from rl.ops.trajectories import take
from rl.parallel import replicas
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor, Trajectory, Update


@register
class MBMPO(MAML[MBMPOHParams]):
    """Model-based meta-policy optimization: MAML whose tasks are learned dynamics."""

    experience = "transition"
    action_spaces = (spaces.Discrete, spaces.Box)
    trajectory_extras = ()

    def build(self) -> None:
        hparams = self.hparams
        if for_images(hparams.model.name):
            raise UsageError(
                f"mbmpo's ensemble foresees lists of numbers, model.name={hparams.model.name} sees pictures: "
                "take mlp, or another algorithm, such as dreamer"
            )
        super().build()
        self.actions = actions_of(self.action_space, hparams.algo)
        ensemble = Dynamics(
            hparams.members,
            hparams.dynamics_hidden,
            self.observation_space,
            self.actions.size,
            self.initializers,
        )
        self.dynamics = self.add_network("dynamics", ensemble)
        self.add_optimizer("dynamics", self.dynamics.trainable_variables, hparams.dynamics_lr)
        self.first = 0  # of all environments that are played, the first one that this agent acts for

    @property
    def tasks(self) -> int:
        return self.hparams.members

    def updates_per_iteration(self) -> int:
        return self.hparams.updates_per_iteration

    # -- acting, by weights that the last update adapted -----------------------------------------------

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        if not training:
            return super().policy(observation, recurrent_state, seed, training)
        count = tf.nest.flatten(observation)[0].shape[0]
        member = [(self.first + i) % self.tasks for i in range(count)]
        weights = [tf.gather(tf.convert_to_tensor(each), member) for each in self.task_weights]
        single = tf.nest.map_structure(lambda x: x[:, None], observation)  # [N, 1, ...]
        found = with_weights(self.network, weights, single, self.network.numbers)
        found = [x[:, 0] for x in found]
        return PolicyOutput(distribution=distributions.of_space(self.action_space, *found))

    def act_for(self, first: int, count: int, total: int) -> None:
        super().act_for(first, count, total)
        self.first = first

    def resample_noise(self, seed: Tensor) -> None:
        """Leaves the members' weights as the last update adapted them."""
        Agent.resample_noise(self, seed)

    @property
    def acts_with_noise(self) -> bool:
        return False

    # -- learning -------------------------------------------------------------------------------------

    def update(self, batch: Any, seed: Tensor) -> Update:
        """Steps of the ensemble on a `Batch`, then a meta-update by what is imagined in each member."""
        model_seed, imagine_seed, meta_seed = random.split(seed, 3)
        learned = self.dynamics_steps(batch, model_seed)
        trials, weights, played = self.adapted(batch, imagine_seed)
        self._assign([replicas.mean(each) for each in weights])  # who plays next
        metrics, _ = self.meta_steps(trials, meta_seed)
        return Update(metrics | learned | played)

    def adapted(self, batch: Batch, seed: Tensor) -> tuple[Trials, list[Tensor], dict[str, Tensor]]:
        """Returns (what is imagined before and after the inner steps in each member, weights after them,
        metrics)."""
        weights, outcomes = self._unadapted(), []
        parts: list[Steps] = []
        for i in range(self.hparams.inner_steps + 1):
            if i:
                weights = self.inner_step(weights, parts[-1])
            episodes = self.imagine(batch, weights, random.fold_in(seed, i))
            parts.append(self.steps(episodes))
            outcomes.append(tf.reduce_sum(episodes.reward * episodes.mask, 0))  # [B]
        before, after = (tf.reduce_mean(each) for each in (outcomes[0], outcomes[-1]))
        trials = Trials(tuple(parts[:-1]), parts[-1])
        return trials, weights, {"return_before": before, "return_after": after}

    def dynamics_steps(self, batch: Batch, seed: Tensor) -> dict[str, Any]:
        """Makes gradient steps of the ensemble, each on transitions drawn from the batch; returns their
        metrics."""
        hparams, count = self.hparams, batch.mask.shape[0]
        batch = batch._replace(next_action=())
        self.dynamics.observe(batch, self.actions.encode(batch.action))
        chosen = random.randint(seed, [hparams.dynamics_steps, hparams.dynamics_batch_size], count)

        def step(i: Tensor) -> dict[str, Any]:
            part = take(batch, tf.gather(chosen, i))
            found = self.gradient_step(part, random.fold_in(seed, i), "dynamics", self.dynamics_loss).metrics
            return {"dynamics_loss": found["loss"], "dynamics_grad_norm": found["grad_norm"]}

        return loops.repeat(hparams.dynamics_steps, step)[0]

    def dynamics_loss(self, batch: Batch, seed: Tensor) -> Loss:
        """Returns the ensemble's loss: of each member, a transition counts as often as it is in its bootstrap
        sample."""
        losses = self.dynamics.losses(batch, self.actions.encode(batch.action))  # [M, N]
        counts = ops.bootstrap(batch.index, self.hparams.members)
        return tf.reduce_mean(counts * losses, 0) * batch.mask, {}, None

    def imagine(self, batch: Batch, weights: list[Tensor], seed: Tensor) -> Trajectory:
        """Returns episodes [horizon, members * task_episodes], those of a member side by side, of the
        policies with weights [members, *shape], from the first observations of the batch on."""
        horizon, rows = self.hparams.horizon, self.tasks * self.hparams.task_episodes
        seeds = random.split_array(seed, [horizon, 3])
        first, mask = tf.nest.map_structure(lambda x: x[:rows], (batch.observation, batch.mask))
        row = first, batch.action[:rows], mask, mask > 0.0, mask, mask
        kept = Rows(tf.nest.map_structure(lambda x: tf.TensorSpec(x.shape, x.dtype), row), horizon)

        def body(t: Tensor, observation: Nest, alive: Tensor, arrays: list[Any]) -> tuple[Any, ...]:
            step = self.imagined_step(observation, weights, tf.gather(seeds, t))
            following, action, reward, terminated, log_prob = step
            row = observation, action, reward, terminated, alive, log_prob
            return t + 1, following, tf.where(terminated, 0.0, alive), kept.write(arrays, t, row)

        state = (tf.constant(0), first, mask, kept.arrays())
        _, last, _, arrays = tf.while_loop(lambda t, *_: t < horizon, body, state, maximum_iterations=horizon)
        seen, action, reward, terminated, mask, log_prob = kept.stack(arrays)
        seen = tf.nest.map_structure(lambda x, y: tf.concat([x, y[None]], 0), seen, last)
        return Trajectory(
            seen, action, reward, terminated, tf.zeros_like(terminated), mask, {"log_prob": log_prob}
        )

    def imagined_step(self, observation: Nest, weights: list[Tensor], seeds: Tensor) -> tuple[Any, ...]:
        """Makes a step from observations [members * N, ...], of each member by its own policy and dynamics:
        (the next observation, action, reward, whether it terminated, log-probability of the action) of
        each."""
        act_seed, noise_seed, end_seed = (random.rows(each) for each in tf.unstack(seeds))
        by_member = tf.nest.map_structure(
            lambda x: tf.reshape(x, [self.tasks, -1, *x.shape[1:]]), observation
        )
        distribution = self.distribution(weights, by_member)
        action = distribution.sample(act_seed)
        predicted = self.dynamics.apart(observation, self.actions.encode(action))
        count = predicted.ends.shape.num_elements()
        mean, log_variance = (tf.reshape(x, [count, -1]) for x in predicted[:2])
        change = mean + tf.exp(0.5 * log_variance) * random.normal(noise_seed, mean.shape)
        following, reward = self.dynamics.following(observation, change)
        terminated = random.uniform(end_seed, [count]) < tf.sigmoid(tf.reshape(predicted.ends, [count]))
        return following, action, reward, terminated, distribution.log_prob(action)

    @property
    def learned_beside(self) -> dict[str, Any]:
        """See `rl.agents.contracts.LearnsBeside`: the members' policies, which play until the next update."""
        return {name: each for name, each in self.acting_variables.items() if name.startswith("tasks/")}

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.acting_variables
