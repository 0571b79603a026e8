"""Curiosity (hparam `curiosity`) in a run: checks that the run supports it, and makes the module."""

from __future__ import annotations

from typing import Any

from rl.agents.agent import Agent
from rl.agents.curiosity import Curiosity, make_curiosity
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.parallel.devices import Devices


def check_curious_here(hparams: HParams, experience: str, strategy: Any) -> None:
    """Raises UsageError where a run does not support intrinsic rewards, before anything is built."""
    said = f"curiosity={hparams.curiosity}"
    if experience == "parameters":
        raise UsageError(
            f"{said}: {hparams.algo} compares parameters by the returns of their episodes, which what was "
            "new to others would change: leave it out, or take another algorithm, such as ppo"
        )
    if hparams.data or hparams.demonstrated or hparams.taught:
        raise UsageError(
            f"{said} rewards what is played, {hparams.algo} learns from others here: leave it out"
        )
    if hparams.num_learners > 1 or hparams.buffer_shards:
        raise UsageError(
            f"{said}: what is new is found by one learner, in rollouts: leave num_learners and buffer_shards "
            "out"
        )
    if Devices(strategy).count > 1:
        raise UsageError(f"{said}: what is new is found on one device, show it one of them")


def curiosity_of(agent: Agent[Any], seed: int, workers: int | None = None) -> Curiosity | None:
    """Returns the curiosity module that an agent's hparams name; None if they name none.

    workers: how many processes send rollouts; None: this one makes them all.

    Raises:
        UsageError: the environment is one of many agents.
    """
    hparams = agent.hparams
    if hparams.curiosity is not None and (agent.rows_of_env > 1 or hparams.view != "rows"):
        raise UsageError(
            f"curiosity={hparams.curiosity} is for one agent, {hparams.env} has several here: leave it out"
        )
    return make_curiosity(hparams, agent.observation_space, agent.action_space, seed, workers)
