"""Curiosity (hparam `curiosity`) in a run: checks that the run supports it, and makes the module."""

from __future__ import annotations

from typing import Any

from rl.agents.agent import Agent
from rl.agents.curiosity import Curiosity, make_curiosity
from rl.errors import UsageError
from rl.hparams.hparams import HParams
from rl.parallel.devices import Devices


def check_curious_here(hparams: HParams, experience: str, workers: Any, strategy: Any) -> None:
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
    if workers is not None:
        raise UsageError(f"{said}: what is new is found in this process, leave --num_workers out")
    if Devices(strategy).count > 1:
        raise UsageError(f"{said}: what is new is found on one device, show it one of them")


def curiosity_of(agent: Agent[Any], seed: int) -> Curiosity | None:
    """Returns the curiosity module that an agent's hparams name; None if they name none.

    Raises:
        UsageError: the environment is one of many agents.
    """
    hparams = agent.hparams
    if hparams.curiosity is not None and (agent.rows_of_env > 1 or hparams.view != "rows"):
        raise UsageError(
            f"curiosity={hparams.curiosity} is for one agent, {hparams.env} has several here: leave it out"
        )
    return make_curiosity(hparams, agent.observation_space, agent.action_space, seed)
