"""Actions from action values: greedy, or uniformly random with a probability that is annealed."""

from __future__ import annotations

from typing import Protocol

import tensorflow as tf

from rl.agents.algos.act_select.registry import register
from rl.errors import UsageError
from rl.ops import random, schedules
from rl.registry import check_hparams
from rl.types import PolicyOutput, Tensor

NEEDS_VALUES = "act_select epsilon_greedy needs action values, which this algorithm lacks: take sample"


class EpsilonHParams(Protocol):
    """The hyperparameters that `EpsilonGreedy` reads."""

    exploration_epsilon_start: float
    exploration_epsilon_end: float
    exploration_steps: int
    evaluation_epsilon: float


@register
def epsilon_greedy(hparams: EpsilonHParams) -> EpsilonGreedy:
    """The best action, or with probability epsilon (annealed linearly over steps) a uniformly random one."""
    return EpsilonGreedy(hparams)


class EpsilonGreedy:
    """Action selection that logs its epsilon."""

    def __init__(self, hparams: EpsilonHParams):
        self.hparams = hparams

    def epsilon(self, step: Tensor) -> Tensor:
        """Returns the probability of a random action in training."""
        hparams = self.hparams
        start, end = hparams.exploration_epsilon_start, hparams.exploration_epsilon_end
        return schedules.linear(step, start, end, hparams.exploration_steps)

    def scalars(self, step: int) -> dict[str, float]:
        """Returns what the agent logs of it with every row."""
        return {"train/exploration_epsilon": float(self.epsilon(tf.constant(step)))}

    def __call__(
        self, output: PolicyOutput, seed: Tensor, step: Tensor, training: bool
    ) -> tuple[Tensor, Tensor]:
        if output.q_values is None:
            raise UsageError(NEEDS_VALUES)
        check_hparams(self.hparams, EpsilonHParams, "act_select epsilon_greedy")
        epsilon = self.epsilon(step) if training else tf.constant(self.hparams.evaluation_epsilon, tf.float32)
        return best_or_any(output, seed, epsilon)


def best_or_any(output: PolicyOutput, seed: Tensor, epsilon: Tensor) -> tuple[Tensor, Tensor]:
    """Returns the action of highest value, or with probability epsilon (float32 scalar or [N]) a uniformly
    random legal one: int32 [N] and its log-probability [N]; of agents who act together [N, agents] and
    [N]."""
    q_values = output.q_values  # [N, A], or [N, agents, A], of whom each explores by itself
    lead = q_values.shape[:-1]
    greedy = tf.argmax(q_values, -1, output_type=tf.int32)
    explore_seed, action_seed = random.split(seed, 2)
    if lead.rank > 1 and epsilon.shape.rank:
        epsilon = epsilon[:, None]
    explores = random.uniform(explore_seed, lead) < epsilon  # [N] or [N, agents]
    anything, chance = uniform_action(output, action_seed)
    action = tf.where(explores, anything, greedy)
    chance = epsilon * chance
    log_prob = tf.math.log(tf.where(tf.equal(action, greedy), 1.0 - epsilon + chance, chance))
    return action, log_prob if lead.rank == 1 else tf.reduce_sum(log_prob, 1)


def uniform_action(output: PolicyOutput, seed: Tensor) -> tuple[Tensor, Tensor]:
    """Returns a uniformly random legal action int32 [N], and the probability of each legal one (scalar or
    [N]); of agents who act together [N, agents]."""
    scores = output.q_values if output.distribution is None else output.distribution.logits  # [N, A]
    *lead, actions = scores.shape
    if output.action_mask is None:
        return random.randint(seed, lead, actions), tf.constant(1.0 / actions)
    legal = tf.reshape(output.action_mask, scores.shape)  # [N, A], or [N, agents, A]
    lots = tf.where(legal, random.uniform(seed, scores.shape), -1.0)
    number = tf.reduce_sum(tf.cast(legal, tf.float32), -1)  # [N]
    return tf.argmax(lots, -1, output_type=tf.int32), 1.0 / tf.maximum(number, 1.0)
