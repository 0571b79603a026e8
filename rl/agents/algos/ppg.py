"""PPG: phasic policy gradient, PPO whose policy learns from values in a phase of its own.

Cobbe et al. 2020, "Phasic policy gradient", https://arxiv.org/abs/2009.04416. Policy and value have networks
of their own, and the policy's network has a second value head. In the policy phase each rollout is learned
from as by PPO, `epochs` times. After `policy_iterations` rollouts the auxiliary phase passes `aux_epochs`
times over all of their states s, with the value's targets V' of then, on

    1/2 (V_aux(s) - V')^2 + beta_clone KL(pi_old(.|s) || pi(.|s)) + 1/2 (V(s) - V')^2

where V_aux is the second head, and pi_old the policy from before the phase. So the policy's layers learn what
values depend on, and the policy stays what it was.

With `model.shared` policy and value have one network, the paper's single-network variant. The first value's
gradient does not pass into it, as in the authors' code and in CleanRL: its hidden layers learn of values in
the auxiliary phase alone.

Deviations from the paper (1 to 3 are the authors' code's, https://github.com/openai/phasic-policy-gradient):

1. Where `value_epochs` equals `epochs`, as in the paper's experiments, policy and value learn together in one
   loss; a larger `value_epochs` is reached by further passes of the value alone. It may not be smaller.
2. Both losses of the auxiliary phase are one loss, with an optimizer of its own, whose moments the policy
   phase leaves alone.
3. Advantages are standardised, though per minibatch as in PPO here; the authors do so per rollout.
4. Minibatches of the auxiliary phase are of single steps; the authors' are of whole rollouts of some
   environments. For the same reason there is no recurrent form.
5. Value targets of a phase stay as they were computed, also where `normalize_reward` has changed its scale
   since, or the observations' normaliser its statistics.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf
from gymnasium import spaces

from rl.agents.algos.ppo import PPO, Minibatch
from rl.agents.algos.registry import register
from rl.agents.policy_gradient import over_minibatches
from rl.hparams.ppg import PPGHParams
from rl.models.networks import PhasicActorCritic
from rl.ops import loops, random
from rl.ops.distributions import parameter_count
from rl.ops.policy import clipped_value_loss, masked_mean
from rl.ops.trajectories import take
from rl.spaces import space_spec
from rl.types import Loss, Nest, Tensor, Trajectory, Update


class States(NamedTuple):
    """Observations of a phase's rollouts, and what its auxiliary phase learns from them."""

    observation: Nest  # [N, ...]
    target: Tensor  # [N] of the value
    mask: Tensor  # [N]
    old: Nest = ()  # of the policy before: parameters [N, K], log_std [N, K] (of Box actions, else ())


