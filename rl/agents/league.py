"""A league: an agent's past selves, as opponents in self-play.

Their weights are stacked in variables [K, ...]; member k is played by the agent's own networks, in which the
k-th weights stand for its own (as a population's do). Every member computes all rows, of which each
environment takes its opponent's: K members take K times the arithmetic of acting.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import keras
import tensorflow as tf

from rl.agents.agent import Agent
from rl.ops.league import draw_opponents, hard_weights, updated_elo, updated_win_rate
from rl.types import Nest, Tensor


class Who(NamedTuple):
    """Opponents of B environments."""

    member: Tensor  # [B] int32, K: the present self
    memory: Nest  # [B, ...] its recurrent state


class League:
    """Past selves of an agent, first the untrained one; implements `rl.envs.graph.versus.Opponents`.

    They sample their actions as in training, and explore as the learner does at that time. When a member is
    replaced during a game, the new one plays on, and the game counts for it.

    Args:
        agent: who learns.

    Attributes:
        win_rate: [K] the learner's mean score against each member, over about the last 100 games.
        elo: [K] ratings of the members: the learner's rating when they entered, which does not change.
        rating: of the learner; the untrained policy has 0.
        entered: int64, how many members ever entered; the n-th one, from 0, has place n modulo K.
    """

    def __init__(self, agent: Agent[Any]):
        self.agent, self.hparams = agent, agent.hparams.league
        self.size = self.hparams.size
        self._live = agent.policy_variables
        self.weights = {name: _variable(self._repeated(each)) for name, each in self._live.items()}
        self.win_rate = _variable(tf.fill([self.size], 0.5))
        self.elo = _variable(tf.zeros([self.size]))
        self.rating = _variable(tf.constant(0.0))
        self.entered = _variable(tf.constant(1, tf.int64))
        self._now = _variable(tf.constant(0, tf.int64))  # environment steps before the rollout under way
        self.last_step = _variable(tf.constant(0, tf.int64))  # environment steps when the last one entered

    @property
    def variables(self) -> dict[str, Any]:
        """All its state, by name."""
        names = "win_rate", "elo", "rating", "entered", "last_step"
        tables = {f"league/{name}": getattr(self, name) for name in names}
        return tables | {f"league/weights/{name}": each for name, each in self.weights.items()}

    def begin(self) -> None:
        """Makes the agent's present self the first member, of a league that has not played yet."""
        for name, each in self._live.items():
            self.weights[name].assign(self._repeated(each))

    def _repeated(self, variable: Any) -> Tensor:
        return tf.repeat(tf.convert_to_tensor(variable)[None], self.size, 0)

    def there(self) -> Tensor:
        """Returns which places have a member, bool [K]."""
        return tf.range(self.size, dtype=tf.int64) < self.entered

    def start(self, count: int, seed: Tensor) -> Who:
        """Draws the opponents of `count` episodes, as `league.sampling` says."""
        hparams = self.hparams
        weights = tf.ones([self.size])
        if hparams.sampling == "pfsp":
            weights = hard_weights(tf.convert_to_tensor(self.win_rate), hparams.pfsp_power)
        weights = tf.where(self.there(), weights, 0.0)
        member = draw_opponents(weights, hparams.present, seed, count)
        return Who(member, self.agent.initial_state(count))

    def act(self, physics: Nest, observation: Nest, who: Who, seed: Tensor) -> tuple[Tensor, Who]:
        """Returns the opponents' actions [B], each by its own weights, and their new recurrent states."""
        live = list(self._live.values())
        # Read here: the scope below would hide the one in which a caller may have replaced them.
        stacks = [tf.convert_to_tensor(each) for each in self.weights.values()]
        action, memory = self._acts(observation, who.memory, seed)

        def body(k: Tensor, action: Tensor, memory: Nest) -> tuple[Tensor, Tensor, Nest]:
            pairs = [(each, tf.gather(stack, k)) for each, stack in zip(live, stacks, strict=True)]
            with keras.StatelessScope(state_mapping=pairs):
                found = self._acts(observation, who.memory, seed)
            chosen = who.member == k
            kept = tf.nest.map_structure(
                lambda new, old: tf.where(tf.reshape(chosen, [-1] + [1] * (old.shape.rank - 1)), new, old),
                found,
                (action, memory),
            )
            return k + 1, *kept

        count = tf.cast(tf.minimum(tf.convert_to_tensor(self.entered), self.size), tf.int32)
        start = tf.constant(0), action, memory
        action, memory = tf.while_loop(lambda k, *_: k < count, body, start, maximum_iterations=self.size)[1:]
        return action, who._replace(memory=memory)

    def admit(self, step: Tensor) -> None:
        """Lets the present self enter where that is due. step: environment steps so far, int64."""
        hparams, there = self.hparams, self.there()
        self._now.assign(step)
        least = tf.reduce_min(tf.where(there, tf.convert_to_tensor(self.win_rate), 1.0))
        due = (step - self.last_step >= hparams.period) | (least > hparams.win_rate)
        place = due & (tf.range(self.size, dtype=tf.int64) == self.entered % self.size)  # [K]

        def put(variable: Any, value: Any) -> None:
            shape = [self.size] + [1] * (len(variable.shape) - 1)
            variable.assign(tf.where(tf.reshape(place, shape), value, variable))

        for name, stack in self.weights.items():
            put(stack, tf.convert_to_tensor(self._live[name])[None])
        put(self.win_rate, 0.5)
        put(self.elo, self.rating)
        self.last_step.assign(tf.where(due, step, self.last_step))
        self.entered.assign_add(tf.cast(due, tf.int64))

    def take(self, games: Tensor, score: Tensor) -> None:
        """Updates win rates and ratings with the numbers of games [K + 1] that have ended against each
        opponent and the sums of their scores; games against the present self (the last entry) are ignored."""
        games, score = games[: self.size], score[: self.size]
        self.win_rate.assign(updated_win_rate(self.win_rate, games, score))
        self.rating.assign(updated_elo(self.rating, self.elo, games, score))

    def scalars(self) -> dict[str, float]:
        """Returns the values for every row of metrics; members are named by their number."""
        there = int(min(self.size, int(self.entered)))
        rate, elo = self.win_rate.numpy()[:there], self.elo.numpy()[:there]
        found = {
            "league/entered": float(self.entered),
            "league/elo": float(self.rating),
            "league/win_rate_mean": float(rate.mean()),
            "league/win_rate_min": float(rate.min()),
        }
        for k in range(there):
            found |= {f"league/win_rate_{k}": float(rate[k]), f"league/elo_{k}": float(elo[k])}
        return found

    def _acts(self, observation: Nest, memory: Nest, seed: Tensor) -> tuple[Tensor, Nest]:
        agent, now = self.agent, self._now.value()
        if agent.stochastic:  # without the random actions of a beginning
            found = agent.act(observation, memory, seed, now, False, sampled=True)
        else:  # the best action always would be the same game over and over
            found = agent.act(observation, memory, seed, now, True)
        return found[0], found[2]


def _variable(value: Tensor) -> tf.Variable:
    return tf.Variable(value, trainable=False)
