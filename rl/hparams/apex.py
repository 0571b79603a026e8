"""Named sets of Ape-X: DQN and DDPG with prioritized memory and many who explore, made for `--num_workers`.

Horgan et al. 2018, "Distributed prioritized experience replay", https://arxiv.org/abs/1803.00933. Transitions
enter the memory with the largest priority so far, not with one that the worker computed.
"""

from __future__ import annotations

from rl.hparams.ddpg import DDPGHParams, ddpg, ddpg_pendulum
from rl.hparams.dqn import CARTPOLE, DQNHParams, dqn
from rl.hparams.registry import register


@register
def apex_dqn() -> DQNHParams:
    """Ape-X DQN, double, dueling, prioritized, 3-step returns: give --env ID and --num_workers N."""
    return dqn(act_select="per_worker_epsilon", dueling=True, prioritized=True, n_step=3)


@register
def apex_dqn_cartpole() -> DQNHParams:
    """Ape-X DQN on CartPole-v1, double, dueling, prioritized, 10-step returns: give --num_workers N."""
    return apex_dqn(CARTPOLE, train_steps=120_000)  # with DQN's 50,000 some seeds are half-way


@register
def apex_ddpg() -> DDPGHParams:
    """Ape-X DDPG, prioritized, 5-step returns, for continuous actions: give --env ID and --num_workers N."""
    return ddpg(prioritized=True, n_step=5)


@register
def apex_ddpg_pendulum() -> DDPGHParams:
    """Ape-X DDPG on Pendulum-v1, prioritized: give --num_workers N."""
    return ddpg_pendulum(prioritized=True)
