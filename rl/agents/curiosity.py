"""Curiosity: intrinsic rewards for novelty, added to the environment's, for any algorithm.

* ICM, Pathak et al. 2017, https://arxiv.org/abs/1705.05363: the error of a forward model in a space of
  features that an inverse model learns.
* RND, Burda et al. 2018, https://arxiv.org/abs/1810.12894: the error in predicting the features that a fixed
  random network has of an observation.

It is part of the "reward" step of `rl/runners/iteration.py`. A rollout of an on-policy algorithm gets its
bonus first; then the modules learn from it, in `curiosity_minibatches` parts. With a replay memory, each
batch gets its bonus when it is sampled, by the present modules: a stored bonus would keep drawing the policy
to states that are no longer new. The modules then learn from that batch.

Deviations from the papers:

1. Both rewards are added up and share one value function and the environment's discount, so that intrinsic
   returns end with an episode. RND's authors keep two values, the intrinsic one across episodes.
2. Observations are whitened in all their numbers, all frames of a stack included; the statistics include the
   rollout that is rewarded, so that no random steps are needed at the start.
3. RND's predictor learns from all of a rollout, ICM's learning rate stands for its lambda: the policy's loss
   has weight 1.
4. An n-step transition of a memory gets one bonus, that of the step from its first to its last observation.
5. Continuous actions: the inverse model's likelihood is a Gaussian's of deviation 1.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from rl.agents.guard import Guard
from rl.agents.optimizers import OPTIMIZERS
from rl.hparams.hparams import HParams
from rl.models.contracts import named_variables
from rl.models.curiosity import Features, Perceptron
from rl.models.layers import Initializers, ObservationEncoder
from rl.ops import curiosity, loops, random
from rl.ops.distributions import of_space, parameter_count
from rl.ops.nests import flatten_time, without_last
from rl.ops.normalize import Moments, RewardScale, no_moments, observe_moments
from rl.ops.policy import masked_mean
from rl.ops.trajectories import take
from rl.types import Batch, Nest, SequenceBatch, Tensor, Trajectory, Update

FORWARD_SHARE = 0.2  # ICM's beta (Pathak et al. 2017, section 4.2)
GAMMA = 0.99  # of the intrinsic returns whose deviation divides RND's rewards (Burda et al. 2018, table 5)
OTHER_WEIGHTS = 7919  # added to a run's seed: the policy's networks have those of the seed itself
SHUFFLE = 2**30  # what an iteration's seed is folded with for minibatches


class Moves(NamedTuple):
    """Steps from one observation to another."""

    observation: Nest  # [N, ...]
    action: Nest  # [N, ...]
    next_observation: Nest  # [N, ...]
    mask: Tensor  # [N] float32: 0 where there was none


class Curiosity:
    """Base of ICM and RND: adds the bonus to rewards, and trains the networks.

    A subclass makes its networks in `build`, and implements `bonus` and `loss`.

    Args:
        hparams: `curiosity_*`, and `model` for the networks' shapes.
        observation_space: of one environment.
        action_space: likewise.
        seed: of the run.
        workers: how many processes send rollouts; None: one makes them all.
    """

    networks: dict[str, keras.Model]
    learning: tuple[str, ...]  # names of the networks that learn

    def __init__(
        self,
        hparams: HParams,
        observation_space: Any,
        action_space: Any,
        seed: int,
        workers: int | None = None,
    ):
        self.hparams, self.action_space, self.workers = hparams, action_space, workers
        initializers = Initializers(seed + OTHER_WEIGHTS, hparams.model.init)
        with initializers.within():
            self.encoder = ObservationEncoder(observation_space, False, action_space)
            self.build(initializers)
            self.optimizer = OPTIMIZERS["adam"](hparams.curiosity_lr, hparams)
        self.trained = [each for name in self.learning for each in self.networks[name].trainable_variables]
        self.optimizer.build(self.trained)
        self.optimizer.part = "curiosity"
        # It skips steps with NaN, too, but never gives up: that is left to the agent's guard.
        self._guard = Guard(patience=2**62)

    def build(self, initializers: Initializers) -> None:
        """Makes the networks, and says by `learning` which of them learn."""
        raise NotImplementedError

    def bonus(self, moves: Moves) -> Tensor:
        """Returns the intrinsic reward of each move, before `curiosity_coef`, float32 [N]."""
        raise NotImplementedError

    def loss(self, moves: Moves) -> Tensor:
        """Returns the loss of each move, float32 [N]."""
        raise NotImplementedError

    def observe(self, trajectory: Trajectory, worker: Tensor | None = None) -> None:
        """Updates statistics with a rollout [T, B], once for each; does nothing unless a subclass has some.

        worker: the number of the rollout's worker, int32 scalar.
        """

    @property
    def variables(self) -> dict[str, Any]:
        """All state by name, for checkpoints."""
        found = named_variables("optimizer", self.optimizer.variables)
        for name, network in self.networks.items():
            found |= named_variables(name, network.variables)
        return {f"curiosity/{name}": each for name, each in found.items()}

    def rewarded(self, experience: Any, seed: Tensor) -> tuple[Any, loops.Metrics]:
        """Returns a `Trajectory`, `Batch` or `SequenceBatch` with the intrinsic rewards added to its own, and
        the metrics of the learning from it, which follows.

        seed: int32 [2], which decides on minibatches.
        """
        moves = moves_of(experience)
        bonus = tf.stop_gradient(self.hparams.curiosity_coef * self.bonus(moves)) * moves.mask  # [N]
        if isinstance(experience, SequenceBatch):
            rest = experience.trajectory
            reward = rest.reward + tf.reshape(bonus, rest.reward.shape)
            found: Any = experience._replace(trajectory=rest._replace(reward=reward))
        else:
            found = experience._replace(reward=experience.reward + tf.reshape(bonus, experience.reward.shape))
        parts = self.hparams.curiosity_minibatches if isinstance(experience, Trajectory) else 1
        loss = self._learn(moves, parts, seed)
        finite = tf.where(tf.math.is_finite(bonus), bonus, 0.0)  # the agent's guard reports NaN
        return found, {"intrinsic_reward": masked_mean(finite, moves.mask), "curiosity_loss": loss}

    def _learn(self, moves: Moves, parts: int, seed: Tensor) -> Tensor:
        """Makes a gradient step on each of so many parts of the moves; returns the mean loss."""
        if parts == 1:
            return self._step(moves)
        count = moves.mask.shape[0]
        size = -(-count // parts)  # the last part is filled up from the first
        order = random.permutation(random.fold_in(seed, SHUFFLE), count)

        def one(i: Tensor) -> loops.Metrics:
            place = tf.gather(order, (i * size + tf.range(size)) % count)
            return {"loss": self._step(take(moves, place))}

        metrics, _ = loops.repeat(parts, one)
        return metrics["loss"]

    def _step(self, moves: Moves) -> Tensor:
        """Makes one gradient step; returns the loss. Skips the step and returns 0 on NaN or infinity."""
        with self._guard.update(moves):
            with tf.GradientTape() as tape:
                loss = masked_mean(self.loss(moves), moves.mask)
            gradients = tape.gradient(
                loss,
                [variable.value for variable in self.trained],
                unconnected_gradients=tf.UnconnectedGradients.ZERO,
            )
            self.optimizer.learning_rate.assign(self.hparams.curiosity_lr)
            self.optimizer.apply(gradients, self.trained)
            return self._guard.finish(Update({"loss": loss}), []).metrics["loss"]

    def _shape(self) -> tuple[int, ...]:
        """Returns the shape of an encoded observation: of an image, or flat."""
        shapes = self.encoder.shapes
        return shapes[0] if len(shapes) == 1 else (self.encoder.size,)


class ICM(Curiosity):
    """Rewards the prediction error of a forward model in learned features."""

    learning = ("features", "inverse", "forward")

    def build(self, initializers: Initializers) -> None:
        hparams, units = self.hparams, self.hparams.curiosity_features
        self.actions = ObservationEncoder(self.action_space, False, name="actions")
        answers = parameter_count(self.action_space)
        self.features = Features(hparams, self._shape(), units, initializers, "features")
        self.inverse = Perceptron(hparams, 2 * units, answers, initializers, "inverse")
        self.forward = Perceptron(hparams, units + self.actions.size, units, initializers, "forward")
        self.networks = {"features": self.features, "inverse": self.inverse, "forward": self.forward}

    def bonus(self, moves: Moves) -> Tensor:
        now, following = self._features(moves)
        return self._error(now, following, moves.action)

    def loss(self, moves: Moves) -> Tensor:
        now, following = self._features(moves)
        parameters = self.inverse(tf.concat([now, following], -1))
        distribution = of_space(self.action_space, parameters, tf.zeros([parameters.shape[-1]]))
        log_prob = distribution.log_prob(moves.action)
        return curiosity.icm_loss(log_prob, self._error(now, following, moves.action), FORWARD_SHARE)

    def _features(self, moves: Moves) -> tuple[Tensor, Tensor]:
        """Returns those of both observations, [N, K] each."""
        rows = [self.encoder(each) for each in (moves.observation, moves.next_observation)]
        now, following = tf.split(self.features(tf.concat(rows, 0)), 2)
        return now, following

    def _error(self, now: Tensor, following: Tensor, action: Nest) -> Tensor:
        predicted = self.forward(tf.concat([now, self.actions(action)], -1))
        return curiosity.forward_error(predicted, following)


class RND(Curiosity):
    """Rewards observations whose features, by a random network, are not yet predicted."""

    learning = ("predictor",)

    def build(self, initializers: Initializers) -> None:
        hparams, units = self.hparams, self.hparams.curiosity_features
        self.target = Features(hparams, self._shape(), units, initializers, "target")
        self.predictor = Features(hparams, self._shape(), units, initializers, "predictor", deep=True)
        self.networks = {"target": self.target, "predictor": self.predictor}
        self.moments = Moments(
            *(tf.Variable(each, trainable=False) for each in no_moments(self.encoder.size))
        )
        self.scale = RewardScale(hparams.num_envs, GAMMA, float("inf"), self.workers)

    def bonus(self, moves: Moves) -> Tensor:
        return self.scale.scaled(self.loss(moves))

    def loss(self, moves: Moves) -> Tensor:
        x = curiosity.whiten(
            self.encoder(moves.next_observation), self.moments.mean.value(), self.moments.variance.value()
        )
        return curiosity.distillation_error(self.predictor(x), tf.stop_gradient(self.target(x)))

    def observe(self, trajectory: Trajectory, worker: Tensor | None = None) -> None:
        """Updates the mean and deviation of observations, then the deviation of intrinsic returns, which
        continue across the ends of episodes."""
        moves = moves_of(trajectory)
        observe_moments(self.moments, self.encoder(moves.next_observation), tf.ones_like(moves.mask))
        error = tf.reshape(self.loss(moves), trajectory.mask.shape) * trajectory.mask  # [T, B]
        self.scale.observe(error, tf.zeros_like(trajectory.terminated), trajectory.mask, worker)

    @property
    def variables(self) -> dict[str, Any]:
        moments = {f"curiosity/observation/{name}": each for name, each in self.moments._asdict().items()}
        scale = {f"curiosity/{name}": each for name, each in self.scale.variables.items()}
        return super().variables | moments | scale


def moves_of(experience: Any) -> Moves:
    """Returns the steps of a `Trajectory`, `Batch` or `SequenceBatch`, flat."""
    if isinstance(experience, Batch):
        rows = experience
        return Moves(rows.observation, rows.action, rows.next_observation, rows.mask)
    steps = experience.trajectory if isinstance(experience, SequenceBatch) else experience
    now = without_last(steps.observation)
    following = tf.nest.map_structure(lambda x: x[1:], steps.observation)
    moves: Moves = flatten_time(Moves(now, steps.action, following, steps.mask))
    return moves


def rewarded(curious: Curiosity | None, experience: Any, seed: Tensor) -> tuple[Any, loops.Metrics]:
    """Returns `Curiosity.rewarded`; without curiosity the experience as it is, and no metrics."""
    return (experience, {}) if curious is None else curious.rewarded(experience, seed)


def make_curiosity(
    hparams: HParams, observation_space: Any, action_space: Any, seed: int, workers: int | None = None
) -> Curiosity | None:
    """Returns the curiosity module that the hparams name; None if they name none."""
    kinds: dict[str, type[Curiosity]] = {"icm": ICM, "rnd": RND}
    name = hparams.curiosity
    return None if name is None else kinds[name](hparams, observation_space, action_space, seed, workers)
