"""Fitted Q evaluation: learns the action values of a given policy from data.

Le, Voloshin & Yue 2019, "Batch policy learning under constraints", https://arxiv.org/abs/1903.08738,
algorithm 3: Q is fitted by least squares to r + gamma Q_target(s', pi(s')) on the data's transitions.

Deviations from the paper:

1. The target network follows by `tau` in each update; the paper's is the result of the last of K regressions.
2. For discrete actions, the target is the expectation over the policy's next action; for others the value of
   one action, or the mean over a few samples (`DataPolicy.actions`).
3. `critics` networks are fitted side by side, each to a target of its own; the estimate is their mean.
4. Targets are clipped to the returns that the data's least and greatest reward allow, and networks have layer
   normalisation, so that bootstrapped values do not diverge.
5. Rewards are divided by the largest discounted return in the data meanwhile, and networks see standardised
   observations.
"""

from __future__ import annotations

import dataclasses
from typing import Any, Literal, NamedTuple

import numpy as np
import tensorflow as tf
from gymnasium import spaces
from pydantic import Field

from rl.agents.agent import Agent
from rl.agents.targets import copy_weights
from rl.data.dataset import Dataset
from rl.errors import UsageError, nearest
from rl.estimate.behaviour import fit, model_of
from rl.estimate.policy import DataPolicy, in_blocks
from rl.hparams.hparams import HParams, PositiveFloat, PositiveInt
from rl.models.continuous import BoxActions, Critic, box_range
from rl.ops.policy import masked_mean
from rl.ops.value import select
from rl.spaces import space_spec
from rl.types import Batch, Loss, Nest, PolicyOutput, Tensor


class FQEHParams(HParams):
    """What fitted Q evaluation has, beside what every algorithm has."""

    algo: str = "fqe"
    memory: str = "dataset"
    normalize_observation: bool = True
    train_steps: PositiveInt = 20_000
    lr: PositiveFloat = 1e-3
    lr_schedule: Literal["constant", "linear", "exponential", "polynomial", "cosine"] = "linear"
    adam_epsilon: PositiveFloat = 1e-8

    batch_size: PositiveInt = 256  # transitions of an update
    updates_per_iteration: PositiveInt = 50  # gradient updates between two looks at the learning rate
    critics: PositiveInt = 2  # networks side by side, whose mean is the estimate
    tau: float = Field(default=0.05, gt=0, le=1)  # target <- tau * online + (1 - tau) * target


# What else of an agent's hparams a fit reads: the optimizer's.
OPTIMIZED = "optimizer", "lr_end", "lr_decay_rate", "lr_power", "weight_decay", "max_grad_norm", "compile"


class Values(NamedTuple):
    """A policy's values at the data, estimated."""

    q: np.ndarray  # [N] float64, of the steps' observations and actions
    value: np.ndarray  # [N + E] float64, of all observations


class FQE(Agent[FQEHParams]):
    """The values of a policy; `network` gives them, and nothing acts by it.

    Args:
        hparams: of the fit.
        data: of which spaces they are.
        following: the policy's probabilities [N, A], or its actions [N, M, ...], at each step's next
            observation.
        seed: of the initial weights.
    """

    transient = ("_following",)  # given with the data, never learned
    experience = "transition"
    action_spaces = (spaces.Discrete, spaces.Box)

    def __init__(self, hparams: FQEHParams, data: Dataset, following: np.ndarray, seed: int):
        most = 1.0 / max(1.0 - hparams.gamma, 1.0 / data.lengths.sum())  # steps that rewards can come from
        self._limits = min(0.0, float(data.reward.min())) * most, max(0.0, float(data.reward.max())) * most
        self._following = tf.Variable(following, dtype=tf.float32, trainable=False)
        super().__init__(hparams, data.observation_space, data.action_space, seed)

    def build(self) -> None:
        space = self.action_space
        self.discrete = isinstance(space, spaces.Discrete)
        self._bounded = None
        if isinstance(space, spaces.Box) and np.isfinite(box_range(space)[1]).all():
            self._bounded = BoxActions(space, "fqe")
        size = 0 if self.discrete else int(np.prod(space.shape))
        outputs = int(space.n) if self.discrete else 1
        for name in ("network", "target_network"):
            parts = self.hparams, self.encoder, size, self.initializers
            self.add_network(name, Critic(*parts, count=self.hparams.critics, outputs=outputs, name=name))
        self.add_optimizer("network", self.networks["network"].trainable_variables)
        copy_weights(self.networks["network"], self.networks["target_network"], 1.0)

    def policy(self, observation: Nest, recurrent_state: Nest, seed: Tensor, training: bool) -> PolicyOutput:
        """Raises TypeError always: fitted Q evaluation values a policy, and is none."""
        raise TypeError("fitted Q evaluation values a policy, and is none")

    def after_update(self) -> None:
        copy_weights(self.networks["network"], self.networks["target_network"], self.hparams.tau)

    def loss(self, batch: Batch, seed: Tensor) -> Loss:
        following = tf.gather(self._following, batch.index)
        value = self.value(batch.next_observation, following, "target_network")  # [C, N]
        value = tf.clip_by_value(value, *self._limits)
        target = tf.stop_gradient(batch.reward + batch.discount * value)
        error = target - self.q(batch.observation, batch.action)  # [C, N]
        loss = 0.5 * tf.reduce_sum(tf.square(error), 0)
        size = tf.reduce_mean(tf.abs(error), 0)
        return loss * batch.mask, {"td_error": masked_mean(size, batch.mask)}, None

    def q(self, observation: Nest, action: Tensor, name: str = "network") -> Tensor:
        """Returns the values of actions [N, ...] at observations [N, ...] by each critic, [C, N], of the
        networks that `name` names."""
        network = self.networks[name]
        if not self.discrete:
            return network(observation, self._code(action))[:, :, 0]
        values = network(observation)  # [C, N, A]
        return select(values, tf.broadcast_to(action, values.shape[:2]))

    def value(self, observation: Nest, policy: Tensor, name: str = "network") -> Tensor:
        """Returns the values of observations [N, ...] by each critic, [C, N], of the networks that `name`
        names. policy: its probabilities [N, A] of discrete actions, or its actions [N, M, ...]."""
        if self.discrete:
            return tf.reduce_sum(self.networks[name](observation) * policy, -1)
        count = policy.shape[1]
        rows = tf.nest.map_structure(lambda x: tf.repeat(x, count, 0), observation)  # [N M, ...]
        actions = tf.reshape(policy, [policy.shape[0] * count, *policy.shape[2:]])
        values = self.q(rows, actions, name)  # [C, N M]
        return tf.reduce_mean(tf.reshape(values, [values.shape[0], policy.shape[0], count]), -1)

    def _code(self, action: Tensor) -> Tensor:
        """Actions as the critics see them, [N, K]; those beyond a bound are what was played."""
        if self._bounded is not None:
            return tf.clip_by_value(self._bounded.encode(action), -1.0, 1.0)
        return tf.reshape(action, [action.shape[0], int(np.prod(self.action_space.shape))])


