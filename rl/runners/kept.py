"""Reuse of a finished run's compiled functions, for later copies and for its own test episodes."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from rl.agents.agent import Agent
from rl.hparams.hparams import HParams
from rl.runners.base import Runner
from rl.runners.evaluate import Evaluator

LARGEST = 1 << 28  # most bytes of a kept runner's variables: the next runner's exist at the same time


class Kept:
    """Keeps the runner and the evaluator of one set of hyperparameters, to be closed by `close`."""

    def __init__(self) -> None:
        self._runner: Runner | None = None
        self._evaluator: Evaluator | None = None
        self._agent: Agent[Any] | None = None
        self._hparams: HParams | None = None

    def compiled(self, hparams: HParams, built: Runner) -> Runner:
        """Returns the kept runner, reset to the initial state of the one just built for these
        hyperparameters; `built` itself if none is kept."""
        kept, self._runner = self._runner, None
        if kept is None or hparams is not self._hparams:
            self.close()
            return built
        kept.begin_as(built)
        return kept

    def agent_of(self, hparams: HParams | None) -> Agent[Any] | None:
        """Returns the kept agent if it has these hyperparameters, with whatever weights; else None."""
        return self._agent if hparams is self._hparams else None

    def take_evaluator(self, agent: Agent[Any], episodes: int) -> Evaluator:
        """Returns the kept evaluator, or makes one; the caller closes it."""
        kept, self._evaluator = self._evaluator, None
        if kept is not None and kept.agent is agent and kept.episodes == episodes:
            return kept
        if kept is not None:
            kept.close()
        return Evaluator(agent, episodes)

    @contextlib.contextmanager
    def evaluator_of(self, agent: Agent[Any], episodes: int) -> Iterator[Evaluator]:
        """Lends an evaluator."""
        evaluator = self.take_evaluator(agent, episodes)
        try:
            yield evaluator
        except BaseException:
            evaluator.close()
            raise
        if agent is self._agent:
            self._evaluator = evaluator
        else:
            evaluator.close()

    def keep(self, hparams: HParams, runner: Runner, evaluator: Evaluator | None) -> None:
        """Keeps the parts of a finished run that another run can reuse. The caller closes the runner."""
        self.close()
        if runner.devices.count > 1:
            if evaluator is not None:
                evaluator.close()
            return
        self._agent, self._hparams, self._evaluator = runner.agent, hparams, evaluator
        size = sum(tf.as_dtype(x.dtype).size * math.prod(x.shape) for x in runner.variables.values())
        self._runner = runner if runner.repeatable and size <= LARGEST else None

    def close(self) -> None:
        """Closes what is kept."""
        if self._evaluator is not None:
            self._evaluator.close()
        self._runner = self._evaluator = self._agent = self._hparams = None