@register
class PPG(PPO):
    """Phasic policy gradient: discrete, multi-discrete, multi-binary and continuous actions."""

    hparams: PPGHParams
    hparams_type = PPGHParams
    recurrent = False  # minibatches of the auxiliary phase are single steps

    def build(self) -> None:
        super().build()
        hparams = self.hparams
        hparams.check_phase()  # of one device's part
        # A kernel is decayed by one optimizer, that of the policy phase.
        self.add_optimizer("auxiliary", self.network.trainable_variables, decayed=[])
        self.rows = hparams.num_envs * hparams.rollout_length  # of a rollout
        number, size = tf.TensorSpec([], tf.float32), self.rows * hparams.policy_iterations
        self.stored = tf.nest.map_structure(
            lambda each: tf.Variable(tf.zeros([size, *each.shape], each.dtype), trainable=False),
            States(space_spec(self.observation_space), number, number),
        )
        self.rollouts = tf.Variable(0, dtype=tf.int64, trainable=False, name="rollouts")  # of a phase, stored
        self._pack = loops.MetricPack()

    def make_network(self, name: str) -> PhasicActorCritic:
        log_std_init = self.hparams.log_std_init
        return PhasicActorCritic(
            self.hparams, self.encoder, self.action_space, self.initializers, log_std_init, name
        )

    @property
    def variables(self) -> dict[str, Any]:
        # "memory/": what each device and learner has of its own.
        leaves = tf.nest.flatten(self.stored)
        kept = {f"memory/phase_{i}": each for i, each in enumerate(leaves)}
        return super().variables | kept | {"rollouts": self.rollouts}

    # -- the policy phase -----------------------------------------------------------------------------

    def update(self, batch: Trajectory, seed: Tensor) -> Update:
        """Makes PPO's update and the value's further passes; after every `policy_iterations`-th rollout the
        auxiliary phase."""
        hparams, data = self.hparams, self._advantages(batch)
        update = self.learn_from(data, seed)
        if hparams.value_epochs > hparams.epochs:
            self.fit_value(data, seed)
        self.store(data)
        phase_seed = random.fold_in(seed, hparams.value_epochs)  # lower numbers are of the passes above
        full = self.rollouts >= hparams.policy_iterations
        metrics = loops.where(full, self._pack, lambda: self.auxiliary_phase(phase_seed))
        self.rollouts.assign(self.rollouts % hparams.policy_iterations)
        return Update(update.metrics | metrics)

    def fit_value(self, data: Minibatch, seed: Tensor) -> None:
        """Makes the passes of the value alone, which are beyond `epochs`."""
        hparams, variables = self.hparams, self.network.value_variables

        def step(part: Minibatch) -> dict[str, Tensor]:
            return self.gradient_step(part, seed, loss=self.value_loss, variables=variables).metrics

        epochs = hparams.value_epochs - hparams.epochs
        over_minibatches(step, data, epochs, hparams.minibatches, seed, first=hparams.epochs)

    def value_loss(self, batch: Minibatch, seed: Tensor) -> Loss:
        """Returns the value's part of PPO's loss."""
        value, clip_range = self.network(batch.observation).value, self.annealed("clip_value_range")
        loss = clipped_value_loss(value, batch.value, batch.target, clip_range)
        return self.hparams.value_coef * loss * batch.mask, {}, None

    def store(self, data: Minibatch) -> None:
        """Keeps a rollout's states, [T * B] each, for the auxiliary phase."""
        place = tf.cast(self.rollouts, tf.int32) * self.rows + tf.range(self.rows)
        new = States(data.observation, data.target, data.mask)
        for variable, value in zip(tf.nest.flatten(self.stored), tf.nest.flatten(new), strict=True):
            variable.scatter_update(tf.IndexedSlices(tf.cast(value, variable.dtype), place))
        self.rollouts.assign_add(1)

    # -- the auxiliary phase --------------------------------------------------------------------------

    def auxiliary_phase(self, seed: Tensor) -> loops.Metrics:
        """Passes `aux_epochs` times over the stored states, in `aux_minibatches` parts of another order each
        time; returns the means of its metrics."""
        parts = self.hparams.aux_minibatches
        states = self.stored._replace(old=self.present_policy())

        def one_epoch(epoch: Tensor) -> dict[str, Tensor]:
            # Rows are gathered where they are used: a copy of all states in another order may be too large.
            order = random.permutation(random.fold_in(seed, epoch), states.mask.shape[0])
            order = tf.reshape(order, [parts, -1])

            def one_minibatch(i: Tensor) -> dict[str, Tensor]:
                part = take(states, tf.gather(order, i))
                return self.gradient_step(part, seed, "auxiliary", self.auxiliary_loss).metrics

            return loops.repeat(parts, one_minibatch)[0]

        metrics, _ = loops.repeat(self.hparams.aux_epochs, one_epoch)
        return {f"aux_{name}": loops.Last(value) for name, value in metrics.items()}

    def present_policy(self) -> Nest:
        """Returns the parameters of the policy in all stored states, as in `States.old`; in parts, whose
        layers need no more memory than those of a minibatch."""
        size, width = self.stored.mask.shape[0], parameter_count(self.action_space)
        places = tf.reshape(tf.range(size), [self.hparams.aux_minibatches, -1])

        def of_part(place: Tensor) -> Nest:
            observation = take(self.stored.observation, place)
            output = self.network(observation)
            if output.log_std is None:
                return output.parameters, ()
            return output.parameters, output.log_std + tf.zeros_like(output.parameters)

        spec = tf.TensorSpec([places.shape[1], width], tf.float32)
        of_box = isinstance(self.action_space, spaces.Box)
        found = tf.map_fn(of_part, places, fn_output_signature=(spec, spec if of_box else ()))
        return tf.nest.map_structure(lambda x: tf.reshape(x, [size, width]), found)

    def auxiliary_loss(self, batch: States, seed: Tensor) -> Loss:
        """Returns the joint loss of the second value head and the policy, and the value's own."""
        output = self.network(batch.observation)
        parameters, log_std = batch.old
        old = self.output(output._replace(parameters=parameters, log_std=log_std)).distribution
        kl = old.kl(self.output(output).distribution)  # [N]
        auxiliary = 0.5 * tf.square(output.auxiliary_value - batch.target)
        value = 0.5 * tf.square(output.value - batch.target)
        metrics = {
            "value_loss": masked_mean(auxiliary, batch.mask),
            "true_value_loss": masked_mean(value, batch.mask),
            "kl": masked_mean(kl, batch.mask),
        }
        return (auxiliary + self.hparams.beta_clone * kl + value) * batch.mask, metrics, None