def fitted(policy: DataPolicy, data: Dataset, hparams: FQEHParams, seed: int) -> tuple[Values, float]:
    """Fits the values of a policy; returns them, and the mean absolute TD error at the end, in units of
    rewards.

    Raises:
        UsageError: actions are of another kind than Discrete and Box.
        NotFinite: the fit came to NaN or infinity.
    """
    space = data.action_space
    if not isinstance(space, FQE.action_spaces):
        raise UsageError(f"fitted Q evaluation is for Discrete and Box actions, and the data have {space}")
    discrete = isinstance(space, spaces.Discrete)
    of_policy = policy.probabilities() if discrete else policy.actions()  # [N + E, ...]
    before = data.places
    scale = float(np.abs(data.returns_to_go(hparams.gamma)).max()) or 1.0
    scaled = dataclasses.replace(data, reward=np.asarray(data.reward / scale, np.float32))
    agent = FQE(hparams, scaled, of_policy[before + 1], seed)
    error = fit(agent, scaled, seed)["train/td_error"]

    @tf.function(autograph=False)
    def value(observation: Nest, by_policy: Tensor) -> Tensor:
        return tf.reduce_mean(agent.value(observation, by_policy), 0)

    @tf.function(autograph=False)
    def q(observation: Nest, action: Tensor) -> Tensor:
        return tf.reduce_mean(agent.q(observation, action), 0)

    seen, done = space_spec(data.observation_space), space_spec(space)
    steps = tf.nest.map_structure(lambda x: x[before], data.observation)
    values = in_blocks(
        lambda _, *rows: value(*rows), (seen, tf.TensorSpec([], tf.float32)), data.observation, of_policy
    )
    q_values = in_blocks(lambda _, *rows: q(*rows), (seen, done), steps, data.action)
    return Values(q_values * np.float64(scale), values * np.float64(scale)), error * scale


def default_hparams(hparams: HParams, folder: str, gamma: float, overrides: dict[str, Any]) -> FQEHParams:
    """Returns the frozen hparams of a fit, for the policy of a run.

    hparams: of the run.
    overrides: what differs, by name.

    Raises:
        UsageError: an unknown name, a wrong value.
    """
    for name, instead in {"gamma": "--gamma", "data": "--data", "env": "the run says it"}.items():
        if name in overrides:
            raise UsageError(f"--hparam_override {name}: it is none of fitted Q evaluation's ({instead})")
    known = {*FQEHParams.__annotations__, *OPTIMIZED} - {"algo", "memory"}
    for name in overrides:
        if name in FQEHParams.model_fields and name not in known:
            near = nearest(name, [*known, "model.hidden"])
            raise UsageError(f"--hparam_override {name}: it is none of fitted Q evaluation's ({near})")
    found = FQEHParams.of(model_of(hparams), data=folder, gamma=gamma, compile=hparams.compile)
    found.model.layer_norm = True  # without it values diverge if the policy is far from the data
    found.assign(overrides)
    return found.freeze()
