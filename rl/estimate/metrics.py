"""Off-policy estimates in the metrics of a run that learns from data (hparam `estimate`)."""

from __future__ import annotations

import math
from typing import Any

from rl.agents.agent import Agent
from rl.data.dataset import read
from rl.errors import UsageError
from rl.estimate.behaviour import clone, no_ratios, recorded
from rl.estimate.policy import DataPolicy
from rl.ops import estimation


class DataEstimator:
    """Weighted importance sampling on the data that a run learns from: fitted Q evaluation would take too
    long.

    If the data do not record the probabilities of their actions, the constructor clones the behaviour policy.

    Args:
        agent: whose policy is estimated, with the weights that it has at the call.
        seed: of the run.

    Raises:
        UsageError: the policy has no importance ratios.
    """

    def __init__(self, agent: Agent[Any], seed: int):
        hparams = agent.hparams
        self._data = data = read(hparams.data)
        self._policy = DataPolicy(agent, data, hparams.data)
        self._gamma = hparams.gamma
        if not self._policy.has_density:
            raise UsageError(
                f"estimate=true: {hparams.algo} takes one action in a continuous space, never the data's: "
                "leave it out (python -m rl.estimate --estimators dm estimates it)"
            )
        why = no_ratios(data)
        if why:
            raise UsageError(f"estimate=true: {why}: leave it out (python -m rl.estimate --estimators dm)")
        played = recorded(data)
        if played is None:
            played = DataPolicy(clone(data, hparams.data, hparams, seed), data, hparams.data).log_prob()
        self._played = played
        self._reward = estimation.padded(data.reward, data.lengths)

    def metrics(self) -> dict[str, float]:
        """Returns the metrics; estimates are left out if the policy gives all episodes probability 0."""
        ratios = estimation.padded(self._policy.log_prob() - self._played, self._data.lengths)
        arguments = ratios, self._reward, self._gamma
        found = {
            "estimate/wis": estimation.estimate(estimation.weighted_importance_sampling(*arguments)),
            "estimate/wpdis": estimation.estimate(estimation.weighted_per_decision(*arguments)),
            "estimate/effective_sample_size": estimation.effective_sample_size(ratios),
        }
        return {name: float(value) for name, value in found.items() if math.isfinite(value)}
