"""Extra evaluations that are only logged: on the training levels, against other opponents."""

from __future__ import annotations

from collections.abc import Callable

from rl.agents.agent import Agent
from rl.runners.evaluate import Evaluator


class Beside:
    """Evaluates with other options of the environment than the main evaluation, only to log the results.

    Args:
        agent: whose hparams say which.
        episodes: of each.
    """

    def __init__(self, agent: Agent, episodes: int):
        hparams = agent.hparams
        self._levels = None  # of those trained on, where the evaluation is on others
        if hparams.train_env_kwargs.get("num_levels") and not hparams.offline:
            options = hparams.env_kwargs | hparams.train_env_kwargs
            self._levels = Evaluator(agent, episodes, options)
        self._opponents = {
            name: Evaluator(agent, episodes, hparams.env_kwargs | {"opponent": name})
            for name in hparams.league.also_against
        }

    def metrics(self, seed: int, mean: float, stopped: Callable[[], bool]) -> dict[str, float]:
        """Plays; returns what is logged. mean: return of the evaluation itself. Raises Stopped as
        `Evaluator.run`."""
        row: dict[str, float] = {}
        if self._levels is not None:
            familiar = float(self._levels.run(seed, stopped).returns.mean())
            row |= {"eval/train_levels_return_mean": familiar, "eval/generalization_gap": familiar - mean}
        for name, evaluator in self._opponents.items():
            scores = evaluator.scores(evaluator.run(seed, stopped))
            row |= {f"eval/{key}_against_{name}": each for key, each in scores.items()}
        return row

    def close(self) -> None:
        """Frees the environments."""
        for each in (self._levels, *self._opponents.values()):
            if each is not None:
                each.close()
