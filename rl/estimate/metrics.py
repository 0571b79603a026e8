"""Off-policy estimates in the metrics of a run that learns from data (hparam `estimate`)."""

from __future__ import annotations

import math
from typing import Any

from rl.agents.agent import Agent
from rl.data.dataset import read
from rl.envs.of_data import telling
from rl.errors import UsageError
from rl.estimate.behaviour import clone, no_ratios, recorded
from rl.estimate.estimators import estimates
from rl.estimate.policy import DataPolicy

LOGGED = ("is", "wis", "pdis", "wpdis")
RESAMPLES = 200  # for an interval; the command makes more


class DataEstimator:
    """Importance sampling, in its four forms, on the data that a run learns from: fitted Q evaluation, which
    the other estimators need, would take longer than the training between two evaluations.

    If the data do not record the probabilities of their actions, the constructor clones the behaviour policy.

    Args:
        agent: whose policy is estimated, with the weights that it has at the call.
        seed: of the run.

    Raises:
        UsageError: the policy has no importance ratios.
    """

    def __init__(self, agent: Agent[Any], seed: int):
        hparams = agent.hparams
        self._data = data = telling(hparams, read(hparams.data))
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

    def metrics(self) -> dict[str, float]:
        """Returns the metrics: each estimate with its 95 % interval (`_low`, `_high`). Estimates are left out
        if the policy gives all episodes probability 0."""
        log_ratio = self._policy.log_prob() - self._played
        found = estimates(LOGGED, self._data, self._gamma, log_ratio, None, RESAMPLES)
        size = found["is"].effective_sample_size
        rows = {"estimate/effective_sample_size": size}
        for name in LOGGED if size > 0.0 else ():
            numbers = {"": found[name].estimate, "_low": found[name].low, "_high": found[name].high}
            rows |= {f"estimate/{name}{end}": number for end, number in numbers.items()}
        return {name: number for name, number in rows.items() if math.isfinite(number)}
