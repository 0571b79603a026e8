"""All games of a policy against every sequence of the opponent's moves: can the policy be beaten at all?"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from rl.agents.agent import Agent
from rl.envs.graph.versus import Versus
from rl.envs.graph_host import make_graph
from rl.errors import UsageError
from rl.ops import random
from rl.types import Nest

MOST = 1_000_000  # games; those with large boards have more


class Outcomes(NamedTuple):
    """Counts the games that the policy won, drew and lost."""

    wins: int
    draws: int
    losses: int


def all_games(agent: Agent, side: int) -> Outcomes:
    """Plays an agent's best actions as the player `side`, 0 or 1, against every sequence of replies.

    Raises:
        UsageError: its environment is no game of two by turns, or has more than a million such games; its
            policy keeps a state.
    """
    if tf.nest.flatten(agent.initial_state(1)):
        raise UsageError(
            f"model {agent.hparams.model.name} remembers: all games are played position by position"
        )
    seed, step = random.key(0), tf.constant(0, tf.int64)
    options = agent.hparams.env_kwargs | {"opponent": "random"}  # is never asked

    def act(observation: Nest) -> np.ndarray:
        return np.asarray(agent.act(observation, (), seed, step, False)[0])

    def env_of(count: int) -> Versus:
        env = make_graph(agent.hparams.env, count, options, None, agent.hparams.view)
        assert isinstance(env, Versus)  # or it would have been refused
        return env

    return _outcomes(env_of, act, side)


def _outcomes(env_of: Callable[[int], Versus], act: Callable[[Nest], np.ndarray], side: int) -> Outcomes:
    """Searches breadth-first: all positions after n moves together, one for each game that leads there."""
    physics = env_of(1).game.initial(random.key(0))
    found = np.zeros(3, int)
    while (count := int(tf.nest.flatten(physics)[0].shape[0])) > 0:
        if count > MOST:
            raise UsageError(f"there are more than {MOST:,} games: play it against random or uct_100")
        env = env_of(count)
        legal = env.game.legal_moves(physics).numpy()
        own = env.game.turn(physics).numpy() == side
        chosen = act(env.seen(physics, tf.fill([count], side)))
        legal[own] &= np.eye(legal.shape[1], dtype=bool)[np.minimum(chosen, legal.shape[1] - 1)][own]
        row, move = np.nonzero(legal)
        physics = tf.nest.map_structure(lambda x, row=row: tf.gather(x, row), physics)
        physics, paid, over = env.game.play(physics, tf.constant(move, tf.int32))
        result = np.where(own[row], paid.numpy(), -paid.numpy())[over.numpy()]
        found += [(result > 0).sum(), (result == 0).sum(), (result < 0).sum()]
        going = np.flatnonzero(~over.numpy())
        physics = tf.nest.map_structure(lambda x, going=going: tf.gather(x, going), physics)
    return Outcomes(*map(int, found))
