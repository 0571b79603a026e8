"""Self-play: an in-graph run whose opponents are the learner's past selves (`rl.agents.league`)."""

from __future__ import annotations

from typing import Any, NamedTuple

import tensorflow as tf

from rl.agents.league import League, Who
from rl.envs.graph.base import GraphEnv, GraphState
from rl.envs.graph.versus import Versus
from rl.errors import UsageError
from rl.ops.episodes import Episodes
from rl.parallel.devices import Devices
from rl.runners.in_graph import InGraphRunner
from rl.runners.iteration import Iteration
from rl.types import Tensor, TimeStep, Trajectory


class CountedState(NamedTuple):
    """Games under way, and the sums of those that have ended."""

    state: GraphState
    total: Tensor  # [B] the learner's return so far
    games: Tensor  # [K + 1] ended against each opponent
    score: Tensor  # [K + 1] what they brought the learner: win 1, draw 0.5


class Counted(GraphEnv):
    """Games that count who won against whom. members: K + 1."""

    def __init__(self, env: Versus, members: int):
        super().__init__(env.num_envs)
        self.env, self._members = env, members
        self.observation_space, self.action_space = env.observation_space, env.action_space

    def reset(self, seed: Tensor) -> tuple[CountedState, TimeStep]:
        """Does what `GraphEnv.reset` says."""
        state, step = self.env.reset(seed)
        none = tf.zeros([self._members])
        return CountedState(state, tf.zeros([self.num_envs]), none, none), step

    def step(self, state: CountedState, action: Tensor, seed: Tensor) -> tuple[CountedState, TimeStep]:
        """Does what `GraphEnv.step` says."""
        following, step = self.env.step(state.state, action, seed)
        total = tf.where(state.state.episode_end, 0.0, state.total) + step.reward  # [B]
        who: Who = state.state.physics.who
        ended = tf.cast(following.episode_end, tf.float32)[:, None] * tf.one_hot(who.member, self._members)
        score = 0.5 + 0.5 * tf.sign(total)
        games = state.games + tf.reduce_sum(ended, 0)
        return CountedState(following, total, games, state.score + tf.linalg.matvec(ended, score, True)), step


class SelfPlayRunner(InGraphRunner):
    """Runs games against a league of past selves, all of it in the compiled loop.

    Args:
        env: games without opponents, which are made here.
        iteration, jit_compile, devices: as of `InGraphRunner`.

    Raises:
        UsageError: several devices; an algorithm that compares parameters.
    """

    def __init__(self, env: Any, iteration: Iteration, jit_compile: bool, devices: Devices):
        agent = iteration.agent
        if devices.count > 1:
            raise UsageError("opponent=league: past selves play on one device, show it one of them")
        if agent.experience == "parameters":
            raise UsageError(f"opponent=league: {agent.hparams.algo} has no self that learns: take ppo")
        if not isinstance(env, Versus):
            raise UsageError(
                "opponent=league: past selves see the game alone: leave previous_action_reward out"
            )
        with devices.scope():
            self.league = env.opponents = League(agent)
        super().__init__(Counted(env, self.league.size + 1), iteration, jit_compile, devices)

    @property
    def variables(self) -> dict[str, Any]:
        return super().variables | self.league.variables

    def started_from_another(self) -> None:
        self.league.begin()

    def scalars(self) -> dict[str, float]:
        return super().scalars() | self.league.scalars()

    def _rollout(self, seed: Tensor, step: Tensor) -> tuple[Trajectory, Episodes]:
        """Admits the present self to the league where that is due, plays a rollout, and counts its games."""
        self.league.admit(step)
        found = super()._rollout(seed, step)
        counted = self._carry.state
        self.league.take(counted.games.value(), counted.score.value())
        for each in (counted.games, counted.score):
            each.assign(tf.zeros_like(each))
        return found
