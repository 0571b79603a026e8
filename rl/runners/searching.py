"""In-graph runs whose algorithm searches before it acts (`rl.agents.contracts.Searches`)."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from rl.agents.contracts import Searches
from rl.envs.graph.model import model_of
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.hparams.league import LEAGUE
from rl.parallel.devices import Devices
from rl.runners.in_graph import Carry, InGraphRunner
from rl.runners.iteration import Iteration
from rl.runners.parts import check_compiled_loop, check_own_rewards
from rl.types import Nest, Tensor


def check_searched_here(hparams: HParams, workers: Any) -> None:
    """Raises UsageError where there is no model to search in, or its rewards are not those that are learned
    from."""
    check_compiled_loop(
        hparams, workers, "searches", ", and an in-graph environment alone is a model of itself"
    )
    if (hparams.env_kwargs | hparams.train_env_kwargs).get("opponent") == LEAGUE:
        raise UsageError(
            f"opponent=league: {hparams.algo} plays both sides, take train_env_kwargs={{opponent:self}}"
        )
    check_own_rewards(hparams, "searches for")


class SearchRunner(InGraphRunner):
    """Runs an environment in which a tree search chooses every action of training, in the compiled loop.

    Args: as of `InGraphRunner`.
    """

    def __init__(self, env: Any, iteration: Iteration, jit_compile: bool, devices: Devices):
        self._model, agent = model_of(env), iteration.agent
        assert isinstance(agent, Searches)  # or another runner would run it
        if self._model.sign < 0.0 and "score" in agent.planned():
            raise UsageError("rank_percentile: ranks are for one player, leave it out of games for two")
        self._planner: Searches = agent
        super().__init__(env, iteration, jit_compile, devices)

    def _act(self, carry: Carry, seed: Tensor, step: Tensor) -> tuple[Nest, dict[str, Tensor], Nest]:
        score = tf.where(carry.ended, 0.0, tf.repeat(carry.running.episode_return, self.env.agents))
        position = self._model.position(carry.state, carry.observation, score)
        return *self._planner.plan(self._model, position, seed, step), carry.recurrent_state

    def _kept(self) -> dict[str, tuple[int, ...]]:
        return self._planner.planned()
