"""DAgger: data set aggregation, behaviour cloning of what an expert would have done where the learner goes.

Ross, Gordon & Bagnell 2011, "A reduction of imitation learning and structured prediction to no-regret online
learning", https://arxiv.org/abs/1011.0686 (algorithm 3.1): the i-th rollout is played by the mixture
beta_i expert + (1 - beta_i) learner, beta_i = p^(i - 1). Each observation of a rollout is stored with the
action that the expert takes there, and the learner is fitted to the data of all rollouts: -log pi(a | s), as
in `rl/agents/algos/bc.py`. p is `beta`; with 0, the paper's choice without tuning, the expert plays the first
rollout and the learner all others. The environment's reward is not used.

Deviations from the paper:

1. The policy goes on learning from rollout to rollout, by `updates_per_iteration` gradient steps after each
   one; the paper fits a new one each time.
2. Episodes go on from one rollout to the next.
3. With `data`, episodes that the expert has played before are `data_share` of each batch.
4. The newest `replay_capacity` observations are kept; the paper keeps all.
5. The best policy is the one of the best evaluation, as with every algorithm here; in the paper, that of the
   least loss on held-out data.
"""

from __future__ import annotations

from typing import Any

import tensorflow as tf
from gymnasium import spaces

from rl.agents.agent import Agent
from rl.agents.algos.act_select.registry import get_act_select
from rl.agents.algos.registry import register
from rl.agents.cloning import Cloning
from rl.agents.contracts import StatefulActSelect
from rl.hparams.dagger import DAggerHParams
from rl.ops import random
from rl.ops.nests import flatten_time, without_last
from rl.types import Nest, Tensor, Trajectory

COIN, ADVICE = 3, 4  # what random numbers are for, beside those that `Agent.act` folds in


@register
class DAgger(Cloning[DAggerHParams]):
    """Imitation of an expert that labels every observation which the policy meets."""

    def build(self) -> None:
        super().build()
        self.expert: Agent[Any] | None = None  # needed to learn, not to act

    def take_expert(self, expert: Agent[Any]) -> None:
        """Takes the expert, to be asked for its policy alone: what noise or `evaluation_epsilon` make of an
        action is no answer."""
        noisy = isinstance(expert.act_select, StatefulActSelect)
        if noisy or getattr(expert.hparams, "evaluation_epsilon", 0.0) > 0.0:
            expert.act_select = get_act_select("greedy")(self.hparams)
        self.expert = expert

    def advice(self, observation: Nest, seed: Tensor) -> Tensor:
        """Returns the expert's actions for observations [N, ...], within the bounds of a Box."""
        assert self.expert is not None  # whoever builds a run gives one
        sampled = self.expert.hparams.eval_policy == "sample"
        action, _, _ = self.expert.act(observation, (), seed, tf.constant(0, tf.int64), False, sampled)
        space = self.action_space
        return tf.clip_by_value(action, space.low, space.high) if isinstance(space, spaces.Box) else action

    def share(self, step: Tensor) -> Tensor:
        """Returns beta_i: the chance that the expert acts at `step` environment steps, float32 scalar."""
        rollout = tf.cast(step // self.steps_per_iteration, tf.float32)  # i - 1
        return tf.pow(tf.constant(self.hparams.beta, tf.float32), rollout)

    def act(
        self,
        observation: Nest,
        recurrent_state: Nest,
        seed: Tensor,
        step: Tensor,
        training: bool,
        sampled: bool = False,
    ) -> tuple[Nest, dict[str, Tensor], Nest]:
        """Does what `Agent.act` says; in training the expert acts in a share of the steps."""
        own, extras, state = super().act(observation, recurrent_state, seed, step, training, sampled)
        if not training or self.expert is None:
            return own, extras, state
        coin = random.uniform(random.fold_in(seed, COIN), [own.shape[0]]) < self.share(step)  # [N]
        coin = tf.reshape(coin, [-1] + [1] * (own.shape.rank - 1))
        return tf.where(coin, self.advice(observation, random.fold_in(seed, ADVICE)), own), extras, state

    def remembered(self, trajectory: Trajectory, seed: Tensor) -> Trajectory:
        """Does what `Agent.remembered` says: with the expert's actions in place of those that were taken."""
        observation = without_last(trajectory.observation)  # [T, B, ...]
        action = self.advice(flatten_time(observation), random.fold_in(seed, ADVICE))  # [T B, ...]
        return trajectory._replace(action=tf.reshape(action, trajectory.action.shape))

    def scalars(self, step: int) -> dict[str, float]:
        return super().scalars(step) | {"train/beta": float(self.share(tf.constant(step, tf.int64)))}

    @property
    def acting_variables(self) -> dict[str, Any]:
        return super().acting_variables | self._expert_variables

    @property
    def variables(self) -> dict[str, Any]:
        """The expert's variables too, so that a resumed run keeps the expert that it began with."""
        return super().variables | self._expert_variables

    @property
    def _expert_variables(self) -> dict[str, Any]:
        found = {} if self.expert is None else self.expert.policy_variables
        return {f"expert/{name}": each for name, each in found.items()}
